"""Align two time series: for each row of s, the matching row of q, or a value between two rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.data.segments import check_clock, median_step
from coad.data.times import Duration, format_duration, in_seconds, parse_duration, parse_time, same_scale
from coad.exceptions import InputError

METHODS = ("nearest", "interpolate", "hold")


@dataclass(frozen=True)
class Alignment:
    """Which rows of s and q form pairs.

    Parameters
    ----------
    how : str
        ``"nearest"``, ``"interpolate"`` or ``"hold"``.
    tolerance : str
        Largest time difference of a pair.
    rows_s : array of int
        The rows of s that have a match.
    rows_q, rows_q_next, weight : arrays
        The value of q for each of them is ``(1 - weight) · q[rows_q] + weight · q[rows_q_next]``;
        the weight is 0 for ``"nearest"`` and ``"hold"``.
    n_s, n_q : int
        Number of rows of s and of q.
    """

    how: str
    tolerance: str
    rows_s: IntArray
    rows_q: IntArray
    rows_q_next: IntArray
    weight: FloatArray
    n_s: int
    n_q: int

    def __len__(self) -> int:
        return len(self.rows_s)

    def take_s(self, values: ArrayLike) -> NDArray[Any]:
        """The values of s at the matched rows."""
        return np.asarray(values)[self.rows_s]

    def take_q(self, values: ArrayLike) -> NDArray[Any]:
        """The values of q at the times of the matched rows of s."""
        array = np.asarray(values)
        if not self.weight.any():
            return np.asarray(array[self.rows_q])
        if array.dtype.kind not in "fiu":
            return self.take_nearest_q(array)
        weight = self.weight.reshape(-1, *[1] * (array.ndim - 1))
        mixed = (1.0 - weight) * array[self.rows_q] + weight * array[self.rows_q_next]
        return np.asarray(mixed, dtype=array.dtype if array.dtype.kind == "f" else np.float64)

    def take_nearest_q(self, values: ArrayLike) -> NDArray[Any]:
        """The values of q at the nearer row, for text, flags and classes, which cannot be interpolated."""
        return np.asarray(np.asarray(values)[np.where(self.weight > 0.5, self.rows_q_next, self.rows_q)])

    @property
    def dropped_s(self) -> int:
        """Number of rows of s without a match within the tolerance."""
        return self.n_s - len(self.rows_s)

    @property
    def unused_q(self) -> int:
        """Number of rows of q that are not used."""
        used = np.zeros(self.n_q, dtype=np.bool_)
        used[self.rows_q] = True
        used[self.rows_q_next[self.weight > 0]] = True
        return int((~used).sum())

    def __str__(self) -> str:
        return (
            f"{self.how}: {len(self):,} of {self.n_s:,} rows of s paired; {self.dropped_s:,} dropped "
            f"without a row of q within {self.tolerance}; {self.unused_q:,} of {self.n_q:,} rows of q unused"
        )


def align(
    time_s: ArrayLike, time_q: ArrayLike, how: str = "nearest", *, tolerance: Duration | None = None
) -> Alignment:
    """Match the rows of q to the times of s.

    Parameters
    ----------
    time_s, time_q : array
        Increasing times of the rows of s and of q.
    how : {"nearest", "interpolate", "hold"}
        ``"nearest"``: the row of q closest in time (the earlier of two). ``"hold"``: the last row of
        q that is not later. ``"interpolate"``: linear between the rows before and after.
    tolerance : duration, optional
        Rows of s whose match (both rows, for ``"interpolate"``) is further away are dropped. The
        default is the larger of the two median time steps.

    Returns
    -------
    Alignment

    >>> alignment = align([0.0, 1.0, 2.0], [0.1, 1.2, 5.0], tolerance="500ms")
    >>> print(alignment)
    nearest: 2 of 3 rows of s paired; 1 dropped without a row of q within 500ms; 1 of 3 rows of q unused
    >>> alignment.take_q([10, 11, 12])
    array([10, 11])
    """
    if how not in METHODS:
        raise InputError(f"align must be one of {', '.join(METHODS)}, not {how!r}")
    s, q = _clock(time_s, "s"), _clock(time_q, "q")
    if s.dtype.kind != q.dtype.kind:
        words = {"M": "dates", "f": "numbers"}
        raise InputError(
            f"the times of s are {words[s.dtype.kind]} and those of q are {words[q.dtype.kind]}; "
            "give both as dates or both as numbers"
        )
    limit = _tolerance(s, q, tolerance)
    near, first, second, weight = matches(s, q, how, limit)
    if not near.any():
        raise _nothing_near(s, q, limit, how)
    rows = np.flatnonzero(near)
    return Alignment(
        how, format_duration(limit), rows, first[rows], second[rows], weight[rows], len(s), len(q)
    )


def matches(
    s: NDArray[Any], q: NDArray[Any], how: str, limit: Any
) -> tuple[BoolArray, IntArray, IntArray, FloatArray]:
    """For each time of s: whether it has a match, the rows of q before and after, and the weight of the latter.

    Both clocks are sorted and on one scale, and ``limit`` is a difference on it; see :func:`align`.

    >>> near, first, second, weight = matches(np.array([1.0, 9.0]), np.array([0.5, 1.5]), "interpolate", 1.0)
    >>> near, first[0], second[0], weight[0]
    (array([ True, False]), np.int64(0), np.int64(1), np.float64(0.5))
    """
    before = np.searchsorted(q, s, side="right") - 1
    after = np.minimum(before + 1, len(q) - 1)
    has_before = before >= 0
    has_after = before + 1 < len(q)
    before = np.maximum(before, 0)
    age, wait = s - q[before], q[after] - s
    weight = np.zeros(len(s))
    if how == "hold":
        near, first, second = has_before & (age <= limit), before, before
    elif how == "nearest":
        take_after = ~has_before | (has_after & (wait < age))
        first = np.where(take_after, after, before)
        near, second = np.where(take_after, wait, age) <= limit, first
    else:
        exact = has_before & (s == q[before])
        near = exact | (has_before & has_after & (age <= limit) & (wait <= limit))
        span = np.where(exact | ~has_after, 1.0, in_seconds(q[after] - q[before]))
        weight = np.where(exact | ~near, 0.0, in_seconds(age) / np.where(span > 0, span, 1.0))
        first, second = before, after
    return near, first, second, weight


def _clock(values: ArrayLike, name: str) -> NDArray[Any]:
    time = parse_time(values, name=f"time of {name}")
    if not len(time):
        raise InputError(f"{name} has no rows to align")
    check_clock(time, name=f"time of {name}")
    return time


def _tolerance(s: NDArray[Any], q: NDArray[Any], tolerance: Duration | None) -> Any:
    if tolerance is not None:
        return same_scale(parse_duration(tolerance, name="tolerance"), s)
    steps = [step for step in (median_step(s), median_step(q)) if step is not None]
    if not steps:
        raise InputError(
            "s and q have a single row each, so there is no time step to derive the tolerance from; give a tolerance"
        )
    return max(steps)


def _nothing_near(s: NDArray[Any], q: NDArray[Any], limit: Any, how: str) -> InputError:
    after = np.searchsorted(q, s)
    distances = [np.abs(in_seconds(s - q[np.clip(index, 0, len(q) - 1)])) for index in (after, after - 1)]
    nearest = format_duration(float(np.minimum(*distances).min()))
    apart = ""
    if s[-1] < q[0] or q[-1] < s[0]:
        apart = f"; s runs from {s[0]} to {s[-1]} and q from {q[0]} to {q[-1]}: are the clocks the same?"
    return InputError(
        f"no row of s has a row of q within {format_duration(limit)} ({how}); "
        f"the closest are {nearest} apart{apart or '; pass a larger tolerance'}"
    )
