"""Alarms: raised by events, latched, acknowledged, shelved, cleared. Pure functions on plain values; times in nanoseconds.

=============  ==================================================================================
state          meaning
=============  ==================================================================================
raised         its event goes on, and nobody has acknowledged it
latched        its event is over, and nobody has acknowledged it; ends by itself after ``latch``
acknowledged   somebody has seen it, and its event goes on; ends with the event
shelved        hidden until a time that a person gave; then it is what it would be without
cleared        over; only its verdict may still change
=============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coad.exceptions import InputError
from coad.live.reading import ACTIONS, Action
from coad.live.settings import Nanoseconds
from coad.live.values import Event, event_key

__all__ = ["Alarm", "AlarmSettings", "act", "on_event", "on_time", "open_for"]

#: A plain value: key, station, kind, state, active, acknowledged, raised, changed, cleared, until, end, events, score, text,
#: person, note, verdict, n (transitions so far), open (events that go on).
Alarm = dict[str, Any]
SHELVED, CLEARED = "shelved", "cleared"
#: The states of an alarm that is not over.
OPEN_STATES = ("raised", "latched", "acknowledged", SHELVED)


@dataclass(frozen=True)
class AlarmSettings:
    """Durations in nanoseconds.

    Parameters
    ----------
    latch
        How long an alarm that nobody acknowledges outlives its event; the one public deployment of the method has 300 s.
    dead_time
        After an alarm of a source has ended, its events raise no new one for so long; they are kept as events.
    min_pairs
        An event of fewer pairs raises no alarm.
    """

    latch: Nanoseconds = 300 * 10**9
    dead_time: Nanoseconds = 0
    min_pairs: int = 1


def on_event(
    event: Event, alarm: Alarm | None, last_end: int | None, settings: AlarmSettings, kind: str = "event"
) -> Alarm | None:
    """The alarm after an event of its source.

    Parameters
    ----------
    event
        New, grown or closed.
    alarm
        The alarm of its source that is not cleared, or that already holds this event; None if there is none.
    last_end
        When the last alarm of the source ended.
    settings
        See :class:`AlarmSettings`.
    kind
        What raises it.

    Returns
    -------
    Alarm or None
        None: no alarm, since the event is too short or falls in the dead time.

    >>> event = Event("e", "K01", 10, 20, 15, 3, 0.9, 0.8, 0.72, "open")
    >>> alarm = on_event(event, None, None, AlarmSettings())
    >>> alarm["state"], alarm["raised"]
    ('raised', 10)
    """
    if alarm is None or alarm["state"] == CLEARED:
        if alarm is not None and event.key in alarm["events"]:
            return alarm
        if event.n_pairs < settings.min_pairs:
            return None
        if last_end is not None and event.start < last_end + settings.dead_time:
            return None
        alarm = {
            "key": event_key("alarm", event.station, event.start, event.key), "station": event.station,
            "kind": kind, "state": "", "active": True, "acknowledged": False, "raised": event.start,
            "changed": event.start, "cleared": None, "until": None, "end": event.end, "events": [],
            "score": event.score, "text": str(event.numbers.get("text", "")), "person": "", "note": "",
            "verdict": "", "n": 0, "open": [],
        }  # fmt: skip
    new = dict(alarm)
    if event.key not in new["events"]:
        new["events"] = [*new["events"], event.key][-_EVENTS_KEPT:]
        # Something new happened: that somebody saw what went before does not cover it.
        new["acknowledged"] = new["acknowledged"] and new["active"]
    new["station"] = event.station
    new["score"], new["end"] = max(new["score"], event.score), max(new["end"], event.end)
    rest = [key for key in new["open"] if key != event.key]
    new["open"] = [*rest, event.key] if event.state == "open" else rest
    new["active"] = bool(new["open"])
    return _settled(alarm, new, event.end, settings)


#: The keys of so many events are kept with an alarm, which may last for days.
_EVENTS_KEPT = 100


def on_time(alarm: Alarm, now: int, settings: AlarmSettings) -> Alarm:
    """The alarm at a later time: shelving ends, and a latch runs out.

    >>> event = Event("e", "K01", 10, 20, 15, 3, 0.9, 0.8, 0.72, "closed")
    >>> alarm = on_event(event, None, None, AlarmSettings(latch=100))
    >>> alarm["state"], on_time(alarm, 119, AlarmSettings(latch=100))["state"], on_time(alarm, 120, AlarmSettings(latch=100))["state"]
    ('latched', 'latched', 'cleared')
    """
    return alarm if alarm["state"] == CLEARED else _settled(alarm, dict(alarm), now, settings)


def act(
    alarm: Alarm,
    action: Action,
    person: str,
    note: str,
    now: int,
    settings: AlarmSettings,
    until: int | None = None,
) -> Alarm:
    """The alarm after what a person did; raises InputError for what cannot be done."""
    if not person.strip():
        raise InputError("a name is needed with every action on an alarm")
    if action not in ACTIONS:
        raise InputError(f"there is no action {action!r}; choose {', '.join(ACTIONS)}")
    state, new = alarm["state"], {**alarm, "person": person.strip(), "note": note}
    refusals: dict[str, tuple[bool, str]] = {
        "acknowledge": (state in (CLEARED, SHELVED) or alarm["acknowledged"], f"is {state}"),
        "shelve": (state == CLEARED, "is cleared"),
        "unshelve": (state != SHELVED, f"is {state}, not shelved"),
        "clear": (state == CLEARED or alarm["active"], "is cleared" if state == CLEARED else "still goes on"),
    }
    refused, why = refusals.get(action, (False, ""))
    if refused:
        raise InputError(
            f"the alarm of {alarm['station'] or 'the input'} {why}; it cannot be taken for {action!r}"
        )
    if action == "shelve" and (until is None or until <= now):
        raise InputError("shelving needs an end that is still to come")
    changes: dict[str, Callable[[], dict[str, Any]]] = {
        "acknowledge": lambda: {"acknowledged": True},
        "shelve": lambda: {"until": until},
        "unshelve": lambda: {"until": None},
        "clear": lambda: {"acknowledged": True, "until": None},
        "confirm": lambda: {"verdict": "confirmed"},
        "false": lambda: {"verdict": "false"},
    }
    new |= changes[action]()
    done = new if state == CLEARED else _settled(alarm, new, now, settings)
    # Every action is a line of the journal, also one that leaves the state as it is.
    return (
        done
        if done["n"] > alarm["n"]
        else {**done, "n": alarm["n"] + 1, "changed": max(now, alarm["changed"])}
    )


def _settled(old: Alarm, new: Alarm, now: int, settings: AlarmSettings) -> Alarm:
    """The alarm with the state that its fields and the time imply."""
    if new["until"] is not None and now >= new["until"]:
        new["until"] = None
    if new["until"] is not None:
        state = SHELVED
    elif new["active"]:
        state = "acknowledged" if new["acknowledged"] else "raised"
    elif new["acknowledged"] or now >= new["end"] + settings.latch:
        state = CLEARED
    else:
        state = "latched"
    if state != old["state"] or new["station"] != old["station"]:
        # A latch runs out at its own time, whenever that is noticed.
        since = min(now, new["end"] + settings.latch) if state == CLEARED and not new["acknowledged"] else now
        new |= {"state": state, "n": old["n"] + 1, "changed": max(since, old["changed"])}
        if state == CLEARED:
            new["cleared"] = new["changed"]
    return new


def open_for(alarms: Iterable[Alarm], event: Event, kind: str = "event") -> Alarm | None:
    """The alarm that an event belongs to: the one that holds it, else the one of its source that is not cleared."""
    alarms = list(alarms)
    holding = [one for one in alarms if event.key in one["events"]]
    same = [one for one in alarms if one["station"] == event.station and one["kind"] == kind]
    found = holding or [one for one in same if one["state"] != CLEARED]
    return found[0] if found else None
