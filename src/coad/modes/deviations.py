"""Kinds that occur in several regimes: groups of the deviations from the centre of each row's regime.

A leak shows under every load. Where operating points multiply (a cooler, a valve, an accumulator), it is a small part of
many groups and a mode of its own in none. So the centre of its regime, its finest group, is
subtracted from each row, in both inputs; a change that is the same everywhere is one group there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.modes.consensus import pair_evidence
from coad.modes.coordinates import Array32, Arrays, Front, MappedRows, Recipe
from coad.modes.ensemble import FoldMembers, Folds, mode_confidences, train_folds
from coad.modes.grouping import Groups, find_groups, oddness_of_groups
from coad.modes.training import Plan

__all__ = ["Deviations", "find_kinds", "with_kinds"]

#: A kind is reproduced by a majority of the members, and occurs in at least two modes, or it is a piece of one.
_MAJORITY, _FEWEST_MODES = 0.5, 2
#: Rows that centres are estimated from.
_SAMPLE = 20_000

Two = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Deviations:
    """Networks for the deviations of rows from the centre of their mode.

    ``front`` maps rows to scaled columns; ``centres`` (regimes, columns) are those of s and q, ``sizes`` those of the
    regimes: the finest groups of rows. The outputs of ``folds`` are mapped to kinds.
    """

    front: Front
    centres: Arrays
    folds: list[FoldMembers]
    sizes: FloatArray

    def rows(self, arrays: Arrays, mode: IntArray) -> Arrays:
        """Scaled rows of both inputs less the centre of their mode."""
        scaled, everything = MappedRows(arrays, self.front, None), np.arange(len(mode))
        found: list[Array32] = [
            scaled.side(side, everything).numpy() - self.centres[side][mode] for side in (0, 1)
        ]
        return found[0], found[1]

    def add(self, arrays: Arrays, both: Two) -> Two:
        """Confidences of some rows in modes and kinds, from ``both`` those in modes and those in regimes."""
        k = both[0].shape[1] - len(self.sizes)
        regime = pair_evidence(both[0][:, k:], both[1][:, k:], self.sizes).argmax(1)
        kinds = mode_confidences(self.folds, self.rows(arrays, regime), None)
        return with_kinds((both[0][:, :k], both[1][:, :k]), kinds)


def with_kinds(modes: Two, kinds: Two) -> Two:
    """Confidences in modes less those in kinds, and those in kinds, for s and q.

    >>> modes, kinds = np.array([[0.9, 0.1]]), np.array([[0.5]])
    >>> with_kinds((modes, modes), (kinds, kinds))[0].round(2).tolist()
    [[0.45, 0.05, 0.5]]
    """
    found = [
        np.concatenate([own * (1.0 - kind.sum(1, keepdims=True)), kind], axis=1)
        for own, kind in zip(modes, kinds, strict=True)
    ]
    return found[0], found[1]


def find_kinds(
    arrays: Arrays,
    front: Front,
    groups: Groups,
    folds: Folds,
    plan: Plan,
    *,
    members: int,
    outputs: int,
    rare: float,
    significance: float,
    rng: np.random.Generator,
) -> tuple[Deviations, Groups, FloatArray] | None:
    """The kinds in several modes and how odd each is in s and in q, (2, kinds); None if there are none.

    They are groups of the deviations that are significant within modes, at most ``rare`` of the rows, among the oddest
    ``rare`` in both inputs, reproduced by most members, and spread over at least two modes.
    """
    mode = pair_evidence(*groups.mean, groups.sizes).argmax(1)
    some = np.sort(rng.permutation(len(mode))[:_SAMPLE])
    centres = _centres(arrays, front, mode, some, len(groups))
    found = Deviations(front, centres, [], groups.sizes)
    rows = found.rows(arrays, mode)
    trained = train_folds(
        Recipe(((), ()), "canonical"),
        rows,
        None,
        folds.used,
        net=None,
        members=members,
        outputs=outputs,
        plan=plan,
        seed=int(rng.integers(2**30)),
    )
    if trained is None:  # deviations that share no direction
        return None
    kinds = find_groups([one.votes(rows, None) for one in trained], folds.fold, mode, significance, rng)
    labels, mapped = kinds.labels, MappedRows(rows, trained[0].front, None)
    odd = np.array(
        [
            oddness_of_groups(labels, len(kinds), mapped.side(side, np.arange(len(mode))).numpy(), rare, rng)
            for side in (0, 1)
        ]
    )
    small = np.bincount(labels[labels >= 0], minlength=len(kinds)) <= rare * len(labels)
    spread = np.array([_effective_count(mode[labels == kind]) for kind in range(len(kinds))])
    chosen = np.flatnonzero(
        small & (odd.min(0) >= 1 - rare) & (kinds.stability >= _MAJORITY) & (spread >= _FEWEST_MODES)
    )
    if not len(chosen):
        return None
    kinds = kinds.only(chosen)
    return Deviations(front, centres, kinds.mapped(trained), groups.sizes), kinds, odd[:, chosen]


def _centres(arrays: Arrays, front: Front, mode: IntArray, some: IntArray, modes: int) -> Arrays:
    """The median of each mode in scaled columns of s and of q."""
    found: list[Array32] = []
    for side in (0, 1):
        rows = front.map(side, arrays[side][some], None)
        centre = np.zeros((modes, rows.shape[1]), dtype=np.float32)
        for one in np.unique(mode[some]):
            centre[one] = np.median(rows[mode[some] == one], axis=0)
        found.append(centre)
    return found[0], found[1]


def _effective_count(mode: IntArray) -> float:
    """How many modes these rows are spread over: e to the entropy.

    >>> round(_effective_count(np.array([0, 1, 1, 0])), 6), _effective_count(np.array([2, 2]))
    (2.0, 1.0)
    """
    if not len(mode):
        return 0.0
    part = np.bincount(mode) / len(mode)
    part = part[part > 0]
    return float(np.exp(-(part * np.log(part)).sum()))
