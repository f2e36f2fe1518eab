"""Which events pass the explorer's filters, in which order, and when they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.app.view import View
from coad.events.runs import Events
from coad.workflows.scored import Scored

__all__ = ["filtered", "timeline"]

#: Bins of the timeline: what a screen shows.
_BINS = 160


def filtered(
    view: View,
    scored: Scored,
    events: Events,
    marks: dict[int, str],
    *,
    clock: FloatArray | None,
    kinds_of: Callable[[IntArray], list[str]],
    random_order: IntArray,
) -> IntArray:
    """The numbers of the events that pass the filters of a view, in its order.

    Parameters
    ----------
    view
        Filters and order.
    scored, events, marks
        The pairs, their events, and the marks of those that have one.
    clock
        The time of each pair in seconds, if there are times.
    kinds_of
        Gives the kind of each of some pairs.
    random_order
        A random number for each pair, the same for every page.
    """
    peak = events.peak
    keep: BoolArray = np.ones(len(events), dtype=np.bool_)
    if view.regime >= 0 and scored.code is not None:
        keep &= scored.code[peak] == view.regime
    if view.finding >= 0 and scored.mode is not None:
        keep &= scored.mode[peak] == view.finding
    if clock is not None:
        if view.start is not None:
            keep &= clock[peak] >= view.start
        if view.end is not None:
            keep &= clock[peak] <= view.end
    if view.kind:
        keep &= np.array(kinds_of(peak), dtype=object) == view.kind
    if view.mark:
        marked = np.array([marks.get(i, "none") for i in range(len(events))], dtype=object)
        keep &= np.array(marked != "none" if view.mark == "any" else marked == view.mark, dtype=np.bool_)
    chosen = np.flatnonzero(keep)
    key = {
        "strongest": -scored.score[peak],
        "latest": -peak if clock is None else -clock[peak],
        "longest": -events.n_pairs,
        "random": random_order[peak],
    }[view.sort]
    return np.asarray(chosen[np.argsort(key[chosen], kind="stable")])


def timeline(clock: FloatArray | None, n: int, peaks: IntArray) -> dict[str, Any]:
    """A histogram of events over time, or over the ``n`` pairs if there are no times."""
    axis = np.arange(n, dtype=float) if clock is None else clock
    low, high = float(axis.min()), float(axis.max())
    high = high if high > low else low + 1.0
    counts, _ = np.histogram(axis[peaks], bins=_BINS, range=(low, high))
    return {"counts": counts, "low": low, "high": high}
