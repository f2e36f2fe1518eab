"""Events of several stations that share a witness: which station is to blame, or whether it is the whole system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coad.live.values import Event, event_key

__all__ = ["SYSTEM", "UNCLEAR", "Grouping"]

SYSTEM, UNCLEAR = "system", "unclear"


@dataclass
class Grouping:
    """Events of stations that overlap in time are one event.

    Parameters
    ----------
    model
        A part of the keys.
    most
        If more stations than this are flagged at once, the event is one of the system.
    margin
        The station with the highest score is to blame if the next one is lower by at least this; otherwise it is
        unclear which.
    settle
        How long to wait for other stations before an event is shown, and how far apart events of stations may be to
        be one, in nanoseconds.
    """

    model: str
    most: int
    margin: float
    settle: int
    groups: list[dict[str, Any]] = field(default_factory=list)

    def add(self, events: list[Event], watermark: int) -> list[Event]:
        """The events of the whole that are new, have grown or are over.

        Parameters
        ----------
        events
            Of single stations.
        watermark
            All stations are scored up to this time.
        """
        for event in sorted(events, key=lambda one: (one.start, one.station)):
            group = self._group_of(event)
            group["members"][event.key] = event
            group["start"], group["end"] = min(group["start"], event.start), max(group["end"], event.end)
            group["changed"] = True
        found = []
        for group in list(self.groups):
            over = watermark > group["end"] + self.settle and all(
                one.state == "closed" for one in group["members"].values()
            )
            if over:
                self.groups.remove(group)
            if over or (group["changed"] and (group["shown"] or watermark >= group["first"] + self.settle)):
                group["changed"], group["shown"] = False, True
                found.append(self._event(group, "closed" if over else "open"))
        return found

    def finish(self) -> list[Event]:
        """All events, which are over."""
        return self.add([], 2**62)

    def _group_of(self, event: Event) -> dict[str, Any]:
        for group in self.groups:
            if event.key in group["members"]:
                return group
        for group in self.groups:
            if event.start <= group["end"] + self.settle and event.end >= group["start"] - self.settle:
                return group
        key = event_key(self.model, event.station, event.start, "group")
        self.groups.append(
            {"key": key, "first": event.start, "start": event.start, "end": event.end, "members": {},
             "changed": True, "shown": False}
        )  # fmt: skip
        return self.groups[-1]

    def _event(self, group: dict[str, Any], state: Any) -> Event:
        best: dict[str, Event] = {}  # the strongest event of each station
        for event in group["members"].values():
            if event.station not in best or event.score > best[event.station].score:
                best[event.station] = event
        order = sorted(best.values(), key=lambda one: (-one.score, one.station))
        top = order[0]
        margin = top.score - order[1].score if len(order) > 1 else None
        blamed = top.station
        if len(order) > self.most:
            blamed = SYSTEM
        elif margin is not None and margin < self.margin:
            blamed = UNCLEAR
        scores = {one.station: round(one.score, 6) for one in order}
        return Event(
            group["key"], blamed, group["start"], group["end"], top.peak,
            sum(one.n_pairs for one in group["members"].values()), top.p_s, top.p_q, top.score, state,
            mode=top.mode, stations=tuple(sorted(best)), margin=margin, numbers={"scores": scores},
        )  # fmt: skip
