"""The exact maximum of F̂β over all pairs of thresholds, for rows that do not fit in memory.

It is the branch and bound of :mod:`coad.core.search`, with the same bound, on a grid of
scores instead of numbers of groups. A pass over the rows counts them on a grid of at
most 1024 × 1024 cells, whose edges are scores that occur (from a sample; which ones
does not matter for the answer, only for the time). Boxes of the grid that cannot hold
a better pair are dropped. While the rows on the strips of what is left are too many to
hold, each box is cut into smaller ones, which another pass counts; once the rows fit,
they are collected, and :func:`coad.core.search._refine` cuts the boxes down to single pairs.

A cell holds the rows from its lower edge up to, without, its upper edge, so rows with
tied scores are never split. Every cell with more than one score gets a new edge in a
finer grid (its highest score, at least), so the search ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.search import (
    Optimum,
    _cumulate,
    _edges,
    _refine,
    _sift,
    merge_singles,
    search_rule,
    stratum_kinds,
)
from coad.thresholds.out_of_core_boxes import Cells, Task
from coad.thresholds.out_of_core_median import lowest_thresholds, place
from coad.thresholds.out_of_core_rows import Code, RowStream, Sample
from coad.thresholds.out_of_core_zoom import Zoom, parts_of

_GRID_CELLS = 1 << 20  # cells of a grid, over all strata
_ROOM = 1 << 24  # counts of a finer grid, over all strata
_NO_GROUP = np.iinfo(np.int32).max


@dataclass(frozen=True)
class ScoredOptimum(Optimum):
    """The best pair, by its scores."""

    threshold_s: float = math.inf
    threshold_q: float = math.inf


class StreamSearch:
    """Like :class:`coad.core.search.PairSearch`, with at most about ``max_rows`` rows held at once."""

    def __init__(self, rows: RowStream, *, max_rows: int, rng: np.random.Generator) -> None:
        self.rows, self.n, self.max_rows, self._rng = rows, rows.n, max_rows, rng
        self.merged, self.sizes, self.has_singles = merge_singles(rows.sizes)
        self.steps = max(16, min(math.isqrt(_GRID_CELLS // len(self.sizes)), math.isqrt(max_rows)))
        self.room = max(64, min(_ROOM, 64 * max_rows) // len(self.sizes))
        self.lowest = lowest_thresholds(rows, max_rows)
        self._first: _Grid | None = None

    def quantiles(self, side: int, steps: int) -> FloatArray:
        """About ``steps`` thresholds of an input that exist, falling, the last one the lowest allowed."""
        lowest = self.lowest[side]
        if lowest is None:
            return np.empty(0)
        top, sample = self.rows.tops[side], self.rows.samples[side]
        ranks = _edges(0, self.n // 2, steps)[1:]
        few = ranks[ranks <= len(top)]
        many = np.round(ranks[len(few) :] * (len(sample) / self.n)).astype(np.int64)
        chosen = np.concatenate([top[few - 1], sample[np.clip(many, 1, len(sample)) - 1], [lowest]])
        return np.unique(chosen[chosen >= lowest])[::-1]

    def maximise(self, *, beta: float, alpha: float) -> ScoredOptimum:
        """The pair with the highest F̂β, exactly; of those, one with the most joint rows."""
        if self.lowest[0] is None or self.lowest[1] is None:
            return ScoredOptimum(0, 0, 0, -math.inf)
        kinds = stratum_kinds(self.sizes, self.has_singles)
        hunt = _Hunt(search_rule(self.sizes, kinds, beta=beta, alpha=alpha))
        if self._first is None:
            self._first = self._counted(self.quantiles(0, self.steps), self.quantiles(1, self.steps))
        todo = [Task.of(*self._first.cells, *hunt.sift(self._first))]
        most = max(2, math.isqrt(self.room // 8))
        while todo:
            task = todo.pop().still_open(hunt.best)
            if len(task.boxes) == 0:
                continue
            task, rest = task.split(most, max(1, self.room // 64))
            if len(rest.boxes):
                todo.append(rest)
            if task.n_rows <= self.max_rows:
                self._finish(task, hunt)
            else:
                todo.append(self._finer(task, hunt))
        joint, (threshold_s, threshold_q) = int(hunt.best[1]), hunt.pair
        return ScoredOptimum(0, 0, joint, float(hunt.best[0]), threshold_s, threshold_q)

    def _counted(
        self,
        edges_s: FloatArray,
        edges_q: FloatArray,
        also: Callable[[FloatArray, FloatArray, Code], None] | None = None,
    ) -> _Grid:
        """A pass over the rows; ``also`` sees each batch with its strata."""
        grid = _Grid.empty(edges_s, edges_q, len(self.sizes))
        merged = self.merged.astype(np.int32)
        for s, q, code in self.rows:
            stratum = merged[code]
            _count(s, q, stratum, *grid.arrays)
            if also is not None:
                also(s, q, stratum)
        return grid.cumulated()

    def _finer(self, task: Task, hunt: _Hunt) -> Task:
        """The parts of the task's boxes that may hold a better pair, after a pass that counts them."""
        parts = parts_of(task, self.room)
        samples = self.rows.samples
        if any(
            np.count_nonzero(cells.place(sample) >= 0) < parts * len(cells.low)
            for cells, sample in zip((task.s, task.q), samples, strict=True)
        ):
            samples = self._sampled(task)
        zoom = Zoom(task, task.s.cut(samples[0], parts), task.q.cut(samples[1], parts), len(self.sizes))
        merged = self.merged.astype(np.int32)
        for s, q, code in self.rows:
            zoom.add(s, q, merged[code])
        pair, finer = zoom.sift(hunt.rule, hunt.best)
        hunt.pair = pair or hunt.pair
        return finer

    def _sampled(self, task: Task) -> tuple[FloatArray, FloatArray]:
        """A pass to sample the scores on the task's strips."""
        samples = (Sample(self.max_rows, self._rng), Sample(self.max_rows, self._rng))
        for s, q, _ in self.rows:
            for cells, score, sample in ((task.s, s, samples[0]), (task.q, q, samples[1])):
                sample.add(score[cells.place(score) >= 0])
        return samples[0].values(), samples[1].values()

    def _finish(self, task: Task, hunt: _Hunt) -> None:
        """Collect the rows on the task's strips and cut its boxes down to single pairs."""
        parts: list[tuple[FloatArray, FloatArray, Code]] = []

        def keep(s: FloatArray, q: FloatArray, stratum: Code) -> None:
            on_strip = (task.s.place(s) >= 0) | (task.q.place(q) >= 0)
            parts.append((s[on_strip], q[on_strip], stratum[on_strip]))

        grid = self._counted(task.s.ends(), task.q.ends(), keep)
        s, q, stratum = (np.concatenate([part[i] for part in parts]) for i in range(3))
        side_s = _Listed.of(s, task.s, grid.edges_s)
        side_q = _Listed.of(q, task.q, grid.edges_q)
        boxes = np.ascontiguousarray(
            np.column_stack(
                [
                    np.searchsorted(-grid.edges_s, -task.s.high)[task.boxes[:, 0]],
                    np.searchsorted(-grid.edges_q, -task.q.high)[task.boxes[:, 1]],
                ]
            )
        )
        order = np.lexsort((-task.bounds[:, 1], -task.bounds[:, 0]))
        before = hunt.best.copy()
        _refine(
            side_s.ends,
            side_q.ends,
            side_q.group[side_s.rows],
            side_s.group[side_q.rows],
            stratum[side_s.rows],
            stratum[side_q.rows],
            side_s.edges,
            side_q.edges,
            grid.counts,
            grid.flagged_s,
            grid.flagged_q,
            boxes[order],
            task.bounds[order],
            *hunt.rule,
            hunt.best,
        )
        if not np.array_equal(before, hunt.best):
            hunt.pair = (
                float(side_s.thresholds[int(hunt.best[2]) - 1]),
                float(side_q.thresholds[int(hunt.best[3]) - 1]),
            )
        hunt.best[2:] = 0  # numbers of groups mean something within one grid only


class _Hunt:
    """The best pair so far."""

    def __init__(self, rule: tuple[IntArray, IntArray, bool, float, float]) -> None:
        self.rule = rule
        self.best = np.array([-np.inf, 0.0, 0.0, 0.0])
        self.pair = (math.inf, math.inf)

    def sift(self, grid: _Grid) -> tuple[IntArray, FloatArray]:
        """The boxes of the grid that may hold a better pair, and their bounds."""
        # The kernel passes over boxes of a single pair: those one step wide on both sides.
        steps_s, steps_q = (
            np.append(0, np.cumsum(np.where(tops[1:] == edges[1:], 1, 2)))
            for tops, edges in ((grid.tops_s, grid.edges_s), (grid.tops_q, grid.edges_q))
        )
        before = self.best.copy()
        boxes, bounds = _sift(
            steps_s, steps_q, grid.counts, grid.flagged_s, grid.flagged_q, *self.rule, self.best
        )
        if not np.array_equal(before, self.best):
            self.pair = (
                float(grid.edges_s[np.searchsorted(steps_s, self.best[2])]),
                float(grid.edges_q[np.searchsorted(steps_q, self.best[3])]),
            )
        self.best[2:] = 0
        return boxes, bounds


@dataclass(frozen=True)
class _Grid:
    """Rows counted on a grid: J per stratum at every node, and the rows flagged at every edge.

    Edges fall from infinity; cell p reaches from edge p (without) down to edge p + 1.
    """

    edges_s: FloatArray
    edges_q: FloatArray
    counts: IntArray
    flagged_s: IntArray
    flagged_q: IntArray
    tops_s: FloatArray  # the highest score in the cell above each edge
    tops_q: FloatArray

    @classmethod
    def empty(cls, thresholds_s: FloatArray, thresholds_q: FloatArray, strata: int) -> _Grid:
        edges_s, edges_q = np.append(np.inf, thresholds_s), np.append(np.inf, thresholds_q)
        return cls(
            edges_s,
            edges_q,
            np.zeros((len(edges_s), len(edges_q), strata), np.int32),
            np.zeros((len(edges_s), strata), np.int64),
            np.zeros((len(edges_q), strata), np.int64),
            np.full(len(edges_s), -np.inf),
            np.full(len(edges_q), -np.inf),
        )

    @property
    def arrays(self) -> tuple[FloatArray | IntArray, ...]:
        return (
            self.edges_s,
            self.edges_q,
            self.counts,
            self.flagged_s,
            self.flagged_q,
            self.tops_s,
            self.tops_q,
        )

    @property
    def cells(self) -> tuple[Cells, Cells]:
        return (
            Cells(self.edges_s[:-1], self.edges_s[1:], np.diff(self.flagged_s.sum(1)), self.tops_s[1:]),
            Cells(self.edges_q[:-1], self.edges_q[1:], np.diff(self.flagged_q.sum(1)), self.tops_q[1:]),
        )

    def cumulated(self) -> _Grid:
        np.cumsum(self.flagged_s, axis=0, out=self.flagged_s)
        np.cumsum(self.flagged_q, axis=0, out=self.flagged_q)
        _cumulate(self.counts, *self.counts.shape)
        return self


@dataclass(frozen=True)
class _Listed:
    """Collected rows in the form that the kernel reads: groups, of which only those on strips list rows."""

    thresholds: FloatArray
    edges: IntArray  # groups above each edge of the grid
    group: Code
    rows: IntArray
    ends: IntArray

    @classmethod
    def of(cls, score: FloatArray, cells: Cells, edges: FloatArray) -> _Listed:
        listed = np.flatnonzero(cells.place(score) >= 0)
        thresholds = np.unique(np.concatenate([score[listed], edges[1:]]))[::-1]
        place = np.searchsorted(-thresholds, -score)
        group = np.where(place < len(thresholds), place + 1, _NO_GROUP).astype(np.int32)
        rows = listed[np.argsort(group[listed], kind="stable")]
        ends = np.cumsum(np.bincount(group[listed], minlength=len(thresholds) + 1))
        return cls(thresholds, np.searchsorted(-thresholds, -edges, side="right"), group, rows, ends)


@numba.njit(cache=True)
def _count(s, q, stratum, edges_s, edges_q, counts, rows_s, rows_q, tops_s, tops_q):  # type: ignore[no-untyped-def]
    """Add a batch of rows to the cells of a grid."""
    for row in range(len(s)):
        p, t, c = place(edges_s, s[row]), place(edges_q, q[row]), stratum[row]
        if p < len(edges_s):
            rows_s[p, c] += 1
            tops_s[p] = max(tops_s[p], s[row])
            if t < len(edges_q):
                counts[p, t, c] += 1
        if t < len(edges_q):
            rows_q[t, c] += 1
            tops_q[t] = max(tops_q[t], q[row])
