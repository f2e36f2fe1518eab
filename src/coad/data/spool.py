"""Pairs that do not fit in memory: streamed once to flat files on disk, and mapped from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from coad.data.layout import Layout
from coad.data.pairs import Pairs
from coad.data.paths import PathLike
from coad.data.stream import iter_all_batches
from coad.data.tables import joined_parts
from coad.data.windows import Windows
from coad.exceptions import FileError, InputError


def spool_pairs(
    source: PathLike | list[PathLike],
    layout: Layout,
    folder: PathLike,
    *,
    batch_rows: int = 65_536,
    means: Mapping[str, Any] | None = None,
    on_bad_file: Callable[[Path, FileError], None] | None = None,
) -> tuple[Pairs, Layout]:
    """Pairs whose s and q lie on disk (``folder/s.bin``, ``folder/q.bin``, float32), and the settled layout.

    They are used like any others: ``pairs[rows]`` reads those rows. What
    describes the rows (context, time, …) is kept in memory. The caller owns the
    folder and removes it. Row numbers in ``windows`` count over all files.
    """
    target = Path(folder)
    describing: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("context", "time", "id", "group", "label")
    }
    shapes: dict[str, tuple[int, ...]] = {}
    starts: list[NDArray[np.int64]] = []
    n, n_rows, length = 0, 0, 0
    settled = layout
    try:
        target.mkdir(parents=True, exist_ok=True)
        with (target / "s.bin").open("wb") as file_s, (target / "q.bin").open("wb") as file_q:
            for batch in iter_all_batches(
                source, layout, batch_rows=batch_rows, means=means, on_bad_file=on_bad_file
            ):
                settled = batch.layout
                n_rows = batch.rows_before + batch.rows_read
                if not len(batch.pairs):
                    continue
                _append(file_s, batch.pairs.s, "s", shapes)
                _append(file_q, batch.pairs.q, "q", shapes)
                for name, parts in describing.items():
                    if getattr(batch.pairs, name) is not None:
                        parts.append(getattr(batch.pairs, name))
                if batch.pairs.windows is not None:
                    starts.append(batch.first + batch.rows_before)
                    length = batch.pairs.windows.length
                names = batch.pairs.s_names, batch.pairs.q_names
                n += len(batch.pairs)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write to {str(target)!r}: {error.strerror or error}") from error
    if not n:
        raise InputError("no pairs came out of these files")
    joined = {name: joined_parts(parts, name) for name, parts in describing.items() if parts}
    windows = Windows(np.concatenate(starts), length, n_rows) if starts else None
    pairs = Pairs(
        np.memmap(target / "s.bin", dtype=np.float32, mode="r", shape=(n, *shapes["s"])),
        np.memmap(target / "q.bin", dtype=np.float32, mode="r", shape=(n, *shapes["q"])),
        **joined,
        s_names=names[0],
        q_names=names[1],
        windows=windows,
    )
    return pairs, settled


def _append(file: IO[bytes], values: NDArray[Any], name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    shape = shapes.setdefault(name, values.shape[1:])
    if values.shape[1:] != shape:
        raise InputError(f"{name} has rows of shape {shape} in one file and {values.shape[1:]} in another")
    file.write(np.ascontiguousarray(values, dtype=np.float32).data)
