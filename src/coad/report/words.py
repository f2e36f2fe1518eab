"""The verdict on some data in words, and numbers as text."""

from __future__ import annotations

from coad.core.assessment import Evaluation
from coad.core.rule import Rule
from coad.core.verdict import FOUND, NO_COINCIDENCE, SHARED_REGIME
from coad.report.study import Study
from coad.workflows.evaluating import next_step

__all__ = ["alpha_source", "p_text", "percent", "tone", "verdict"]


def verdict(study: Study) -> str:
    """The answer in a sentence or two: what was found or what is wrong, and what to do."""
    scored, judged = study.scored, study.judgement
    found, count = judged.evaluation, len(study.events)
    flagged = f"{found.flagged:,} of {len(scored):,} {scored.what}"
    step = next_step(judged)
    step = f" {step[0].upper()}{step[1:]}." if step else ""
    if judged.status == NO_COINCIDENCE:
        left = "Nothing is flagged."
        if found.flagged and study.model.status_ == NO_COINCIDENCE:
            left = f"The rule was chosen all the same and flags {flagged}; its figures do not count."
        elif found.flagged:
            left = f"What is flagged ({flagged}) is no more than chance gives."
        return f"No event found in {len(scored):,} {scored.what}: {judged.message}. {left}{step}"
    if judged.status == SHARED_REGIME:
        return (
            f"Shared regime suspected: {judged.message}. So what is flagged ({flagged}) may be an operating regime, "
            f"not events, and no figure here counts as a result.{step}"
        )
    low, high = found.interval
    return (
        f"{count:,} event{'' if count == 1 else 's'} ({flagged} flagged); of the flagged, {percent(found.precision_hat)} are not "
        f"explained by chance; {'at least' if study.rule.alpha_given else 'about'} {percent(min(found.recall_hat, 1.0))} "
        f"of what coincides is found; F̂ {found.fbeta_hat:.2f} ({low:.2f} to {high:.2f}); {p_text(found)}."
    )


def tone(study: Study) -> str:
    """The tone of the verdict: "good", "doubt" or "none"."""
    return {FOUND: "good", NO_COINCIDENCE: "none"}.get(study.status, "doubt")


def percent(value: float) -> str:
    """A share as text.

    >>> percent(0.934), percent(0.9973)
    ('93 %', '99.7 %')
    """
    return f"{100 * value:.1f} %" if 0.995 <= value < 0.9995 or 0 < value < 0.01 else f"{100 * value:.0f} %"


def alpha_source(found: Evaluation, rule: Rule) -> str:
    """Where α comes from; an estimate is a lower bound, so it is raised if more is found."""
    if rule.alpha_given:
        return "given"
    return (
        "estimated"
        if found.alpha <= rule.alpha
        else f"estimated {percent(rule.alpha)}, raised to what is found"
    )


def p_text(found: Evaluation) -> str:
    """The p-value of the permutation test as text; the least possible value is given as a bound."""
    if found.null_joint is None:
        return "p not computed"
    least = 1 / (1 + len(found.null_joint))
    return f"p ≤ {least:.2g}" if found.p_value <= least * 1.0001 else f"p = {found.p_value:.2g}"
