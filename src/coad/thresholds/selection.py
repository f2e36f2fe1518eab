"""Label-free thresholds for any two scores: the categorical mode of coincident learning.

:func:`select_thresholds` finds the pair of thresholds with the highest F̂β among *all*
pairs, tells what it finds, and says whether to believe it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from coad._typing import ArrayLike, FloatArray, IntArray, RandomState
from coad.core.background import BackgroundKind, choose_background
from coad.core.copula_null import CopulaNull
from coad.core.grid import ThresholdGrid
from coad.core.inference import (
    FEW_EPISODES,
    MAX_EPISODE_RATE,
    MAX_PLAUSIBLE_RATE,
    Intervals,
    PermutationTest,
    coincidence_after_shift,
    main_episodes,
    permutation_test,
    resampled_intervals,
    shift_test,
)
from coad.core.metric import fbeta_hat, ignore_undefined, precision_hat, recall_hat
from coad.core.moments import Moments
from coad.core.search import Optimum, PairSearch
from coad.core.table_null import MANY_ROWS, MANY_STRATA, TableNull
from coad.core.validation import (
    LEVEL,
    as_generator,
    as_score,
    as_strata,
    check_alpha,
    check_beta,
    check_permutations,
    check_significance,
    finite_rows,
)
from coad.core.verdict import FOUND, NO_COINCIDENCE, SHARED_REGIME, Status, Suspicion, in_words
from coad.thresholds.result import Candidate, ThresholdResult
from coad.thresholds.row_parts import sampled_rows

__all__ = ["Candidate", "Status", "ThresholdResult", "select_thresholds"]


def select_thresholds(
    score_s: ArrayLike,
    score_q: ArrayLike,
    *,
    beta: float = 1.0,
    alpha: float | Literal["auto"] = "auto",
    context: Any = None,
    n_permutations: int = 200,
    random_state: RandomState = 0,
    significance: float = LEVEL,
    missing: Literal["error", "drop"] = "error",
    ordered: bool = True,
    background: BackgroundKind = "auto",
) -> ThresholdResult:
    """Pick two thresholds without labels, exactly, and say whether to believe them.

    Parameters
    ----------
    score_s, score_q
        One anomaly score per row from each input; high means anomalous. Only their
        order matters.
    beta
        0 asks for precision, ``inf`` for recall, 1 for a balance.
    alpha
        The anomaly rate. ``"auto"`` estimates it as the largest TP over all pairs, a
        lower bound of the rate.
    context
        One label per row (or several columns): the operating regime. Chance is then
        counted, and pairings shuffled, within each regime.
    n_permutations
        Shuffled searches behind the p-value; 0 switches the test off.
    random_state
        Seed of the shuffling and resampling.
    significance
        The p-value above which the answer is "no coincidence".
    missing
        ``"drop"`` leaves out rows with a missing or infinite score.
    ordered
        Whether the rows are in time order. Coincidence that survives moving one input in time
        is a slow regime, or drift, and is reported as such; False switches that test off, for
        rows in no order.
    background
        How chance is counted. ``"independent"``: as if the scores of normal rows were independent, as in
        the paper. ``"correlated"``: as if they had a Gaussian copula, with the correlation of their bulk.
        ``"auto"``: correlated, unless that correlation is not positive. ``result.background`` says what
        was used and why. The correlation of more than 200,000 rows is that of a sample of so many.

    Returns
    -------
    ThresholdResult

    >>> from coad.research.datasets.synthetic import synthetic_outliers
    >>> data = synthetic_outliers(n_normal=2000, random_state=0)
    >>> result = select_thresholds(data.s, data.q)
    >>> result.status
    'found'
    >>> flags = result.predict(data.s, data.q)
    >>> bool(data.label[flags].mean() > 5 * data.label.mean())  # judged by the hidden labels
    True
    """
    beta = check_beta(beta)
    given = check_alpha(alpha)
    significance = check_significance(significance)
    check_permutations(n_permutations, significance)
    s, q = as_score(score_s, "score_s"), as_score(score_q, "score_q")
    keep = finite_rows(s, q, missing)
    strata, code = ((None,), None) if context is None else as_strata(context, len(s), keep)
    s, q = s[keep], q[keep]
    if len(strata) == 1:
        code = None  # one stratum is the paper's method
    with ignore_undefined():
        settings = Settings(beta, given, int(n_permutations), significance, random_state, ordered, background)
        return Selection(s, q, code, settings, np.flatnonzero(keep)).result()


class Settings(NamedTuple):
    """What was asked for, checked."""

    beta: float
    alpha: float | None
    n_permutations: int
    significance: float
    random_state: RandomState
    ordered: bool
    background: BackgroundKind


class Selection:
    """One call of :func:`select_thresholds`, step by step; ``rows`` numbers its rows in the table they come from."""

    def __init__(
        self,
        s: FloatArray,
        q: FloatArray,
        code: IntArray | None,
        settings: Settings,
        rows: IntArray | None = None,
    ) -> None:
        self.s, self.q, self.code = s, q, code
        few = sampled_rows(np.arange(len(s)) if rows is None else rows, MANY_ROWS)
        self._set(settings, s[few], q[few], None if code is None else code[few])
        self.search = PairSearch(s, q, code)
        self.n_strata = 1 if code is None else int(code.max()) + 1

    def _set(self, settings: Settings, s: FloatArray, q: FloatArray, code: IntArray | None) -> None:
        """Take the settings, and the background from a sample of the rows."""
        self.beta, self.given, self.n_permutations, self.significance = settings[:4]
        self.ordered, self.rng = settings.ordered, as_generator(settings.random_state)
        self.sample = s, q, None if code is None else np.unique(code, return_inverse=True)[1]
        self.background = choose_background(*self.sample, settings.background)
        self.allows_correlation = settings.background != "independent"
        self.shift_p_value: float | None = None
        self.n_shifts = 0
        self.tail_p_value: float | None = None
        self.freedom = math.inf

    def result(self) -> ThresholdResult:
        for name, top in self._top_heavy():
            return self._nothing([Suspicion("top_heavy", {"name": name, "share": top})])
        rho = self.background.rho
        richest = self.search.maximise(beta=math.inf, alpha=1.0, correlation=rho)
        if richest.joint == 0:
            return self._nothing([Suspicion("nothing_joint")])
        if richest.fbeta_hat <= 0:
            reasons = [Suspicion("no_excess")]
            if self.search.has_singles and self.search.sizes[-1] > self.search.n / 2:
                reasons.append(Suspicion("lonely_contexts"))
            return self._nothing(reasons)
        alpha = richest.fbeta_hat if self.given is None else self.given
        best = richest
        if not math.isinf(self.beta):
            best = self.search.maximise(beta=self.beta, alpha=alpha, correlation=rho)
        grid = self._grid(best, richest)
        candidate = self._candidate(best, alpha)
        test = None
        if self.n_permutations:
            test = self._tested(grid, alpha)
            if test.p_value > self.significance:
                numbers = {
                    "p_value": test.p_value,
                    "n_joint": candidate.n_joint,
                    "fbeta_hat": candidate.fbeta_hat,
                }
                why = Suspicion("not_significant", numbers)
                if self.background.rho > 0:
                    why = Suspicion("only_correlated", numbers | {"rho": self.background.rho})
                return self._nothing([why], candidate, test)
        intervals = resampled_intervals(
            grid,
            best,
            richest,
            beta=self.beta,
            alpha=alpha,
            alpha_given=self.given is not None,
            rng=self.rng,
            rho_error=self.background.error,
        )
        intervals = intervals.around(candidate)
        return self._result(candidate, intervals, test, self._suspicions(candidate, intervals))

    def _tested(self, grid: ThresholdGrid, alpha: float) -> PermutationTest:
        """The evidence against the background, and, if that does not explain it, against slowness and heavy tails."""
        null = self._null(grid) if self.allows_correlation else None
        if null is None or self.background.kind == "independent":
            test = permutation_test(
                grid, beta=self.beta, alpha=alpha, n_permutations=self.n_permutations, rng=self.rng
            )
        else:
            test = null.test(self.n_permutations, self.rng)
        if test.p_value > self.significance:
            return test
        if null is not None:
            self.freedom = null.freedom()
            if not math.isinf(self.freedom):
                self.tail_p_value = null.test(self.n_permutations, self.rng, self.freedom).p_value
        if self.ordered:
            n_shifts = self.n_permutations
            self.shift_p_value, self.n_shifts = (
                shift_test(grid, n_shifts=n_shifts, rng=self.rng)
                if null is None
                else null.shift_test(n_shifts, self.rng)
            )
        return test

    # What needs the rows themselves; a stream of rows answers these in its own way.

    def _top_heavy(self) -> list[tuple[str, float]]:
        """The inputs without any threshold, and the share of the rows at their highest value."""
        sides = ((self.search.s, self.s, "score_s"), (self.search.q, self.q, "score_q"))
        return [
            (name, float(np.mean(score == score.max())))
            for groups, score, name in sides
            if len(groups.thresholds) == 0
        ]

    def _grid(self, best: Optimum, richest: Optimum) -> ThresholdGrid:
        return ThresholdGrid(self.search, self.background.rho)

    def _null(self, grid: ThresholdGrid) -> CopulaNull | TableNull:
        if self.search.n <= MANY_ROWS or self.n_strata > MANY_STRATA:
            return CopulaNull(grid, self.s, self.q)
        return TableNull(grid, self.background.rho, self.background.error, self.sample)

    def _pair(self, best: Optimum) -> tuple[float, float, Moments]:
        threshold_s = float(self.search.s.thresholds[best.groups_s - 1])
        threshold_q = float(self.search.q.thresholds[best.groups_q - 1])
        return threshold_s, threshold_q, Moments.of(self.s >= threshold_s, self.q >= threshold_q, self.code)

    def _kept_after_shift(self, found: Candidate) -> tuple[float, float]:
        flag_s, flag_q = self.s >= found.threshold_s, self.q >= found.threshold_q
        return coincidence_after_shift(flag_s, flag_q, self.code)

    def _few_episodes(self, found: Candidate) -> bool:
        joint = (self.s >= found.threshold_s) & (self.q >= found.threshold_q)
        return main_episodes(joint) <= FEW_EPISODES

    def _candidate(self, best: Optimum, alpha: float) -> Candidate:
        threshold_s, threshold_q, moments = self._pair(best)
        rate = min(alpha, 0.5)  # an estimate may pass 0.5 by rounding
        rho = self.background.rho
        return Candidate(
            threshold_s,
            threshold_q,
            alpha,
            float(fbeta_hat(moments, beta=self.beta, alpha=rate, correlation=rho)),
            float(precision_hat(moments, correlation=rho)),
            float(recall_hat(moments, alpha=rate, correlation=rho)),
            float(moments.mu_sq),
            best.joint,
            int(np.sum(moments.sum_s)),
            int(np.sum(moments.sum_q)),
        )

    def _suspicions(self, found: Candidate, intervals: Intervals) -> tuple[Suspicion, ...]:
        """Why this looks like a shared regime rather than like events: the first reason, if there is one."""
        if intervals.fbeta_hat[0] > 1:
            return (Suspicion("fhat_above_one", {"fbeta_hat": found.fbeta_hat}),)
        if self.given is not None and intervals.recall_hat[0] > 1:
            return (Suspicion("above_given_rate", {"ratio": found.recall_hat, "alpha": self.given}),)
        rate = found.precision_hat * found.joint_fraction
        if self.given is None and rate > MAX_PLAUSIBLE_RATE:
            return (Suspicion("rate", {"rate": rate}),)
        if self.tail_p_value is not None and self.tail_p_value > self.significance:
            numbers = {"freedom": self.freedom, "p_value": self.tail_p_value}
            return (Suspicion("heavy_tails", numbers),)
        if not self.ordered:
            return ()
        kept, z = self._kept_after_shift(found)
        long_event = found.joint_fraction <= MAX_EPISODE_RATE and self._few_episodes(found)
        if kept > 0.5 and z > 4 and not long_event:
            return (Suspicion("shift", {"kept": min(kept, 1.0)}),)
        if self.shift_p_value is not None and self.shift_p_value > self.significance:
            return (Suspicion("slow", {"p_value": self.shift_p_value}),)
        return ()

    def _result(
        self,
        found: Candidate,
        intervals: Intervals,
        test: PermutationTest | None,
        suspicions: tuple[Suspicion, ...],
    ) -> ThresholdResult:
        low, high = intervals.fbeta_hat
        sure = "p not computed" if test is None else f"p = {test.p_value:.2g}"
        message = ("" if test is not None else "NOT TESTED against chance, so noise looks the same: ") + (
            f"{found.n_joint:,} row{'s'[: found.n_joint != 1]} of {self.search.n:,} flagged, about {found.precision_hat:.0%} of them not explained by chance; "
            f"F̂ = {found.fbeta_hat:.2f} ({low:.2f} to {high:.2f}), {sure}"
        )
        if suspicions:
            remedy = "pass context= with the operating regime (or blocks of time)"
            if self.n_strata > 1:
                remedy = "add the columns that describe the regime to context, or take shorter blocks of time"
            message = f"{in_words(suspicions)}: the inputs seem to share a regime; {remedy}. " + message
        message += self._background_words()
        return ThresholdResult(
            **self._common(found, test),
            threshold_s=found.threshold_s,
            threshold_q=found.threshold_q,
            alpha=found.alpha,
            fbeta_hat=found.fbeta_hat,
            precision_hat=found.precision_hat,
            recall_hat=found.recall_hat,
            joint_fraction=found.joint_fraction,
            n_joint=found.n_joint,
            status=SHARED_REGIME if suspicions else FOUND,
            message=message,
            suspicions=suspicions,
            interval=intervals.fbeta_hat,
            intervals=intervals,
        )

    def _nothing(
        self,
        why: Sequence[Suspicion],
        candidate: Candidate | None = None,
        test: PermutationTest | None = None,
    ) -> ThresholdResult:
        return ThresholdResult(
            **self._common(candidate, test),
            threshold_s=math.inf,
            threshold_q=math.inf,
            alpha=0.0 if self.given is None else self.given,
            fbeta_hat=0.0,
            precision_hat=0.0,
            recall_hat=0.0,
            joint_fraction=0.0,
            n_joint=0,
            status=NO_COINCIDENCE,
            message=f"no coincidence found: {in_words(why)}; nothing is flagged{self._background_words()}",
            suspicions=tuple(why),
            interval=None,
            intervals=None,
        )

    def _background_words(self) -> str:
        """How chance was counted, if that was not the caller's choice."""
        if not self.allows_correlation:
            return ""
        kind = "correlated" if self.background.rho > 0 else "independent"
        return f"; chance counted for {kind} scores ({self.background.why})"

    def _common(self, candidate: Candidate | None, test: PermutationTest | None) -> dict[str, Any]:
        return {
            "beta": self.beta,
            "n_rows": self.search.n,
            "p_value": None if test is None else test.p_value,
            "shift_p_value": self.shift_p_value,
            "n_shifts": self.n_shifts,
            "n_permutations": 0 if test is None else len(test.null_evidence),
            "alpha_source": "auto" if self.given is None else "given",
            "n_strata": self.n_strata,
            "candidate": candidate,
            "background": self.background,
            "tail_p_value": self.tail_p_value,
            "test": test,
        }
