"""Pairs from two sources with their own times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.data.alignment import Alignment, align
from coad.data.build import build_pairs, pinned
from coad.data.columns import check_columns, refuse_overlap
from coad.data.layout import FILE, Layout, chosen_columns
from coad.data.long import wide_source
from coad.data.missing import column_means, handle_missing
from coad.data.pairs import Pairs
from coad.data.paths import PathLike, find_files
from coad.data.read import check_windows
from coad.data.segments import segment_starts
from coad.data.tables import column_names, read_columns
from coad.data.times import Duration, parse_time
from coad.data.witness import Witness
from coad.exceptions import InputError

Source = PathLike | list[PathLike]


@dataclass(frozen=True)
class TwoClocks:
    """Pairs at the times of s, the first and last row of s of each, and the alignment."""

    pairs: Pairs
    layout: Layout
    alignment: Alignment
    first: IntArray
    last: IntArray
    means: dict[str, Any] = field(
        default_factory=dict
    )  # used for missing values, by ``s:name`` and ``q:name``


def read_two_clocks(
    s_source: Source,
    q_source: Source | Witness,
    layout: Layout,
    *,
    how: str = "nearest",
    tolerance: Duration | None = None,
    time_q: str | None = None,
    means: Mapping[str, Any] | None = None,
) -> TwoClocks:
    """Read s and q from two sources, and align q to the times of s.

    Parameters
    ----------
    s_source, q_source : path or list of paths
        Files of s and of q; q may have been read already, for many sources of s.
    layout : Layout
        Needs ``time``. The time column is never an input, so ``s="*"`` means all other columns.
        Context, group, id and label are read from the source that has them, first from s. Missing
        values are handled in each source before the alignment.
    how, tolerance
        As for :func:`coad.data.align`.
    time_q : str, optional
        Time column of ``q_source``, if it has another name.
    means : mapping, optional
        Values for missing ones under ``missing="mean"``: the ``means`` of an earlier result
        (default: the means of these rows).

    Returns
    -------
    TwoClocks
        With ``pairs``, the resolved ``layout``, the ``alignment`` and the ``means``.
    """
    if layout.time is None:
        raise InputError("two sources need a time column each; name it")
    s_source = wide_source(s_source, layout)
    if not isinstance(q_source, Witness):
        q_source = wide_source(q_source, layout)
    clock_s, clock_q = layout.time, time_q or layout.time
    names_s, names_q = _names(s_source), _names(q_source)
    check_columns(names_s, [clock_s], where=str(s_source))
    check_columns(names_q, [clock_q], where=_where(q_source))
    context = None
    if layout.context is not None:
        context = chosen_columns(layout.context, list(dict.fromkeys([*names_s, *names_q])), what="context")
    describing = [
        name for name in (*(context or ()), layout.id, layout.group, layout.label) if name is not None
    ]
    if FILE in describing:
        raise InputError("'file' cannot be a context or a group of two sources; name a column")
    for name in describing:
        check_columns(list(dict.fromkeys([*names_s, *names_q])), [name])
    of_s = [name for name in dict.fromkeys(describing) if name in names_s]
    of_q = [name for name in dict.fromkeys(describing) if name not in names_s]
    inputs_s = _inputs(layout.s, names_s, "s", {clock_s, *of_s}, str(s_source))
    inputs_q = _inputs(layout.q, names_q, "q", {clock_q, *of_q}, _where(q_source))
    if find_files(s_source) == _files(q_source):
        refuse_overlap(inputs_s, inputs_q)

    side_s, rows_s, means_s = _one_side(s_source, inputs_s, of_s, clock_s, layout, _of_side(means, "s"))
    side_q, _, means_q = _one_side(q_source, inputs_q, of_q, clock_q, layout, _of_side(means, "q"))
    alignment = align(side_s[clock_s], side_q[clock_q], how, tolerance=tolerance)
    # The two sources may use the same names, so the inputs are prefixed while they are in one table.
    columns = {clock_s: alignment.take_s(side_s[clock_s])}
    columns |= {name: alignment.take_s(side_s[name]) for name in of_s}
    columns |= {name: alignment.take_nearest_q(side_q[name]) for name in of_q}
    columns |= {f"s:{name}": alignment.take_s(side_s[name]) for name in inputs_s}
    columns |= {f"q:{name}": alignment.take_q(side_q[name]) for name in inputs_q}
    settled = replace(
        layout, s=tuple(inputs_s), q=tuple(inputs_q), context=tuple(context) if context else None
    )
    together = replace(
        settled,
        s=tuple(f"s:{name}" for name in inputs_s),
        q=tuple(f"q:{name}" for name in inputs_q),
        missing="error",
    )
    rows = rows_s[alignment.rows_s]
    # No window may span a dropped row.
    built = build_pairs(columns, together, broken=np.cumsum(np.diff(rows, prepend=rows[:1]) > 1))
    check_windows(built, together)
    found = pinned(together, built, columns)
    settled = replace(settled, window=found.window, stride=found.stride, max_gap=found.max_gap)
    pairs = built.pairs.with_names(tuple(inputs_s), tuple(inputs_q))
    used = {f"s:{name}": value for name, value in means_s.items()}
    used |= {f"q:{name}": value for name, value in means_q.items()}
    return TwoClocks(pairs, settled, alignment, rows[built.first], rows[built.last], used)


def _where(source: Source | Witness) -> str:
    return ", ".join(map(str, source.files)) if isinstance(source, Witness) else str(source)


def _files(source: Source | Witness) -> list[Path]:
    return list(source.files) if isinstance(source, Witness) else find_files(source)


def _names(source: Source | Witness) -> list[str]:
    return list(source.names) if isinstance(source, Witness) else column_names(find_files(source)[0])


def _inputs(patterns: Any, names: list[str], side: str, taken: set[str], where: str) -> list[str]:
    chosen = chosen_columns(patterns, names, what=f"column of {side}", where=where)
    inputs = [name for name in chosen if name not in taken]
    if not inputs:
        raise InputError(f"{where!r} has no columns for {side} other than time, context, group and label")
    return inputs


def _of_side(means: Mapping[str, Any] | None, side: str) -> dict[str, Any] | None:
    """The means of one input, without the prefix."""
    if means is None:
        return None
    return {name[2:]: value for name, value in means.items() if name.startswith(f"{side}:")}


def _one_side(
    source: Source | Witness,
    inputs: list[str],
    describing: list[str],
    clock: str,
    layout: Layout,
    means: dict[str, Any] | None,
) -> tuple[dict[str, NDArray[Any]], IntArray, dict[str, Any]]:
    """The columns of one source without missing values, their source rows, and the means used."""
    if isinstance(source, Witness):
        columns = source.columns(inputs, [*describing, clock])
    else:
        columns = read_columns(source, [*inputs, *describing, clock], categories=[*describing, clock])
        columns[clock] = parse_time(
            columns[clock], unit=layout.time_unit, format=layout.time_format, name=clock
        )
    rule = "drop" if layout.missing == "drop" else "error"
    others, others_report = handle_missing(
        {name: columns[name] for name in [*describing, clock]}, rule, fillable=False
    )
    signals = {name: columns[name][others_report.keep] for name in inputs}
    starts = None
    if layout.missing == "interpolate":
        starts = segment_starts(
            int(others_report.keep.sum()), time=others[clock], max_gap=layout.max_gap, name=clock
        )
    means = column_means(signals) if means is None else means
    signals, report = handle_missing(
        signals, layout.missing, time=others[clock], segments=starts, means=means
    )
    report.refuse_no_rows()
    others = {name: column[report.keep] for name, column in others.items()}
    return signals | others, np.flatnonzero(others_report.keep)[report.keep], means
