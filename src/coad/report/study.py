"""Scored pairs under a model's rule: what it finds, estimates at other thresholds, and the best pair for any β."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.assessment import Evaluation, plausible_rate
from coad.core.figures import figures
from coad.core.grid import ThresholdGrid
from coad.core.inference import fbeta_of_rows
from coad.core.labels import label_scores
from coad.core.metric import ignore_undefined
from coad.core.moments import Moments
from coad.core.rule import Rule
from coad.core.search import PairSearch
from coad.core.verdict import Status
from coad.events.runs import Events
from coad.thresholds.curves import ScanPoint
from coad.workflows.evaluating import Judgement, judge
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored
from coad.workflows.scoring import Source

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Numbers", "Study", "Surface"]

#: Pairs from which the β scan is coarser, because each β is a search.
_MANY = 300_000


@dataclass(frozen=True)
class Numbers:
    """Counts and estimates at a pair of thresholds."""

    threshold_s: float
    threshold_q: float
    beta: float
    alpha: float
    n: int
    n_s: int
    n_q: int
    n_joint: int
    fbeta_hat: float
    precision_hat: float
    recall_hat: float


@dataclass(frozen=True)
class Surface:
    """F̂ over a grid of both thresholds, and how many pairs each threshold flags."""

    threshold_s: FloatArray
    threshold_q: FloatArray
    flagged_s: FloatArray
    flagged_q: FloatArray
    fbeta_hat: FloatArray  # (s, q)


class Study:
    """Scored pairs under a model's rule. Slow parts are computed once, when they are asked for.

    Parameters
    ----------
    scored : Scored
        The pairs, with the decisions of the rule.
    model : CoAD or CoincidenceModes
        Its rule is the one that is studied.
    recipe, source : Recipe, Source
        How the model reads files, and the files, to look for a column that explains a shared regime.
    """

    def __init__(self, scored: Scored, model: CoAD, recipe: Recipe, source: Source | None = None) -> None:
        self.scored, self.model, self.recipe, self.source = scored, model, recipe, source
        self.rule = model.rule_
        self.beta = self.rule.beta
        self._best: dict[float, tuple[float, float]] = {}
        self._lock = threading.RLock()

    def under(self, rule: Rule) -> Study:
        """The same pairs under another rule."""
        model = self.model.at(next(iter(self.model.fitted_)))
        model.rule_ = rule
        flags = rule.flags(self.scored.p_s, self.scored.p_q)
        return Study(replace(self.scored, flag=flags), model, self.recipe, self.source)

    @cached_property
    def judgement(self) -> Judgement:
        """What the rule finds here, as every other command says it."""
        return judge(self.model, self.recipe, self.source, self.scored)

    @property
    def evaluation(self) -> Evaluation:
        """The figures and tests of the rule on these pairs."""
        return self.judgement.evaluation

    @property
    def status(self) -> Status:
        """``"found"``, ``"no coincidence"`` or ``"shared regime suspected"``."""
        return self.judgement.status

    @property
    def flags(self) -> BoolArray:
        """The flagged pairs."""
        return self.scored.flag

    @cached_property
    def events(self) -> Events:
        """The joint events."""
        return self.scored.events(self.flags)

    @property
    def has_thresholds(self) -> bool:
        """Whether the rule is a pair of thresholds (or of their product), and not the modes of a catalogue."""
        return self.scored.mode is None

    @cached_property
    def start(self) -> tuple[float, float]:
        """The thresholds of the rule; the best pair if the rule has none, or flags nothing."""
        if self.rule.product is None and math.inf not in self.rule.thresholds:
            return self.rule.thresholds
        return self.best(self.beta)

    def rule_at(self, threshold_s: float, threshold_q: float, beta: float) -> Rule:
        """The rule with other thresholds and another β."""
        return replace(self.rule, thresholds=(threshold_s, threshold_q), product=None, beta=beta)

    def numbers(self, rule: Rule) -> Numbers:
        """Counts, P̂, R̂ and F̂ of a rule: those of its evaluation, without the tests."""
        scored = self.scored
        flag_s, flag_q = rule.memberships(scored.p_s, scored.p_q)
        with ignore_undefined():
            found = figures(Moments.of(flag_s, flag_q, scored.code), rule)
        return Numbers(
            *rule.thresholds,
            rule.beta,
            rule.alpha if rule.alpha_given else max(rule.alpha, min(found[4], 0.5)),
            len(scored),
            int(np.count_nonzero(flag_s >= 0.5)),
            int(np.count_nonzero(flag_q >= 0.5)),
            int(np.count_nonzero(self.flags if rule is self.rule else rule.flags(scored.p_s, scored.p_q))),
            *found[:3],
        )

    def numbers_at(self, threshold_s: float, threshold_q: float, beta: float) -> Numbers:
        """:meth:`numbers` at a pair of thresholds."""
        return self.numbers(self.rule_at(threshold_s, threshold_q, beta))

    @property
    def alpha(self) -> float:
        """The anomaly rate of the rule."""
        return float(np.clip(self.rule.alpha, 1e-12, 0.5))

    def best(self, beta: float) -> tuple[float, float]:
        """The pair of thresholds with the highest F̂ for a β, exactly; infinite if there is none."""
        alpha = self.alpha
        with self._lock:
            if beta not in self._best:
                best = self.search.maximise(beta=beta, alpha=alpha, correlation=self.rule.correlation)
                self._best[beta] = (
                    (math.inf, math.inf)
                    if best.joint == 0
                    else (
                        float(self.search.s.thresholds[best.groups_s - 1]),
                        float(self.search.q.thresholds[best.groups_q - 1]),
                    )
                )
            return self._best[beta]

    @cached_property
    def search(self) -> PairSearch:
        """Both confidences, sorted."""
        code = self.scored.code
        if code is not None and int(code.max()) == 0:
            code = None
        return PairSearch(self.scored.p_s, self.scored.p_q, code)

    @cached_property
    def betas(self) -> tuple[float, ...]:
        """The β of the scan: eight steps per decade, four for very many pairs."""
        return tuple(np.geomspace(0.01, 100, 17 if len(self.scored) > _MANY else 33).tolist())

    @cached_property
    def scan(self) -> list[ScanPoint]:
        """The best pair for each β, with the values by the labels if there are any."""
        points = []
        truth = self.scored.label
        for beta in self.betas:
            pair = self.best(beta)
            numbers = self.numbers_at(*pair, beta)
            if not numbers.n_joint:
                continue
            judged: tuple[float | None, ...] = (None, None, None)
            if truth is not None:
                judged = label_scores(self.scored.flags(*pair), truth, beta)
            points.append(
                ScanPoint(
                    beta,
                    *pair,
                    numbers.n_joint,
                    numbers.fbeta_hat,
                    numbers.precision_hat,
                    numbers.recall_hat,
                    *judged,
                )
            )
        return points

    def surface(self, beta: float | None = None) -> Surface | None:
        """F̂ over a grid of thresholds, dense where few pairs are flagged; None if there are no thresholds."""
        search, grid = self.search, self._grid
        if min(grid.shape) == 0:
            return None
        joint, chance = grid.totals(grid.cells)
        value = fbeta_of_rows(joint, chance, grid.n, self.beta if beta is None else beta, self.alpha)
        return Surface(
            search.s.thresholds[grid.groups_s - 1],
            search.q.thresholds[grid.groups_q - 1],
            search.s.ends[grid.groups_s].astype(float),
            search.q.ends[grid.groups_q].astype(float),
            np.asarray(value),
        )

    @cached_property
    def _grid(self) -> ThresholdGrid:
        return ThresholdGrid(self.search, self.rule.correlation)

    def quiet_correlation(self) -> float:
        """The correlation of p_s and p_q of unflagged pairs within each regime; near 0 if they are independent."""
        scored = self.scored
        rows = ~self.flags
        p_s, p_q = scored.p_s[rows], scored.p_q[rows]
        if len(p_s) < 3:
            return 0.0
        code = np.zeros(len(p_s), dtype=np.int64) if scored.code is None else scored.code[rows]
        size = np.maximum(np.bincount(code), 1)
        a = p_s - (np.bincount(code, p_s) / size)[code]
        b = p_q - (np.bincount(code, p_q) / size)[code]
        length = math.sqrt(float(a @ a) * float(b @ b))
        return float(a @ b) / length if length > 1e-12 else 0.0

    def largest_rate(self) -> float:
        """The largest plausible share of joint events: more are no anomalies."""
        return plausible_rate(self.rule)
