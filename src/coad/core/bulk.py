"""How strongly two scores depend on each other away from their corners: the correlation of the bulk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from coad._typing import FloatArray, IntArray
from coad.core.copula import LARGEST

__all__ = ["BULK", "BulkFit", "fit_bulk", "normal_scores", "ranks_within", "rho_of_bulk"]

#: The bulk: rows whose ranks in both scores are below this. Events are rarer than a tenth of the rows as a rule, and
#: what lies above would measure them instead of the normal class.
BULK = 0.9
#: With fewer rows in the bulk than this, its correlation says nothing.
FEWEST = 20
_CUT = float(ndtri(BULK))
_LADDER = np.linspace(
    -LARGEST, LARGEST, 181
)  # ρ for which the correlation of the bulk is tabulated: steps of 0.01


@dataclass(frozen=True)
class BulkFit:
    """The correlation of the bulk, its standard error, and the rows behind it (0: nothing could be measured)."""

    rho: float
    error: float
    rows: int


def ranks_within(score: FloatArray, code: IntArray | None = None) -> FloatArray:
    """Each row's rank within its stratum, in (0, 1); tied rows share the mean of theirs.

    >>> ranks_within(np.array([3.0, 1.0, 2.0, 2.0]))
    array([0.875, 0.125, 0.5  , 0.5  ])
    """
    n = len(score)
    home = np.zeros(n, dtype=np.int64) if code is None else code
    order = np.lexsort((score, home))
    sizes = np.bincount(home, minlength=1)
    start = np.cumsum(sizes) - sizes
    place = np.arange(n) - start[home[order]]
    new = np.ones(n, dtype=bool)
    new[1:] = (np.diff(score[order]) != 0) | (np.diff(home[order]) != 0)
    tie = np.cumsum(new) - 1
    middle = np.bincount(tie, place) / np.bincount(tie)
    ranks = np.empty(n)
    ranks[order] = (middle[tie] + 0.5) / sizes[home[order]]
    return ranks


def normal_scores(score: FloatArray, code: IntArray | None = None) -> FloatArray:
    """Normal scores of the ranks; infinite, so outside the bulk, where a row is alone in its stratum and has no rank.

    >>> normal_scores(np.array([2.0, 1.0, 3.0]), np.array([0, 0, 1])).round(3)
    array([ 0.674, -0.674,    inf])
    """
    z: FloatArray = ndtri(ranks_within(score, code))
    if code is not None:
        z[np.bincount(code)[code] == 1] = np.inf
    return z


def fit_bulk(z_s: FloatArray, z_q: FloatArray) -> BulkFit:
    """ρ of a Gaussian copula from the normal scores of the ranks, by the rows in the bulk alone.

    The correlation within the bulk, a box, is smaller than ρ; how much smaller is known
    (:func:`rho_of_bulk`). For small ρ this has the precision of the truncated likelihood, and unlike that it does not
    ask for scores without ties.

    Parameters
    ----------
    z_s, z_q
        Normal scores of the ranks.

    Returns
    -------
    BulkFit
        With ρ = 0 and no rows where a score is constant in the bulk or there are fewer than 20 rows in it.
    """
    inside = (z_s < _CUT) & (z_q < _CUT)
    rows = int(np.count_nonzero(inside))
    s, q = z_s[inside], z_q[inside]
    if rows < FEWEST or np.ptp(s) == 0 or np.ptp(q) == 0:
        return BulkFit(0.0, 0.0, 0)
    s, q = s - s.mean(), q - q.mean()
    r = float(s @ q / np.sqrt((s @ s) * (q @ q)))
    rho = rho_of_bulk(r)
    known, near = _correlations(), min(int(np.searchsorted(_LADDER[1:-1], rho)), len(_LADDER) - 2)
    slope = (known[near + 1] - known[near]) / (_LADDER[1] - _LADDER[0])
    spread = max(1 - r * r, 1e-6)  # two scores that are one have no error at all, but rounding
    return BulkFit(rho, float(spread / np.sqrt(rows) / slope), rows)


def rho_of_bulk(correlation: float) -> float:
    """ρ of the copula whose bulk has this correlation.

    >>> rho_of_bulk(0.0), 0.3 < rho_of_bulk(0.25) < 0.4
    (0.0, True)
    """
    rho = float(np.interp(correlation, _correlations(), _LADDER))
    return 0.0 if abs(rho) < 1e-12 else rho


@lru_cache(maxsize=1)
def _correlations() -> FloatArray:
    """The correlation of the bulk for each ρ of the ladder: moments of a bivariate normal cut at the same height twice."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half = (_CUT + 9.0) / 2
    z = half * (nodes + 1) - 9.0
    density = half * weights * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    out = np.empty(len(_LADDER))
    for i, rho in enumerate(_LADDER):
        spread = np.sqrt(1 - rho * rho)
        room = (_CUT - rho * z) / spread
        below, height = ndtr(room), np.exp(-room * room / 2) / np.sqrt(2 * np.pi)
        mean_other = rho * z * below - spread * height  # E[z_q; z_q < cut | z_s]
        mass, mean = density @ below, density @ (z * below)
        square, product = density @ (z * z * below), density @ (z * mean_other)
        mean, square, product = mean / mass, square / mass, product / mass
        out[i] = (product - mean * mean) / (square - mean * mean)
    return out
