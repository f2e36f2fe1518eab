"""From K outputs of several members to one labelling: match, test, merge, vote.

Everything here works on hard choices: A and B, the mode that s and q vote for, and on the
posterior label, which combines both: ``a_k b_k / π_k`` is what the pair says for mode k against
chance. Its sum over k is how many times likelier the pair is than a pairing of strangers; where
it is below ``DISAGREE`` the inputs contradict each other. (Below 1 would be too strict: with one mode of
97 %, confidences of 0.99 and 0.96 already give 0.99.)
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform
from scipy.stats import hypergeom

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "DISAGREE",
    "agreement",
    "consensus_labels",
    "global_p_value",
    "joint_counts",
    "matched",
    "member_labels",
    "merge_map",
    "mode_p_values",
    "posterior",
    "relabelled",
    "stability_of",
]

DISAGREE = 0.5
#: Average overlap (Jaccard) from which modes of different members are the same mode.
_SAME = 0.3


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


def merge_map(counts: IntArray, below: float) -> IntArray:
    """New number of each mode after merging, pair by pair, the modes that the inputs tell apart worst."""
    counts = counts.copy()
    group = np.arange(len(counts))
    while len(counts) > 1:
        kappa = agreement(counts)
        k, m = np.unravel_index(int(np.argmin(kappa)), kappa.shape)
        if kappa[k, m] >= below:
            break
        k, m = min(k, m), max(k, m)
        counts[k] += counts[m]
        counts[:, k] += counts[:, m]
        counts = np.delete(np.delete(counts, m, 0), m, 1)
        group[group == m] = k
        group[group > m] -= 1
    return group


def consensus_labels(labels: list[IntArray]) -> IntArray:
    """One label a row from those of the members; -1 where fewer than half vote for the same mode.

    Modes of different members are the same if they hold mostly the same rows (average linkage
    on the Jaccard overlap); a mode that fewer than half of the members know is left out.
    """
    n, members = len(labels[0]), len(labels)
    if members == 1:
        return _compact(labels[0])
    nodes, owner, sizes = [], [], []
    for m, label in enumerate(labels):
        for k in np.unique(label[label >= 0]):
            nodes.append((m, int(k)))
            owner.append(m)
            sizes.append(int((label == k).sum()))
    if len(nodes) < 2:
        return np.full(n, -1)
    place = {node: i for i, node in enumerate(nodes)}
    ids = np.stack([_lookup(label, place, m) for m, label in enumerate(labels)])
    overlap = np.zeros((len(nodes), len(nodes)))
    for i in range(members):
        for j in range(i + 1, members):
            both = (ids[i] >= 0) & (ids[j] >= 0)
            np.add.at(overlap, (ids[i][both], ids[j][both]), 1.0)
    overlap += overlap.T
    size = np.array(sizes, dtype=np.float64)
    jaccard = overlap / np.maximum(size[:, None] + size[None, :] - overlap, 1.0)
    np.fill_diagonal(jaccard, 1.0)
    tree = linkage(squareform(1.0 - jaccard, checks=False), "average")
    group = fcluster(tree, 1.0 - _SAME, "distance") - 1
    known = np.array(
        [len({owner[i] for i in np.flatnonzero(group == g)}) for g in range(int(group.max()) + 1)]
    )
    keep = known * 2 > members
    votes = np.zeros((n, len(keep)), dtype=np.int16)
    rows = np.arange(n)
    for m in range(members):
        valid = ids[m] >= 0
        votes[rows[valid], group[ids[m][valid]]] += 1
    votes[:, ~keep] = 0
    best = votes.argmax(1)
    label = np.where(votes[rows, best] * 2 >= known[best], best, -1)
    return _compact(label)


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


def _lookup(label: IntArray, place: dict[tuple[int, int], int], member: int) -> IntArray:
    table = np.full(int(label.max()) + 2, -1)
    for (m, k), i in place.items():
        if m == member:
            table[k] = i
    return np.where(label >= 0, table[np.maximum(label, 0)], -1)


def _compact(label: IntArray) -> IntArray:
    known = np.unique(label[label >= 0])
    table = np.full(int(label.max()) + 2, -1)
    table[known] = np.arange(len(known))
    return np.where(label >= 0, table[np.maximum(label, 0)], -1)
