"""Joint counts on a fixed grid of thresholds: what shuffled, shifted and resampled searches run on."""

from __future__ import annotations

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.metric import chance_of, small_sample_chance
from coad.core.search import Optimum, PairSearch
from coad.core.search_kernels import grid_edges


def grid_steps(strata: int) -> int:
    """How many thresholds an input has on the grid: fewer where there are many strata to hold."""
    return 64 if strata <= 4 else 32 if strata <= 50 else 16


class ThresholdGrid:
    """The joint counts of two sorted scores on a fixed grid of thresholds, per stratum."""

    def __init__(self, search: PairSearch, correlation: float = 0.0) -> None:
        strata, code = len(search.sizes), search.code
        steps = grid_steps(strata)
        self.search = search
        self.n = search.n
        self.correlation = correlation  # of the background
        self.corrected = len(search.sizes) > 1 or search.has_singles
        # The thresholds of the grid, as numbers of groups.
        edges_s = self.groups_s = grid_edges(0, len(search.s.ends) - 1, steps)[1:]
        edges_q = self.groups_q = grid_edges(0, len(search.q.ends) - 1, steps)[1:]
        self.shape = (len(edges_s), len(edges_q))
        cell_s = np.searchsorted(edges_s, search.s.of_row)  # the last cell: flagged at no node
        cell_q = np.searchsorted(edges_q, search.q.of_row)
        self._rows, self._columns = len(edges_s) + 1, len(edges_q) + 1
        self._flat_s, self._cell_q = cell_s * self._columns, cell_q
        if code is not None:
            self._flat_s += code * (self._rows * self._columns)
        self.cells = self._counts(self._flat_s, cell_q)
        self.sizes = search.sizes[: len(self.cells)].astype(float)
        # Strata of a single row have nothing to shuffle: they add the same joint rows always.
        single = np.zeros(self.n, dtype=bool) if not search.has_singles else code == strata - 1
        flat = cell_s[single] * self._columns + cell_q[single]
        fixed = np.bincount(flat, minlength=self._rows * self._columns)
        self.fixed_joint = self.joint_at_nodes(fixed.reshape(self._rows, self._columns))
        self.flagged_s = self.cells.sum(2).cumsum(1)[:, :-1].astype(float)
        self.flagged_q = self.cells.sum(1).cumsum(1)[:, :-1].astype(float)
        self.expected = np.einsum("cp,ct->pt", self.flagged_s / self.sizes[:, None], self.flagged_q)

    def shuffled_rows(self, rng: np.random.Generator) -> IntArray:
        """The counts after the pairing of the rows is shuffled within each stratum."""
        code = self.search.code
        if code is None:
            return self._counts(self._flat_s, rng.permutation(self._cell_q))
        by_code = np.argsort(code, kind="stable")
        shuffled = np.lexsort((rng.random(self.n), code))
        return self._counts(self._flat_s[by_code], self._cell_q[shuffled])

    def paired(self, rows_s: IntArray, rows_q: IntArray) -> IntArray:
        """The counts if row ``rows_s[i]`` of s met row ``rows_q[i]`` of q, both of one stratum."""
        return self._counts(self._flat_s[rows_s], self._cell_q[rows_q])

    def shifted(self, rng: np.random.Generator) -> IntArray:
        """The counts after one input is moved by a random time, cyclically within each stratum."""
        return self.paired(*self.shifted_pairs(rng))

    def shifted_pairs(self, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """The rows of s and of q that meet after such a move."""
        code, sizes = self.search.code, self.search.sizes
        if code is None:
            rows = np.arange(self.n)
            return rows, np.roll(rows, int(rng.integers(1, self.n)))
        order = np.argsort(code, kind="stable")
        start = (np.cumsum(sizes) - sizes)[code[order]]
        lag = rng.integers(0, sizes)[code[order]]
        return order, order[start + (np.arange(self.n) - start + lag) % sizes[code[order]]]

    def rows_by_flags(self, best: Optimum, richest: Optimum) -> IntArray:
        """Rows per stratum by the flags of two pairs of thresholds: 8·s + 4·q of one, 2·s + q of the other."""
        search = self.search
        kind = np.zeros(self.n, dtype=np.int64) if search.code is None else 16 * search.code
        for pair, weight in ((best, 4), (richest, 1)):
            kind += 2 * weight * (search.s.of_row <= pair.groups_s)
            kind += weight * (search.q.of_row <= pair.groups_q)
        strata = len(search.sizes)
        return np.bincount(kind, minlength=16 * strata).reshape(strata, 16)

    def _counts(self, flat_s: IntArray, cell_q: IntArray) -> IntArray:
        """Rows per stratum and cell, strata of a single row left out."""
        strata = len(self.search.sizes)
        cells = np.bincount(flat_s + cell_q, minlength=strata * self._rows * self._columns)
        return cells.reshape(strata, self._rows, self._columns)[: strata - self.search.has_singles]

    def joint_at_nodes(self, cells: FloatArray | IntArray) -> FloatArray:
        """Joint rows at every node from counts per cell (last two axes)."""
        return cells.cumsum(-2).cumsum(-1)[..., :-1, :-1].astype(float)

    def totals(self, cells: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
        """Joint and chance rows at every node, summed over strata, for counts of any margins.

        A stratum whose counts do not sum to its size (a resample) is scaled to it.
        """
        rows = cells.sum((-1, -2))
        scale = np.where(rows > 0, self.sizes / np.maximum(rows, 1), 0.0)[..., None, None]
        a = cells.sum(-1).cumsum(-1)[..., :-1, None] * scale
        b = cells.sum(-2).cumsum(-1)[..., None, :-1] * scale
        joint = self.joint_at_nodes(cells) * scale
        chance = self.chance(joint, self.sizes[:, None, None], a, b)
        return joint.sum(-3) + self.fixed_joint, chance.sum(-3) + self.fixed_joint

    def chance(self, joint: FloatArray, n: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
        """D in rows."""
        chance: FloatArray = chance_of(n, a, b, joint, correlation=self.correlation)
        return small_sample_chance(chance, joint, n) if self.corrected else chance

    def evidence(self, joint: FloatArray, expected: FloatArray | None = None) -> FloatArray:
        """The largest evidence for joint rows beyond those expected; the last two axes are the grid."""
        if min(self.shape) == 0:
            return np.zeros(joint.shape[:-2])
        expected = np.maximum(self.expected if expected is None else expected, 1e-300)
        ratio = np.maximum(joint / expected, 1.0)
        gain = np.where(joint > expected, joint * np.log(ratio) - (joint - expected), 0.0)
        largest: FloatArray = gain.max(axis=(-2, -1))
        return largest
