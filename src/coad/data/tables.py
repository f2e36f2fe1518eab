"""Columns of tables (CSV, Parquet, Arrow, Excel) and array files (NPZ, HDF5, MATLAB), whole or in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coad.data.arrays import array_batches, array_bytes, array_names, numeric_arrays
from coad.data.arrow import read_schema, row_batches, text_batches
from coad.data.columns import check_columns
from coad.data.memory import WHOLE, refuse_too_large, text_size
from coad.data.numbers import holds_numbers, to_array, to_floats
from coad.data.paths import TABLE_KINDS, PathLike, file_kind, find_files
from coad.exceptions import FileError, InputError

__all__ = ["Batch", "column_names", "iter_batches", "iter_columns", "numeric_columns", "read_columns"]

Columns = dict[str, NDArray[Any]]


def read_columns(
    path: PathLike | Iterable[PathLike], columns: Sequence[str], *, categories: Collection[str] = ()
) -> Columns:
    """Read columns of one or several files; the rows of the files are concatenated.

    Parameters
    ----------
    path : path or iterable of paths
        Tables (CSV, Parquet, Arrow) or files of named arrays (NPZ, HDF5, MATLAB); folders; globs.
        A column of an array file may have more than one dimension.
    columns : sequence of str
        Names of the columns.
    categories : collection of str
        Columns that keep their type (numbers, text, times): contexts, groups, times. All others are
        read as float64, with NaN for missing values.

    Returns
    -------
    dict of str to array

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = path.write_text("score_s;score_q;run\\n0.5;1;a\\n0.7;2;b\\n")
    >>> read_columns(path, ["score_s", "run"], categories=["run"])
    {'score_s': array([0.5, 0.7]), 'run': array(['a', 'b'], dtype='<U1')}
    """
    parts = [batch.columns for batch in iter_batches(path, columns, categories=categories, batch_rows=None)]
    if not parts:
        raise FileError(f"{_described(path)} has a header but no rows")
    joined = {name: joined_parts([part[name] for part in parts], name) for name in dict.fromkeys(columns)}
    wide = {name: array if name in categories else _wide(array) for name, array in joined.items()}
    # Arrays that share memory with Arrow are read-only; the caller gets writable ones.
    return {name: array if array.flags.writeable else array.copy() for name, array in wide.items()}


def iter_columns(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str],
    batch_rows: int = 65_536,
    *,
    categories: Collection[str] = (),
    on_bad_file: Callable[[Path, FileError], None] | None = None,
) -> Iterator[Columns]:
    """Like :func:`read_columns`, batch by batch in bounded memory.

    Parameters
    ----------
    paths, columns, categories
        As for :func:`read_columns`.
    batch_rows : int
        Largest number of rows in a batch.
    on_bad_file : callable, optional
        Called with the path and the error of a file that cannot be read (its rows before the error
        have been yielded); without it the error is raised.

    Yields
    ------
    dict of str to array
    """
    batches = iter_batches(
        paths, columns, batch_rows=batch_rows, categories=categories, on_bad_file=on_bad_file
    )
    for batch in batches:
        yield {name: array if name in categories else _wide(array) for name, array in batch.columns.items()}


def column_names(path: PathLike) -> list[str]:
    """The names of a file's columns, or of its arrays.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "both.npz"
    >>> np.savez(path, motor=np.zeros((5, 60)), run=np.arange(5))
    >>> column_names(path)
    ['motor', 'run']
    """
    path = Path(path)
    return [name for name, _ in read_schema(path)] if file_kind(path) in TABLE_KINDS else array_names(path)


def numeric_columns(path: PathLike) -> list[str]:
    """The names of the columns (or arrays) that hold numbers, from the file's schema.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "plant.csv"
    >>> _ = path.write_text("current,name\\n0.5,a\\n0.7,b\\n")
    >>> numeric_columns(path)
    ['current']
    """
    path = Path(path)
    if file_kind(path) not in TABLE_KINDS:
        return numeric_arrays(path)
    return [name for name, kind in read_schema(path) if holds_numbers(kind)]


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of one file: the columns, the file, and the number of the first row in it."""

    columns: Columns
    path: Path
    first_row: int

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def iter_batches(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str],
    *,
    batch_rows: int | None = 65_536,
    categories: Collection[str] = (),
    on_bad_file: Callable[[Path, FileError], None] | None = None,
) -> Iterator[Batch]:
    """Like :func:`iter_columns`, with the file and the first row of each batch; float32 is kept.

    ``batch_rows=None`` means large batches, for callers who keep all rows; the types of the columns
    of a CSV file are then inferred from all rows.
    """
    if batch_rows is not None and batch_rows < 1:
        raise InputError(f"batch_rows must be at least 1, not {batch_rows}")
    if not columns:
        raise InputError("no columns were named")
    for path in find_files(paths):
        try:
            yield from _batches_of_file(path, list(dict.fromkeys(columns)), batch_rows, categories)
        except FileError as error:
            if on_bad_file is None:
                raise
            on_bad_file(path, error)


def _batches_of_file(
    path: Path, columns: Sequence[str], batch_rows: int | None, categories: Collection[str]
) -> Iterator[Batch]:
    where = str(path)
    if file_kind(path) not in TABLE_KINDS:
        for start, arrays in array_batches(path, columns, batch_rows):
            numbers = {name: arrays[name] for name in columns if name not in categories}
            yield Batch(
                arrays | {name: _numbers(array, name, where) for name, array in numbers.items()}, path, start
            )
        return
    check_columns(column_names(path), columns, where=where)
    if batch_rows is None:
        refuse_too_large(table_bytes(path, len(columns)), f"the table {where!r}", WHOLE)
    numeric = [name for name in columns if name not in categories]
    first_row = 0

    def converted(rows: Any) -> Batch:
        arrays = {
            name: to_floats(rows.column(name), name, first_row=first_row, where=where)
            if name in numeric
            else to_array(rows.column(name), name, where=where)
            for name in columns
        }
        return Batch(arrays, path, first_row)

    try:
        for rows in row_batches(path, columns, numeric=numeric, batch_rows=batch_rows):
            if rows.num_rows:
                yield converted(rows)
            first_row += rows.num_rows
        return
    except pa.ArrowInvalid as error:
        if file_kind(path) != "csv":
            raise FileError(f"cannot read {where!r}: {str(error).splitlines()[0]}") from error
        seen, first_row = first_row, 0
    # A CSV file with true/false, padded numbers or rare words for missing values is read on as text.
    try:
        for rows in text_batches(path, columns, numeric, batch_rows or 1 << 20):
            if first_row + rows.num_rows > seen:
                rows, first_row = rows.slice(max(seen - first_row, 0)), max(seen, first_row)
                yield converted(rows)
            first_row += rows.num_rows
    except pa.ArrowInvalid as error:
        # The numeric columns are text here, so a category starts with numbers and continues with text.
        raise InputError(
            f"{where!r} has a column of mixed types ({error}); quote its values or store it as Parquet"
        ) from error


def table_bytes(path: Path, n_columns: int) -> float:
    """About how many bytes some columns take in memory; a compressed text is read through for it."""
    kind = file_kind(path)
    if kind not in TABLE_KINDS:
        return array_bytes(path)
    try:
        if kind == "parquet":
            return 8.0 * n_columns * int(pq.read_metadata(path).num_rows)
        if kind == "csv":
            with pa.input_stream(str(path), compression="detect") as stream:
                start = stream.read(1 << 16)
            lines = text_size(path) * max(start.count(b"\n"), 1) / max(len(start), 1)
            return 8.0 * n_columns * float(lines)
    except (pa.ArrowException, OSError):
        pass  # reported when the file is read
    return float(path.stat().st_size)


def _numbers(array: NDArray[Any], name: str, where: str) -> NDArray[Any]:
    if array.dtype.kind == "f":
        return array
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    kind = "times" if array.dtype.kind in "Mm" else "text" if array.dtype.kind == "U" else str(array.dtype)
    raise InputError(f"{name!r} in {where!r} holds {kind}, not numbers")


def joined_parts(parts: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
    """Concatenate batches; numbers in one file and text in another become text."""
    if len(parts) == 1:
        return parts[0]
    kinds = {part.dtype.kind for part in parts}
    if "M" in kinds and len(kinds) > 1:
        raise InputError(f"column {name!r} has times in one part and other values in another")
    if "U" in kinds and len(kinds) > 1:
        parts = [part.astype(str) for part in parts]
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        first, second, *_ = sorted(shapes)
        raise InputError(f"column {name!r} has rows of shape {first} in one file and {second} in another")
    return np.concatenate(parts)


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64, copy=False)


def _described(path: PathLike | Iterable[PathLike]) -> str:
    files = find_files(path)
    return repr(str(files[0])) if len(files) == 1 else f"each of the {len(files):,} files"
