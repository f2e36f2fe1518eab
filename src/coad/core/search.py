"""The kernel: the exact maximum of F̂β over all pairs of thresholds.

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
(D_naive = A·B / n is least at A(i0), B(j0).) The correction for small strata,
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

import numba
import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.metric import fbeta_weights

#: How a stratum counts its chance rows.
PLAIN, CORRECTED, ALL_CHANCE, ALL_TRUE = 0, 1, 2, 3

_NO_GROUP = np.iinfo(np.int32).max
_PARTS = 16  # each surviving box is cut into at most this many parts a side
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
        thresholds, ends, of_row = _groups(score, rows)
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
        self, *, beta: float, alpha: float, naive: bool = False, kinds: IntArray | None = None
    ) -> Optimum:
        """The pair with the highest F̂β, exactly."""
        kinds = stratum_kinds(self.sizes, self.has_singles) if kinds is None else kinds
        rule = search_rule(self.sizes, kinds, beta=beta, alpha=alpha, naive=naive)
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
            edges_s, edges_q = _edges(low_s, high_s, steps), _edges(low_q, high_q, steps)
            grid = _grid(*rows, len(self.sizes), edges_s, edges_q)
            boxes, bounds = _sift(edges_s, edges_q, *grid, *rule, best)
            if len(boxes) == 0:
                break
            before = (high_s - low_s) * (high_q - low_q)
            low_s, high_s = int(edges_s[boxes[:, 0].min()]), int(edges_s[boxes[:, 0].max() + 1])
            low_q, high_q = int(edges_q[boxes[:, 1].min()]), int(edges_q[boxes[:, 1].max() + 1])
            if len(boxes) < _FEW_BOXES or (high_s - low_s) * (high_q - low_q) > before / 4:
                break
        if len(boxes):
            order = np.lexsort((-bounds[:, 1], -bounds[:, 0]))
            _refine(*rows, edges_s, edges_q, *grid, boxes[order], bounds[order], *rule, best)
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
    sizes: IntArray, kinds: IntArray, *, beta: float, alpha: float, naive: bool = False
) -> tuple[IntArray, IntArray, bool, float, float]:
    """What the kernel maximises: the strata, how they count chance, and the weights u and k of F̂β."""
    w_joint, w_alpha = fbeta_weights(beta)
    return sizes.astype(np.int64), kinds.astype(np.int64), naive, w_joint, w_alpha * alpha * int(sizes.sum())


def _edges(low: int, high: int, steps: int) -> IntArray:
    """low … high in at most ``steps`` steps; from 0, they grow with the count."""
    if high - low <= steps:
        return np.arange(low, high + 1)
    if low > 0:
        return np.round(np.linspace(low, high, steps + 1)).astype(np.int64)
    fine = np.arange(steps // 16)
    wide = np.geomspace(steps // 16, high, steps - len(fine) + 1)
    return np.unique(np.concatenate([fine, np.round(wide).astype(np.int64)]))


@numba.njit(cache=True, nogil=True)
def _groups(score, rows):  # type: ignore[no-untyped-def]
    """Thresholds, ends and the group of each row, from the rows sorted by falling score."""
    of_row = np.full(len(score), _NO_GROUP, np.int32)
    ends = np.empty(len(rows) + 1, np.int64)
    thresholds = np.empty(len(rows), np.float64)
    ends[0] = 0
    group = 0
    for position in range(len(rows)):
        value = score[rows[position]]
        if group == 0 or value != thresholds[group - 1]:
            thresholds[group] = value
            group += 1
        ends[group] = position + 1
        of_row[rows[position]] = group
    return thresholds[:group].copy(), ends[: group + 1].copy(), of_row


@numba.njit(cache=True, inline="always", error_model="numpy")
def _chance_rows(joint_low, joint_high, only_s, only_q, a, b, n, kind, naive):  # type: ignore[no-untyped-def]
    """The least D in rows of a stratum over a box (see the module's text); D itself for a single pair.

    ``only_s`` and ``only_q`` are rows flagged by one input alone, ``a`` and ``b`` rows flagged by each.
    """
    if kind == 2:
        return joint_low
    if kind == 3:
        return 0.0
    if naive:
        chance = a * b / n
    else:
        quiet = (n - a) * (n - b)
        if quiet <= 0:
            return joint_low
        chance = n * only_s * only_q / quiet
    if kind == 1:
        chance = max(0.0, chance + (chance - joint_high) / (n - 1.0))
    return chance


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _evaluate(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, u, k):  # type: ignore[no-untyped-def]
    """F̂ at node (p, t) and its joint rows."""
    joint = 0.0
    chance = 0.0
    for c in range(len(sizes)):
        here = float(counts[p, t, c])
        a, b = float(flagged_s[p, c]), float(flagged_q[t, c])
        joint += here
        chance += _chance_rows(here, here, a - here, b - here, a, b, float(sizes[c]), kinds[c], naive)
    if joint <= 0:
        return -np.inf, joint
    return (joint - chance) / (u * joint + k), joint


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _bound(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, u, k):  # type: ignore[no-untyped-def]
    """No pair in the box between nodes (p, t) and (p + 1, t + 1) exceeds this."""
    joint = 0.0
    chance = 0.0
    for c in range(len(sizes)):
        high = float(counts[p + 1, t + 1, c])
        a, b = float(flagged_s[p, c]), float(flagged_q[t, c])
        joint += high
        chance += _chance_rows(
            float(counts[p, t, c]),
            high,
            a - counts[p, t + 1, c],
            b - counts[p + 1, t, c],
            a,
            b,
            float(sizes[c]),
            kinds[c],
            naive,
        )
    if joint <= 0:
        return -np.inf, joint
    return (joint - chance) / (u * joint + k), joint


@numba.njit(cache=True, nogil=True)
def _cumulate(counts, rows, columns, strata):  # type: ignore[no-untyped-def]
    for p in range(rows):
        for t in range(1, columns):
            for c in range(strata):
                counts[p, t, c] += counts[p, t - 1, c]
    for p in range(1, rows):
        for t in range(columns):
            for c in range(strata):
                counts[p, t, c] += counts[p - 1, t, c]


@numba.njit(cache=True, nogil=True)
def _grid(  # type: ignore[no-untyped-def]
    ends_s, ends_q, group_q_by_s, group_s_by_q, code_by_s, code_by_q, strata, edges_s, edges_q
):
    """J per stratum at every node of the grid, and the flagged rows at every edge."""
    cells_s, cells_q = len(edges_s) - 1, len(edges_q) - 1
    last_q = edges_q[-1]
    cell_of = np.zeros(last_q + 1, np.int32)
    for t in range(cells_q):
        cell_of[edges_q[t] + 1 : edges_q[t + 1] + 1] = t + 1
    counts = np.zeros((cells_s + 1, cells_q + 1, strata), np.int32)
    flagged_s = np.zeros((cells_s + 1, strata), np.int64)
    flagged_q = np.zeros((cells_q + 1, strata), np.int64)
    for p in range(cells_s + 1):
        start = 0
        if p > 0:
            start = ends_s[edges_s[p - 1]]
            flagged_s[p] = flagged_s[p - 1]
        for r in range(start, ends_s[edges_s[p]]):
            c = code_by_s[r] if strata > 1 else 0
            flagged_s[p, c] += 1
            g = group_q_by_s[r]
            if g <= last_q:
                counts[p, cell_of[g], c] += 1
    for t in range(cells_q + 1):
        start = 0
        if t > 0:
            start = ends_q[edges_q[t - 1]]
            flagged_q[t] = flagged_q[t - 1]
        if strata == 1:
            flagged_q[t, 0] = ends_q[edges_q[t]]
            continue
        for r in range(start, ends_q[edges_q[t]]):
            flagged_q[t, code_by_q[r]] += 1
    _cumulate(counts, cells_s + 1, cells_q + 1, strata)
    return counts, flagged_s, flagged_q


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _sift(edges_s, edges_q, counts, flagged_s, flagged_q, sizes, kinds, naive, u, k, best):  # type: ignore[no-untyped-def]
    """Note the best node in ``best``; return the boxes that may hold a better pair, and their bounds."""
    cells_s, cells_q = len(edges_s) - 1, len(edges_q) - 1
    for p in range(1, cells_s + 1):
        for t in range(1, cells_q + 1):
            value, joint = _evaluate(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, u, k)
            if value > best[0] or (value == best[0] and joint > best[1]):
                best[0], best[1], best[2], best[3] = value, joint, edges_s[p], edges_q[t]
    found = 0
    boxes = np.empty((cells_s * cells_q, 2), np.int64)
    bounds = np.empty((cells_s * cells_q, 2), np.float64)
    for p in range(cells_s):
        for t in range(cells_q):
            if edges_s[p + 1] - edges_s[p] == 1 and edges_q[t + 1] - edges_q[t] == 1:
                continue  # its only pair is a node
            bound, joint = _bound(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, u, k)
            if bound > best[0] or (bound == best[0] and joint > best[1]):
                boxes[found, 0], boxes[found, 1] = p, t
                bounds[found, 0], bounds[found, 1] = bound, joint
                found += 1
    return boxes[:found].copy(), bounds[:found].copy()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _refine(  # type: ignore[no-untyped-def]
    ends_s,
    ends_q,
    group_q_by_s,
    group_s_by_q,
    code_by_s,
    code_by_q,
    edges_s,
    edges_q,
    counts,
    flagged_s,
    flagged_q,
    boxes,
    bounds,
    sizes,
    kinds,
    naive,
    u,
    k,
    best,
):
    """Cut the boxes of the grid down to single pairs, depth first; note the best pair in ``best``."""
    strata = len(sizes)
    depth = 8 * _PARTS * _PARTS
    box = np.empty((depth, 4), np.int64)
    box_s = np.empty((depth, strata), np.int64)
    box_q = np.empty((depth, strata), np.int64)
    box_joint = np.empty((depth, strata), np.int64)
    box_bound = np.empty((depth, 2), np.float64)
    part = np.zeros((_PARTS + 1, _PARTS + 1, strata), np.int64)
    part_s = np.zeros((_PARTS + 1, strata), np.int64)
    part_q = np.zeros((_PARTS + 1, strata), np.int64)
    cut_i = np.empty(_PARTS + 1, np.int64)
    cut_j = np.empty(_PARTS + 1, np.int64)
    for index in range(len(boxes)):
        p, t = boxes[index, 0], boxes[index, 1]
        top = 1
        box[0, 0], box[0, 1] = edges_s[p], edges_s[p + 1]
        box[0, 2], box[0, 3] = edges_q[t], edges_q[t + 1]
        box_s[0], box_q[0], box_joint[0] = flagged_s[p], flagged_q[t], counts[p, t]
        box_bound[0] = bounds[index]
        while top > 0:
            top -= 1
            if box_bound[top, 0] < best[0] or (box_bound[top, 0] == best[0] and box_bound[top, 1] <= best[1]):
                continue
            i0, i1, j0, j1 = box[top]
            wide_i, wide_j = i1 - i0, j1 - j0
            parts_i, parts_j = min(_PARTS, wide_i), min(_PARTS, wide_j)
            for a in range(parts_i + 1):
                cut_i[a] = i0 + wide_i * a // parts_i
            for b in range(parts_j + 1):
                cut_j[b] = j0 + wide_j * b // parts_j
            part[: parts_i + 1, : parts_j + 1] = 0
            part[0, 0] = box_joint[top]
            part_s[0], part_q[0] = box_s[top], box_q[top]
            for a in range(parts_i):
                part_s[a + 1] = part_s[a]
                for r in range(ends_s[cut_i[a]], ends_s[cut_i[a + 1]]):
                    c = code_by_s[r] if strata > 1 else 0
                    part_s[a + 1, c] += 1
                    g = group_q_by_s[r]
                    if g <= j0:
                        part[a + 1, 0, c] += 1
                    elif g <= j1:
                        part[a + 1, ((g - j0) * parts_j + wide_j - 1) // wide_j, c] += 1
            for b in range(parts_j):
                part_q[b + 1] = part_q[b]
                for r in range(ends_q[cut_j[b]], ends_q[cut_j[b + 1]]):
                    c = code_by_q[r] if strata > 1 else 0
                    part_q[b + 1, c] += 1
                    if group_s_by_q[r] <= i0:
                        part[0, b + 1, c] += 1
            _cumulate(part, parts_i + 1, parts_j + 1, strata)
            for a in range(1, parts_i + 1):
                for b in range(1, parts_j + 1):
                    value, joint = _evaluate(part, a, b, part_s, part_q, sizes, kinds, naive, u, k)
                    if value > best[0] or (value == best[0] and joint > best[1]):
                        best[0], best[1], best[2], best[3] = value, joint, cut_i[a], cut_j[b]
            for a in range(parts_i):
                for b in range(parts_j):
                    if cut_i[a + 1] - cut_i[a] == 1 and cut_j[b + 1] - cut_j[b] == 1:
                        continue
                    bound, joint = _bound(part, a, b, part_s, part_q, sizes, kinds, naive, u, k)
                    if bound > best[0] or (bound == best[0] and joint > best[1]):
                        box[top, 0], box[top, 1] = cut_i[a], cut_i[a + 1]
                        box[top, 2], box[top, 3] = cut_j[b], cut_j[b + 1]
                        box_s[top], box_q[top], box_joint[top] = part_s[a], part_q[b], part[a, b]
                        box_bound[top, 0], box_bound[top, 1] = bound, joint
                        top += 1
