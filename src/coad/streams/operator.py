"""The live engine as an operator of a stream processor: a message and the state of its partition in, a result out.

It knows no broker. The state is a few named pieces of bytes, of which only those that changed are written: one for each
station that the partition has seen, and one for its copy of the witness.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from coad.data.model_files import to_json
from coad.exceptions import InputError
from coad.live.engine import WITNESS, Engine
from coad.live.ordering import NEVER
from coad.live.packing import from_bytes, to_bytes, to_plain
from coad.live.values import Step
from coad.streams.config import StreamConfig
from coad.streams.messages import Message, read_message

__all__ = ["Operator", "Pieces", "State"]

_LOG = logging.getLogger("coad.streams")
#: Brokers refuse messages of more than a megabyte unless told otherwise; a longer part of the state is cut.
_PIECE = 500_000
_META, _STATION = "meta", "station:"
_WITNESS_PARTS = ("witness", "witness_samples", "witness_refused")


class State(Protocol):
    """What the stream processor keeps for a partition, by name."""

    def get(self, name: str) -> bytes | None:
        """The piece; None if there is none."""

    def set(self, name: str, data: bytes) -> None:
        """Keep a piece."""


class Pieces(dict[str, bytes]):
    """A state in memory, and as one value for stream processors that keep one for a key.

    >>> state = Pieces()
    >>> state.set("meta", b"x")
    >>> Pieces.from_bytes(state.to_bytes()).get("meta"), state.get("other")
    (b'x', None)
    """

    def set(self, name: str, data: bytes) -> None:
        """Keep a piece."""
        self[name] = data

    def to_bytes(self) -> bytes:
        """All pieces as one."""
        return to_bytes({name: np.frombuffer(data, np.uint8) for name, data in self.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Pieces:
        """The inverse of :meth:`to_bytes`."""
        return cls({name: one.tobytes() for name, one in from_bytes(data).items()})


class Operator:
    """The step of all partitions that a worker has.

    Parameters
    ----------
    config
        The settings with their model.

    Notes
    -----
    A step depends on nothing but the state and the message, so that a message that is processed again after a crash gives
    the same result again. Engines are kept between steps, and used only if the state says that they are where it is.
    """

    def __init__(self, config: StreamConfig) -> None:
        self.config, self.run = config, config.run
        self.wanted = config.engine().wanted()
        self._engines: dict[int, tuple[int, Engine]] = {}

    def step(
        self, data: bytes | None, state: State, *, partition: int, offset: int, arrived: int = 0
    ) -> dict[str, Any] | None:
        """Take a message in.

        Parameters
        ----------
        data
            The value of the message, see :mod:`coad.streams.messages`.
        state
            Of the partition.
        partition, offset
            Where the message stands.
        arrived
            Its time by the broker, for samples that have none.

        Returns
        -------
        dict or None
            What :class:`coad.streams.merge.Merge` takes, as plain values; None if the message changed nothing.

        Raises
        ------
        InputError
            If the state was made with another model or other settings.
        """
        engine, meta = self._restored(state, partition)
        step, until, touched = Step(), NEVER, list[str]()
        before = meta["progress"]
        try:
            message = read_message(data, self.wanted, arrived=arrived)
        except InputError as error:
            _LOG.warning("partition %d, offset %d is left out: %s", partition, offset, error)
            engine.counts["malformed"] += 1
            message = Message("samples")
        if message.kind == "end":
            step = engine.close()
        elif message.kind == "clock":
            settings = engine.settings
            step, until = engine.advance(message.time), message.time - settings.lateness - settings.stale
            touched = [WITNESS]
        elif message.chunks:
            step = engine.push(message.chunks)
            touched = [chunk.stream for chunk in message.chunks]
        upto = max(before, _newest(engine))
        heard = _heard(engine)
        if meta["first"] is None and heard > NEVER:
            meta["first"] = heard
        if until > NEVER or heard >= (meta["first"] or 0) + engine.settings.stale:
            meta["progress"] = max(before, _progress(engine, until))
        meta["n"] += 1
        result = {
            "coad": 1, "run": self.run, "partition": partition, "offset": offset, "upto": upto,
            "progress": meta["progress"], "ended": message.kind == "end",
            "events": [asdict(one) for one in step.events],
            "refusals": [asdict(one) for one in step.refusals],
            "counts": dict(engine.counts),
        }  # fmt: skip
        if message.kind == "end":
            result["progress"] = -NEVER
            fresh = self.config.engine()
            fresh.counts = engine.counts  # it goes on counting
            engine = fresh
            meta |= {"progress": NEVER, "first": None, "pieces": {}}
        self._keep(state, engine, meta, touched)
        self._engines[partition] = meta["n"], engine
        news = step or meta["progress"] != before or result["ended"] or not message.chunks
        plain: dict[str, Any] = to_json(result)
        return plain if news else None

    def _restored(self, state: State, partition: int) -> tuple[Engine, dict[str, Any]]:
        """The engine of a partition, where its state says that it is."""
        said = state.get(_META)
        if said is None:
            engine = self.config.engine()
            return engine, {"run": self.run, "n": 0, "progress": NEVER, "first": None, "pieces": {}}
        meta = json.loads(said)
        if meta["run"] != self.run:
            raise InputError(
                f"the state of the group {self.config.stream.group!r} belongs to {meta['run']}, and this model with these "
                f"settings is {self.run}; name another group under [stream], which starts anew"
            )
        n, held = self._engines.get(partition, (-1, None))
        if held is not None and n == meta["n"]:
            return held, meta
        engine = self.config.engine()
        plain = engine.state()
        for part, pieces in meta["pieces"].items():
            data = b"".join(state.get(f"{part}/{k}") or b"" for k in range(pieces))
            if part.startswith(_STATION):
                plain["stations"][part.removeprefix(_STATION)] = from_bytes(data)
            else:
                plain |= from_bytes(data)
        plain["counts"] = meta["counts"]
        return engine.restore(plain), meta

    def _keep(self, state: State, engine: Engine, meta: dict[str, Any], touched: list[str]) -> None:
        for part, data in _changed(engine, touched, meta["pieces"]):
            pieces = [data[k : k + _PIECE] for k in range(0, len(data), _PIECE)]
            for k, piece in enumerate(pieces):
                state.set(f"{part}/{k}", piece)
            meta["pieces"][part] = len(pieces)
        meta["counts"] = dict(engine.counts)
        state.set(_META, json.dumps(meta).encode())


def _changed(engine: Engine, touched: list[str], stored: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The parts of the state that a step may have changed: the witness releases rows of every station."""
    if WITNESS in touched:
        yield "witness", to_bytes({name: to_plain(getattr(engine, name)) for name in _WITNESS_PARTS})
    for name, station in engine.stations.items():
        known = station.samples.newest > NEVER or f"{_STATION}{name}" in stored
        if name in touched or (known and WITNESS in touched):
            yield f"{_STATION}{name}", to_bytes(to_plain(station))


def _progress(engine: Engine, until: int) -> int:
    """Up to which time all that this partition has heard of is scored; silence is waited for as long as ``stale``."""
    heard = [one.samples for one in engine.stations.values() if one.samples.newest > NEVER]
    marks = [one.watermark for one in heard]
    newest = max((one.newest for one in heard), default=NEVER)
    if engine.witness is not None:
        marks.append(engine.witness.known_until)
    return max(min(marks, default=NEVER), newest - engine.settings.stale if heard else NEVER, until)


def _heard(engine: Engine) -> int:
    """The newest time of any stream. At first it must grow by ``stale`` before anything counts as scored up to a time:
    which stations this partition has is not known before they are heard.
    """
    streams = [one.samples.newest for one in engine.stations.values()]
    return max([*streams, engine.witness_samples.newest] if engine.witness_samples is not None else streams)


def _newest(engine: Engine) -> int:
    """No pair that was scored reaches beyond this time."""
    newest = max(one.samples.newest for one in engine.stations.values())
    samples = engine.witness_samples
    return newest if samples is None else min(newest, samples.newest)
