"""Triggers: find candidate events in a signal, and cut windows around them.

The paper's accelerator data were taken this way (section on RF stations): a relative change of
0.5 % triggers a window, which covers the 8 seconds before the end of the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.data.segments import segment_starts
from coad.data.times import Duration, parse_duration, parse_time, same_scale
from coad.data.windows import Windows, in_samples
from coad.exceptions import InputError


@dataclass(frozen=True)
class Events:
    """Triggered events: runs of rows.

    Parameters
    ----------
    first, last : array of int
        First and last triggered row of each event.
    """

    first: IntArray
    last: IntArray

    def __len__(self) -> int:
        return len(self.first)


def relative_change(signal: ArrayLike, limit: float = 0.005) -> BoolArray:
    """Rows at which any channel changes by more than a fraction of its previous value.

    Parameters
    ----------
    signal : array of shape (n,) or (n, channels)
        Finite values.
    limit : float
        The fraction.

    Returns
    -------
    array of bool, shape (n,)

    >>> relative_change([100.0, 100.1, 101.0, 101.0])
    array([False, False,  True, False])
    """
    values = _channels(signal)
    _check_limit(limit)
    flags = np.zeros(len(values), dtype=np.bool_)
    # Multiplied instead of divided, so that a previous value of 0 is no special case.
    flags[1:] = (np.abs(np.diff(values, axis=0)) > limit * np.abs(values[:-1])).any(axis=1)
    return flags


def robust_z(signal: ArrayLike, limit: float = 6.0) -> BoolArray:
    """Rows at which any channel is far from its median.

    Parameters
    ----------
    signal : array of shape (n,) or (n, channels)
        Finite values.
    limit : float
        Distance in robust standard deviations (1.4826 MAD). If the MAD of a channel is 0, its mean
        absolute deviation (times 1.2533) is used.

    Returns
    -------
    array of bool, shape (n,)

    >>> robust_z([1.0, 2.0, 1.5, 1.2, 90.0, 1.1])
    array([False, False, False, False,  True, False])
    """
    values = _channels(signal)
    _check_limit(limit)
    distance = np.abs(values - np.median(values, axis=0))
    scale = 1.4826 * np.median(distance, axis=0)
    scale = np.where(scale > 0, scale, 1.2533 * distance.mean(axis=0))
    return np.asarray((distance > limit * scale).any(axis=1))


def find_events(
    flags: ArrayLike,
    *,
    time: ArrayLike | None = None,
    quiet: Duration = 1,
    group: ArrayLike | None = None,
) -> Events:
    """Combine triggered rows into events.

    Parameters
    ----------
    flags : array of bool
        Triggered rows.
    time : array, optional
        Time of each row; needed if ``quiet`` is a duration.
    quiet : int or duration
        Triggered rows that are no further apart belong to one event.
    group : array, optional
        Group of each row; an event never spans two groups.

    Returns
    -------
    Events

    >>> find_events([0, 1, 1, 0, 0, 0, 1], quiet=2)
    Events(first=array([1, 6]), last=array([2, 6]))
    """
    rows = np.flatnonzero(np.asarray(flags))
    if not len(rows):
        return Events(rows, rows)
    clock = None if time is None else parse_time(time)
    between = in_samples(quiet, clock, group, name="quiet")
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = np.diff(rows) > between
    if group is not None:
        values = np.asarray(group)
        new[1:] |= values[rows[1:]] != values[rows[:-1]]
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(rows)) - 1
    return Events(rows[starts], rows[ends])


def event_windows(
    at: ArrayLike,
    length: int,
    *,
    time: ArrayLike,
    after: int = 0,
    tolerance: Duration | None = None,
    group: ArrayLike | None = None,
    max_gap: Duration | None = None,
) -> tuple[Windows, IntArray]:
    """Windows around given times.

    To pair a slow and a fast input, call it once for each with the same ``at``, and keep the times
    that both calls return.

    Parameters
    ----------
    at : array
        Event times.
    length : int
        Rows per window.
    time : array
        Time of each row.
    after : int
        Rows after the event: a window ends this many rows after the last row that is not later than
        the event.
    tolerance : duration, optional
        Largest time between the event and the last row before it.
    group : array, optional
        Group of each row; a window never spans two groups.
    max_gap : duration, optional
        A longer time step is a gap, which no window spans (default: five median steps).

    Returns
    -------
    Windows
        One for each event whose window fits.
    array of int
        The indices of these events in ``at``.

    >>> windows, kept = event_windows([2.5, 0.0], 3, time=np.arange(6.0))
    >>> windows.start, kept
    (array([0]), array([0]))
    """
    clock = parse_time(time)
    instants = parse_time(at, name="event times", unit="number" if clock.dtype.kind == "f" else None)
    if instants.dtype.kind != clock.dtype.kind:
        raise InputError(
            "event times and row times have different types; give both as dates or both as numbers"
        )
    if length < 1 or after < 0:
        raise InputError(f"length must be at least 1 and after at least 0, not {length} and {after}")
    starts = segment_starts(len(clock), time=clock, group=group, max_gap=max_gap)
    if group is not None and len(clock) and (clock[1:] < clock[:-1]).any():
        raise InputError("times restart in each group, so it is not known to which group an event belongs")
    row = np.searchsorted(clock, instants, side="right") - 1
    last, start = row + after, row + after - length + 1
    fits = (row >= 0) & (start >= 0) & (last < len(clock))
    segment = np.searchsorted(starts, np.clip(start, 0, None), side="right")
    fits &= segment == np.searchsorted(starts, np.clip(last, 0, None), side="right")
    if tolerance is not None and len(clock):
        limit = same_scale(parse_duration(tolerance, name="tolerance"), clock)
        fits &= instants - clock[np.clip(row, 0, None)] <= limit
    kept = np.flatnonzero(fits)
    return Windows(start[kept].astype(np.int64), int(length), len(clock)), kept


def _channels(signal: ArrayLike) -> FloatArray:
    values: NDArray[Any] = np.asarray(signal, dtype=np.float64)
    values = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values).all(axis=1)))
        raise InputError(
            f"the trigger signal has a missing or infinite value (first at row {row:,}); fill it first"
        )
    return values


def _check_limit(limit: float) -> None:
    if not limit > 0:
        raise InputError(f"the trigger's limit must be positive, not {limit}")
