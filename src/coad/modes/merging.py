"""Which modes are one: those between which the inputs choose independently, and those that overlap.

Candidates are merged where they overlap: where many rows belong to both, no gap lies between them, and they are
one (:func:`merge_overlapping`, after C. Hennig, "Methods for merging Gaussian mixture components", 2010: directly
estimated misclassification probabilities).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = ["Apart", "Limit", "agreement", "merge_map", "merge_overlapping", "union_loss"]

#: Whether two sets of modes must not be merged.
Apart = Callable[[IntArray, IntArray], bool]
#: How much two sets of modes must overlap to be merged.
Limit = Callable[[IntArray, IntArray], float]

#: Modes between which κ is below so many standard errors are one, whatever lies between them, if so many joint votes for
#: each would come by chance: with fewer, that there are no more than these says little.
_NOTHING, _TOLD = 2.0, 5.0
#: Of two sets that are one, some two modes overlap at least this part of what the sets must.
_NEARLY = 0.75


def agreement(counts: IntArray) -> FloatArray:
    """For each pair of modes: given that both inputs vote within the pair, how well they agree (κ).

    0: their choice between the two is independent, so the two are one mode. 1: never a mistake.
    """
    n = counts.astype(np.float64)
    d = n.diagonal()
    total = d[:, None] + d[None, :] + n + n.T
    row, column = d[:, None] + n, d[:, None] + n.T  # how often s, and q, vote for the first
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = (d[:, None] + d[None, :]) / total
        chance = (row * column + (total - row) * (total - column)) / total**2
        kappa = (observed - chance) / (1.0 - chance)
    kappa = np.nan_to_num(kappa, nan=1.0)
    np.fill_diagonal(kappa, 1.0)
    return np.asarray(kappa)


def merge_map(
    counts: IntArray, below: float, apart: Apart | None = None, *, least: float | None = None
) -> IntArray:
    """New number of each mode after merging, pair by pair, modes between which the inputs choose independently.

    Those are pairs with a κ less than ``below``; if ``least`` is given, only where κ is less than that as well, or
    not clearly above what chance gives for so many rows (three standard errors, 1/√n each). Pairs whose union
    loses least come first: a mode that the inputs never agree on has κ = 0 with all others, and belongs to the
    one that it is taken for. ``apart`` tells, of two sets of modes that were merged so far, whether they must not be.

    >>> few = np.array([[64, 16], [16, 8]])  # κ = 0.13: nothing in 104 rows, something in 10,400
    >>> merge_map(few, 0.15, least=0.05).tolist(), merge_map(100 * few, 0.15, least=0.05).tolist()
    ([0, 0], [0, 1])
    """
    counts = counts.copy()
    group = np.arange(len(counts))
    while len(counts) > 1:
        agreed = counts.diagonal()
        rows = np.maximum(agreed[:, None] + agreed[None, :] + counts + counts.T, 1)
        needed = np.clip(3.0 / np.sqrt(rows), below if least is None else least, below)
        kept = np.clip(1.0 - union_loss(counts), 1e-9, None)
        kappa = agreement(counts)
        votes = (counts.sum(0) + counts.sum(1)) / 2
        surely = kappa + 3.0 / np.sqrt(np.maximum(_fewer(votes), 1.0)) < below
        surely |= (_by_chance(counts) >= _TOLD) & (kappa * np.sqrt(rows) < _NOTHING)
        pair = _next_pair(np.where(kappa < needed, kept, 0.0), 0.0, group, apart, surely)
        if pair is None:
            break
        k, m = pair
        counts[k] += counts[m]
        counts[:, k] += counts[:, m]
        counts = np.delete(np.delete(counts, m, 0), m, 1)
        group[group == m] = k
        group[group > m] -= 1
    return group


def union_loss(counts: IntArray) -> FloatArray:
    """What the table loses if two modes are made one, as part of the most that it could: (k, k), 0 on the diagonal.

    All votes have a say, also those for third modes: two pieces of one mode are taken for each other and for the
    other pieces alike, and their union loses nothing.

    >>> union_loss(np.array([[20, 20, 5], [20, 20, 5], [5, 5, 90]])).round(2).tolist()[0]
    [0.0, 0.0, 0.68]
    """
    p = counts / max(int(counts.sum()), 1)

    def f(x: FloatArray) -> FloatArray:
        return np.asarray(x * np.log(np.maximum(x, 1e-300)))

    def pairs(x: FloatArray) -> FloatArray:
        """f of the sum less the sum of f, for each pair."""
        return f(x[:, None] + x[None, :]) - f(x)[:, None] - f(x)[None, :]

    row, column, d = p.sum(1), p.sum(0), p.diagonal()
    cells = np.zeros_like(p)
    for one, other in ((p, p.T), (p.T, p)):
        cells += pairs(one).sum(2)
        # The four cells in which the two meet are joined once, in both directions at a time.
        for x in (d[:, None], d[None, :]):
            cells -= f(x + other) - f(x) - f(other)
    block = d[:, None] + d[None, :] + p + p.T
    cells += f(block) - f(d)[:, None] - f(d)[None, :] - f(p) - f(p.T)
    lost = pairs(row) + pairs(column) - cells
    size = (row + column) / 2
    most = pairs(size)
    loss = np.divide(lost, most, out=np.zeros_like(p), where=most > 1e-12)
    np.fill_diagonal(loss, 0.0)
    return loss


def _by_chance(counts: IntArray) -> FloatArray:
    """For each pair of modes, of the rows for which both inputs vote within it: the joint votes for the less frequent of
    the two that come by chance.

    >>> float(_by_chance(np.array([[30, 20], [20, 10]]))[0, 1])
    11.25
    """
    n = counts.astype(np.float64)
    row, column = n.diagonal()[:, None] + n, n.diagonal()[:, None] + n.T
    total = np.maximum(row + column.T, 1.0)
    own = row * column / total
    return np.asarray(np.minimum(own, own.T))


def _next_pair(
    score: FloatArray,
    above: float,
    group: IntArray,
    apart: Apart | None,
    surely: BoolArray | None = None,
) -> tuple[int, int] | None:
    """The pair of the largest score above ``above`` that need not stay apart; those that are ``surely`` one never need to."""
    score = np.triu(score, 1)
    while True:
        k, m = (int(i) for i in np.unravel_index(int(score.argmax()), score.shape))
        if score[k, m] <= above:
            return None
        if surely is not None and surely[k, m]:
            return k, m
        if apart is None or not apart(np.flatnonzero(group == k), np.flatnonzero(group == m)):
            return k, m
        score[k, m] = 0.0


def _fewer(size: NDArray[Any]) -> NDArray[Any]:
    """The smaller of two sizes, for each pair."""
    return np.asarray(np.minimum(size[:, None], size[None, :]))


def merge_overlapping(posterior: FloatArray, most: float, limit: Limit | None = None) -> IntArray:
    """New number of each mode after merging those that overlap most, until none overlaps more than ``most``.

    ``posterior`` (n, K) is how sure each row is of each mode, with rows that sum to 1. The overlap of
    two modes is the part of the smaller one's rows that would as well be the other's. That of sets is added up, but
    some two of their modes must nearly overlap so much: a little with each of many (a centre with all the arcs of
    a ring) is none. ``limit`` tells, of two sets of modes that were merged so far, how much they must overlap to be one, if
    that is more than ``most``.

    >>> sure = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.4, 0.6], [0.99, 0.01, 0]])
    >>> merge_overlapping(sure, 0.05).tolist()
    [0, 1, 1]
    """
    shared, size = posterior.T @ posterior, posterior.sum(0)
    nearest = shared / np.maximum(_fewer(size), 1e-12)
    group = np.arange(posterior.shape[1])
    while len(size) > 1:
        overlap = np.where(nearest >= _NEARLY * most, shared / np.maximum(_fewer(size), 1e-12), 0.0)
        pair = _next_pair(
            overlap, most, group, None if limit is None else partial(_below, limit, overlap, group)
        )
        if pair is None:
            break
        k, m = pair
        shared[k] += shared[m]
        shared[:, k] += shared[:, m]
        size[k] += size[m]
        nearest[k] = nearest[:, k] = np.maximum(nearest[k], nearest[m])
        shared, nearest = (np.delete(np.delete(x, m, 0), m, 1) for x in (shared, nearest))
        size = np.delete(size, m)
        group[group == m] = k
        group[group > m] -= 1
    return group


def _below(limit: Limit, overlap: FloatArray, group: IntArray, one: IntArray, other: IntArray) -> bool:
    """Whether two sets of modes overlap too little to be one."""
    return bool(overlap[group[one[0]], group[other[0]]] <= limit(one, other))
