"""Missing values: refuse them (the default), drop rows, fill by the mean, or interpolate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, IntArray
from coad.data.times import in_seconds
from coad.exceptions import InputError

POLICIES = ("error", "drop", "mean", "interpolate")


@dataclass(frozen=True)
class MissingReport:
    """Missing values per column, the rows that are kept, and the means that were filled in."""

    policy: str
    counts: dict[str, int]
    keep: BoolArray
    means: dict[str, Any] = field(default_factory=dict)

    @property
    def n_dropped(self) -> int:
        """Number of dropped rows."""
        return int((~self.keep).sum())

    def refuse_no_rows(self) -> None:
        """Raise an error if every row was dropped."""
        if len(self.keep) and not self.keep.any():
            worst = max(self.counts, key=lambda name: self.counts[name])
            raise InputError(
                f"every row has a missing value; column {worst!r} has the most ({self.counts[worst]:,}): "
                "leave it out, or pass --missing mean"
            )

    def __str__(self) -> str:
        total = sum(self.counts.values())
        if not total:
            return "no missing values"
        done = f"{self.n_dropped:,} rows dropped" if self.policy == "drop" else f"filled by {self.policy}"
        return f"{total:,} missing values in {len(self.counts):,} columns, {done}"


def handle_missing(
    columns: Mapping[str, NDArray[Any]],
    policy: str = "error",
    *,
    time: NDArray[Any] | None = None,
    segments: IntArray | None = None,
    means: Mapping[str, Any] | None = None,
    first_row: int = 0,
    fillable: bool = True,
) -> tuple[dict[str, NDArray[Any]], MissingReport]:
    """Apply a policy to missing and infinite values.

    Parameters
    ----------
    columns : mapping of str to array
        Columns of equal length.
    policy : {"error", "drop", "mean", "interpolate"}
        ``"drop"`` removes rows with any missing value (``report.keep`` are the others); ``"mean"``
        fills in the mean of the column; ``"interpolate"`` is linear over time within each segment,
        and repeats the nearest value at its ends.
    time : array, optional
        Time of each row, for interpolation (default: row numbers).
    segments : array of int, optional
        First row of each segment.
    means : mapping, optional
        The means to fill in: those of the training data.
    first_row : int
        Number of the first row, for error messages.
    fillable : bool
        False for columns that have no mean (contexts, labels); the error then suggests only to drop.

    Returns
    -------
    dict of str to array, MissingReport

    >>> columns, report = handle_missing({"a": np.array([1.0, np.nan, 3.0])}, "interpolate")
    >>> columns["a"]
    array([1., 2., 3.])
    >>> handle_missing({"a": np.array([1.0, np.nan, 3.0])})
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: column 'a' has 1 missing value (first at row 1);
    pass --missing drop or --missing mean
    """
    if policy not in POLICIES:
        raise InputError(f"missing must be one of {', '.join(POLICIES)}, not {policy!r}")
    result = dict(columns)
    n = len(next(iter(result.values()))) if result else 0
    keep = np.ones(n, dtype=np.bool_)
    bad = {name: flags for name, array in result.items() if (flags := _bad(array)) is not None}
    counts = {name: int(flags.sum()) for name, flags in bad.items()}
    if policy == "error" and bad:
        raise InputError(_refusal(result, bad, first_row, fillable))
    used: dict[str, Any] = {}
    if policy == "mean":
        # Also for columns without missing values: another file may have some.
        used = dict(means) if means is not None else column_means(result)
    for name, flags in bad.items():
        if policy == "drop":
            keep &= ~flags.reshape(n, -1).any(axis=1)
        elif policy == "mean":
            if name not in used:
                raise InputError(f"column {name!r} has missing values, but its mean is not known")
            result[name] = np.where(flags, np.asarray(used[name]), result[name])
        else:
            result[name] = _interpolated(result[name], flags, time, segments, name)
    if policy == "drop" and bad:
        result = {name: array[keep] for name, array in result.items()}
    return result, MissingReport(policy, counts, keep, used)


def column_means(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The mean of the known values of each column; None for text.

    >>> column_means({"a": np.array([1.0, np.nan, 3.0])})
    {'a': 2.0}
    """
    return {name: _mean(array, name) for name, array in columns.items()}


def _bad(array: NDArray[Any]) -> BoolArray | None:
    if array.dtype.kind == "f":
        # Fast check: if the sum is finite, so are all values. The sum may also overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(array.sum()):
                return None
        flags = ~np.isfinite(array)
    elif array.dtype.kind == "M":
        flags = np.isnat(array)
    elif array.dtype.kind == "U":
        flags = array == ""
    else:
        return None
    return flags if flags.any() else None


def _refusal(
    columns: Mapping[str, NDArray[Any]], bad: Mapping[str, BoolArray], first_row: int, fillable: bool
) -> str:
    name = next(iter(bad))
    flags, array = bad[name], columns[name]
    count = int(flags.sum())
    infinite = int(np.isinf(array).sum()) if array.dtype.kind == "f" else 0
    kind = "missing" if not infinite else "infinite" if infinite == count else "missing or infinite"
    row = first_row + int(np.argmax(flags.reshape(len(flags), -1).any(axis=1)))
    others = len(bad) - 1
    also = f", and {others:,} other column{'s have' if others > 1 else ' has'} some too" if others else ""
    values = "value" if count == 1 else "values"
    advice = "pass --missing drop or --missing mean" if fillable else "pass --missing drop"
    return f"column {name!r} has {count:,} {kind} {values} (first at row {row:,}){also}; {advice}"


def _mean(array: NDArray[Any], name: str) -> Any:
    if array.dtype.kind != "f":
        return None if array.dtype.kind not in "iub" else float(array.mean())
    finite = np.isfinite(array)
    if not finite.any():
        raise InputError(f"column {name!r} has no values; leave it out")
    return float(array.mean(where=finite, dtype=np.float64))


def _interpolated(
    array: NDArray[Any], flags: BoolArray, time: NDArray[Any] | None, segments: IntArray | None, name: str
) -> NDArray[Any]:
    if array.dtype.kind != "f" or array.ndim != 1:
        raise InputError(f"column {name!r} cannot be interpolated over rows; pass --missing drop")
    n = len(array)
    x = np.arange(n, dtype=np.float64) if time is None else in_seconds(time - time[0])
    starts = np.array([0]) if segments is None else segments
    result = array.copy()
    for start, end in zip(starts, [*starts[1:], n], strict=True):
        part, missing = result[start:end], flags[start:end]
        if not missing.any():
            continue
        if missing.all():
            raise InputError(
                f"column {name!r} has no value in rows {start:,} to {end - 1:,}, so it cannot be "
                "interpolated there; pass --missing drop or --missing mean"
            )
        at = x[start:end]
        part[missing] = np.interp(at[missing], at[~missing], part[~missing])
    return result
