"""Alarms to Alertmanager (API v2): it groups, silences, inhibits and routes them; we say what is firing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from coad.live.outputs.http import check_address, send_json
from coad.live.protocols import Record

__all__ = ["Alertmanager"]

#: States of an alarm in which a person still has to know of it.
_FIRING = ("raised", "latched", "acknowledged")
#: Alertmanager forgets what fires when it restarts, and what is not repeated for five minutes: say it again in time.
_REPEAT_SECONDS = 60.0
_RESOLVED_AFTER_SECONDS = 300.0


@dataclass(frozen=True)
class AlertmanagerSettings:
    """Keys of ``[[output]]`` with ``kind = "alertmanager"``."""

    url: str = "http://127.0.0.1:9093"
    labels: dict[str, str] = field(default_factory=dict)  # of every alert, for the routes
    page: str = ""  # address of the control-room page, linked from each alert
    timeout_s: float = 5.0
    tries: int = 3


class Alertmanager:
    """Each alarm is one alert, known by its key; it fires until the alarm is cleared or shelved."""

    Settings: ClassVar[type] = AlertmanagerSettings
    name = "alertmanager"
    stateful = True  # neither side keeps what fires

    def __init__(self, settings: AlertmanagerSettings) -> None:
        self.settings = settings
        self._url = check_address(settings.url).rstrip("/") + "/api/v2/alerts"
        self._firing: dict[str, Record] = {}
        self._said = 0.0

    def write(self, records: Sequence[Record]) -> None:
        """Send what has changed, and once a minute everything that still fires."""
        now = datetime.now(UTC)
        changed = {str(one.body["key"]): one for one in records if one.kind == "alarm"}
        repeat = now.timestamp() - self._said >= _REPEAT_SECONDS
        alerts = [
            self._alert(one, now) for one in ({**self._firing, **changed} if repeat else changed).values()
        ]
        if alerts:
            send_json(self._url, alerts, timeout_s=self.settings.timeout_s, tries=self.settings.tries)
        self._firing |= changed
        self._firing = {key: one for key, one in self._firing.items() if one.body.get("state") in _FIRING}
        if repeat:
            self._said = now.timestamp()

    def close(self) -> None:
        """Nothing stays open; what fires is resolved by Alertmanager if nobody repeats it."""

    def _alert(self, record: Record, now: datetime) -> dict[str, Any]:
        body = record.body
        firing = body.get("state") in _FIRING
        end = now.timestamp() + _RESOLVED_AFTER_SECONDS if firing else now.timestamp()
        start = min(float(body.get("raised") or record.time) / 1e9, end)
        alert = {
            "labels": {
                **self.settings.labels,
                "alertname": f"coad_{body.get('kind', 'event')}",
                "station": record.station or "all",
                "key": str(body["key"]),
            },
            "annotations": {
                name: str(body[name])
                for name in ("state", "text", "score", "person", "note")
                if body.get(name) not in (None, "")
            },
            "startsAt": _rfc3339(start),
            "endsAt": _rfc3339(end),
        }
        return alert | ({"generatorURL": self.settings.page} if self.settings.page else {})


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
