"""Over how many regimes some rows are spread: what comes with every regime is not one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = ["log_evidence", "regimes_of", "spread", "spread_of_modes"]

#: Draws of rows at random that a spread is compared with, and the most rows that are looked at.
_DRAWS, _SOME_ROWS = 10, 20_000
#: How sure s and q must be of the regime together, on a scale from strangers (0) to certainty (1). Faults in 48 simulated
#: regimes have 0.4 and 0.6, letters and handwritten digits 0 to 0.24.
_AGREED = 1.0 / 3.0


def log_evidence(a: FloatArray, b: FloatArray, sizes: FloatArray) -> FloatArray:
    """ln(a_k b_k / π_k) of each row for each mode; never -∞, so that what is ruled out can still be compared.

    >>> log_evidence(np.array([[1.0, 1e-200]]), np.array([[1.0, 1e-200]]), np.array([1.0, 1.0])).round(0).tolist()
    [[0.0, -921.0]]
    """
    logs = [np.log(np.maximum(np.asarray(votes, dtype=np.float64), 1e-300)) for votes in (a, b)]
    return np.asarray(logs[0] + logs[1] - np.log(np.maximum(sizes, 1e-6)))


def regimes_of(home: IntArray) -> float:
    """In how many regimes some rows are, as if they were equally many in each (exp of the entropy).

    >>> round(regimes_of(np.array([3, 3, 3])), 1), round(regimes_of(np.array([0, 0, 1, 1, 5, 5])), 1)
    (1.0, 3.0)
    """
    if len(home) == 0:
        return 0.0
    rows = np.bincount(home)
    part = rows[rows > 0] / len(home)
    return float(np.exp(-(part * np.log(part)).sum()))


def spread(own: IntArray, others: IntArray, rng: np.random.Generator) -> float:
    """The regimes that rows are in, as part of those that as many rows at random are in (the mean over draws).

    >>> rng = np.random.default_rng(0)
    >>> home = rng.integers(20, size=1000)
    >>> round(spread(home[:80], home, rng), 1), round(spread(home[home == 3], home, rng), 1)
    (1.0, 0.1)
    """
    few = min(len(own), len(others))
    if few == 0:
        return 0.0
    drawn = [regimes_of(rng.choice(others, few, replace=False)) for _ in range(_DRAWS)]
    return regimes_of(own) / float(np.mean(drawn))


def spread_of_modes(
    a: FloatArray, b: FloatArray, sizes: FloatArray, most: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """For each mode: how far its rows would be spread over the others if it were not there, and the same where s and q
    agree on where (0 elsewhere).

    ``a`` and ``b`` (n, K) are the votes of s and q. The rows of a regime would go to its few neighbours. Those of a fault
    that shows under every load would go back to the regime that each came from, which is any, and s and q agree on it. A
    letter among many would go anywhere too, but s and q take it for different ones. A fault may be several modes, which
    are neighbours of each other; so each mode is also taken away together with those that its rows would go to, as long as
    all have at most ``most`` of the rows. A mode has the spread of the group that is furthest spread, and is in one group
    only.
    """
    some = rng.permutation(len(a))[:_SOME_ROWS]
    votes = _Votes(a[some], b[some], sizes)
    groups = [one for mode in np.flatnonzero(votes.size) for one in _growing(votes, int(mode), most, rng)]
    return _furthest(groups, a.shape[1]), _furthest([one for one in groups if one.agreed], a.shape[1])


class _Group(NamedTuple):
    """Modes that are taken away together, how far their rows spread then, and whether s and q agree on where."""

    far: float
    modes: list[int]
    agreed: bool


def _furthest(groups: list[_Group], modes: int) -> FloatArray:
    """The spread of each mode: that of its group, the furthest first."""
    found = np.zeros(modes)
    for one in sorted(groups, key=lambda one: -one.far):
        if not found[one.modes].any():
            found[one.modes] = one.far
    return found


class _Votes:
    """The votes of some rows, the mode that each fits best, and the part of the rows that each mode has."""

    def __init__(self, a: FloatArray, b: FloatArray, sizes: FloatArray) -> None:
        self.a, self.b, self.sizes = a, b, sizes
        self.fit = log_evidence(a, b, sizes)
        self.home = self.fit.argmax(1)
        self.size = np.bincount(self.home, minlength=a.shape[1]) / len(a)

    def without(self, group: list[int]) -> tuple[BoolArray, IntArray, float]:
        """The rows of some modes, where they would go without these, and how many times likelier than strangers s and q
        then are to be a pair (the median)."""
        own = np.isin(self.home, group)
        elsewhere = self.fit[own]
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
        own, goes, likelier = votes.without(group)
        rest = votes.home[~own]
        agreed = likelier - 1.0 >= _AGREED * (regimes_of(rest) - 1.0)
        found.append(_Group(spread(goes, rest, rng), list(group), agreed))
        group.append(int(np.bincount(goes).argmax()))
    return found
