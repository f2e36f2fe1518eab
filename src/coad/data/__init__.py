"""Read files into :class:`~coad.data.pairs.Pairs`: tables, arrays, windows, two clocks, triggers.

The names below are imported on first use, so that pyarrow, h5py and scipy.io are loaded only when
such files are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

if TYPE_CHECKING:  # for editors and type checkers; at run time the names are imported on first use
    from coad.data.alignment import Alignment, align
    from coad.data.clocks import read_two_clocks
    from coad.data.columns import select_columns
    from coad.data.layout import Layout
    from coad.data.paths import find_files
    from coad.data.read import load, pairs_from_frame, read_pairs
    from coad.data.spool import spool_pairs
    from coad.data.stream import iter_pairs
    from coad.data.tables import iter_columns, read_columns
    from coad.data.times import context_blocks, parse_duration, parse_time
    from coad.data.triggers import Events, event_windows, find_events, relative_change, robust_z
    from coad.data.windows import Windows, make_windows

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
    "pairs_from_frame": "coad.data.read",
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

__all__ = [
    "Alignment",
    "Events",
    "Layout",
    "Windows",
    "align",
    "context_blocks",
    "event_windows",
    "find_events",
    "find_files",
    "iter_columns",
    "iter_pairs",
    "load",
    "make_windows",
    "pairs_from_frame",
    "parse_duration",
    "parse_time",
    "read_columns",
    "read_pairs",
    "read_two_clocks",
    "relative_change",
    "robust_z",
    "select_columns",
    "spool_pairs",
]


if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
