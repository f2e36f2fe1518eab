"""Tests on held-out rows: coincidence against chance, and against slow drift."""

from __future__ import annotations

import numpy as np
from scipy.stats import hypergeom

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import joint_counts, posterior_labels

__all__ = [
    "chance_share",
    "coincident_groups",
    "corrected_information",
    "global_p_value",
    "mode_p_values",
    "normalised_information",
    "shift_p_value",
]

#: A group is coincident from this many standard errors of the covariance on (one-sided 0.1 %).
_Z = 3.0
#: A group with fewer joint rows than the first × chance is a mix of two others if one of its sides has a z-score that is
#: the second × larger with the opposite side of another group.
_WEAK, _BETTER = 1.5, 1.5


def mode_p_values(counts: IntArray) -> FloatArray:
    """The hypergeometric p-value of each mode's joint votes, if q's votes were shuffled over the rows."""
    n = int(counts.sum())
    joint = counts.diagonal()
    return np.asarray(hypergeom.sf(joint - 1, n, counts.sum(1), counts.sum(0)), dtype=np.float64)


def chance_share(
    a: FloatArray, b: FloatArray, size: FloatArray, context: IntArray | None = None, permutations: int = 5
) -> FloatArray:
    """The fraction of each mode's rows that it keeps if q's rows are shuffled (within the context), (K,).

    >>> rng = np.random.default_rng(0)
    >>> kind = rng.choice(3, size=2000, p=[0.45, 0.45, 0.1])  # both inputs see 2; each draws 0 or 1 independently
    >>> a, b = (np.eye(3)[np.where(kind < 2, rng.integers(2, size=2000), 2)] for _ in range(2))
    >>> chance_share(a, b, np.array([0.3, 0.3, 0.1])).round(1).tolist()
    [0.9, 0.9, 0.1]
    """
    rng = np.random.default_rng(len(a))  # any seed does, as long as it is the same each time

    def rows_of(other: FloatArray) -> FloatArray:
        label = posterior_labels(a, other, size)
        return np.bincount(label[label >= 0], minlength=len(size)).astype(np.float64)

    shuffled = np.mean([rows_of(b[_shuffled(len(b), context, rng)]) for _ in range(permutations)], axis=0)
    return np.asarray(shuffled / np.maximum(rows_of(b), 1.0))


def _shuffled(n: int, code: IntArray | None, rng: np.random.Generator) -> IntArray:
    """A random order of the rows in which each stays within its context."""
    if code is None:
        return rng.permutation(n)
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(code, kind="stable")] = np.lexsort((rng.random(n), code))
    return order


def global_p_value(
    votes: list[tuple[IntArray, IntArray]],
    k: int,
    strata: list[IntArray | None],
    rng: np.random.Generator,
    permutations: int = 199,
) -> float:
    """Permutation p-value of the mutual information of all members' held-out ``votes`` of s and q."""
    true = _information(votes, k)
    reached = 0
    for _ in range(permutations):
        orders = [_shuffled(len(b), code, rng) for (_, b), code in zip(votes, strata, strict=True)]
        reached += _information(votes, k, orders) >= true
    return (1 + reached) / (1 + permutations)


def shift_p_value(
    votes: list[tuple[IntArray, IntArray]],
    k: int,
    strata: list[IntArray | None],
    *,
    memory: int = 0,
    shifts: int = 99,
) -> float:
    """The p-value when q is moved in time instead of shuffled; rows are in time order.

    Slow inputs coincide at any shift, which shuffled pairings do not show. Shifts are circular, within the context, by
    10 to 90 % of the rows. Shifts by less than the ``memory`` of the inputs show nearly the same pairing, so a few long
    stretches cannot give a small p-value.

    >>> walks = np.random.default_rng(0).normal(size=(2, 900)).cumsum(1)
    >>> slow = [np.digitize(walk, np.quantile(walk, [0.25, 0.5, 0.75])) for walk in walks]
    >>> shift_p_value([(slow[0], slow[1])], 4, [None]) > 0.05, shift_p_value([(slow[0], slow[0])], 4, [None])
    (True, 0.01)
    >>> round(shift_p_value([(slow[0], slow[0])], 4, [None], memory=150), 2)
    0.17
    """
    true = _information(votes, k)
    reached = 0
    for part in np.linspace(0.1, 0.9, shifts):
        orders = [_rolled(len(b), code, part) for (_, b), code in zip(votes, strata, strict=True)]
        reached += _information(votes, k, orders) >= true
    rows = sum(len(b) for _, b in votes)
    different = min(shifts, 0.8 * rows / memory) if memory else shifts
    return (1 + different * reached / shifts) / (1 + different)


def _rolled(n: int, code: IntArray | None, part: float) -> IntArray:
    """The order of the rows after a circular shift by this part of them, or of those of each context."""
    if code is None:
        return np.roll(np.arange(n), round(part * n))
    order = np.empty(n, dtype=np.int64)
    for one in np.unique(code):
        rows = np.flatnonzero(code == one)
        order[rows] = np.roll(rows, round(part * len(rows)))
    return order


def corrected_information(first: IntArray, second: IntArray) -> float:
    """Mutual information of two labellings in nats, less its bias for independent ones (Miller, 1955).

    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.integers(4, size=(2, 5000))
    >>> round(corrected_information(one, one), 2), abs(round(corrected_information(one, other), 2))  # ln 4 is 1.39
    (1.39, 0.0)
    """
    counts = joint_counts(first, second, int(max(first.max(), second.max())) + 1)
    rows, columns = (np.count_nonzero(counts.sum(axis)) for axis in (1, 0))
    return float(_table_information(counts / len(first)) - (rows - 1) * (columns - 1) / (2 * len(first)))


def normalised_information(first: IntArray, second: IntArray) -> float:
    """:func:`corrected_information` divided by the geometric mean of both entropies; 1 for equal labellings.

    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.integers(4, size=(2, 5000))
    >>> round(normalised_information(one, one), 2), abs(round(normalised_information(one, other), 2))
    (1.0, 0.0)
    """
    entropies = [
        -float((p[p > 0] * np.log(p[p > 0])).sum())
        for p in (np.bincount(x) / len(x) for x in (first, second))
    ]
    return corrected_information(first, second) / max(float(np.sqrt(entropies[0] * entropies[1])), 1e-12)


def _information(
    votes: list[tuple[IntArray, IntArray]], k: int, orders: list[IntArray] | None = None
) -> float:
    """The sum of the mutual information over members, with q's rows in these orders."""
    total = 0.0
    for m, (first, second) in enumerate(votes):
        counts = joint_counts(first, second if orders is None else second[orders[m]], k)
        total += _table_information(counts / len(first))
    return total


def _table_information(table: FloatArray) -> float:
    """The mutual information of a table of joint fractions."""
    chance = table.sum(1)[:, None] * table.sum(0)[None, :]
    full = table > 0
    return float((table[full] * np.log(table[full] / chance[full])).sum())


def coincident_groups(
    similar_s: FloatArray, similar_q: FloatArray, context: IntArray | None = None
) -> BoolArray:
    """Which groups have similarities in s and in q (n, groups) that covary beyond chance.

    A group may also be the chance overlap of two others: rows that look like group A in s and like group B in q. Such
    a group is rejected: its s side covaries much more with A's q side than with its own.

    >>> rng = np.random.default_rng(0)
    >>> s, q, both = rng.random((3, 2000)) < 0.1
    >>> one, other = s | both, q | both
    >>> similar_s, similar_q = np.array([s, one, one]).T, np.array([q, other, ~other]).T
    >>> coincident_groups(similar_s.astype(float), similar_q.astype(float)).tolist()
    [False, True, False]
    """
    code = np.zeros(len(similar_s), dtype=np.int64) if context is None else context
    size = np.maximum(np.bincount(code), 1)[:, None]
    centred = []
    for similar in (similar_s, similar_q):
        total = np.zeros((len(size), similar.shape[1]))
        np.add.at(total, code, similar)
        centred.append(similar - (total / size)[code])
    covariance = centred[0].T @ centred[1] / len(code)
    variance = [np.square(x).mean(0) for x in centred]
    z = covariance / np.maximum(np.sqrt(variance[0][:, None] * variance[1][None, :] / len(code)), 1e-12)
    own = z.diagonal()
    joint = (similar_s * similar_q).mean(0)
    chance = joint - covariance.diagonal()
    # Only groups with a larger z-score of their own count, and the z-score with one of their sides is compared.
    better = np.maximum(np.where(own > z, z, 0.0).max(1), np.where(own[:, None] > z, z, 0.0).max(0))
    overlap = (joint < _WEAK * chance) & (better > _BETTER * own)
    return np.asarray((own > _Z) & ~overlap)
