"""Each candidate judged on rows that it was not fitted on, by the one engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.assessment import Evaluation, RowScores, assess
from coad.core.background import choose_background, rule_test
from coad.core.rule import Rule
from coad.findings.candidates import Candidate, FitRows

__all__ = ["Judged", "beyond_correlation", "holm", "judge", "judge_together"]


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate with its evidence."""

    candidate: Candidate
    evaluation: Evaluation

    @property
    def p_value(self) -> float:
        """Of other pairings: the larger one of shuffled rows and of one input moved in time."""
        return max(self.evaluation.p_value, self.evaluation.shift_p_value or 0.0)


def judge(candidate: Candidate, data: FitRows) -> Judged:
    """What both inputs, each by itself, say together of held-out rows, beyond chance."""
    rows = np.flatnonzero(candidate.judged)
    return Judged(candidate, _assess(candidate.score_s[rows] >= 0, candidate.score_q[rows] >= 0, rows, data))


def judge_together(candidates: Sequence[Candidate], data: FitRows) -> Evaluation | None:
    """Whether the inputs agree on which rows are in *any* of these; None if there are none."""
    if not candidates:
        return None
    judged = np.logical_and.reduce([one.judged for one in candidates])
    rows = np.flatnonzero(judged)
    member_s, member_q = (
        np.logical_or.reduce([score[rows] >= 0 for score in scores])
        for scores in ([one.score_s for one in candidates], [one.score_q for one in candidates])
    )
    return _assess(member_s, member_q, rows, data)


def beyond_correlation(candidate: Candidate, data: FitRows) -> tuple[float, float]:
    """Whether more rows are at the far end of both inputs than their correlation explains: p-value, and ρ.

    Each input is projected on the direction from the middle of all rows to the candidate's rows, found without the row's
    part. Along these directions the bulk of the rows has a correlation ρ (:mod:`coad.core.background`); of a correlated
    pair of inputs, as many rows are far out in both as a Gaussian copula with this ρ says.
    """
    scores = []
    for features in (data.features_s, data.features_q):
        score = np.zeros(len(data))
        for fold in np.unique(data.fold):
            held = data.fold == fold
            own = candidate.member & ~held
            if not own.any():
                return 1.0, 0.0
            middle = np.median(features[~held], axis=0)
            along = (features - middle) @ (features[own].mean(0) - middle)
            score[held] = along[held] / max(float(along[~held].std()), 1e-12)
        scores.append(score)
    share = float(candidate.member.mean())
    far_s, far_q = (score >= np.quantile(score, 1 - share) for score in scores)
    code = None if data.context is None else np.unique(data.context, return_inverse=True)[1].reshape(-1)
    background = choose_background(scores[0], scores[1], code)
    p_value = rule_test(far_s, far_q, scores[0], scores[1], background, code, rng=data.rng(3))
    return p_value, background.rho


def _assess(member_s: BoolArray, member_q: BoolArray, rows: np.ndarray, data: FitRows) -> Evaluation:
    joint = member_s & member_q
    return assess(
        RowScores(member_s.astype(float), member_q.astype(float), joint.astype(float), joint),
        Rule(beta=1.0, alpha=max(float(joint.mean()), 1e-6)),
        context=None if data.context is None else data.context[rows],
        order=data.order.take(rows),
        seed=data.seed,
        expects_regimes=True,
        ordered=data.ordered,
        memberships=(member_s, member_q),
    )


def holm(p_values: FloatArray) -> FloatArray:
    """P-values corrected for their number (Holm), in the given order.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    stepped = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return corrected
