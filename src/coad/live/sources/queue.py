"""What sources share that are called when samples come: a queue of bounded length, and its counts."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from coad.live.protocols import Wanted
from coad.live.sources.samples import joined
from coad.live.values import Chunk

__all__ = ["QueuedSource"]

#: The watcher is to act on time and to stop although nothing comes.
WAIT_SECONDS = 0.2
#: Chunks that are put together at most: joining keeps the work per sample small, a bound keeps the delay small.
_MOST_JOINED = 20_000


class QueuedSource:
    """Base of sources with callbacks: they call :meth:`put`, the watcher takes from :meth:`chunks`.

    A full queue loses its oldest chunk, which is counted as ``dropped``: what is new matters more, and the engine sees
    the gap.
    """

    def __init__(self, wanted: Wanted, *, queue_size: int) -> None:
        self.wanted = wanted
        self.counts: Counter[str] = Counter()
        self.closed = threading.Event()
        self._queue: queue.Queue[Chunk] = queue.Queue(queue_size)
        self._putting = threading.Lock()

    def put(self, chunks: Iterable[Chunk]) -> None:
        """Take chunks from the thread of a client."""
        with self._putting:
            for chunk in chunks:
                if self._queue.full():
                    with suppress(queue.Empty):  # the watcher may just have taken it
                        self.counts["dropped"] += len(self._queue.get_nowait())
                self._queue.put_nowait(chunk)

    def take(self) -> Iterator[Chunk | None]:
        """What has come, put together; None after a while without anything."""
        while not self.closed.is_set():
            try:
                waiting = [self._queue.get(timeout=WAIT_SECONDS)]
            except queue.Empty:
                yield None
                continue
            while len(waiting) < _MOST_JOINED:
                try:
                    waiting.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            yield from joined(waiting, None, None)

    def counters(self) -> Mapping[str, int]:
        """What came, and what became of it."""
        return dict(self.counts)
