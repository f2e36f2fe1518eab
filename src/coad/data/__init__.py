"""Files in, :class:`~coad.data.pairs.Pairs` out: tables, arrays, windows, two clocks, triggers.

The names below load when they are first used, so that pyarrow, h5py and
scipy.io are imported only by those who read such files.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name → the module it lives in.
_HOME = {
    "Alignment": "coad.data.alignment",
    "Events": "coad.data.triggers",
    "Layout": "coad.data.layout",
    "Windows": "coad.data.windows",
    "align": "coad.data.alignment",
    "context_blocks": "coad.data.times",
    "event_windows": "coad.data.triggers",
    "find_events": "coad.data.triggers",
    "find_files": "coad.data.paths",
    "iter_columns": "coad.data.tables",
    "iter_pairs": "coad.data.stream",
    "load": "coad.data.read",
    "make_windows": "coad.data.windows",
    "parse_duration": "coad.data.times",
    "parse_time": "coad.data.times",
    "read_columns": "coad.data.tables",
    "read_pairs": "coad.data.read",
    "read_two_clocks": "coad.data.clocks",
    "relative_change": "coad.data.triggers",
    "robust_z": "coad.data.triggers",
    "select_columns": "coad.data.columns",
    "spool_pairs": "coad.data.spool",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'coad.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
