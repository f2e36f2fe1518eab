"""Kinds that occur in several regimes: modes of the deviations from the centre of each row's group.

A leak shows under every load. Where operating points multiply (a cooler, a valve, an accumulator), it is a small part of
many groups and a mode of its own in none. So the centre of its group is subtracted from each row, in both inputs; a change
that is the same everywhere is one mode there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.modes.consensus import pair_evidence
from coad.modes.coordinates import Array32, Arrays, Front, MappedRows
from coad.modes.layer import Layer, Two

__all__ = ["Centres", "Deviations", "effective_count", "regimes_of", "with_kinds"]

#: Rows that centres are estimated from.
_SAMPLE = 20_000


@dataclass(frozen=True, eq=False)
class Centres:
    """The centres of regimes in scaled columns.

    ``front`` maps rows to scaled columns; ``both`` (regimes, columns) are the centres in s and q, ``sizes`` the regimes'.
    """

    front: Front
    both: Arrays
    sizes: FloatArray

    @classmethod
    def of(cls, front: Front, arrays: Arrays, regime: IntArray, sizes: FloatArray) -> Centres:
        """The medians of the scaled rows of each regime."""
        some = np.linspace(0, len(regime) - 1, min(len(regime), _SAMPLE)).astype(np.int64)
        centres: list[Array32] = []
        for side in (0, 1):
            rows = front.map(side, arrays[side][some], None)
            centre = np.zeros((len(sizes), rows.shape[1]), dtype=np.float32)
            for one in np.unique(regime[some]):
                centre[one] = np.median(rows[regime[some] == one], axis=0)
            centres.append(centre)
        return cls(front, (centres[0], centres[1]), sizes)

    def deviations(self, arrays: Arrays, regime: IntArray) -> Arrays:
        """Scaled rows of both inputs less the centre of their regime."""
        scaled, everything = MappedRows(arrays, self.front, None), np.arange(len(regime))
        found: list[Array32] = [
            scaled.side(side, everything).numpy() - self.both[side][regime] for side in (0, 1)
        ]
        return found[0], found[1]


@dataclass(frozen=True, eq=False)
class Deviations:
    """What finds kinds in the deviations of rows from the centre of their regime, which is their group in the first layer.

    ``kinds`` are the modes of the ``layer`` that are kinds.
    """

    centres: Centres
    layer: Layer
    kinds: IntArray

    def add(self, arrays: Arrays, groups: Two, modes: Two) -> Two:
        """Confidences of some rows in modes and kinds, from those in ``groups`` and in ``modes``."""
        rows = self.centres.deviations(arrays, regimes_of(groups, self.centres.sizes))
        kinds = self.layer.pooled(self.layer.groups(rows, None))
        return with_kinds(modes, (kinds[0][:, self.kinds], kinds[1][:, self.kinds]))


def regimes_of(groups: Two, sizes: FloatArray) -> IntArray:
    """The group with the most evidence for each row, also where the inputs disagree."""
    return np.asarray(pair_evidence(*groups, sizes).argmax(1))


def with_kinds(modes: Two, kinds: Two) -> Two:
    """Confidences in modes less those in kinds, and those in kinds, for s and q.

    >>> modes, kinds = np.array([[0.9, 0.1]]), np.array([[0.5]])
    >>> with_kinds((modes, modes), (kinds, kinds))[0].round(2).tolist()
    [[0.45, 0.05, 0.5]]
    """
    found = [
        np.concatenate([own * np.maximum(1.0 - kind.sum(1, keepdims=True), 1e-9), kind], axis=1)
        for own, kind in zip(modes, kinds, strict=True)
    ]
    return found[0], found[1]


def effective_count(regime: IntArray) -> float:
    """How many regimes these rows are spread over: e to the entropy.

    >>> round(effective_count(np.array([0, 1, 1, 0])), 6), effective_count(np.array([2, 2]))
    (2.0, 1.0)
    """
    if not len(regime):
        return 0.0
    part = np.bincount(regime) / len(regime)
    part = part[part > 0]
    return float(np.exp(-(part * np.log(part)).sum()))
