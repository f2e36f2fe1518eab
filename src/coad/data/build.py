"""Build pairs from columns: times, missing values, contexts, windows."""

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
from coad.data.times import block_start, context_blocks, epoch_unit, in_seconds, parse_time
from coad.data.windows import Windows, in_samples, make_windows
from coad.exceptions import InputError

Columns = Mapping[str, NDArray[Any]]
#: An array with at least this many values per row holds the samples of a signal, not columns.
SAMPLES = 16


@dataclass(frozen=True)
class Built:
    """Pairs, the first and last source row of each, and the report on missing values."""

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
    """Build pairs from columns of equal length.

    Parameters
    ----------
    columns : mapping of str to array
        The columns of the layout.
    layout : Layout
        A resolved layout.
    means : mapping, optional
        Values for missing ones under ``missing="mean"`` (default: the means of these columns).
    first_row : int
        Number of the first row in its file.
    offset : int
        Rows of the first segment that a stream has used already.
    broken : array of int, optional
        A number for each row that changes where consecutive rows here are not consecutive in the source.

    Returns
    -------
    Built
    """
    n = len(columns[layout.s[0]])
    time = (
        None
        if layout.time is None
        else parse_time(
            columns[layout.time], unit=layout.time_unit, format=layout.time_format, name=layout.time
        )
    )
    others = {name: columns[name] for name in layout.others if name != layout.time}
    if time is not None and layout.time is not None:
        others[layout.time] = time
    # A missing context, group or time cannot be filled in: the row is dropped or refused.
    rule = "drop" if layout.missing == "drop" else "error"
    others, others_report = (
        handle_missing(others, rule, first_row=first_row, fillable=False) if others else ({}, None)
    )
    keep = np.ones(n, dtype=np.bool_) if others_report is None else others_report.keep
    signals = {name: columns[name] if keep.all() else columns[name][keep] for name in layout.signals}
    time = others.get(layout.time) if layout.time is not None else None
    group = _segment_ids(others, layout, broken if broken is None or keep.all() else broken[keep])
    starts = None
    if layout.missing == "interpolate":
        starts = segment_starts(int(keep.sum()), time=time, group=group, max_gap=layout.max_gap)
    signals, report = handle_missing(
        signals, layout.missing, time=time, segments=starts, means=means, first_row=first_row
    )
    if not report.keep.all():
        others = {name: array[report.keep] for name, array in others.items()}
    rows = np.flatnonzero(keep)[report.keep]
    kept_before = report.keep
    if others_report is not None:
        keep[keep] = report.keep
        report = replace(report, counts=others_report.counts | report.counts, keep=keep)
    if len(rows) < n:
        # No window may span a dropped row.
        gone = np.cumsum(np.diff(rows, prepend=rows[:1]) > 1)
        group = np.cumsum(changes(len(rows), None if group is None else group[kept_before], gone))
    return _assemble(signals, others, layout, group, rows, n, report, first_row, offset)


def _assemble(
    signals: Columns,
    others: Columns,
    layout: Layout,
    group: IntArray | None,
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
                f"the rows of {name} are already windows (shape {array.shape[1:]}); do not give a window"
            )
    windows = make_windows(
        len(rows),
        layout.window,
        layout.stride,
        time=time,
        group=group,
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
        {"time": time, "group": group, "windows": windows, "rows": rows},
    )


def _window_labels(windows: Windows, label: NDArray[Any]) -> NDArray[Any]:
    """The largest label in each window (True if any is); for text, the label of the last row."""
    if label.dtype == np.bool_:
        return windows.any(label)
    return windows.largest(label) if label.dtype.kind in "iuf" else windows.at_last(label)


def pinned(layout: Layout, built: Built, columns: Columns) -> Layout:
    """The layout with the time unit, the window in rows and the largest gap as found in these rows.

    A model stores it and a stream continues with it, so that later rows are read in the same way.
    """
    if layout.time is not None and layout.time_unit is None:
        layout = replace(layout, time_unit=epoch_unit(columns[layout.time]))
    if layout.window is None:
        return layout
    time, group = built.breaks["time"], built.breaks["group"]
    window = in_samples(layout.window, time, group)
    stride = window if layout.stride is None else in_samples(layout.stride, time, group, name="stride")
    layout = replace(layout, window=window, stride=stride)
    if time is not None and layout.max_gap is None:
        step = median_step(time, changes(len(time), group))
        nanoseconds = 0 if step is None else round(float(in_seconds(np.asarray([step]))[0]) * GAP_STEPS * 1e9)
        if nanoseconds > 0:
            layout = replace(layout, max_gap=f"{nanoseconds}ns")
    return layout


def stacked(arrays: Sequence[NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Stack columns: (rows, columns), or (rows, columns, samples) if each row of a column has samples.

    A single array with fewer than 16 values per row holds columns; with more, the samples of one channel.

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
            f"all columns of an input must have the same shape per row: {names[0]!r} has {arrays[0].shape[1:]} "
            f"and {names[odd]!r} has {arrays[odd].shape[1:]}"
        )
    return np.stack(arrays, axis=1)


def names_of(names: Sequence[str], array: NDArray[Any]) -> tuple[str, ...]:
    """The names of the columns or channels; the columns of a single array are numbered.

    >>> names_of(["s"], np.zeros((5, 3))), names_of(["a", "b"], np.zeros((5, 2)))
    (('s[0]', 's[1]', 's[2]'), ('a', 'b'))
    """
    if len(names) == 1 and array.ndim == 2 and array.shape[1] > 1:
        return tuple(f"{names[0]}[{place}]" for place in range(array.shape[1]))
    return tuple(names)


def combined_context(columns: Columns) -> NDArray[Any]:
    """Combine several columns into one label per row; a single column is returned unchanged.

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


def regime_names(contexts: Sequence[Any], layout: Layout, time: NDArray[Any] | None = None) -> list[str]:
    """Write contexts for people: with the name of their column, and blocks of time by their start.

    >>> regime_names([1.0, 2.5], Layout("a", "b", context=("load",)))
    ['load=1', 'load=2.5']
    >>> days = Layout("a", "b", context=("load",), time="t", context_blocks="1d")
    >>> regime_names(["load=1, block=20000"], days, np.array(["2024-10-04"], "M8[ns]"))
    ['load=1, 1d from 2024-10-04 00:00:00']
    """
    columns, block = layout.context or (), layout.context_blocks
    if block is not None:
        # A block is the last part of a combined context, or all of it.
        parts = [str(one).rpartition("block=") for one in contexts]
        dates = time is not None and time.dtype.kind == "M"
        return [f"{others}{block} from {block_start(int(n), block, dates=dates)}" for others, _, n in parts]
    if len(columns) == 1:
        return [f"{columns[0]}={_written(one)}" for one in contexts]
    return [str(one) if columns else f"regime {one}" for one in contexts]


def _written(value: Any) -> str:
    # Whether a file stores 1 or 1.0, the context is the same.
    return f"{value:.15g}" if isinstance(value, (float, np.floating)) else str(value)


def _context(others: Columns, layout: Layout, time: NDArray[Any] | None) -> NDArray[Any] | None:
    parts = {name: others[name] for name in layout.context or ()}
    for name, array in parts.items():
        if array.ndim != 1:
            raise InputError(
                f"context {name!r} has shape {array.shape}; select one column of it, e.g. '{name}[0]'"
            )
    if layout.context_blocks is not None and time is not None:
        parts["block"] = context_blocks(time, layout.context_blocks)
    return combined_context(parts) if parts else None


def _segment_ids(others: Columns, layout: Layout, broken: IntArray | None) -> IntArray | None:
    """A number per row that changes where a window may not continue: at a new group, context or file."""
    names = [name for name in (layout.group, *(layout.context or ())) if name is not None]
    bad = [name for name in names if others[name].ndim != 1]
    if bad:
        raise InputError(f"group and context need one value per row; {quoted(bad)} has more")
    columns = [others[name] for name in names] + ([] if broken is None else [broken])
    return np.cumsum(changes(len(columns[0]), *columns)) if columns else None


__all__ = ["FILE", "Built", "build_pairs", "combined_context", "pinned", "regime_names", "stacked"]
