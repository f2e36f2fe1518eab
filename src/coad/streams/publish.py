"""The publisher: any source of a watch into Kafka, a second of each stream a message, the witness to every partition."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import numpy as np
from numpy.typing import NDArray

from coad.data.atomic import written_whole
from coad.exceptions import FileError, InputError
from coad.live.engine import WITNESS
from coad.live.sources.replay import Replay
from coad.live.values import Chunk
from coad.streams.brokers import PATIENCE, failed, partitions_of
from coad.streams.config import StreamConfig
from coad.streams.messages import write_message

__all__ = ["publish", "seconds"]

_LOG = logging.getLogger("coad.streams")
_SECOND = 1_000_000_000
#: So many samples wait for streams that are silent, at most.
_WAITING = 500_000
_POSITION = "publisher.json"
_NOBODY = b"time"  # the key of what is no stream's: workers take no message without one
_TABLE = "table"  # the key of one table with both inputs: Kafka sends an empty key to any partition


def publish(config: StreamConfig, stop: threading.Event | None = None) -> int:
    """Read the source and publish it, until it ends or ``stop`` is set.

    Parameters
    ----------
    config
        The settings with their model; ``[source]`` says what is read.
    stop
        Ends the publishing after the messages under way.

    Returns
    -------
    int
        How many messages were published.
    """
    return _Publisher(config, stop or threading.Event()).run()


class _Publisher:
    def __init__(self, config: StreamConfig, stop: threading.Event) -> None:
        self.config, self.stop, self.sent = config, stop, 0
        self.source = config.watch.open_source(config.engine().wanted())
        self.recording = isinstance(self.source, Replay)
        self.partitions = partitions_of(config, config.stream.topic)
        self.file = config.folder / config.stream.state / _POSITION
        self._error: kafka.KafkaError | None = None
        try:
            self.producer = kafka.Producer({**config.client, "enable.idempotence": "true", "linger.ms": "20"})
        except kafka.KafkaException as error:
            raise failed(config, error) from error

    def run(self) -> int:
        streams = list(self.source.connected())
        said = self._position()
        kept = said
        newest, arrived, ticked = 0, time.monotonic(), time.monotonic()
        pieces = seconds(
            self.source.chunks(said), streams, self.config.stream.chunk, wait=None if self.recording else 1.0
        )
        try:
            for piece in pieces:
                if piece is not None:
                    self._send(piece)
                    if len(piece) and int(piece.time.max()) > newest:
                        newest, arrived = int(piece.time.max()), time.monotonic()
                    if piece.position is not None:
                        said = piece.position
                if not self.recording and time.monotonic() - ticked >= 1.0:
                    ticked = time.monotonic()
                    if newest:  # the sources' clock: their newest time, and what has passed since it came
                        self._everywhere(write_message(newest + int((ticked - arrived) * _SECOND)))
                    self._flush()
                    if said != kept:
                        kept = self._keep(said)
                if self.stop.is_set():
                    break
            else:
                self._everywhere(write_message(None))
            self._flush()
            if self.recording and not self.stop.is_set():
                self.file.unlink(missing_ok=True)
            else:
                self._keep(said)
        finally:
            self.source.close()
        return self.sent

    def _send(self, chunk: Chunk) -> None:
        data = write_message(chunk)
        if chunk.stream == WITNESS:
            self._everywhere(data, WITNESS.encode())
        else:
            self._produce(data, (chunk.stream or _TABLE).encode())

    def _everywhere(self, data: bytes, key: bytes = _NOBODY) -> None:
        for partition in range(self.partitions):
            self._produce(data, key, partition)

    def _produce(self, data: bytes, key: bytes, partition: int = -1) -> None:
        while True:
            try:
                self.producer.produce(
                    self.config.stream.topic, data, key, partition, on_delivery=self._delivered
                )
                break
            except BufferError:
                self.producer.poll(0.1)
            except kafka.KafkaException as error:
                raise failed(self.config, error) from error
        self.sent += 1
        self.producer.poll(0)
        self._check()

    def _flush(self) -> None:
        if self.producer.flush(3 * PATIENCE):
            raise InputError(
                f"no broker at {self.config.stream.brokers} takes messages; what was read is not lost"
            )
        self._check()

    def _delivered(self, error: kafka.KafkaError | None, message: Any) -> None:
        self._error = self._error or error

    def _check(self) -> None:
        if self._error is not None:
            raise failed(self.config, kafka.KafkaException(self._error))

    def _position(self) -> Any:
        try:
            return json.loads(self.file.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise FileError(
                f"{self.file} cannot be read: {error}; delete it to publish from the start"
            ) from error

    def _keep(self, position: Any) -> Any:
        """Note where reading goes on, once all before is with the brokers."""
        if position is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(Path(self.file)) as draft:
                draft.write_text(json.dumps(position))
        return position


def seconds(
    chunks: Iterator[Chunk | None], streams: list[str], length: int, *, wait: float | None
) -> Iterator[Chunk | None]:
    """Chunks of any size as pieces of about a second, in the order of their times, the witness first.

    Parameters
    ----------
    chunks
        Of a source; the position of the last one of each piece comes with it.
    streams
        Those that are waited for.
    length
        Of a piece, in nanoseconds.
    wait
        For so many seconds a piece waits for other streams; None: until they come, or the source ends.

    Yields
    ------
    Chunk or None
        None where the source has nothing.

    >>> chunk = Chunk("", np.array([0, 6, 11, 12, 25]), {"a": np.arange(5.0)}, "end")
    >>> [(one.time.tolist(), one.position) for one in seconds(iter([chunk]), [""], 10, wait=None)]
    [([0, 6], None), ([11, 12], None), ([25], 'end')]
    """
    held = _Held()
    reached: dict[str, int] = dict.fromkeys(streams, -(2**62))
    for chunk in chunks:
        if chunk is not None and len(chunk):
            numbers = np.asarray(chunk.time) // length
            reached[chunk.stream] = max(reached.get(chunk.stream, -(2**62)), int(numbers.max()))
            held.add(chunk, numbers)
        ready = min(reached.values())
        while held.came:
            number = min(held.came)
            late = wait is not None and time.monotonic() - held.came[number] >= wait
            if number >= ready and not late and held.waiting <= _WAITING:
                break
            yield from held.taken(number)
        if chunk is None:
            yield None
    while held.came:
        yield from held.taken(min(held.came))


class _Held:
    """Samples that wait, by the second, and which position is safe once which of them are out."""

    def __init__(self) -> None:
        self.came: dict[int, float] = {}  # when the first samples of a second came
        self.waiting = 0
        self._parts: dict[int, list[tuple[int, Chunk]]] = {}
        self._positions: list[tuple[int, Any]] = []
        self._n = 0

    def add(self, chunk: Chunk, numbers: NDArray[np.int64]) -> None:
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            part = Chunk(chunk.stream, chunk.time[mine], {k: v[mine] for k, v in chunk.columns.items()})
            self._n += 1
            self._parts.setdefault(number, []).append((self._n, part))
            self.came.setdefault(number, time.monotonic())
        self.waiting += len(chunk)
        if chunk.position is not None:
            self._positions.append((self._n, chunk.position))

    def taken(self, number: int) -> list[Chunk]:
        """What came of a second, the witness first; the last piece has the position."""
        del self.came[number]
        parts = self._parts.pop(number)
        oldest = min((one[0][0] for one in self._parts.values()), default=self._n + 1)
        safe = None
        while self._positions and self._positions[0][0] < oldest:
            safe = self._positions.pop(0)[1]
        same: dict[tuple[Any, ...], list[Chunk]] = {}
        for _, part in parts:  # readings of single columns stay apart
            same.setdefault((part.stream != WITNESS, part.stream, *part.columns), []).append(part)
        found = []
        for _, stream, *names in sorted(same):
            mine = same[(stream != WITNESS, stream, *names)]
            self.waiting -= sum(map(len, mine))
            columns = {name: np.concatenate([one.columns[name] for one in mine]) for name in names}
            found.append(Chunk(stream, np.concatenate([one.time for one in mine]), columns))
        found[-1] = replace(found[-1], position=safe)
        return found
