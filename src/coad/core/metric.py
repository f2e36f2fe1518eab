"""The unsupervised metric: F̂β, P̂, R̂ as functions of moments.

Two models give each pair a confidence ``p_s`` and ``p_q`` in [0, 1]. Everything
the metric needs is in four sums (:class:`~coad.core.moments.Moments`), and sums add: batches,
shards and streams are merged exactly by ``+``, and the metric is never averaged.

This is the only home of D, TP, F̂, P̂ and R̂. The arithmetic is written once, as functions of
numbers (:func:`chance_of`, :func:`small_sample_chance`, :func:`fbeta_of`), and serves floats,
NumPy arrays and torch tensors; torch is never imported here. Those functions take counts
of rows as well as fractions. What must be compiled (:mod:`coad.core.search`) restates them,
and ``tests/test_one_metric.py`` holds every restatement against this module.

Values where the formulas have none:

========================================  =====================================
no rows, or no joint event (J = 0)        D as the formula has it, TP = J - D,
                                          P̂ = 0
every row flagged in one input (mu = 1)   D = J, hence TP = 0: with no quiet row
                                          left, nothing tells truth from chance
a stratum with a single row               D = J, hence TP = 0, for the same reason
J + αβ² = 0                               F̂ = 0
========================================  =====================================

Each of them is announced by :class:`~coad.exceptions.UndefinedMetricWarning`
(not for torch tensors, whose values are not looked at).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from coad._typing import Numeric
from coad.core.arrays import like, maximum, mean, minimum, ratio, warn_if, where
from coad.core.moments import Moments, Value
from coad.core.validation import check_beta, check_rate
from coad.exceptions import UndefinedMetricWarning

__all__ = [
    "chance_of",
    "false_positive_fraction",
    "fbeta_hat",
    "fbeta_of",
    "fbeta_weights",
    "joint_fraction",
    "naive_false_positive_fraction",
    "precision_hat",
    "recall_hat",
    "small_sample_chance",
    "true_positive_fraction",
]


@contextmanager
def ignore_undefined() -> Iterator[None]:
    """Suppress :class:`UndefinedMetricWarning` where many strata or resamples make undefined values normal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        yield


def joint_fraction(moments: Moments[Value]) -> Value:
    """J, the fraction of joint events.

    >>> joint_fraction(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]))
    0.25
    """
    return moments.mu_sq


def false_positive_fraction(moments: Moments[Value], *, correlation: float = 0.0) -> Value:
    """D, the estimated fraction of rows that are joint events by chance.

    ``D = (mu_s - J)(mu_q - J) / ((1 - mu_q)(1 - mu_s))`` (paper, eq. for D);
    with strata, the sum over strata weighted by their size. With a ``correlation`` of the normal class above 0,
    that of a Gaussian copula (:mod:`coad.core.copula`).

    >>> round(false_positive_fraction(Moments.of([1, 1, 0, 0], [1, 0, 1, 0])), 4)
    0.25
    """
    return cast(Value, _chance_fraction(moments, naive=False, correlation=correlation))


def naive_false_positive_fraction(moments: Moments[Value]) -> Value:
    """D_naive = mu_s·mu_q, as if the two inputs were wholly independent (D ≤ D_naive).

    >>> naive_false_positive_fraction(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]))
    0.125
    """
    return cast(Value, _chance_fraction(moments, naive=True))


def true_positive_fraction(
    moments: Moments[Value], *, naive: bool = False, correlation: float = 0.0
) -> Value:
    """TP = J - D, the estimated fraction of rows that are joint events for a reason."""
    joint: Any = moments.mu_sq
    return cast(Value, joint - _chance_fraction(moments, naive=naive, correlation=correlation))


def fbeta_hat(
    moments: Moments[Value],
    *,
    beta: float = 1.0,
    alpha: float | None = None,
    naive: bool = False,
    cap: bool = False,
    correlation: float = 0.0,
) -> Value:
    """F̂β = (1 + β²) TP / (J + αβ²), the label-free counterpart of Fβ.

    Parameters
    ----------
    moments
        The sums over the rows.
    beta
        From 0 (precision) to ``inf`` (recall).
    alpha
        The anomaly rate; needed for β > 0.
    naive
        Take D_naive for D.
    cap
        Limit TP to α, so that nothing is gained by flagging more than there can be (then F̂ ≤ 1).
    correlation
        ρ of the normal class, as for :func:`false_positive_fraction`.

    Returns
    -------
    F̂: a float, or an array or tensor if the moments hold these.

    >>> m = Moments.of([1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0])
    >>> fbeta_hat(m, beta=1, alpha=0.25)
    1.0
    """
    beta = check_beta(beta)
    true_positives: Any = true_positive_fraction(moments, naive=naive, correlation=correlation)
    joint: Any = moments.mu_sq
    rate = check_rate(alpha) if beta * beta > 0 or cap else 0.0
    if cap:
        true_positives = minimum(true_positives, rate)
    if beta * beta == 0:
        warn_if(joint <= 0, "F̂ is set to 0: no joint event")
    return cast(Value, fbeta_of(true_positives, joint, beta, rate))


def precision_hat(moments: Moments[Value], *, naive: bool = False, correlation: float = 0.0) -> Value:
    """P̂ = F̂₀ = TP / J: the part of the joint events that chance does not explain.

    Parameters and returned value are as for :func:`fbeta_hat`.

    >>> precision_hat(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]))
    1.0
    """
    return fbeta_hat(moments, beta=0.0, naive=naive, correlation=correlation)


def recall_hat(
    moments: Moments[Value],
    *,
    alpha: float,
    naive: bool = False,
    cap: bool = False,
    correlation: float = 0.0,
) -> Value:
    """R̂ = F̂∞ = TP / α: the part of all anomalies that is found.

    Parameters and returned value are as for :func:`fbeta_hat`.

    >>> recall_hat(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]), alpha=0.5)
    0.5
    """
    return fbeta_hat(moments, beta=math.inf, alpha=alpha, naive=naive, cap=cap, correlation=correlation)


def chance_of(
    n: Numeric, s: Numeric, q: Numeric, joint: Numeric, *, naive: bool = False, correlation: float = 0.0
) -> Numeric:
    """D of one stratum (paper, eq. for D), in the unit of its arguments.

    Parameters
    ----------
    n
        The number of rows if the others are counts; 1 if they are fractions.
    s, q, joint
        What s flags, what q flags, and what both flag.
    naive
        D_naive = s·q / n, as if the two inputs were wholly independent.
    correlation
        ρ of a Gaussian copula inside the normal class (:mod:`coad.core.copula`); not for torch tensors.

    Returns
    -------
    D, elementwise; all of ``joint`` where an input flags every row.

    >>> chance_of(8, 4, 2, 1), chance_of(1, 0.5, 0.25, 0.125), chance_of(8, 8, 2, 2)
    (1.0, 0.125, 2)
    """
    if naive:
        return s * q / n
    quiet = (n - s) * (n - q)
    blind = quiet <= 0
    chance = n * (s - joint) * (q - joint) / where(blind, 1.0, quiet)
    if correlation > 0:
        from coad.core.copula import lift_table, log_lift

        only_s, only_q = (s - joint) / where(blind, 1.0, n - q), (q - joint) / where(blind, 1.0, n - s)
        chance = chance * np.exp(log_lift(only_s, only_q, lift_table(float(correlation))))
    return where(blind, joint, chance)


def small_sample_chance(chance: Numeric, joint: Numeric, n: Numeric) -> Numeric:
    """D of a stratum among several, corrected for its ``n`` rows.

    The covariance within a stratum of n rows is n/(n-1) times larger than it looks; D = J - TP
    follows, and chance is never below 0. A single row proves nothing: D = J.

    >>> small_sample_chance(1.0, 2.0, 11), small_sample_chance(0.0, 1.0, 1)
    (0.9, 1.0)
    """
    single = n <= 1
    corrected = maximum(chance + (chance - joint) / where(single, 1.0, n - 1.0), 0.0)
    return where(single, joint, corrected)


def fbeta_weights(beta: float) -> tuple[float, float]:
    """The weights of J and α in F̂β = TP / (w_J·J + w_α·α): 1 / (1 + β²) and β² / (1 + β²).

    Dividing (1 + β²) TP / (J + αβ²) by 1 + β² leaves nothing infinite at β = ``inf``.

    >>> fbeta_weights(0), fbeta_weights(1), fbeta_weights(float("inf"))
    ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))
    """
    square = float(beta) * float(beta)
    return (0.0, 1.0) if math.isinf(square) else (1.0 / (1.0 + square), square / (1.0 + square))


def fbeta_of(
    true_positives: Numeric, joint: Numeric, beta: float | Sequence[float], alpha: Numeric = 0.0
) -> Numeric:
    """F̂β from TP and J (paper, eq. for F̂); P̂ at β = 0, R̂ at β = ``inf``.

    Parameters
    ----------
    true_positives, joint, alpha
        TP, J and the anomaly rate, all as fractions or all as counts of rows.
    beta
        One β, or one for each place of the last axis.

    Returns
    -------
    F̂, elementwise; 0 where nothing is joint and β = 0.

    >>> fbeta_of(0.1, 0.2, 0), fbeta_of(0.1, 0.2, 1, 0.3), fbeta_of(0.1, 0.2, float("inf"), 0.4)
    (0.5, 0.4, 0.25)
    """
    if isinstance(beta, Sequence):
        w_joint, w_alpha = (
            like(true_positives, weights) for weights in zip(*map(fbeta_weights, beta), strict=True)
        )
    else:
        w_joint, w_alpha = fbeta_weights(beta)
    return ratio(true_positives, w_joint * joint + w_alpha * alpha)


def _chance_fraction(moments: Moments, *, naive: bool, correlation: float = 0.0) -> Any:
    """D (or D_naive), corrected for small strata and weighted over them."""
    n, mu_s, mu_q, joint = (
        moments.n,
        mean(moments.sum_s, moments.n),
        mean(moments.sum_q, moments.n),
        mean(moments.sum_sq, moments.n),
    )
    if not naive:
        warn_if((mu_s >= 1) | (mu_q >= 1), "every row is flagged in one input: TP is set to 0")
    chance = chance_of(1.0, mu_s, mu_q, joint, naive=naive, correlation=correlation)
    if moments.strata is None:
        return chance
    if len(moments.strata) > 1:
        warn_if((n <= 1) & (joint > 0), "a stratum has a single row: its TP is set to 0")
        chance = small_sample_chance(chance, joint, n)
    weight = mean(n, n.sum(-1)[..., None])
    return (weight * chance).sum(-1)
