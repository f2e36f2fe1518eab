"""The exact search for more rows than memory holds.

1. The first pass (:func:`~coad.thresholds.row_parts.sketch`) samples rows; the optimum of the sample says where the
   table should be fine.
2. The second counts the rows in a table (:class:`~coad.thresholds.count_table.CountTable`), which gives F̂ at every
   pair of edges, and a bound for the pairs between them.
3. The third collects the rows in the cells of s and of q ("strips") whose bound is above the best F̂ so far: few. On
   them the search in memory, :func:`coad.core.search_kernels.refine`, is exact, with the counts of the table for the
   rows above the strips. The strips of the search for α and of that for the asked β are collected together. Rows that
   are never joint leave one score each (:mod:`coad.thresholds.strip_rows`).

If there are too many rows on the strips, the surviving cells get edges of their own and are counted in another pass,
and so on. Every cell with more than one score is cut, so the search ends; a cell with a single score needs no rows,
for the table knows its one threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.grid import grid_steps
from coad.core.search import Optimum, PairSearch, merge_singles, search_rule, stratum_kinds
from coad.thresholds.count_table import Nodes, Rule, first_edges, grid_nodes
from coad.thresholds.held_rows import Best, Held
from coad.thresholds.moved_rows import AtPair, Pair, at_pair
from coad.thresholds.passes import Passes, at_pair_part, count_part, strips_part
from coad.thresholds.row_parts import Sketch, changed
from coad.thresholds.strip_rows import Wanted, rows_held

#: Edges of an input: half the root of the rows, within these. More leave fewer rows in doubt and take longer to bound.
_FEWEST_EDGES, _MOST_EDGES = 2048, 4096
_TABLE_CELLS = 1 << 24  # of a table, over all strata
_ZOOMS = 6  # finer tables over what the last left, before the rest is searched in pieces


@dataclass(frozen=True)
class ScoredOptimum(Optimum):
    """The best pair, by its scores."""

    threshold_s: float = math.inf
    threshold_q: float = math.inf

    @property
    def pair(self) -> Pair:
        return self.threshold_s, self.threshold_q


class StreamSearch:
    """Like :class:`coad.core.search.PairSearch`, with at most ``max_rows`` rows held at once.

    Parameters
    ----------
    passes
        The rows.
    known
        From the first pass.
    beta, alpha
        Of the search that will follow one for the largest TP, whose value is α if that is None.
    correlation
        Of the background.
    max_rows, edges
        Rows held at once, and edges of an input, at most.
    moves
        How many tables to count with q moved in time; ``seed`` draws by how much.
    """

    def __init__(
        self,
        passes: Passes,
        known: Sketch,
        *,
        beta: float,
        alpha: float | None,
        correlation: float,
        max_rows: int,
        edges: int | None = None,
        moves: int = 0,
        seed: int = 0,
    ) -> None:
        self.passes, self.n, self.max_rows = passes, known.n, max_rows
        self.beta, self.alpha, self.correlation = beta, alpha, correlation
        self.raw_sizes: IntArray = np.array(list(known.sizes.values()), dtype=np.int64)
        self.merged, self.sizes, self.has_singles = merge_singles(self.raw_sizes)
        self.exact = True
        strata = len(self.sizes)
        room = math.isqrt(_TABLE_CELLS // strata)
        first = edges or min(max(_FEWEST_EDGES, math.isqrt(self.n) // 2), _MOST_EDGES)
        self.steps = max(grid_steps(strata), min(first, room))
        self.finer_steps = self.steps if edges else max(self.steps, room)
        self.samples = [np.sort(known.sample.s), np.sort(known.sample.q)]
        both = [
            first_edges(x, self.steps, near) for x, near in zip(self.samples, self._near(known), strict=True)
        ]
        self.nodes = [grid_nodes(*one, grid_steps(strata)) for one in zip(both, self.samples, strict=True)]
        work = *both, self.merged.astype(np.int32), strata, self.n
        self.table, self.moves = passes.sum(count_part, *work, self.nodes, moves, seed).both
        if int(self.table.counts.sum()) != self.n:
            raise changed()
        self.tables = [Nodes(self.table, self.n // 2)]
        self._boxes = self.tables[0].usable
        self._held: Held | None = None
        self._at_nodes: AtPair | None = None
        self._collected_after = 0  # passes

    def _near(self, known: Sketch) -> tuple[list[float], list[float]]:
        """Thresholds close to the best ones of the sample: those of a grid, whose steps are less than a sample tells."""
        code = known.sample.code if len(known.sizes) > 1 else None
        if code is not None:
            code = np.unique(code, return_inverse=True)[1]
        search = PairSearch(known.sample.s, known.sample.q, code)
        richest = search.maximise(beta=math.inf, alpha=1.0, correlation=self.correlation, exact=False)
        found = [richest]
        rate = richest.fbeta_hat if self.alpha is None else self.alpha
        if math.isfinite(self.beta) and rate > 0:
            found.append(
                search.maximise(beta=self.beta, alpha=rate, correlation=self.correlation, exact=False)
            )
        found = [one for one in found if one.joint]
        return (
            [float(search.s.thresholds[one.groups_s - 1]) for one in found],
            [float(search.q.thresholds[one.groups_q - 1]) for one in found],
        )

    def maximise(self, *, beta: float, alpha: float, correlation: float) -> ScoredOptimum:
        """The pair with the highest F̂β, exactly; of those, one with the most joint rows.

        β is infinite or the one announced, with the α that was given or the largest TP. Where ``exact`` was set to False: of the pairs of edges.
        """
        self.correlation = correlation
        best = Best(self._rule(beta, alpha))
        if self.exact:
            self._collect()
        for nodes in self.tables:
            best.take_node(nodes)
        if self.exact:
            self._search(self.tables[-1], self._boxes, best)
        return ScoredOptimum(0, 0, int(best.found[1]), float(best.found[0]), *best.pair)

    def flags(self, best: ScoredOptimum, richest: ScoredOptimum) -> tuple[IntArray, AtPair | None]:
        """Rows per stratum by the flags of the two pairs, and what the best one shows when q is moved.

        These take a pass of their own only if the search read rows again after the strips were collected. Otherwise
        the rows are exact, and what moving q shows is that of the best pair of edges, which was counted meanwhile.
        """
        counted = self._at_nodes is not None and self.passes.count == self._collected_after
        if not self.exact or (counted and self._are_known(best.pair, richest.pair)):
            return self._kinds(best.pair, richest.pair), self._at_nodes
        found = self.passes.sum(at_pair_part, len(self.raw_sizes), best.pair, richest.pair)
        return found.kinds, found

    def merge(self, kinds: IntArray) -> IntArray:
        """Counts per stratum with those of a single row put together as the last one."""
        if not self.has_singles:
            return kinds
        merged = np.zeros((len(self.sizes), *kinds.shape[1:]), dtype=kinds.dtype)
        np.add.at(merged, self.merged, kinds)
        return merged

    def _rule(self, beta: float, alpha: float) -> Rule:
        kinds = stratum_kinds(self.sizes, self.has_singles)
        return search_rule(self.sizes, kinds, beta=beta, alpha=alpha, correlation=self.correlation)

    def _collect(self) -> None:
        """The third pass, for both searches; where too many rows are in doubt, finer tables first."""
        if self._collected_after:
            return
        boxes, pairs = self._boxes_of_both()
        while self._too_many(boxes) and len(self.tables) <= _ZOOMS:
            finer, self._boxes = self._finer(self.tables[-1], boxes)
            if len(self.tables) > 1:
                self.tables[-1].drop_counts()  # only those of the first and the last are asked for
            self.tables.append(finer)
            boxes, pairs = self._boxes_of_both()
        self._boxes = boxes
        if not self._too_many(boxes):
            self._held = self._pass_over(self.tables[-1], boxes, pairs)
            self._at_nodes = self._held.shown
        self._collected_after = self.passes.count

    def _too_many(self, boxes: BoolArray) -> bool:
        return rows_held(self.tables[-1], boxes) > self.max_rows

    def _finer(self, nodes: Nodes, boxes: BoolArray) -> tuple[Nodes, BoolArray]:
        """A pass that counts a table with more edges in these boxes, and where they are in it."""
        edges = nodes.finer_edges(boxes, self.samples, self.finer_steps)
        work = *edges, self.merged.astype(np.int32), len(self.sizes), self.n
        finer = Nodes(self.passes.sum(count_part, *work).both[0], self.n // 2)
        parents = (
            np.searchsorted(-old.edges, -new.edges) for old, new in ((nodes.s, finer.s), (nodes.q, finer.q))
        )
        return finer, boxes[np.ix_(*parents)] & finer.usable

    def _boxes_of_both(self) -> tuple[BoolArray, tuple[Pair, Pair]]:
        """The boxes of the last table that the searches for α and for β leave, and the best pairs of edges.

        α is known only to lie between the largest TP at edges and the highest bound. Whether the bound of a box beats
        the F̂ of a given pair is a linear inequality in α, so it holds somewhere between the two only if it holds at
        one of them.
        """
        nodes = self.tables[-1]
        richest = self._best_of_tables(math.inf, 1.0)
        bounds = nodes.bounds(self._boxes, richest.rule, richest.found)
        boxes, highest = bounds > -np.inf, float(bounds.max())
        del bounds  # twice as large as the table
        best = richest
        if math.isfinite(self.beta):
            least = float(richest.found[0]) if self.alpha is None else self.alpha
            most = max(least, highest) if self.alpha is None else self.alpha
            pair: Best | None = None
            for rate in dict.fromkeys((least, most)):
                if rate <= 0:
                    continue
                if pair is None:
                    best = pair = self._best_of_tables(self.beta, rate)
                rule = self._rule(self.beta, rate)
                boxes |= nodes.bounds(self._boxes, rule, pair.value(rule)) > -np.inf
        return boxes, (best.pair, richest.pair)

    def _best_of_tables(self, beta: float, alpha: float) -> Best:
        best = Best(self._rule(beta, alpha))
        for nodes in self.tables:
            best.take_node(nodes)
        return best

    def _search(self, nodes: Nodes, boxes: BoolArray, best: Best) -> None:
        """Search these boxes of a table for pairs that are better than the best."""
        best.take_node(nodes)
        while True:
            bounds = nodes.bounds(boxes, best.rule, best.found)
            boxes = bounds > -np.inf
            if not boxes.any():
                return
            if self._held is not None and self._held.serves(nodes, nodes.strips(boxes)):
                self._held.search(boxes, bounds, best)
                return
            chosen = boxes
            if rows_held(nodes, boxes) > self.max_rows:
                chosen = _most_promising(bounds, self.steps)
            if rows_held(nodes, chosen) <= self.max_rows:
                self._pass_over(nodes, chosen).search(chosen, bounds, best)
            else:
                finer, inside = self._finer(nodes, chosen)
                del bounds  # as large as the table
                self._search(finer, inside, best)
                del finer
            boxes &= ~chosen

    def _pass_over(self, nodes: Nodes, boxes: BoolArray, pairs: tuple[Pair, Pair] | None = None) -> Held:
        wanted = Wanted.for_boxes(nodes, boxes)
        found = self.passes.sum(strips_part, wanted, len(self.raw_sizes), pairs)
        rows, *singles = found.rows.joined(self.merged.astype(np.int32))
        return Held(nodes, wanted.strips, rows, (singles[0], singles[1]), found.shown)

    def _are_known(self, *pairs: Pair) -> bool:
        """Whether the thresholds lie at edges of the last table or on the strips held."""
        assert self._held is not None
        sides = zip(
            (self.tables[-1].s, self.tables[-1].q), self._held.strips, zip(*pairs, strict=True), strict=True
        )
        for side, strip, scores in sides:
            cells = np.searchsorted(-side.edges, -np.array(scores))
            if not (strip[cells] | (side.low[cells] == scores)).all():
                return False
        return True

    def _kinds(self, pair: Pair, other: Pair) -> IntArray:
        """Rows per stratum by the flags of two pairs whose thresholds lie at edges or on the strips held."""
        held = self._held
        kinds = np.zeros((len(self.sizes), 16), dtype=np.int64)
        of_s, of_q = (  # -1: on a strip
            np.where(
                held.strips[number] if held else False,
                -1,
                2 * (side.low >= pair[number]) + (side.low >= other[number]),
            )
            for number, side in enumerate((self.tables[-1].s, self.tables[-1].q))
        )
        for kind_s in range(4):
            rows = self.tables[-1].table.counts[of_s == kind_s].sum(0, dtype=np.int64)
            for kind_q in range(4):
                number = 8 * (kind_s >> 1) + 4 * (kind_q >> 1) + 2 * (kind_s & 1) + (kind_q & 1)
                kinds[:, number] += rows[of_q == kind_q].sum(0)
        if held is not None:
            kinds += at_pair(0, *held.rows, len(self.sizes), pair, other).kinds
            for number, (one, far) in enumerate(zip(held.singles, (of_q, of_s), strict=True)):
                own = 2 * (one.score >= pair[number]) + (one.score >= other[number])
                s, q = (own, far[one.cell]) if number == 0 else (far[one.cell], own)
                kind = 8 * (s >> 1) + 4 * (q >> 1) + 2 * (s & 1) + (q & 1) + 16 * one.code.astype(np.int64)
                kinds += np.bincount(kind, minlength=kinds.size).reshape(kinds.shape)
        if not self.has_singles:
            return kinds
        # Strata of a single row stand apart again: each is of one kind.
        apart = np.zeros((len(self.raw_sizes), 16), dtype=np.int64)
        several = self.raw_sizes > 1
        apart[several] = kinds[:-1]
        apart[~several] = np.repeat(np.eye(16, dtype=np.int64), kinds[-1], axis=0)
        return apart


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
