"""The sources that a command works on one by one: values of a column, subfolders, or the lines of a list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coad.data.arrow import row_batches
from coad.data.layout import Layout
from coad.data.paths import TABLE_KINDS, file_kind, find_files
from coad.data.tables import column_names
from coad.exceptions import FileError, InputError
from coad.workflows.scoring import Source

__all__ = ["first_files", "sources_of"]

#: Files that are open at once while a table is split.
_OPEN_FILES = 256


def sources_of(each: str, source: Source, layout: Layout, scratch: Path) -> dict[str, Source]:
    """The files of each source by its name.

    Parameters
    ----------
    each
        ``"folder"``, ``"list"``, or a column of the files.
    source
        The files; with two sources those of s differ, and those of q are the shared witness.
    layout
        Which columns are needed.
    scratch
        A folder for the tables of the sources, if they are values of a column: the files are read once.
    """
    files = source.s if source.two_clocks else source.files
    if each not in ("folder", "list"):
        if source.two_clocks:
            raise InputError("--each takes 'folder' or 'list' with --s-file and --q-file")
        return {
            name: Source(path)
            for name, path in _split(each, find_files(files or []), layout, scratch).items()
        }
    found = _subfolders(Path(str(files))) if each == "folder" else _listed(Path(str(files)))
    return {name: replace_files(source, path) for name, path in found.items()}


def first_files(each: str, source: Source) -> Source:
    """The files of the first source, or of all if they are values of a column: they show the columns."""
    if each not in ("folder", "list"):
        return source
    files = Path(str(source.s if source.two_clocks else source.files))
    found = _subfolders(files) if each == "folder" else _listed(files)
    return replace_files(source, next(iter(found.values())))


def replace_files(source: Source, files: Path) -> Source:
    """The same with other files (of s, if there are two sources)."""
    return Source(s=files, q=source.q) if source.two_clocks else Source(files)


def _subfolders(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InputError(
            f"--each folder needs a folder that holds one folder or file for each source, not {folder}"
        )
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if not inside:
        raise FileError(f"{folder} is empty; it should hold one folder or file for each source")
    return {path.name if path.is_dir() else path.stem: path for path in inside}


def _listed(path: Path) -> dict[str, Path]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"--each list needs a text file with a path in each line; {path}: {error}") from error
    paths = [path.parent / line for line in lines if line and not line.startswith("#")]
    if not paths:
        raise FileError(f"{path} names no files")
    names = [one.stem if one.suffix else one.name for one in paths]
    if len(set(names)) < len(names):
        names = [str(one) for one in paths]
    return dict(zip(names, paths, strict=True))


def _split(column: str, files: list[Path], layout: Layout, scratch: Path) -> dict[str, Path]:
    """A table for each value of a column, in the order of the rows; all files are read once."""
    have = column_names(files[0])
    if column not in have:
        raise InputError(
            f"--each {column}: there is no such column (nor is it 'folder' or 'list'); {files[0]} has {', '.join(have[:8])}"
        )
    layout = layout.resolved(have, where=str(files[0]))
    if column in (*layout.signals, *layout.others):
        raise InputError(f"column {column!r} tells the sources; name the inputs without it, by --s and --q")
    needed = list(dict.fromkeys([column, *layout.signals, *layout.others]))
    for path in files:
        if file_kind(path) not in TABLE_KINDS:
            raise InputError(f"--each {column} needs tables (CSV, Parquet, Arrow), and {path} is none")
    numbers: dict[str, int] = {}  # names need not be names of folders
    batches = _batches(files, needed, column, numbers)
    first = next(batches)
    kinds = ds.partitioning(pa.schema([(column, pa.int64())]))
    ds.write_dataset(
        pa.RecordBatchReader.from_batches(first.schema, _same(first, batches)),
        scratch,
        format="parquet",
        partitioning=kinds,
        max_open_files=_OPEN_FILES,
        use_threads=False,  # keeps the order of the rows
        max_partitions=1_000_000,
    )
    return {name: scratch / str(number) for name, number in sorted(numbers.items())}


def _batches(files: list[Path], needed: list[str], column: str, numbers: dict[str, int]) -> Iterator[Any]:
    """Batches with numbers for the names of the sources, which are added to ``numbers``."""
    at = 0
    for path in files:
        for batch in row_batches(path, needed):
            names = batch.column(column).cast(pa.string())
            if names.null_count:
                row = at + pc.index(names.is_null(), True).as_py()
                raise InputError(
                    f"column {column!r} has no value in row {row:,}: to which source does it belong?"
                )
            at += batch.num_rows
            coded = names.dictionary_encode()
            own = [numbers.setdefault(name, len(numbers)) for name in coded.dictionary.to_pylist()]
            number = pa.array(own, pa.int64()).take(coded.indices)
            yield batch.set_column(batch.schema.get_field_index(column), column, number)


def _same(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    for batch in rest:
        yield batch if batch.schema == first.schema else batch.cast(first.schema)
