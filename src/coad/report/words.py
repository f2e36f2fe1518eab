"""The verdict of a report in words, and numbers as text."""

from __future__ import annotations

import math

from coad.core.verdict import FOUND, NO_COINCIDENCE, SHARED_REGIME, in_words
from coad.report.study import Study

__all__ = ["p_text", "percent", "tone", "verdict"]


def verdict(study: Study) -> str:
    """The answer in a sentence."""
    scored, numbers, test = study.scored, study.numbers, study.test
    why = in_words(study.suspicions)
    if study.status == NO_COINCIDENCE:
        return f"No event found in {len(scored):,} {scored.what}: {why}. Nothing is flagged."
    count, flagged = len(study.events), numbers.n_joint
    flagged_text = f" ({flagged:,} flagged {scored.what})" if count != flagged else ""
    low_high = ""
    if test.intervals is not None and study.set_by_hand is None:
        low_high = f" ({test.intervals.fbeta_hat[0]:.2f} to {test.intervals.fbeta_hat[1]:.2f})"
    sentence = (
        f"{count:,} event{'' if count == 1 else 's'}{flagged_text} in {len(scored):,} {scored.what}; "
        f"{percent(numbers.precision_hat)} not explained by chance; "
        f"{'at least' if study.alpha_given else 'about'} {percent(min(numbers.recall_hat, 1.0))} of all found; F̂ {numbers.fbeta_hat:.2f}{low_high}; {p_text(study)}."
    )
    if study.status == SHARED_REGIME:
        hint = "" if study.hint is None else f" {study.hint.sentence}; fit again with {study.hint.option}."
        return f"Shared regime suspected: {why}, so these may not be events.{hint} {sentence}"
    return sentence


def tone(study: Study) -> str:
    """The tone of the verdict: "good", "doubt" or "none"."""
    return {FOUND: "good", NO_COINCIDENCE: "none"}.get(study.status, "doubt")


def percent(value: float) -> str:
    """A share as text.

    >>> percent(0.934), percent(0.9973)
    ('93 %', '99.7 %')
    """
    return f"{100 * value:.1f} %" if 0.995 <= value < 0.9995 or 0 < value < 0.01 else f"{100 * value:.0f} %"


def p_text(study: Study) -> str:
    """The p-value of the permutation test as text; the least possible value is given as a bound."""
    p, n = study.test.p_value, study.test.n_permutations
    if p is None:
        return "p not computed"
    return f"p < {math.ceil(1e4 / (n + 1)) / 1e4:g}" if p <= 1.0001 / (n + 1) else f"p = {p:.2g}"
