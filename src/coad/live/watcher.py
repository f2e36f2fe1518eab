"""The loop that ties a source, the engine, the database and the outputs together."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from coad.exceptions import CoadError
from coad.live.config import WatchConfig
from coad.live.delivery import Delivery
from coad.live.drift import Drift
from coad.live.engine import Engine
from coad.live.intake import Intake
from coad.live.packing import chunk_from_plain, chunk_to_plain, to_bytes
from coad.live.sources.replay import Replay
from coad.live.status import Status
from coad.live.store import Store
from coad.live.values import Chunk, Event, Step, event_key

__all__ = ["Watcher"]

_LOG = logging.getLogger("coad.live")
_SECOND = 1_000_000_000
#: A reader is behind when its oldest chunk has waited for so many seconds; scoring is then left out.
BEHIND = 2.0
#: A snapshot of the engine is kept when the steps since the last one have this many bytes, or twice those of it.
SNAPSHOT_BYTES = 4_000_000
_HOUR = 3600 * _SECOND


class Watcher:
    """Watch until told to stop, or until a recording ends.

    Parameters
    ----------
    folder
        The model folder.
    config
        The checked configuration.
    """

    def __init__(self, folder: Path, config: WatchConfig) -> None:
        self.folder, self.config = Path(folder), config
        self.engine = config.engine(self.folder)
        blocks = next(iter(self.engine.models.values())).layout.context_blocks
        if config.drift.every and blocks is not None:
            raise config.file.error(
                f"blocks of {blocks} are contexts, and each is new: nothing can drift in it", "drift"
            )
        self.drift = Drift(config.drift)
        if config.drift.every and config.drift.training:
            self.drift.learn(config.training_steps(self.folder))
        self.source = config.open_source(self.engine.wanted())
        self.replaying = isinstance(self.source, Replay)
        self.store = Store(self.folder / config.store.file, config.alarms)
        self.status = Status(self)
        self._stop = threading.Event()
        self._seen = self._stamp()
        self._since_snapshot = self._snapshot_bytes = 0
        self._arrived = time.monotonic()  # when the newest sample came
        self._gone = self.store.open_alarms("source")  # streams that cannot be reached, and the keys of that
        self._pruned = 0
        self._resume()
        self.deliveries = [Delivery(output, self.store) for output in config.open_outputs()]

    def run(self) -> None:
        """Watch; returns when :meth:`stop` was called or the source has ended."""
        intake = Intake(self.source, self.store.position(), whole=self.replaying)
        _LOG.info("watching with %s", self.folder)
        self.status.state = "running"
        ticked = time.monotonic()
        try:
            while not self._stop.is_set():
                chunks = intake.take()
                if chunks:
                    self._take(chunks, overloaded=not self.replaying and intake.waited > BEHIND)
                if intake.done:
                    break
                if not self.replaying and time.monotonic() - ticked >= (0.2 if not chunks else 1.0):
                    ticked = time.monotonic()
                    self._tick()
            if intake.failure is not None:
                raise intake.failure
            if intake.done and not self._stop.is_set():
                self._keep(self.engine.close(), {"op": "close"}, snapshot=True)
            else:
                self._keep(Step(), {"op": "stop"}, snapshot=True)
        finally:
            self.status.state = "stopping"
            intake.close()
            for one in self.deliveries:
                one.close(patience=5.0)
            self.store.close()
            self.status.state = "stopped"
            _LOG.info("stopped")

    def stop(self) -> None:
        """End after the step that is under way; safe to call from a signal handler or another thread."""
        self._stop.set()

    def snapshot(self, stations: Sequence[str] | None = None) -> Mapping[str, Any]:
        """What the watch is doing now, as plain values; see :class:`coad.live.reading.WatchState`."""
        return self.status.shown(stations)

    def _take(self, chunks: list[Chunk], *, overloaded: bool) -> None:
        newest = self.engine.newest
        step = self.engine.push(chunks, overloaded=overloaded)
        if self.engine.newest > newest:
            self._arrived = time.monotonic()
        self.status.saw(chunks, step)
        entry = {"op": "push", "overloaded": overloaded, "chunks": [chunk_to_plain(one) for one in chunks]}
        positions = [one.position for one in chunks if one.position is not None]
        self._keep(step, entry, position=positions[-1] if positions else None)

    def _tick(self) -> None:
        """What the passing of time brings: silent streams, a new model, old entries."""
        if self.engine.newest > 0:
            # The sources' clock: their newest time, and what has passed since it came.
            now = self.engine.newest + int((time.monotonic() - self._arrived) * _SECOND)
            step = self.engine.advance(now)
            if step or step.watermark != self.store.watermark():
                self.status.saw([], step)
                self._keep(step, {"op": "advance", "now": now})
            self._note_connections(now)
            if self.config.store.keep and now - self._pruned > _HOUR:
                self._pruned = now
                self.store.forget_before(now - self.config.store.keep)
        self._reload()

    def _keep(
        self, step: Step, entry: dict[str, Any], *, position: Any = None, snapshot: bool = False
    ) -> None:
        """Commit a step; a full disk is waited for, and nothing is read meanwhile."""
        data, lines = to_bytes(entry), self.drift.add(step)
        self._since_snapshot += len(data)
        state = None
        if snapshot or self._since_snapshot > max(SNAPSHOT_BYTES, 2 * self._snapshot_bytes):
            state = {"engine": self.engine.state(), "drift": self.drift.state()}
            self._since_snapshot, self._snapshot_bytes = 0, len(to_bytes(state))
        pause = 0.1
        while True:
            try:
                self.store.commit(
                    step,
                    data,
                    position=position,
                    counts=dict(self.engine.counts),
                    drift=lines,
                    snapshot=state,
                    fingerprint=self.fingerprint,
                )
                self.status.trouble = ""
                break
            except sqlite3.OperationalError as error:
                if not self.status.trouble:
                    _LOG.error(
                        "%s cannot be written: %s; nothing is read until it can", self.store.path, error
                    )
                self.status.trouble = f"{self.store.path.name} cannot be written: {error}"
                if self._stop.wait(pause):
                    raise  # the step is lost with the process, and read again after a restart
                pause = min(2 * pause, 10.0)
        for one in self.deliveries if hasattr(self, "deliveries") else ():
            one.news()

    def _resume(self) -> None:
        """Bring the engine to where the last process was."""
        state, entries = self.store.restart(self.fingerprint)
        if state is not None:
            self.engine.restore(state["engine"])
            self.drift.restore(state["drift"])
        for entry in entries:
            step = Step()
            if entry["op"] == "push":
                chunks = [chunk_from_plain(one) for one in entry["chunks"]]
                step = self.engine.push(chunks, overloaded=entry["overloaded"])
            elif entry["op"] == "advance":
                step = self.engine.advance(entry["now"])
            self.drift.add(step)

    @property
    def fingerprint(self) -> str:
        """Changes with the models and with the settings of the engine: the state of another is of no use."""
        models = {name: model.digest for name, model in self.engine.models.items()}
        parts = [models, asdict(self.engine.settings), asdict(self.config.drift)]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = (self.folder / "model.json").stat()
        except OSError:
            return None  # it is being replaced
        return found.st_mtime_ns, found.st_ino

    def _reload(self) -> None:
        """Take a new model over, if there is one; half of one is left alone."""
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:
            return
        self._seen = stamp
        try:
            fresh: Engine = self.config.engine(self.folder)
        except CoadError as error:
            self.status.model_error = f"the new model cannot be used, the old one goes on: {error}"
            _LOG.error(self.status.model_error)
            return
        if [one.digest for one in fresh.models.values()] == [
            one.digest for one in self.engine.models.values()
        ]:
            return
        self.status.model_error = ""
        step = self.engine.end_events()
        if fresh.wanted() == self.engine.wanted() and all(
            fresh.models[name].layout == self.engine.models[name].layout for name in fresh.models
        ):
            fresh.restore(self.engine.state())
        self.engine, self.drift = (
            fresh,
            Drift(self.config.drift),
        )  # the training named is that of the old model
        self.store.end_alarms("drift")
        self.status.saw([], step)
        self._keep(step, {"op": "model"}, snapshot=True)
        _LOG.info("a new model was loaded from %s", self.folder)

    def _note_connections(self, now: int) -> None:
        """An alarm of its own kind for a stream that cannot be reached, which says nothing about anomalies."""
        for stream, up in self.source.connected().items():
            key = self._gone.get(stream)
            if up == (key is None):
                continue
            key = event_key("source", stream, now) if key is None else key
            text = {"text": f"{stream or 'the input'} cannot be reached"}
            state: Literal["open", "closed"] = "closed" if up else "open"
            self.store.signal(
                Event(key, stream, now, now, now, 1, 0.0, 0.0, 0.0, state, numbers=text), "source"
            )
            if up:
                del self._gone[stream]
            else:
                self._gone[stream] = key
