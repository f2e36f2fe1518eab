"""Canonical coordinates, in which every factor that both inputs share has a similar width.

Canonical correlation analysis (Hotelling, 1936) finds the directions of s and of q with the largest correlation. In
these coordinates a weak shared factor is as wide as a strong one, and what only one input sees is dropped. Where one
input has so few columns that all its directions are used, directions of the other that predict a *cluster* in it are
added.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from coad._typing import BoolArray, FloatArray

__all__ = ["canonical_maps"]

#: Directions with a smaller correlation on held-out rows are dropped. Of 0.1 and 0.3, the second calls fewer good rows of
#: simulated plants rare.
_MIN_CORRELATION = 0.3
#: A direction below that is kept if few rows make it: if E[x²y²] exceeds that of a Gaussian of the same correlation by
#: the first, the correlation is the second × its standard error, with the 3 most extreme rows left out (single
#: outliers are no kind). A kind of 1 % of the rows, 5 widths away, has a correlation of 0.2 and an excess of 0.6 to 2.4.
_EXCESS, _ERRORS, _OUTLIERS = 0.5, 4.0, 3
#: Up to this many directions all are kept if any is: a fault beside a daily cycle is the second of two, and weak.
_FEW_DIRECTIONS = 3
#: Ridge on the variance in each direction, where a column has 1: directions that hardly vary are noise.
_RIDGE = 1e-2
#: Clusters of the other input, rows that each must have, and k-means iterations: coarse, because they only guide.
_CLUSTERS, _ROWS_PER_CLUSTER, _ITERATIONS = 24, 20, 20
#: The least correlation with clusters; higher than between directions, because many clusters fit noise a little.
_MIN_CLUSTER_CORRELATION = 0.4
#: With more columns this would take longer than the training.
_MAX_COLUMNS = 1_000


def canonical_maps(
    s: NDArray[np.float32], q: NDArray[np.float32], held: BoolArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """A matrix for each input, (columns, coordinates), or None if no direction is shared.

    ``s`` and ``q`` are scaled column by column. The maps are fitted to the rows that are not ``held``; the correlation
    on the held rows is the width of each coordinate.

    >>> rng = np.random.default_rng(0)
    >>> both, s, q = rng.normal(size=(3, 2000, 3)).astype(np.float32)
    >>> s[:, 0], q[:, 2] = both[:, 0], both[:, 0] + 0.1 * q[:, 2]
    >>> maps = canonical_maps(s, q, np.arange(2000) % 3 == 0)
    >>> [(abs(m[:, 0]) > 0.5).tolist() for m in maps]
    [[True, False, False], [False, False, True]]
    >>> canonical_maps(s, q[::-1], np.arange(2000) % 3 == 0) is None
    True
    """
    if max(s.shape[1], q.shape[1]) > _MAX_COLUMNS:
        return None
    parts = [[x[keep].astype(np.float64) for x in (s, q)] for keep in (~held, held)]
    (fit_s, fit_q), (held_s, held_q) = parts
    if min(len(fit_s), len(held_s)) < 2:
        return None
    white_s, white_q = _whitening(fit_s), _whitening(fit_q)
    left, right = _canonical_directions(fit_s @ white_s, fit_q @ white_q)
    r, keep = _shared(held_s @ (white_s @ left), held_q @ (white_q @ right))
    if not keep.any():
        return None
    if len(keep) <= _FEW_DIRECTIONS:
        keep[:] = True
    sides = []
    for fit, test, white, directions, other, others in (
        (fit_s, held_s, white_s, left[:, keep], (fit_q, held_q), white_q.shape[1]),
        (fit_q, held_q, white_q, right[:, keep], (fit_s, held_s), white_s.shape[1]),
    ):
        width = np.maximum(r[keep], _MIN_CORRELATION)
        if directions.shape[1] == others:
            # Every direction of the other input is used: its clusters may add more.
            more, r_more = _cluster_directions((fit @ white, test @ white), directions, other)
            directions, width = np.column_stack([directions, more]), np.append(width, r_more)
        sides.append((white @ directions * (width / np.sqrt(np.square(width).mean()))).astype(np.float32))
    return sides[0], sides[1]


def _canonical_directions(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The directions of two sets of whitened columns with the largest correlation, in falling order."""
    left, _, right = np.linalg.svd(x.T @ y / len(x), full_matrices=False)
    return left, right.T


def _shared(x: FloatArray, y: FloatArray) -> tuple[FloatArray, BoolArray]:
    """The correlation of each column of ``x`` with that of ``y``, and whether it is kept."""
    x, y = _standardised(x), _standardised(y)
    r: FloatArray = (x * y).mean(0)
    excess = np.sort(np.square(x * y), axis=0)[:-_OUTLIERS].sum(0) / len(x) - 1.0 - 2.0 * np.square(r)
    few = (r >= _ERRORS / np.sqrt(len(x))) & (excess >= _EXCESS)
    return r, np.asarray((r >= _MIN_CORRELATION) | few)


def _cluster_directions(
    own: tuple[FloatArray, FloatArray], used: FloatArray, other: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Directions orthogonal to the ``used`` ones that correlate with *clusters* of the other input, and how much.

    A kind amid the others, or a code, is a cluster there and no direction, but a direction of this input may show it.
    Rows are those of the fit and those held out; the own ones are whitened.
    """
    (fit, test), (fit_other, test_other) = own, other
    count = min(_CLUSTERS, len(fit) // _ROWS_PER_CLUSTER)
    if count < 2 or used.shape[1] == len(used):
        return np.zeros((len(used), 0)), np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters do no harm
        found = KMeans(count, n_init=1, max_iter=_ITERATIONS, random_state=0).fit(fit_other)
    member, member_test = (np.eye(count)[where] for where in (found.labels_, found.predict(test_other)))
    mean = member.mean(0)
    white = _whitening(np.sqrt(count) * (member - mean)) * np.sqrt(count)
    unused = np.linalg.svd(used, full_matrices=True)[0][:, used.shape[1] :]  # orthonormal basis of the rest
    left, right = _canonical_directions(fit @ unused, (member - mean) @ white)
    r = (_standardised(test @ unused @ left) * _standardised((member_test - mean) @ white @ right)).mean(0)
    keep = r >= _MIN_CLUSTER_CORRELATION
    return (unused @ left)[:, keep], r[keep]


def _whitening(x: FloatArray) -> FloatArray:
    """A matrix after which the columns are uncorrelated with unit variance; constant directions are dropped."""
    variance, directions = np.linalg.eigh(np.atleast_2d(np.cov(x.T, bias=True)))
    varies = variance > 1e-6 * max(float(variance[-1]), 1e-30)
    return np.asarray(directions[:, varies] / np.sqrt(variance[varies] + _RIDGE))


def _standardised(x: FloatArray) -> FloatArray:
    x = x - x.mean(0)
    return np.asarray(x / np.maximum(np.sqrt(np.square(x).mean(0)), 1e-30))
