"""Runs of flagged rows: the one place that turns flags into stretches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coad._typing import ArrayLike, BoolArray, IntArray

__all__ = ["Runs", "find_runs"]


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
