"""F̂, P̂, R̂, J and TP of a rule from moments, and their intervals by resampling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.copula import LARGEST
from coad.core.metric import fbeta_hat, fbeta_of, precision_hat, recall_hat, true_positive_fraction
from coad.core.moments import Moments
from coad.core.rule import Rule

__all__ = ["figures", "figures_of_draws", "interval_ends", "rate_of", "within_error"]

#: Draws behind an interval.
_RESAMPLES = 400


def figures(moments: Moments, rule: Rule) -> list[float]:
    """F̂, P̂, R̂, J and TP; all 0 if nothing coincides.

    An estimated α is a lower bound: if TP is larger, TP takes its place, and R̂ is at most 1.
    """
    if not float(moments.mu_sq) > 0:
        return [0.0] * 5
    rho = rule.correlation
    true = float(true_positive_fraction(moments, correlation=rho))
    alpha = rule.alpha if rule.alpha_given else rate_of(rule.alpha, true)
    cap = not rule.alpha_given
    return [
        float(fbeta_hat(moments, beta=rule.beta, alpha=alpha, cap=cap, correlation=rho)),
        float(precision_hat(moments, correlation=rho)),
        float(recall_hat(moments, alpha=alpha, cap=cap, correlation=rho)),
        float(moments.mu_sq),
        true,
    ]


def rate_of(estimated: float, found: float) -> float:
    """The larger of the estimated anomaly rate and the TP found here, above 0 and at most one half.

    >>> rate_of(0.1, 0.2), rate_of(0.1, 0.51)
    (0.2, 0.5)
    """
    return float(np.clip(max(estimated, found), 1e-12, 0.5))


def interval_ends(
    x_s: Any, x_q: Any, code: IntArray | None, rule: Rule, overlap: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Both ends of the intervals of :func:`figures`, by a smoothed Bayesian bootstrap.

    Rows of a stratum that agree (to a sixty-fourth) count as one cell, and a draw weighs the cells, so its cost
    does not grow with the rows. Half a pseudo-row in each corner keeps three joint rows out of three from passing
    for certainty. Windows that share samples count for less than one row each.
    """
    grid = 64
    home = np.zeros(len(x_s), dtype=np.int64) if code is None else code
    strata = int(home.max()) + 1 if len(home) else 1
    s, q = np.asarray(x_s, dtype=np.float64), np.asarray(x_q, dtype=np.float64)
    cell = (home * (grid + 1) + np.rint(s * grid).astype(np.int64)) * (grid + 1) + np.rint(q * grid).astype(
        np.int64
    )
    cells, index, size = np.unique(cell, return_inverse=True, return_counts=True)
    corners = np.array([(a, b) for a in (0.0, 1.0) for b in (0.0, 1.0)])
    values = np.concatenate(
        [np.stack([np.bincount(index, x) / size for x in (s, q, s * q)], axis=1)]
        + [np.column_stack([corners, corners.prod(1)])] * strata
    )
    home = np.r_[cells // (grid + 1) ** 2, np.repeat(np.arange(strata), 4)]
    counts = np.r_[size / overlap, np.full(4 * strata, 0.5 / strata)]
    rules = [
        replace(rule, correlation=rho) for rho in within_error(rule.correlation, rule.correlation_uncertainty)
    ]
    each: list[FloatArray] = []
    for one in rules:
        if code is None:  # all draws at once: a row of weights for each
            weights = rng.gamma(counts, size=(_RESAMPLES // 2, len(counts)))
            each.extend(figures_of_draws(Moments(weights.sum(1), *(weights @ values).T), one))
            continue
        for _ in range(_RESAMPLES // 2):
            weight = rng.gamma(counts)
            n, sum_s, sum_q, sum_sq = (np.bincount(home, weight * x, strata) for x in (1.0, *values.T))
            used = n > 1  # a stratum of a single row proves nothing
            names = tuple(range(int(used.sum())))
            each.append(
                np.array(figures(Moments(n[used], sum_s[used], sum_q[used], sum_sq[used], names), one))
            )
    low, high = np.quantile(np.array(each), (0.025, 0.975), axis=0)
    return low, high


def within_error(rho: float, error: float) -> tuple[float, float]:
    """Two correlations whose mean and standard deviation are an estimate and its error, as far as 0 to 0.9 allow.

    >>> within_error(0.5, 0.25), within_error(0.25, 0.5), within_error(0.0, 0.0)
    ((0.25, 0.75), (0.0, 0.75), (0.0, 0.0))
    """
    low, high = np.clip([rho - error, rho + error], 0.0, LARGEST)
    return float(low), float(high)


def figures_of_draws(moments: Moments[FloatArray], rule: Rule) -> FloatArray:
    """The :func:`figures` of many draws at once, (draws, 5)."""
    joint = np.asarray(moments.mu_sq)
    true: FloatArray = np.asarray(true_positive_fraction(moments, correlation=rule.correlation))
    if rule.alpha_given:
        alpha, capped = np.full_like(true, rule.alpha), true
    else:
        alpha = np.clip(np.maximum(true, rule.alpha), 1e-12, 0.5)
        capped = np.minimum(true, alpha)
    parts = [
        fbeta_of(capped, joint, rule.beta, alpha),
        fbeta_of(true, joint, 0.0),
        fbeta_of(capped, joint, math.inf, alpha),
        joint,
        true,
    ]
    return np.where(joint[:, None] > 0, np.stack(parts, axis=1), 0.0)
