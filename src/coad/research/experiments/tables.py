"""Findings on labelled tables: F1 by default and after a few looks, beside peers with as many labels.

A quarter of the rows is held out: whole groups where the table has them, otherwise rows at random. ``coad.find``
sees the rest without labels, in the order of the file. Contexts in the files are not used: this is what a first call
gives, before anybody has named a regime.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from coad.core.label_efficiency import FindingsLike, LabelEfficiency, label_efficiency
from coad.data.pairs import Pairs
from coad.exceptions import CoadWarning, InputError
from coad.research.baselines.few_labels import FewLabelPeers, few_label_peers
from coad.research.datasets.tables import load_table, table_files
from coad.research.experiments._progress import Progress, silent

__all__ = ["COLUMNS", "LEGEND", "TableResult", "cells", "in_words", "mean_values", "ratios", "run_tables"]

TEST_SIZE = 0.25
_F1 = ("default", "after 5", "after 10", "IF own", "IF best", "forest 5", "forest 10", "supervised")
#: The columns after the name of the table.
COLUMNS = ("rows", "rate", "findings", *_F1[:3], "looks", *_F1[3:], "seconds")
LEGEND = (
    "F1 by labels on held-out rows. Default: what coad.find flags without labels. After 5 and 10: a person has looked "
    "at 5 or 10 findings, each the first of the list, which reorders, and decided whether it is mostly the event; other rows "
    "are flagged if they are like the events, and by default as long as none is named. "
    "Looks: the first finding that is mostly the event (– if there is none). IF: isolation forest on both inputs side "
    "by side, at its own threshold and at the best one for the held-out labels. Forest 5 and 10: random forest with as "
    "many labelled rows, chosen by uncertainty sampling. Supervised: random forest with all labels of the fit. "
    "Seconds: of coad.find."
)

Find = Callable[..., FindingsLike]


@dataclass(frozen=True)
class TableResult:
    """One table with one random state; ``error`` is the first line of the exception if it failed."""

    name: str
    random_state: int
    n_rows: int = 0
    rate: float = 0.0
    efficiency: LabelEfficiency | None = None
    peers: FewLabelPeers | None = None
    seconds: float = 0.0
    error: str = ""

    def values(self) -> dict[str, float | None]:
        """The numbers under :data:`COLUMNS`; empty if the table failed."""
        if self.efficiency is None or self.peers is None:
            return {}
        ours, peers = self.efficiency, self.peers
        return {
            "rows": self.n_rows,
            "rate": self.rate,
            "findings": ours.n_findings,
            "default": ours.f1_test[0],
            "after 5": ours.f1_test[5],
            "after 10": ours.f1_test[10],
            "looks": ours.looks_to_event,
            "IF own": peers.own,
            "IF best": peers.best,
            "forest 5": peers.few[5],
            "forest 10": peers.few[10],
            "supervised": peers.supervised,
            "seconds": self.seconds,
        }


def run_tables(
    folder: str | Path | None = None,
    *,
    random_state: int = 0,
    find: Find | None = None,
    progress: Progress = silent,
) -> list[TableResult]:
    """Measure label efficiency on every table of a folder.

    Parameters
    ----------
    folder
        Folder with the tables, or the one above it; default: COAD_DATA.
    random_state
        Seed of the split, of ``find`` and of the peers.
    find
        Used in place of ``coad.find``.
    progress
        Called with one line after each table.

    Returns
    -------
    list of TableResult
        One per table, by name. A table that fails has a line of its own and does not stop the others.
    """
    find = find or _find()
    results = []
    for path in table_files(folder):
        result = _measured(path, random_state, find)
        results.append(result)
        progress(f"{result.name}, seed {random_state}: {_short(result)}")
    return results


def mean_values(results: Iterable[TableResult]) -> dict[str, float | None]:
    """The mean of each column over the results that have a value there; None where none has."""
    rows = [result.values() for result in results]
    return {name: _mean([row.get(name) for row in rows]) for name in COLUMNS}


def ratios(results: Iterable[TableResult]) -> dict[str, float | None]:
    """Mean ratios over tables, and how often the event is the first finding or among the first five.

    A ratio to 0 is left out; None where nothing is left.
    """
    rows = [values for result in results if (values := result.values())]
    pairs = (("default", "IF best"), ("after 5", "supervised"), ("after 10", "supervised"))
    answer = {f"{a} / {b}": _mean([_ratio(row[a], row[b]) for row in rows]) for a, b in pairs}
    for name, limit in (("event first", 1), ("event in first five", 5)):
        answer[name] = _mean([float(row["looks"] is not None and row["looks"] <= limit) for row in rows])
    return answer


def cells(values: dict[str, float | None]) -> list[str]:
    """Format the numbers of a line under :data:`COLUMNS`; – where there is none."""
    formats = {"rows": ",.0f", "rate": ".1%", "findings": ".3g", "looks": ".2g", "seconds": ".1f"}
    known = [(name, values.get(name)) for name in COLUMNS]
    return ["–" if value is None else format(value, formats.get(name, ".3f")) for name, value in known]


def in_words(results: Sequence[TableResult]) -> str:
    """The mean ratios, how often the event comes first, and F1 on the rows of the fit, in two sentences."""
    good = [result.efficiency for result in results if result.efficiency is not None]
    if not good:
        return "No table could be measured."
    known = ratios(results)
    ratio = ", ".join(f"{name} {_shown(value)}" for name, value in known.items() if "/" in name)
    first, five = (known[name] or 0.0 for name in ("event first", "event in first five"))
    fit = [float(np.mean([one.f1_fit[many] for one in good])) for many in (0, 5, 10)]
    return (
        f"Mean ratios of F1: {ratio}. The event is the first finding in {first:.0%} and among the first five in "
        f"{five:.0%}. Mean F1 on the rows of the fit: {fit[0]:.3f} by default, {fit[1]:.3f} after 5 looks, "
        f"{fit[2]:.3f} after 10."
    )


def _find() -> Find:
    """``coad.find``, by name: it is looked up when it is needed, as users call it."""
    find: Find | None = getattr(import_module("coad"), "find", None)
    if find is None:
        raise InputError("this version of coad has no coad.find, which this benchmark measures")
    return find


def _measured(path: Path, seed: int, find: Find) -> TableResult:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)  # what was found is judged by labels here
            return _measure(path.stem, load_table(path), seed, find)
    except Exception as error:  # a table that fails is a line of its own and must not stop the others
        text = (str(error).strip().splitlines() or [""])[0]
        return TableResult(path.stem, seed, error=f"{type(error).__name__}: {text}"[:200])


def _measure(name: str, table: Pairs, seed: int, find: Find) -> TableResult:
    fit, test = table.split(TEST_SIZE, by="random" if table.group is None else "group", random_state=seed)
    label, label_test = (np.asarray(side.label, dtype=bool) for side in (fit, test))
    for side, truth in (("rows of the fit", label), ("held-out rows", label_test)):
        if not truth.any():
            raise InputError(f"the {side} hold no event with seed {seed}; try another --seed")
    start = time.perf_counter()
    found = find(
        fit.s, fit.q, group=fit.group, time=fit.time, ordered=fit.time is not None, random_state=seed
    )
    seconds = time.perf_counter() - start
    return TableResult(
        name,
        seed,
        len(table),
        float(np.asarray(table.label).mean()),
        label_efficiency(found, label, test.s, test.q, label_test),
        few_label_peers(fit.s, fit.q, label, test.s, test.q, label_test, random_state=seed),
        seconds,
    )


def _short(result: TableResult) -> str:
    if result.efficiency is None:
        return f"failed: {result.error}"
    return f"{result.efficiency.in_words()} ({result.seconds:.0f} s)"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _ratio(value: float | None, reference: float | None) -> float | None:
    return None if value is None or not reference else value / reference


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
