"""A file of q that many sources share: read once, and mapped into memory by every process that needs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.layout import Layout, chosen_columns
from coad.data.long import wide_source
from coad.data.paths import PathLike, find_files
from coad.data.tables import column_names, read_columns
from coad.data.times import parse_time
from coad.exceptions import InputError

__all__ = ["Witness", "read_witness"]

_INDEX = "columns.json"


@dataclass(frozen=True)
class Witness:
    """Columns of a source of q in a folder, as arrays that processes of one machine share when they map them.

    Parameters
    ----------
    folder
        Where :func:`read_witness` put them.
    files
        What was read.
    names
        All columns of the files.
    clock
        The column of its times, which are parsed already.
    """

    folder: Path
    files: tuple[Path, ...]
    names: tuple[str, ...]
    clock: str

    def columns(self, inputs: Sequence[str], described: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Inputs as numbers, and columns that keep their type; those that are not here are read from the files."""
        index = json.loads((self.folder / _INDEX).read_text(encoding="utf-8"))
        wanted = [("input", name) for name in inputs] + [("described", name) for name in described]
        found, absent = {}, []
        for kind, name in wanted:
            if name in index[kind]:
                found[name] = np.load(self.folder / index[kind][name], mmap_mode="r", allow_pickle=False)
            else:
                absent.append(name)
        if absent:
            kept = [name for name in described if name in absent]
            found |= read_columns(list(self.files), absent, categories=kept)
        return found


def read_witness(source: PathLike | list[PathLike], layout: Layout, clock: str, folder: Path) -> Witness:
    """Read what sources of s may ask of a source of q, and put it into a folder.

    Parameters
    ----------
    source
        The files.
    layout
        Which columns may be asked for: those of q, and of what describes a row (context, group, id) those that the
        files have.
    clock
        The column of their times.
    folder
        An empty folder; on a cluster one that all workers see.

    Returns
    -------
    Witness

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "beam.csv"
    >>> _ = path.write_text("time,x,y\\n0,1,2\\n1,3,4\\n")
    >>> witness = read_witness(path, Layout(s=("a",), q=("x",), time="time"), "time", Path(tempfile.mkdtemp()))
    >>> witness.columns(["x"], ["time"])["x"].tolist()
    [1.0, 3.0]
    """
    source = wide_source(source, layout)
    files = tuple(find_files(source))
    names = tuple(column_names(files[0]))
    if clock not in names:
        raise InputError(f"{files[0]} has no column {clock!r}, which should hold its times")
    described = [clock, *(name for name in _describing(layout, names) if name != clock)]
    inputs = [
        name
        for name in chosen_columns(layout.q, names, what="column of q", where=str(files[0]))
        if name not in described
    ]
    columns = read_columns(list(files), [*inputs, *described], categories=described)
    columns[clock] = parse_time(columns[clock], unit=layout.time_unit, format=layout.time_format, name=clock)
    index: dict[str, dict[str, str]] = {"input": {}, "described": {}}
    for number, (name, values) in enumerate(columns.items()):
        if values.dtype.hasobject:
            continue  # cannot be mapped; such a column of text with gaps is read from the files again
        np.save(folder / f"{number}.npy", values, allow_pickle=False)
        index["described" if name in described else "input"][name] = f"{number}.npy"
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")
    return Witness(folder, files, names, clock)


def _describing(layout: Layout, names: Sequence[str]) -> list[str]:
    """The columns of the context, group and id that a file has."""
    found = [name for name in (layout.id, layout.group) if name in names]
    if layout.context is not None:
        # Others are in the files of s; if they are nowhere, a source says so.
        with suppress(InputError):
            found += chosen_columns(layout.context, names, what="context")
    return [name for name in dict.fromkeys(found) if name in names and name is not None]
