"""P̂–R̂ curves and β scans: how the best pair of thresholds moves with β (paper, section 4.1).

Each curve comes in three versions: *unsupervised* (thresholds and values without labels),
*judged* (the same thresholds, their values by the labels) and *supervised* (the best
thresholds that labels could buy). Labels judge; they never choose an unsupervised point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coad._typing import ArrayLike, BoolArray
from coad.core.background import BackgroundKind, choose_background
from coad.core.labels import check_labels, label_scores
from coad.core.metric import fbeta_hat, precision_hat, recall_hat
from coad.core.moments import Moments
from coad.core.search import Optimum, PairSearch
from coad.core.search_kernels import ALL_CHANCE, ALL_TRUE
from coad.core.validation import as_score, check_alpha, check_beta, finite_rows
from coad.exceptions import InputError

__all__ = ["DEFAULT_BETAS", "ScanPoint", "beta_scan"]

#: β from precision to recall, even in the logarithm.
DEFAULT_BETAS: tuple[float, ...] = tuple(np.geomspace(0.01, 100, 41).tolist())


@dataclass(frozen=True)
class ScanPoint:
    """The best thresholds for one β, and their values with and (if labels are given) by labels."""

    beta: float
    threshold_s: float
    threshold_q: float
    n_joint: int
    fbeta_hat: float
    precision_hat: float
    recall_hat: float
    fbeta: float | None = None
    precision: float | None = None
    recall: float | None = None


def beta_scan(
    score_s: ArrayLike,
    score_q: ArrayLike,
    *,
    betas: Sequence[float] = DEFAULT_BETAS,
    alpha: float | Literal["auto"] = "auto",
    label: ArrayLike | None = None,
    naive: bool = False,
    supervised: bool = False,
    background: BackgroundKind = "auto",
) -> list[ScanPoint]:
    """The best pair of thresholds for each β; sorted once, searched exactly each time.

    ``naive`` takes D_naive for D. ``label`` adds the true values to each point.
    ``supervised`` chooses the thresholds by the labels: the ceiling, for comparison.
    ``background`` says how chance is counted, as for :func:`coad.select_thresholds`; D_naive knows no correlation, so
    with ``naive`` it is ``"independent"``.

    >>> from coad.research.datasets.synthetic import synthetic_outliers
    >>> data = synthetic_outliers(2000, random_state=0)
    >>> low, high = beta_scan(data.s, data.q, betas=[0.1, 10], label=data.label)
    >>> low.recall_hat < high.recall_hat and low.precision > high.precision
    True
    """
    s, q = as_score(score_s, "score_s"), as_score(score_q, "score_q")
    finite_rows(s, q, "error", remedy="leave those rows out first")
    if naive and background == "correlated":
        raise InputError(
            "D_naive takes the inputs for independent; give either naive=True or background='correlated'"
        )
    rho = choose_background(s, q, kind="independent" if naive else background).rho
    truth = None if label is None else check_labels(label, len(s))
    if supervised and truth is None:
        raise InputError("a supervised scan needs label=")
    search = PairSearch(s, q)
    rate = check_alpha(alpha)
    if rate is None and supervised and truth is not None:
        rate = float(truth.mean())
    if rate is None:
        richest = search.maximise(beta=math.inf, alpha=1.0, naive=naive, correlation=rho)
        if richest.joint == 0 or richest.fbeta_hat <= 0:
            return []
        rate = richest.fbeta_hat
    kinds = None
    if supervised:
        assert truth is not None
        if min(truth.sum(), (~truth).sum()) < 2:
            raise InputError("a supervised scan needs at least two rows of each class in label")
        search.set_strata(truth.astype(np.int64))
        kinds = np.array([ALL_CHANCE, ALL_TRUE])
    points = []
    for beta in betas:
        best = search.maximise(beta=check_beta(beta), alpha=rate, naive=naive, kinds=kinds, correlation=rho)
        if best.joint:
            points.append(_point(search, best, float(beta), rate, truth, naive, rho))
    return points


def _point(
    search: PairSearch,
    best: Optimum,
    beta: float,
    alpha: float,
    truth: BoolArray | None,
    naive: bool,
    rho: float,
) -> ScanPoint:
    flag_s, flag_q = search.s.of_row <= best.groups_s, search.q.of_row <= best.groups_q
    moments = Moments.of(flag_s, flag_q)
    judged: tuple[float | None, float | None, float | None] = (None, None, None)
    if truth is not None:
        judged = label_scores(flag_s & flag_q, truth, beta)
    return ScanPoint(
        beta,
        float(search.s.thresholds[best.groups_s - 1]),
        float(search.q.thresholds[best.groups_q - 1]),
        best.joint,
        float(fbeta_hat(moments, beta=beta, alpha=alpha, naive=naive, correlation=rho)),
        float(precision_hat(moments, naive=naive, correlation=rho)),
        float(recall_hat(moments, alpha=alpha, naive=naive, correlation=rho)),
        *judged,
    )
