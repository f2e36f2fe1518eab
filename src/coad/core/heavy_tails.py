"""Heavy tails that two scores have in common: a t-copula instead of a Gaussian one.

Where both inputs are noisy at the same times, extremes coincide without any event. A t-copula describes it: a Gaussian
copula whose scale is drawn for both scores together. It is symmetric, so the lower-lower corner and the two mixed ones
are too full as well, whereas events fill the upper-upper corner alone. So the degrees of freedom are fitted to all
rows but those of the upper-upper corner, and then the evidence is judged against that t-copula.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtri, stdtrit

from coad._typing import FloatArray
from coad.core.bulk import BULK
from coad.core.copula import normal_exceedance

__all__ = ["fit_freedom", "t_cells", "t_exceedance"]

#: Ranks between which rows are counted; denser in the tails, where degrees of freedom show.
EDGES: FloatArray = np.array([0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99])
#: Degrees of freedom that are tried: each has a corner about a quarter fuller than the next. Infinite is Gaussian.
FREEDOMS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0, 17.0, 23.0, 30.0, 50.0, 100.0, math.inf)
_SCALES = 48  # nodes of the common scale; more change no cell by a thousandth
_RHO_STEP = 0.01  # ρ is rounded to this in the table of cells


def fit_freedom(rank_s: FloatArray, rank_q: FloatArray, rho: float) -> float:
    """Degrees of freedom of the t-copula that fits best, rows of the upper-upper corner left out.

    Parameters
    ----------
    rank_s, rank_q
        Ranks in (0, 1).
    rho
        The correlation, of the bulk.

    Returns
    -------
    One of ``FREEDOMS``; infinite if the tails are those of a Gaussian copula.

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 20_000)) / np.sqrt(rng.chisquare(4, 20_000) / 4)
    >>> ranks = [(x.argsort().argsort() + 0.5) / 20_000 for x in (s, q)]
    >>> fit_freedom(*ranks, 0.0)
    4.0
    """
    cells = len(EDGES) + 1
    place = np.searchsorted(EDGES, rank_s) * cells + np.searchsorted(EDGES, rank_q)
    counts = np.bincount(place, minlength=cells * cells).reshape(cells, cells)
    corner = int(np.searchsorted(EDGES, BULK)) + 1  # the first cell above the bulk
    kept = np.ones((cells, cells), dtype=bool)
    kept[corner:, corner:] = False
    fits = []
    for freedom in FREEDOMS:
        expected = t_cells(round(rho / _RHO_STEP) * _RHO_STEP, freedom)[kept]
        fits.append(float(counts[kept] @ np.log(expected / expected.sum())))
    return FREEDOMS[int(np.argmax(fits))]


@lru_cache(maxsize=256)
def t_cells(rho: float, freedom: float) -> FloatArray:
    """Probabilities of the cells between ``EDGES`` under a t-copula.

    >>> bool(abs(t_cells(0.3, 5.0).sum() - 1) < 1e-6)
    True
    """
    inner = _thresholds(freedom)
    both = np.zeros((len(EDGES) + 2, len(EDGES) + 2))
    both[1:-1, 1:-1] = t_exceedance(inner[:, None], inner[None, :], rho, freedom)
    both[0, 1:-1] = both[1:-1, 0] = 1 - EDGES
    both[0, 0] = 1.0
    cells = both[:-1, :-1] - both[1:, :-1] - both[:-1, 1:] + both[1:, 1:]
    return np.maximum(cells, 1e-9)


def _thresholds(freedom: float) -> FloatArray:
    values: FloatArray = ndtri(EDGES) if math.isinf(freedom) else stdtrit(freedom, EDGES)
    return values


def t_exceedance(t_s: FloatArray, t_q: FloatArray, rho: float, freedom: float) -> FloatArray:
    """P(T_s > t_s, T_q > t_q) of a bivariate t-distribution: a normal one averaged over the common scale.

    Parameters
    ----------
    t_s, t_q
        Thresholds; broadcast against each other.
    rho, freedom
        The correlation and the degrees of freedom; infinite: normal.

    Returns
    -------
    Probabilities, elementwise.

    >>> float(t_exceedance(np.array(0.0), np.array(0.0), 0.5, 3.0).round(6))
    0.333333
    """
    if math.isinf(freedom):
        return normal_exceedance(t_s, t_q, rho)
    nodes, weights = np.polynomial.legendre.leggauss(_SCALES)
    scale = np.sqrt(2 * gammaincinv(freedom / 2, (nodes + 1) / 2) / freedom)
    total: FloatArray = np.zeros(np.broadcast_shapes(t_s.shape, t_q.shape))
    for one, weight in zip(scale, weights / 2, strict=True):
        total = total + weight * normal_exceedance(one * t_s, one * t_q, rho)
    return total
