"""Pairs batch by batch, in bounded memory: windows span batches, but not files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.data.build import Built, build_pairs, pinned
from coad.data.layout import FILE, Layout
from coad.data.long import wide_source
from coad.data.pairs import Pairs
from coad.data.paths import PathLike, find_files
from coad.data.read import file_labels, resolve_by_files, stored_names
from coad.data.segments import segment_starts
from coad.data.tables import Batch, column_names, iter_batches, joined_parts
from coad.exceptions import FileError, InputError

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class PairsBatch:
    """A batch of pairs of one file, and the first and last row of each in that file.

    ``rows_before`` is the number of rows in the files before, ``rows_read`` the number of rows read
    from this file so far.
    """

    pairs: Pairs
    path: Path
    first: IntArray
    last: IntArray
    layout: Layout
    rows_before: int
    rows_read: int


def iter_pairs(
    source: PathLike | list[PathLike],
    layout: Layout,
    *,
    batch_rows: int = 65_536,
    means: Mapping[str, Any] | None = None,
    on_bad_file: Callable[[Path, FileError], None] | None = None,
) -> Iterator[PairsBatch]:
    """Read pairs file by file and batch by batch, in bounded memory.

    Parameters
    ----------
    source : path or list of paths
        Files, folders or globs.
    layout : Layout
        Which columns are what. The time unit, the rows in a window of ``250ms`` and the largest gap
        are determined from the first batch, unless the layout (a model's) has them.
    batch_rows : int
        Rows to read at a time.
    means : mapping, optional
        Values for missing ones; required for ``missing="mean"``.
    on_bad_file : callable, optional
        Called with the path and the error of a file that cannot be read, of which then no rows are given;
        without it the error is raised.

    Returns
    -------
    iterator of PairsBatch
        Only batches that have pairs.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "plant.csv"
    >>> _ = path.write_text("a,b\\n" + "1,2\\n" * 10)
    >>> layout = Layout(s="a", q="b", window=4, stride=2)
    >>> [batch.first.tolist() for batch in iter_pairs(path, layout, batch_rows=5)]
    [[0], [2, 4, 6]]
    """
    batches = iter_all_batches(source, layout, batch_rows=batch_rows, means=means, on_bad_file=on_bad_file)
    return (batch for batch in batches if len(batch.pairs))


def iter_all_batches(
    source: PathLike | list[PathLike],
    layout: Layout,
    *,
    batch_rows: int,
    means: Mapping[str, Any] | None,
    on_bad_file: Callable[[Path, FileError], None] | None,
) -> Iterator[PairsBatch]:
    """Like :func:`iter_pairs`, but batches without pairs are included, so that all rows are counted."""
    if layout.missing == "interpolate":
        raise InputError(
            "missing values cannot be interpolated when reading batch by batch; pass --missing drop or --missing mean"
        )
    if layout.missing == "mean" and means is None:
        raise InputError(
            "missing values cannot be filled by the mean when reading batch by batch, unless the model holds the "
            "means of its training rows; pass --missing drop, or fit the model again"
        )
    files = find_files(wide_source(source, layout))
    layout = resolve_by_files(files, layout, on_bad_file)
    rows_before = 0
    for path, label in zip(files, file_labels(files), strict=True):
        try:
            rows_read = 0
            layout.check_same(column_names(path), where=str(path))
            batches_of = iter_batches if on_bad_file is None else _whole_or_nothing
            for batch in _pairs_of_file(path, label, layout, batch_rows, means, batches_of):
                layout, rows_read = batch.layout, batch.rows_read
                yield replace(batch, rows_before=rows_before)
        except FileError as error:
            if on_bad_file is None:
                raise
            on_bad_file(path, error)
        rows_before += rows_read


def _pairs_of_file(
    path: Path,
    label: str,
    layout: Layout,
    batch_rows: int,
    means: Mapping[str, Any] | None,
    batches_of: Callable[..., Iterator[Batch]],
) -> Iterator[PairsBatch]:
    names = stored_names(layout, column_names(path))
    categories = [name for name in layout.others if name in names]
    kept: Columns = {}
    offset = 0
    for batch in batches_of(path, names, batch_rows=batch_rows, categories=categories):
        columns = batch.columns
        if FILE in layout.others and FILE not in names:
            columns = {**columns, FILE: np.full(len(batch), label)}
        if kept:
            columns = {name: joined_parts([kept[name], column], name) for name, column in columns.items()}
        first_row = batch.first_row - (len(next(iter(kept.values()))) if kept else 0)
        built = build_pairs(columns, layout, means=means, first_row=first_row, offset=offset)
        layout = pinned(layout, built, columns)
        if layout.window is not None:
            start, offset = next_window(built, layout, offset)
            # Copies: a view of the last rows would keep the whole batch in memory.
            kept = {name: column[start:].copy() for name, column in columns.items()}
            kept = kept if built.n_rows > start else {}
        read = batch.first_row + len(batch)
        yield PairsBatch(built.pairs, path, built.first, built.last, layout, 0, read)


def _whole_or_nothing(path: Path, names: list[str], **how: Any) -> Iterator[Batch]:
    """The batches of a file; one of several batches is read to its end first, so that a bad file gives no rows."""
    batches = iter_batches(path, names, **how)
    first = list(islice(batches, 2))
    if len(first) < 2:
        yield from first
        return
    for _ in batches:
        pass
    yield from iter_batches(path, names, **how)


def next_window(built: Built, layout: Layout, offset: int) -> tuple[int, int]:
    """The first row to keep for the next window, and the distance from there to its start.

    Parameters
    ----------
    built : Built
        The windows of the rows so far.
    layout : Layout
        Pinned: window and stride in rows.
    offset : int
        As it was given to :func:`build_pairs`.

    Returns
    -------
    start, offset : int
        The rows before ``start`` are used; the next window begins ``offset`` rows after it.
    """
    rows: IntArray = built.breaks["rows"]
    if not len(rows):
        return built.n_rows, 0
    starts = segment_starts(
        len(rows), time=built.breaks["time"], group=built.breaks["group"], max_gap=layout.max_gap
    )
    begin = int(starts[-1]) + (offset if len(starts) == 1 else 0)
    used = int((built.breaks["windows"].start >= starts[-1]).sum())
    following = begin + used * int(layout.stride or 1)
    # Keep at least one row, to see whether the next batch continues the segment.
    start = min(following, len(rows) - 1)
    return int(rows[start]), following - start
