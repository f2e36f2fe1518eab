"""Joint events: runs of flagged pairs, each with its strongest pair, and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.runs import find_runs
from coad.exceptions import InputError

__all__ = ["Events", "events_table", "find_events"]


@dataclass(frozen=True)
class Events:
    """Runs of flagged pairs, by the numbers of their first, last and strongest pair."""

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
        """How many pairs each event holds."""
        return self.last - self.first + 1

    def of_pair(self, pairs: ArrayLike) -> IntArray:
        """The number of the event that holds each pair; -1 where none does.

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
    """Runs of flagged pairs; a run ends before a pair for which ``breaks`` is true (another file, a jump).

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
    # The first pair of each run that reaches the run's best.
    at_best = np.flatnonzero(strength[places] == best[run])
    _, once = np.unique(run[at_best], return_index=True)
    return Events(runs.first, runs.last, places[at_best[once]])


def events_table(
    events: Events,
    p_s: FloatArray,
    p_q: FloatArray,
    *,
    first_row: IntArray,
    last_row: IntArray,
    more: Mapping[str, NDArray[Any]] | None = None,
) -> Any:
    """One line an event as a ``pyarrow.Table``: where it is, how long, and how strong at its strongest pair.

    ``first_row`` and ``last_row`` are the source rows of every pair; ``more`` holds
    further columns with a value for every pair, taken at the strongest one.

    >>> import numpy as np
    >>> p, rows = np.array([0.1, 0.8, 0.9]), np.arange(3)
    >>> events = find_events(p > 0.5, p)
    >>> events_table(events, p, p, first_row=rows, last_row=rows).to_pylist()
    [{'first_row': 1, 'last_row': 2, 'peak_row': 2, 'n_pairs': 2, 'p_s': 0.9, 'p_q': 0.9, 'score': 0.81...}]
    """
    import pyarrow as pa

    columns: dict[str, Any] = {name: values[events.peak] for name, values in (more or {}).items()}
    columns |= {
        "first_row": first_row[events.first],
        "last_row": last_row[events.last],
        "peak_row": first_row[events.peak],
        "n_pairs": events.n_pairs,
        "p_s": p_s[events.peak],
        "p_q": p_q[events.peak],
        "score": p_s[events.peak] * p_q[events.peak],
    }
    return pa.table(columns)
