"""The lowest threshold of each input that flags at most half of the rows, exactly, for rows read in passes."""

from __future__ import annotations

import math

import numba
import numpy as np

from coad._typing import FloatArray, IntArray
from coad.thresholds.out_of_core_rows import RowStream


def lowest_thresholds(rows: RowStream, max_rows: int) -> tuple[float | None, float | None]:
    """For each input the lowest score that at most half of the rows reach; None where there is none."""
    hunts = [
        _Median(rows.samples[side], float(rows.tops[side][0]), -math.inf, rows.n // 2, rows.n)
        for side in (0, 1)
    ]
    while not all(hunt.settled for hunt in hunts):
        if sum(hunt.held for hunt in hunts if not hunt.settled) <= max_rows:
            kept: tuple[list[FloatArray], list[FloatArray]] = ([], [])
            for s, q, _ in rows:
                for hunt, score, parts in zip(hunts, (s, q), kept, strict=True):
                    parts.append(score[(score >= hunt.low) & (score < hunt.high)])
            for hunt, parts in zip(hunts, kept, strict=True):
                hunt.choose(np.concatenate(parts))
            break
        edges = [hunt.edges() for hunt in hunts]
        counts = [np.zeros(len(one), np.int64) for one in edges]
        tops = [np.full(len(one), -np.inf) for one in edges]
        for s, q, _ in rows:
            for side, score in enumerate((s, q)):
                _count_side(score, edges[side], counts[side], tops[side])
        for side, hunt in enumerate(hunts):
            if not hunt.settled:
                hunt.narrow(edges[side], np.cumsum(counts[side]), tops[side])
    found = [hunt.high if math.isfinite(hunt.high) else None for hunt in hunts]
    return found[0], found[1]


class _Median:
    """The hunt for the lowest threshold of an input that flags at most half of the rows."""

    def __init__(self, sample: FloatArray, top: float, bottom: float, limit: int, n: int) -> None:
        self.limit, self.n = limit, n
        self.high, self.low, self.top = math.inf, bottom, top
        self.above, self.below = 0, n  # rows from high, from low up
        self.sample = sample

    def edges(self) -> FloatArray:
        inside = self.sample[(self.sample > self.low) & (self.sample < self.high)]
        chosen = [np.array([self.low, self.top])]
        if len(inside):
            share = (self.limit - self.above) / (self.below - self.above)
            spread = 4 / math.sqrt(len(inside))
            places = np.clip(share + spread * np.linspace(-1, 1, 9), 0, 1) * (len(inside) - 1)
            chosen.append(inside[places.astype(np.int64)])
        if math.isfinite(self.high):
            chosen.append(np.array([self.high]))
        return np.append(np.inf, np.unique(np.concatenate(chosen))[::-1])

    def narrow(self, edges: FloatArray, rows: IntArray, tops: FloatArray) -> None:
        """Take what a pass counted: rows from each edge up, and the highest score of each cell."""
        last = int(np.flatnonzero(rows <= self.limit)[-1])
        self.high, self.above = float(edges[last]), int(rows[last])
        self.low, self.below, self.top = float(edges[last + 1]), int(rows[last + 1]), float(tops[last + 1])

    @property
    def settled(self) -> bool:
        return self.top == self.low  # nothing lies between

    @property
    def held(self) -> int:
        return self.below - self.above

    def choose(self, values: FloatArray) -> None:
        """Settle it with all scores in [low, high)."""
        scores, counts = np.unique(values, return_counts=True)
        flagged = self.above + np.cumsum(counts[::-1])[::-1]
        few = scores[flagged <= self.limit]
        self.high = float(few[0]) if len(few) else self.high
        self.top = self.low


@numba.njit(cache=True, inline="always")
def place(edges, value):  # type: ignore[no-untyped-def]
    """The first edge (from 1; they fall) that the value reaches; their number if none."""
    low, high = 1, len(edges)
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= value:
            high = middle
        else:
            low = middle + 1
    return low


@numba.njit(cache=True)
def _count_side(score, edges, rows, tops):  # type: ignore[no-untyped-def]
    for value in score:
        cell = place(edges, value)
        if cell < len(edges):
            rows[cell] += 1
            tops[cell] = max(tops[cell], value)
