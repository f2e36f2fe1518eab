"""Rows counted in cells of two scores: all that a search needs to know of most rows.

**Bound.** Take the box of threshold pairs inside a cell of s and a cell of q. Let *upper* be the
pair of edges at which its cells begin (fewest rows flagged) and *lower* the pair at which they
end. Of every pair in the box, within each stratum of n rows:

- J ≤ J(lower, lower);
- A - J, the rows that s flags and q does not, is at least its value at (upper edge of s, lower
  edge of q), for it falls when s flags less or q flags more; B - J likewise, the other way round;
- A ≥ A(upper) and B ≥ B(upper).

D = n (A - J)(B - J) / ((n - A)(n - B)) grows with each of A - J, B - J, A and B, so these four give
a D₀ ≤ D. (Where a stratum is flagged whole, D is J by definition, one of the two differences is 0
and so is D₀, or the whole stratum lies above the upper edge and D₀ = J(upper, upper) ≤ J.) The
correction max(0, D + (D - J) / (n - 1)) of small strata grows with D and falls with J, so it is
least at D₀ and J(lower, lower). Sums over strata keep both inequalities. Last,
F̂ = (J - D) / (u J + k) falls with D, and for fixed D ≥ 0 its derivative in J,
(k + u D) / (u J + k)², is not negative: **F̂ ≤ F̂(J(lower, lower), D₀)**, inside the domain
0 < J ≤ mu_s, mu_q ≤ 0.5 and outside it; :func:`_bounds` computes it. A box that
reaches below the half keeps the bound of the whole box, which is larger than need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.search_kernels import chance_rows, evaluate, grid_edges
from coad.thresholds.row_parts import Code

#: The rank of edge i of m grows with (i / m) to this power. Equal steps (1) leave wide cells where few
#: rows are flagged, geometric steps where many are, and there the largest TP, α, often lies.
_DENSITY = 3
#: Ranks around the sample's optimum that get edges of their own: its thresholds are known to a few per cent.
_AROUND = 1.25
#: Shares of the edges: tail, equal steps, around the optimum. The search for α, flat about its optimum, needs the second
#: most: with these 15 % of five million rows are left in doubt at 2,048 edges, with equal shares 24 %.
_SHARES = (0.2, 0.59, 0.2)
#: Edges where the half of the rows may lie.
_CROSSING = 12

Rule = tuple[IntArray, IntArray, bool, FloatArray, float, float]
Rows = tuple[FloatArray, FloatArray, Code]  # s, q and the stratum
Strips = tuple[BoolArray, BoolArray]  # which cells of s, and of q


@dataclass(frozen=True)
class CountTable:
    """Rows per cell of s, cell of q and stratum. Tables of different rows add up.

    Edges fall. Cell p holds the scores from edge p up to, without, edge p - 1, so tied scores are
    never split; the last edge lies at or below every score. ``range_s`` and ``range_q`` hold the
    lowest and the highest score of each cell.

    >>> edges = np.array([2.0, 0.0])
    >>> one, other = (CountTable.empty(edges, edges, strata=1) for _ in range(2))
    >>> _ = one.add(np.array([3.0, 1.0]), np.array([2.0, 2.5]), np.zeros(2, np.int32))
    >>> _ = other.add(np.array([0.5]), np.array([0.0]), np.zeros(1, np.int32))
    >>> (one + other).counts[:, :, 0].tolist()
    [[1, 0], [1, 1]]
    """

    edges_s: FloatArray
    edges_q: FloatArray
    counts: IntArray
    range_s: FloatArray
    range_q: FloatArray

    @classmethod
    def empty(cls, edges_s: FloatArray, edges_q: FloatArray, strata: int, most: int = 1 << 40) -> CountTable:
        """A table without rows, for ``most`` of them at most."""
        none = np.array([np.inf, -np.inf])
        kind = np.int32 if most < 1 << 31 else np.int64
        counts = np.zeros((len(edges_s), len(edges_q), strata), kind)
        return cls(
            edges_s, edges_q, counts, np.tile(none, (len(edges_s), 1)), np.tile(none, (len(edges_q), 1))
        )

    def add(self, s: FloatArray, q: FloatArray, stratum: Code) -> tuple[IntArray, IntArray]:
        """Count some rows, in place; the cells of s and of q in which they lie."""
        cells: tuple[IntArray, IntArray] = _count(
            s, q, stratum, self.edges_s, self.edges_q, self.counts, self.range_s, self.range_q
        )
        return cells

    def __add__(self, other: CountTable) -> CountTable:
        if not (np.array_equal(self.edges_s, other.edges_s) and np.array_equal(self.edges_q, other.edges_q)):
            raise ValueError("only tables with the same edges add up")
        joined = (
            np.column_stack([np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 1], b[:, 1])])
            for a, b in ((self.range_s, other.range_s), (self.range_q, other.range_q))
        )
        return CountTable(self.edges_s, self.edges_q, self.counts + other.counts, *joined)


class Side:
    """One input of a table: its edges, and the rows above them.

    Node p is the threshold at the lower end of cell p - 1, and node 0 flags nothing.
    """

    def __init__(self, edges: FloatArray, score_range: FloatArray, rows: IntArray, limit: int) -> None:
        self.edges, (self.low, self.top) = edges, score_range.T
        self.rows: IntArray = rows.sum(1)
        self.flagged: IntArray = np.concatenate(
            [np.zeros_like(rows[:1]), np.cumsum(rows, axis=0)]
        )  # per stratum
        self.total: IntArray = self.flagged.sum(1)
        self.limit = limit
        self.last = (
            int(np.searchsorted(self.total, limit, side="right")) - 1
        )  # the last node that may be used
        self.several: BoolArray = self.top > self.low  # cells with more than one score
        numbers = np.arange(len(edges))
        # Cells with a threshold in them; in the one that crosses the limit, all but the lowest may do.
        self.usable: BoolArray = (self.rows > 0) & (
            (numbers < self.last) | ((numbers == self.last) & self.several)
        )

    def threshold(self, node: int) -> float:
        """The score that flags what a node flags: an edge need not be a score that occurs."""
        return float(self.low[:node].min())

    def finer(self, cells: BoolArray, sample: FloatArray, steps: int) -> FloatArray:
        """New edges that cut some cells, about ``steps`` with the old ones; the other cells are merged."""
        chosen = np.flatnonzero(cells)
        edges = [self.edges[chosen], self.edges[chosen[chosen > 0] - 1], self.edges[-1:]]
        cut = chosen[self.several[chosen]]
        # Wide cells are cut into more parts.
        room = max(steps - len(chosen), len(cut))
        counts = np.maximum(2, np.ceil(room * self.rows[cut] / max(self.rows[cut].sum(), 1)).astype(np.int64))
        for low, top, parts in zip(self.low[cut], self.top[cut], counts.tolist(), strict=True):
            inside = sample[slice(*np.searchsorted(sample, [low, top], side="right"))]
            if len(inside) < parts:
                # By value; the highest score ends any search, and the middle of the floating-point
                # numbers in between ends it soon.
                middle = _from_order(sum(map(int, _in_order(np.array([low, top])))) // 2 + 1)
                even = np.linspace(low / 2, top / 2, parts)[1:-1] * 2
                inside = np.concatenate([inside, even, [middle, top]])
            else:
                inside = inside[np.linspace(0, len(inside), parts + 1)[1:-1].astype(np.int64)]
            edges.append(np.clip(inside, np.nextafter(low, top), top))
        return np.unique(np.concatenate(edges))[::-1]


class Nodes:
    """A table summed up from the top: rows flagged by both inputs, and by each, at every pair of edges."""

    def __init__(self, table: CountTable, limit: int) -> None:
        self.table = table
        rows, columns, strata = table.counts.shape
        self.joint: IntArray = np.zeros((rows + 1, columns + 1, strata), table.counts.dtype)
        np.cumsum(table.counts, axis=0, out=self.joint[1:, 1:])
        np.cumsum(self.joint, axis=1, out=self.joint)
        self.s = Side(table.edges_s, table.range_s, table.counts.sum(1), limit)
        self.q = Side(table.edges_q, table.range_q, table.counts.sum(0), limit)
        self._best: dict[tuple[Any, ...], FloatArray] = {}

    def drop_counts(self) -> None:
        """Keep the sums only."""
        self.table = replace(self.table, counts=self.table.counts[:0])

    @property
    def usable(self) -> BoolArray:
        """Boxes (cell of s, cell of q) that hold pairs of thresholds."""
        return np.outer(self.s.usable, self.q.usable)

    def best(self, rule: Rule, best: FloatArray) -> bool:
        """Note the best pair of edges in ``best`` (F̂, J, node of s, node of q), and whether it is a better one."""
        _, _, naive, lift, *weights = rule  # the strata are always those of the table
        key = naive, lift.tobytes(), *weights
        if key not in self._best:
            own = self._best[key] = np.array([-np.inf, 0.0, 0.0, 0.0])
            _best_node(self.joint, self.s.flagged, self.q.flagged, self.s.last, self.q.last, *rule, own)
        own = self._best[key]
        if (own[0], own[1]) <= (best[0], best[1]):
            return False
        best[:] = own
        return True

    def value(self, node_s: int, node_q: int, rule: Rule) -> tuple[float, float]:
        """F̂ and J at a pair of edges."""
        value, joint = evaluate(self.joint, node_s, node_q, self.s.flagged, self.q.flagged, *rule)
        return float(value), float(joint)

    def bounds(self, boxes: BoolArray, rule: Rule, best: FloatArray) -> FloatArray:
        """The bound of each of the boxes that may hold a better pair than ``best``; -inf for the others."""
        bounds = np.full(boxes.shape, -np.inf)
        several = self.s.several, self.q.several
        _bounds(self.joint, self.s.flagged, self.q.flagged, boxes, *several, *rule, best, bounds)
        return bounds

    def finer_edges(
        self, boxes: BoolArray, samples: Sequence[FloatArray], steps: int
    ) -> tuple[FloatArray, FloatArray]:
        """At most ``steps`` edges of s and of q for a table that cuts these boxes, but each cell at least in two."""
        in_s, in_q = np.asarray(boxes.any(1)), np.asarray(boxes.any(0))
        return self.s.finer(in_s, samples[0], steps), self.q.finer(in_q, samples[1], steps)

    def strips(self, boxes: BoolArray) -> Strips:
        """The cells of s and of q whose rows must be known one by one to search these boxes.

        A cell of a single score holds one threshold, an edge, at which the table has the counts.
        """
        return boxes.any(1) & self.s.several, boxes.any(0) & self.q.several


def first_edges(sample: FloatArray, steps: int, near: Sequence[float] = ()) -> FloatArray:
    """At most ``steps`` edges of an input, falling; the last lies below every score.

    A fifth lies dense in the tail, most in equal steps down to the half of the rows, a fifth around the scores
    ``near``, where the optimum of a sample lies: what is undecided between two edges is little there. A score with few
    values has them all as edges.

    Parameters
    ----------
    sample
        Scores of some rows, rising.
    steps
        Edges at most.
    near
        Scores close to the thresholds that are looked for.

    Returns
    -------
    The edges.

    >>> first_edges(np.arange(5.0), 8)
    array([  4.,   3.,   2.,   1.,   0., -inf])
    """
    known = np.unique(sample)[::-1]
    if len(known) >= steps:
        half = len(sample) // 2
        tail, wide, close = (int(share * steps) for share in _SHARES)
        # Surely below the half of all rows (four standard errors), or one cell would hold all those beneath.
        below = half + 2 * int(np.sqrt(len(sample))) + 1
        ranks = [half * np.linspace(0, 1, tail) ** _DENSITY, half * np.linspace(0, 1, wide)]
        ranks.append(np.linspace(half, below, _CROSSING))
        for score in near:
            place = len(sample) - np.searchsorted(sample, score)
            ranks.append(place * np.linspace(1 / _AROUND, _AROUND, close // len(near)))
        rank = np.clip(np.concatenate(ranks).astype(np.int64), 1, min(below, len(sample)))
        known = np.unique(sample[-rank])[::-1]
    return np.append(known, -np.inf)


def grid_nodes(edges: FloatArray, sample: FloatArray, steps: int) -> IntArray:
    """At most ``steps`` nodes of an input at edges that flag at most half of the sample, dense where few are flagged.

    >>> grid_nodes(np.array([9.0, 8.0, 5.0, -np.inf]), np.arange(10.0), 16)
    array([1, 2, 3])
    """
    total = len(sample) - np.searchsorted(sample, edges)
    allowed = np.flatnonzero(total <= len(sample) // 2)
    if len(allowed) > steps:
        ranks = grid_edges(0, int(total[allowed[-1]]), steps)[1:]
        allowed = np.unique(np.maximum(np.searchsorted(total, ranks, side="right") - 1, 0))
    return allowed + 1


def _in_order(value: FloatArray) -> IntArray:
    """Floating-point numbers as whole numbers of the same order."""
    bits = value.view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _from_order(number: int) -> float:
    bits = np.array([number if number >= 0 else np.iinfo(np.int64).min - number], np.int64)
    return float(bits.view(np.float64)[0])


@numba.njit(cache=True, inline="always")
def place(edges, value):  # type: ignore[no-untyped-def]
    """The cell of a score: the first edge that it reaches (edges fall)."""
    low, high = 0, len(edges) - 1
    if high > 0 and value < edges[high - 1]:  # the lower half of the rows
        return high
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= value:
            high = middle
        else:
            low = middle + 1
    return low


@numba.njit(cache=True, nogil=True)
def places(edges, values):  # type: ignore[no-untyped-def]
    """The cells of scores."""
    cells = np.empty(len(values), np.int32)
    for row in range(len(values)):
        cells[row] = place(edges, values[row])
    return cells


@numba.njit(cache=True, nogil=True)
def _count(s, q, stratum, edges_s, edges_q, counts, range_s, range_q):  # type: ignore[no-untyped-def]
    cell_s, cell_q = np.empty(len(s), np.int32), np.empty(len(s), np.int32)
    for row in range(len(s)):
        p, t = place(edges_s, s[row]), place(edges_q, q[row])
        cell_s[row], cell_q[row] = p, t
        counts[p, t, stratum[row]] += 1
        range_s[p, 0], range_s[p, 1] = min(range_s[p, 0], s[row]), max(range_s[p, 1], s[row])
        range_q[t, 0], range_q[t, 1] = min(range_q[t, 0], q[row]), max(range_q[t, 1], q[row])
    return cell_s, cell_q


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _best_node(joint, flagged_s, flagged_q, last_s, last_q, sizes, kinds, naive, lift, u, k, best):  # type: ignore[no-untyped-def]
    for p in range(1, last_s + 1):
        for t in range(1, last_q + 1):
            value, rows = evaluate(joint, p, t, flagged_s, flagged_q, sizes, kinds, naive, lift, u, k)
            if value > best[0] or (value == best[0] and rows > best[1]):
                best[0], best[1], best[2], best[3] = value, rows, p, t


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _bounds(  # type: ignore[no-untyped-def]
    joint, flagged_s, flagged_q, boxes, several_s, several_q, sizes, kinds, naive, lift, u, k, best, bounds
):
    # In a cell of one score the only threshold is the lower edge: then that is the upper edge too.
    for p in range(boxes.shape[0]):
        p0 = p if several_s[p] else p + 1
        for t in range(boxes.shape[1]):
            t0 = t if several_q[t] else t + 1
            if not boxes[p, t] or (p0 > p and t0 > t):  # its only pair is a node
                continue
            rows = chance = 0.0
            for c in range(len(sizes)):
                high = float(joint[p + 1, t + 1, c])
                a, b = float(flagged_s[p0, c]), float(flagged_q[t0, c])
                only_s, only_q = a - joint[p0, t + 1, c], b - joint[p + 1, t0, c]
                low = float(joint[p0, t0, c])
                rows += high
                chance += chance_rows(low, high, only_s, only_q, a, b, float(sizes[c]), kinds[c], naive, lift)
            bound = (rows - chance) / (u * rows + k) if rows > 0 else -np.inf
            if bound > best[0] or (bound == best[0] and rows > best[1]):
                bounds[p, t] = bound
