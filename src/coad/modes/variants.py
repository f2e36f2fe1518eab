"""Groups of modes that are variants of the same thing.

A digit is written in several ways, and each way that both inputs show is a mode. A mode is a kind of its own if the
other modes cannot explain its rows: without it, s would assign them to one mode and q to another. If s and q still agree
without it, or if no clear density dip separates it from another mode, it is a variant.
"""

from __future__ import annotations

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import mode_sizes

__all__ = ["explained_by", "variant_groups"]

#: Rows are explained from this median likelihood ratio (pair against random pairing) on.
_EXPLAINED = 1.0


def variant_groups(
    a: FloatArray, b: FloatArray, labels: IntArray, adjacent: BoolArray | None, most: float
) -> IntArray:
    """The group of each mode; ``a`` and ``b`` (n, K) are the votes of s and q, ``labels`` the modes of the rows.

    The smallest group of at most ``most`` of the rows that is no kind of its own joins another: the largest
    ``adjacent`` one (K, K: no clear dip between two modes), or the one that explains most of its rows. This is repeated
    until none is left, or two groups: whatever is not the one is the other.

    >>> a = np.array([[0.9, 0.0, 0.1, 0.0]] * 6 + [[0.0, 1.0, 0.0, 0.0]] * 6 + [[0.3, 0.1, 0.6, 0.0]] + [[0, 0, 0, 1.0]] * 5)
    >>> variant_groups(a, a, a.argmax(1), None, 0.1).tolist()
    [0, 1, 0, 2]
    """
    group = np.arange(a.shape[1])
    while group.max() >= 2:
        size = mode_sizes(labels, len(group)) @ np.eye(group.max() + 1)[group]
        join = None
        for one in np.argsort(size, kind="stable"):
            if size[one] > most:
                break
            other = _largest_adjacent(adjacent, group, size, int(one))
            if other is None:
                other = explained_by(a, b, labels, group, int(one))
            if other is not None:
                join = int(one), other
                break
        if join is None:
            break
        group[group == join[0]] = join[1]
        group = np.unique(group, return_inverse=True)[1].reshape(-1)
    return group


def explained_by(a: FloatArray, b: FloatArray, labels: IntArray, group: IntArray, one: int) -> int | None:
    """The group that explains the rows of group ``one`` if that is removed; None if none does.

    The votes for ``one`` go to the other groups in proportion, and Σ a b / size over these is the likelihood ratio of
    each pair against a random pairing.
    """
    own = (labels >= 0) & (group[np.maximum(labels, 0)] == one)
    if not own.any():
        return None
    member = np.eye(int(group.max()) + 1)[group]
    size = np.maximum(mode_sizes(labels, len(group)) @ member, 1e-6)
    evidence = np.ones(1) / size
    for votes in (a[own] @ member, b[own] @ member):
        votes[:, one] = 0.0
        evidence = evidence * votes / np.maximum(votes.sum(1, keepdims=True), 1e-12)
    total = evidence.sum(1)
    if np.median(total) < _EXPLAINED:
        return None
    return int((evidence / np.maximum(total, 1.0)[:, None]).sum(0).argmax())


def _largest_adjacent(adjacent: BoolArray | None, group: IntArray, size: FloatArray, one: int) -> int | None:
    if adjacent is None:
        return None
    near = np.setdiff1d(group[adjacent[group == one].any(0)], one)
    return int(near[size[near].argmax()]) if len(near) else None
