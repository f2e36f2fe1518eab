"""From the K outputs of several ensemble members to one labelling of the rows.

Rows that the members put in the same output *in both inputs* are grouped (:func:`coassociation`,
:func:`linkage_groups`). :mod:`coad.modes.evidence` tests which groups are coincident, and :mod:`coad.modes.merging`
decides which groups are one mode.

The evidence of a pair for mode k is ``a_k b_k / π_k``, where a and b are the outputs for s and q and π_k is the mode's
size. Its sum over k is the likelihood ratio of the pair against a random pairing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "DISAGREE",
    "agreement_by_mode",
    "coassociation",
    "compact",
    "drop_unclear",
    "group_similarity",
    "joint_counts",
    "linkage_groups",
    "log_coincidence_ratio",
    "log_pair_evidence",
    "match_outputs",
    "merged_modes",
    "mode_sizes",
    "pair_evidence",
    "pooling_matrix",
    "posterior_labels",
    "renumbered",
    "stability_of",
]

#: Pairs with a likelihood ratio below this contradict each other. 1 would be too strict: with one mode of 97 % of the
#: rows, confidences of 0.99 and 0.96 already give 0.99.
DISAGREE = 0.5


def match_outputs(a: FloatArray, b: FloatArray) -> FloatArray:
    """``b`` (members, n, K) with its outputs in the order of ``a``'s: the assignment with the most joint weight."""
    out = np.empty_like(b)
    for m in range(len(a)):
        table = a[m].T @ b[m]
        out[m] = b[m][:, linear_sum_assignment(-table)[1]]
    return out


def pair_evidence(a: FloatArray, b: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evidence ``a_k b_k / π_k`` of each row for each mode (n, K), and its sum over modes (n,)."""
    evidence = a * b / np.maximum(size, 1e-6)
    return evidence, evidence.sum(-1)


def log_pair_evidence(a: FloatArray, b: FloatArray, size: FloatArray) -> FloatArray:
    """ln(a_k b_k / π_k) of each row for each mode, always finite, so that modes that are ruled out can be ranked.

    >>> log_pair_evidence(np.array([[1.0, 1e-200]]), np.array([[1.0, 1e-200]]), np.array([1.0, 1.0])).round(0).tolist()
    [[0.0, -921.0]]
    """
    logs = [np.log(np.maximum(np.asarray(votes, dtype=np.float64), 1e-300)) for votes in (a, b)]
    return np.asarray(logs[0] + logs[1] - np.log(np.maximum(size, 1e-6)))


def joint_counts(first: IntArray, second: IntArray, k: int) -> IntArray:
    """How often s votes for one mode and q for another, (k, k)."""
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.int64)


def coassociation(a: FloatArray, b: FloatArray) -> FloatArray:
    """Co-association of rows in both inputs, (n, n): the geometric mean of their cosine similarities in s and in q,
    each averaged over members; ``a`` and ``b`` are (members, n, K).

    >>> one = np.eye(2)[[0, 0, 1]][None]
    >>> coassociation(one, np.eye(2)[[0, 1, 1]][None]).round(1).tolist()
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


def group_similarity(
    a: FloatArray, b: FloatArray, labels: IntArray, fold: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean cosine similarity of each row to the rows of each group, in s and in q, (n, groups).

    With ``fold``, only the member that was not trained on a row is used for it (0 if all were).
    """
    known = np.flatnonzero(labels >= 0)
    member = np.eye(int(labels.max()) + 1)[labels[known]]
    member /= np.maximum(member.sum(0), 1.0)
    found = []
    for votes in (a, b):
        total = np.zeros((votes.shape[1], member.shape[1]))
        for m, own in enumerate(votes):
            unit = own / np.linalg.norm(own, axis=1, keepdims=True)
            weight = 1.0 / len(votes) if fold is None else (fold == m)[:, None]
            total += weight * (unit @ (unit[known].T @ member))
        found.append(total)
    return found[0], found[1]


def log_coincidence_ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """log(observed / expected by chance) of each pair of votes, averaged over members, (n,).

    Negative values are pairs in which only one input shows something.

    >>> votes = np.eye(2)[[0, 0, 0, 1, 1, 0]][None]
    >>> (log_coincidence_ratio(votes, votes[:, [0, 1, 2, 3, 5, 4]]) > 0).tolist()
    [True, True, True, True, False, False]
    """
    total = np.zeros(a.shape[1])
    for x, y in zip(a, b, strict=True):
        table = x.T @ y / len(x)
        ratio = table / np.maximum(table.sum(1)[:, None] * table.sum(0)[None, :], 1e-12)
        total += np.log(np.maximum(np.einsum("nk,kl,nl->n", x, ratio, y, optimize=True), 1e-12))
    return np.asarray(total / len(a))


def linkage_groups(similarity: FloatArray, most: int, least: int) -> IntArray:
    """At most ``most`` groups of rows by average linkage; groups of fewer than ``least`` rows get -1."""
    distance = 1.0 - similarity
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    label = fcluster(tree, most, "maxclust").astype(np.int64) - 1
    small = np.bincount(label) < least
    return compact(np.where(small[label], -1, label))


def posterior_labels(a: FloatArray, b: FloatArray, size: FloatArray) -> IntArray:
    """The mode with the most evidence for each row, -1 where the inputs disagree."""
    evidence, total = pair_evidence(a, b, size)
    return np.where(total < DISAGREE, -1, evidence.argmax(1))


def mode_sizes(labels: IntArray, modes: int = 0) -> FloatArray:
    """The size of each mode as a fraction of the labelled rows; at least one row's worth, so that it can be divided by."""
    known = labels[labels >= 0]
    return np.maximum(np.bincount(known, minlength=modes) / max(1, len(known)), 1.0 / len(labels))


def agreement_by_mode(a: FloatArray, b: FloatArray, labels: IntArray) -> FloatArray:
    """The fraction of each mode's rows for which s and q both vote for it, (K,).

    >>> votes = np.eye(2)[[0, 0, 1, 0]]
    >>> agreement_by_mode(votes, votes, np.array([0, 0, 1, 1])).tolist()
    [1.0, 0.5]
    """
    known = np.flatnonzero(labels >= 0)
    right = (a[known].argmax(1) == labels[known]) & (b[known].argmax(1) == labels[known])
    count = np.bincount(labels[known], minlength=a.shape[1])
    return np.asarray(np.bincount(labels[known], weights=right, minlength=a.shape[1]) / np.maximum(count, 1))


def merged_modes(before: IntArray, after: IntArray, modes: int) -> IntArray:
    """The mode that each mode of the labels ``before`` merging has in the labels ``after``, (modes,); -1 if it has none.

    >>> merged_modes(np.array([0, 0, 1, 2, -1]), np.array([0, 0, 0, 1, 1]), 4).tolist()
    [0, 0, 1, -1]
    """
    known = (before >= 0) & (after >= 0)
    found = np.full(modes, -1)
    found[before[known]] = after[known]
    return found


def pooling_matrix(mode: IntArray) -> FloatArray:
    """The 0/1 matrix that sums outputs into the ``mode`` of each output; outputs with -1 are dropped.

    >>> (np.array([[0.2, 0.3, 0.5]]) @ pooling_matrix(np.array([0, 0, -1]))).tolist()
    [[0.5]]
    """
    return np.asarray(np.eye(int(mode.max()) + 1)[np.maximum(mode, 0)] * (mode >= 0)[:, None])


def drop_unclear(clarity: FloatArray, labels: IntArray, least: float) -> IntArray:
    """Labels in which rows with a clarity below ``least`` × their mode's median are -1.

    A mode with a median of 0 or less keeps its rows: it is the background of the other modes.

    >>> drop_unclear(np.array([1.0, 1.0, 0.2, 9.0, 8.0, 2.0, 0.0]), np.array([0, 0, 0, 1, 1, 1, -1]), 0.5).tolist()
    [0, 0, -1, 1, 1, -1, -1]
    """
    out = labels.copy()
    for k in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == k)
        typical = np.median(clarity[rows])
        if typical > 0:
            out[rows[clarity[rows] < least * typical]] = -1
    return out


def stability_of(final: IntArray, k: int, members: list[tuple[IntArray, IntArray]]) -> float:
    """Mean Jaccard overlap of mode ``k`` with its counterpart in each member, 0 to 1.

    ``members`` are the votes of s and of q. The counterpart is the union of the outputs that are mostly mode ``k``, so
    a member that splits the mode is not penalised.

    >>> final, split = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 2, 2, 1, 1])
    >>> stability_of(final, 0, [(split, np.array([0, 2, 0, 2, 1, 1]))])
    1.0
    """
    own = final == k
    found = []
    for member in members:
        counterpart = np.ones(len(final), dtype=bool)
        for votes in member:
            inside, whole = (
                np.bincount(rows, minlength=int(votes.max()) + 1) for rows in (votes[own], votes)
            )
            counterpart &= (2 * inside > whole)[votes]
        found.append(_jaccard(own, counterpart))
    return float(np.mean(found))


def _jaccard(a: BoolArray, b: BoolArray) -> float:
    return float((a & b).sum() / max(1, (a | b).sum()))


def renumbered(labels: IntArray, group: IntArray) -> IntArray:
    """Labels with the new number of each mode; -1 stays."""
    return np.where(labels >= 0, group[np.maximum(labels, 0)], -1)


def compact(label: IntArray) -> IntArray:
    """Labels renumbered from 0 without unused numbers; -1 stays."""
    known = np.unique(label[label >= 0])
    table = np.full(int(label.max()) + 2, -1)
    table[known] = np.arange(len(known))
    return np.where(label >= 0, table[np.maximum(label, 0)], -1)
