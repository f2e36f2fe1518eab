"""What every command asks of the brokers: that they answer, and which partitions a topic has."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka as kafka
import confluent_kafka.admin

from coad.exceptions import InputError
from coad.streams.config import StreamConfig

__all__ = ["PATIENCE", "failed", "partitions_of"]

#: How long brokers may take to answer, in seconds.
PATIENCE = 10.0


def partitions_of(config: StreamConfig, topic: str) -> int:
    """The number of partitions of a topic; it is made if it is missing, as far as ``make_topics`` allows.

    Raises
    ------
    InputError
        If no broker answers, or there is no such topic.
    """
    stream = config.stream
    admin = _admin(config)
    found = _listed(config, admin).topics.get(topic)
    if found is None and stream.make_topics == "admin":
        _make(config, admin, topic)
    if found is None and stream.make_topics != "never":
        end = time.monotonic() + PATIENCE
        while (found is None or found.error or not found.partitions) and time.monotonic() < end:
            # Asked for by its name, a broker with auto.create.topics.enable makes it.
            found = _listed(config, admin, topic).topics.get(topic)
            time.sleep(0.1)
    if found is None or found.error or not found.partitions:
        raise InputError(
            f"there is no topic {topic!r} at {stream.brokers}; make it (with {stream.partitions} partitions, say), "
            'or let it be made with make_topics = "admin" under [stream]'
        )
    return len(found.partitions)


def failed(config: StreamConfig, error: Exception) -> InputError:
    """What Kafka says, in a line."""
    reason = error.args[0].str() if error.args and isinstance(error.args[0], kafka.KafkaError) else str(error)
    return InputError(f"Kafka at {config.stream.brokers}: {' '.join(reason.split())}")


def _admin(config: StreamConfig) -> Any:
    try:
        return kafka.admin.AdminClient({**config.client, "log_level": 0})  # errors are raised, and said once
    except kafka.KafkaException as error:
        raise InputError(f"client under [stream] is wrong: {error.args[0].str()}") from error


def _listed(config: StreamConfig, admin: Any, topic: str | None = None) -> Any:
    try:
        return admin.list_topics(topic, timeout=PATIENCE)
    except kafka.KafkaException as error:
        raise InputError(
            f"no broker answers at {config.stream.brokers} within {PATIENCE:.0f} s; check brokers and client under [stream]"
        ) from error


def _make(config: StreamConfig, admin: Any, topic: str) -> None:
    new = kafka.admin.NewTopic(  # type: ignore[attr-defined]
        topic, config.stream.partitions, config.stream.replicas
    )
    try:
        admin.create_topics([new], request_timeout=PATIENCE)[topic].result(PATIENCE)
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise InputError(
                f"the topic {topic!r} cannot be made: {error.args[0].str()}; make it yourself, and write "
                'make_topics = "never" under [stream]'
            ) from error
