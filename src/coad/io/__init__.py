"""Files in, :class:`~coad.pairs.Pairs` out: tables, arrays, windows, two clocks, triggers.

The names below load when they are first used, so that pyarrow, h5py and
scipy.io are imported only by those who read such files.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name → the module it lives in.
_HOME = {
    "Alignment": "coad.io.alignment",
    "Events": "coad.io.triggers",
    "Layout": "coad.io.layout",
    "Windows": "coad.io.windows",
    "align": "coad.io.alignment",
    "context_blocks": "coad.io.times",
    "event_windows": "coad.io.triggers",
    "find_events": "coad.io.triggers",
    "find_files": "coad.io.paths",
    "iter_columns": "coad.io.tables",
    "iter_pairs": "coad.io.stream",
    "load": "coad.io.read",
    "make_windows": "coad.io.windows",
    "parse_duration": "coad.io.times",
    "parse_time": "coad.io.times",
    "read_columns": "coad.io.tables",
    "read_pairs": "coad.io.read",
    "read_two_clocks": "coad.io.clocks",
    "relative_change": "coad.io.triggers",
    "robust_z": "coad.io.triggers",
    "select_columns": "coad.io.columns",
    "spool_pairs": "coad.io.spool",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'coad.io' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
