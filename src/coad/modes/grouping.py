"""Groups of rows that the members of all folds agree on and that coincide on held-out rows: the modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.oddness import Oddness
from coad.modes import consensus
from coad.modes.ensemble import FoldMembers
from coad.modes.evidence import holm, mode_p_values

__all__ = ["Groups", "find_groups", "finest_groups", "map_to_groups", "oddness_of_groups"]

Two = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Groups:
    """K groups, and the confidences of s and q in each.

    Parameters
    ----------
    sizes, p_values, stability : array
        (K,): as a fraction of the rows; on held-out rows, adjusted by Holm; see :func:`~coad.modes.consensus.stability_of`.
    held, mean : pair of arrays
        (n, K): the confidences by members that did not see the row, and by all members.
    to_groups : list of pairs of arrays
        For each fold the share of each group in each output, (members, outputs, K).
    """

    sizes: FloatArray
    p_values: FloatArray
    stability: FloatArray
    held: Two
    mean: Two
    to_groups: list[Two]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def labels(self) -> IntArray:
        """The group with the most evidence for each row, -1 where the inputs disagree."""
        return consensus.mode_of_rows(consensus.pair_evidence(*self.mean, self.sizes))

    def only(self, chosen: IntArray) -> Groups:
        """Some of the groups."""

        def part(pair: Two) -> Two:
            return pair[0][..., chosen], pair[1][..., chosen]

        return Groups(
            self.sizes[chosen],
            self.p_values[chosen],
            self.stability[chosen],
            part(self.held),
            part(self.mean),
            [part(pair) for pair in self.to_groups],
        )

    def beside(self, other: Groups) -> list[Two]:
        """``to_groups`` of these groups, followed by those of others, which the same members vote for."""
        return [
            (np.concatenate([one[0], two[0]], axis=2), np.concatenate([one[1], two[1]], axis=2))
            for one, two in zip(self.to_groups, other.to_groups, strict=True)
        ]

    def mapped(self, folds: Sequence[FoldMembers]) -> list[FoldMembers]:
        """The members of each fold with their outputs mapped to these groups."""
        return [replace(own, to_modes=pair) for own, pair in zip(folds, self.to_groups, strict=True)]


def find_groups(
    votes: Sequence[Two],
    fold: IntArray,
    codes: IntArray | None,
    significance: float,
    rng: np.random.Generator,
) -> Groups:
    """The groups that are significant on held-out rows.

    Parameters
    ----------
    votes
        The outputs a and b of each fold's members for all rows, (members, n, outputs).
    fold, codes
        The fold of each row, and its context, if it has one.
    significance
        The level, after Holm's correction for the number of groups.
    rng
        Chooses the rows that are grouped first, if there are many.
    """
    a, b = (np.concatenate([own[side] for own in votes]) for side in (0, 1))
    every = map_to_groups(votes, fold, consensus.group_rows(a, b, rng))
    # Each input votes for the group with the most confidence, and once more for the one that makes it most likely: by
    # confidence, small groups have hardly a vote. Each group has two tests.
    # Votes are compared within folds, whose members map them to groups in ways of their own.
    k, tests = len(every), []
    strata = fold if codes is None else fold + (int(fold.max()) + 1) * codes
    for weight in (np.ones(k), every.sizes):
        vote_s, vote_q = ((own / weight).argmax(1) for own in every.held)
        tests.append(mode_p_values(vote_s, vote_q, k, strata))
    p_values = holm(np.minimum(2 * np.minimum(*tests), 1.0))
    large = every.sizes * len(fold) >= consensus.MIN_ROWS
    found = replace(every, p_values=p_values).only(np.flatnonzero((p_values <= significance) & large))
    labels = found.labels
    cast = [(x.argmax(1), y.argmax(1)) for x, y in zip(a, b, strict=True)]
    stability = [consensus.stability_of(labels == one, cast) for one in range(len(found))]
    return replace(found, stability=np.array(stability))


def finest_groups(votes: Sequence[Two], fold: IntArray, rng: np.random.Generator) -> Groups:
    """The finest groups of rows, whether significant or not; see :func:`find_groups`."""
    a, b = (np.concatenate([own[side] for own in votes]) for side in (0, 1))
    return map_to_groups(votes, fold, consensus.group_rows(a, b, rng, consensus.FINEST))


def map_to_groups(votes: Sequence[Two], fold: IntArray, group: IntArray) -> Groups:
    """The outputs of all members mapped to groups, by the rows outside their fold."""
    n, k = len(group), int(group.max()) + 1
    held, mean = (np.zeros((n, k)), np.zeros((n, k))), (np.zeros((n, k)), np.zeros((n, k)))
    to_groups: list[Two] = []
    for number, both in enumerate(votes):
        out = fold == number
        pair = tuple(consensus.map_outputs(x, group, ~out, k) for x in both)
        for side in (0, 1):
            own = np.einsum("mnk,mkg->ng", both[side], pair[side], optimize=True) / len(both[side])
            held[side][out] = own[out]
            mean[side][:] += own / len(votes)
        to_groups.append((pair[0], pair[1]))
    sizes = np.maximum(np.bincount(group, minlength=k), 1) / n
    return Groups(sizes, np.ones(k), np.zeros(k), held, mean, to_groups)


def oddness_of_groups(
    labels: IntArray, k: int, rows: FloatArray, rare: float, rng: np.random.Generator
) -> FloatArray:
    """The mean percentile of oddness (:class:`~coad.core.oddness.Oddness`) of the rows of each group in one input, (k,)."""
    flat = rows.reshape(len(rows), -1)
    odd = Oddness.fit(flat, rare=rare, rng=rng)(flat)
    known = labels >= 0
    count = np.bincount(labels[known], minlength=k)
    return np.asarray(np.bincount(labels[known], odd[known], minlength=k) / np.maximum(count, 1))
