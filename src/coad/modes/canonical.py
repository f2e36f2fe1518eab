"""Coordinates in which everything that two inputs share has the same width.

Canonical correlation analysis (Hotelling, 1936) finds the directions of s and of q that go along with each
other most. In these coordinates a faint shared factor is as wide as a strong one, and what only one
input sees is gone: a kind of rows that is drowned in the columns as they came lies apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
#: Added to the variance in each direction, where a column has 1: directions that hardly vary are noise.
_RIDGE = 1e-2
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
    shared = (near_s @ white_s).T @ (near_q @ white_q) / len(near_s)
    left, _, right = np.linalg.svd(shared, full_matrices=False)
    map_s, map_q = white_s @ left, white_q @ right.T
    far_s, far_q = _unit(far_s @ map_s), _unit(far_q @ map_q)
    r = (far_s * far_q).mean(0)
    tails = np.sort(np.square(far_s * far_q), axis=0)[:-_WILD].sum(0) / len(far_s) - 1.0 - 2.0 * np.square(r)
    few = (r >= _SURE / np.sqrt(len(far_s))) & (tails >= _FEW)
    keep = (r >= _LEAST) | few
    if not keep.any():
        return None
    width = np.maximum(r[keep], _LEAST)
    width /= np.sqrt(np.square(width).mean())
    return (map_s[:, keep] * width).astype(np.float32), (map_q[:, keep] * width).astype(np.float32)


def _whitening(x: FloatArray) -> FloatArray:
    """A matrix after which the columns are uncorrelated and of width 1; directions that never vary are dropped."""
    variance, directions = np.linalg.eigh(np.atleast_2d(np.cov(x.T, bias=True)))
    varies = variance > 1e-6 * max(float(variance[-1]), 1e-30)
    return np.asarray(directions[:, varies] / np.sqrt(variance[varies] + _RIDGE))


def _unit(x: FloatArray) -> FloatArray:
    """Each column with mean 0 and width 1."""
    x = x - x.mean(0)
    return np.asarray(x / np.maximum(np.sqrt(np.square(x).mean(0)), 1e-30))
