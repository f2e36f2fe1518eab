"""Scored pairs under a model's β and α: estimates at any pair of thresholds, the best pair, and its tests."""

from __future__ import annotations

import math
import threading
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.grid import ThresholdGrid
from coad.core.inference import MAX_PLAUSIBLE_RATE, fbeta_of_rows
from coad.core.labels import label_scores
from coad.core.metric import fbeta_hat, precision_hat, recall_hat
from coad.core.moments import Moments
from coad.core.search import PairSearch
from coad.core.verdict import NO_COINCIDENCE, SHARED_REGIME, Status, Suspicion, strictest
from coad.events.runs import Events
from coad.exceptions import CoadWarning
from coad.report.data import Scored
from coad.thresholds.curves import ScanPoint
from coad.thresholds.selection import ThresholdResult, select_thresholds
from coad.workflows.regimes import hint_regime

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Numbers", "Study", "Surface"]

#: With fewer pairs than this after thinning, overlapping windows are tested all the same.
_FEW_TO_TEST = 100
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
    """Scored pairs under a model's β and α. Slow parts are computed once, when they are asked for.

    Parameters
    ----------
    scored : Scored
        The pairs.
    model : CoAD
        Its β, its α (if that was estimated, it is estimated again from these pairs) and its thresholds.
    part_alpha : float, optional
        For a part of the pairs: α among them. Thresholds that were set for all pairs are then not used.
    """

    def __init__(self, scored: Scored, model: CoAD, part_alpha: float | None = None) -> None:
        own = next(iter(model.fitted_.values()))
        self.scored, self.beta = scored, float(own.beta)
        self.trained_status, self.trained_p = own.status, own.p_value
        self.set_by_hand = own.thresholds if part_alpha is None else None
        self.alpha_given = model.alpha != "auto"
        self.seed, self.ordered = model.random_state_, model.ordered
        self._model_alpha = float(model.alpha_) if part_alpha is None else part_alpha
        self._best: dict[float, tuple[float, float]] = {}
        self._lock = threading.RLock()

    @cached_property
    def status(self) -> Status:
        """``"found"``, ``"no coincidence"`` or ``"shared regime suspected"``: training and the test together."""
        return strictest(self.trained_status, self.test.status)

    @property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """Why the status is not simply "found": by the test, or else by the training."""
        if self.test.status == self.status:
            return self.test.suspicions
        if self.status == NO_COINCIDENCE:
            return (Suspicion("none_in_training", {"p_value": self.trained_p}),)
        return (Suspicion("regime_in_training"),)

    @cached_property
    def chosen(self) -> tuple[float, float]:
        """The thresholds: set by hand, or the best on these pairs; infinite if nothing is to be flagged."""
        by_hand = self.set_by_hand or (0.0,)
        if self.status == NO_COINCIDENCE or not all(map(math.isfinite, by_hand)):
            return math.inf, math.inf
        return self.start

    @cached_property
    def start(self) -> tuple[float, float]:
        """Like :attr:`chosen`, also if the coincidence is not significant."""
        if self.set_by_hand is not None and all(map(math.isfinite, self.set_by_hand)):
            # The model flags above its threshold, a study from the threshold on.
            low, high = (float(np.nextafter(one, 2.0)) for one in self.set_by_hand)
            return low, high
        return self.best(self.beta)

    @cached_property
    def numbers(self) -> Numbers:
        """What the chosen thresholds find."""
        return self.numbers_at(*self.chosen, self.beta)

    @cached_property
    def flags(self) -> BoolArray:
        """The flagged pairs."""
        return self.scored.flags(*self.chosen)

    @cached_property
    def events(self) -> Events:
        """The joint events."""
        return self.scored.events(self.flags)

    @cached_property
    def test(self) -> ThresholdResult:
        """The search with its tests, on pairs that share no samples, in time order."""
        scored = self.scored
        order: Any = slice(None)
        if scored.time is not None and (scored.time[1:] < scored.time[:-1]).any():
            order = np.argsort(scored.time, kind="stable")
        step = max(1, scored.overlap)
        if len(scored) // step < _FEW_TO_TEST:
            step = 1
        p_s, p_q = scored.p_s[order][::step], scored.p_q[order][::step]
        code = None if scored.code is None else scored.code[order][::step]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)
            return select_thresholds(
                p_s,
                p_q,
                beta=self.beta,
                alpha=self._model_alpha if self.alpha_given else "auto",
                context=code,
                random_state=self.seed,
                ordered=self.ordered,
            )

    @cached_property
    def hint(self) -> Any:
        """Blocks of time that explain a shared regime away, or None."""
        if self.status != SHARED_REGIME:
            return None
        flag_s, flag_q = self.scored.p_s >= self.start[0], self.scored.p_q >= self.start[1]
        return hint_regime(flag_s, flag_q, {}, time=self.scored.time, context=self.scored.code)

    def numbers_at(self, threshold_s: float, threshold_q: float, beta: float) -> Numbers:
        """Counts, P̂, R̂ and F̂ at a pair of thresholds: the metric of the library on the flags."""
        scored = self.scored
        flag_s, flag_q = scored.p_s >= threshold_s, scored.p_q >= threshold_q
        joint = int(np.count_nonzero(flag_s & flag_q))
        alpha = self.alpha
        found = (0.0, 0.0, 0.0)
        if joint:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                moments = Moments.of(flag_s, flag_q, scored.code)
                found = (
                    float(fbeta_hat(moments, beta=beta, alpha=alpha)),
                    float(precision_hat(moments)),
                    float(recall_hat(moments, alpha=alpha)),
                )
        return Numbers(
            threshold_s,
            threshold_q,
            beta,
            alpha,
            len(scored),
            int(np.count_nonzero(flag_s)),
            int(np.count_nonzero(flag_q)),
            joint,
            *found,
        )

    @cached_property
    def alpha(self) -> float:
        """The anomaly rate: given, or the largest TP on these pairs."""
        if self.alpha_given:
            return self._model_alpha
        with self._lock:
            richest = self.search.maximise(beta=math.inf, alpha=1.0)
        if richest.joint == 0 or richest.fbeta_hat <= 0:
            return self._model_alpha
        return float(min(0.5, richest.fbeta_hat))

    def best(self, beta: float) -> tuple[float, float]:
        """The pair of thresholds with the highest F̂ for a β, exactly; infinite if there is none."""
        alpha = self.alpha
        with self._lock:
            if beta not in self._best:
                best = self.search.maximise(beta=beta, alpha=alpha)
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
        return ThresholdGrid(self.search)

    def quiet_correlation(self) -> float:
        """The correlation of p_s and p_q of unflagged pairs within each regime; near 0 if they are independent."""
        scored = self.scored
        rows = ~(scored.flags(*self.start))
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
        return 2 * self._model_alpha if self.alpha_given else MAX_PLAUSIBLE_RATE
