"""Thresholds of files with more rows than memory holds: read in passes here, or part by part on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coad.data.numbers import to_array, to_floats
from coad.data.paths import file_kind, find_files
from coad.data.tables import iter_columns
from coad.exceptions import CoadError, FileError, InputError
from coad.scale.cluster import connected, in_order
from coad.thresholds.out_of_core import MAX_HELD, stream_thresholds
from coad.thresholds.result import ThresholdResult
from coad.thresholds.row_parts import BLOCK_ROWS, Batch, Part
from coad.workflows.scoring import read_ahead

__all__ = ["files_thresholds"]

_BATCH_ROWS = 262_144
#: Threads of this process: each has a table of counts of 64 MB.
_MOST_THREADS = 4
#: Below this many rows threads are not worth their start.
_MANY_ROWS = 4 * BLOCK_ROWS
#: Parts a worker: few enough that a part is worth its transport, enough that the workers end together.
_PARTS_A_WORKER = 4


def files_thresholds(
    files: Any,
    s: str,
    q: str,
    *,
    context: Sequence[str] = (),
    cluster: str | None = None,
    progress: Callable[[int], None] | None = None,
    max_rows: int = MAX_HELD,
    **settings: Any,
) -> tuple[ThresholdResult, int, int]:
    """Thresholds for two score columns of files, in passes; on a cluster the same to the digit.

    Parameters
    ----------
    files
        Files, folders or globs.
    s, q, context
        Columns of the two scores and of the regime; no others are read.
    cluster
        As for :func:`~coad.scale.cluster.connected`; files must be Parquet then. None: in this process, Parquet on
        several threads.
    progress
        Called with the rows read so far, over all passes.
    max_rows, settings
        As for :func:`~coad.thresholds.out_of_core.stream_thresholds`.

    Returns
    -------
    The result, the rows of the files, and how often they were read.
    """
    table = _Table(tuple(find_files(files)), (s, q), tuple(context))
    settings |= {"names": (f"column {s!r}", f"column {q!r}"), "max_rows": min(max_rows, MAX_HELD)}
    counter = _Counter(progress)
    if cluster is None:
        threads = _threads()
        known = table.of_known_size() if threads > 1 else None
        if known is None or sum(known.known) < _MANY_ROWS:
            found = stream_thresholds(partial(counter.over, table.all_rows), **settings)
            return found, counter.rows, counter.passes
        parts = known.parts(threads)
        parts = [Part(partial(counter.of_part, one.batches), one.start) for one in parts]
        with ThreadPoolExecutor(threads) as pool:

            def on_threads(work: Callable[[Part], Any], some: Sequence[Part]) -> Iterator[Any]:
                counter.begin()
                yield from pool.map(work, some)

            return stream_thresholds(parts, each=on_threads, **settings), sum(known.known), counter.passes
    with ExitStack() as stack:
        table = replace(table, known=tuple(table.sizes()))
        total = sum(table.known)
        client = stack.enter_context(connected(cluster))
        wanted = _PARTS_A_WORKER * len(client.scheduler_info()["workers"])
        parts = table.parts(wanted)
        step = parts[1].start if len(parts) > 1 else total

        def each(work: Callable[[Part], Any], some: Sequence[Part]) -> Iterator[Any]:
            counter.passes += 1
            for done, result in enumerate(in_order(client, work, list(some)), 1):
                counter.say((counter.passes - 1) * total + min(done * step, total))
                yield result

        return stream_thresholds(parts, each=each, **settings), total, counter.passes


def _threads() -> int:
    """As many as torch and NumPy would take."""
    try:
        asked = int(os.environ["OMP_NUM_THREADS"])
    except (KeyError, ValueError):
        asked = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(asked, _MOST_THREADS))


class _Counter:
    """Rows and passes while they are read."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self.rows, self.passes, self._before, self._progress = 0, 0, 0, progress
        self._lock = Lock()

    def begin(self) -> None:
        """A pass."""
        self._before += self.rows
        self.rows, self.passes = 0, self.passes + 1

    def over(self, batches: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
        """A pass over everything."""
        self.begin()
        yield from self.of_part(lambda: read_ahead(iter(batches())))

    def of_part(self, batches: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
        """The part of a pass that one thread takes."""
        for batch in batches():
            with self._lock:
                self.rows += len(batch[0])
                self.say(self._before + self.rows)
            yield batch

    def say(self, rows: int) -> None:
        if self._progress is not None:
            self._progress(rows)


@dataclass(frozen=True)
class _Table:
    """Columns of files."""

    files: tuple[Path, ...]
    scores: tuple[str, str]
    context: tuple[str, ...]
    known: tuple[int, ...] = ()  # the rows of each file, once they were counted and the types compared

    def of_known_size(self) -> _Table | None:
        """With the rows of each file; None if these are not all Parquet files of the same types."""
        try:
            return replace(self, known=tuple(self.sizes()))
        except CoadError:
            return None  # a reading from the start says what is wrong, or copes

    def parts(self, wanted: int) -> list[Part]:
        """About so many parts of a table of known size, which begin where blocks begin."""
        total = sum(self.known)
        step = BLOCK_ROWS * max(1, -(-total // (wanted * BLOCK_ROWS)))
        return [
            Part(partial(self.rows, start, start + step), start) for start in range(0, max(total, 1), step)
        ]

    def all_rows(self) -> Iterator[Batch]:
        names = [*self.scores, *self.context]
        for batch in iter_columns(self.files, names, _BATCH_ROWS, categories=self.context):
            yield self._batch(batch)

    def sizes(self) -> list[int]:
        """Rows of each file; all must be Parquet with the same types."""
        sizes = []
        names = dict.fromkeys([*self.scores, *self.context])
        kinds: dict[str, Any] = {}
        for path in self.files:
            if file_kind(path) != "parquet":
                raise InputError(
                    f"on a cluster files must be Parquet, and {path} is not; leave out --cluster, or convert it"
                )
            try:
                with pq.ParquetFile(path) as file:
                    sizes.append(file.metadata.num_rows)
                    schema = file.schema_arrow
            except (pa.ArrowException, OSError) as error:
                raise FileError(f"cannot read {str(path)!r}: {str(error).splitlines()[0]}") from error
            for name in names:
                place = schema.get_field_index(name)
                if place < 0:
                    raise InputError(f"{path} has no column {name!r}, which {self.files[0]} has")
                kind = kinds.setdefault(name, schema.field(place).type)
                if kind != schema.field(place).type:
                    raise InputError(
                        f"column {name!r} holds {schema.field(place).type} in {path}, and {kind} before"
                    )
        return sizes

    def rows(self, start: int, stop: int) -> Iterator[Batch]:
        """The rows of these numbers, counted over all files; whole row groups are read."""
        ends = list(accumulate(self.known))
        for path, end in zip(self.files, ends, strict=True):
            with pq.ParquetFile(path, pre_buffer=False) as file:
                first = at = end - file.metadata.num_rows
                if end <= start or first >= stop:
                    continue
                groups = []
                skipped = None
                for group in range(file.metadata.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    if at + size > start and at < stop:
                        groups.append(group)
                        skipped = at if skipped is None else skipped
                    at += size
                place = skipped or 0
                names = list(dict.fromkeys([*self.scores, *self.context]))
                for rows in _readable(path, file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names)):
                    low, high = max(start - place, 0), min(stop - place, rows.num_rows)
                    if low < high:
                        yield self._converted(rows.slice(low, high - low), place + low - first, path)
                    place += rows.num_rows

    def _converted(self, rows: Any, first_row: int, path: Path) -> Batch:
        where = str(path)
        batch = {
            name: to_floats(rows.column(name), name, first_row=first_row, where=where) for name in self.scores
        }
        batch |= {name: to_array(rows.column(name), name, where=where) for name in self.context}
        return self._batch(batch)

    def _batch(self, columns: dict[str, Any]) -> Batch:
        for name, values in columns.items():
            if values.ndim > 1:
                raise InputError(
                    f"column {name!r} has {values[0].size:,} values per row; a score or context has one"
                )
        s, q = (columns[name] for name in self.scores)
        return s, q, [columns[name] for name in self.context] or None


def _readable(path: Path, batches: Iterator[Any]) -> Iterator[Any]:
    """The batches of a file, its damage being an error in our words."""
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"cannot read {str(path)!r}: {str(error).splitlines()[0]}") from error
