"""Events of one station: runs of flagged pairs that come piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray
from coad.core.runs import GAP_STEPS
from coad.events.runs import find_events
from coad.live.values import Event, ScoredRows, event_key

__all__ = ["EventRuns"]

#: The typical step between pairs is the median of so many: enough for a clock that jitters.
_STEPS = 100


@dataclass
class EventRuns:
    """The runs of flagged pairs of one station; the last one may still grow.

    A run ends at an unflagged pair, at a change of group, where time goes back, and at a gap of more than five median
    steps, as in ``coad score``.
    """

    model: str
    station: str
    running: dict[str, Any] | None = None  # the fields of an open event
    last: float | None = None  # place of the last pair
    group: Any = None
    steps: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def gap(self) -> float:
        """The longest step within a run."""
        return GAP_STEPS * float(np.median(self.steps)) if len(self.steps) else np.inf

    def add(self, pairs: ScoredRows, place: FloatArray, group: NDArray[Any] | None) -> list[Event]:
        """The events that are new, have grown or are over now.

        Parameters
        ----------
        pairs
            The next pairs.
        place
            Where they stand: times in seconds, or row numbers.
        group
            Their group, if the model has groups.
        """
        n = len(pairs)
        if not n:
            return []
        step = np.diff(place, prepend=place[0] if self.last is None else self.last)
        new_group = np.zeros(n, dtype=np.bool_)
        if group is not None:
            new_group[1:] = group[1:] != group[:-1]
            new_group[0] = self.group is not None and group[0] != self.group
            self.group = group[-1].item()
        if len(self.steps) < _STEPS:
            self.steps = np.concatenate([self.steps, step[(step > 0) & ~new_group]])[:_STEPS]
        breaks = new_group | (step < 0) | (step > self.gap)
        fresh = self.last is None
        self.last = float(place[-1])
        found = find_events(pairs.flag, pairs.score, breaks)
        events: list[Event] = []
        for first, last, peak in zip(found.first, found.last, found.peak, strict=True):
            new = self._fields(pairs, int(first), int(last), int(peak))
            if first == 0 and self.running is not None and not breaks[0] and not fresh:
                self._grow(new)
            else:
                events += self.close()
                self.running = new
            if last < n - 1:
                events += self.close()
        if self.running is not None and not pairs.flag[-1]:
            events += self.close()
        if self.running is not None:
            events.append(self._event("open"))
        return events

    def close(self) -> list[Event]:
        """The running event, which is over."""
        if self.running is None:
            return []
        event, self.running = self._event("closed"), None
        return [event]

    def _fields(self, pairs: ScoredRows, first: int, last: int, peak: int) -> dict[str, Any]:
        return {
            "start": int(pairs.time[first]),
            "end": int(pairs.time[last]),
            "peak": int(pairs.time[peak]),
            "n_pairs": last - first + 1,
            "p_s": float(pairs.p_s[peak]),
            "p_q": float(pairs.p_q[peak]),
            "score": float(pairs.score[peak]),
            "mode": None if pairs.mode is None else int(pairs.mode[peak]),
            "numbers": {
                "first_row": int(pairs.first[first]),
                "last_row": int(pairs.last[last]),
                "peak_row": int(pairs.first[peak]),
            },
        }

    def _grow(self, new: dict[str, Any]) -> None:
        old = self.running
        assert old is not None
        strongest = new if new["score"] > old["score"] else old
        self.running = {
            **strongest,
            "start": old["start"],
            "end": new["end"],
            "n_pairs": old["n_pairs"] + new["n_pairs"],
            "numbers": {
                "first_row": old["numbers"]["first_row"],
                "last_row": new["numbers"]["last_row"],
                "peak_row": strongest["numbers"]["peak_row"],
            },
        }

    def _event(self, state: Any) -> Event:
        assert self.running is not None
        key = event_key(self.model, self.station, self.running["start"])
        return Event(key, self.station, state=state, stations=(self.station,), **self.running)
