"""Slow, obvious code that anyone can check, for the fast paths to be compared with."""

from __future__ import annotations

import math

import numpy as np


def chance_fraction(n, mu_s, mu_q, joint, *, naive=False, corrected=False):
    """D of one stratum: paper, eq. for D; 1 when nothing can be told (see coad.core.metric)."""
    if corrected and n == 1:
        return joint
    if naive:
        chance = mu_s * mu_q
    elif mu_s == 1 or mu_q == 1:
        chance = joint
    else:
        chance = (mu_s - joint) / (1 - mu_q) * (mu_q - joint) / (1 - mu_s)
    if corrected:
        true = (joint - chance) * n / (n - 1)
        chance = max(0.0, joint - true)
    return chance


def fbeta(flag_s, flag_q, *, beta, alpha, context=None, naive=False):
    """F̂β of 0/1 flags, stratum by stratum."""
    n = len(flag_s)
    context = np.zeros(n, int) if context is None else np.asarray(context)
    strata = np.unique(context)
    joint = true = 0.0
    for stratum in strata:
        rows = context == stratum
        s, q = flag_s[rows].astype(float), flag_q[rows].astype(float)
        here = float(np.mean(s * q))
        chance = chance_fraction(rows.sum(), s.mean(), q.mean(), here, naive=naive, corrected=len(strata) > 1)
        joint += rows.sum() / n * here
        true += rows.sum() / n * (here - chance)
    if math.isinf(beta):
        return true / alpha
    if joint + alpha * beta**2 == 0:
        return 0.0
    return (1 + beta**2) * true / (joint + alpha * beta**2)


def best_thresholds(score_s, score_q, *, beta, alpha, context=None, naive=False):
    """Try every pair of scores as thresholds: (F̂β, t_s, t_q), or None if no pair is allowed."""
    best = None
    for t_s in np.unique(score_s):
        flag_s = score_s >= t_s
        if flag_s.mean() > 0.5:
            continue
        for t_q in np.unique(score_q):
            flag_q = score_q >= t_q
            if flag_q.mean() > 0.5 or not (flag_s & flag_q).any():
                continue
            value = fbeta(flag_s, flag_q, beta=beta, alpha=alpha, context=context, naive=naive)
            if best is None or value > best[0]:
                best = (value, t_s, t_q)
    return best


def best_value_by_table(score_s, score_q, *, beta, alpha, naive=False):
    """The same maximum without strata, all pairs at once: quick enough for thousands of cases."""
    n = len(score_s)
    flags_s = score_s[:, None] >= np.unique(score_s)
    flags_q = score_q[:, None] >= np.unique(score_q)
    flags_s = flags_s[:, flags_s.mean(0) <= 0.5].astype(float)
    flags_q = flags_q[:, flags_q.mean(0) <= 0.5].astype(float)
    joint = flags_s.T @ flags_q / n
    mu_s, mu_q = flags_s.mean(0)[:, None], flags_q.mean(0)[None, :]
    chance = mu_s * mu_q if naive else (mu_s - joint) * (mu_q - joint) / ((1 - mu_q) * (1 - mu_s))
    allowed = joint > 0
    if not allowed.any():
        return None
    true = (joint - chance)[allowed]
    if math.isinf(beta):
        return true.max() / alpha
    return ((1 + beta**2) * true / (joint[allowed] + alpha * beta**2)).max()


def joint_exceedance(m_s, m_q, rho):
    """C(m_s, m_q; ρ), by SciPy's bivariate normal distribution."""
    from scipy.stats import multivariate_normal, norm

    return multivariate_normal.cdf([norm.ppf(m_s), norm.ppf(m_q)], cov=[[1, rho], [rho, 1]])


def correlated_chance_fraction(mu_s, mu_q, joint, rho):
    """D with a Gaussian copula in the normal class: two equations for its margins, one solved within the other."""
    from scipy.optimize import brentq

    a, b = (mu_s - joint) / (1 - mu_q), (mu_q - joint) / (1 - mu_s)
    if a <= 0 or b <= 0:
        return 0.0

    def margin_s(m_q):
        return brentq(lambda m_s: m_s - a * (1 - m_q) - joint_exceedance(m_s, m_q, rho), 1e-12, 1 - 1e-9)

    def off(m_q):
        m_s = margin_s(m_q)
        return m_q - b * (1 - m_s) - joint_exceedance(m_s, m_q, rho)

    m_q = brentq(off, 1e-12, 1 - 1e-6)
    return joint_exceedance(margin_s(m_q), m_q, rho)


def drawn_null(score_s, score_q, rho, rng):
    """Both scores with their own values, paired as a Gaussian copula without events would pair them."""
    n = len(score_s)
    z_s = rng.normal(size=n)
    z_q = rho * z_s + math.sqrt(1 - rho**2) * rng.normal(size=n)
    return np.sort(score_s)[z_s.argsort().argsort()], np.sort(score_q)[z_q.argsort().argsort()]


def optimism_of_halves(score_s, score_q, *, beta, alpha, splits, rng):
    """Rows cut into two random halves: (F̂, P̂, R̂) of the pair that one half picks, on that half less on the other."""
    flags_s, flags_q = (
        np.array([score >= t for t in np.unique(score) if (score >= t).mean() <= 0.5], dtype=float)
        for score in (score_s, score_q)
    )
    sums = np.zeros((2, 2))  # TP and J, of the half that picks and of the other
    for _ in range(splits):
        half = rng.random(len(score_s)) < 0.5
        measured = []
        for rows in (half, ~half):
            a, b = flags_s[:, rows], flags_q[:, rows]
            joint = a @ b.T / rows.sum()
            mu_s, mu_q = a.mean(1)[:, None], b.mean(1)[None, :]
            chance = (mu_s - joint) * (mu_q - joint) / ((1 - mu_q) * (1 - mu_s))
            measured.append((joint - chance, joint))
        true, joint = measured[0]
        value = np.where(joint > 0, (1 + beta**2) * true / (joint + alpha * beta**2), 0.0)
        pick = np.unravel_index(value.argmax(), value.shape)
        sums += [[one[pick] for one in part] for part in measured]
    (true, joint), (true_other, joint_other) = sums / splits
    values = [
        np.array([(1 + beta**2) * t / (j + alpha * beta**2), t / j, t / alpha])
        for t, j in ((true, joint), (true_other, joint_other))
    ]
    return values[0] - values[1]
