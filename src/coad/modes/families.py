"""Which modes are ways of doing the same: families of modes.

A digit is written in several ways, and each way that both inputs see is a mode. A kind of its own is more: take it
away, and the other modes cannot explain its rows, for s takes them for one mode and q for another. If s and q still
agree on where a small mode's rows would go, or if no clear gap lies between it and another mode, it is a variant.
"""

from __future__ import annotations

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import part_of_rows

__all__ = ["explained_by", "families"]

#: A pair that is likelier than a pairing of strangers is explained.
_EXPLAINED = 1.0


def families(
    a: FloatArray, b: FloatArray, labels: IntArray, touching: BoolArray | None, most: float
) -> IntArray:
    """The number of each mode's family; ``a`` and ``b`` (n, K) are the votes of s and q, ``labels`` the rows' modes.

    The smallest family of at most ``most`` of the rows that is no kind of its own joins another: the largest that it
    touches (``touching`` (K, K): no clear gap between two modes), or the one that explains most of it. This goes on
    until there is none. Between two families nothing is said: whatever is not the one is the other.

    >>> a = np.array([[0.9, 0.0, 0.1, 0.0]] * 6 + [[0.0, 1.0, 0.0, 0.0]] * 6 + [[0.3, 0.1, 0.6, 0.0]] + [[0, 0, 0, 1.0]] * 5)
    >>> families(a, a, a.argmax(1), None, 0.1).tolist()
    [0, 1, 0, 2]
    """
    group = np.arange(a.shape[1])
    while group.max() >= 2:
        size = part_of_rows(labels, len(group)) @ np.eye(group.max() + 1)[group]
        join = None
        for one in np.argsort(size, kind="stable"):
            if size[one] > most:
                break
            other = _touched(touching, group, size, int(one))
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
    """The family that the rows of family ``one`` would be in if it were not there; None if they would be in none.

    Without it, the votes of s and q go to the others in proportion. Σ a b / size over these is how many times likelier
    the pair then is than a pairing of strangers, for each row; it is explained if the median is above 1.
    """
    own = (labels >= 0) & (group[np.maximum(labels, 0)] == one)
    if not own.any():
        return None
    member = np.eye(int(group.max()) + 1)[group]
    size = np.maximum(part_of_rows(labels, len(group)) @ member, 1e-6)
    evidence = np.ones(1) / size
    for votes in (a[own] @ member, b[own] @ member):
        votes[:, one] = 0.0
        evidence = evidence * votes / np.maximum(votes.sum(1, keepdims=True), 1e-12)
    total = evidence.sum(1)
    if np.median(total) < _EXPLAINED:
        return None
    return int((evidence / np.maximum(total, 1.0)[:, None]).sum(0).argmax())


def _touched(touching: BoolArray | None, group: IntArray, size: FloatArray, one: int) -> int | None:
    """The largest family that family ``one`` touches, if any."""
    if touching is None:
        return None
    near = np.setdiff1d(group[touching[group == one].any(0)], one)
    return int(near[size[near].argmax()]) if len(near) else None
