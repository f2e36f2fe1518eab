"""Over how many regimes some rows are spread: what comes with every regime is not one of them."""

from __future__ import annotations

import numpy as np

from coad._typing import FloatArray, IntArray

__all__ = ["log_evidence", "regimes_of", "spread", "spread_of_modes"]

#: Draws of rows at random that a spread is compared with, and the most rows that are looked at.
_DRAWS, _SOME_ROWS = 10, 20_000


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


def spread_of_modes(fit: FloatArray, most: float, rng: np.random.Generator) -> FloatArray:
    """For each mode: how far its rows would be spread over the others if it were not there.

    ``fit`` (n, K) is the evidence of each row for each mode (:func:`log_evidence`). The rows of a regime would go
    to its few neighbours. Those of a fault that shows under every load would go back to the regime that each came
    from, which is any. A fault may be several modes, which are neighbours of each other; so each mode is also taken
    away together with those that its rows would go to, as long as all have at most ``most`` of the rows. A
    mode has the spread of the group that is furthest spread, and is in one group only.
    """
    fit = fit[rng.permutation(len(fit))[:_SOME_ROWS]]
    home = fit.argmax(1)
    size = np.bincount(home, minlength=fit.shape[1]) / len(home)
    groups = [one for mode in np.flatnonzero(size) for one in _growing(fit, home, size, int(mode), most, rng)]
    found = np.zeros(fit.shape[1])
    for far, group in sorted(groups, key=lambda one: -one[0]):
        if not found[group].any():
            found[group] = far
    return found


def _growing(
    fit: FloatArray, home: IntArray, size: FloatArray, mode: int, most: float, rng: np.random.Generator
) -> list[tuple[float, list[int]]]:
    """The spread of a mode, and of it with one after another of the modes that its rows would go to."""
    group, found = [mode], []
    while size[group].sum() <= most and len(group) < len(size):
        own = np.isin(home, group)
        elsewhere = fit[own]
        elsewhere[:, group] = -np.inf
        goes = elsewhere.argmax(1)
        found.append((spread(goes, home[~own], rng), list(group)))
        group.append(int(np.bincount(goes).argmax()))
    return found
