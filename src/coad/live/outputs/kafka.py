"""Records to a Kafka topic, with their keys: a compacted topic keeps one of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import confluent_kafka as kafka

from coad.exceptions import InputError
from coad.live.outputs.records import as_json, chosen
from coad.live.protocols import OutputError, Record

__all__ = ["KafkaOutput"]


@dataclass(frozen=True)
class KafkaOutputSettings:
    """Keys of ``[[output]]`` with ``kind = "kafka"``."""

    topic: str
    brokers: str = "127.0.0.1:9092"
    kinds: list[str] = field(default_factory=list)  # none: all but heartbeats
    timeout_s: float = 10.0
    client: dict[str, str] = field(default_factory=dict)


class KafkaOutput:
    """Waits until the brokers have taken every record."""

    Settings: ClassVar[type] = KafkaOutputSettings
    name = "kafka"

    def __init__(self, settings: KafkaOutputSettings) -> None:
        self.settings = settings
        try:
            self._producer = kafka.Producer(
                {
                    "bootstrap.servers": settings.brokers,
                    "enable.idempotence": True,
                    "message.timeout.ms": str(round(settings.timeout_s * 1000)),
                    **settings.client,
                }
            )
        except kafka.KafkaException as error:
            raise InputError(f"the settings of Kafka are wrong: {error.args[0].str()}") from error

    def write(self, records: Sequence[Record]) -> None:
        """Send the records and wait for the brokers' answers."""
        failed: list[str] = []

        def answered(error: kafka.KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error.str())

        for one in chosen(records, self.settings.kinds):
            self._producer.produce(self.settings.topic, as_json(one), key=one.key, on_delivery=answered)
        left = self._producer.flush(self.settings.timeout_s + 1.0)
        if left or failed:
            raise OutputError(
                f"Kafka at {self.settings.brokers} did not take {left + len(failed)} records"
                + (f": {failed[0]}" if failed else "")
            )

    def close(self) -> None:
        """Send what is left."""
        self._producer.flush(1.0)
