"""The exact maximum of F̂β over all pairs of thresholds, for rows that do not fit in memory.

1. The first pass (:class:`~coad.thresholds.row_stream.RowStream`) samples both scores for edges.
2. The second counts the rows between them (:class:`~coad.thresholds.count_table.CountTable`), which
   gives F̂ at every pair of edges, and a bound for the pairs between them.
3. The third collects the rows in the cells of s and of q ("strips") whose bound is above the best
   F̂ so far: few. On them the search in memory, :func:`coad.core.search_kernels.refine`, is exact, with the
   counts of the table for the rows above the strips.

If there are too many rows on the strips, the surviving cells get edges of their own and are counted in
another pass, and so on. Every cell with more than one score is cut, so the search ends; a cell
with a single score needs no rows, for the table knows its one threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.grid import grid_steps
from coad.core.search import Optimum, merge_singles, search_rule, stratum_kinds
from coad.core.search_kernels import evaluate, refine
from coad.thresholds.count_table import CountTable, Nodes, Rows, Rule, Side, Strips, first_edges, place
from coad.thresholds.row_stream import Code, RowStream

_MOST_EDGES = 2048
_TABLE_CELLS = 1 << 22  # of a table, over all strata


@dataclass(frozen=True)
class ScoredOptimum(Optimum):
    """The best pair, by its scores."""

    threshold_s: float = math.inf
    threshold_q: float = math.inf


class StreamSearch:
    """Like :class:`coad.core.search.PairSearch`, with at most ``max_rows`` rows held at once.

    ``expected`` is the β and the α (None: the largest TP) of a search that will follow one for the
    largest TP. Where they fit, the rows for both are collected in one pass.
    """

    def __init__(
        self, rows: RowStream, *, max_rows: int, expected: tuple[float, float | None] | None = None
    ) -> None:
        self.rows, self.n, self.max_rows, self.expected = rows, rows.n, max_rows, expected
        self.merged, self.sizes, self.has_singles = merge_singles(rows.sizes)
        strata = len(self.sizes)
        most = min(_MOST_EDGES, math.isqrt(_TABLE_CELLS // strata), math.isqrt(4 * max_rows))
        self.steps = max(grid_steps(strata), most)
        edges_s, edges_q = (
            first_edges(rows.samples[side], rows.tops[side], rows.lowest[side], self.n, self.steps)
            for side in (0, 1)
        )
        self.first = self._counted(edges_s, edges_q)
        self._held: _Held | None = None
        self.correlation = 0.0  # of the background, the same in all searches

    def maximise(self, *, beta: float, alpha: float, correlation: float = 0.0) -> ScoredOptimum:
        """The pair with the highest F̂β, exactly; of those, one with the most joint rows."""
        self.correlation = correlation
        best = _Best(self._rule(beta, alpha))
        self._search(self.first, self.first.usable, best)
        return ScoredOptimum(0, 0, int(best.found[1]), float(best.found[0]), *best.pair)

    def _rule(self, beta: float, alpha: float) -> Rule:
        kinds = stratum_kinds(self.sizes, self.has_singles)
        return search_rule(self.sizes, kinds, beta=beta, alpha=alpha, correlation=self.correlation)

    def _search(self, nodes: Nodes, boxes: BoolArray, best: _Best) -> None:
        """Search these boxes of a table for pairs that are better than the best."""
        best.take_node(nodes)
        while True:
            bounds = nodes.bounds(boxes, best.rule, best.found)
            boxes = bounds > -np.inf
            if not boxes.any():
                return
            chosen = boxes
            if nodes.rows_on(nodes.strips(boxes)) > self.max_rows:
                chosen = _most_promising(bounds, self.steps)
            strips = nodes.strips(chosen)
            if nodes.rows_on(strips) <= self.max_rows:
                self._known(nodes, strips, bounds, best).search(chosen, bounds, best)
            else:
                also = self._strips_of_next(nodes, bounds, best)
                finer = self._counted(*nodes.finer_edges(chosen, self.rows.samples, self.steps), also)
                parents = (
                    np.searchsorted(-old.edges, -new.edges)
                    for old, new in ((nodes.s, finer.s), (nodes.q, finer.q))
                )
                del bounds  # as large as the table
                self._search(finer, chosen[np.ix_(*parents)] & finer.usable, best)
                del finer
            boxes &= ~chosen

    def _batches(self) -> Iterator[Rows]:
        merged = self.merged.astype(np.int32)
        for s, q, code in self.rows:
            yield s, q, merged[code]

    def _counted(self, edges_s: FloatArray, edges_q: FloatArray, also: Strips | None = None) -> Nodes:
        """A pass that counts all rows; ``also``: strips of the first table whose rows it collects."""
        table = CountTable.empty(edges_s, edges_q, len(self.sizes), self.n)
        parts = []
        for batch in self._batches():
            table.add(*batch)
            if also is not None:
                parts.append(_on_strips(self.first, also, *batch))
        if also is not None:
            self._held = _Held.of(self.first, also, parts)
        return Nodes(table, self.n // 2)

    def _known(self, nodes: Nodes, strips: Strips, bounds: FloatArray, best: _Best) -> _Held:
        """The rows on these strips, and perhaps on more: held already, or from a pass."""
        if self._held is not None and self._held.serves(nodes, strips):
            return self._held
        also = self._strips_of_next(nodes, bounds, best)
        if also is not None:
            more = strips[0] | also[0], strips[1] | also[1]
            strips = more if nodes.rows_on(more) <= self.max_rows else strips
        held = _Held.of(nodes, strips, [_on_strips(nodes, strips, *batch) for batch in self._batches()])
        if nodes is self.first:
            self._held = held
        return held

    def _strips_of_next(self, nodes: Nodes, bounds: FloatArray, best: _Best) -> Strips | None:
        """The strips of the first table that the expected search may need, if their rows can be held.

        Its α may be known only to lie between the largest TP so far and the highest bound. Whether the
        bound of a box beats the F̂ of a given pair is a linear inequality in α, so it holds
        somewhere between the two only if it holds at one of them.
        """
        if nodes is not self.first or self.expected is None or self._held is not None:
            return None
        (beta, given), self.expected = self.expected, None
        least, most = (float(best.found[0]), float(bounds.max())) if given is None else (given, given)
        rule = self._rule(beta, least)
        found = np.array([-np.inf, 0.0, 0.0, 0.0])
        nodes.best(rule, found)
        boxes = nodes.bounds(nodes.usable, rule, found) > -np.inf
        if most > least > 0:
            rule = self._rule(beta, most)
            found[:2] = nodes.value(int(found[2]), int(found[3]), rule)
            boxes |= nodes.bounds(nodes.usable, rule, found) > -np.inf
        strips = nodes.strips(boxes)
        return strips if nodes.rows_on(strips) <= self.max_rows // 2 else None


class _Best:
    """The best pair so far: (F̂, J, and two numbers whose meaning is that of the last step), and its scores."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.found = np.array([-np.inf, 0.0, 0.0, 0.0])
        self.pair = (math.inf, math.inf)

    def take_node(self, nodes: Nodes) -> None:
        if nodes.best(self.rule, self.found):
            self.pair = nodes.s.threshold(int(self.found[2])), nodes.q.threshold(int(self.found[3]))


def _most_promising(bounds: FloatArray, most: int) -> BoolArray:
    """The boxes with the highest bounds, on at most so many cells of each input."""
    cells = np.nonzero(bounds > -np.inf)
    order = np.argsort(-bounds[cells], kind="stable")
    fits = np.ones(len(order), dtype=bool)
    for side in cells:
        first = np.unique(side[order], return_index=True)[1]
        fits &= np.cumsum(np.bincount(first, minlength=len(order))) <= most
    chosen = np.zeros(bounds.shape, dtype=bool)
    chosen[cells[0][order[fits]], cells[1][order[fits]]] = True
    return chosen


class _Held:
    """The rows on some strips of a table, and perhaps others, for the search in memory."""

    def __init__(self, nodes: Nodes, strips: Strips, rows: Rows) -> None:
        self.nodes, self.strips, self.rows = nodes, strips, rows

    @classmethod
    def of(cls, nodes: Nodes, strips: Strips, parts: list[Rows]) -> _Held:
        """From the batches of a pass."""
        s, q, stratum = (np.concatenate([part[i] for part in parts]) for i in range(3))
        return cls(nodes, strips, (s, q, stratum))

    def serves(self, nodes: Nodes, strips: Strips) -> bool:
        """Whether the rows on such strips are here."""
        return self.nodes is nodes and not any(
            (need & ~have).any() for need, have in zip(strips, self.strips, strict=True)
        )

    @cached_property
    def s(self) -> _Listed:
        return _Listed(self.nodes.s, self.rows[0], self.strips[0])

    @cached_property
    def q(self) -> _Listed:
        return _Listed(self.nodes.q, self.rows[1], self.strips[1])

    def search(self, boxes: BoolArray, bounds: FloatArray, best: _Best) -> None:
        """Search the boxes down to single pairs."""
        nodes, s, q, stratum = self.nodes, self.s, self.q, self.rows[2]
        boxes = boxes & np.outer(s.usable, q.usable)
        several = np.outer(nodes.s.several, nodes.q.several)
        for listed, fixed, swap in ((q, s, False), (s, q, True)):
            one = boxes & ~several & (listed.side.several if not swap else listed.side.several[:, None])
            joint = nodes.joint.transpose(1, 0, 2).copy() if swap else nodes.joint
            before = best.found.copy()
            _scan(
                np.argwhere(one.T if swap else one),
                *(listed.rows, listed.ends, listed.position, fixed.cell, stratum),
                *(listed.side.flagged, fixed.side.flagged, joint, swap, *best.rule, best.found),
            )
            if not np.array_equal(before, best.found):
                pair = fixed.side.threshold(int(best.found[2])), listed.threshold(int(best.found[3]))
                best.pair = (pair[1], pair[0]) if swap else pair
        both = np.argwhere(boxes & several)
        ranked = np.column_stack([bounds[tuple(both.T)], nodes.joint[tuple(both.T + 1)].sum(-1)])
        order = np.lexsort((-ranked[:, 1], -ranked[:, 0]))
        before = best.found.copy()
        refine(
            *(s.ends, q.ends, q.group[s.rows], s.group[q.rows], stratum[s.rows], stratum[q.rows]),
            *(s.position, q.position, nodes.joint, s.side.flagged, q.side.flagged),
            *(both[order], ranked[order], *best.rule, best.found),
        )
        if not np.array_equal(before, best.found):
            best.pair = s.threshold(int(best.found[2])), q.threshold(int(best.found[3]))


class _Listed:
    """Held rows by one score: groups of tied scores, of which only those on strips list their rows."""

    def __init__(self, side: Side, score: FloatArray, strips: BoolArray) -> None:
        self.side = side
        self.cell: IntArray = np.searchsorted(-side.edges, -score)
        listed = np.flatnonzero(strips[self.cell])
        self._scores: FloatArray = np.unique(score[listed])
        # Edges are groups too, perhaps of no row, so that rows beside the strips have a place among them.
        self._values: FloatArray = np.unique(np.concatenate([self._scores, side.edges]))[::-1]
        self.group: Code = (np.searchsorted(-self._values, -score) + 1).astype(np.int32)
        self.rows: IntArray = listed[np.argsort(self.group[listed], kind="stable")]
        self.ends: IntArray = np.cumsum(np.bincount(self.group[listed], minlength=len(self._values) + 1))
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

    def threshold(self, group: int) -> float:
        """The lowest score in the first groups of a strip."""
        return float(self._scores[np.searchsorted(self._scores, self._values[group - 1])])


def _on_strips(nodes: Nodes, strips: Strips, s: FloatArray, q: FloatArray, stratum: Code) -> Rows:
    """Of some rows, those on the strips."""
    on = _mark(s, q, nodes.s.edges, nodes.q.edges, *strips)
    return s[on], q[on], stratum[on]


@numba.njit(cache=True, nogil=True)
def _mark(s, q, edges_s, edges_q, strips_s, strips_q):  # type: ignore[no-untyped-def]
    on = np.empty(len(s), np.bool_)
    for row in range(len(s)):
        on[row] = strips_s[place(edges_s, s[row])] or strips_q[place(edges_q, q[row])]
    return on


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
