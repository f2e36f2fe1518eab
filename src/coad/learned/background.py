"""The background of a trained detector: whether its confidences coincide beyond the correlation that their bulk has.

The loss takes inputs for independent, so networks also learn what is merely correlated. Their confidences are nearly 0 or
1, but not tied: by rank, the rows below the top tenth of both still show how strongly the inputs depend on each other
along the directions that the networks look in. ρ is measured there on all rows of the fit, training rows among them: on
correlated noise they show a little more of it than others, and with the held-out rows alone its error is so large that
real events pass for correlation. Where events are more than a tenth of the rows they are in that bulk, and pass for
correlation as well: so the independent background is the default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.background import BackgroundKind, choose_background, rule_test
from coad.core.metric import ignore_undefined, true_positive_fraction
from coad.core.moments import Moments
from coad.core.rule import NEVER, Rule
from coad.core.verdict import NO_COINCIDENCE
from coad.thresholds.selection import select_thresholds

if TYPE_CHECKING:
    from coad.learned.detector import DetectorMixin
    from coad.learned.training.model import Fitted

__all__ = ["FitScores", "judge_background", "searched_rule"]


class FitScores(NamedTuple):
    """Confidences of rows of the fit, the stratum of each row, and which rows were held out."""

    p_s: FloatArray
    p_q: FloatArray
    code: IntArray | None
    held: BoolArray


def judge_background(
    own: Fitted, scores: FitScores, kind: BackgroundKind, significance: float, seed: int
) -> None:
    """Measure the background, make it that of the rule, and take back a finding that it explains.

    Parameters
    ----------
    own
        What training found for one β; changed in place.
    scores
        The rows of the fit. ρ is measured on all of them, the rule tested on those held out.
    kind
        The setting ``background`` of the detector.
    significance, seed
        The p-value up to which a coincidence counts as found, and the seed of the draws behind it.
    """
    own.background = choose_background(scores.p_s, scores.p_q, scores.code, kind)
    rho, error = own.background.rho, own.background.error
    own.rule = replace(own.rule, correlation=rho, correlation_uncertainty=error)
    if rho == 0 or own.status == NO_COINCIDENCE:
        return
    flag_s, flag_q = (
        np.asarray(flags) for flags in own.rule.memberships(scores.p_s[scores.held], scores.p_q[scores.held])
    )
    code = None if scores.code is None else np.unique(scores.code[scores.held], return_inverse=True)[1]
    rng = np.random.default_rng([seed, 0xBAC])
    p_value = rule_test(flag_s, flag_q, None, None, own.background, code, rng=rng)
    with ignore_undefined():
        true = float(true_positive_fraction(Moments.of(flag_s, flag_q, code), correlation=rho))
    own.p_value = max(own.p_value, p_value)
    if p_value > significance or true <= 0:
        own.status, own.rule = NO_COINCIDENCE, replace(own.rule, thresholds=NEVER)


def searched_rule(
    model: DetectorMixin, p_s: FloatArray, p_q: FloatArray, context: Any, **options: Any
) -> Rule:
    """The rule of a model of one β with the thresholds, and the background, of these confidences.

    Parameters
    ----------
    model
        Its rule gives β and α.
    p_s, p_q, context
        Confidences, and the regime of each row or None.
    **options
        As for :func:`coad.select_thresholds`, in place of those of the model.

    Returns
    -------
    Rule
        With the exact optimum of both thresholds; infinite if nothing coincides.
    """
    own = {
        "alpha": model.rule_.alpha,
        "random_state": model.random_state_,
        "ordered": model.ordered,
        "background": model.background,
        **options,
    }
    found = select_thresholds(p_s, p_q, beta=model.rule_.beta, context=context, **own)
    return replace(
        model.rule_,
        thresholds=(found.threshold_s, found.threshold_q),
        product=None,
        correlation=found.correlation,
        correlation_uncertainty=found.background.error,
    )
