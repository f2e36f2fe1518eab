"""Results of all partitions as one: in the order of event time, each once, with the events of many stations grouped."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coad.live.grouping import Grouping
from coad.live.ordering import NEVER
from coad.live.packing import restored, to_plain
from coad.live.values import Event, Refusal, Step
from coad.streams.config import StreamConfig

__all__ = ["Merge"]


class Merge:
    """Takes the results of :meth:`coad.streams.operator.Operator.step` in, partition by partition in their order.

    Parameters
    ----------
    config
        The settings with their model.
    partitions
        How many partitions the topic of the samples has: none is left behind.

    Notes
    -----
    A worker that was killed gives results again that it gave before; they have offsets that were seen, and are left out.
    Events wait until every partition has got as far, so that they are grouped as one engine would have done.
    """

    def __init__(self, config: StreamConfig, partitions: int) -> None:
        self.run, self.partitions = config.run, partitions
        settings = config.settings
        self.grouping: Grouping | None = None
        if len(settings.stations) > 1:
            digest = config.models[settings.stations[0]].digest
            self.grouping = Grouping(digest, settings.most, settings.margin, settings.settle)
        self.offsets: dict[str, int] = {}  # of the last message of each partition
        self.progress: dict[str, int] = {}
        self.counted: dict[str, dict[str, int]] = {}
        self.waiting: list[dict[str, Any]] = []
        self.watermark = NEVER
        self.own: Counter[str] = Counter()

    def add(self, result: dict[str, Any]) -> Step:
        """Take a result in; returns what is known now."""
        if result["run"] != self.run:
            self.own["results of another model"] += 1
            return Step()
        place = str(result["partition"])
        if result["offset"] <= self.offsets.get(place, -1):
            self.own["results that came again"] += 1
            return Step()
        self.offsets[place] = result["offset"]
        self.progress[place] = result["progress"]
        self.counted[place] = result["counts"]
        if result["events"] or result["refusals"]:
            self.waiting.append({name: result[name] for name in ("upto", "events", "refusals")})
        return self._known(max(self.watermark, result["upto"]))

    @property
    def done(self) -> bool:
        """Whether a recording has ended in every partition."""
        return self._slowest() == -NEVER

    def behind(self, limit: int) -> list[int]:
        """The partitions that are behind the others by more than ``limit`` nanoseconds, and hold their events back."""
        if self.grouping is None or not self.waiting:
            return []
        marks = [self.progress.get(str(one), NEVER) for one in range(self.partitions)]
        newest = max(one["upto"] for one in self.waiting)
        return [one for one, mark in enumerate(marks) if mark < newest - limit]

    def counts(self) -> dict[str, int]:
        """Counters of all partitions; samples of the witness count once for each."""
        total = Counter(self.own)
        for one in self.counted.values():
            total.update(one)
        return dict(total)

    def state(self) -> dict[str, Any]:
        """All that is remembered, as plain values; see :meth:`restore`."""
        return {
            "offsets": self.offsets, "progress": self.progress, "counted": self.counted, "waiting": self.waiting,
            "watermark": self.watermark, "own": dict(self.own), "grouping": to_plain(self.grouping),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> Merge:
        """Go on where another one was; returns this one."""
        self.offsets, self.progress, self.counted = state["offsets"], state["progress"], state["counted"]
        self.waiting, self.watermark, self.own = state["waiting"], state["watermark"], Counter(state["own"])
        self.grouping = restored(self.grouping, state["grouping"])
        return self

    def _slowest(self) -> int:
        return min(self.progress.get(str(one), NEVER) for one in range(self.partitions))

    def _known(self, newest: int) -> Step:
        mark = self._slowest()
        until = mark if self.grouping is not None else -NEVER  # one station waits for nobody
        if until == NEVER:
            return Step()
        ready = [one for one in self.waiting if one["upto"] <= until]
        self.waiting = [one for one in self.waiting if one["upto"] > until]
        events = [_event(body) for one in ready for body in one["events"]]
        refusals = tuple(Refusal(**body) for one in ready for body in one["refusals"])
        self.watermark = max(self.watermark, newest if until == -NEVER else until)
        if self.grouping is not None:
            events = self.grouping.add(events, self.watermark)
            if mark == -NEVER:
                events += self.grouping.finish()
        return Step((), refusals, tuple(events), self.watermark if self.watermark > NEVER else None)


def _event(body: dict[str, Any]) -> Event:
    return Event(**{**body, "stations": tuple(body["stations"])})
