"""What is coincidence and what is chance, or slowness: tests on rows that the networks did not learn from."""

from __future__ import annotations

import numpy as np
from scipy.stats import hypergeom

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import joint_counts, relabelled

__all__ = [
    "coincident",
    "global_p_value",
    "information",
    "mode_p_values",
    "part_by_chance",
    "shared_part",
    "slowness",
]

#: A group is no coincidence below so many standard errors. With less than so many times what chance gives, it is
#: none either if one of its sides goes along so many times better with the other side of another group.
_SURELY, _LITTLE, _BETTER = 3.0, 1.5, 1.5


def mode_p_values(counts: IntArray) -> FloatArray:
    """For each mode, how likely so many joint votes are if q's votes are shuffled over the rows."""
    n = int(counts.sum())
    joint = counts.diagonal()
    return np.asarray(hypergeom.sf(joint - 1, n, counts.sum(1), counts.sum(0)), dtype=np.float64)


def part_by_chance(
    a: FloatArray, b: FloatArray, size: FloatArray, context: IntArray | None = None, permutations: int = 5
) -> FloatArray:
    """The part of each mode's rows that would be in it, too, if q's rows were shuffled (within the context), (K,).

    >>> rng = np.random.default_rng(0)
    >>> kind = rng.choice(3, size=2000, p=[0.45, 0.45, 0.1])  # 2 is seen by both, 0 and 1 by each for itself
    >>> a, b = (np.eye(3)[np.where(kind < 2, rng.integers(2, size=2000), 2)] for _ in range(2))
    >>> part_by_chance(a, b, np.array([0.3, 0.3, 0.1])).round(1).tolist()
    [0.9, 0.9, 0.1]
    """
    rng = np.random.default_rng(len(a))  # any order will do, the same one each time

    def rows_of(other: FloatArray) -> FloatArray:
        label = relabelled(a, other, size)
        return np.bincount(label[label >= 0], minlength=len(size)).astype(np.float64)

    shuffled = np.mean([rows_of(b[_shuffled(len(b), context, rng)]) for _ in range(permutations)], axis=0)
    return np.asarray(shuffled / np.maximum(rows_of(b), 1.0))


def _shuffled(n: int, code: IntArray | None, rng: np.random.Generator) -> IntArray:
    """An order of the rows in which each stays within its context."""
    if code is None:
        return rng.permutation(n)
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(code, kind="stable")] = np.lexsort((rng.random(n), code))
    return order


def global_p_value(
    choices: list[tuple[IntArray, IntArray]],
    k: int,
    strata: list[IntArray | None],
    rng: np.random.Generator,
    permutations: int = 199,
) -> float:
    """Whether the held-out tables of all members together hold more than shuffled pairings do."""
    true = _information(choices, k)
    reached = 0
    for _ in range(permutations):
        orders = [_shuffled(len(b), code, rng) for (_, b), code in zip(choices, strata, strict=True)]
        reached += _information(choices, k, orders) >= true
    return (1 + reached) / (1 + permutations)


def slowness(
    choices: list[tuple[IntArray, IntArray]], k: int, rng: np.random.Generator, moves: int = 50
) -> float:
    """How much of what the held-out tables hold is left if q is moved in time; 0: nothing. Rows are in its order.

    Slow inputs, each in its own few stretches, go along with each other whatever they are moved by. Shuffled
    pairings, in which nothing is slow, do not show it. Moves by less than a tenth of all rows are left out.

    >>> rng = np.random.default_rng(0)
    >>> slow, quick = np.arange(400) // 130, rng.integers(4, size=400)
    >>> round(slowness([(slow, slow)], 4, rng), 1), abs(round(slowness([(quick, quick)], 4, rng), 1))
    (0.5, 0.0)
    """
    true = _information(choices, k)
    moved, shuffled = [], []
    for part in np.linspace(0.1, 0.9, moves):
        moved.append(
            _information(choices, k, [np.roll(np.arange(len(b)), round(part * len(b))) for _, b in choices])
        )
        shuffled.append(_information(choices, k, [rng.permutation(len(b)) for _, b in choices]))
    chance = float(np.mean(shuffled))
    return float((np.mean(moved) - chance) / max(true - chance, 1e-12))


def information(first: IntArray, second: IntArray) -> float:
    """What two choices have in common, in nats, less what is expected of strangers (Miller, 1955).

    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.integers(4, size=(2, 5000))
    >>> round(information(one, one), 2), abs(round(information(one, other), 2))  # ln 4 is 1.39
    (1.39, 0.0)
    """
    counts = joint_counts(first, second, int(max(first.max(), second.max())) + 1)
    rows, columns = (np.count_nonzero(counts.sum(axis)) for axis in (1, 0))
    return float(_of_table(counts / len(first)) - (rows - 1) * (columns - 1) / (2 * len(first)))


def shared_part(first: IntArray, second: IntArray) -> float:
    """What two choices have in common, as part of what each of them says; 1 where they never differ.

    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.integers(4, size=(2, 5000))
    >>> round(shared_part(one, one), 2), abs(round(shared_part(one, other), 2))
    (1.0, 0.0)
    """
    says = [
        -float((p[p > 0] * np.log(p[p > 0])).sum())
        for p in (np.bincount(x) / len(x) for x in (first, second))
    ]
    return information(first, second) / max(float(np.sqrt(says[0] * says[1])), 1e-12)


def _information(
    choices: list[tuple[IntArray, IntArray]], k: int, orders: list[IntArray] | None = None
) -> float:
    """What the tables of all members hold together, with q's rows in these orders."""
    total = 0.0
    for m, (first, second) in enumerate(choices):
        total += _of_table(
            joint_counts(first, second if orders is None else second[orders[m]], k) / len(first)
        )
    return total


def _of_table(table: FloatArray) -> float:
    """The mutual information of a table of parts."""
    chance = table.sum(1)[:, None] * table.sum(0)[None, :]
    full = table > 0
    return float((table[full] * np.log(table[full] / chance[full])).sum())


def coincident(near_s: FloatArray, near_q: FloatArray, context: IntArray | None = None) -> BoolArray:
    """Which groups both inputs see at once, and not only by chance; see :func:`nearness`.

    A group may be a corner, at which what s shows of one kind and what q shows of another meet: many rows, but
    no coincidence, or so little that the same side of the one kind goes along much better with its other side.

    >>> rng = np.random.default_rng(0)
    >>> s, q, both = rng.random((3, 2000)) < 0.1
    >>> one, other = s | both, q | both
    >>> near_s, near_q = np.array([s, one, one]).T, np.array([q, other, ~other]).T
    >>> coincident(near_s.astype(float), near_q.astype(float)).tolist()
    [False, True, False]
    """
    code = np.zeros(len(near_s), dtype=np.int64) if context is None else context
    size = np.maximum(np.bincount(code), 1)[:, None]
    away = []
    for near in (near_s, near_q):
        total = np.zeros((len(size), near.shape[1]))
        np.add.at(total, code, near)
        away.append(near - (total / size)[code])
    covariance = away[0].T @ away[1] / len(code)
    error = np.sqrt(np.square(away[0]).mean(0)[:, None] * np.square(away[1]).mean(0)[None, :] / len(code))
    z = covariance / np.maximum(error, 1e-12)
    own = z.diagonal()
    joint = (near_s * near_q).mean(0)
    chance = joint - covariance.diagonal()
    # The partner's two sides go along best with each other, and one of them goes along with this group better than
    # this group's other side does.
    better = np.maximum(np.where(own > z, z, 0.0).max(1), np.where(own[:, None] > z, z, 0.0).max(0))
    corner = (joint < _LITTLE * chance) & (better > _BETTER * own)
    return np.asarray((own > _SURELY) & ~corner)
