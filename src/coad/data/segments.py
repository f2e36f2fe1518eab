"""Segments: runs of rows without a change of group and without a gap in time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coad._typing import BoolArray, IntArray
from coad.data.times import Duration, format_duration, parse_duration, same_scale
from coad.exceptions import InputError

#: Default limit: a time step longer than this many median steps is a gap.
GAP_STEPS = 5.0


def segment_starts(
    n: int,
    *,
    time: NDArray[Any] | None = None,
    group: ArrayLike | None = None,
    max_gap: Duration | None = None,
    name: str = "time",
) -> IntArray:
    """The first row of each segment.

    A segment ends where ``group`` changes, and at a time step longer than ``max_gap`` (default:
    five times the median step). Within a group, time must increase from row to row.

    >>> segment_starts(6, group=["a", "a", "a", "b", "b", "b"])
    array([0, 3])
    >>> segment_starts(6, time=np.array([0.0, 1, 2, 3, 60, 61]))
    array([0, 4])
    """
    if n == 0:
        return np.empty(0, dtype=np.int64)
    breaks = changes(n, group)
    if time is not None:
        check_clock(time, breaks, name=name)
        if n > 1:
            breaks[1:] |= np.diff(time) > gap_limit(time, breaks, max_gap)
    return np.flatnonzero(breaks)


def changes(n: int, *columns: ArrayLike | None) -> BoolArray:
    """Rows at which any of the columns changes its value; the first row always counts."""
    breaks = np.zeros(n, dtype=np.bool_)
    breaks[:1] = True
    for column in columns:
        if column is None:
            continue
        values = np.asarray(column)
        if len(values) != n:
            raise InputError(f"the group column has {len(values):,} rows, but there are {n:,}")
        breaks[1:] |= values[1:] != values[:-1]
    return breaks


def gap_limit(time: NDArray[Any], breaks: BoolArray, max_gap: Duration | None) -> Any:
    """The longest time step that is not a gap, in the unit of the differences of ``time``."""
    if max_gap is not None:
        return same_scale(parse_duration(max_gap, name="max_gap"), time)
    step = median_step(time, breaks)
    return (
        np.timedelta64(2**62, "ns")
        if step is None and time.dtype.kind == "M"
        else (np.inf if step is None else step * GAP_STEPS)
    )


def median_step(time: NDArray[Any], breaks: BoolArray | None = None) -> Any:
    """The median time step within groups; None if there are no two rows in a group."""
    steps = np.diff(time)
    if breaks is not None:
        steps = steps[~breaks[1:]]
    if not len(steps):
        return None
    if steps.dtype.kind == "m":
        return np.timedelta64(int(np.median(steps.astype(np.int64))), "ns")
    return float(np.median(steps))


def check_clock(time: NDArray[Any], breaks: BoolArray | None = None, *, name: str = "time") -> None:
    """Refuse times that are missing, decrease or repeat; the error names the first such row.

    >>> check_clock(np.array([0.0, 1.0, 1.0]))
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: column 'time' repeats 1.0 at row 2 (1 such row); drop the repeated rows,
    or name the group that tells them apart
    """
    missing = np.isnat(time) if time.dtype.kind == "M" else ~np.isfinite(time)
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(
            f"column {name!r} has {int(missing.sum()):,} missing times (first at row {row:,}); "
            "pass --missing drop, or fill them in"
        )
    if len(time) < 2:
        return
    steps = np.diff(time)
    zero = np.timedelta64(0, "ns") if time.dtype.kind == "M" else 0.0
    inside = np.ones(len(steps), dtype=np.bool_) if breaks is None else ~breaks[1:]
    back = inside & (steps < zero)
    if back.any():
        row = int(np.argmax(back))
        raise InputError(
            f"column {name!r} is not sorted: it goes back by {format_duration(-steps[row])} "
            f"at row {row + 1:,} ({_such_rows(back)}); sort the rows by time, or name the group of each run"
        )
    same = inside & (steps == zero)
    if same.any():
        row = int(np.argmax(same))
        raise InputError(
            f"column {name!r} repeats {time[row]} at row {row + 1:,} ({_such_rows(same)}); "
            "drop the repeated rows, or name the group that tells them apart"
        )


def _such_rows(flags: BoolArray) -> str:
    count = int(flags.sum())
    return "1 such row" if count == 1 else f"{count:,} such rows"
