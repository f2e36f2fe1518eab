"""The Gaussian copula as a background: how often two dependent scores are both high without any event.

With a = P(s flagged | q quiet) and b = P(q flagged | s quiet), the margins m_s and m_q of the normal class solve
``m_s = a (1 - m_q) + C`` and ``m_q = b (1 - m_s) + C`` with C = C(m_s, m_q; ρ), the joint exceedance of the copula.
Then D = C. With ρ = 0 this is the paper's D = a·b.

**D grows with a and with b** for 0 ≤ ρ < 1, which the exact search builds on. Write p and r for the slopes of C in
m_s and m_q: p = P(q flagged | s at its threshold), r = P(s flagged | q at its threshold). Then
``(1 - p) dm_s - (r - a) dm_q = (1 - m_q) da`` and ``-(p - b) dm_s + (1 - r) dm_q = (1 - m_s) db``.
With ρ ≥ 0 a score is the more often flagged the higher the other one is, so r ≥ a and p ≥ b. And p + r ≤ 1 where both
thresholds lie above the medians, since the two are Φ of arguments whose sum is (ρ - 1)(t_s + t_q) / √(1 - ρ²); so
1 - p ≥ r ≥ r - a and 1 - r ≥ p ≥ p - b, and the determinant of the system is not negative. All entries of its inverse
are then not negative: m_s, m_q and with them C grow with a and b.

D is kept as a table of log(D / ab) over log a and log b, read bilinearly. Bilinear reading keeps the order of the
nodes, so the D in use is monotone everywhere, without any tolerance. It differs from the true D by 0.05 % or less as a
rule; it is never more than 0.03 % below and 1.5 % above it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from coad._typing import FloatArray

__all__ = [
    "LARGEST",
    "LEAST_LOG",
    "NO_LIFT",
    "STEP",
    "joint_exceedance",
    "lift_table",
    "log_lift",
    "normal_exceedance",
]

#: The largest ρ. Scores that agree more than this are one score, and the equations below get ill-conditioned.
LARGEST = 0.9
#: The table starts at a = b = 1e-8: fewer than one row in a hundred million. Below, log(D / ab) stays as it is there.
LEAST_LOG = float(np.log(1e-8))
#: Distance of the table's nodes in log a. Half of it would leave a quarter of the error and take four times as long.
STEP = 0.2
#: The table of ρ = 0: nothing to read, D = ab.
NO_LIFT: FloatArray = np.zeros((0, 0))

_NODES = int(-LEAST_LOG / STEP)  # the last one at a = 0.8; a stays below 0.5 where half of the rows are quiet
_ANGLES, _WEIGHTS = np.polynomial.legendre.leggauss(24)  # C is exact to 1e-8 of itself up to ρ = 0.9
_RHO_STEP = 0.1  # the equations are solved along growing ρ, each solution from the one before
_NEWTON = 4  # Newton steps for each; the last ρ takes more
_LONGEST = 1.0  # of a Newton step, in standard deviations
_LOWEST = -6.0  # no threshold is lower: everything is flagged there
_QUIETEST = 1e-300


def joint_exceedance(m_s: FloatArray | float, m_q: FloatArray | float, rho: float) -> FloatArray:
    """C(m_s, m_q; ρ): how often both scores exceed their thresholds, each of which m_s or m_q exceed.

    Parameters
    ----------
    m_s, m_q
        Probabilities; broadcast against each other.
    rho
        The correlation of the Gaussian copula, -0.9 to 0.9.

    Returns
    -------
    The probability of exceeding both, elementwise.

    >>> float(joint_exceedance(0.5, 0.25, 0.0))
    0.125
    >>> float(joint_exceedance(0.5, 0.5, 0.5).round(6))  # 1/4 + arcsin(ρ) / 2π
    0.333333
    """
    m_s, m_q = np.asarray(m_s, dtype=np.float64), np.asarray(m_q, dtype=np.float64)
    if rho == 0:
        return np.asarray(m_s * m_q)
    inner = np.clip(m_s, _QUIETEST, 1 - 1e-16), np.clip(m_q, _QUIETEST, 1 - 1e-16)
    both = normal_exceedance(-ndtri(inner[0]), -ndtri(inner[1]), rho)
    both = np.clip(both, np.maximum(m_s + m_q - 1, 0.0), np.minimum(m_s, m_q))
    return np.where((m_s > 0) & (m_q > 0), both, 0.0)


def normal_exceedance(t_s: FloatArray, t_q: FloatArray, rho: float) -> FloatArray:
    """P(Z_s > t_s, Z_q > t_q) of a bivariate normal (Drezner and Wesolowsky's integral over the angle).

    Parameters
    ----------
    t_s, t_q
        Thresholds, in standard deviations; broadcast against each other.
    rho
        The correlation, -0.9 to 0.9.

    Returns
    -------
    Probabilities, elementwise; for ρ > 0 a sum of positive terms, so exact in the far tail too.

    >>> float(normal_exceedance(np.array(0.0), np.array(0.0), 0.5).round(6))
    0.333333
    """
    half = np.arcsin(rho) / 2
    squares, product = (t_s * t_s + t_q * t_q) / 2, t_s * t_q
    total: FloatArray = ndtr(-t_s) * ndtr(-t_q)
    for node, weight in zip(_ANGLES, _WEIGHTS, strict=True):
        sine = np.sin(half * (1 + node))
        total = total + half * weight / (2 * np.pi) * np.exp((product * sine - squares) / (1 - sine * sine))
    return total


@lru_cache(maxsize=64)
def lift_table(rho: float) -> FloatArray:
    """log(D / ab) at the nodes ``LEAST_LOG + STEP·i`` of log a and of log b; empty for ρ ≤ 0.

    Below 0 the paper's D = ab counts more chance than there is: it stays an upper bound, and is kept.

    >>> lift_table(0.0).shape, bool(lift_table(0.5).min() >= 0)
    ((0, 0), True)
    """
    rho = min(float(rho), LARGEST)
    if rho <= 0:
        return NO_LIFT
    log_a = LEAST_LOG + STEP * np.arange(_NODES)
    want_a, want_b = np.meshgrid(log_a, log_a, indexing="ij")
    t_s, t_q = -ndtri(np.exp(want_a)), -ndtri(np.exp(want_b))
    for step in np.linspace(0, rho, int(np.ceil(rho / _RHO_STEP)) + 1)[1:]:
        for _ in range(_NEWTON if step < rho else 4 * _NEWTON):
            t_s, t_q, both = _newton(t_s, t_q, want_a, want_b, float(step))
    log_chance = np.log(np.maximum(both, _QUIETEST))
    # Rounding must not break the order that the proof promises.
    log_chance = np.maximum.accumulate(np.maximum.accumulate(log_chance, axis=0), axis=1)
    table: FloatArray = log_chance - want_a - want_b
    table.setflags(write=False)
    return table


def _newton(
    t_s: FloatArray, t_q: FloatArray, want_a: FloatArray, want_b: FloatArray, rho: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One step towards the thresholds with the wanted log a and log b; C at the ones it started from."""
    spread = np.sqrt(1 - rho * rho)
    x, y, both = ndtr(-t_s), ndtr(-t_q), normal_exceedance(t_s, t_q, rho)
    p, r = ndtr((rho * t_s - t_q) / spread), ndtr((rho * t_q - t_s) / spread)
    a = np.maximum(x - both, _QUIETEST) / (1 - y)
    b = np.maximum(y - both, _QUIETEST) / (1 - x)
    high_s, high_q = (np.exp(-t * t / 2) / np.sqrt(2 * np.pi) for t in (t_s, t_q))
    # Slopes of log a and log b in t_s and t_q.
    a_s, a_q = -high_s * (1 - p) / ((1 - y) * a), high_q * (r - a) / ((1 - y) * a)
    b_s, b_q = high_s * (p - b) / ((1 - x) * b), -high_q * (1 - r) / ((1 - x) * b)
    off_a, off_b = want_a - np.log(a), want_b - np.log(b)
    determinant = a_s * b_q - a_q * b_s
    determinant = np.where(np.abs(determinant) > 1e-12, determinant, 1e-12)
    step_s = (off_a * b_q - off_b * a_q) / determinant
    step_q = (off_b * a_s - off_a * b_s) / determinant
    moved = (
        np.maximum(t + np.clip(step, -_LONGEST, _LONGEST), _LOWEST)
        for t, step in ((t_s, step_s), (t_q, step_q))
    )
    return (*moved, both)


def log_lift(a: FloatArray, b: FloatArray, table: FloatArray) -> FloatArray:
    """log(D / ab) from a table, bilinear in log a and log b; 0 where a or b is 0, as D is.

    >>> log_lift(np.array([0.1]), np.array([0.1]), NO_LIFT)
    array([0.])
    """
    if table.size == 0:
        return np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)))
    (i, u), (j, v) = (_place(x, len(table)) for x in (a, b))
    low = (1 - u) * table[i, j] + u * table[i + 1, j]
    high = (1 - u) * table[i, j + 1] + u * table[i + 1, j + 1]
    return np.where((np.asarray(a) > 0) & (np.asarray(b) > 0), (1 - v) * low + v * high, 0.0)


def _place(x: FloatArray, nodes: int) -> tuple[FloatArray, FloatArray]:
    """The node below and the share of the way to the next."""
    at = np.clip((np.log(np.maximum(x, _QUIETEST)) - LEAST_LOG) / STEP, 0.0, nodes - 1.0)
    node = np.minimum(at.astype(np.int64), nodes - 2)
    return node, at - node
