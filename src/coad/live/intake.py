"""Chunks of a source, read in a thread of its own into a queue of bounded length."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from coad.live.protocols import Source
from coad.live.values import Chunk

__all__ = ["Intake"]

#: Samples that wait at most, 20 s of 81 stations at 120 Hz; then the source waits, or drops by its own rule and counts it.
_WAITING = 200_000


class Intake:
    """What a source gives, as lists of chunks for one step of the engine.

    Parameters
    ----------
    source
        The source.
    position
        Where reading goes on.
    whole
        Whether a step ends where the source can go on reading, as in a recording: then the same recording makes the same
        steps. Otherwise a step takes all that has come.
    """

    def __init__(self, source: Source, position: Any, *, whole: bool) -> None:
        self.source, self.whole = source, whole
        self._chunks: deque[tuple[float, Chunk]] = deque()
        self._changed = threading.Condition()
        self._stop = self.ended = False
        self._waiting = 0  # samples
        self.waited = 0.0  # for how many seconds the oldest chunk of the last step had waited
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._read, args=(position,), name="coad-source", daemon=True)
        self._thread.start()

    def take(self, patience: float = 0.2) -> list[Chunk]:
        """The chunks of the next step; empty if none came in so many seconds."""
        with self._changed:
            if not self._ready():
                self._changed.wait_for(lambda: self._ready() or self.ended, patience)
            if not self._ready() and not self.ended:
                return []
            taken: list[Chunk] = []
            self.waited = time.monotonic() - self._chunks[0][0] if self._chunks else 0.0
            while self._chunks:
                taken.append(self._chunks.popleft()[1])
                self._waiting -= len(taken[-1])
                if self.whole and taken[-1].position is not None:
                    break
            self._changed.notify_all()
            return taken

    @property
    def done(self) -> bool:
        """Whether the source has ended and all was taken."""
        with self._changed:
            return self.ended and not self._chunks

    def close(self) -> None:
        """Stop reading."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._thread.join(5.0)
        self.source.close()

    def _ready(self) -> bool:
        if not self.whole:
            return bool(self._chunks)
        return any(chunk.position is not None for _, chunk in self._chunks) or self._waiting >= _WAITING

    def _read(self, position: Any) -> None:
        try:
            for chunk in self.source.chunks(position):
                with self._changed:
                    self._changed.wait_for(lambda: self._stop or self._waiting < _WAITING)
                    if self._stop:
                        return
                    if chunk is not None:
                        self._chunks.append((time.monotonic(), chunk))
                        self._waiting += len(chunk)
                        self._changed.notify_all()
        except BaseException as error:  # raised again by the watcher
            self.failure = error
        finally:
            with self._changed:
                self.ended = True
                self._changed.notify_all()
