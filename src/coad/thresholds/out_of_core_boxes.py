"""Cells of scores, and boxes of pairs of them, that may still hold the best pair of thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Cells:
    """Some cells of one input, falling: scores in [low, high), how many rows, and the highest of them."""

    high: FloatArray
    low: FloatArray
    rows: IntArray
    top: FloatArray

    def place(self, score: FloatArray) -> IntArray:
        """The cell of each score, or -1."""
        cell = len(self.low) - np.searchsorted(self.low[::-1], score, side="right")
        inside = cell < len(self.low)
        inside[inside] = score[inside] < self.high[cell[inside]]
        return np.where(inside, cell, -1)

    def ends(self) -> FloatArray:
        """Every edge of the cells, falling, without infinity."""
        edges = np.unique(np.concatenate([self.high, self.low]))[::-1]
        finite: FloatArray = edges[np.isfinite(edges)]
        return finite

    def cut(self, sample: FloatArray, parts: int) -> FloatArray:
        """The edges of finer cells, falling: quantiles of the sample, and the highest score of each cell."""
        cell = self.place(sample)  # the sample falls, so the numbers of the cells rise
        starts = np.searchsorted(cell[cell >= 0], np.arange(len(self.low) + 1))
        inside = sample[cell >= 0]
        edges = [self.ends(), self.top]
        for number in np.flatnonzero(self.top > self.low):
            values = inside[starts[number] : starts[number + 1]]
            if len(values):
                edges.append(values[np.linspace(0, len(values) - 1, max(parts - 1, 1)).astype(np.int64)])
        return np.unique(np.concatenate(edges))[::-1]

    def take(self, which: IntArray) -> Cells:
        return Cells(self.high[which], self.low[which], self.rows[which], self.top[which])


@dataclass(frozen=True)
class Task:
    """Boxes that may hold a better pair: pairs of cells of s and q."""

    s: Cells
    q: Cells
    boxes: IntArray
    bounds: FloatArray

    @classmethod
    def of(cls, s: Cells, q: Cells, boxes: IntArray, bounds: FloatArray) -> Task:
        """Only the cells that have a box are kept."""
        return cls(s, q, boxes, bounds)._compact()

    def _compact(self) -> Task:
        used_s, boxes_s = np.unique(self.boxes[:, 0], return_inverse=True)
        used_q, boxes_q = np.unique(self.boxes[:, 1], return_inverse=True)
        boxes = np.column_stack([boxes_s, boxes_q])
        return Task(self.s.take(used_s), self.q.take(used_q), boxes, self.bounds)

    @property
    def n_rows(self) -> int:
        """Rows on the strips, at most."""
        return int(self.s.rows.sum() + self.q.rows.sum())

    def still_open(self, best: FloatArray) -> Task:
        """Without the boxes that cannot beat the best pair any more."""
        value, joint = best[0], best[1]
        bound = self.bounds
        return self._chosen((bound[:, 0] > value) | ((bound[:, 0] == value) & (bound[:, 1] > joint)))

    def split(self, most_cells: int, most_boxes: int) -> tuple[Task, Task]:
        """The most promising boxes, on at most so many cells of each input; and the rest."""
        order = np.lexsort((-self.bounds[:, 1], -self.bounds[:, 0]))
        fits = np.arange(len(order)) < most_boxes
        for side in (0, 1):
            first = np.unique(self.boxes[order, side], return_index=True)[1]
            new = np.zeros(len(order), dtype=np.int64)
            new[first] = 1
            fits &= np.cumsum(new) <= most_cells
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[fits]] = True
        return self._chosen(chosen), self._chosen(~chosen)

    def _chosen(self, which: BoolArray) -> Task:
        if which.all():
            return self
        return Task(self.s, self.q, self.boxes[which], self.bounds[which])._compact()
