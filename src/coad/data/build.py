"""From columns to pairs: missing values, times, contexts and windows, in this order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.data.columns import quoted
from coad.data.layout import FILE, Layout
from coad.data.missing import MissingReport, handle_missing
from coad.data.pairs import Pairs
from coad.data.segments import GAP_STEPS, changes, median_step, segment_starts
from coad.data.times import context_blocks, epoch_unit, in_seconds, parse_time
from coad.data.windows import Windows, in_samples, make_windows
from coad.exceptions import InputError

Columns = Mapping[str, NDArray[Any]]
#: From so many values a row on, an array is taken for the samples of a signal.
SAMPLES = 16


@dataclass(frozen=True)
class Built:
    """Pairs, the source rows that each begins and ends at, and what was done about missing values."""

    pairs: Pairs
    first: IntArray
    last: IntArray
    n_rows: int
    n_dropped: int
    missing: MissingReport
    breaks: dict[str, Any] = field(default_factory=dict)


def build_pairs(
    columns: Columns,
    layout: Layout,
    *,
    means: Mapping[str, Any] | None = None,
    first_row: int = 0,
    offset: int = 0,
    broken: IntArray | None = None,
) -> Built:
    """Pairs from columns of one length, under a resolved layout.

    ``means`` fill missing values (a model's); ``first_row`` is where these rows
    start in their file, ``offset`` how many rows of the first stretch a stream
    has used up already; ``broken`` numbers stretches that belong together, for
    rows that are not neighbours though they follow each other here.
    """
    n = len(columns[layout.s[0]])
    time = (
        None
        if layout.time is None
        else parse_time(columns[layout.time], unit=layout.time_unit, name=layout.time)
    )
    others = {name: columns[name] for name in layout.others if name != layout.time}
    if time is not None and layout.time is not None:
        others[layout.time] = time
    # A row without its context, group or time has no place: it can only be refused or dropped.
    rule = "drop" if layout.missing == "drop" else "error"
    others, told = handle_missing(others, rule, first_row=first_row, fillable=False) if others else ({}, None)
    keep = np.ones(n, dtype=np.bool_) if told is None else told.keep
    signals = {name: columns[name] if keep.all() else columns[name][keep] for name in layout.signals}
    time = others.get(layout.time) if layout.time is not None else None
    grouping = _grouping(others, layout, broken if broken is None or keep.all() else broken[keep])
    starts = None
    if layout.missing == "interpolate":
        starts = segment_starts(int(keep.sum()), time=time, groups=grouping, max_gap=layout.max_gap)
    signals, report = handle_missing(
        signals, layout.missing, time=time, segments=starts, means=means, first_row=first_row
    )
    if not report.keep.all():
        others = {name: array[report.keep] for name, array in others.items()}
    rows = np.flatnonzero(keep)[report.keep]
    if len(rows) < n:
        # Rows on the two sides of a dropped one are not neighbours: no window may hold both.
        gone = np.cumsum(np.diff(rows, prepend=rows[:1]) > 1)
        grouping = [array[report.keep] for array in grouping] + [gone]
    return _assemble(signals, others, layout, grouping, rows, n, report, first_row, offset)


def _assemble(
    signals: Columns,
    others: Columns,
    layout: Layout,
    grouping: Sequence[NDArray[Any]],
    rows: IntArray,
    n: int,
    report: MissingReport,
    first_row: int,
    offset: int,
) -> Built:
    s = stacked([signals[name] for name in layout.s], layout.s)
    q = stacked([signals[name] for name in layout.q], layout.q)
    time = others.get(layout.time) if layout.time is not None else None
    describing: dict[str, Any] = {
        "context": _context(others, layout, time),
        "time": time,
        **{name: others.get(getattr(layout, name) or "") for name in ("id", "group", "label")},
    }
    s_names, q_names = names_of(layout.s, s), names_of(layout.q, q)
    if layout.window is None:
        pairs = Pairs(s, q, **describing, s_names=s_names, q_names=q_names)
        return Built(pairs, rows + first_row, rows + first_row, n, n - len(rows), report)
    for name, array in (("s", s), ("q", q)):
        if array.ndim > 2:
            raise InputError(
                f"the rows of {name} are windows already (shape {array.shape[1:]}); leave out the window"
            )
    windows = make_windows(
        len(rows),
        layout.window,
        layout.stride,
        time=time,
        groups=grouping,
        max_gap=layout.max_gap,
        offset=offset,
    )
    label = describing.pop("label")
    at_last: dict[str, Any] = {
        name: None if value is None else windows.at_last(value) for name, value in describing.items()
    }
    labels = None if label is None else _window_labels(windows, label)
    source = Windows(rows[windows.start] if len(windows) else windows.start, windows.length, n)
    pairs = Pairs(
        windows.take(s),
        windows.take(q),
        label=labels,
        s_names=s_names,
        q_names=q_names,
        windows=source,
        **at_last,
    )
    return Built(
        pairs,
        source.start + first_row,
        source.last + first_row,
        n,
        n - len(rows),
        report,
        {"time": time, "groups": grouping, "windows": windows, "rows": rows},
    )


def _window_labels(windows: Windows, label: NDArray[Any]) -> NDArray[Any]:
    """One bad row makes a bad window: the largest class, or True. Text has no order: the last row's."""
    if label.dtype == np.bool_:
        return windows.any(label)
    return windows.largest(label) if label.dtype.kind in "iuf" else windows.at_last(label)


def pinned(layout: Layout, built: Built, columns: Columns) -> Layout:
    """The layout with whatever was found in these rows written down: time unit, samples a window, gap.

    A model keeps it, and a stream goes on with it, so that later rows are read
    just as these were.
    """
    if layout.time is not None and layout.time_unit is None:
        layout = replace(layout, time_unit=epoch_unit(columns[layout.time]))
    if layout.window is None:
        return layout
    time, groups = built.breaks["time"], built.breaks["groups"]
    window = in_samples(layout.window, time, groups)
    stride = window if layout.stride is None else in_samples(layout.stride, time, groups, name="stride")
    layout = replace(layout, window=window, stride=stride)
    if time is not None and layout.max_gap is None:
        step = median_step(time, changes(len(time), groups))
        nanoseconds = 0 if step is None else round(float(in_seconds(np.asarray([step]))[0]) * GAP_STEPS * 1e9)
        if nanoseconds > 0:
            layout = replace(layout, max_gap=f"{nanoseconds}ns")
    return layout


def stacked(arrays: Sequence[NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Columns side by side: (rows, columns), or (rows, columns, samples) if each row of a column has samples.

    A single array is taken as it is. If it has one axis of values a row, these are columns where they are few,
    and the samples of one channel where they are many.

    >>> stacked([np.zeros((5, 60)), np.ones((5, 60))], ["PS1", "PS2"]).shape
    (5, 2, 60)
    >>> stacked([np.zeros((5, 60))], ["PS1"]).shape, stacked([np.zeros((5, 8))], ["s"]).shape
    ((5, 1, 60), (5, 8))
    """
    if len(arrays) == 1 and (arrays[0].ndim > 2 or (arrays[0].ndim == 2 and arrays[0].shape[1] < SAMPLES)):
        return arrays[0]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        odd = next(i for i, array in enumerate(arrays) if array.shape[1:] != arrays[0].shape[1:])
        raise InputError(
            f"columns of one input must have rows of one shape: {names[0]!r} has {arrays[0].shape[1:]} "
            f"and {names[odd]!r} has {arrays[odd].shape[1:]}"
        )
    return np.stack(arrays, axis=1)


def names_of(names: Sequence[str], array: NDArray[Any]) -> tuple[str, ...]:
    """The names of the columns or channels; those of one array of several columns are its places.

    >>> names_of(["s"], np.zeros((5, 3))), names_of(["a", "b"], np.zeros((5, 2)))
    (('s[0]', 's[1]', 's[2]'), ('a', 'b'))
    """
    if len(names) == 1 and array.ndim == 2 and array.shape[1] > 1:
        return tuple(f"{names[0]}[{place}]" for place in range(array.shape[1]))
    return tuple(names)


def combined_context(columns: Columns) -> NDArray[Any]:
    """One label per row from several columns; a single column stays as it is.

    >>> combined_context({"material": np.array([1, 2]), "feed": np.array([0.5, 0.25])})
    array(['material=1, feed=0.5', 'material=2, feed=0.25'], dtype='<U21')
    """
    if len(columns) == 1:
        return next(iter(columns.values()))
    parts: list[tuple[list[str], IntArray]] = []
    for name, array in columns.items():
        values, code = np.unique(array, return_inverse=True)
        parts.append(([f"{name}={_written(value)}" for value in values], code.reshape(len(array))))
    combinations, code = np.unique(np.stack([code for _, code in parts], axis=1), axis=0, return_inverse=True)
    labels = [", ".join(texts[i] for (texts, _), i in zip(parts, row, strict=True)) for row in combinations]
    return np.array(labels, dtype=str)[code.reshape(-1)]


def _written(value: Any) -> str:
    # 1 and 1.0 are one regime, whichever way a file stores them.
    return f"{value:.15g}" if isinstance(value, (float, np.floating)) else str(value)


def _context(others: Columns, layout: Layout, time: NDArray[Any] | None) -> NDArray[Any] | None:
    parts = {name: others[name] for name in layout.context or ()}
    for name, array in parts.items():
        if array.ndim != 1:
            raise InputError(
                f"context {name!r} has shape {array.shape}; choose a part of it, like '{name}[0]'"
            )
    if layout.context_blocks is not None and time is not None:
        parts["block"] = context_blocks(time, layout.context_blocks)
    return combined_context(parts) if parts else None


def _grouping(others: Columns, layout: Layout, broken: IntArray | None) -> list[NDArray[Any]]:
    """What a window may not cross: groups, contexts (a window has one regime) and files."""
    names = [name for name in (layout.group, *(layout.context or ())) if name is not None]
    several = [others[name] for name in dict.fromkeys(names)]
    bad = [name for name in names if others[name].ndim != 1]
    if bad:
        raise InputError(f"group and context need one value a row; {quoted(bad)} has more")
    return several if broken is None else [*several, broken]


__all__ = ["FILE", "Built", "build_pairs", "combined_context", "pinned", "stacked"]
