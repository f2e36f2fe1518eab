"""Which modes are one: those between which the inputs choose independently, and those that overlap.

Overlapping modes are merged after C. Hennig, "Methods for merging Gaussian mixture components" (2010), by directly
estimated misclassification probabilities (:func:`merge_overlapping`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "KeepApart",
    "OverlapLimit",
    "information_loss",
    "merge_independent",
    "merge_overlapping",
    "pairwise_kappa",
]

#: Whether two sets of modes must not be merged.
KeepApart = Callable[[IntArray, IntArray], bool]
#: How much two sets of modes must overlap to be merged.
OverlapLimit = Callable[[IntArray, IntArray], float]

#: Two modes are merged regardless of ``apart`` if κ is below this many standard errors, and if chance alone would give
#: this many joint votes for each: with fewer, a small κ is no evidence of independence.
_KAPPA_ERRORS, _CHANCE_VOTES = 2.0, 5.0
#: Some two modes of two merged sets overlap at least this fraction of the limit for the sets.
_SINGLE_PAIR = 0.75


def pairwise_kappa(counts: IntArray) -> FloatArray:
    """Cohen's κ of s and q for each pair of modes, over the rows for which both vote within the pair.

    0: their choice between the two is independent, so the two are one mode. 1: they always agree.
    """
    n = counts.astype(np.float64)
    d = n.diagonal()
    total = d[:, None] + d[None, :] + n + n.T
    row, column = d[:, None] + n, d[:, None] + n.T  # votes of s, and of q, for the first
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = (d[:, None] + d[None, :]) / total
        chance = (row * column + (total - row) * (total - column)) / total**2
        kappa = (observed - chance) / (1.0 - chance)
    kappa = np.nan_to_num(kappa, nan=1.0)
    np.fill_diagonal(kappa, 1.0)
    return np.asarray(kappa)


def merge_independent(
    counts: IntArray, below: float, apart: KeepApart | None = None, *, least: float | None = None
) -> IntArray:
    """New number of each mode after merging, pair by pair, modes between which the inputs choose independently.

    Those are pairs with κ < ``below``; with ``least``, κ must also be below ``least`` or within three standard errors of
    0 (1/√n each). Pairs whose union loses the least information come first, because a mode that the inputs never agree
    on has κ = 0 with all others. ``apart`` may veto the union of two sets of merged modes.

    >>> few = np.array([[64, 16], [16, 8]])  # κ = 0.13: not significant in 104 rows, significant in 10,400
    >>> merge_independent(few, 0.15, least=0.05).tolist(), merge_independent(100 * few, 0.15, least=0.05).tolist()
    ([0, 0], [0, 1])
    """
    counts = counts.copy()
    group = np.arange(len(counts))
    while len(counts) > 1:
        agreed = counts.diagonal()
        rows = np.maximum(agreed[:, None] + agreed[None, :] + counts + counts.T, 1)
        needed = np.clip(3.0 / np.sqrt(rows), below if least is None else least, below)
        kept = np.clip(1.0 - information_loss(counts), 1e-9, None)
        kappa = pairwise_kappa(counts)
        votes = (counts.sum(0) + counts.sum(1)) / 2
        no_veto = kappa + 3.0 / np.sqrt(np.maximum(_smaller(votes), 1.0)) < below
        no_veto |= (_chance_votes(counts) >= _CHANCE_VOTES) & (kappa * np.sqrt(rows) < _KAPPA_ERRORS)
        pair = _next_pair(np.where(kappa < needed, kept, 0.0), 0.0, group, apart, no_veto)
        if pair is None:
            break
        k, m = pair
        counts[k] += counts[m]
        counts[:, k] += counts[:, m]
        counts = np.delete(np.delete(counts, m, 0), m, 1)
        group[group == m] = k
        group[group > m] -= 1
    return group


def information_loss(counts: IntArray) -> FloatArray:
    """Mutual information that the table loses by merging two modes, as a fraction of the maximum loss, (k, k).

    All votes count, also those for third modes: two pieces of one mode are confused with each other and with other
    pieces in the same proportions, and merging them loses nothing.

    >>> information_loss(np.array([[20, 20, 5], [20, 20, 5], [5, 5, 90]])).round(2).tolist()[0]
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
        # The four cells of the two modes are merged in both directions at once, so they are counted separately below.
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


def _chance_votes(counts: IntArray) -> FloatArray:
    """For each pair of modes, the joint votes that chance gives to the less frequent one, over the rows of the pair.

    >>> float(_chance_votes(np.array([[30, 20], [20, 10]]))[0, 1])
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
    apart: KeepApart | None,
    no_veto: BoolArray | None = None,
) -> tuple[int, int] | None:
    """The pair with the largest score above ``above`` that ``apart`` allows; pairs with ``no_veto`` are not asked."""
    score = np.triu(score, 1)
    while True:
        k, m = (int(i) for i in np.unravel_index(int(score.argmax()), score.shape))
        if score[k, m] <= above:
            return None
        if no_veto is not None and no_veto[k, m]:
            return k, m
        if apart is None or not apart(np.flatnonzero(group == k), np.flatnonzero(group == m)):
            return k, m
        score[k, m] = 0.0


def _smaller(size: NDArray[Any]) -> NDArray[Any]:
    """The smaller of two sizes, for each pair."""
    return np.asarray(np.minimum(size[:, None], size[None, :]))


def merge_overlapping(posterior: FloatArray, most: float, limit: OverlapLimit | None = None) -> IntArray:
    """New number of each mode after merging the most overlapping ones, until no overlap exceeds ``most``.

    The overlap of two modes is the fraction of the smaller one's rows that would go to the other, by the ``posterior``
    (n, K) probabilities. Overlaps of merged modes add up, but some single pair must nearly reach the limit: a centre
    that overlaps a little with each of many arcs of a ring is not merged. ``limit`` gives a higher limit for two sets.

    >>> sure = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.4, 0.6], [0.99, 0.01, 0]])
    >>> merge_overlapping(sure, 0.05).tolist()
    [0, 1, 1]
    """
    shared, size = posterior.T @ posterior, posterior.sum(0)
    single = shared / np.maximum(_smaller(size), 1e-12)
    group = np.arange(posterior.shape[1])
    while len(size) > 1:
        overlap = np.where(single >= _SINGLE_PAIR * most, shared / np.maximum(_smaller(size), 1e-12), 0.0)
        pair = _next_pair(
            overlap, most, group, None if limit is None else partial(_below, limit, overlap, group)
        )
        if pair is None:
            break
        k, m = pair
        shared[k] += shared[m]
        shared[:, k] += shared[:, m]
        size[k] += size[m]
        single[k] = single[:, k] = np.maximum(single[k], single[m])
        shared, single = (np.delete(np.delete(x, m, 0), m, 1) for x in (shared, single))
        size = np.delete(size, m)
        group[group == m] = k
        group[group > m] -= 1
    return group


def _below(limit: OverlapLimit, overlap: FloatArray, group: IntArray, one: IntArray, other: IntArray) -> bool:
    """Whether two sets of modes overlap too little to be merged."""
    return bool(overlap[group[one[0]], group[other[0]]] <= limit(one, other))
