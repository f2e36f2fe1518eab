"""Dispersion of a mode over regimes: a fault that occurs in every regime is not a regime itself.

If a mode is removed, its rows are reassigned to the remaining modes. Those of a regime go to its few neighbours. Those of
a fault that occurs under every load go back to the regime that each came from, which may be any, and s and q agree on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import log_pair_evidence

__all__ = ["effective_count", "mode_dispersion", "relative_dispersion"]

#: Random draws that a dispersion is compared with (their mean is stable to a few per cent), and the most rows used.
_DRAWS, _MAX_ROWS = 10, 20_000
#: How sure s and q must be of the reassignment, from chance (0) to certainty (1). Faults in 48 simulated regimes have 0.4
#: and 0.6, letters and handwritten digits 0 to 0.24.
_AGREED = 1.0 / 3.0


def effective_count(regime: IntArray) -> float:
    """The effective number of regimes of some rows: exp of the entropy.

    >>> round(effective_count(np.array([3, 3, 3])), 1), round(effective_count(np.array([0, 0, 1, 1, 5, 5])), 1)
    (1.0, 3.0)
    """
    if len(regime) == 0:
        return 0.0
    rows = np.bincount(regime)
    part = rows[rows > 0] / len(regime)
    return float(np.exp(-(part * np.log(part)).sum()))


def relative_dispersion(own: IntArray, others: IntArray, rng: np.random.Generator) -> float:
    """The effective number of regimes of some rows, divided by that of as many rows at random.

    >>> rng = np.random.default_rng(0)
    >>> regime = rng.integers(20, size=1000)
    >>> round(relative_dispersion(regime[:80], regime, rng), 1), round(relative_dispersion(regime[regime == 3], regime, rng), 1)
    (1.0, 0.1)
    """
    few = min(len(own), len(others))
    if few == 0:
        return 0.0
    drawn = [effective_count(rng.choice(others, few, replace=False)) for _ in range(_DRAWS)]
    return effective_count(own) / float(np.mean(drawn))


def mode_dispersion(
    a: FloatArray, b: FloatArray, sizes: FloatArray, most: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The relative dispersion of each removed mode's rows over the other modes, and the same where s and q agree on the
    reassignment (0 elsewhere).

    ``a`` and ``b`` (n, K) are the votes of s and q. A fault may be several modes that are neighbours of each other, so
    each mode is also removed together with the modes that its rows go to, up to ``most`` of the rows. A mode has the
    dispersion of its most dispersed group, and belongs to one group only.
    """
    some = rng.permutation(len(a))[:_MAX_ROWS]
    votes = _Votes(a[some], b[some], sizes)
    groups = [one for mode in np.flatnonzero(votes.size) for one in _growing(votes, int(mode), most, rng)]
    return _most_dispersed(groups, a.shape[1]), _most_dispersed(
        [one for one in groups if one.agreed], a.shape[1]
    )


class _Group(NamedTuple):
    """Modes that are removed together, the dispersion of their rows, and whether s and q agree on the reassignment."""

    dispersion: float
    modes: list[int]
    agreed: bool


def _most_dispersed(groups: list[_Group], modes: int) -> FloatArray:
    """The dispersion of each mode: that of its group, the most dispersed first."""
    found = np.zeros(modes)
    for one in sorted(groups, key=lambda one: -one.dispersion):
        if not found[one.modes].any():
            found[one.modes] = one.dispersion
    return found


class _Votes:
    """The votes of some rows, the best mode of each, and the fraction of the rows in each mode."""

    def __init__(self, a: FloatArray, b: FloatArray, sizes: FloatArray) -> None:
        self.a, self.b, self.sizes = a, b, sizes
        self.evidence = log_pair_evidence(a, b, sizes)
        self.mode = self.evidence.argmax(1)
        self.size = np.bincount(self.mode, minlength=a.shape[1]) / len(a)

    def without(self, group: list[int]) -> tuple[BoolArray, IntArray, float]:
        """The rows of some modes, their best modes without these, and the median likelihood ratio of the pairs then."""
        own = np.isin(self.mode, group)
        elsewhere = self.evidence[own]
        elsewhere[:, group] = -np.inf
        pair = np.ones(1) / np.maximum(self.sizes, 1e-6)
        for votes in (self.a[own], self.b[own]):
            votes = np.where(np.isin(np.arange(votes.shape[1]), group), 0.0, votes)
            pair = pair * votes / np.maximum(votes.sum(1, keepdims=True), 1e-300)
        return own, elsewhere.argmax(1), float(np.median(pair.sum(1)))


def _growing(votes: _Votes, mode: int, most: float, rng: np.random.Generator) -> list[_Group]:
    """A mode by itself, and with one after another of the modes that its rows would go to."""
    group, found = [mode], []
    while votes.size[group].sum() <= most and len(group) < len(votes.size):
        own, reassigned, ratio = votes.without(group)
        rest = votes.mode[~own]
        agreed = ratio - 1.0 >= _AGREED * (effective_count(rest) - 1.0)
        found.append(_Group(relative_dispersion(reassigned, rest, rng), list(group), agreed))
        group.append(int(np.bincount(reassigned).argmax()))
    return found
