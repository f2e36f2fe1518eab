"""What a decision rule finds in some rows, how sure that is, and whether to believe it: the one engine for all detectors.

The rule was chosen before, on other rows. So its figures need no correction for a search, and it is tested as it
is: are there more joint rows than if the pairing of the inputs is shuffled, or than if one input is moved in time?
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.background import INDEPENDENT, Background, joint_draws
from coad.core.copula import LARGEST
from coad.core.figures import figures, interval_ends, rate_of
from coad.core.inference import (
    FEW_EPISODES,
    MAX_EPISODE_RATE,
    MAX_PLAUSIBLE_RATE,
    Intervals,
    coincidence_after_shift,
    main_episodes,
)
from coad.core.metric import ignore_undefined
from coad.core.moments import Moments
from coad.core.rule import Rule
from coad.core.runs import RowOrder, find_runs
from coad.core.verdict import FOUND, NO_COINCIDENCE, SHARED_REGIME, Status, Suspicion

__all__ = ["Evaluation", "RowScores", "assess", "plausible_rate"]

#: Shuffles and shifts behind a p-value, so that p < 0.01 is far from its least value.
_DRAWS = 999
#: Shuffling numbers (not flags) costs a pass over the rows each: as many as this many rows in all allow, and at least 199.
_SHUFFLED_ROWS, _FEWEST_DRAWS = 20_000_000, 199
#: Strata whose tables are drawn at once (memory).
_STRATA = 2000
#: With fewer rows than this after leaving out windows that share samples, all windows are tested.
_FEW_TO_TEST = 100
#: More than half of the coincidence left after a shift of a few rows, beyond this z-score, is no event.
_KEPT, _Z = 0.5, 4.0


class RowScores(NamedTuple):
    """Confidences, score (high = anomalous) and decision of each row.

    ``mode`` is there if the model has modes, ``dismissed`` (rows in events of a dismissed kind) if kinds were dismissed.
    """

    p_s: FloatArray
    p_q: FloatArray
    score: FloatArray
    flag: BoolArray
    mode: IntArray | None = None
    dismissed: BoolArray | None = None


@dataclass(frozen=True)
class Evaluation:
    """What a rule finds in some rows, without labels: the same numbers in every command.

    Rows of dismissed kinds are left out of all figures. Intervals are of 95 %.
    """

    n_rows: int
    flagged: int
    n_events: int
    beta: float
    alpha: float
    fbeta_hat: float
    precision_hat: float  #: the share of flagged rows that chance does not explain
    recall_hat: float
    joint_fraction: float
    n_joint: float
    mu_s: float
    mu_q: float
    interval: tuple[float, float]  #: of F̂
    intervals: Intervals  #: of F̂, P̂, R̂, α and J
    p_value: float  #: pairings shuffled, or drawn from a correlated background
    shift_p_value: float | None  #: one input moved in time; None if not tested
    kept_after_shift: float  #: the share of the coincidence left after a shift by a few rows
    status: Status
    suspicions: tuple[Suspicion, ...]  #: why the status is not simply "found"
    n_tested: float = 0.0  #: joint rows among those tested: of windows that share samples only some are
    null_joint: FloatArray | None = field(
        default=None, repr=False, compare=False
    )  #: the same, pairings shuffled


def plausible_rate(rule: Rule) -> float:
    """The largest share of true joint events that is still taken for anomalies."""
    return 2 * rule.alpha if rule.alpha_given else MAX_PLAUSIBLE_RATE


def assess(
    scores: RowScores,
    rule: Rule,
    *,
    context: NDArray[Any] | None = None,
    order: RowOrder | None = None,
    seed: int = 0,
    significance: float = 0.05,
    trained: tuple[str, float] = (FOUND, 0.0),
    expects_regimes: bool = False,
    ordered: bool = True,
    memberships: tuple[Any, Any] | None = None,
) -> Evaluation:
    """Figures, tests and status of a rule on scored rows.

    Parameters
    ----------
    scores
        Confidences and decisions.
    rule
        The rule behind the decisions.
    context
        The context of each row; chance is counted within each.
    order
        Where the rows stand in time; without it, they follow each other.
    seed, significance
        Seed of the draws; the p-value up to which a coincidence counts as found.
    trained
        Status and p-value of the training.
    expects_regimes
        Whether the detector lists regimes itself, so that they are no suspicion.
    ordered
        Whether rows are in time order; if not, no input is moved in time.
    memberships
        What each input says of a row, if the rule does not decide by the confidences in ``scores``.

    Returns
    -------
    Evaluation
    """
    order = RowOrder(len(scores.flag)) if order is None else order
    kept = slice(None) if scores.dismissed is None else np.flatnonzero(~scores.dismissed)
    order, flags = order.take(kept), scores.flag[kept]
    x_s, x_q = (x[kept] for x in memberships or rule.memberships(scores.p_s, scores.p_q))
    code = (
        None if context is None else np.unique(np.asarray(context)[kept], return_inverse=True)[1].reshape(-1)
    )
    rng = np.random.default_rng([seed, 0xE7A1])
    with ignore_undefined():
        moments = Moments.of(x_s, x_q, code)
        value, precision, recall, joint, true = figures(moments, rule)
        low, high = interval_ends(x_s, x_q, code, rule, max(1, order.overlap), rng)
        observed, null, moved, kept_share, z = _tests(x_s, x_q, code, order, rng, ordered, _background(rule))
        p_value, shift_p = _p_value(observed, null), None if moved is None else _p_value(observed, moved)
        alpha = rule.alpha if rule.alpha_given else rate_of(rule.alpha, true)
        # No share is below 0, unless chance explains more than all; a smoothed interval may stop short of its estimate.
        spans = [
            (float(min(max(a, 0.0), one)), float(max(b, one)))
            for a, b, one in zip(low, high, (value, precision, recall, joint, true), strict=True)
        ]
        mu_s, mu_q = float(moments.mu_s), float(moments.mu_q)
        rates = (
            (rule.alpha,) * 2
            if rule.alpha_given
            else (rate_of(rule.alpha, spans[4][0]), rate_of(rule.alpha, spans[4][1]))
        )
        suspicions: tuple[Suspicion, ...] = ()
        status: Status = FOUND
        if trained[0] == NO_COINCIDENCE:
            status, suspicions = (
                NO_COINCIDENCE,
                (Suspicion("none_in_training", {"p_value": trained[1], "level": significance}),),
            )
        elif not flags.any():
            why = (
                "no_rare_mode" if rule.roles else "no_flagged_finding" if rule.findings else "nothing_flagged"
            )
            status, suspicions = NO_COINCIDENCE, (Suspicion(why),)
        elif p_value > significance or true <= 0:
            why = "not_significant_here" if rule.correlation == 0 else "only_correlated_here"
            numbers = {"p_value": p_value, "rho": rule.correlation}
            status, suspicions = NO_COINCIDENCE, (Suspicion(why, numbers),)
        elif not expects_regimes:
            episodes = main_episodes(flags[order.in_time()])
            long_event = flags.mean() <= MAX_EPISODE_RATE and episodes <= FEW_EPISODES
            suspicions = _regime(
                rule,
                true,
                spans[4][0],
                recall,
                shift_p,
                significance,
                0.0 if long_event or z <= _Z else kept_share,
            )
            if not suspicions and trained[0] == SHARED_REGIME:
                suspicions = (Suspicion("regime_in_training"),)
            status = SHARED_REGIME if suspicions else FOUND
    return Evaluation(
        n_rows=order.n,
        flagged=int(flags.sum()),
        n_events=len(find_runs(flags, breaks=order.breaks()).first),
        beta=rule.beta,
        alpha=alpha,
        fbeta_hat=value,
        precision_hat=precision,
        recall_hat=recall,
        joint_fraction=joint,
        n_joint=joint * order.n,
        mu_s=mu_s,
        mu_q=mu_q,
        interval=spans[0],
        intervals=Intervals(spans[0], spans[1], spans[2], rates, spans[3]),
        p_value=p_value,
        shift_p_value=shift_p,
        kept_after_shift=kept_share,
        status=status,
        suspicions=suspicions,
        n_tested=observed,
        null_joint=null,
    )


def _regime(
    rule: Rule,
    true: float,
    least_true: float,
    recall: float,
    shift_p: float | None,
    significance: float,
    kept: float,
) -> tuple[Suspicion, ...]:
    """Why this looks like a shared regime rather than like events: the first reason, if there is one."""
    if least_true > plausible_rate(rule):
        if rule.alpha_given:
            return (Suspicion("above_given_rate", {"ratio": recall, "alpha": rule.alpha}),)
        return (Suspicion("rate", {"rate": true}),)
    if kept > _KEPT:
        return (Suspicion("shift", {"kept": min(kept, 1.0)}),)
    if shift_p is not None and shift_p > significance:
        return (Suspicion("slow", {"p_value": shift_p}),)
    return ()


def _tests(
    x_s: Any,
    x_q: Any,
    code: IntArray | None,
    order: RowOrder,
    rng: np.random.Generator,
    ordered: bool,
    background: Background,
) -> tuple[float, FloatArray | None, FloatArray | None, float, float]:
    """Joint rows, of shuffled pairings (or of draws from a correlated background), and with one input moved; the share that a shift by a few rows keeps, its z.

    Of windows that share samples only every so manyth is tested: neighbours coincide trivially.
    """
    step = order.overlap if order.n // max(1, order.overlap) >= _FEW_TO_TEST else 1
    rows = order.in_time(max(1, step))
    s, q = x_s[rows], x_q[rows]
    strata = (
        np.zeros(len(rows), dtype=np.int64) if code is None else np.unique(code[rows], return_inverse=True)[1]
    )
    place = np.argsort(strata, kind="stable")
    s, q, strata = s[place], q[place], strata[place]
    ends = np.r_[0, np.flatnonzero(np.diff(strata)) + 1, len(strata)]
    parts = [(s[a:b], q[a:b]) for a, b in pairwise(ends)]
    observed = sum(float(a.astype(np.float64) @ b) for a, b in parts)
    if observed <= 0:
        return 0.0, None, None, 0.0, 0.0
    if background.rho > 0 and s.dtype == np.bool_:
        null = joint_draws(s, q, background, strata, n_draws=_DRAWS, rng=rng)
    else:
        null = _shuffled(parts, rng, background)
    if not ordered:
        return observed, null, None, 0.0, 0.0
    kept, z = coincidence_after_shift(s, q, None if code is None else strata)
    return observed, null, _moved(parts, rng), float(kept), z


def _background(rule: Rule) -> Background:
    if rule.correlation == 0:
        return INDEPENDENT
    return Background("correlated", rule.correlation, rule.correlation_uncertainty)


def _p_value(observed: float, null: FloatArray | None) -> float:
    """The share of draws that reach the observed value, itself included; rounding does not count."""
    if null is None:
        return 1.0
    return float((1 + np.count_nonzero(null >= observed * (1 - 1e-9))) / (1 + len(null)))


def _shuffled(parts: list[tuple[Any, Any]], rng: np.random.Generator, background: Background) -> FloatArray:
    """Joint rows when pairings are shuffled within each stratum; numbers, when a correlated background pairs them."""
    if parts[0][0].dtype == np.bool_:  # the count of joint flags is hypergeometric
        n, s, q = (
            np.array([f(a, b) for a, b in parts])
            for f in (lambda a, _: len(a), lambda a, _: a.sum(), lambda _, b: b.sum())
        )
        some = [slice(start, start + _STRATA) for start in range(0, len(n), _STRATA)]
        draws = (rng.hypergeometric(s[i], (n - s)[i], q[i], size=(_DRAWS, len(n[i]))).sum(1) for i in some)
        return np.asarray(sum(draws), dtype=np.float64)
    rows = sum(len(a) for a, _ in parts)
    times = int(np.clip(math.ceil(_SHUFFLED_ROWS / rows), _FEWEST_DRAWS, _DRAWS))
    if background.rho > 0:
        return _paired_by_copula(parts, background, times, rng)
    return np.array([sum(float(a @ rng.permutation(b)) for a, b in parts) for _ in range(times)])


def _paired_by_copula(
    parts: list[tuple[Any, Any]], background: Background, times: int, rng: np.random.Generator
) -> FloatArray:
    """Sums of products when the ranks of both numbers have a Gaussian copula; ρ varies by its error."""
    ladders = [(np.sort(a), np.sort(b), ndtri((np.arange(len(a)) + 0.5) / len(a))) for a, b in parts]
    total = np.zeros(times)
    for draw in range(times):
        rho = float(np.clip(background.rho + background.error * rng.standard_normal(), 0.0, LARGEST))
        for a, b, latent in ladders:
            place = np.argsort(rho * latent + math.sqrt(1 - rho * rho) * rng.standard_normal(len(a)))
            total[draw] += float(a[place] @ b)
    return total


def _moved(parts: list[tuple[Any, Any]], rng: np.random.Generator) -> FloatArray:
    """Joint rows when q is moved in time within each stratum, around its end.

    One correlation gives them for every shift; draws then combine shifts of all strata.
    """
    total = np.zeros(_DRAWS)
    for a, b in parts:
        n = len(a)
        size = 2 * n if n < 2 else n
        spectrum = np.fft.rfft(a.astype(np.float64), size) * np.conj(np.fft.rfft(b.astype(np.float64), size))
        each = np.fft.irfft(spectrum, size)[:n]
        if a.dtype == np.bool_:
            each = np.rint(each)
        total += each[rng.integers(0, n, _DRAWS)]  # not moving at all is a shift, too
    return total
