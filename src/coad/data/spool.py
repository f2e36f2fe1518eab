"""Pairs that do not fit in memory: written to flat files on disk and memory-mapped."""

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
    """Write pairs to disk and return them memory-mapped.

    Parameters
    ----------
    source, layout, batch_rows, means, on_bad_file
        As for :func:`coad.data.iter_pairs`.
    folder : path
        Where ``s.bin`` and ``q.bin`` (float32) are written; the caller removes it.

    Returns
    -------
    Pairs
        ``pairs[rows]`` reads these rows of s and q from disk; context, time and so on are in memory.
        Row numbers in ``windows`` count over all files.
    Layout
        The resolved layout.
    """
    target = Path(folder)
    describing: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("context", "time", "id", "group", "label")
    }
    shapes: dict[str, tuple[int, ...]] = {}
    starts: list[NDArray[np.int64]] = []
    n, n_rows, length = 0, 0, 0
    resolved = layout
    try:
        target.mkdir(parents=True, exist_ok=True)
        with (target / "s.bin").open("wb") as file_s, (target / "q.bin").open("wb") as file_q:
            for batch in iter_all_batches(
                source, layout, batch_rows=batch_rows, means=means, on_bad_file=on_bad_file
            ):
                resolved = batch.layout
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
        raise InputError("these files give no pairs")
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
    return pairs, resolved


def _append(file: IO[bytes], values: NDArray[Any], name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    shape = shapes.setdefault(name, values.shape[1:])
    if values.shape[1:] != shape:
        raise InputError(f"{name} has rows of shape {shape} in one file and {values.shape[1:]} in another")
    file.write(np.ascontiguousarray(values, dtype=np.float32).data)
