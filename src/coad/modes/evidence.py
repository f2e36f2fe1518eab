"""Tests on held-out rows: coincidence against chance, and against slow drift."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc

from coad._typing import FloatArray, IntArray

__all__ = [
    "HeldOutVotes",
    "cross_information",
    "global_p_value",
    "holm",
    "joint_counts",
    "mode_p_values",
    "shift_p_value",
    "table_information",
]

#: The held-out votes of a fold's members: of s and of q (members, n), and the context of the rows, if there is one.
HeldOutVotes = tuple[IntArray, IntArray, IntArray | None]


def global_p_value(
    votes: list[HeldOutVotes], k: int, rng: np.random.Generator, permutations: int = 199
) -> float:
    """Permutation p-value of the mutual information of all members' held-out ``votes``.

    The members of a fold vote on the same rows, so that they share one permutation.
    """
    true = _information(votes, k)
    reached = 0
    for _ in range(permutations):
        reached += _information(votes, k, [_shuffled(s.shape[1], code, rng) for s, _, code in votes]) >= true
    return (1 + reached) / (1 + permutations)


def shift_p_value(votes: list[HeldOutVotes], k: int, *, memory: int = 0, shifts: int = 99) -> float:
    """The p-value when q is moved in time instead of shuffled; rows are in time order.

    Slow inputs coincide at any shift, which shuffled pairings do not show. Shifts are circular, within the context, by
    10 to 90 % of the rows. Shifts by less than the ``memory`` of the inputs show nearly the same pairing, so a few long
    stretches cannot give a small p-value.

    >>> walks = np.random.default_rng(0).normal(size=(2, 900)).cumsum(1)
    >>> slow = [np.digitize(walk, np.quantile(walk, [0.25, 0.5, 0.75]))[None] for walk in walks]
    >>> shift_p_value([(slow[0], slow[1], None)], 4) > 0.05, shift_p_value([(slow[0], slow[0], None)], 4)
    (True, 0.01)
    >>> round(shift_p_value([(slow[0], slow[0], None)], 4, memory=150), 2)
    0.17
    """
    true = _information(votes, k)
    reached = 0
    for part in np.linspace(0.1, 0.9, shifts):
        reached += _information(votes, k, [_rolled(s.shape[1], code, part) for s, _, code in votes]) >= true
    rows = sum(s.shape[1] for s, _, _ in votes)
    different = min(shifts, 0.8 * rows / memory) if memory else shifts
    return (1 + different * reached / shifts) / (1 + different)


def mode_p_values(s: IntArray, q: IntArray, k: int, strata: IntArray | None = None) -> FloatArray:
    """The p-value of each mode's joint votes, if q's votes were shuffled over the rows of each stratum, (k,).

    The joint votes are then a sum of hypergeometric counts, whose tail is that of the binomial distribution with the same
    mean and variance: with small counts nearly Poisson's, with many nearly normal.

    >>> votes = np.repeat([0, 1], [90, 10])
    >>> mode_p_values(votes, votes, 2).max() < 1e-9, mode_p_values(votes, votes[::-1], 2).min() > 0.1
    (np.True_, np.True_)
    """
    joint, mean, variance = np.zeros(k), np.zeros(k), np.zeros(k)
    parts = np.zeros(len(s), dtype=np.int64) if strata is None else strata
    for one in np.unique(parts):
        counts = joint_counts(s[parts == one], q[parts == one], k)
        n, row, column = max(int(counts.sum()), 2), counts.sum(1).astype(np.float64), counts.sum(0)
        joint, mean = joint + counts.diagonal(), mean + row * column / n
        variance = variance + row * column * (n - row) * (n - column) / (n**2 * (n - 1.0))
    chance = np.clip(1.0 - variance / np.maximum(mean, 1e-12), 1e-9, 1.0 - 1e-9)
    trials = np.maximum(mean / chance - joint + 1.0, 1e-9)
    return np.asarray(np.where(joint > 0, betainc(np.maximum(joint, 1.0), trials, chance), 1.0))


def holm(p_values: FloatArray) -> FloatArray:
    """P-values adjusted for their number (Holm, 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    adjusted = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    found = np.empty(len(order))
    found[order] = np.minimum(adjusted, 1.0)
    return found


def cross_information(s: IntArray, q: IntArray, fold: IntArray, k: int) -> FloatArray:
    """ln(observed / chance) of each row's pair of votes, (n,), counted on the rows of the *other* folds.

    Its mean is the information of s and q in nats, without the bias of a table that is judged by its own rows. A row is
    added to what was observed and to what is expected, so that an empty cell is no certainty.

    >>> votes, fold = np.tile([0, 1], 50), np.arange(100) // 50
    >>> 0.6 < float(cross_information(votes, votes, fold, 2).mean()) < 0.69  # ln 2 is 0.693
    True
    """
    tables = np.zeros((int(fold.max()) + 1, k, k))
    np.add.at(tables, (fold, s, q), 1.0)
    others = tables.sum(0) - tables
    total = np.maximum(others.sum((1, 2), keepdims=True), 1.0)
    chance = others.sum(2, keepdims=True) * others.sum(1, keepdims=True) / total
    return np.asarray(np.log((others + 1.0) / (chance + 1.0))[fold, s, q])


def joint_counts(first: IntArray, second: IntArray, k: int) -> IntArray:
    """How often s votes for one mode and q for another, (k, k)."""
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.int64)


def table_information(table: FloatArray | IntArray) -> float:
    """The mutual information of a table of counts, in nats.

    >>> round(table_information(np.array([[5, 0], [0, 5]])), 4)
    0.6931
    """
    p = table / max(float(table.sum()), 1.0)
    chance = p.sum(1)[:, None] * p.sum(0)[None, :]
    full = p > 0
    return float((p[full] * np.log(p[full] / chance[full])).sum())


def _information(votes: list[HeldOutVotes], k: int, orders: list[IntArray] | None = None) -> float:
    """The sum of the mutual information over all members, with q's rows in these orders."""
    total = 0.0
    for fold, (s, q, _) in enumerate(votes):
        moved = q if orders is None else q[:, orders[fold]]
        total += sum(table_information(joint_counts(x, y, k)) for x, y in zip(s, moved, strict=True))
    return total


def _shuffled(n: int, code: IntArray | None, rng: np.random.Generator) -> IntArray:
    """A random order of the rows in which each stays within its context."""
    if code is None:
        return rng.permutation(n)
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(code, kind="stable")] = np.lexsort((rng.random(n), code))
    return order


def _rolled(n: int, code: IntArray | None, part: float) -> IntArray:
    """The order of the rows after a circular shift by this part of them, or of those of each context."""
    if code is None:
        return np.roll(np.arange(n), round(part * n))
    order = np.empty(n, dtype=np.int64)
    for one in np.unique(code):
        rows = np.flatnonzero(code == one)
        order[rows] = np.roll(rows, round(part * len(rows)))
    return order
