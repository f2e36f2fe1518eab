"""Runs of flagged rows: the one place that turns flags into stretches, and says where stretches must end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray

__all__ = ["RowOrder", "Runs", "find_runs", "seconds"]

#: A step longer than this many median steps is a gap; the windows of files end at the same gaps.
GAP_STEPS = 5.0
#: The median step is that of the first steps: also of files that are read piece by piece.
_STEPS_SEEN = 100_000


@dataclass(frozen=True)
class RowOrder:
    """Where rows stand in time: what events, and the tests that move one input in time, need to know of them.

    Parameters
    ----------
    n
        The number of rows.
    time
        The time of each row: dates or numbers.
    run
        The file or group of each row, as any labels; events end where it changes.
    row
        The number of each row in its file; in place of a time if there is none. Without both, rows follow
        each other without gaps.
    overlap
        The number of consecutive rows (windows) that share samples.
    """

    n: int
    time: NDArray[Any] | None = None
    run: NDArray[Any] | None = None
    row: NDArray[Any] | None = None
    overlap: int = 1
    cut: BoolArray | None = None  #: rows before which others were left out

    def in_time(self, step: int = 1) -> IntArray:
        """The row numbers run by run, each in order of time; of each run only every ``step``-th row.

        >>> RowOrder(4, time=np.array([0, 0, 1, 1]), run=np.array(["a", "b", "a", "b"])).in_time()
        array([0, 2, 1, 3])
        """
        order = np.arange(self.n)
        if self.time is not None and (self.time[1:] < self.time[:-1]).any():
            order = np.argsort(self.time, kind="stable")
        if self.run is None:
            return order[::step]
        _, first, code = np.unique(self.run[order], return_index=True, return_inverse=True)
        by_run = np.argsort(first[code.reshape(-1)], kind="stable")  # runs in order of appearance
        place = np.arange(self.n)
        begins = np.diff(first[code.reshape(-1)][by_run], prepend=-1) != 0
        within = place - np.maximum.accumulate(np.where(begins, place, 0))
        return np.asarray(order[by_run][within % step == 0])

    def breaks(self) -> BoolArray:
        """The rows at which an event must end: another file or group, a gap, or time that goes back.

        >>> RowOrder(6, time=np.array([0.0, 1, 2, 30, 31, 5])).breaks()
        array([ True, False, False,  True, False,  True])
        """
        found = np.zeros(self.n, dtype=np.bool_)
        found[:1] = True
        if self.cut is not None:
            found |= self.cut
        if self.run is not None:
            found[1:] |= self.run[1:] != self.run[:-1]
        place = self.row if self.time is None else seconds(self.time)
        if place is not None and self.n > 1:
            step = np.diff(place)
            within = step[:_STEPS_SEEN][(step[:_STEPS_SEEN] > 0) & ~found[1:][:_STEPS_SEEN]]
            gap = GAP_STEPS * float(np.median(within)) if len(within) else np.inf
            found[1:] |= (step < 0) | (step > gap)
        return found

    def take(self, kept: Any) -> RowOrder:
        """The order of some of the rows."""
        parts = {
            name: None if (values := getattr(self, name)) is None else values[kept]
            for name in ("time", "run", "row", "cut")
        }
        rows = np.arange(self.n)[kept]
        cut = np.diff(rows, prepend=-1) > 1
        return replace(self, n=len(rows), **{**parts, "cut": cut if self.cut is None else cut | parts["cut"]})


def seconds(time: NDArray[Any]) -> FloatArray:
    """Times as numbers: dates in seconds since 1970, numbers as they are."""
    if time.dtype.kind == "M":
        return np.asarray(time.astype("datetime64[us]").astype(np.int64) / 1e6)
    return np.asarray(time, dtype=np.float64)


class Runs(NamedTuple):
    """The first and the last row of each run, and how many of its rows are flagged."""

    first: IntArray
    last: IntArray
    n_flagged: IntArray


def find_runs(flags: ArrayLike, *, breaks: ArrayLike | None = None, bridge: int = 0) -> Runs:
    """The runs of flagged rows, in order.

    Parameters
    ----------
    flags
        For each row, whether it is flagged.
    breaks
        A run ends before a row for which this is true (another file, a jump of the clock).
    bridge
        Runs with at most so many quiet rows between them are one.

    Returns
    -------
    Three arrays with one entry per run.

    >>> find_runs([0, 1, 1, 0, 1])
    Runs(first=array([1, 4]), last=array([2, 4]), n_flagged=array([2, 1]))
    >>> find_runs([0, 1, 1, 0, 1], bridge=1)
    Runs(first=array([1]), last=array([4]), n_flagged=array([3]))
    >>> find_runs([0, 1, 1, 0, 1], breaks=[1, 0, 1, 0, 0]).first
    array([1, 2, 4])
    """
    flagged: BoolArray = np.asarray(flags, dtype=np.bool_)
    places = np.flatnonzero(flagged)
    new = np.diff(places, prepend=-bridge - 2) > bridge + 1
    if breaks is not None:
        new |= np.asarray(breaks, dtype=np.bool_)[places]
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(places)) if len(starts) else starts
    return Runs(places[starts], places[ends - 1], ends - starts)
