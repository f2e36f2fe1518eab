"""From the outputs of an ensemble to groups of rows, and from groups to modes.

Rows that the members put into the same output *in both inputs* are grouped (co-association; Fred and Jain, 2005). Then
pairs of groups are merged for as long as the information that s and q share about the groups, on rows that no voting network
has seen, does not fall by more than a standard error.

The evidence of a pair for mode k is ``a_k b_k / π_k``, where a and b are the confidences of s and q and π_k is the mode's
size. Its sum over k is the likelihood ratio of the pair against a random pairing.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "MIN_ROWS",
    "coassociation",
    "cross_information",
    "fold_tables",
    "group_rows",
    "information_loss",
    "map_outputs",
    "merge_groups",
    "mode_of_rows",
    "pair_evidence",
    "stability_of",
]

#: Rows of the co-association matrix, whose cost is quadratic; the others join the most similar group.
_COASSOCIATED = 2_000
#: Two groups stay apart if the members separate their rows in more than half of the cases: a majority.
_MAJORITY = 0.5
#: Modes of fewer rows are not listed: nothing can be tested with less.
MIN_ROWS = 5
#: Pairs with a likelihood ratio below this contradict each other. 1 would be too strict: with one mode of 97 % of the
#: rows, confidences of 0.99 and 0.96 already give 0.99.
_DISAGREE = 0.5


def group_rows(a: FloatArray, b: FloatArray, rng: np.random.Generator) -> IntArray:
    """The group of each row by average linkage of the co-association; ``a`` and ``b`` are (members, n, K).

    Rows that are in no group, because the members disagree on them, are the last group together.
    """
    n = a.shape[1]
    some = np.sort(rng.permutation(n)[:_COASSOCIATED])
    distance = np.maximum(1.0 - coassociation(a[:, some], b[:, some]), 0.0)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    found = fcluster(tree, 1.0 - _MAJORITY, "distance") - 1
    found = _compact(np.where(np.bincount(found)[found] < MIN_ROWS, -1, found))
    count = int(found.max()) + 1
    labels = np.full(n, -1)
    labels[some] = found
    rest = np.setdiff1d(np.arange(n), some)
    if len(rest) and count:
        similar = _group_similarity(a, b, some, found, rest)
        labels[rest] = np.where(similar.max(1) >= _MAJORITY, similar.argmax(1), -1)
    return np.where(labels < 0, count, labels)


def coassociation(a: FloatArray, b: FloatArray) -> FloatArray:
    """Co-association of rows in both inputs, (n, n): the geometric mean of their cosine similarities in s and in q,
    each averaged over members; ``a`` and ``b`` are (members, n, K).

    >>> one = np.eye(2)[[0, 0, 1]][None]
    >>> coassociation(one, np.eye(2)[[0, 1, 1]][None]).round(1).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    both = []
    for votes in (a, b):
        unit = _unit(votes)
        both.append(sum((own @ own.T for own in unit), np.zeros((1, 1), np.float32)) / len(votes))
    return np.asarray(np.sqrt(both[0] * both[1]))


def _group_similarity(
    a: FloatArray, b: FloatArray, some: IntArray, labels: IntArray, rest: IntArray
) -> FloatArray:
    """The mean co-association of the ``rest`` of the rows with the groups of ``some``, (rest, groups)."""
    member = np.eye(int(labels.max()) + 1, dtype=np.float32)[np.maximum(labels, 0)] * (labels >= 0)[:, None]
    member /= member.sum(0)
    both = []
    for votes in (a, b):
        similar = [_unit(own[rest]) @ (_unit(own[some]).T @ member) for own in votes]
        both.append(np.mean(similar, axis=0))
    return np.asarray(np.sqrt(both[0] * both[1]))


def map_outputs(votes: FloatArray, labels: IntArray, used: BoolArray, groups: int) -> FloatArray:
    """The share of each group among the ``used`` rows that vote for an output, (members, K, groups).

    >>> votes = np.eye(3)[[0, 0, 1, 2]][None]
    >>> map_outputs(votes, np.array([0, 0, 1, 0]), np.array([True, True, True, False]), 2)[0, :2].round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = np.flatnonzero(used & (labels >= 0))
    count = np.zeros((len(votes), votes.shape[2], groups))
    for own, member in zip(count, votes[:, rows].argmax(2), strict=True):
        np.add.at(own, (member, labels[rows]), 1.0)
    tiny = 1e-3  # of a row: an output that no row votes for has the shares of all rows
    shares = np.bincount(labels[rows], minlength=groups) / max(len(rows), 1)
    return np.asarray((count + tiny * shares) / (count.sum(2, keepdims=True) + tiny))


def fold_tables(s: IntArray, q: IntArray, fold: IntArray, k: int) -> FloatArray:
    """How often s votes for one group and q for another in each fold, (folds, k, k)."""
    tables = np.zeros((int(fold.max()) + 1, k, k))
    np.add.at(tables, (fold, s, q), 1.0)
    return tables


def cross_information(tables: FloatArray) -> FloatArray:
    """ln(observed / chance) of each cell, (folds, k, k), for each fold from the rows of the *other* folds.

    Its mean over the rows is the information of s and q in nats, without the bias of a table that is judged by itself. A
    row is added to what was observed and to what is expected, so that an empty cell is no certainty.
    """
    others = tables.sum(0) - tables
    total = np.maximum(others.sum((1, 2), keepdims=True), 1.0)
    chance = others.sum(2, keepdims=True) * others.sum(1, keepdims=True) / total
    return np.asarray(np.log((others + 1.0) / (chance + 1.0)))


def merge_groups(tables: FloatArray) -> IntArray:
    """The mode of each group: the fewest that share, within one standard error, the most information of any merging.

    The pair whose union loses the least information is merged first; :func:`fold_tables` are the held-out votes.

    >>> split = np.array([[40, 38, 1], [42, 40, 1], [1, 1, 90]])  # s and q choose between 0 and 1 independently
    >>> merge_groups(np.stack([split, split, split])).tolist()
    [0, 0, 1]
    """
    group = np.arange(tables.shape[1])
    rows = tables.sum()
    path = []
    while True:
        value = cross_information(tables)
        mean = float((tables * value).sum() / rows)
        error = float(np.sqrt(max((tables * value**2).sum() / rows - mean**2, 0.0) / rows))
        path.append((mean, error, group.copy()))
        if tables.shape[1] <= 2:
            break
        loss = information_loss(tables.sum(0))
        loss[np.tril_indices(len(loss))] = np.inf
        k, m = np.unravel_index(int(loss.argmin()), loss.shape)
        for axis in (1, 2):
            joined = tables.take(k, axis) + tables.take(m, axis)
            tables = np.delete(tables, m, axis)
            tables[(slice(None),) * axis + (k,)] = joined
        group[group == m] = k
        group[group > m] -= 1
    most, error, _ = max(path, key=lambda step: step[0])
    return next(found for mean, _, found in reversed(path) if mean >= most - error)


def information_loss(counts: FloatArray) -> FloatArray:
    """Mutual information in nats that the table of votes loses by merging two groups, (k, k).

    All votes count, also those for third groups: two pieces of one mode are confused with each other and with other
    pieces in the same proportions, and merging them loses nothing.

    >>> information_loss(np.array([[20, 20, 5], [20, 20, 5], [5, 5, 90]])).round(2).tolist()[0]
    [0.0, 0.0, 0.32]
    """
    p = counts / max(float(counts.sum()), 1.0)

    def f(x: FloatArray) -> FloatArray:
        return np.asarray(x * np.log(np.maximum(x, 1e-300)))

    def pairs(x: FloatArray) -> FloatArray:
        """f of the sum less the sum of f, for each pair."""
        return f(x[:, None] + x[None, :]) - f(x)[:, None] - f(x)[None, :]

    row, column, d = p.sum(1), p.sum(0), p.diagonal()
    cells = np.zeros_like(p)
    for one, other in ((p, p.T), (p.T, p)):
        cells += pairs(one).sum(2)
        # The four cells of the two groups are merged in both directions at once, so they are counted separately below.
        for x in (d[:, None], d[None, :]):
            cells -= f(x + other) - f(x) - f(other)
    block = d[:, None] + d[None, :] + p + p.T
    cells += f(block) - f(d)[:, None] - f(d)[None, :] - f(p) - f(p.T)
    loss = pairs(row) + pairs(column) - cells
    np.fill_diagonal(loss, 0.0)
    return np.asarray(loss)


def pair_evidence(a: FloatArray, b: FloatArray, size: FloatArray) -> FloatArray:
    """Evidence ``a_k b_k / π_k`` of each row for each mode, (n, K)."""
    return np.asarray(a * b / np.maximum(size, 1e-6))


def mode_of_rows(evidence: FloatArray) -> IntArray:
    """The mode with the most evidence for each row, -1 where the inputs disagree."""
    if evidence.shape[1] == 0:
        return np.full(len(evidence), -1)
    agree = evidence.sum(1) >= _DISAGREE  # False for NaN
    return np.asarray(np.where(agree, evidence.argmax(1), -1), dtype=np.int64)


def stability_of(own: BoolArray, members: list[tuple[IntArray, IntArray]]) -> float:
    """Mean Jaccard overlap of the rows of a mode with its counterpart in each member, 0 to 1.

    ``members`` are the votes of s and of q. The counterpart is the union of the outputs that are mostly of the mode, so
    a member that splits the mode is not penalised.

    >>> own, split = np.array([True] * 4 + [False] * 2), np.array([0, 0, 2, 2, 1, 1])
    >>> stability_of(own, [(split, np.array([0, 2, 0, 2, 1, 1]))])
    1.0
    """
    found = []
    for member in members:
        counterpart = np.ones(len(own), dtype=bool)
        for votes in member:
            inside, whole = (
                np.bincount(rows, minlength=int(votes.max()) + 1) for rows in (votes[own], votes)
            )
            counterpart &= (2 * inside > whole)[votes]
        found.append((own & counterpart).sum() / max(1, (own | counterpart).sum()))
    return float(np.mean(found))


def _unit(votes: FloatArray) -> FloatArray:
    return np.asarray(votes / np.linalg.norm(votes, axis=-1, keepdims=True), dtype=np.float32)


def _compact(label: IntArray) -> IntArray:
    """Labels renumbered from 0 without unused numbers; -1 stays."""
    known = np.unique(label[label >= 0])
    table = np.full(int(label.max()) + 2, -1)
    table[known] = np.arange(len(known))
    return np.where(label >= 0, table[np.maximum(label, 0)], -1)
