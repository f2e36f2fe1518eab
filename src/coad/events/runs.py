"""Events: runs of flagged pairs, each with its strongest pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.runs import find_runs
from coad.exceptions import InputError

__all__ = ["Events", "Spans", "event_spans", "events_table", "find_events"]


@dataclass(frozen=True)
class Events:
    """Runs of flagged pairs.

    Parameters
    ----------
    first, last : array of int
        First and last pair of each event.
    peak : array of int
        Pair with the highest score in each event.
    """

    first: IntArray
    last: IntArray
    peak: IntArray

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: Any) -> Events:
        return Events(
            np.atleast_1d(self.first[index]), np.atleast_1d(self.last[index]), np.atleast_1d(self.peak[index])
        )

    @property
    def n_pairs(self) -> IntArray:
        """Number of pairs in each event."""
        return self.last - self.first + 1

    def of_pair(self, pairs: ArrayLike) -> IntArray:
        """The event of each pair; -1 for a pair in no event.

        >>> find_events([0, 1, 1, 0, 1], [0, 0.5, 0.9, 0, 0.7]).of_pair([0, 1, 2, 4])
        array([-1,  0,  0,  1])
        """
        asked = np.asarray(pairs, dtype=np.int64)
        if not len(self):
            return np.full(asked.shape, -1)
        place = np.searchsorted(self.first, asked, side="right") - 1
        held = (place >= 0) & (asked <= self.last[np.maximum(place, 0)])
        return np.where(held, place, -1)


def find_events(flags: ArrayLike, score: ArrayLike, breaks: ArrayLike | None = None) -> Events:
    """Combine consecutive flagged pairs into events.

    Parameters
    ----------
    flags : array of bool, shape (n,)
        Flagged pairs.
    score : array of shape (n,)
        Score of each pair.
    breaks : array of bool, shape (n,), optional
        Pairs at which a new event starts, e.g. the first of a file or after a gap.

    Returns
    -------
    Events

    >>> events = find_events([0, 1, 1, 0, 1], [0, 0.5, 0.9, 0, 0.7])
    >>> events.first, events.last, events.peak
    (array([1, 4]), array([2, 4]), array([2, 4]))
    """
    flagged: BoolArray = np.asarray(flags, dtype=np.bool_)
    strength: FloatArray = np.asarray(score, dtype=np.float64)
    if flagged.shape != strength.shape or flagged.ndim != 1:
        raise InputError(f"flags of shape {flagged.shape} and scores of shape {strength.shape} do not match")
    runs = find_runs(flagged, breaks=breaks)
    if not len(runs.first):
        return Events(runs.first, runs.first, runs.first)
    places, run = np.flatnonzero(flagged), np.repeat(np.arange(len(runs.first)), runs.n_flagged)
    best = np.maximum.reduceat(strength[places], np.searchsorted(places, runs.first))
    # The first pair of each run with the highest score of the run.
    at_best = np.flatnonzero(strength[places] == best[run])
    _, once = np.unique(run[at_best], return_index=True)
    return Events(runs.first, runs.last, places[at_best[once]])


@dataclass(frozen=True)
class Spans:
    """When each event starts, ends and is strongest, and how long it lasts: in seconds, or in the unit of the times."""

    start: NDArray[Any]
    end: NDArray[Any]
    peak: NDArray[Any]
    duration: FloatArray


def event_spans(events: Events, time: NDArray[Any], first_row: IntArray, last_row: IntArray) -> Spans:
    """The spans of events in time. The time of a window is that of its last row, so its first is extrapolated.

    Parameters
    ----------
    events : Events
        The events.
    time : array of shape (n,)
        The time of each pair: dates or numbers.
    first_row, last_row : array of int, shape (n,)
        First and last source row of each pair.

    Returns
    -------
    Spans

    >>> time, row = np.arange(5.0) * 10, np.arange(5)
    >>> event_spans(find_events([0, 1, 1, 0, 0], np.ones(5)), time, row, row).duration
    array([10.])
    """
    time = time.astype("datetime64[ns]") if time.dtype.kind == "M" else time
    start, end = time[events.first], time[events.last]
    length = (last_row - first_row)[events.first]
    rows = np.diff(last_row)
    if length.any() and (rows > 0).any():
        step = np.median((np.diff(time)[rows > 0] / rows[rows > 0]).astype(np.float64))
        back = length * step
        start = start - (back.astype("timedelta64[ns]") if time.dtype.kind == "M" else back)
    lasting = end - start
    duration = lasting / np.timedelta64(1, "s") if time.dtype.kind == "M" else lasting
    return Spans(start, end, time[events.peak], np.asarray(duration, dtype=np.float64))


def events_table(
    events: Events,
    p_s: FloatArray,
    p_q: FloatArray,
    *,
    first_row: IntArray,
    last_row: IntArray,
    time: NDArray[Any] | None = None,
    more: Mapping[str, NDArray[Any]] | None = None,
) -> Any:
    """A table with one row per event.

    Parameters
    ----------
    events : Events
        The events.
    p_s, p_q : array of shape (n,)
        Confidences of all pairs.
    first_row, last_row : array of int, shape (n,)
        First and last source row of each pair.
    time : array of shape (n,), optional
        The time of each pair.
    more : mapping of str to array, optional
        Further columns, one value per pair; the value at the strongest pair is taken.

    Returns
    -------
    pyarrow.Table
        With a time: start, end, duration and peak_time. Always: first_row, last_row, peak_row, n_rows, n_pairs,
        and p_s, p_q and score at the strongest pair.

    >>> import numpy as np
    >>> p, rows = np.array([0.1, 0.8, 0.9]), np.arange(3)
    >>> events = find_events(p > 0.5, p)
    >>> events_table(events, p, p, first_row=rows, last_row=rows).to_pylist()
    [{'first_row': 1, 'last_row': 2, 'peak_row': 2, 'n_rows': 2, 'n_pairs': 2, 'p_s': 0.9, 'p_q': 0.9, 'score': 0.81...}]
    """
    import pyarrow as pa

    columns: dict[str, Any] = {name: values[events.peak] for name, values in (more or {}).items()}
    if time is not None:
        spans = event_spans(events, time, first_row, last_row)
        columns |= {
            "start": spans.start,
            "end": spans.end,
            "duration": spans.duration,
            "peak_time": spans.peak,
        }
    columns |= {
        "first_row": first_row[events.first],
        "last_row": last_row[events.last],
        "peak_row": first_row[events.peak],
        "n_rows": last_row[events.last] - first_row[events.first] + 1,
        "n_pairs": events.n_pairs,
        "p_s": p_s[events.peak],
        "p_q": p_q[events.peak],
        "score": p_s[events.peak] * p_q[events.peak],
    }
    return pa.table(columns)
