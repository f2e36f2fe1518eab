"""Samples from files that grow: CSV files to which lines are added, and folders that Parquet files are put into."""

from __future__ import annotations

import csv
import glob
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from coad.exceptions import InputError
from coad.live.protocols import Wanted
from coad.live.sources.queue import WAIT_SECONDS
from coad.live.sources.samples import make_chunks
from coad.live.values import Chunk

__all__ = ["GrowingFiles"]

#: Bytes of CSV, and rows of Parquet, that make one chunk: enough to be quick, few enough to pass on soon.
_BLOCK_BYTES, _BLOCK_ROWS = 2**18, 4096
#: A Parquet file that cannot be read is taken for half written until it has not changed for this long.
_SETTLED_SECONDS = 30.0


@dataclass(frozen=True)
class GrowingFilesSettings:
    """Keys of ``[source]`` with ``kind = "files"``."""

    path: str
    poll_s: float = 0.2


class GrowingFiles:
    """Follows every file that matches ``path``, such as ``logs/*.csv``, ``logs/{stream}.csv`` or ``parts/*.parquet``.

    ``{stream}`` stands for the stream's name; without it, a stream is known by its columns. A line counts once it ends: the
    half of a line is read again later. A CSV file that became shorter is read from its start. Parquet files are read once
    each, in the order of their names.
    """

    Settings: ClassVar[type] = GrowingFilesSettings

    def __init__(self, settings: GrowingFilesSettings, wanted: Wanted) -> None:
        if settings.path.count("{stream}") > 1 or not settings.path:
            raise InputError(
                f"path {settings.path!r} of the files must have a name, with {{stream}} at most once"
            )
        self.settings, self.wanted = settings, wanted
        self.counts: Counter[str] = Counter()
        before, _, after = (glob.escape(part) if "{" in part else part for part in _parted(settings.path))
        self._pattern = f"{before}*{after}" if "{stream}" in settings.path else settings.path
        self._name = re.compile(
            ".*".join(map(re.escape, Path(settings.path).name.split("*"))).replace(
                r"\{stream\}", "(?P<stream>.+)"
            )
        )
        self._headers: dict[str, list[str]] = {}
        self._closed = False

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """Samples from ``position`` on: how far each CSV file was read, and which Parquet file was the last."""
        done: dict[str, Any] = dict(position or {})
        while not self._closed:
            some = False
            for path in sorted(map(Path, glob.glob(self._pattern, recursive=True))):
                stream = self._stream(path)
                if stream is not None and stream not in self.wanted.columns:
                    continue
                read = self._parquet if path.suffix in (".parquet", ".pq") else self._csv
                for chunks, step in read(path, stream, done):
                    some = True
                    before = dict(done)
                    done.update(step)
                    # The position moves with the last chunk: until then, the samples would be read again.
                    for last, chunk in zip(range(len(chunks) - 1, -1, -1), chunks, strict=True):
                        yield Chunk(chunk.stream, chunk.time, chunk.columns, before if last else dict(done))
            if not some:
                yield None
                time.sleep(min(self.settings.poll_s, WAIT_SECONDS))

    def counters(self) -> Mapping[str, int]:
        """Rows read, and what could not be read."""
        return dict(self.counts)

    def connected(self) -> Mapping[str, bool]:
        """Whether there is a file for each stream."""
        files = glob.glob(self._pattern, recursive=True)
        names = {self._stream(Path(path)) for path in files}
        return {stream: stream in names or None in names for stream in self.wanted.columns}

    def close(self) -> None:
        """End the reading."""
        self._closed = True

    def _stream(self, path: Path) -> str | None:
        found = self._name.fullmatch(path.name)
        return found["stream"] if found and "stream" in self._name.groupindex else None

    def _csv(
        self, path: Path, stream: str | None, done: Mapping[str, Any]
    ) -> Iterator[tuple[list[Chunk], dict[str, Any]]]:
        key = str(path)
        offset = done.get(key, 0)
        if path.stat().st_size < offset:  # another file of this name
            self.counts["restarts"] += 1
            offset = 0
        with path.open("rb") as file:
            if offset == 0 or key not in self._headers:
                header = file.readline()
                if not header.endswith(b"\n"):
                    return
                self._headers[key] = _fields(header)
                offset = max(offset, file.tell())
            file.seek(offset)
            while not self._closed:
                block = file.read(_BLOCK_BYTES)
                whole = block.rfind(b"\n") + 1
                if not whole and len(block) == _BLOCK_BYTES:  # a line of that length is no row
                    self.counts["malformed"] += 1
                    whole = len(block)
                if not whole:
                    return
                offset += whole
                yield self._rows(key, block[:whole], stream), {key: offset}
                file.seek(offset)

    def _rows(self, key: str, block: bytes, stream: str | None) -> list[Chunk]:
        names = self._headers[key]
        rows = []
        for line in block.splitlines():
            if not line.strip():
                continue
            fields = _fields(line)
            self.counts["received"] += 1
            if len(fields) == len(names):
                rows.append(fields)
            else:
                self.counts["malformed"] += 1
        if not rows:
            return []
        return self._chunks(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), stream)

    def _parquet(
        self, path: Path, stream: str | None, done: Mapping[str, Any]
    ) -> Iterator[tuple[list[Chunk], dict[str, Any]]]:
        folder = f"{path.parent}/{stream or ''}"
        if path.name <= done.get(folder, ""):
            return
        chunks: list[Chunk] = []
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BLOCK_ROWS):
                    self.counts["received"] += len(batch)
                    chunks += self._chunks(_arrays(batch), stream)
        except (pa.ArrowException, OSError, ValueError):
            if time.time() - path.stat().st_mtime < _SETTLED_SECONDS:
                return  # its end is still to be written
            self.counts["malformed"] += 1
        yield chunks, {folder: path.name}

    def _chunks(self, columns: dict[str, Any], stream: str | None) -> list[Chunk]:
        name = self.wanted.time or "time"
        if name not in columns:
            self.counts["malformed"] += 1
            return []
        return make_chunks(self.wanted, self.counts, columns.pop(name), columns, stream=stream)


def _fields(line: bytes) -> list[str]:
    return next(csv.reader([line.decode("utf-8-sig", errors="replace")]), [])


def _arrays(batch: pa.RecordBatch) -> dict[str, Any]:
    return {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}


def _parted(path: str) -> tuple[str, str, str]:
    return path.partition("{stream}")
