"""Read :class:`~coad.data.pairs.Pairs` from files or from a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.build import Built, build_pairs, pinned
from coad.data.layout import FILE, Layout
from coad.data.long import wide_source
from coad.data.missing import column_means
from coad.data.pairs import Pairs, table_names
from coad.data.paths import PathLike, find_files
from coad.data.tables import column_names, iter_batches, joined_parts
from coad.data.windows import refuse_no_windows
from coad.exceptions import FileError, InputError


@dataclass(frozen=True)
class Loaded:
    """Pairs, the resolved layout, and details of the reading."""

    pairs: Pairs
    layout: Layout
    built: Built
    files: tuple[Path, ...] = ()
    bad_files: tuple[tuple[Path, FileError], ...] = ()
    means: Mapping[str, Any] = field(default_factory=dict)  # of the columns of files

    @property
    def summary(self) -> str:
        """The numbers of rows, files, windows and contexts, in one line."""
        pairs = self.pairs
        parts = [f"{self.built.n_rows:,} rows"]
        if len(self.files) > 1:
            parts[0] += f" in {len(self.files):,} files"
        if self.built.n_dropped:
            parts.append(f"{self.built.n_dropped:,} dropped for missing values")
        if pairs.windows is not None:
            parts.append(f"{len(pairs):,} windows of {pairs.windows.length:,}")
        if pairs.context is not None:
            parts.append(f"{len(np.unique(pairs.context)):,} contexts")
        return ", ".join(parts)


def read_pairs(source: Any, layout: Layout) -> Pairs:
    """Read pairs from files or from a DataFrame.

    Parameters
    ----------
    source : path, list of paths, DataFrame or mapping
        Files, folders or globs (CSV, Parquet, Arrow, NPZ, HDF5, MATLAB); a pandas or Polars
        DataFrame; or a mapping of names to arrays.
    layout : Layout
        Which columns are inputs, context, time and so on.

    Returns
    -------
    Pairs

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "plant.csv"
    >>> _ = path.write_text("motor_a,motor_b,vib\\n1,2,3\\n4,5,6\\n")
    >>> read_pairs(path, Layout(s="motor_*", q="vib"))
    Pairs(2 rows, s (2,), q (1,))
    """
    return load(source, layout).pairs


def load(
    source: Any,
    layout: Layout,
    *,
    means: Mapping[str, Any] | None = None,
    on_bad_file: Callable[[Path, FileError], None] | None = None,
) -> Loaded:
    """Like :func:`read_pairs`, but also return the resolved layout and a summary.

    Parameters
    ----------
    source, layout
        As for :func:`read_pairs`.
    means : mapping, optional
        Values for missing ones under ``missing="mean"`` (default: the means of these rows).
    on_bad_file : callable, optional
        Called with the path and the error of a file that cannot be read, which is left out; without
        it the error is raised.

    Returns
    -------
    Loaded
        With ``pairs``, ``layout`` and ``summary``.
    """
    if not _is_path(source):
        return _load_frame(source, layout, means)
    files = find_files(wide_source(source, layout))
    layout = resolve_by_files(files, layout, on_bad_file)
    bad: list[tuple[Path, FileError]] = []

    def note(path: Path, error: FileError) -> None:
        if on_bad_file is None:
            raise error
        bad.append((path, error))
        on_bad_file(path, error)

    columns, number = read_all(files, layout, note)
    if means is None:
        means = column_means({name: columns[name] for name in layout.signals})
    built = build_pairs(columns, layout, means=means, broken=number)
    check_windows(built, layout)
    return Loaded(built.pairs, pinned(layout, built, columns), built, tuple(files), tuple(bad), means)


def pairs_from_frame(frame: Any, layout: Layout) -> Pairs:
    """Read pairs from a DataFrame.

    Parameters
    ----------
    frame : DataFrame or mapping
        A pandas, Polars or Arrow table, or a mapping of names to arrays.
    layout : Layout
        Which columns are inputs, context, time and so on.

    Returns
    -------
    Pairs

    >>> pairs_from_frame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, Layout(s="a", q="b"))
    Pairs(2 rows, s (1,), q (1,))
    """
    return _load_frame(frame, layout, None).pairs


def file_labels(files: Sequence[Path]) -> list[str]:
    """A short label for each file: its name, with its folder if names repeat.

    >>> file_labels([Path("d/valve1/0.csv"), Path("d/valve2/0.csv")])
    ['valve1/0', 'valve2/0']
    """
    stems = [path.name.split(".")[0] for path in files]
    if len(set(stems)) == len(stems):
        return stems
    common = os.path.commonpath([path.parent for path in files])
    return [
        (Path(os.path.relpath(path.parent, common)) / stem).as_posix()
        for path, stem in zip(files, stems, strict=True)
    ]


def read_all(
    files: Sequence[Path], layout: Layout, note: Callable[[Path, FileError], None]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Read all columns of the layout, and number the file of each row."""
    names = stored_names(layout, first_names(files, note)[1])
    categories = [name for name in layout.others if name in names]
    parts: list[dict[str, NDArray[Any]]] = []
    numbers: list[NDArray[np.int64]] = []
    for number, path in enumerate(files):
        # Read the whole file first, so that a bad file contributes no rows.
        try:
            batches = list(iter_batches(path, names, batch_rows=None, categories=categories))
        except FileError as error:
            note(path, error)
            continue
        parts += [batch.columns for batch in batches]
        numbers += [np.full(len(batch), number) for batch in batches]
    if not parts:
        raise FileError("no rows were read" if len(files) > 1 else f"{str(files[0])!r} has no rows")
    number_of_row = np.concatenate(numbers)
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        columns[name] = joined_parts([part.pop(name) for part in parts], name)
    if FILE in layout.others and FILE not in names:
        columns[FILE] = np.array(file_labels(files))[number_of_row]
    return columns, number_of_row


def stored_names(layout: Layout, names: Sequence[str]) -> list[str]:
    """The columns to read; ``file`` is one only if the file has a column of this name."""
    wanted = dict.fromkeys([*layout.signals, *layout.others])
    return [name for name in wanted if name != FILE or FILE in names]


def resolve_by_files(
    files: Sequence[Path], layout: Layout, on_bad_file: Callable[[Path, FileError], None] | None
) -> Layout:
    """Resolve the layout with the columns of the first file that can be opened."""
    path, names = first_names(files, on_bad_file)
    return layout.resolved(names, where=str(path))


def first_names(
    files: Sequence[Path], on_bad_file: Callable[[Path, FileError], None] | None
) -> tuple[Path, list[str]]:
    """The first file that can be opened, and its columns."""
    for path in files:
        try:
            return path, column_names(path)
        except FileError:
            if on_bad_file is None:
                raise
    raise FileError(f"none of the {len(files):,} files can be read")


def _load_frame(frame: Any, layout: Layout, means: Mapping[str, Any] | None) -> Loaded:
    names: dict[str, Any]
    if isinstance(frame, Mapping):
        names = {str(name): name for name in frame}
    elif (own := table_names(frame)) is not None and hasattr(frame, "__getitem__"):
        if len(set(own)) < len(own):
            raise InputError("the DataFrame has two columns with the same name; rename one of them")
        names = dict(zip(own, getattr(frame, "column_names", frame.columns), strict=True))
    else:
        raise InputError(
            f"pairs are read from paths, a DataFrame or a mapping of arrays, not from {type(frame).__name__}"
        )
    layout = layout.resolved(list(names))
    if FILE in layout.others and FILE not in names:
        raise InputError(
            "context or group 'file' means the file of each row, which a DataFrame does not have"
        )
    columns = {
        name: _frame_column(frame, names[name], name, name in layout.signals)
        for name in dict.fromkeys([*layout.signals, *layout.others])
    }
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns differ in rows: {lengths}")
    if not next(iter(lengths.values())):
        raise InputError("there are no rows")
    built = build_pairs(columns, layout, means=means)
    check_windows(built, layout)
    return Loaded(built.pairs, pinned(layout, built, columns), built)


def _frame_column(frame: Any, key: Any, name: str, numeric: bool) -> NDArray[Any]:
    """A column of a DataFrame as an array, converted by Arrow unless it is numeric already."""
    import pyarrow as pa

    from coad.data.numbers import to_array, to_floats

    series = frame[key]
    if isinstance(series, np.ndarray) and series.dtype.kind in "fiubM":
        return series.astype(np.float64) if numeric and series.dtype.kind in "iub" else series
    try:
        if isinstance(series, (pa.Array, pa.ChunkedArray)):
            column = series
        else:
            column = series.to_arrow() if hasattr(series, "to_arrow") else pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise InputError(f"column {name!r} has values of mixed types ({error})") from error
    return to_floats(column, name) if numeric else to_array(column, name)


def check_windows(built: Built, layout: Layout) -> None:
    """Raise an error if no row is left, or no window fits."""
    built.missing.refuse_no_rows()
    if layout.window is not None and not len(built.pairs):
        known = built.breaks
        refuse_no_windows(known["windows"], known["time"], known["group"], layout.max_gap)


def _is_path(source: Any) -> bool:
    if isinstance(source, (str, os.PathLike)):
        return True
    is_list = isinstance(source, Iterable) and isinstance(source, (list, tuple))
    return is_list and all(isinstance(one, (str, os.PathLike)) for one in source)


__all__ = ["Loaded", "PathLike", "file_labels", "load", "pairs_from_frame", "read_pairs"]
