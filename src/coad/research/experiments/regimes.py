"""The effect of a known regime on three real machines: milling, SKAB, the hydraulic rig.

Each data set is split several times, by whole cuts (milling) or by whole short blocks of time (SKAB,
hydraulic). The plain and the regime-aware method are trained on the same rows without labels, and
evaluated with labels on the rest. For SKAB and the hydraulic rig flagged rows count as anomalous; for
milling see :mod:`coad.research.experiments.milling`.

F1 measures only the labelled fault. Coincidence finds any factor that both inputs depend on, and one
detector finds the strongest of them; so the run also keeps the flags, for figures.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.labels import f1 as f1_by_labels
from coad.core.labels import label_scores
from coad.data.pairs import Pairs
from coad.exceptions import CoadWarning, InputError
from coad.research.datasets.hydraulic import HydraulicData, load_hydraulic
from coad.research.datasets.skab import SkabData, load_skab
from coad.research.experiments._progress import Progress, silent
from coad.research.experiments.milling import METHODS, MillingRun, run_milling

__all__ = ["RegimeRow", "RegimesRun", "TableRow", "run_regimes", "scaled_within"]

#: Number of consecutive rows in a block.
_BLOCK_ROWS = {"SKAB": 6, "hydraulic": 5}


@dataclass(frozen=True)
class RegimeRow:
    """One method on one split of one data set."""

    dataset: str
    method: str
    split: int
    f1: float
    precision: float
    recall: float
    trivial: float
    flagged: float
    alpha: float
    fbeta_hat: float
    status: str
    seconds: float


@dataclass(frozen=True)
class TableRow:
    """A line of the table: one method on one data set, averaged over the splits."""

    dataset: str
    fault: str
    method: str
    splits: int
    f1: float
    deviation: float
    lowest: float
    trivial: float
    flagged: float
    alpha: float
    fbeta_hat: float
    status: str


@dataclass(frozen=True)
class RegimesRun:
    """One row per split and method; the flags of the whole record, by method, are (splits, rows)."""

    rows: list[RegimeRow]
    sources: dict[str, str]
    skab: SkabData | None = None
    skab_flags: dict[str, BoolArray] | None = None
    hydraulic: HydraulicData | None = None
    hydraulic_flags: dict[str, BoolArray] | None = None

    def table(self) -> list[TableRow]:
        """Return one line per data set and method."""
        lines = []
        for dataset in dict.fromkeys(row.dataset for row in self.rows):
            for method in METHODS:
                own = [row for row in self.rows if (row.dataset, row.method) == (dataset, method)]
                f1 = np.array([row.f1 for row in own])
                lines.append(
                    TableRow(
                        dataset=dataset,
                        fault=_FAULTS[dataset],
                        method=method,
                        splits=len(own),
                        f1=float(f1.mean()),
                        deviation=float(f1.std(ddof=1)) if len(f1) > 1 else 0.0,
                        lowest=float(f1.min()),
                        **{
                            name: float(np.mean([getattr(row, name) for row in own]))
                            for name in ("trivial", "flagged", "alpha", "fbeta_hat")
                        },
                        status=_statuses([row.status for row in own]),
                    )
                )
        return lines


_FAULTS = {
    "milling": "degraded or failed tool",
    "SKAB": "labelled anomaly",
    "hydraulic": "severe pump leakage",
}


def run_regimes(
    datasets: Sequence[str] = ("milling", "SKAB", "hydraulic"),
    *,
    splits: int = 4,
    milling: MillingRun | None = None,
    data: str | Path | None = None,
    beta: float = 1.0,
    n_starts: int = 4,
    epochs: int = 200,
    random_state: int = 0,
    progress: Progress = silent,
) -> RegimesRun:
    """Compare the plain and the regime-aware method.

    Parameters
    ----------
    datasets
        Any of ``"milling"``, ``"SKAB"`` and ``"hydraulic"``.
    splits
        Number of splits of SKAB and the hydraulic rig; milling has 8.
    milling
        An earlier milling run to use instead of running it again.
    data
        The folder that contains the folders of the data sets; by default COAD_DATA.
    beta, n_starts, epochs
        Arguments of :class:`~coad.learned.estimator.CoAD`.
    random_state
        Seed of splits and training.
    progress
        Called with one line after each fit.

    Returns
    -------
    RegimesRun
        One row per split and method, and the flags.
    """
    unknown = [name for name in datasets if name not in _FAULTS]
    if unknown or not datasets:
        raise InputError(
            f"unknown data set {', '.join(unknown) or '(none given)'}; there are {', '.join(_FAULTS)}"
        )
    if splits < 1:
        raise InputError(f"splits must be at least 1, not {splits}")
    settings: dict[str, Any] = {"beta": beta, "n_starts": n_starts, "epochs": epochs}
    rows: list[RegimeRow] = []
    kept: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if "milling" in datasets:
        run = milling or run_milling(
            8,
            data=data,
            **settings,
            random_state=random_state,
            progress=lambda line: progress(f"milling, {line}"),
        )
        rows += _milling_rows(run)
        sources["milling"] = run.source
    for name in (name for name in ("SKAB", "hydraulic") if name in datasets):
        loaded: Any = load_skab(data, stride=10) if name == "SKAB" else load_hydraulic(data)
        sources[name] = loaded.source
        measured, flags = _measure(name, loaded.pairs, splits, settings, random_state, progress)
        rows += measured
        kept |= {name.lower(): loaded, f"{name.lower()}_flags": flags}
    return RegimesRun(rows, sources, **kept)


def scaled_within(fitted: Pairs, other: Pairs, *, regimes: bool) -> tuple[FloatArray, ...]:
    """Scale both sets of pairs by median and standard deviation of each regime in ``fitted``.

    The hydraulic rig has 30 cycles in most regimes, fewer than CoAD needs to scale a regime separately;
    median and deviation are stable enough from about ten rows.

    Parameters
    ----------
    fitted
        The pairs from which medians and deviations are computed.
    other
        Further pairs to scale. Regimes that ``fitted`` does not contain, or of which it has fewer
        than 8 rows, are scaled by all rows.
    regimes
        If false, all rows count as one regime.

    Returns
    -------
    tuple
        s and q of ``fitted``, then s and q of ``other``.
    """
    parts: list[FloatArray] = []
    for name in ("s", "q"):
        x, new = (np.array(getattr(pairs, name), dtype=np.float64) for pairs in (fitted, other))
        own, far = (
            pairs.context if regimes and pairs.context is not None else np.zeros(len(pairs))
            for pairs in (fitted, other)
        )
        middle, spread = np.median(x, axis=0), x.std(axis=0)
        floor = np.where(spread > 0, 0.02 * spread, 1.0)
        out, far_out = (x - middle) / (spread + floor), (new - middle) / (spread + floor)
        for regime in np.unique(own):
            rows = x[own == regime]
            if len(rows) < 8:
                continue
            centre, width = np.median(rows, axis=0), rows.std(axis=0) + floor
            out[own == regime] = (rows - centre) / width
            far_out[far == regime] = (new[far == regime] - centre) / width
        parts += [np.clip(out, -8, 8), np.clip(far_out, -8, 8)]
    return parts[0], parts[2], parts[1], parts[3]


def _measure(
    name: str, pairs: Pairs, splits: int, settings: dict[str, Any], random_state: int, progress: Progress
) -> tuple[list[RegimeRow], dict[str, BoolArray]]:
    from coad.learned.estimator import CoAD  # imports torch

    order = np.argsort(pairs.time if pairs.time is not None else np.arange(len(pairs)), kind="stable")
    block = np.empty(len(pairs), dtype=np.int64)
    block[order] = np.arange(len(pairs)) // _BLOCK_ROWS[name]
    rows: list[RegimeRow] = []
    flags: dict[str, list[BoolArray]] = {}
    for split in range(splits):
        rng = np.random.default_rng([random_state, split])
        blocks = rng.permutation(int(block.max()) + 1)
        test = np.isin(block, blocks[: round(0.3 * len(blocks))])
        train, new = pairs[~test].without_label(), pairs[test]
        new_truth = np.asarray(new.label, dtype=bool)
        for method in METHODS:
            start = time.monotonic()
            regimes = method == "regimes"
            seed = random_state + 1000 * split
            with warnings.catch_warnings():
                # The content of these warnings (status, α) is part of the row.
                warnings.simplefilter("ignore", CoadWarning)
                detector = CoAD(**settings, validation=0.25, split="group", scale=False, random_state=seed)
                s, q, s_all, q_all = scaled_within(train, pairs, regimes=regimes)
                detector.fit(s, q, context=train.context if regimes else None, group=block[~test])
                flagged = detector.predict(s_all, q_all, pairs.context if regimes else None)
                found = detector.evaluate(s_all[test], q_all[test], new.context if regimes else None)
            f1, precision, recall = label_scores(flagged[test], new_truth)
            flags.setdefault(method, []).append(flagged)
            rows.append(
                RegimeRow(
                    dataset=name,
                    method=method,
                    split=split,
                    f1=f1,
                    precision=precision,
                    recall=recall,
                    trivial=f1_by_labels(new_truth, np.ones(len(new))),
                    flagged=float(flagged[test].mean()),
                    alpha=float(detector.alpha_),
                    fbeta_hat=float(found.fbeta_hat),
                    status=str(detector.status_),
                    seconds=time.monotonic() - start,
                )
            )
            progress(
                f"{name}, split {split + 1} of {splits}, {method}: F1 {f1:.3f} (trivial {rows[-1].trivial:.3f})"
            )
    return rows, {method: np.stack(found) for method, found in flags.items()}


def _milling_rows(run: MillingRun) -> list[RegimeRow]:
    same = (
        "method",
        "split",
        "f1",
        "precision",
        "recall",
        "trivial",
        "flagged",
        "alpha",
        "fbeta_hat",
        "status",
    )
    return [
        RegimeRow(dataset="milling", seconds=row.seconds, **{name: getattr(row, name) for name in same})
        for row in run.rows
    ]


def _statuses(values: list[str]) -> str:
    counts = Counter(values)
    if len(counts) == 1:
        return values[0]
    return ", ".join(f"{value} ({number} of {len(values)})" for value, number in counts.most_common())
