"""From K outputs of several members to one labelling: test, group, merge.

Two rows are alike if the members put them together *in both inputs at once*; groups of rows
that are alike are candidates (:func:`alike`, :func:`groups`). Candidates are then merged where they
overlap: where many rows belong to both, no gap lies between them, and they are one
(:func:`merge_overlapping`, after C. Hennig, "Methods for merging Gaussian mixture components", 2010:
directly estimated misclassification probabilities).

The posterior of a row combines its inputs: ``a_k b_k / π_k`` is what the pair says for mode k against
chance. Its sum over k is how many times likelier the pair is than a pairing of strangers; where
it is below ``DISAGREE`` the inputs contradict each other. (Below 1 would be too strict: with one mode of
97 %, confidences of 0.99 and 0.96 already give 0.99.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform
from scipy.stats import hypergeom

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "DISAGREE",
    "Apart",
    "agreement",
    "alike",
    "compact",
    "global_p_value",
    "groups",
    "joint_counts",
    "matched",
    "member_labels",
    "merge_map",
    "merge_overlapping",
    "mode_p_values",
    "posterior",
    "relabelled",
    "renumbered",
    "stability_of",
    "together",
]

DISAGREE = 0.5

#: Whether two sets of modes must not be merged.
Apart = Callable[[IntArray, IntArray], bool]


def matched(a: FloatArray, b: FloatArray) -> FloatArray:
    """``b`` (members, n, K) with its columns put in the order of ``a``'s, by assignment on the table."""
    out = np.empty_like(b)
    for m in range(len(a)):
        table = a[m].T @ b[m]
        out[m] = b[m][:, linear_sum_assignment(-table)[1]]
    return out


def posterior(a: FloatArray, b: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evidence ``a_k b_k / π_k`` of each row for each mode, and its sum: how well the inputs fit together."""
    evidence = a * b / np.maximum(size, 1e-6)
    return evidence, evidence.sum(-1)


def member_labels(a: FloatArray, b: FloatArray) -> IntArray:
    """The posterior label of every row for one member, -1 where the inputs disagree."""
    size = np.sqrt(a.mean(0) * b.mean(0))
    evidence, total = posterior(a, b, size)
    return np.where(total < DISAGREE, -1, evidence.argmax(1))


def joint_counts(first: IntArray, second: IntArray, k: int) -> IntArray:
    """How often s votes for one mode and q for another, (k, k)."""
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.int64)


def mode_p_values(counts: IntArray) -> FloatArray:
    """For each mode, how likely so many joint votes are if q's votes are shuffled over the rows."""
    n = int(counts.sum())
    joint = counts.diagonal()
    return np.asarray(hypergeom.sf(joint - 1, n, counts.sum(1), counts.sum(0)), dtype=np.float64)


def global_p_value(
    choices: list[tuple[IntArray, IntArray]],
    k: int,
    strata: list[IntArray | None],
    rng: np.random.Generator,
    permutations: int = 199,
) -> float:
    """Whether the held-out tables of all members together hold more than shuffled pairings do."""

    def held(first: IntArray, second: IntArray) -> float:
        table = joint_counts(first, second, k) / len(first)
        chance = table.sum(1)[:, None] * table.sum(0)[None, :]
        full = table > 0
        return float((table[full] * np.log(table[full] / chance[full])).sum())

    true = sum(held(a, b) for a, b in choices)
    reached = 0
    for _ in range(permutations):
        value = 0.0
        for (a, b), code in zip(choices, strata, strict=True):
            order = np.empty(len(b), dtype=np.int64)
            if code is None:
                order = rng.permutation(len(b))
            else:
                order[np.argsort(code, kind="stable")] = np.lexsort((rng.random(len(b)), code))
            value += held(a, b[order])
        reached += value >= true
    return (1 + reached) / (1 + permutations)


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


def merge_map(counts: IntArray, below: float, apart: Apart | None = None) -> IntArray:
    """New number of each mode after merging, pair by pair, modes between which the inputs choose independently.

    Of the pairs whose κ is less than ``below``, those that are confused most come first; a mode that the inputs
    never agree on has κ = 0 with all others, and belongs to the one that it is taken for. ``apart`` tells, of two
    sets of modes that were merged so far, whether they must not be.
    """
    counts = counts.copy()
    group = np.arange(len(counts))
    while len(counts) > 1:
        confused = (counts + counts.T) / np.maximum(_fewer(counts.sum(1) + counts.sum(0)), 1)
        confused[agreement(counts) >= below] = 0.0
        np.fill_diagonal(confused, 0.0)
        pair = _next_pair(confused, 0.0, group, apart)
        if pair is None:
            break
        k, m = pair
        counts[k] += counts[m]
        counts[:, k] += counts[:, m]
        counts = np.delete(np.delete(counts, m, 0), m, 1)
        group[group == m] = k
        group[group > m] -= 1
    return group


def _next_pair(
    score: FloatArray, above: float, group: IntArray, apart: Apart | None
) -> tuple[int, int] | None:
    """The pair of the largest score above ``above`` that need not stay apart."""
    score = np.triu(score, 1)
    while True:
        k, m = (int(i) for i in np.unravel_index(int(score.argmax()), score.shape))
        if score[k, m] <= above:
            return None
        if apart is None or not apart(np.flatnonzero(group == k), np.flatnonzero(group == m)):
            return k, m
        score[k, m] = 0.0


def _fewer(size: NDArray[Any]) -> NDArray[Any]:
    """The smaller of two sizes, for each pair."""
    return np.asarray(np.minimum(size[:, None], size[None, :]))


def alike(a: FloatArray, b: FloatArray) -> FloatArray:
    """How often the members put two rows together in s and in q, (n, n); ``a``, ``b`` are (members, n, K).

    >>> one = np.eye(2)[[0, 0, 1]][None]
    >>> alike(one, np.eye(2)[[0, 1, 1]][None]).round(1).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    product: NDArray[np.float32] | None = None
    for votes in (a, b):
        total = np.zeros((votes.shape[1],) * 2, dtype=np.float32)
        for member in votes:
            unit = member / np.linalg.norm(member, axis=1, keepdims=True)
            total += (unit @ unit.T).astype(np.float32)
        total /= len(votes)
        product = total if product is None else np.sqrt(product * total)
    assert product is not None
    return np.clip(product, 0.0, 1.0).astype(np.float64)


def together(a: FloatArray, b: FloatArray) -> FloatArray:
    """How much likelier than chance each pair of votes is, (n,): the mean over members of log P / E.

    Rows below 0 are pairs that the inputs do not share: one sees something, and the other nothing of it.

    >>> votes = np.eye(2)[[0, 0, 0, 1, 1, 0]][None]
    >>> (together(votes, votes[:, [0, 1, 2, 3, 5, 4]]) > 0).tolist()
    [True, True, True, True, False, False]
    """
    total = np.zeros(a.shape[1])
    for x, y in zip(a, b, strict=True):
        table = x.T @ y / len(x)
        ratio = table / np.maximum(table.sum(1)[:, None] * table.sum(0)[None, :], 1e-12)
        total += np.log(np.maximum(np.einsum("nk,kl,nl->n", x, ratio, y, optimize=True), 1e-12))
    return np.asarray(total / len(a))


def groups(likeness: FloatArray, most: int, least: int) -> IntArray:
    """At most ``most`` groups of rows that are alike (average linkage); -1 for groups below ``least`` rows."""
    distance = 1.0 - likeness
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    label = fcluster(tree, most, "maxclust").astype(np.int64) - 1
    small = np.bincount(label) < least
    return compact(np.where(small[label], -1, label))


def merge_overlapping(posterior: FloatArray, most: float, apart: Apart | None = None) -> IntArray:
    """New number of each mode after merging those that overlap most, until none overlaps more than ``most``.

    ``posterior`` (n, K) is how sure each row is of each mode, with rows that sum to 1. The overlap of
    two modes is the part of the smaller one's rows that would as well be the other's. ``apart`` tells, of
    two sets of modes that were merged so far, whether they must not be.

    >>> sure = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.4, 0.6], [0.99, 0.01, 0]])
    >>> merge_overlapping(sure, 0.05).tolist()
    [0, 1, 1]
    """
    shared, size = posterior.T @ posterior, posterior.sum(0)
    group = np.arange(posterior.shape[1])
    while len(size) > 1:
        overlap = shared / np.maximum(_fewer(size), 1e-12)
        pair = _next_pair(overlap, most, group, apart)
        if pair is None:
            break
        k, m = pair
        shared[k] += shared[m]
        shared[:, k] += shared[:, m]
        size[k] += size[m]
        shared, size = np.delete(np.delete(shared, m, 0), m, 1), np.delete(size, m)
        group[group == m] = k
        group[group > m] -= 1
    return group


def relabelled(a: FloatArray, b: FloatArray, labels: IntArray) -> IntArray:
    """The posterior labels, given the sizes of the modes as labelled so far."""
    known = labels[labels >= 0]
    size = np.bincount(known, minlength=a.shape[1]) / max(1, len(known))
    evidence, total = posterior(a, b, np.maximum(size, 1.0 / len(labels)))
    return np.where(total < DISAGREE, -1, evidence.argmax(1))


def stability_of(final: IntArray, k: int, labels: list[IntArray]) -> float:
    """How well mode ``k`` comes back in the members: the mean over them of the best overlap (Jaccard).

    A member that cut the mode in pieces is given its pieces together.
    """
    own = final == k
    found = []
    for label in labels:
        inside = np.bincount(label[own & (label >= 0)], minlength=int(label.max()) + 2)
        whole = np.bincount(label[label >= 0], minlength=len(inside))
        pieces = inside * 2 > np.maximum(whole, 1)
        joined = pieces[np.maximum(label, 0)] & (label >= 0)
        found.append(_jaccard(own, joined))
    return float(np.mean(found))


def _jaccard(a: BoolArray, b: BoolArray) -> float:
    return float((a & b).sum() / max(1, (a | b).sum()))


def renumbered(labels: IntArray, group: IntArray) -> IntArray:
    """Labels with the new number of each mode; -1 stays."""
    return np.where(labels >= 0, group[np.maximum(labels, 0)], -1)


def compact(label: IntArray) -> IntArray:
    """Labels renumbered from 0 without gaps; -1 stays."""
    known = np.unique(label[label >= 0])
    table = np.full(int(label.max()) + 2, -1)
    table[known] = np.arange(len(known))
    return np.where(label >= 0, table[np.maximum(label, 0)], -1)
