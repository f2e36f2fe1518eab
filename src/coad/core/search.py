"""The search: the exact maximum of F̂β over all pairs of thresholds.

Two sorts turn the scores into *groups*: group g of an input holds the rows with
its g-th highest distinct score, so a threshold is a number of groups and ties are
never split. ``J(i, j)`` counts the rows in the first i groups of s and the first
j groups of q.

The search is a branch and bound over boxes (i0, i1] × (j0, j1] of threshold pairs.
Write F̂β as ``(J - D) / (u·J + k)`` with J the joint rows, D the rows that chance explains,
and u and k the weights of :func:`coad.core.metric.fbeta_weights`, k times n·α.

**Bound.** For a fixed D ≥ 0 this does not fall as J grows, since its
derivative is ``(k + u·D) / (u·J + k)² ≥ 0``; in a box, J ≤ J(i1, j1). Within a
stratum of n rows with A and B flagged, ``D = n (A - J)(B - J) / ((n - A)(n - B))``.
A - J counts rows flagged by s and not by q: they only grow in number as the
threshold of s falls or that of q rises, so A - J ≥ A(i0) - J(i0, j1), and likewise
B - J ≥ B(j0) - J(i1, j0); and A ≥ A(i0), B ≥ B(j0). These four give the least D of
the box, and no pair in it exceeds the F̂ at J(i1, j1) with that D.
(D_naive = A·B / n is least at A(i0), B(j0). With a correlated background D is a function of
(A - J) / (n - B) and (B - J) / (n - A) that grows with both, see :mod:`coad.core.copula`; the
same four numbers make both least, and so D.) The correction for small strata,
``max(0, D + (D - J) / (n - 1))``, grows with D and falls with J, so it keeps the
bound; strata that prove nothing have D = J ≥ J(i0, j0).

A grid with geometric steps gives the first bounds, and finer grids are laid over the
part that survives while it shrinks; then each box is cut into at most 16 × 16 smaller
ones by reading only the rows on its two strips, until nothing is left to cut. Ties in
F̂ go to the pair with more joint rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.copula import lift_table
from coad.core.metric import fbeta_weights
from coad.core.search_kernels import (
    ALL_CHANCE,
    CORRECTED,
    PLAIN,
    grid_counts,
    grid_edges,
    group_rows,
    refine,
    surviving_boxes,
)

__all__ = ["Groups", "Optimum", "PairSearch", "merge_singles", "search_rule", "stratum_kinds"]

_GRID_CELLS = 1 << 20  # cells of a grid, over all strata
_ZOOMS = 4  # grids laid one over what the other left
_FEW_BOXES = 32  # so few that another grid is not worth it


@dataclass(frozen=True)
class Groups:
    """One input, sorted: what the kernel needs of it."""

    thresholds: FloatArray  # the g-th highest distinct score, g = 1 … (index g - 1)
    ends: IntArray  # ends[g]: how many rows the first g groups hold; ends[0] = 0
    of_row: IntArray  # the group of each row, from 1; a huge number beyond the last group
    rows: IntArray  # the rows of the groups, highest score first

    @classmethod
    def of(cls, score: FloatArray, limit: int) -> Groups:
        """Sort a score; keep the groups whose thresholds flag at most ``limit`` rows."""
        place = len(score) - limit - 1
        floor = np.partition(score, place)[place]  # the highest score that flags too many
        rows = np.flatnonzero(score > floor)
        rows = rows[np.argsort(score[rows])[::-1]]
        thresholds, ends, of_row = group_rows(score, rows)
        return cls(thresholds, ends, of_row, rows)


@dataclass(frozen=True)
class Optimum:
    """The best pair: numbers of groups, and the joint rows it flags (0: no pair at all)."""

    groups_s: int
    groups_q: int
    joint: int
    fbeta_hat: float


class PairSearch:
    """Two scores sorted once, to be searched for any β, α and strata.

    ``code`` numbers each row's stratum from 0; ``sizes`` holds the strata's rows.
    """

    def __init__(self, score_s: FloatArray, score_q: FloatArray, code: IntArray | None = None) -> None:
        self.n = len(score_s)
        limit = self.n // 2
        self.s = Groups.of(score_s, limit)
        self.q = Groups.of(score_q, limit)
        self._group_q_by_s = self.q.of_row[self.s.rows]
        self._group_s_by_q = self.s.of_row[self.q.rows]
        self.set_strata(code)

    def set_strata(self, code: IntArray | None) -> None:
        """Take other strata for the same scores; those of a single row are merged, see :func:`merge_singles`."""
        self.code = code
        self.has_singles = False
        if code is None:
            self.sizes = np.array([self.n], dtype=np.int64)
            self._code_by_s = self._code_by_q = np.zeros(1, dtype=np.int32)
            return
        number, self.sizes, self.has_singles = merge_singles(np.bincount(code).astype(np.int64))
        if self.has_singles:
            code = self.code = number[code]
        compact = code.astype(np.int32)
        self._code_by_s, self._code_by_q = compact[self.s.rows], compact[self.q.rows]

    def maximise(
        self,
        *,
        beta: float,
        alpha: float,
        naive: bool = False,
        kinds: IntArray | None = None,
        correlation: float = 0.0,
        exact: bool = True,
    ) -> Optimum:
        """The pair with the highest F̂β; ``correlation`` is that of the background.

        Without ``exact``, of the pairs of a grid, in a fifth of the time.
        """
        kinds = stratum_kinds(self.sizes, self.has_singles) if kinds is None else kinds
        rule = search_rule(self.sizes, kinds, beta=beta, alpha=alpha, naive=naive, correlation=correlation)
        rows = (
            self.s.ends,
            self.q.ends,
            self._group_q_by_s,
            self._group_s_by_q,
            self._code_by_s,
            self._code_by_q,
        )
        best = np.array([-np.inf, 0.0, 0.0, 0.0])  # F̂, joint rows, groups of s, groups of q
        low_s, high_s, low_q, high_q = 0, len(self.s.ends) - 1, 0, len(self.q.ends) - 1
        if high_s == 0 or high_q == 0:
            return Optimum(0, 0, 0, -math.inf)
        # Lay a grid, sift it, and lay a finer one over what is left as long as that shrinks.
        steps = max(16, min(math.isqrt(_GRID_CELLS // len(self.sizes)), 64 + 2 * math.isqrt(self.n)))
        for _ in range(_ZOOMS):
            edges_s, edges_q = grid_edges(low_s, high_s, steps), grid_edges(low_q, high_q, steps)
            grid = grid_counts(*rows, len(self.sizes), edges_s, edges_q)
            boxes, bounds = surviving_boxes(edges_s, edges_q, *grid, *rule, best)
            if len(boxes) == 0 or not exact:
                break
            before = (high_s - low_s) * (high_q - low_q)
            low_s, high_s = int(edges_s[boxes[:, 0].min()]), int(edges_s[boxes[:, 0].max() + 1])
            low_q, high_q = int(edges_q[boxes[:, 1].min()]), int(edges_q[boxes[:, 1].max() + 1])
            if len(boxes) < _FEW_BOXES or (high_s - low_s) * (high_q - low_q) > before / 4:
                break
        if len(boxes) and exact:
            order = np.lexsort((-bounds[:, 1], -bounds[:, 0]))
            refine(*rows, edges_s, edges_q, *grid, boxes[order], bounds[order], *rule, best)
        return Optimum(int(best[2]), int(best[3]), int(best[1]), float(best[0]))


def merge_singles(sizes: IntArray) -> tuple[IntArray, IntArray, bool]:
    """Put strata of a single row together: (new number of each stratum, new sizes, whether there are any).

    Such strata prove nothing, so they are kept as one, the last, which counts every joint
    row as chance.
    """
    single = sizes == 1
    if not single.any() or len(sizes) == 1:
        return np.arange(len(sizes)), sizes, False
    number = np.where(single, int((~single).sum()), np.cumsum(~single) - 1)
    return number, np.append(sizes[~single], single.sum()), True


def stratum_kinds(sizes: IntArray, has_singles: bool) -> IntArray:
    """How each stratum counts chance, without labels."""
    if len(sizes) == 1 and not has_singles:
        return np.array([PLAIN])
    kinds = np.full(len(sizes), CORRECTED)
    if has_singles:
        kinds[-1] = ALL_CHANCE
    return kinds


def search_rule(
    sizes: IntArray,
    kinds: IntArray,
    *,
    beta: float,
    alpha: float,
    naive: bool = False,
    correlation: float = 0.0,
) -> tuple[IntArray, IntArray, bool, FloatArray, float, float]:
    """What the kernel maximises: the strata, how they count chance, and the weights u and k of F̂β."""
    w_joint, w_alpha = fbeta_weights(beta)
    weights = w_joint, w_alpha * alpha * int(sizes.sum())
    return sizes.astype(np.int64), kinds.astype(np.int64), naive, lift_table(float(correlation)), *weights
