"""Coordinates in which everything that two inputs share has the same width.

Canonical correlation analysis (Hotelling, 1936) finds the directions of s and of q that go along with each
other most. In these coordinates a faint shared factor is as wide as a strong one, and what only one
input sees is gone: a kind of rows that is drowned in the columns as they came lies apart. Where one input has so few
columns that all its directions are used, directions of the other that go along with a *place* in it are kept too.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from coad._typing import BoolArray, FloatArray

__all__ = ["canonical_maps"]

#: Directions whose correlation, on rows that they were not fitted to, is smaller are left out. Of 0.1 and 0.3, the
#: second calls fewer good rows of simulated plants rare.
_LEAST = 0.3
#: A direction with a correlation below that is kept if a kind of few rows makes it: if what is far out on both sides at
#: once is so much more than a normal factor of that correlation has (x²y² in the mean, of width 1), and the correlation is
#: so many standard errors above 0. The farthest rows do not count: single wild ones are no kind. A kind of 1 % of the rows
#: that lies 5 widths away has a correlation of 0.2, and 0.6 to 2.4 more; a normal factor has none.
_FEW, _SURE, _WILD = 0.5, 4.0, 3
#: Of so few directions all are kept, if any is: a fault beside a daily cycle is a second direction of two, and faint.
_NARROW = 3
#: Added to the variance in each direction, where a column has 1: directions that hardly vary are noise.
_RIDGE = 1e-2
#: Clusters of the other input that a direction may go along with, rows that each must have, and rounds to find them.
_CLUSTERS, _ROWS_A_CLUSTER, _ROUNDS = 24, 20, 20
#: The least correlation with a place: many places fit a little of anything.
_PLACE = 0.4
#: More columns than this would take longer than the training.
_MOST_COLUMNS = 1_000


def canonical_maps(
    s: NDArray[np.float32], q: NDArray[np.float32], held: BoolArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """A matrix for each input, (columns, coordinates), or None if no direction is shared.

    Rows are scaled column by column. The maps are fitted to the rows that are not ``held``; the held ones tell
    how much of each direction is shared, and its width is that correlation. Directions that a rare kind makes are
    kept at a lower one.

    >>> rng = np.random.default_rng(0)
    >>> both, s, q = rng.normal(size=(3, 2000, 3)).astype(np.float32)
    >>> s[:, 0], q[:, 2] = both[:, 0], both[:, 0] + 0.1 * q[:, 2]
    >>> maps = canonical_maps(s, q, np.arange(2000) % 3 == 0)
    >>> [(abs(m[:, 0]) > 0.5).tolist() for m in maps]
    [[True, False, False], [False, False, True]]
    >>> canonical_maps(s, q[::-1], np.arange(2000) % 3 == 0) is None
    True
    """
    if max(s.shape[1], q.shape[1]) > _MOST_COLUMNS:
        return None
    parts = [[x[keep].astype(np.float64) for x in (s, q)] for keep in (~held, held)]
    (near_s, near_q), (far_s, far_q) = parts
    if min(len(near_s), len(far_s)) < 2:
        return None
    white_s, white_q = _whitening(near_s), _whitening(near_q)
    left, right = _turned(near_s @ white_s, near_q @ white_q)
    r, keep = _shared(far_s @ (white_s @ left), far_q @ (white_q @ right))
    if not keep.any():
        return None
    if len(keep) <= _NARROW:
        keep[:] = True
    sides = []
    for near, far, white, lines, other, directions in (
        (near_s, far_s, white_s, left[:, keep], (near_q, far_q), white_q.shape[1]),
        (near_q, far_q, white_q, right[:, keep], (near_s, far_s), white_s.shape[1]),
    ):
        width = np.maximum(r[keep], _LEAST)
        if lines.shape[1] == directions:
            # Every direction of the other input is used: its places may tell more.
            more, r_more = _beyond((near @ white, far @ white), lines, other)
            lines, width = np.column_stack([lines, more]), np.append(width, r_more)
        sides.append((white @ lines * (width / np.sqrt(np.square(width).mean()))).astype(np.float32))
    return sides[0], sides[1]


def _turned(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The directions in which two sets of columns, uncorrelated and of width 1, go along with each other, the most first."""
    left, _, right = np.linalg.svd(x.T @ y / len(x), full_matrices=False)
    return left, right.T


def _shared(x: FloatArray, y: FloatArray) -> tuple[FloatArray, BoolArray]:
    """How much each column of ``x`` goes along with that of ``y``, and whether it is kept."""
    x, y = _unit(x), _unit(y)
    r: FloatArray = (x * y).mean(0)
    tails = np.sort(np.square(x * y), axis=0)[:-_WILD].sum(0) / len(x) - 1.0 - 2.0 * np.square(r)
    few = (r >= _SURE / np.sqrt(len(x))) & (tails >= _FEW)
    return r, np.asarray((r >= _LEAST) | few)


def _beyond(
    own: tuple[FloatArray, FloatArray], lines: FloatArray, other: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Directions across ``lines`` that go along with a *place* in the other input, (columns, more), and how much.

    A kind in the midst of the others, or a code, is a place there and no direction; a direction of this input may tell
    it all the same. Rows are given as those of the fit and those held out, the own ones uncorrelated and of width 1.
    """
    (near, far), (near_other, far_other) = own, other
    count = min(_CLUSTERS, len(near) // _ROWS_A_CLUSTER)
    if count < 2 or lines.shape[1] == len(lines):
        return np.zeros((len(lines), 0)), np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters do no harm
        found = KMeans(count, n_init=1, max_iter=_ROUNDS, random_state=0).fit(near_other)
    inside, inside_far = (np.eye(count)[where] for where in (found.labels_, found.predict(far_other)))
    middle = inside.mean(0)
    white = _whitening(np.sqrt(count) * (inside - middle)) * np.sqrt(count)
    across = np.linalg.svd(lines, full_matrices=True)[0][
        :, lines.shape[1] :
    ]  # a basis of what the lines leave
    left, right = _turned(near @ across, (inside - middle) @ white)
    r = (_unit(far @ across @ left) * _unit((inside_far - middle) @ white @ right)).mean(0)
    keep = r >= _PLACE
    return (across @ left)[:, keep], r[keep]


def _whitening(x: FloatArray) -> FloatArray:
    """A matrix after which the columns are uncorrelated and of width 1; directions that never vary are dropped."""
    variance, directions = np.linalg.eigh(np.atleast_2d(np.cov(x.T, bias=True)))
    varies = variance > 1e-6 * max(float(variance[-1]), 1e-30)
    return np.asarray(directions[:, varies] / np.sqrt(variance[varies] + _RIDGE))


def _unit(x: FloatArray) -> FloatArray:
    """Each column with mean 0 and width 1."""
    x = x - x.mean(0)
    return np.asarray(x / np.maximum(np.sqrt(np.square(x).mean(0)), 1e-30))
