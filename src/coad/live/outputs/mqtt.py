"""Records to an MQTT broker: the last state of each alarm is retained, so that late listeners know it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from coad.live.outputs.records import as_json, chosen
from coad.live.protocols import OutputError, Record
from coad.live.sources.mqtt import Broker, connect

__all__ = ["MqttOutput"]


@dataclass(frozen=True)
class MqttOutputSettings(Broker):
    """Keys of ``[[output]]`` with ``kind = "mqtt"``."""

    topic: str = "coad"
    kinds: list[str] = field(default_factory=list)  # none: all but heartbeats
    timeout_s: float = 10.0


class MqttOutput:
    """Publishes on ``topic/kind/station`` with quality of service 1; alarms are retained."""

    Settings: ClassVar[type] = MqttOutputSettings
    name = "mqtt"

    def __init__(self, settings: MqttOutputSettings) -> None:
        self.settings = settings
        self._client = connect(settings)
        self._client.loop_start()

    def write(self, records: Sequence[Record]) -> None:
        """Publish and wait until the broker has taken all of them."""
        end = time.monotonic() + self.settings.timeout_s
        while not self._client.is_connected():
            if time.monotonic() > end:
                raise OutputError(f"no MQTT broker at {self.settings.host}:{self.settings.port}")
            time.sleep(0.05)
        sent = [
            self._client.publish(
                f"{self.settings.topic}/{one.kind}/{_level(one.station)}",
                as_json(one),
                qos=1,
                retain=one.kind == "alarm",
            )
            for one in chosen(records, self.settings.kinds)
        ]
        for message in sent:
            message.wait_for_publish(max(end - time.monotonic(), 0.01))
            if not message.is_published():
                raise OutputError(f"the MQTT broker took no message for {self.settings.timeout_s:g} s")

    def close(self) -> None:
        """Disconnect and end the client's thread."""
        self._client.disconnect()
        self._client.loop_stop()


def _level(station: str) -> str:
    """A station's name as one level of a topic."""
    return "".join("_" if letter in "/+#" else letter for letter in station) or "all"
