"""``--q auto``: all other numeric columns, once the columns of ``--s`` are named (or the other way round)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.columns import quoted
from coad.data.layout import Layout, chosen_columns
from coad.data.paths import find_files
from coad.data.tables import column_names, iter_columns, numeric_columns
from coad.exceptions import InputError
from coad.workflows.scoring import Source

__all__ = ["AUTO", "fill_auto"]

AUTO = "auto"

_SAMPLE = 50_000  # rows that are read to recognise counters and settings
_FEW_VALUES = 10  # a column with no more distinct values is a setting, not a signal


def fill_auto(source: Source, layout: Layout) -> Layout:
    """Replace ``auto`` by column names.

    Parameters
    ----------
    source : Source
        The files; their first one tells which columns there are.
    layout : Layout
        ``s`` or ``q`` may be ``"auto"``. Both may be if the file has columns called ``s`` and ``q``.

    Returns
    -------
    Layout
        With ``auto`` replaced by all other numeric columns. Left out are the time, id, group, label and
        context columns, text, columns that only rise or only fall (counters), and columns with few
        distinct values (settings).
    """
    if AUTO not in (layout.s, layout.q):
        return layout
    source.check()
    if source.two_clocks:
        raise InputError("with --s-file and --q-file, name the columns of --s and of --q")
    path = find_files(source.files or [])[0]
    names = column_names(path)
    if layout.s == layout.q:
        if {"s", "q"} <= set(names):
            return replace(layout, s="s", q="q")
        raise InputError(
            f'name the columns of at least one input, e.g. --s "motor_*"; {str(path)!r} has {quoted(names)}'
        )
    side, named = ("s", layout.q) if layout.s == AUTO else ("q", layout.s)
    used = {
        *chosen_columns(named, names, where=str(path)),
        layout.time,
        layout.id,
        layout.group,
        layout.label,
    }
    if layout.context is not None:
        used.update(chosen_columns(layout.context, names, what="context", where=str(path)))
    others = _signals(path, [name for name in numeric_columns(path) if name not in used])
    if not others:
        raise InputError(f"no other numeric column is left for {side}; name its columns with --{side}")
    return replace(layout, s=others) if side == "s" else replace(layout, q=others)


def _signals(path: Path, names: list[str]) -> tuple[str, ...]:
    """The columns that look like measurements in the first rows, all read in one pass."""
    if not names:
        return ()
    parts: list[dict[str, NDArray[Any]]] = []
    for batch in iter_columns(path, names, _SAMPLE):
        parts.append(batch)
        if sum(len(part[names[0]]) for part in parts) >= _SAMPLE:
            break
    if not parts:
        raise InputError(f"{str(path)!r} has no rows")
    return tuple(name for name in names if _is_signal(np.concatenate([part[name] for part in parts])))


def _is_signal(values: NDArray[Any]) -> bool:
    """Whether there are many distinct values, and they neither only rise nor only fall."""
    rows = values.reshape(len(values), -1)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(np.unique(rows)) <= _FEW_VALUES:
        return False
    steps = np.diff(rows[:, 0])
    return rows.shape[1] > 1 or not (bool((steps >= 0).all()) or bool((steps <= 0).all()))
