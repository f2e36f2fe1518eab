"""The settings of ``coad stream``: those of a watch, and a section ``[stream]``; the same file serves both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from coad.exceptions import InputError
from coad.live.config import WatchConfig
from coad.live.engine import Engine, EngineSettings
from coad.live.model import LiveModel
from coad.live.settings import Nanoseconds
from coad.streams.messages import FORMAT

__all__ = ["StreamConfig", "StreamSection"]

_SECOND = 1_000_000_000


@dataclass(frozen=True)
class StreamSection:
    """Keys of ``[stream]``."""

    brokers: str = "127.0.0.1:9092"
    topic: str = "coad-samples"
    results: str = "coad-results"
    group: str = "coad"  # of the workers; the state belongs to it
    chunk: Nanoseconds = _SECOND  # how much of a stream a message has
    state: str = "stream-state"  # folder of a worker, in the model folder; may be lost
    commit: Nanoseconds = 5 * _SECOND  # how often the workers commit
    guarantee: Literal["at-least-once", "exactly-once"] = "at-least-once"
    make_topics: Literal["admin", "broker", "never"] = "admin"
    partitions: int = 4  # of topics that are made
    replicas: int = 1
    client: dict[str, str] = field(default_factory=dict)  # more settings of librdkafka, such as sasl.*
    consumer: dict[str, str] = field(
        default_factory=dict
    )  # the same for the workers alone: session.timeout.ms


@dataclass(frozen=True)
class StreamConfig:
    """Settings and models, checked.

    Parameters
    ----------
    folder
        The model folder.
    watch
        All sections but ``[stream]``.
    stream
        The section ``[stream]``.
    """

    folder: Path
    watch: WatchConfig
    stream: StreamSection

    @classmethod
    def read(cls, folder: Path, path: Path | None, *, sourceless: bool = True) -> StreamConfig:
        """Read and check a file.

        Parameters
        ----------
        folder
            The model folder.
        path
            The file; None: all settings have their defaults.
        sourceless
            Whether ``[source]`` may be missing; only the publisher needs it.
        """
        watch = WatchConfig.read(path, sourceless=sourceless)
        file = watch.file
        stream = file.section("stream", StreamSection)
        if watch.drift.every:
            raise file.error(
                "coad stream does not look for drift; take [drift] out, or use coad watch", "drift"
            )
        if watch.model.shadow:
            raise file.error("coad stream has no shadow model; use coad watch for that", "model", "shadow")
        if stream.topic == stream.results:
            raise file.error("topic and results must be two topics", "stream", "results")
        for name in ("chunk", "commit", "partitions", "replicas"):
            if getattr(stream, name) <= 0:
                raise file.error(f"{name} under [stream] must be more than 0", "stream", name)
        for name in ("brokers", "topic", "results", "group"):
            if not getattr(stream, name).strip():
                raise file.error(f"{name} under [stream] must not be empty", "stream", name)
        return cls(Path(folder), watch, stream)

    @cached_property
    def models(self) -> dict[str, LiveModel]:
        """The model of each station, loaded once."""
        return self.watch.models(self.folder)

    @cached_property
    def settings(self) -> EngineSettings:
        """The settings of the engine."""
        return self.watch.engine_settings(next(iter(self.models.values())))

    def engine(self) -> Engine:
        """A fresh engine for a partition: it knows all stations, and hears some."""
        return Engine(self.models, self.settings, shard=True)

    @cached_property
    def run(self) -> str:
        """Changes with the models, with what the engine is told, with the group and with the topic.

        State and results carry it, so that those of another model are never taken for ours.
        """
        models = {name: model.digest for name, model in self.models.items()}
        place = [FORMAT, self.stream.group, self.stream.topic]
        text = json.dumps([models, asdict(self.settings), place], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def database(self) -> Path:
        """Where what was found is kept; not the database of a watch, unless ``[store]`` says so."""
        named = "file" in self.watch.file.values.get("store", {})
        return self.folder / (self.watch.store.file if named else "stream.db")

    @property
    def client(self) -> dict[str, str]:
        """Settings of every client of Kafka."""
        return {"bootstrap.servers": self.stream.brokers, **self.stream.client}

    def check(self) -> None:
        """Build an engine, so that what does not fit the model is said at once."""
        try:
            self.engine()
        except InputError as error:
            raise self.watch.file.error(str(error), "model") from error
