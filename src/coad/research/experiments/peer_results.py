"""Results of a method comparison: one row per fit, their Parquet file, and the summary over splits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from coad._typing import FloatArray
from coad.data.atomic import written_whole
from coad.exceptions import FileError
from coad.research.baselines.registry import METHODS, Method
from coad.research.baselines.strategies import JOINT, SCORE_STACK

__all__ = ["Line", "PeersRun", "Result", "merged", "read_results", "summary", "write_results"]


@dataclass(frozen=True)
class Result:
    """One method on one split under one strategy; values that do not exist are None.

    ``key`` identifies data and settings; rows with different keys are never combined. ``own``,
    ``ours`` and ``best`` are F1 at the method's own threshold, at coincidence thresholds set without
    labels, and at the best thresholds for the test labels. ``error`` is the first line of the
    exception if the fit failed.
    """

    key: str
    data: str
    method: str
    strategy: str
    split: int
    own: float | None = None
    ours: float | None = None
    best: float | None = None
    average_precision: float | None = None
    seconds: float = 0.0
    error: str = ""
    flagged: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the table: one method on one data set, mean and standard deviation over the splits."""

    data: str
    method: str
    title: str
    strategy: str
    labels: str
    splits: int
    own: tuple[float, float] | None
    ours: tuple[float, float] | None
    best: tuple[float, float] | None
    average_precision: tuple[float, float] | None
    flagged: tuple[float, float] | None
    seconds: float
    error: str
    judged: bool  # whether the data have labels
    note: str


@dataclass(frozen=True)
class PeersRun:
    """All results, and a description of each data set."""

    results: list[Result]
    sources: dict[str, str]

    @property
    def errors(self) -> list[Result]:
        """The fits that failed."""
        return [row for row in self.results if row.error]

    def lines(self) -> list[Line]:
        """Return the lines of the table."""
        return summary(self.results)


def read_results(path: Path) -> list[Result]:
    """Read a Parquet file of results; an empty list if the file does not exist."""
    if not path.exists():
        return []
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
        return [Result(**row) for row in rows]
    except (pa.ArrowException, OSError, TypeError) as error:
        raise FileError(
            f"{path} does not hold results of coad bench ({str(error).splitlines()[0]}); name another --out"
        ) from error


def write_results(path: Path, rows: Sequence[Result]) -> None:
    """Write the results as Parquet, replacing the file at once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"split": pa.int64(), "seconds": pa.float64()}
    kinds |= {name: pa.float64() for name in ("own", "ours", "best", "average_precision", "flagged")}
    schema = pa.schema([(field.name, kinds.get(field.name, pa.string())) for field in fields(Result)])
    with written_whole(path) as draft:
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], schema=schema), draft)


def merged(stored: Sequence[Result], rows: Sequence[Result]) -> list[Result]:
    """Return the stored results with the rows of one fit in place of earlier rows of the same fit."""
    name = (rows[0].key, rows[0].method, rows[0].split)
    return [row for row in stored if (row.key, row.method, row.split) != name] + list(rows)


def summary(results: Iterable[Result]) -> list[Line]:
    """Average over splits; of two strategies the one with the higher mean best F1 is shown."""
    rows = list(results)
    lines = []
    for data in dict.fromkeys(row.data for row in rows):
        every = [row for row in rows if row.data == data]
        judged = any(row.best is not None for row in every) or not any(
            row.flagged is not None for row in every
        )
        for method in METHODS.values():
            own = [row for row in every if row.method == method.name]
            if own:
                lines.append(_line(data, method, own, judged))
    return lines


def _line(data: str, method: Method, rows: list[Result], judged: bool) -> Line:
    good = [row for row in rows if not row.error]
    names = list(dict.fromkeys(row.strategy for row in good))

    def merit(strategy: str) -> float:
        values = [row.best for row in good if row.strategy == strategy and row.best is not None]
        # Without labels there is nothing to compare: prefer the strategy that coincidence can threshold.
        return float(np.mean(values)) if values else float(strategy == SCORE_STACK)

    strategy = max(names, key=merit) if names else ""
    chosen = [row for row in good if row.strategy == strategy]
    ours = _mean_and_deviation(chosen, "ours")
    if ours is None:
        # Coincidence thresholds exist for two scores only: take them from the other strategy.
        ours = _mean_and_deviation([row for row in good if row.ours is not None], "ours")
    errors = dict.fromkeys(row.error for row in rows if row.error)
    return Line(
        data=data,
        method=method.name,
        title=method.title,
        strategy="" if strategy == JOINT else strategy,
        labels={"": "", "all": "yes", "healthy": "to train on healthy rows"}[method.labels],
        splits=len({row.split for row in good}),
        own=_mean_and_deviation(chosen, "own"),
        ours=ours,
        best=_mean_and_deviation(chosen, "best"),
        average_precision=_mean_and_deviation(chosen, "average_precision"),
        flagged=_mean_and_deviation(chosen, "flagged"),
        seconds=float(np.mean([row.seconds for row in chosen or rows])),
        error="; ".join(errors),
        judged=judged,
        note="; ".join(dict.fromkeys(row.note for row in good if row.note)),
    )


def _mean_and_deviation(rows: Sequence[Result], name: str) -> tuple[float, float] | None:
    values = [getattr(row, name) for row in rows]
    known: FloatArray = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return None
    return float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else 0.0
