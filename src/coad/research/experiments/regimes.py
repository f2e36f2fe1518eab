"""What knowing the regime changes on three real machines: milling, SKAB, the hydraulic rig.

Each data set is split several times, by whole cuts (milling) or by short blocks of time (SKAB,
hydraulic; a block is never torn apart). The plain and the regime-aware method are trained on the
same rows without labels, and judged by labels on the rest. For SKAB and the hydraulic rig what is
flagged counts as anomalous; for milling see :mod:`coad.research.experiments.milling`.

F1 judges only the fault that somebody wrote down. Coincidence finds whatever both inputs follow,
and one detector takes the strongest of it; so the run also keeps what was flagged, for pictures.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
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
from coad.research.experiments.milling import METHODS, MillingRun, run_milling

__all__ = ["RegimeRow", "RegimesRun", "TableRow", "run_regimes", "scaled_within", "write_regimes_page"]

Tell = Callable[[str], None]
#: About how many rows follow each other in a block.
_BLOCK_ROWS = {"SKAB": 6, "hydraulic": 5}


@dataclass(frozen=True)
class RegimeRow:
    """One split of one data set under one method."""

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
    """A line of the table: one data set under one method, over its splits."""

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
    """The rows; and what each split's detector flags in the whole record: (splits, rows), by method."""

    rows: list[RegimeRow]
    sources: dict[str, str]
    skab: SkabData | None = None
    skab_flags: dict[str, BoolArray] | None = None
    hydraulic: HydraulicData | None = None
    hydraulic_flags: dict[str, BoolArray] | None = None

    def table(self) -> list[TableRow]:
        """Plain against regime-aware, a line each."""
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
    n_seeds: int = 4,
    epochs: int = 200,
    random_state: int = 0,
    progress: Tell | None = None,
) -> RegimesRun:
    """Measure the data sets named; ``data`` is the folder above theirs (default: COAD_DATA).

    A :class:`MillingRun` that is there already is taken over; otherwise milling is run with 8 splits.
    """
    unknown = [name for name in datasets if name not in _FAULTS]
    if unknown or not datasets:
        raise InputError(
            f"unknown data set {', '.join(unknown) or '(none given)'}; there are {', '.join(_FAULTS)}"
        )
    if splits < 1:
        raise InputError(f"splits must be at least 1, not {splits}")
    say: Tell = progress if progress is not None else lambda _: None
    settings: dict[str, Any] = {"beta": beta, "n_seeds": n_seeds, "epochs": epochs}
    rows: list[RegimeRow] = []
    kept: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if "milling" in datasets:
        run = milling or run_milling(
            8, data=data, **settings, random_state=random_state, progress=lambda line: say(f"milling, {line}")
        )
        rows += _milling_rows(run)
        sources["milling"] = run.source
    for name in (name for name in ("SKAB", "hydraulic") if name in datasets):
        loaded: Any = load_skab(data, stride=10) if name == "SKAB" else load_hydraulic(data)
        sources[name] = loaded.source
        measured, flags = _measure(name, loaded.pairs, splits, settings, random_state, say)
        rows += measured
        kept |= {name.lower(): loaded, f"{name.lower()}_flags": flags}
    return RegimesRun(rows, sources, **kept)


def scaled_within(fitted: Pairs, other: Pairs, *, regimes: bool) -> tuple[FloatArray, ...]:
    """s and q of ``fitted``, then of ``other``, in deviations from the regime's median in ``fitted``.

    The hydraulic rig has 30 cycles in most regimes, fewer than CoAD asks for to scale a regime by
    itself; median and deviation are steady enough from about ten. Without ``regimes`` all rows are one.
    Regimes that ``fitted`` does not hold are scaled like all rows together.
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


def write_regimes_page(run: RegimesRun, path: Path) -> None:
    """The table and the pictures of what coincidence found, on one page."""
    from coad.report.page import Section, write_page
    from coad.research.figures import regimes as figures

    lines = run.table()
    sections = [
        Section(
            "F1 by labels, plain and with regimes",
            "Judged on test rows; the dark line is the score of calling everything anomalous. Status and α̂ "
            "come from training, without labels.",
            figures.table_figure(lines),
            _as_text(lines),
        )
    ]
    if run.skab is not None and run.skab_flags is not None:
        sections += [
            Section(
                "SKAB: the plain method finds the campaign",
                "The fraction of each run that is flagged. Runs of one campaign (one day, one set-up) differ from "
                "the others in both inputs; that is a regime, not an anomaly.",
                figures.runs_figure(run.skab, run.skab_flags),
            ),
            Section(
                "SKAB: what coincides within a run",
                "Each channel's mean difference between windows that the regime-aware method flags (in most splits) "
                "and the others, in deviations within the run; and the same for the labelled anomalies. Those move "
                "the flow (q) and hardly anything in s, so coincidence cannot see them; what both inputs do follow "
                "is another thing, which nobody labelled.",
                figures.channels_figure(run.skab, run.skab_flags["regimes"]),
            ),
        ]
    if run.hydraulic is not None and run.hydraulic_flags is not None:
        sections.append(
            Section(
                "Hydraulic rig: flags over the experiment",
                "Top: the oil temperature of every cycle in the order in which they ran, coloured by how many splits "
                "flag it. Middle: the flags of each split. Bottom: the leakage that the experimenters set. One detector "
                "takes the strongest coincidence, which may be leakage in one split and the warming up of the oil in another.",
                figures.cycles_figure(run.hydraulic, run.hydraulic_flags["regimes"]),
                _by_leakage(run.hydraulic, run.hydraulic_flags["regimes"]),
            )
        )
    words = "; ".join(f"{x.dataset}, {x.method}: F1 {x.f1:.2f} (trivial {x.trivial:.2f})" for x in lines)
    write_page(
        path,
        "Three machines: what knowing the regime changes",
        words + ".",
        sections,
        "Labels were used only to judge. Pictures show whole records, training rows included. Data: "
        + "; ".join(run.sources.values())
        + ".",
    )


def _measure(
    name: str, pairs: Pairs, splits: int, settings: dict[str, Any], random_state: int, say: Tell
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
                # What they say is in the row: the status and α.
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
            say(
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


def _as_text(lines: Sequence[TableRow]) -> tuple[list[str], list[list[str]]]:
    head = ["data", "fault", "method", "splits", "F1", "lowest", "trivial", "flagged", "α̂", "F̂", "status"]
    return head, [
        [
            *(x.dataset, x.fault, x.method, str(x.splits), f"{x.f1:.2f} ± {x.deviation:.2f}"),
            *(f"{value:.2f}" for value in (x.lowest, x.trivial, x.flagged, x.alpha, x.fbeta_hat)),
            x.status,
        ]
        for x in lines
    ]


def _by_leakage(data: HydraulicData, flags: BoolArray) -> tuple[list[str], list[list[str]]]:
    kinds = [("no leakage", 0), ("weak leakage", 1), ("severe leakage", 2)]
    return ["flagged of", *(f"split {i + 1}" for i in range(len(flags)))], [
        [words, *(f"{flagged[data.leakage == level].mean():.0%}" for flagged in flags)]
        for words, level in kinds
        if (data.leakage == level).any()
    ]


def _statuses(values: list[str]) -> str:
    counts = Counter(values)
    if len(counts) == 1:
        return values[0]
    return ", ".join(f"{value} ({number} of {len(values)})" for value, number in counts.most_common())
