"""Sliding windows over rows, and the scores of windows mapped back to rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.data.segments import changes, median_step, segment_starts
from coad.data.times import Duration, format_duration, in_seconds, parse_length
from coad.exceptions import InputError


@dataclass(frozen=True)
class Windows:
    """Windows of equal length over rows.

    Parameters
    ----------
    start : array of int
        First row of each window.
    length : int
        Rows per window.
    n_rows : int
        Number of source rows.
    """

    start: IntArray
    length: int
    n_rows: int

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, index: Any) -> Windows:
        return replace(self, start=np.atleast_1d(self.start[index]))

    @property
    def overlap(self) -> int:
        """The number of consecutive windows that share samples.

        >>> make_windows(200, 64, 32).overlap
        2
        """
        steps = np.diff(self.start)
        steps = steps[steps > 0]
        return -(-self.length // max(1, int(np.median(steps)))) if len(steps) else 1

    @property
    def last(self) -> IntArray:
        """The last row of each window."""
        return self.start + (self.length - 1)

    @property
    def rows(self) -> IntArray:
        """The source rows of each window, shape (windows, length)."""
        return self.start[:, None] + np.arange(self.length)

    def take(self, values: ArrayLike) -> NDArray[Any]:
        """Cut windows out of an array, time last: (rows, channels) becomes (windows, channels, length).

        >>> make_windows(5, 3, 2).take([10, 11, 12, 13, 14])
        array([[10, 11, 12],
               [12, 13, 14]])
        """
        array = self._checked(values)
        if not len(self.start):
            return np.empty((0, *array.shape[1:], self.length), dtype=array.dtype)
        return np.ascontiguousarray(sliding_window_view(array, self.length, axis=0)[self.start])

    def at_last(self, values: ArrayLike) -> NDArray[Any]:
        """The value at the last row of each window."""
        return np.asarray(self._checked(values)[self.last])

    def any(self, flags: ArrayLike) -> BoolArray:
        """Whether any row of each window is flagged."""
        return self.largest(np.asarray(flags).astype(np.int8)).astype(np.bool_)

    def largest(self, values: ArrayLike) -> NDArray[Any]:
        """The largest value in each window."""
        array = self._checked(values)
        if not len(self.start):
            return np.empty((0, *array.shape[1:]), dtype=array.dtype)
        return np.asarray(sliding_window_view(array, self.length, axis=0)[self.start].max(axis=-1))

    def to_rows(self, scores: ArrayLike, *, how: str = "max", fill: float = 0.0) -> FloatArray:
        """Scores of rows from scores of windows.

        ``how`` is ``"max"`` or ``"mean"`` over the windows that contain the row. Rows in no window
        (see :attr:`covered`) get ``fill``.

        >>> make_windows(6, 3, 2).to_rows([0.2, 0.9])
        array([0.2, 0.2, 0.9, 0.9, 0.9, 0. ])
        """
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != (len(self.start),):
            raise InputError(f"there are {len(self.start):,} windows and scores of shape {values.shape}")
        if how not in ("max", "mean"):
            raise InputError(f"how must be 'max' or 'mean', not {how!r}")
        covered = self.covered
        if how == "mean":
            count = self._spread_sum(np.ones(len(values)))
            total = self._spread_sum(values)
            return np.where(covered, total / np.maximum(count, 1.0), fill)
        result = np.full(self.n_rows, -np.inf)
        # For one offset all rows are different, so assignment by index loses nothing.
        starts, best = self._distinct(values)
        for offset in range(self.length):
            rows = starts + offset
            result[rows] = np.maximum(result[rows], best)
        return np.where(covered, result, fill)

    @property
    def covered(self) -> BoolArray:
        """Which source rows are in at least one window."""
        return self._spread_sum(np.ones(len(self.start))) > 0.5

    def _spread_sum(self, values: FloatArray) -> FloatArray:
        total = np.zeros(self.n_rows)
        starts, inverse = np.unique(self.start, return_inverse=True)
        summed = np.bincount(inverse, values, minlength=len(starts))
        for offset in range(self.length):
            total[starts + offset] += summed
        return total

    def _distinct(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """The distinct starts (resampled windows repeat) and the largest value of each."""
        starts, inverse = np.unique(self.start, return_inverse=True)
        best = np.full(len(starts), -np.inf)
        np.maximum.at(best, inverse, values)
        return starts, best

    def _checked(self, values: ArrayLike) -> NDArray[Any]:
        array = np.asarray(values)
        if array.ndim == 0 or len(array) != self.n_rows:
            size = len(array) if array.ndim else 1
            raise InputError(f"the windows are over {self.n_rows:,} rows, not {size:,}")
        return array


def make_windows(
    n: int,
    length: Duration,
    stride: Duration | None = None,
    *,
    time: NDArray[Any] | None = None,
    group: ArrayLike | None = None,
    max_gap: Duration | None = None,
    offset: int = 0,
    hop: Duration | None = None,
) -> Windows:
    """Windows over rows that span no gap in time and no change of group.

    Parameters
    ----------
    n : int
        Number of rows.
    length : int or duration
        Window length in rows, or a duration such as ``"250ms"``, converted by the median time step.
    stride : int or duration, optional
        Distance between the starts of windows (default: ``length``).
    time : array, optional
        Time of each row, increasing within each group.
    group : array, optional
        Group of each row.
    max_gap : duration, optional
        A longer time step is a gap (default: five median steps).
    offset : int
        Rows to skip in the first segment, for rows that continue a stream. All other segments
        start with a window at their first row.
    hop : int or duration, optional
        Another name for ``stride``.

    Returns
    -------
    Windows

    >>> make_windows(10, 4, 2, group=["a"] * 5 + ["b"] * 5).start
    array([0, 5])
    """
    stride = one_stride(stride, hop)
    samples = in_samples(length, time, group, name="window")
    step = samples if stride is None else in_samples(stride, time, group, name="stride")
    starts = segment_starts(n, time=time, group=group, max_gap=max_gap)
    ends = np.append(starts[1:], n)
    if len(starts):
        starts = starts.copy()
        starts[0] = min(starts[0] + offset, ends[0])
    counts = np.maximum((ends - starts - samples) // step + 1, 0)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    start = np.repeat(starts, counts) + (np.arange(int(counts.sum())) - before) * step
    return Windows(start.astype(np.int64), samples, n)


def one_stride(stride: Duration | None, hop: Duration | None) -> Duration | None:
    """The stride, given by either of its two names.

    >>> one_stride(None, "250ms")
    '250ms'
    """
    if stride is not None and hop is not None and stride != hop:
        raise InputError(f"stride ({stride!r}) and hop ({hop!r}) mean the same; give one of them")
    return hop if stride is None else stride


def refuse_no_windows(
    windows: Windows, time: NDArray[Any] | None, group: ArrayLike | None, max_gap: Duration | None
) -> None:
    """Raise an error if there are no windows, with the number and length of the segments."""
    if len(windows):
        return
    starts = segment_starts(windows.n_rows, time=time, group=group, max_gap=max_gap)
    longest = int(np.diff(np.append(starts, windows.n_rows)).max(initial=0))
    raise InputError(
        f"no window of {windows.length:,} rows fits: group changes and time gaps cut the {windows.n_rows:,} rows "
        f"into {len(starts):,} segments, the longest of {longest:,} rows; "
        "use a shorter window, or sort the rows by group and time"
    )


def in_samples(
    length: Duration,
    time: NDArray[Any] | None,
    group: ArrayLike | None = None,
    *,
    name: str = "window",
) -> int:
    """A length in rows; a duration is divided by the median time step."""
    parsed = parse_length(length, name=name)
    if isinstance(parsed, int):
        return parsed
    if time is None:
        raise InputError(
            f"{name} {length!r} is a duration, but there is no time column; name it, or give a number of rows"
        )
    step = median_step(time, changes(len(time), group))
    if step is None:
        raise InputError(
            f"{name} {length!r} is a duration, but a single row has no time step; give a number of rows"
        )
    if not in_seconds(np.asarray([step]))[0] > 0:
        raise InputError(
            f"{name} {length!r} is a duration, but most times are repeated, so the time step is 0; sort the rows by "
            "time, or give a number of rows"
        )
    ratio = float(in_seconds(np.asarray([parsed]))[0] / in_seconds(np.asarray([step]))[0])
    samples = round(min(ratio, 1e12))
    if samples < 1:
        raise InputError(f"{name} {length!r} is shorter than one time step ({format_duration(step)})")
    return samples
