"""From candidates to findings: the same rows are one finding, in one order, and the rare and odd ones are flagged.

**The order.** A finding is worth a look if it is *rare*, *odd in both inputs*, *beyond chance* and *comes back*. Its
score is the product of four numbers from 0 to 1: one minus its share of the rows; the mean over its rows of the smaller
one of their two percentiles of oddness; and, each counted half so that no evidence halves the score and does not end
it, the share that chance does not explain and the stability.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coad._typing import FloatArray
from coad.core.oddness import ODD
from coad.core.validation import LEVEL
from coad.findings.candidates import Candidate, FitRows
from coad.findings.correlated import joint_tail_p_value
from coad.findings.finding import Finding, places
from coad.findings.judging import Judged, beyond_correlation, holm, judge, judge_together

__all__ = ["findings_of", "score_of"]

#: Candidates that share at least half of their rows (of those in either one) are one finding.
SAME = 0.5


def score_of(share: float, odd_both: float, precision_hat: float, stability: float) -> float:
    """What findings are ordered by, 0 to 1.

    >>> round(score_of(0.02, 0.95, 1.0, 1.0), 3), round(score_of(0.3, 0.6, 1.0, 1.0), 3)
    (0.931, 0.42)
    """
    return float((1 - share) * odd_both * (1 + np.clip(precision_hat, 0, 1)) / 2 * (1 + stability) / 2)


#: Why a finding is not flagged: a code and its numbers; None if it is.
WhyNot = tuple[str, dict[str, Any]] | None


def findings_of(candidates: Sequence[Candidate], data: FitRows) -> tuple[list[Finding], float, float]:
    """Judge, merge, rank, flag.

    Parameters
    ----------
    candidates
        Of all lenses.
    data
        The rows of the fit.

    Returns
    -------
    findings : list of Finding
        Best first, numbered from 1.
    p_value : float
        How often other pairings agree as much on which rows are rare and odd in both inputs; 1 if none are.
    correlated_p_value : float
        How often inputs that are merely correlated show as much; 1 if the first p-value is not significant.
    """
    odd_both = np.minimum(data.odd_s, data.odd_q)
    judged = [judge(one, data) for one in candidates if one.member.any()]
    scores = np.array([_score(one, odd_both) for one in judged])
    kept: list[tuple[Judged, list[str], float]] = []
    for place in np.argsort(-scores, kind="stable"):
        one = judged[place]
        twin = next(
            (k for k, (other, _, _) in enumerate(kept) if _same(one.candidate, other.candidate)), None
        )
        if twin is None:
            kept.append((one, [one.candidate.lens], float(scores[place])))
        elif one.candidate.lens not in kept[twin][1]:
            kept[twin][1].append(one.candidate.lens)
    corrected = holm(np.array([one.p_value for one, _, _ in kept]))
    whys = [_why_not(one, data) for one, _, _ in kept]
    together = judge_together(
        [one.candidate for (one, _, _), why in zip(kept, whys, strict=True) if why is None], data
    )
    p_together = 1.0 if together is None else max(together.p_value, together.shift_p_value or 0.0)
    for place, ((one, _, _), why) in enumerate(zip(kept, whys, strict=True)):
        if why is None and p_together > LEVEL:
            whys[place] = "all chance", {"p_value": p_together}
        elif why is None and not one.evaluation.precision_hat > 0:
            whys[place] = "chance", {}
    beyond = {
        place: beyond_correlation(kept[place][0].candidate, data)
        for place, why in enumerate(whys)
        if why is None
    }
    p_correlated = _merely_correlated([p_value for p_value, _ in beyond.values()], data)
    if p_correlated > LEVEL:
        whys = [("correlated", {"p_value": p_correlated}) if why is None else why for why in whys]
    findings = [
        _finding(number, one, tuple(lenses), score, float(p_value), why, beyond.get(number - 1), data)
        for number, ((one, lenses, score), p_value, why) in enumerate(
            zip(kept, corrected, whys, strict=True), start=1
        )
    ]
    return findings, p_together, p_correlated


def _merely_correlated(p_values: Sequence[float], data: FitRows) -> float:
    """How often merely correlated inputs show as much as these findings, all together or the clearest one by itself.

    Two questions are asked, so the smaller of the two p-values is doubled: whether rows of any kind are far out in both
    inputs more often than the linear dependence of the bulk explains, and whether those of one finding are, along the
    directions to it, which a small crowd shows more clearly.
    """
    if not p_values:
        return 1.0
    together = joint_tail_p_value(data.features_s, data.features_q, data.context, rng=data.rng(4))
    return min(1.0, 2 * min(together, float(holm(np.array(p_values)).min())))


def _score(one: Judged, odd_both: FloatArray) -> float:
    member = one.candidate.member
    return score_of(
        float(member.mean()),
        float(odd_both[member].mean()),
        one.evaluation.precision_hat,
        one.candidate.stability,
    )


def _same(one: Candidate, other: Candidate) -> bool:
    return bool(np.sum(one.member & other.member) >= SAME * np.sum(one.member | other.member))


def _why_not(one: Judged, data: FitRows) -> WhyNot:
    """Why a finding is no candidate for a flag: it is common, or not odd in an input; None if it is rare and odd."""
    member = one.candidate.member
    if member.mean() > data.max_rare:
        return "common", {"share": float(member.mean()), "max_rare": data.max_rare}
    plain = [name for name, odd in (("s", data.odd_s), ("q", data.odd_q)) if odd[member].mean() < ODD]
    return ("not odd", {"where": " and ".join(plain)}) if plain else None


def _finding(
    number: int,
    one: Judged,
    lenses: tuple[str, ...],
    score: float,
    p_value: float,
    why: WhyNot,
    beyond: tuple[float, float] | None,
    data: FitRows,
) -> Finding:
    member, evaluation = one.candidate.member, one.evaluation
    code, numbers = ("", {}) if why is None else why
    p_correlated, correlation = (None, None) if beyond is None else beyond
    return Finding(
        number=number,
        lens=lenses,
        candidate=one.candidate.number,
        rows=places(member),
        n_rows=int(member.sum()),
        share=float(member.mean()),
        odd_s=float(data.odd_s[member].mean()),
        odd_q=float(data.odd_q[member].mean()),
        odd_both=float(np.minimum(data.odd_s, data.odd_q)[member].mean()),
        precision_hat=evaluation.precision_hat,
        interval=evaluation.intervals.precision_hat,
        n_joint=evaluation.n_joint,
        p_value=p_value,
        stability=one.candidate.stability,
        score=score,
        flagged_by_default=why is None,
        reason=code,
        numbers=numbers,
        correlation=correlation,
        correlation_p_value=p_correlated,
    )
