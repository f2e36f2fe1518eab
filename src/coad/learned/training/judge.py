"""F̂, P̂, R̂ and J of given confidences, each with an interval, and the permutation p-value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.inference import Intervals
from coad.core.metric import fbeta_hat, precision_hat, recall_hat, true_positive_fraction
from coad.core.moments import Moments
from coad.core.verdict import Status, status_of
from coad.learned.training.null import Chance, NullMaximum, chance_of
from coad.learned.training.split import correlation_length, in_time_order

__all__ = ["Evaluation", "RowScores", "figures", "judge"]

_RESAMPLES = 400
_PERMUTATIONS = 499


class RowScores(NamedTuple):
    """Confidences, score (high = anomalous) and decision of each row, and its mode if the model has modes."""

    p_s: FloatArray
    p_q: FloatArray
    score: FloatArray
    flag: BoolArray
    mode: IntArray | None = None


@dataclass(frozen=True)
class Evaluation:
    """The figures of a detector on some rows, without labels; intervals are 95 % bootstrap intervals."""

    n_rows: int
    beta: float
    alpha: float
    fbeta_hat: float
    precision_hat: float
    recall_hat: float
    joint_fraction: float
    n_joint: float  #: Σ p_s p_q
    mu_s: float
    mu_q: float
    interval: tuple[float, float]  #: of F̂
    intervals: Intervals  #: of F̂, P̂, R̂ and J
    p_value: float
    shift_p_value: float  #: one input moved in time, also by a few rows only
    flagged: int
    status: Status


def judge(
    p_s: FloatArray,
    p_q: FloatArray,
    *,
    beta: float,
    alpha: float,
    alpha_given: bool,
    flagged: int,
    context: NDArray[np.int64] | None,
    seed: int,
    significance: float,
    plausible: float,
    ordered: bool,
    time: NDArray[Any] | None = None,
) -> Evaluation:
    """Evaluate confidences of rows that did not select the model.

    Parameters
    ----------
    p_s, p_q
        Confidences of each row.
    beta, alpha, alpha_given
        As in :func:`figures`.
    flagged
        The number of flagged rows, for the result.
    context
        Stratum number of each row.
    seed, significance
        Seed of the resampling; the p-value up to which a coincidence counts as found.
    plausible
        If the lower bound of TP exceeds this rate, a shared regime is suspected.
    ordered, time
        Whether the rows are in time order; and their times, if that is another order.

    Returns
    -------
    Evaluation
    """
    if time is not None:
        order = in_time_order(np.arange(len(p_s)), time)
        p_s, p_q, context = p_s[order], p_q[order], None if context is None else context[order]
    rng = np.random.default_rng([seed, 0xE7A1])
    moments = Moments.of(p_s, p_q, context)
    names = ("fbeta_hat", "precision_hat", "recall_hat", "joint_fraction", "true_fraction")
    of_moments = partial(figures, beta=beta, alpha=alpha, alpha_given=alpha_given)
    values = of_moments(moments)
    draws = _resampled(p_s, p_q, context, of_moments, rng)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    intervals = {name: (float(a), float(b)) for name, a, b in zip(names[:4], low, high, strict=False)}
    chance = _chance(p_s, p_q, context, seed, ordered)
    return Evaluation(
        n_rows=len(p_s),
        beta=beta,
        alpha=alpha if alpha_given else _rate(alpha, values[4]),
        **dict(zip(names[:4], values[:4], strict=True)),
        n_joint=float(values[3] * len(p_s)),
        mu_s=float(moments.mu_s),
        mu_q=float(moments.mu_q),
        interval=intervals["fbeta_hat"],
        intervals=Intervals(**intervals),
        p_value=chance.p_value,
        shift_p_value=chance.shift_p_value,
        flagged=flagged,
        status=status_of(
            chance.p_value <= significance,
            float(low[4]),
            plausible,
            slow=chance.shift_p_value > significance,
        ),
    )


def _rate(estimated: float, found: float) -> float:
    """The larger of the estimated anomaly rate and the TP found here, at most one half.

    >>> _rate(0.1, 0.2), _rate(0.1, 0.51)
    (0.2, 0.5)
    """
    return min(max(estimated, found), 0.5)


def figures(moments: Moments, beta: float, alpha: float, alpha_given: bool) -> list[float]:
    """F̂, P̂, R̂, J and TP; all 0 if nothing coincides.

    An estimated α (``alpha_given=False``) is a lower bound: if TP is larger, TP takes its place, and R̂ is at most 1.
    """
    if not float(moments.mu_sq) > 0:
        return [0.0] * 5
    true = float(true_positive_fraction(moments))
    if not alpha_given:
        alpha = _rate(alpha, true)
    cap = not alpha_given
    return [
        float(fbeta_hat(moments, beta=beta, alpha=alpha, cap=cap)),
        float(precision_hat(moments)),
        float(recall_hat(moments, alpha=alpha, cap=cap)),
        float(moments.mu_sq),
        true,
    ]


def _resampled(
    p_s: Any, p_q: Any, context: Any, of_moments: Callable[[Moments], list[float]], rng: np.random.Generator
) -> Any:
    """The figures of bootstrap resamples of the rows.

    The rows of each stratum are grouped by their rounded confidences, and a resample draws the sizes of the
    groups. So its cost depends on the number of groups, not of rows.
    """
    code = (
        np.zeros(len(p_s), dtype=np.int64) if context is None else np.unique(context, return_inverse=True)[1]
    )
    strata = int(code.max()) + 1
    grid = 64
    cell = (code * (grid + 1) + np.rint(p_s * grid).astype(np.int64)) * (grid + 1) + np.rint(
        p_q * grid
    ).astype(np.int64)
    cells, index, size = np.unique(cell, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(index, x) for x in (np.ones(len(p_s)), p_s, p_q, p_s * p_q)], axis=1)
    mean = sums / size[:, None]
    home = cells // (grid + 1) ** 2
    found = []
    for _ in range(_RESAMPLES):
        drawn = rng.multinomial(len(p_s), size / len(p_s))[:, None] * mean
        if context is None:
            n, sum_s, sum_q, sum_sq = drawn.sum(0).tolist()
            moments = Moments(n, sum_s, sum_q, sum_sq)
        else:
            by = np.stack([np.bincount(home, drawn[:, i], strata) for i in range(4)])
            by = by[:, by[0] > 1]
            moments = Moments(by[0], by[1], by[2], by[3], tuple(range(by.shape[1])))
        found.append(of_moments(moments))
    return np.array(found)


def _chance(p_s: Any, p_q: Any, context: Any, seed: int, ordered: bool) -> Chance:
    import torch

    code = None if context is None else torch.from_numpy(np.unique(context, return_inverse=True)[1])
    # Fewer permutations for many rows, where each one takes long: the p-value changes little.
    permutations = int(np.clip(math.ceil(2e7 / max(len(p_s), 1)), 199, _PERMUTATIONS))
    null = NullMaximum(len(p_s), permutations, seed, code, (1, 1), ordered=ordered)
    true = null.update(p_s[None, :, None], p_q[None, :, None])
    slow = ordered and correlation_length(p_s, p_q, code=context) > 0
    return chance_of(float(true[0, 0]), null.maxima[:, 0, 0], permutations, slow=slow)
