"""What sources and outputs of a watch must do, and how ``watch.toml`` names them.

A class of your own needs no base class. A source is created as ``YourSource(settings, wanted)``, an output as
``YourOutput(settings)``; ``Settings`` is a dataclass, an attribute of the class, whose fields are the keys that the
section of ``watch.toml`` may have: str, int, float, bool, list[str] or dict[str, str]; fields without a default are
required.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol

from coad._extras import missing_package
from coad.exceptions import CoadError, InputError
from coad.live.values import Chunk

__all__ = ["OUTPUTS", "SOURCES", "Output", "OutputError", "Record", "Source", "Wanted", "adapter"]

RecordKind = Literal["event", "refusal", "alarm", "counter", "drift", "heartbeat"]

#: ``kind`` of ``[source]`` → where its class lives. It is imported when a configuration names it.
SOURCES: dict[str, str] = {
    "replay": "coad.live.sources.replay:Replay",
    "files": "coad.live.sources.files:GrowingFiles",
    "epics": "coad.live.sources.epics:EpicsSource",
    "mqtt": "coad.live.sources.mqtt:MqttSource",
    "kafka": "coad.live.sources.kafka:KafkaSource",
}
#: ``kind`` of ``[[output]]`` → where its class lives.
OUTPUTS: dict[str, str] = {
    "jsonl": "coad.live.outputs.jsonl:JsonLines",
    "webhook": "coad.live.outputs.webhook:Webhook",
    "alertmanager": "coad.live.outputs.alertmanager:Alertmanager",
    "parquet": "coad.live.outputs.parquet_days:ParquetDays",
    "epics": "coad.live.outputs.epics:EpicsOutput",
    "mqtt": "coad.live.outputs.mqtt:MqttOutput",
    "kafka": "coad.live.outputs.kafka:KafkaOutput",
}


class OutputError(CoadError):
    """An output could not take records now; the watcher tries again later."""


@dataclass(frozen=True)
class Wanted:
    """What the model needs from a source.

    ``columns`` has the names of the columns of each stream: ``""`` for one table with both inputs; otherwise one
    stream for each station and ``"witness"``.
    """

    columns: Mapping[str, tuple[str, ...]]
    time: str | None = None  # name of the time column in files and messages
    time_unit: str | None = None
    time_format: str | None = None
    text: frozenset[str] = frozenset()  # columns that may hold text: contexts and groups


@dataclass(frozen=True)
class Record:
    """A fact for the outputs, and for the page: a line of the journal.

    ``key`` is the same for the same fact, also after a restart: an output that gets a key twice keeps one. ``id``
    numbers the records of one store without gaps going back; outputs get them in this order. ``body`` can be JSON.
    """

    id: int
    kind: RecordKind
    key: str
    station: str
    time: int  # event time in nanoseconds
    body: Mapping[str, Any] = field(default_factory=dict, hash=False)


class Source(Protocol):
    """Where samples come from."""

    Settings: ClassVar[type]

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """Samples as they come, from ``position`` on (of the last chunk that was kept; None: from the start or now).

        Yields None at least every 0.2 s when there is nothing, so that the watcher can act on time and stop. Ends
        where a recording ends. Malformed messages are counted, never raised. A connection that is lost is looked for
        again, with growing pauses.
        """

    def counters(self) -> Mapping[str, int]:
        """``received``, ``malformed``, ``dropped``, ``reconnects`` and others, since the start."""

    def connected(self) -> Mapping[str, bool]:
        """For each stream whether its source can be reached; disconnected is not the same as anomalous."""

    def close(self) -> None:
        """Let go of connections and threads; called once, also after an error."""


class Output(Protocol):
    """Where records go. It is called from a thread of its own.

    An output with ``stateful = True`` gets the alarms that go on once more when the watch starts.
    """

    Settings: ClassVar[type]
    name: str

    def write(self, records: Sequence[Record]) -> None:
        """Hand over records, oldest first. May raise OutputError: the same records come again later."""

    def close(self) -> None:
        """Let go of connections; called once."""


def adapter(kind: str, homes: Mapping[str, str], *, what: str) -> type:
    """The class that a ``kind`` names: one of ours, or ``"module:Class"`` of your own.

    Parameters
    ----------
    kind
        The key ``kind`` of a section.
    homes
        :data:`SOURCES` or :data:`OUTPUTS`.
    what
        ``"source"`` or ``"output"``, for the error.

    Returns
    -------
    type

    >>> adapter("telex", OUTPUTS, what="output")
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: there is no output 'telex'; choose jsonl, webhook, alertmanager, parquet, epics, mqtt,
    kafka, or name a class of your own as "module:Class"
    """
    home = homes.get(kind, kind)
    module, _, name = home.partition(":")
    if not name:
        raise InputError(
            f'there is no {what} {kind!r}; choose {", ".join(homes)}, or name a class of your own as "module:Class"'
        )
    try:
        found = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise missing_package(error) or InputError(
            f"the {what} {kind!r} cannot be imported: {error}"
        ) from error
    except AttributeError:
        raise InputError(
            f"the module {module!r} has no class {name!r}, which the {what} {kind!r} names"
        ) from None
    if not isinstance(found, type):
        raise InputError(f"the {what} {kind!r} is not a class")
    return found
