"""Samples from EPICS process variables over PVAccess: scalars that change, or tables of many samples."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import p4p
from p4p.client.thread import Context, Disconnected

from coad.exceptions import InputError
from coad.live.protocols import Wanted
from coad.live.sources.queue import QueuedSource
from coad.live.sources.samples import make_chunks
from coad.live.values import Chunk

__all__ = ["EpicsSource"]

_INVALID = 3  # alarm severity of a value that says nothing


@dataclass(frozen=True)
class EpicsSourceSettings:
    """Keys of ``[source]`` with ``kind = "epics"``."""

    pvs: dict[str, str]
    sequence: str = ""
    monitor_queue: int = 200  # the usual length lost 76 updates of a burst of 100, this one none
    queue_size: int = 100_000
    environment: dict[str, str] = field(default_factory=dict)  # EPICS_PVA_*; none: that of the process


class EpicsSource(QueuedSource):
    """Monitors PVs named by ``pvs``: for each stream, or ``"*"`` for the others, a name with its places in braces.

    ``"RF:{stream}:{column}"`` is a scalar for each column, with its own time stamp. ``"BEAM:{stream}"`` is an NTTable whose
    columns are those of the stream, with a column of times. Chunks cost far less than samples. ``sequence`` names a column
    of a table that counts its rows: what is missing from it is counted as ``lost``.
    """

    Settings: ClassVar[type] = EpicsSourceSettings

    def __init__(self, settings: EpicsSourceSettings, wanted: Wanted) -> None:
        super().__init__(wanted, queue_size=settings.queue_size)
        self.settings = settings
        self._names = {
            (stream, column): self._pv(stream).format(stream=stream, column=column)
            for stream, columns in wanted.columns.items()
            for column in (columns if "{column}" in self._pv(stream) else ("",))
        }
        self._up: dict[tuple[str, str], bool] = dict.fromkeys(self._names, False)
        self._next: dict[str, int] = {}
        self._counting = threading.Lock()  # monitors call back from several threads
        self._context: Context | None = None

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """Samples as they come; a process variable cannot go back, so there is no position."""
        settings = self.settings
        self._context = Context(
            "pva", nt=False, conf=settings.environment or None, useenv=not settings.environment
        )
        request = f"record[queueSize={settings.monitor_queue}]field()"
        monitors = [
            self._context.monitor(
                name, functools.partial(self._came, key), request=request, notify_disconnect=True
            )
            for key, name in self._names.items()
        ]
        yield from self.take()
        for monitor in monitors:
            monitor.close()

    def connected(self) -> Mapping[str, bool]:
        """For each stream whether all of its PVs are connected."""
        return {
            stream: all(up for (name, _), up in self._up.items() if name == stream)
            for stream in self.wanted.columns
        }

    def close(self) -> None:
        """Disconnect."""
        self.closed.set()
        if self._context is not None:
            self._context.close()

    def _pv(self, stream: str) -> str:
        pvs = self.settings.pvs
        if stream not in pvs and "*" not in pvs:
            raise InputError(f'pvs of the source has no name for {stream!r}, and none for the others ("*")')
        return pvs.get(stream, pvs.get("*", ""))

    def _came(self, key: tuple[str, str], value: Any) -> None:
        with self._counting:
            if isinstance(value, Exception):
                self._up[key] = False
                self.counts["disconnects" if isinstance(value, Disconnected) else "errors"] += 1
                return
            self._up[key] = True
            self.counts["received"] += 1
            stream, column = key
            try:
                chunks = self._scalar(stream, column, value) if column else self._table(stream, value)
            except (KeyError, TypeError, ValueError, AttributeError):  # another type than was promised
                self.counts["malformed"] += 1
                return
            self.put(chunks)

    def _scalar(self, stream: str, column: str, value: p4p.Value) -> list[Chunk]:
        stamp = value["timeStamp"]
        at = stamp["secondsPastEpoch"] * 10**9 + stamp["nanoseconds"]
        reading = None if value["alarm.severity"] >= _INVALID else value["value"]
        # A server that has no clock sends 0: then it is now that the value came.
        times = np.array([at or time.time_ns()]).view("datetime64[ns]")
        return make_chunks(self.wanted, self.counts, times, {column: [reading]}, stream=stream)

    def _table(self, stream: str, value: p4p.Value) -> list[Chunk]:
        columns = value["value"].todict(None, dict)
        if self.settings.sequence:
            numbers = columns.pop(self.settings.sequence)
            self.counts["lost"] += max(int(numbers[0]) - self._next.get(stream, int(numbers[0])), 0)
            self._next[stream] = int(numbers[-1]) + 1
        times = columns.pop(self.wanted.time or "time")
        return make_chunks(self.wanted, self.counts, times, columns, stream=stream)
