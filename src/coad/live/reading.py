"""What a page or a program may ask of a watch that runs, and which actions it may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from coad.live.protocols import Record

__all__ = ["ACTIONS", "Action", "WatchState", "WatchStore"]

Action = Literal["acknowledge", "shelve", "unshelve", "clear", "confirm", "false"]
ACTIONS: tuple[Action, ...] = ("acknowledge", "shelve", "unshelve", "clear", "confirm", "false")


class WatchStore(Protocol):
    """The database beside the model: ``coad.live.store.Store(path)``; every thread and process may have its own."""

    def alarms(self, state: str | None = None, limit: int = 500) -> list[dict[str, Any]]:
        """Alarms, newest first: key, station, kind ("event", "system", "drift", "source"), state ("raised", "latched",
        "acknowledged", "shelved", "cleared"), raised, changed, cleared, until, events, score, person, note, verdict."""

    def events(self, since: int = 0, limit: int = 500) -> list[dict[str, Any]]:
        """Events that start at ``since`` (ns) or later, newest first: the fields of :class:`coad.live.values.Event`."""

    def refusals(self, since: int = 0, limit: int = 500) -> list[dict[str, Any]]:
        """Refusals, newest first: the fields of :class:`coad.live.values.Refusal`."""

    def journal(self, since_id: int = 0, limit: int = 1000) -> list[Record]:
        """Records with a larger id, oldest first; what the outputs get."""

    def counters(self) -> dict[str, int]:
        """Counters by name: "samples", "pairs", "flagged", "late", "duplicate", "refused gate", "overload", ..."""

    def drift(self) -> list[dict[str, Any]]:
        """The last line for each station and input: station, name, context, psi, ks, p_value, outside, n, state, text."""

    def precision(self) -> tuple[int, int]:
        """How many alarms people marked as confirmed, and how many they marked at all."""

    def act(
        self, alarm_key: str, action: Action, person: str, note: str = "", until: int | None = None
    ) -> dict[str, Any]:
        """Take an action on an alarm; returns the alarm. ``until`` (ns) is the end of a shelving, and required there.

        Raises InputError for an action that the alarm's state does not allow, an unknown alarm, or no person.
        """


class WatchState(Protocol):
    """What ``coad.live.watcher.Watcher`` shows of itself; safe to call from another thread."""

    @property
    def store(self) -> WatchStore:
        """What is kept."""

    def snapshot(self, stations: Sequence[str] | None = None) -> Mapping[str, Any]:
        """Plain values, for JSON: ``time`` (watermark), ``lag_s``, ``model``, ``rule``, ``status`` ("running",
        "stopping", "stopped"), ``outputs`` (name → behind, error), ``source`` (counters, connected), ``stations``: name →
        state ("quiet", "alarm", "shelved", "stale", "disconnected"), last time, last p_s, p_q, score, and ``waves``:
        for the stations asked for, the last rows of both inputs: {"time": [...], "s": {column: [...]}, "q": {...}}."""
