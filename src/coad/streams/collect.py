"""The collector: results of all workers into the one database, each event once, and on to the outputs."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import confluent_kafka as kafka

from coad.live.delivery import Delivery
from coad.live.store import Store
from coad.live.values import Step
from coad.streams.brokers import failed, partitions_of
from coad.streams.config import StreamConfig
from coad.streams.merge import Merge

__all__ = ["collect"]

_LOG = logging.getLogger("coad.streams")
_MESSAGES, _WAIT = 2000, 0.2  # of one poll, and for how many seconds
_BEHIND = 60.0  # seconds behind the others, after which a partition is named


def collect(config: StreamConfig, stop: threading.Event | None = None) -> Store:
    """Keep what the workers find, until a recording has ended in every partition or ``stop`` is set.

    Parameters
    ----------
    config
        The settings with their model.
    stop
        Ends the collecting after the messages under way.

    Returns
    -------
    Store
        The database.

    Notes
    -----
    Events, the offsets up to which results were read, and what the grouping remembers are written in one transaction:
    after ``kill -9`` none is lost and none is there twice.
    """
    stop = stop or threading.Event()
    merge = Merge(config, partitions_of(config, config.stream.topic))
    n_results = partitions_of(config, config.stream.results)
    store = Store(config.database, config.watch.alarms)
    state, _ = store.restart(config.run)
    position: dict[str, int] = {}
    if state is not None:
        merge.restore(state)
        position = dict(store.position() or {})
    consumer = _consumer(config, position, n_results)
    deliveries = [Delivery(output, store) for output in config.watch.open_outputs()]
    strangers, looked = 0, time.monotonic()

    def keep(step: Step) -> None:
        """Commit a step with all that a restart needs."""
        store.commit(
            step,
            b"",
            position=position,
            counts=merge.counts(),
            snapshot=merge.state(),
            fingerprint=config.run,
        )
        for one in deliveries:
            one.news()

    try:
        while not stop.is_set():
            messages = consumer.consume(_MESSAGES, _WAIT)
            kept, step = True, Step()
            for record in messages:
                if record.error():
                    if record.error().fatal():
                        raise failed(config, kafka.KafkaException(record.error()))
                    continue
                position[str(record.partition())] = record.offset() + 1
                step = _taken(merge, record)
                # A step by itself: alarms end between events, which they could not if a minute were one step.
                kept = bool(step)
                if kept:
                    keep(step)
            if not kept:
                keep(step)
            if merge.own["results of another model"] and not strangers:
                _LOG.warning(
                    "results of another model or of other settings are left out; ours are those of %s",
                    config.run,
                )
            strangers = merge.own["results of another model"]
            if time.monotonic() - looked > _BEHIND:
                looked = time.monotonic()
                late = merge.behind(int(_BEHIND * 1e9))
                if late:
                    _LOG.warning("no worker keeps up with partition %s: events of the others wait", late)
            if merge.done:
                break
    finally:
        consumer.close()
        for one in deliveries:
            one.close(patience=5.0)
    return store


def _taken(merge: Merge, record: Any) -> Step:
    try:
        result = json.loads(record.value())
        if result["coad"] != 1:
            raise ValueError(f"it has format {result['coad']}, and this coad reads 1")
        return merge.add(result)
    except (ValueError, TypeError, KeyError) as error:
        _LOG.warning(
            "result at partition %d, offset %d is left out: %s", record.partition(), record.offset(), error
        )
        merge.own["malformed results"] += 1
        return Step()


def _consumer(config: StreamConfig, position: dict[str, int], partitions: int) -> Any:
    """Reads all partitions of the results; where it stands is kept in the database, not by the broker."""
    try:
        consumer = kafka.Consumer(
            {
                "group.id": f"{config.stream.group}-collect",  # librdkafka asks for one; no offset is committed to it
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **config.client,
            }
        )
    except kafka.KafkaException as error:
        raise failed(config, error) from error
    topic = config.stream.results
    consumer.assign(
        [
            kafka.TopicPartition(topic, one, position.get(str(one), kafka.OFFSET_BEGINNING))
            for one in range(partitions)
        ]
    )
    return consumer
