"""Alarms as EPICS process variables: a table, whether there is any, a heartbeat, and two scalars for each station."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import p4p
from p4p.nt import NTScalar, NTTable
from p4p.server import Server, StaticProvider
from p4p.server.thread import SharedPV

from coad.live.protocols import Record

__all__ = ["EpicsOutput"]

#: A PV keeps the very type object that it was opened with.
_INTEGER, _FLOAT = NTScalar("l").type, NTScalar("d").type
_MAJOR, _MINOR, _NONE = 2, 1, 0
#: Severity of a PV for each state of an alarm; others are no alarm.
_SEVERITY = {"raised": _MAJOR, "latched": _MAJOR, "acknowledged": _MINOR}
_COLUMNS = ("station", "kind", "state", "raised", "score", "events", "person", "note", "key")
_NUMBERS = {"raised": "l", "score": "d", "events": "l"}


@dataclass(frozen=True)
class EpicsOutputSettings:
    """Keys of ``[[output]]`` with ``kind = "epics"``."""

    prefix: str = "COAD:"
    environment: dict[str, str] = field(default_factory=dict)  # EPICS_PVAS_*; none: that of the process


class EpicsOutput:
    """Serves ``COAD:ALARMS`` (NTTable), ``COAD:ANY`` (number of alarms), ``COAD:HEARTBEAT``, and for each station
    ``COAD:K01:ALARM`` (0 none, 1 acknowledged, 2 raised) and ``COAD:K01:SCORE`` (of its last event)."""

    Settings: ClassVar[type] = EpicsOutputSettings
    name = "epics"
    stateful = True  # a new server has no values

    def __init__(self, settings: EpicsOutputSettings) -> None:
        self.settings = settings
        self._alarms: dict[str, dict[str, Any]] = {}
        self._pvs: dict[str, SharedPV] = {}
        self._provider = StaticProvider("coad")
        self._table = NTTable([(name, _NUMBERS.get(name, "s")) for name in _COLUMNS])
        self._pvs["ALARMS"] = SharedPV(nt=self._table, initial=[])
        self._provider.add(f"{settings.prefix}ALARMS", self._pvs["ALARMS"])
        self._post("ANY", 0, _NONE, time.time_ns())
        self._post("HEARTBEAT", 0, _NONE, time.time_ns())
        environment = settings.environment
        self._server = Server([self._provider], conf=environment or None, useenv=not environment)

    @property
    def environment(self) -> dict[str, str]:
        """What clients on this machine need to find the server."""
        return dict(self._server.conf())

    def write(self, records: Sequence[Record]) -> None:
        """Post what has changed."""
        for one in records:
            if one.kind == "heartbeat":
                self._post("HEARTBEAT", time.time_ns() // 10**9, _NONE, time.time_ns())
            elif one.kind == "event":
                self._post(f"{one.station}:SCORE", float(one.body.get("score", 0.0)), _NONE, one.time)
            elif one.kind == "alarm":
                self._alarm(one)

    def close(self) -> None:
        """Stop serving."""
        self._server.stop()

    def _alarm(self, record: Record) -> None:
        row = {**record.body, "events": len(record.body["events"])}
        self._alarms[row["key"]] = {
            name: (row.get(name) or 0) if name in _NUMBERS else str(row.get(name) or "") for name in _COLUMNS
        }
        self._alarms = {
            key: alarm for key, alarm in self._alarms.items() if alarm["state"] in (*_SEVERITY, "shelved")
        }
        worst = self._severity(record.station)
        self._post(f"{record.station}:ALARM", worst, worst, record.time)
        active = [alarm for alarm in self._alarms.values() if alarm["state"] in _SEVERITY]
        worst = max((_SEVERITY[alarm["state"]] for alarm in active), default=_NONE)
        self._post("ANY", len(active), worst, record.time)
        table = self._table.wrap(list(self._alarms.values()))
        for name in _COLUMNS:
            table.mark(f"value.{name}")  # an empty column would not count as a change
        self._pvs["ALARMS"].post(table)

    def _severity(self, station: str) -> int:
        states = [alarm["state"] for alarm in self._alarms.values() if alarm["station"] == station]
        return max((_SEVERITY.get(state, _NONE) for state in states), default=_NONE)

    def _post(self, name: str, value: float, severity: int, at: int) -> None:
        """Set a scalar PV, which is made when it is first set."""
        wrapped = p4p.Value(
            _FLOAT if isinstance(value, float) else _INTEGER,
            {
                "value": value,
                "alarm": {"severity": severity},
                "timeStamp": {"secondsPastEpoch": at // 10**9, "nanoseconds": at % 10**9},
            },
        )
        if name in self._pvs:
            self._pvs[name].post(wrapped)
        else:
            self._pvs[name] = SharedPV(initial=wrapped)
            self._provider.add(self.settings.prefix + name, self._pvs[name])
