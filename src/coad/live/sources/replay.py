"""A recording as a source: the same engine on files that ``coad score`` reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.paths import find_files
from coad.data.tables import iter_batches
from coad.data.times import in_nanoseconds
from coad.exceptions import InputError
from coad.live.ordering import Rows
from coad.live.protocols import Wanted
from coad.live.values import Chunk

__all__ = ["Replay"]

WITNESS = "witness"
#: Before this many seconds of waiting something is yielded, so that the watcher can stop.
_NAP = 0.1


class Replay:
    """Rows of files, as fast as they can be read or at a multiple of the speed at which they were recorded."""

    @dataclass(frozen=True)
    class Settings:
        """``file``: one table; or ``s_file`` and ``q_file``, where ``station`` names the column of s that tells stations
        apart. ``speed``: 1 is real time, 0 as fast as possible. ``rows``: of a chunk."""

        file: str = ""
        s_file: str = ""
        q_file: str = ""
        station: str = ""
        speed: float = 0.0
        rows: int = 4096

    def __init__(self, settings: Settings, wanted: Wanted) -> None:
        self.settings, self.wanted = settings, wanted
        if bool(settings.file) == bool(settings.s_file) or bool(settings.s_file) != bool(settings.q_file):
            raise InputError("a replay needs either file, or s_file and q_file")
        if settings.rows < 1 or settings.speed < 0:
            raise InputError("rows of a replay must be at least 1 and speed at least 0")
        two = WITNESS in wanted.columns
        if two and settings.file:
            raise InputError("these stations and their witness are two tables; give s_file and q_file")
        if not two and settings.s_file:
            raise InputError("this model was fitted on one table; give file")
        self._n = {"received": 0, "malformed": 0}
        for path in (settings.file, settings.s_file, settings.q_file):
            if path:
                find_files(path)

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """The rows from ``position`` on."""
        paced = self._one_table if self.settings.file else self._two_tables
        began: tuple[float, int] | None = None
        for chunk in paced(dict(position or {})):
            self._n["received"] += len(chunk)
            if self.settings.speed and len(chunk):
                began = began or (time.monotonic(), int(chunk.time[0]))
                due = began[0] + (int(chunk.time[-1]) - began[1]) / 1e9 / self.settings.speed
                while (wait := due - time.monotonic()) > 0:
                    yield None
                    time.sleep(min(wait, _NAP))
            yield chunk

    def counters(self) -> Mapping[str, int]:
        """How many rows were read."""
        return dict(self._n)

    def connected(self) -> Mapping[str, bool]:
        """A file is always there."""
        return dict.fromkeys(self.wanted.columns, True)

    def close(self) -> None:
        """Nothing is held open between chunks."""

    def _one_table(self, at: dict[str, int]) -> Iterator[Chunk]:
        stream = next(iter(self.wanted.columns))
        done = at.get("rows", 0)
        for rows in self._rows(self.settings.file, self.wanted.columns[stream], done):
            done += len(rows)
            yield Chunk(stream, rows.time, rows.columns, {"rows": done})

    def _two_tables(self, at: dict[str, int]) -> Iterator[Chunk]:
        """Rows of the witness first, then those of the stations up to the same time: none has to wait long."""
        stations = [name for name in self.wanted.columns if name != WITNESS]
        names = self.wanted.columns[stations[0]]
        more = (self.settings.station,) if self.settings.station else ()
        s_done, q_done, until = at.get("s", 0), at.get("q", 0), at.get("until", -(2**62))
        witness = self._rows(self.settings.q_file, self.wanted.columns[WITNESS], q_done)
        source = self._rows(self.settings.s_file, (*names, *more), s_done)
        held = next(source, None)
        while held is not None:
            while held is not None:
                n = int(np.searchsorted(np.maximum.accumulate(held.time), until, side="right"))
                if n:
                    part, held = held.take(slice(0, n)), held.take(slice(n, None))
                    s_done += n
                    yield from self._by_station(part, stations, {"s": s_done, "q": q_done, "until": until})
                if len(held):
                    break
                held = next(source, None)
            rows = next(witness, None)
            until = 2**62 if rows is None else int(rows.time.max())
            if rows is not None:
                q_done += len(rows)
                yield Chunk(WITNESS, rows.time, rows.columns, {"s": s_done, "q": q_done, "until": until})

    def _by_station(self, rows: Rows, stations: list[str], position: dict[str, int]) -> Iterator[Chunk]:
        if not self.settings.station:
            yield Chunk(stations[0], rows.time, rows.columns, position)
            return
        label = rows.columns[self.settings.station].astype(str)
        found = [(name, label == name) for name in sorted(set(label.tolist()))]
        for place, (name, mine) in enumerate(found):
            part = rows.take(mine)
            columns = {k: one for k, one in part.columns.items() if k != self.settings.station}
            # Reading goes on after the last of them: before, none is done with.
            yield Chunk(name, part.time, columns, position if place == len(found) - 1 else None)

    def _rows(self, files: str, names: tuple[str, ...], skip: int) -> Iterator[Rows]:
        clock = self.wanted.time
        asked = list(dict.fromkeys([*names, *([clock] if clock else [])]))
        text = [*self.wanted.text, self.settings.station, *([clock] if clock else [])]
        done = 0
        for batch in iter_batches(
            find_files(Path(files)),
            asked,
            batch_rows=self.settings.rows,
            categories=[one for one in asked if one in text],
        ):
            n = len(batch)
            columns: dict[str, NDArray[Any]] = dict(batch.columns)
            if clock:
                stamps = in_nanoseconds(
                    columns[clock], unit=self.wanted.time_unit, format=self.wanted.time_format, name=clock
                )
            else:
                stamps = (done + np.arange(n)) * 1_000_000_000  # rows without a time come once a second
            if done + n > skip:
                rows = Rows(stamps, {name: columns[name] for name in names})
                yield rows.take(slice(max(0, skip - done), None)) if skip > done else rows
            done += n
