"""Samples from an MQTT broker: plain numbers or JSON, on topics that name the stream and the column."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from coad.exceptions import InputError
from coad.live.protocols import Wanted
from coad.live.sources.messages import read_message
from coad.live.sources.queue import QueuedSource
from coad.live.values import Chunk

__all__ = ["Broker", "MqttSource", "connect", "topic_pattern"]


@dataclass(frozen=True)
class Broker:
    """Where a broker is, and who we are."""

    host: str = "127.0.0.1"
    port: int = 1883
    username: str = ""
    password_file: str = ""
    tls: bool = False
    ca_file: str = ""  # of the broker's certificate; empty: those of the system
    client_id: str = ""  # with a name, the broker keeps messages for us while we are away


@dataclass(frozen=True)
class MqttSourceSettings(Broker):
    """Keys of ``[source]`` with ``kind = "mqtt"``."""

    topics: list[str] = field(default_factory=lambda: ["coad/{stream}/{column}"])
    stream_key: str = "stream"
    qos: int = 1
    queue_size: int = 100_000


class MqttSource(QueuedSource):
    """Subscribes to topics such as ``rf/{stream}/{column}``; subscribes again after each lost connection.

    The names in braces say what a level of the topic means. Without ``{column}`` the payload is a JSON object; without
    ``{stream}`` it has the stream's name, or its columns tell it.
    """

    Settings: ClassVar[type] = MqttSourceSettings

    def __init__(self, settings: MqttSourceSettings, wanted: Wanted) -> None:
        super().__init__(wanted, queue_size=settings.queue_size)
        self.settings = settings
        self._patterns = [topic_pattern(topic) for topic in settings.topics]
        self._client = connect(settings)  # it connects when its loop starts

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """Samples as they come; a broker cannot go back, so there is no position."""
        self._client.on_connect = self._connected
        self._client.on_message = self._message
        self._client.loop_start()
        yield from self.take()

    def connected(self) -> Mapping[str, bool]:
        """Whether the broker can be reached, the same for every stream."""
        return dict.fromkeys(self.wanted.columns, self._client.is_connected())

    def close(self) -> None:
        """Disconnect and end the client's thread."""
        self.closed.set()
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, client: paho.Client, _data: Any, _flags: Any, code: Any, _more: Any) -> None:
        if code.is_failure:
            self.counts["refused"] += 1
            return
        self.counts["connects"] += 1
        client.subscribe([(topic, self.settings.qos) for topic, _ in self._patterns])

    def _message(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        named: dict[str, str] = {}
        for _, pattern in self._patterns:
            found = pattern.fullmatch(message.topic)
            if found:
                named = found.groupdict()
                break
        self.put(
            read_message(
                message.payload,
                self.wanted,
                self.counts,
                arrived=time.time_ns(),
                stream=named.get("stream"),
                column=named.get("column"),
                stream_key=self.settings.stream_key,
            )
        )


def topic_pattern(topic: str) -> tuple[str, re.Pattern[str]]:
    """What to subscribe to for a topic with names in braces, and how to read them from a message's topic.

    >>> subscribed, pattern = topic_pattern("rf/{stream}/{column}")
    >>> subscribed, pattern.fullmatch("rf/K01/amplitude").groupdict()
    ('rf/+/+', {'stream': 'K01', 'column': 'amplitude'})
    """
    levels = []
    for level in topic.split("/"):
        name = re.fullmatch(r"\{(stream|column)\}", level)
        if not name and set(level) & set("{}"):
            raise InputError(
                f"topic {topic!r}: a whole level is {{stream}} or {{column}}, which {level!r} is not"
            )
        levels.append(
            f"(?P<{name[1]}>[^/]+)" if name else {"+": "[^/]+", "#": ".*"}.get(level, re.escape(level))
        )
    return re.sub(r"\{\w+\}", "+", topic), re.compile("/".join(levels))


def connect(broker: Broker) -> paho.Client:
    """A client that connects in its own thread, and again after each lost connection.

    Parameters
    ----------
    broker
        Where the broker is.

    Returns
    -------
    paho.mqtt.client.Client
        Its loop is not started yet.
    """
    client = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=broker.client_id, clean_session=not broker.client_id
    )
    try:
        if broker.username:
            password = Path(broker.password_file).read_text().strip() if broker.password_file else None
            client.username_pw_set(broker.username, password)
        if broker.tls:
            client.tls_set(ca_certs=broker.ca_file or None)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"password_file or ca_file cannot be used: {error}") from error
    client.reconnect_delay_set(min_delay=1, max_delay=30)
    client.connect_async(broker.host, broker.port)
    return client
