"""Samples from Kafka: JSON messages, whose key may name the stream; reading goes on where the watch was stopped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import confluent_kafka as kafka

from coad.exceptions import InputError
from coad.live.protocols import Wanted
from coad.live.sources.messages import read_message
from coad.live.sources.queue import WAIT_SECONDS
from coad.live.sources.samples import joined
from coad.live.values import Chunk

__all__ = ["KafkaSource"]

_MOST_MESSAGES = 5_000  # of one poll


@dataclass(frozen=True)
class KafkaSourceSettings:
    """Keys of ``[source]`` with ``kind = "kafka"``."""

    topics: list[str]
    brokers: str = "127.0.0.1:9092"
    stream_key: str = "stream"
    from_start: bool = False  # the first time: what the broker still has, or only what is new
    client: dict[str, str] = field(default_factory=dict)  # more settings of librdkafka, such as sasl.*


class KafkaSource:
    """Reads all partitions of the topics; the position is the offset of each, kept by the watch and not by the broker."""

    Settings: ClassVar[type] = KafkaSourceSettings

    def __init__(self, settings: KafkaSourceSettings, wanted: Wanted) -> None:
        self.settings, self.wanted = settings, wanted
        self.counts: Counter[str] = Counter()
        self._up = self._closed = False
        try:
            self._consumer = kafka.Consumer(
                {
                    "bootstrap.servers": settings.brokers,
                    "group.id": "coad-watch",  # librdkafka asks for one; no offset is committed to it
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",  # where the kept position is older than the topic
                    "error_cb": self._trouble,
                    **settings.client,
                }
            )
        except kafka.KafkaException as error:
            raise InputError(f"the settings of Kafka are wrong: {error.args[0].str()}") from error

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """Samples from ``position`` on: the next offset of each partition, as ``{"topic/0": 12}``."""
        done: dict[str, int] = dict(position or {})
        while not self._closed and not self._assign(done):
            yield None
        while not self._closed:
            messages = self._consumer.consume(_MOST_MESSAGES, WAIT_SECONDS)
            before, chunks = dict(done), []
            for one in messages:
                if one.error():
                    self.counts["errors"] += 1
                    continue
                self._up = True
                done[f"{one.topic()}/{one.partition()}"] = int(one.offset() or 0) + 1
                chunks += self._read(one)
            together = joined(chunks, dict(done), before)
            if not together:
                yield None
            yield from together

    def counters(self) -> Mapping[str, int]:
        """Messages received, malformed, and the errors of the client."""
        return dict(self.counts)

    def connected(self) -> Mapping[str, bool]:
        """Whether the brokers answer, the same for every stream."""
        return dict.fromkeys(self.wanted.columns, self._up)

    def close(self) -> None:
        """Leave the brokers."""
        self._closed = True
        self._consumer.close()

    def _assign(self, done: Mapping[str, int]) -> bool:
        """Take all partitions, each from its offset; False while no broker or no topic is there."""
        first = kafka.OFFSET_BEGINNING if self.settings.from_start else kafka.OFFSET_END
        partitions = []
        for topic in self.settings.topics:
            try:
                listed = self._consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
            except kafka.KafkaException:
                return False
            if listed.error or not listed.partitions:
                time.sleep(WAIT_SECONDS)
                return False
            partitions += [
                kafka.TopicPartition(topic, number, done.get(f"{topic}/{number}", first))
                for number in listed.partitions
            ]
        self._consumer.assign(partitions)
        self._up = True
        return True

    def _read(self, message: Any) -> list[Chunk]:
        kind, milliseconds = message.timestamp()
        key = message.key()
        stream = key.decode("utf-8", errors="replace") if key else None
        return read_message(
            message.value(),
            self.wanted,
            self.counts,
            arrived=time.time_ns() if kind == kafka.TIMESTAMP_NOT_AVAILABLE else milliseconds * 10**6,
            stream=stream if stream in self.wanted.columns else None,
            stream_key=self.settings.stream_key,
        )

    def _trouble(self, error: kafka.KafkaError) -> None:
        self.counts["errors"] += 1
        if error.code() == kafka.KafkaError._ALL_BROKERS_DOWN:
            self._up = False
