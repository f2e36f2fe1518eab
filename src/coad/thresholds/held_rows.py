"""The rows on strips of a table of counts, and the search among them down to single pairs of thresholds."""

from __future__ import annotations

import math
from functools import cached_property

import numba
import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.search_kernels import evaluate, refine
from coad.thresholds.count_table import Nodes, Rows, Rule, Side, Strips, places
from coad.thresholds.moved_rows import AtPair
from coad.thresholds.row_parts import Code
from coad.thresholds.strip_rows import Singles

__all__ = ["Best", "Held"]

_FAR = np.int32(np.iinfo(np.int32).max)


class Best:
    """The best pair so far: (F̂, J, and two numbers whose meaning is that of the last step), and its scores."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.found = np.array([-np.inf, 0.0, 0.0, 0.0])
        self.pair = (math.inf, math.inf)
        self._nodes: Nodes | None = None

    def take_node(self, nodes: Nodes) -> None:
        if nodes.best(self.rule, self.found):
            self.pair = nodes.s.threshold(int(self.found[2])), nodes.q.threshold(int(self.found[3]))
            self._nodes, self._place = nodes, self.found[2:].astype(int)

    def value(self, rule: Rule) -> FloatArray:
        """F̂ and J of this pair of edges by another rule."""
        if self._nodes is None:
            return self.found
        return np.array([*self._nodes.value(int(self._place[0]), int(self._place[1]), rule), 0.0, 0.0])


class Held:
    """The rows on some strips of a table, and perhaps others, for the search in memory."""

    def __init__(
        self,
        nodes: Nodes,
        strips: Strips,
        rows: Rows,
        singles: tuple[Singles, Singles],
        shown: AtPair | None = None,
    ) -> None:
        self.nodes, self.strips, self.rows, self.singles, self.shown = nodes, strips, rows, singles, shown

    def serves(self, nodes: Nodes, strips: Strips) -> bool:
        """Whether the rows on such strips are here."""
        return self.nodes is nodes and not any(
            (need & ~have).any() for need, have in zip(strips, self.strips, strict=True)
        )

    @cached_property
    def s(self) -> _Listed:
        return _Listed(self.nodes.s, self.rows[0], self.singles[0], self.strips[0], self.rows[2])

    @cached_property
    def q(self) -> _Listed:
        return _Listed(self.nodes.q, self.rows[1], self.singles[1], self.strips[1], self.rows[2])

    def search(self, boxes: BoolArray, bounds: FloatArray, best: Best) -> None:
        """Search the boxes down to single pairs."""
        nodes, s, q = self.nodes, self.s, self.q
        boxes = boxes & np.outer(s.usable, q.usable)
        several = np.outer(nodes.s.several, nodes.q.several)
        for listed, fixed, swap in ((q, s, False), (s, q, True)):
            one = boxes & ~several & (listed.side.several if not swap else listed.side.several[:, None])
            if not one.any():
                continue
            joint = nodes.joint.transpose(1, 0, 2).copy() if swap else nodes.joint
            before = best.found.copy()
            _scan(
                np.argwhere(one.T if swap else one),
                *(listed.rows, listed.ends, listed.position, listed.of_other(fixed.cell), listed.stratum),
                *(listed.side.flagged, fixed.side.flagged, joint, swap, *best.rule, best.found),
            )
            if not np.array_equal(before, best.found):
                pair = fixed.side.threshold(int(best.found[2])), listed.threshold(int(best.found[3]))
                best.pair = (pair[1], pair[0]) if swap else pair
        both, ranked = _ranked(boxes & several, bounds, nodes)
        before = best.found.copy()
        refine(
            *(s.ends, q.ends, s.of_other(q.group)[s.rows], q.of_other(s.group)[q.rows]),
            *(s.stratum[s.rows], q.stratum[q.rows]),
            *(s.position, q.position, nodes.joint, s.side.flagged, q.side.flagged),
            *(both, ranked, *best.rule, best.found),
        )
        if not np.array_equal(before, best.found):
            best.pair = s.threshold(int(best.found[2])), q.threshold(int(best.found[3]))


def _ranked(boxes: BoolArray, bounds: FloatArray, nodes: Nodes) -> tuple[IntArray, FloatArray]:
    """The boxes with their bounds and joint rows, the most promising first. There may be millions: each array counts."""
    flat = np.flatnonzero(boxes)
    flat = flat[np.argsort(-bounds.reshape(-1)[flat], kind="stable")]
    both = np.empty((len(flat), 2), dtype=np.int64)
    both[:, 0], both[:, 1] = np.divmod(flat, boxes.shape[1])
    ranked = np.empty((len(flat), 2))
    ranked[:, 0] = bounds.reshape(-1)[flat]
    del flat
    for low in range(0, len(both), 1 << 16):
        some = both[low : low + (1 << 16)] + 1
        ranked[low : low + (1 << 16), 1] = nodes.joint[some[:, 0], some[:, 1]].sum(-1)
    return both, ranked


class _Listed:
    """Held rows by one score: groups of tied scores, of which only those on strips list their rows.

    Single rows follow the whole ones in number; they belong to the group of the next lower score of a whole row.
    """

    def __init__(
        self, side: Side, score: FloatArray, singles: Singles, strips: BoolArray, stratum: Code
    ) -> None:
        self.side = side
        self.cell: Code = places(side.edges, score)
        listed = np.flatnonzero(strips[self.cell])
        self._scores: FloatArray = np.unique(score[listed])
        # Edges are groups too, perhaps of no row, so that rows beside the strips have a place among them.
        self._values: FloatArray = np.unique(np.concatenate([self._scores, side.edges]))[::-1].copy()
        self.group: Code = places(self._values, score) + np.int32(1)
        self._singles = len(singles.score)
        self.stratum: Code = np.concatenate([stratum, singles.code])
        numbers = np.arange(len(score), len(score) + self._singles, dtype=np.int32)
        index = np.concatenate([listed.astype(np.int32), numbers])
        groups = np.concatenate([self.group[listed], places(self._values, singles.score) + np.int32(1)])
        self.rows: Code = index[np.argsort(groups, kind="stable")]
        self.ends: IntArray = np.cumsum(np.bincount(groups, minlength=len(self._values) + 1))
        self.position: IntArray = np.append(0, np.searchsorted(-self._values, -side.edges) + 1)
        self.usable: BoolArray = np.ones(len(side.edges), dtype=bool)
        if (
            side.last < len(side.edges) and strips[side.last]
        ):  # this cell ends where half of the rows are flagged
            start = self.position[side.last]
            room = side.limit - side.total[side.last] + self.ends[start]
            end = min(self.position[side.last + 1], np.searchsorted(self.ends, room, side="right") - 1)
            self.position[side.last + 1] = end
            self.usable[side.last] = end > start

    def of_other(self, values: Code) -> Code:
        """Numbers that whole rows have by the other score, and for single rows one beyond all."""
        return np.concatenate([values, np.full(self._singles, _FAR)])

    def threshold(self, group: int) -> float:
        """The lowest score in the first groups of a strip."""
        return float(self._scores[np.searchsorted(self._scores, self._values[group - 1])])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _scan(  # type: ignore[no-untyped-def]
    boxes,
    rows,
    ends,
    position,
    fixed_cell,
    stratum,
    flagged,
    fixed_flagged,
    joint,
    swap,
    sizes,
    kinds,
    naive,
    lift,
    u,
    k,
    best,
):
    """Every pair of boxes (cell of one score, strip): the one threshold is fixed, the other moves down the strip."""
    both = np.empty((1, 1, len(sizes)), np.int64)
    moving = np.empty((1, len(sizes)), np.int64)
    fixed = np.empty((1, len(sizes)), np.int64)
    for index in range(len(boxes)):
        p, t = boxes[index]
        both[0, 0], moving[0], fixed[0] = joint[p + 1, t], flagged[t], fixed_flagged[p + 1]
        for group in range(position[t] + 1, position[t + 1] + 1):
            for r in range(ends[group - 1], ends[group]):
                row = rows[r]
                moving[0, stratum[row]] += 1
                if fixed_cell[row] <= p:
                    both[0, 0, stratum[row]] += 1
            if swap:
                value, here = evaluate(both, 0, 0, moving, fixed, sizes, kinds, naive, lift, u, k)
            else:
                value, here = evaluate(both, 0, 0, fixed, moving, sizes, kinds, naive, lift, u, k)
            if value > best[0] or (value == best[0] and here > best[1]):
                best[0], best[1], best[2], best[3] = value, here, p + 1, group
