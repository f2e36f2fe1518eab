"""From the outputs of an ensemble to one labelling of the rows.

Rows that the members put into the same output *in both inputs* are grouped (co-association; Fred and Jain, 2005).
:mod:`coad.modes.layer` trains networks on these groups.

The evidence of a pair for mode k is ``a_k b_k / π_k``, where a and b are the confidences of s and q and π_k is the mode's
size. Its sum over k is the likelihood ratio of the pair against a random pairing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "MIN_ROWS",
    "coassociation",
    "group_rows",
    "mode_of_rows",
    "pair_evidence",
    "stability_of",
]

#: Rows of the co-association matrix, whose cost is quadratic; the others join the most similar group.
_COASSOCIATED = 2_000
#: Two groups are one if the members put their rows together in three of ten cases. A majority would leave pieces: members
#: are trained briefly, on other rows each, and draw the borders of neighbouring modes in ways of their own. Of 0.2, 0.3 and
#: 0.5, looked at on three digits, two faults of the rig and two tables with labels in view, 0.3 does best.
_TOGETHER = 0.3
#: Modes of fewer rows are not listed: nothing can be tested with less.
MIN_ROWS = 5
#: Pairs with a likelihood ratio below this contradict each other. 1 would be too strict: with one mode of 97 % of the
#: rows, confidences of 0.99 and 0.96 already give 0.99.
_DISAGREE = 0.5

#: The outputs of each member for all rows, (n, K).
Votes = Sequence[FloatArray] | FloatArray


def group_rows(a: Votes, b: Votes, rng: np.random.Generator, together: float = _TOGETHER) -> IntArray:
    """The group of each row by average linkage of the co-association; ``a`` and ``b`` are (n, K) for each member.

    Groups are joined if the members put their rows ``together`` in more than that share of the cases. Rows in no group,
    because the members disagree on them, are the last group together.
    """
    n = len(a[0])
    some = np.sort(rng.permutation(n)[:_COASSOCIATED])
    sampled = coassociation([own[some] for own in a], [own[some] for own in b])
    distance = np.maximum(1.0 - sampled, 0.0).astype(np.float64)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    found = fcluster(tree, 1.0 - together, "distance") - 1
    large = np.flatnonzero(np.bincount(found) >= MIN_ROWS)
    number = np.full(int(found.max()) + 1, -1)
    number[large] = np.arange(len(large))
    labels = np.full(n, -1)
    labels[some] = number[found]
    rest = np.setdiff1d(np.arange(n), some)
    if len(rest) and len(large):
        similar = _group_similarity(a, b, some, labels[some], rest)
        labels[rest] = np.where(similar.max(1) >= together, similar.argmax(1), -1)
    return np.where(labels < 0, len(large), labels)


def coassociation(a: Votes, b: Votes) -> FloatArray:
    """Co-association of rows in both inputs, (n, n): the geometric mean of their cosine similarities in s and in q,
    each averaged over members; ``a`` and ``b`` are (n, K) for each member.

    >>> one = np.eye(2)[[0, 0, 1]][None]
    >>> coassociation(one, np.eye(2)[[0, 1, 1]][None]).round(1).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    both = []
    for votes in (a, b):
        side_by_side = np.concatenate([_unit(own) for own in votes], axis=1)
        both.append(side_by_side @ side_by_side.T / len(votes))
    return np.asarray(np.sqrt(both[0] * both[1]))


def _group_similarity(a: Votes, b: Votes, some: IntArray, labels: IntArray, rest: IntArray) -> FloatArray:
    """The mean co-association of the ``rest`` of the rows with the groups of ``some``, (rest, groups)."""
    member = np.eye(int(labels.max()) + 1, dtype=np.float32)[np.maximum(labels, 0)] * (labels >= 0)[:, None]
    member /= member.sum(0)
    both = []
    for votes in (a, b):
        similar = [_unit(own[rest]) @ (_unit(own[some]).T @ member) for own in votes]
        both.append(np.mean(similar, axis=0))
    return np.asarray(np.sqrt(both[0] * both[1]))


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
