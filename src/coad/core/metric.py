"""The unsupervised metric: moments, and F̂β, P̂, R̂ as functions of them.

Two models give each pair a confidence ``p_s`` and ``p_q`` in [0, 1]. Everything
the metric needs is in four sums (:class:`Moments`), and sums add: batches,
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
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from coad._typing import ArrayLike, Numeric
from coad.core.validation import check_beta, check_rate
from coad.exceptions import InputError, UndefinedMetricWarning

__all__ = [
    "Moments",
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


@dataclass(frozen=True)
class Moments:
    """Four additive sums: n, Σp_s, Σp_q, Σp_s·p_q.

    The sums may be floats, NumPy arrays (many settings at once) or torch tensors.
    With ``strata``, the last axis of each sum runs over the context strata that
    ``strata`` names; without, there is one stratum, which is the paper's method.

    >>> m = Moments.of([1, 1, 0, 0], [1, 0, 0, 0])
    >>> m.n, m.mu_s, m.mu_q, m.mu_sq
    (4.0, 0.5, 0.25, 0.25)
    >>> (m + m).n
    8.0
    """

    n: Numeric
    sum_s: Numeric
    sum_q: Numeric
    sum_sq: Numeric
    strata: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, p_s: Numeric, p_q: Numeric, context: ArrayLike | None = None) -> Moments:
        """The moments of two confidences (0/1 flags or anything between).

        ``p_s`` and ``p_q`` are one-dimensional and of one length; ``context``
        names each row's stratum. Torch tensors keep their graph.

        >>> Moments.of([1, 0, 1], [1, 1, 0], context=["a", "b", "b"]).sum_sq
        array([1., 0.])
        """
        if _is_torch(p_s) or _is_torch(p_q):
            return cls._of_torch(p_s, p_q, context)
        s, q = _confidences(p_s, "p_s"), _confidences(p_q, "p_q")
        if len(s) != len(q):
            raise InputError(f"p_s has {len(s):,} rows and p_q has {len(q):,}; they must match row by row")
        if context is None:
            return cls(float(len(s)), float(s.sum()), float(q.sum()), float(s @ q))
        strata, code = _codes(context, len(s))
        size = len(strata)
        return cls(
            np.bincount(code, minlength=size).astype(float),
            np.bincount(code, s, size),
            np.bincount(code, q, size),
            np.bincount(code, s * q, size),
            strata,
        )

    @classmethod
    def _of_torch(cls, p_s: Any, p_q: Any, context: ArrayLike | None) -> Moments:
        torch = sys.modules["torch"]
        s, q = torch.as_tensor(p_s).double(), torch.as_tensor(p_q).double()
        if context is None:
            return cls(float(s.shape[0]), s.sum(), q.sum(), (s * q).sum())
        strata, code = _codes(context, s.shape[0])
        index = torch.as_tensor(code, device=s.device)
        zero = torch.zeros(len(strata), dtype=torch.float64, device=s.device)
        return cls(
            zero.index_add(0, index, torch.ones_like(s)),
            zero.index_add(0, index, s),
            zero.index_add(0, index, q),
            zero.index_add(0, index, s * q),
            strata,
        )

    def __add__(self, other: Moments) -> Moments:
        if self.strata == other.strata:
            return Moments(
                self.n + other.n,
                self.sum_s + other.sum_s,
                self.sum_q + other.sum_q,
                self.sum_sq + other.sum_sq,
                self.strata,
            )
        if self.strata is None or other.strata is None:
            raise InputError("moments with and without context strata cannot be added")
        union = tuple(dict.fromkeys(self.strata + other.strata))
        return self._spread(union) + other._spread(union)

    def _spread(self, union: tuple[Any, ...]) -> Moments:
        """The same sums laid out over more strata."""
        assert self.strata is not None
        place = [union.index(label) for label in self.strata]
        sums = []
        for value in (self.n, self.sum_s, self.sum_q, self.sum_sq):
            wide = _library(value).zeros((*value.shape[:-1], len(union)), dtype=value.dtype)
            wide[..., place] = value
            sums.append(wide)
        return Moments(sums[0], sums[1], sums[2], sums[3], union)

    def pooled(self) -> Moments:
        """The moments with the strata summed up."""
        if self.strata is None:
            return self
        return Moments(self.n.sum(-1), self.sum_s.sum(-1), self.sum_q.sum(-1), self.sum_sq.sum(-1))

    @property
    def mu_s(self) -> Numeric:
        """Mean of p_s over all strata."""
        return _mean(self.pooled().sum_s, self.pooled().n)

    @property
    def mu_q(self) -> Numeric:
        """Mean of p_q over all strata."""
        return _mean(self.pooled().sum_q, self.pooled().n)

    @property
    def mu_sq(self) -> Numeric:
        """Mean of p_s·p_q over all strata: the joint fraction J."""
        return _mean(self.pooled().sum_sq, self.pooled().n)


@contextmanager
def ignore_undefined() -> Iterator[None]:
    """Keep quiet about undefined values, where many strata or resamples make them a matter of course."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        yield


def joint_fraction(moments: Moments) -> Numeric:
    """J, the fraction of joint events.

    >>> joint_fraction(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]))
    0.25
    """
    return moments.mu_sq


def false_positive_fraction(moments: Moments) -> Numeric:
    """D, the estimated fraction of rows that are joint events by chance.

    ``D = (mu_s - J)(mu_q - J) / ((1 - mu_q)(1 - mu_s))`` (paper, eq. for D);
    with strata, the sum over strata weighted by their size.

    >>> round(false_positive_fraction(Moments.of([1, 1, 0, 0], [1, 0, 1, 0])), 4)
    0.25
    """
    return _chance_fraction(moments, naive=False)


def naive_false_positive_fraction(moments: Moments) -> Numeric:
    """D_naive = mu_s·mu_q, as if the two inputs were wholly independent (D ≤ D_naive).

    >>> naive_false_positive_fraction(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]))
    0.125
    """
    return _chance_fraction(moments, naive=True)


def true_positive_fraction(moments: Moments, *, naive: bool = False) -> Numeric:
    """TP = J - D, the estimated fraction of rows that are joint events for a reason."""
    return moments.mu_sq - _chance_fraction(moments, naive=naive)


def fbeta_hat(
    moments: Moments,
    *,
    beta: float = 1.0,
    alpha: float | None = None,
    naive: bool = False,
    cap: bool = False,
) -> Numeric:
    """F̂β = (1 + β²) TP / (J + αβ²), the label-free counterpart of Fβ.

    ``beta`` runs from 0 (precision) to ``inf`` (recall). ``alpha`` is the anomaly
    rate, needed for β > 0. ``naive`` takes D_naive for D. ``cap`` limits TP to α,
    so that nothing is gained by flagging more than there can be (then F̂ ≤ 1).

    >>> m = Moments.of([1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0])
    >>> fbeta_hat(m, beta=1, alpha=0.25)
    1.0
    """
    beta = check_beta(beta)
    true_positives, joint = true_positive_fraction(moments, naive=naive), moments.mu_sq
    rate = check_rate(alpha) if beta * beta > 0 or cap else 0.0
    if cap:
        true_positives = _minimum(true_positives, rate)
    if beta * beta == 0:
        _warn_if(joint <= 0, "F̂ is set to 0: no joint event")
    return fbeta_of(true_positives, joint, beta, rate)


def precision_hat(moments: Moments, *, naive: bool = False) -> Numeric:
    """P̂ = F̂₀ = TP / J: the part of the joint events that is not chance.

    >>> precision_hat(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]))
    1.0
    """
    return fbeta_hat(moments, beta=0.0, naive=naive)


def recall_hat(moments: Moments, *, alpha: float, naive: bool = False, cap: bool = False) -> Numeric:
    """R̂ = F̂∞ = TP / α: the part of all anomalies that is found.

    >>> recall_hat(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]), alpha=0.5)
    0.5
    """
    return fbeta_hat(moments, beta=math.inf, alpha=alpha, naive=naive, cap=cap)


def chance_of(n: Numeric, s: Numeric, q: Numeric, joint: Numeric, *, naive: bool = False) -> Numeric:
    """D of one stratum (paper, eq. for D), in the unit of its arguments.

    Parameters
    ----------
    n
        The number of rows if the others are counts; 1 if they are fractions.
    s, q, joint
        What s flags, what q flags, and what both flag.
    naive
        D_naive = s·q / n, as if the two inputs were wholly independent.

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
    return _where(blind, joint, n * (s - joint) * (q - joint) / _where(blind, 1.0, quiet))


def small_sample_chance(chance: Numeric, joint: Numeric, n: Numeric) -> Numeric:
    """D of a stratum among several, corrected for its ``n`` rows.

    The covariance within a stratum of n rows is n/(n-1) times larger than it looks; D = J - TP
    follows, and chance is never below 0. A single row proves nothing: D = J.

    >>> small_sample_chance(1.0, 2.0, 11), small_sample_chance(0.0, 1.0, 1)
    (0.9, 1.0)
    """
    single = n <= 1
    corrected = _maximum(chance + (chance - joint) / _where(single, 1.0, n - 1.0), 0.0)
    return _where(single, joint, corrected)


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
            _like(true_positives, weights) for weights in zip(*map(fbeta_weights, beta), strict=True)
        )
    else:
        w_joint, w_alpha = fbeta_weights(beta)
    return _ratio(true_positives, w_joint * joint + w_alpha * alpha)


def _chance_fraction(moments: Moments, *, naive: bool) -> Numeric:
    """D (or D_naive), corrected for small strata and weighted over them."""
    n, mu_s, mu_q, joint = (
        moments.n,
        _mean(moments.sum_s, moments.n),
        _mean(moments.sum_q, moments.n),
        _mean(moments.sum_sq, moments.n),
    )
    if not naive:
        _warn_if((mu_s >= 1) | (mu_q >= 1), "every row is flagged in one input: TP is set to 0")
    chance = chance_of(1.0, mu_s, mu_q, joint, naive=naive)
    if moments.strata is None:
        return chance
    if len(moments.strata) > 1:
        _warn_if((n <= 1) & (joint > 0), "a stratum has a single row: its TP is set to 0")
        chance = small_sample_chance(chance, joint, n)
    weight = _mean(n, n.sum(-1)[..., None])
    return (weight * chance).sum(-1)


# --- the little that floats, NumPy arrays and torch tensors do not share ---------------


def _is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _library(value: Any) -> Any:
    return sys.modules["torch"] if _is_torch(value) else np


def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    return _library(condition).where(condition, a, b)


def _minimum(a: Any, b: Any) -> Any:
    return a.clamp(max=b) if _is_torch(a) else _plain(np.minimum(a, b))


def _maximum(a: Any, b: Any) -> Any:
    return a.clamp(min=b) if _is_torch(a) else _plain(np.maximum(a, b))


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def _mean(total: Any, n: Any) -> Any:
    empty = n <= 0
    _warn_if(empty, "no rows: the mean is set to 0")
    return _where(empty, total * 0.0, total / _where(empty, 1.0, n))


def _like(value: Any, numbers: Sequence[float]) -> Any:
    library = _library(value)
    return library.asarray(numbers, dtype=library.float64)


def _ratio(a: Any, b: Any) -> Any:
    empty = b <= 0
    return _where(empty, a * 0.0, a / _where(empty, 1.0, b))


def _warn_if(condition: Any, message: str) -> None:
    if not _is_torch(condition) and np.any(condition):
        warnings.warn(message, UndefinedMetricWarning, stacklevel=4)


def _confidences(value: Any, name: str) -> Any:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, but its shape is {array.shape}")
    if len(array) and not (np.nanmin(array) >= 0.0 and np.nanmax(array) <= 1.0 and not np.isnan(array).any()):
        raise InputError(f"{name} must lie in [0, 1]; it holds confidences or 0/1 flags, not raw scores")
    return array


def _codes(context: ArrayLike, n: int) -> tuple[tuple[Any, ...], Any]:
    labels = np.asarray(context)
    if labels.shape != (n,):
        raise InputError(f"context has shape {labels.shape}, but there are {n:,} rows")
    values, code = np.unique(labels, return_inverse=True)
    return tuple(values.tolist()), code
