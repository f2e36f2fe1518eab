"""From K outputs of several members to one labelling of the rows.

Two rows are alike if the members put them together *in both inputs at once*; groups of rows
that are alike are candidates (:func:`alike`, :func:`groups`). Which of them are coincidences is asked in
:mod:`coad.modes.evidence`, and which are one in :mod:`coad.modes.merging`.

The posterior of a row combines its inputs: ``a_k b_k / π_k`` is what the pair says for mode k against
chance. Its sum over k is how many times likelier the pair is than a pairing of strangers; where
it is below ``DISAGREE`` the inputs contradict each other. (Below 1 would be too strict: with one mode of
97 %, confidences of 0.99 and 0.96 already give 0.99.)
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
    "agreed",
    "clearest",
    "coassociation",
    "compact",
    "groups",
    "joining",
    "joint_counts",
    "log_coincidence_ratio",
    "matched",
    "merged_into",
    "nearness",
    "part_of_rows",
    "posterior",
    "relabelled",
    "renumbered",
    "stability_of",
]

DISAGREE = 0.5


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


def joint_counts(first: IntArray, second: IntArray, k: int) -> IntArray:
    """How often s votes for one mode and q for another, (k, k)."""
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.int64)


def coassociation(a: FloatArray, b: FloatArray) -> FloatArray:
    """How often the members put two rows together in s and in q, (n, n); ``a``, ``b`` are (members, n, K).

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


def nearness(
    a: FloatArray, b: FloatArray, labels: IntArray, fold: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """How much each row is like the rows of each group in s, and in q, (n, groups): average linkage for all rows.

    With ``fold``, only the member that did not learn from a row is asked about it (rows that all learned from: 0).
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
    """How much likelier than chance each pair of votes is, (n,): the mean over members of log P / E.

    Rows below 0 are pairs that the inputs do not share: one sees something, and the other nothing of it.

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


def groups(likeness: FloatArray, most: int, least: int) -> IntArray:
    """At most ``most`` groups of rows that are alike (average linkage); -1 for groups below ``least`` rows."""
    distance = 1.0 - likeness
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    label = fcluster(tree, most, "maxclust").astype(np.int64) - 1
    small = np.bincount(label) < least
    return compact(np.where(small[label], -1, label))


def relabelled(a: FloatArray, b: FloatArray, size: FloatArray) -> IntArray:
    """The posterior labels of modes of these sizes."""
    evidence, total = posterior(a, b, size)
    return np.where(total < DISAGREE, -1, evidence.argmax(1))


def part_of_rows(labels: IntArray, modes: int = 0) -> FloatArray:
    """The size of each mode, as part of the rows that have one; never less than a row's."""
    known = labels[labels >= 0]
    return np.maximum(np.bincount(known, minlength=modes) / max(1, len(known)), 1.0 / len(labels))


def agreed(a: FloatArray, b: FloatArray, labels: IntArray) -> FloatArray:
    """The part of each mode's rows that s and q both vote for, (K,).

    >>> votes = np.eye(2)[[0, 0, 1, 0]]
    >>> agreed(votes, votes, np.array([0, 0, 1, 1])).tolist()
    [1.0, 0.5]
    """
    known = np.flatnonzero(labels >= 0)
    right = (a[known].argmax(1) == labels[known]) & (b[known].argmax(1) == labels[known])
    count = np.bincount(labels[known], minlength=a.shape[1])
    return np.asarray(np.bincount(labels[known], weights=right, minlength=a.shape[1]) / np.maximum(count, 1))


def merged_into(before: IntArray, after: IntArray, modes: int) -> IntArray:
    """The mode that each of the modes ``before`` merging became, (modes,); -1 if none of its rows has one.

    >>> merged_into(np.array([0, 0, 1, 2, -1]), np.array([0, 0, 0, 1, 1]), 4).tolist()
    [0, 0, 1, -1]
    """
    known = (before >= 0) & (after >= 0)
    found = np.full(modes, -1)
    found[before[known]] = after[known]
    return found


def joining(mode: IntArray) -> FloatArray:
    """What votes for pieces are multiplied by to be votes for the modes that these became; -1: for none.

    >>> (np.array([[0.2, 0.3, 0.5]]) @ joining(np.array([0, 0, -1]))).tolist()
    [[0.5]]
    """
    return np.asarray(np.eye(int(mode.max()) + 1)[np.maximum(mode, 0)] * (mode >= 0)[:, None])


def clearest(clarity: FloatArray, labels: IntArray, least: float) -> IntArray:
    """Labels without rows (-1) that are less than ``least`` times as clear as the typical row of their mode.

    A mode whose typical row is not clear at all keeps its rows: it is what is left, not what is seen.

    >>> clearest(np.array([1.0, 1.0, 0.2, 9.0, 8.0, 2.0, 0.0]), np.array([0, 0, 0, 1, 1, 1, -1]), 0.5).tolist()
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
    """How well mode ``k`` comes back in the members: the mean over them of the overlap (Jaccard).

    ``members`` are the votes of s and of q of each. A member that cut the mode in pieces is given its pieces together,
    whichever of them s and q choose.

    >>> final, cut = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 2, 2, 1, 1])
    >>> stability_of(final, 0, [(cut, np.array([0, 2, 0, 2, 1, 1]))])
    1.0
    """
    own = final == k
    found = []
    for member in members:
        joined = np.ones(len(final), dtype=bool)
        for votes in member:
            inside, whole = (
                np.bincount(rows, minlength=int(votes.max()) + 1) for rows in (votes[own], votes)
            )
            joined &= (2 * inside > whole)[votes]
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
