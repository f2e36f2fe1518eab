"""The compiled loops of the exact search; :mod:`coad.core.search` says what they compute and proves the bound.

They restate the formulas of :mod:`coad.core.metric`, which compiled code cannot call;
``tests/test_one_metric.py`` holds them against it.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from coad._typing import IntArray
from coad.core.copula import LEAST_LOG, STEP

__all__ = [
    "ALL_CHANCE",
    "ALL_TRUE",
    "CORRECTED",
    "PLAIN",
    "chance_rows",
    "evaluate",
    "grid_counts",
    "grid_edges",
    "group_rows",
    "read_lift",
    "refine",
    "surviving_boxes",
    "upper_bound",
]

#: How a stratum counts its chance rows.
PLAIN, CORRECTED, ALL_CHANCE, ALL_TRUE = 0, 1, 2, 3

_NO_GROUP = np.iinfo(np.int32).max
_PARTS = 16  # each surviving box is cut into at most this many parts a side


def grid_edges(low: int, high: int, steps: int) -> IntArray:
    """low … high in at most ``steps`` steps; from 0, they grow with the count."""
    if high - low <= steps:
        return np.arange(low, high + 1)
    if low > 0:
        return np.round(np.linspace(low, high, steps + 1)).astype(np.int64)
    fine = np.arange(steps // 16)
    wide = np.geomspace(steps // 16, high, steps - len(fine) + 1)
    return np.unique(np.concatenate([fine, np.round(wide).astype(np.int64)]))


@numba.njit(cache=True, nogil=True)
def group_rows(score, rows):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, error_model="numpy")
def read_lift(a, b, lift):  # type: ignore[no-untyped-def]
    """:func:`coad.core.copula.log_lift` of one pair, both above 0."""
    last = len(lift) - 1.0
    x = min(max((math.log(a) - LEAST_LOG) / STEP, 0.0), last)
    y = min(max((math.log(b) - LEAST_LOG) / STEP, 0.0), last)
    i, j = min(int(x), len(lift) - 2), min(int(y), len(lift) - 2)
    u, v = x - i, y - j
    low = (1 - u) * lift[i, j] + u * lift[i + 1, j]
    high = (1 - u) * lift[i, j + 1] + u * lift[i + 1, j + 1]
    return (1 - v) * low + v * high


@numba.njit(cache=True, inline="always", error_model="numpy")
def chance_rows(joint_low, joint_high, only_s, only_q, a, b, n, kind, naive, lift):  # type: ignore[no-untyped-def]
    """The least D in rows of a stratum over a box (see the module's text); D itself for a single pair.

    ``only_s`` and ``only_q`` are rows flagged by one input alone, ``a`` and ``b`` rows flagged by each;
    ``lift`` is the table of a correlated background, empty for an independent one.
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
        if lift.size > 0 and chance > 0:
            chance *= math.exp(read_lift(only_s / (n - b), only_q / (n - a), lift))
    if kind == 1:
        chance = max(0.0, chance + (chance - joint_high) / (n - 1.0))
    return chance


@numba.njit(cache=True, nogil=True, error_model="numpy")
def evaluate(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, lift, u, k):  # type: ignore[no-untyped-def]
    """F̂ at node (p, t) and its joint rows."""
    joint = 0.0
    chance = 0.0
    for c in range(len(sizes)):
        here = float(counts[p, t, c])
        a, b = float(flagged_s[p, c]), float(flagged_q[t, c])
        joint += here
        chance += chance_rows(here, here, a - here, b - here, a, b, float(sizes[c]), kinds[c], naive, lift)
    if joint <= 0:
        return -np.inf, joint
    return (joint - chance) / (u * joint + k), joint


@numba.njit(cache=True, nogil=True, error_model="numpy")
def upper_bound(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, lift, u, k):  # type: ignore[no-untyped-def]
    """No pair in the box between nodes (p, t) and (p + 1, t + 1) exceeds this."""
    joint = 0.0
    chance = 0.0
    for c in range(len(sizes)):
        high = float(counts[p + 1, t + 1, c])
        a, b = float(flagged_s[p, c]), float(flagged_q[t, c])
        joint += high
        chance += chance_rows(
            float(counts[p, t, c]),
            high,
            a - counts[p, t + 1, c],
            b - counts[p + 1, t, c],
            a,
            b,
            float(sizes[c]),
            kinds[c],
            naive,
            lift,
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
def grid_counts(  # type: ignore[no-untyped-def]
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
def surviving_boxes(edges_s, edges_q, counts, flagged_s, flagged_q, sizes, kinds, naive, lift, u, k, best):  # type: ignore[no-untyped-def]
    """Note the best node in ``best``; return the boxes that may hold a better pair, and their bounds."""
    cells_s, cells_q = len(edges_s) - 1, len(edges_q) - 1
    for p in range(1, cells_s + 1):
        for t in range(1, cells_q + 1):
            value, joint = evaluate(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, lift, u, k)
            if value > best[0] or (value == best[0] and joint > best[1]):
                best[0], best[1], best[2], best[3] = value, joint, edges_s[p], edges_q[t]
    found = 0
    boxes = np.empty((cells_s * cells_q, 2), np.int64)
    bounds = np.empty((cells_s * cells_q, 2), np.float64)
    for p in range(cells_s):
        for t in range(cells_q):
            if edges_s[p + 1] - edges_s[p] == 1 and edges_q[t + 1] - edges_q[t] == 1:
                continue  # its only pair is a node
            bound, joint = upper_bound(counts, p, t, flagged_s, flagged_q, sizes, kinds, naive, lift, u, k)
            if bound > best[0] or (bound == best[0] and joint > best[1]):
                boxes[found, 0], boxes[found, 1] = p, t
                bounds[found, 0], bounds[found, 1] = bound, joint
                found += 1
    return boxes[:found].copy(), bounds[:found].copy()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def refine(  # type: ignore[no-untyped-def]
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
    lift,
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
                    value, joint = evaluate(part, a, b, part_s, part_q, sizes, kinds, naive, lift, u, k)
                    if value > best[0] or (value == best[0] and joint > best[1]):
                        best[0], best[1], best[2], best[3] = value, joint, cut_i[a], cut_j[b]
            for a in range(parts_i):
                for b in range(parts_j):
                    if cut_i[a + 1] - cut_i[a] == 1 and cut_j[b + 1] - cut_j[b] == 1:
                        continue
                    bound, joint = upper_bound(part, a, b, part_s, part_q, sizes, kinds, naive, lift, u, k)
                    if bound > best[0] or (bound == best[0] and joint > best[1]):
                        box[top, 0], box[top, 1] = cut_i[a], cut_i[a + 1]
                        box[top, 2], box[top, 3] = cut_j[b], cut_j[b + 1]
                        box_s[top], box_q[top], box_joint[top] = part_s[a], part_q[b], part[a, b]
                        box_bound[top, 0], box_bound[top, 1] = bound, joint
                        top += 1
