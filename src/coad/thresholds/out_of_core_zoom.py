"""Boxes cut into smaller ones, all in one pass over the rows.

The cells of a task get finer edges. For a box, the joint rows at a node inside it are
those at its corner, those on its strip of s beside the corner, those on its strip of q,
and those inside. The first three come from two tables that hold for all boxes, *fine
edges of s × ends of the cells of q* and the other way round; only the last is counted
box by box. So few boxes on many strips, the usual case, are cut finely.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.search import _bound, _evaluate
from coad.thresholds.out_of_core_boxes import Cells, Task
from coad.thresholds.out_of_core_median import place
from coad.thresholds.out_of_core_rows import Code

_MOST_PARTS = 64


def parts_of(task: Task, room: int) -> int:
    """Into how many parts a side each box can be cut within so many counts."""
    strips = 2 * len(task.s.low) * len(task.q.low)
    return max(2, min(_MOST_PARTS, room // strips, math.isqrt(room // len(task.boxes))))


class Zoom:
    """The rows of a task's boxes, counted on finer edges (which fall, and hold the ends of all cells)."""

    def __init__(self, task: Task, edges_s: FloatArray, edges_q: FloatArray, strata: int) -> None:
        self.task = task
        self.s, self.q = _Side(task.s, edges_s, strata), _Side(task.q, edges_q, strata)
        self.inner = np.zeros((len(task.boxes), self.s.parts + 1, self.q.parts + 1, strata), np.int32)
        self.beside_s = np.zeros((len(self.s.edges), len(self.q.nodes), strata), np.int32)
        self.beside_q = np.zeros((len(self.s.nodes), len(self.q.edges), strata), np.int32)
        self._box = np.full((len(task.s.low), len(task.q.low)), -1, np.int32)
        self._box[task.boxes[:, 0], task.boxes[:, 1]] = np.arange(len(task.boxes))

    def add(self, s: FloatArray, q: FloatArray, stratum: Code) -> None:
        """Count a batch of rows."""
        counts = self._box, self.inner, self.beside_s, self.beside_q
        _count(s, q, stratum, self.s.arrays, self.q.arrays, *counts)

    def sift(
        self, rule: tuple[IntArray, IntArray, bool, float, float], best: FloatArray
    ) -> tuple[tuple[float, float] | None, Task]:
        """Note the best node; give its thresholds if it is the best so far, and the boxes left."""
        for table in (self.beside_s, self.beside_q):
            np.cumsum(table, axis=0, out=table)
            np.cumsum(table, axis=1, out=table)
        for rows in (self.s.rows, self.q.rows):
            np.cumsum(rows, axis=0, out=rows)
        np.cumsum(self.inner, axis=1, out=self.inner)
        np.cumsum(self.inner, axis=2, out=self.inner)
        before = best.copy()
        boxes, bounds = _sift_parts(
            self.task.boxes,
            self.inner,
            self.beside_s,
            self.beside_q,
            self.s.table,
            self.q.table,
            self.s.rows,
            self.q.rows,
            self.s.tops,
            self.q.tops,
            self.s.edges,
            self.q.edges,
            *rule,
            best,
        )
        pair = None
        if not np.array_equal(before, best):
            pair = float(self.s.edges[int(best[2])]), float(self.q.edges[int(best[3])])
        best[2:] = 0
        return pair, Task.of(self.s.cells(), self.q.cells(), boxes, bounds)


class _Side:
    """One input's fine edges, from infinity down; ``nodes`` are those that end a cell of the task."""

    def __init__(self, cells: Cells, edges: FloatArray, strata: int) -> None:
        self.edges: FloatArray = np.append(np.inf, edges)
        first = np.searchsorted(-self.edges, -cells.high)
        last = np.searchsorted(-self.edges, -cells.low)
        self.nodes: IntArray = np.unique(np.concatenate([[0], first, last]))
        self.parts = int((last - first).max())
        self.owner: IntArray = np.full(len(self.edges) + 1, -1, np.int32)
        for number, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            self.owner[a + 1 : b + 1] = number
        # Of each cell: its first edge, the number of that edge among the nodes, and its parts.
        self.table: IntArray = np.column_stack([first, np.searchsorted(self.nodes, first), last - first])
        self.node_of: IntArray = np.searchsorted(self.nodes, np.arange(len(self.edges) + 1)).astype(np.int32)
        self.rows: IntArray = np.zeros((len(self.edges), strata), np.int64)
        self.tops: FloatArray = np.full(len(self.edges), -np.inf)
        self.first: IntArray = first.astype(np.int32)

    @property
    def arrays(self) -> tuple[FloatArray | IntArray, ...]:
        return self.edges, self.owner, self.first, self.node_of, self.rows, self.tops

    def cells(self) -> Cells:
        """The fine cells, once the rows are summed up."""
        return Cells(self.edges[:-1], self.edges[1:], np.diff(self.rows.sum(1)), self.tops[1:])


@numba.njit(cache=True)
def _count(s, q, stratum, side_s, side_q, box, inner, beside_s, beside_q):  # type: ignore[no-untyped-def]
    edges_s, owner_s, first_s, node_of_s, rows_s, tops_s = side_s
    edges_q, owner_q, first_q, node_of_q, rows_q, tops_q = side_q
    nodes_s, nodes_q = beside_q.shape[0], beside_s.shape[1]
    for row in range(len(s)):
        p, t, c = place(edges_s, s[row]), place(edges_q, q[row]), stratum[row]
        in_s, in_q = p < len(edges_s), t < len(edges_q)
        if in_s:
            rows_s[p, c] += 1
            tops_s[p] = max(tops_s[p], s[row])
        if in_q:
            rows_q[t, c] += 1
            tops_q[t] = max(tops_q[t], q[row])
        if in_s and in_q:
            if node_of_q[t] < nodes_q:
                beside_s[p, node_of_q[t], c] += 1
            if node_of_s[p] < nodes_s:
                beside_q[node_of_s[p], t, c] += 1
            cell_s, cell_q = owner_s[p], owner_q[t]
            if cell_s >= 0 and cell_q >= 0:
                number = box[cell_s, cell_q]
                if number >= 0:
                    inner[number, p - first_s[cell_s], t - first_q[cell_q], c] += 1


@numba.njit(cache=True)
def _fill(part, part_s, part_q, box, inner, beside_s, beside_q, cell_s, cell_q, rows_s, rows_q):  # type: ignore[no-untyped-def]
    """Joint and flagged rows at the nodes of one box."""
    for a in range(cell_s[2] + 1):
        part_s[a] = rows_s[cell_s[0] + a]
        for b in range(cell_q[2] + 1):
            for c in range(part.shape[2]):
                part[a, b, c] = (
                    beside_s[cell_s[0] + a, cell_q[1], c]
                    + beside_q[cell_s[1], cell_q[0] + b, c]
                    - beside_s[cell_s[0], cell_q[1], c]
                    + inner[box, a, b, c]
                )
    for b in range(cell_q[2] + 1):
        part_q[b] = rows_q[cell_q[0] + b]


@numba.njit(cache=True, error_model="numpy")
def _sift_parts(  # type: ignore[no-untyped-def]
    boxes,
    inner,
    beside_s,
    beside_q,
    table_s,
    table_q,
    rows_s,
    rows_q,
    tops_s,
    tops_q,
    edges_s,
    edges_q,
    sizes,
    kinds,
    naive,
    u,
    k,
    best,
):
    """Like the kernel's ``_sift``, for the parts of boxes; twice over them, so that none is kept in vain."""
    strata = len(sizes)
    part = np.zeros((inner.shape[1], inner.shape[2], strata), np.int64)
    part_s = np.zeros((inner.shape[1], strata), np.int64)
    part_q = np.zeros((inner.shape[2], strata), np.int64)
    left = np.empty((1024, 2), np.int64)
    bounds = np.empty((1024, 2), np.float64)
    found = 0
    for turn in range(2):
        for number in range(len(boxes)):
            cell_s, cell_q = table_s[boxes[number, 0]], table_q[boxes[number, 1]]
            _fill(part, part_s, part_q, number, inner, beside_s, beside_q, cell_s, cell_q, rows_s, rows_q)
            if turn == 0:
                for a in range(1, cell_s[2] + 1):
                    for b in range(1, cell_q[2] + 1):
                        value, joint = _evaluate(part, a, b, part_s, part_q, sizes, kinds, naive, u, k)
                        if value > best[0] or (value == best[0] and joint > best[1]):
                            best[0], best[1] = value, joint
                            best[2], best[3] = cell_s[0] + a, cell_q[0] + b
                continue
            for a in range(cell_s[2]):
                for b in range(cell_q[2]):
                    p, t = cell_s[0] + a, cell_q[0] + b
                    if tops_s[p + 1] == edges_s[p + 1] and tops_q[t + 1] == edges_q[t + 1]:
                        continue  # its only pair is a node
                    bound, joint = _bound(part, a, b, part_s, part_q, sizes, kinds, naive, u, k)
                    if bound > best[0] or (bound == best[0] and joint > best[1]):
                        if found == len(left):
                            left = np.concatenate((left, np.empty_like(left)))
                            bounds = np.concatenate((bounds, np.empty_like(bounds)))
                        left[found, 0], left[found, 1] = p, t
                        bounds[found, 0], bounds[found, 1] = bound, joint
                        found += 1
    return left[:found].copy(), bounds[:found].copy()
