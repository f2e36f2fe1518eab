"""The worker: the operator in Quix Streams, with its state in RocksDB and a changelog in Kafka."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

with warnings.catch_warnings(record=True):  # of packages that Quix Streams imports, to their own authors
    from quixstreams import Application, message_context
    from quixstreams.exceptions import QuixException
    from quixstreams.models import Deserializer
    from quixstreams.models.topics import Topic, TopicAdmin, TopicConfig, TopicManager

from coad.exceptions import CoadError
from coad.streams.brokers import failed, partitions_of
from coad.streams.config import StreamConfig
from coad.streams.operator import Operator

if TYPE_CHECKING:
    from quixstreams.state import State as QuixState

__all__ = ["application", "work"]

_LOG = logging.getLogger("coad.streams")
_SECOND = 1_000_000_000
#: The state is that of a partition, whatever the keys of its messages: stations share their copy of the witness.
_PLACE = b"partition"


def work(config: StreamConfig) -> None:
    """Work on the partitions that the group gives to this process, until it is told to stop (SIGTERM or Ctrl-C).

    Parameters
    ----------
    config
        The settings with their model.
    """
    try:
        application(config).run()
    except (QuixException, KafkaException) as error:
        raise failed(config, error) from error


def application(config: StreamConfig) -> Application:
    """The application, for those who want to add to it; it has the results as a ``StreamingDataFrame`` of JSON.

    Parameters
    ----------
    config
        The settings with their model.
    """
    stream, operator = config.stream, Operator(config)
    logging.getLogger("quixstreams").setLevel(logging.ERROR)
    for topic in (stream.topic, stream.results):
        partitions_of(config, topic)
    extra = {name: value for name, value in config.client.items() if name != "bootstrap.servers"}
    settings: dict[str, Any] = {}
    if stream.make_topics == "broker":
        settings["topic_manager"] = _AskedTopics(TopicAdmin(stream.brokers, extra_config=extra), stream.group)
    app = Application(
        stream.brokers,
        consumer_group=stream.group,
        auto_offset_reset="earliest",
        commit_interval=stream.commit / _SECOND,
        consumer_extra_config=extra | stream.consumer,
        producer_extra_config=dict(extra),
        state_dir=config.folder / stream.state,
        on_processing_error=_unsaid,
        loglevel=None,
        auto_create_topics=stream.make_topics == "admin",
        processing_guarantee=stream.guarantee,
        consumer_poll_timeout=0.2,
        **settings,
    )
    samples = app.topic(stream.topic, key_deserializer=_OneKey(), value_deserializer="bytes")
    results = app.topic(stream.results, key_serializer="str", value_serializer="json")

    def step(value: bytes, key: bytes, timestamp: int, headers: Any, state: QuixState) -> Any:
        place = message_context()
        if key is None:  # Quix Streams keeps another state for such messages, whatever the deserializer says
            _LOG.warning("partition %d, offset %d is left out: it has no key", place.partition, place.offset)
            return None
        return operator.step(
            value, _Kept(state), partition=place.partition, offset=place.offset, arrived=timestamp * 10**6
        )

    frame = app.dataframe(samples).apply(step, stateful=True, metadata=True)
    # The key keeps the results of a partition in their order.
    frame.filter(lambda value: value is not None).to_topic(results, key=lambda value: str(value["partition"]))
    return app


class _OneKey(Deserializer):  # type: ignore[misc]
    def __call__(self, *args: Any, **kwargs: Any) -> bytes:
        return _PLACE


class _Kept:
    """Quix's state as the operator wants it."""

    def __init__(self, state: QuixState) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self._state.get_bytes(name)
        return found

    def set(self, name: str, data: bytes) -> None:
        self._state.set_bytes(name, data)


class _AskedTopics(TopicManager):  # type: ignore[misc]
    """Topics that a broker makes when it is asked for them: no rights of an administrator are needed."""

    def _fetch_topic(self, topic: Topic) -> Topic:
        listed = self._admin.admin_client.list_topics(topic.name, timeout=self._timeout).topics[topic.name]
        found = Topic(name=topic.name)
        found.broker_config = TopicConfig(len(listed.partitions), 1, {"retention.ms": "-1"})
        return found


def _unsaid(error: Exception, row: Any, logger: logging.Logger) -> bool:
    """What the user can do something about is said once, by the command; the rest with its traceback."""
    if not isinstance(error, CoadError):
        logger.error("partition %s, offset %s", row.context.partition, row.context.offset, exc_info=error)
    return False
