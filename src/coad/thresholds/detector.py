"""Estimators for people who already have scores, or detectors that make them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, OutlierMixin, clone

from coad._typing import BoolArray, FloatArray, RandomState
from coad.core.assessment import Evaluation, RowScores, assess
from coad.core.background import BackgroundKind
from coad.core.figures import figures
from coad.core.metric import ignore_undefined
from coad.core.moments import Moments
from coad.core.rule import Rule
from coad.core.validation import as_score, as_strata, check_finite, check_same_length
from coad.data.pairs import order_of, unpacked
from coad.exceptions import InputError, NotFittedError
from coad.thresholds.result import ThresholdResult
from coad.thresholds.selection import select_thresholds

__all__ = ["CoincidenceThreshold"]

Orientation = Literal["auto", "high", "low"]


class CoincidenceThreshold(BaseEstimator):  # type: ignore[misc]
    """Label-free thresholds on top of two anomaly detectors, one for each input.

    Parameters
    ----------
    scorer_s, scorer_q
        A detector of the scikit-learn or PyOD kind, fitted (used as it is) or not
        (a clone is fitted); a function from data to scores; or None when the input
        already is a score.
    beta, alpha, n_permutations, random_state, significance, ordered, background
        As in :func:`coad.select_thresholds`.
    orientation
        Which end of the output is anomalous, for functions, plain scores and detectors
        of other kinds. PyOD's and scikit-learn's are known: PyOD's ``decision_function``
        is high for anomalies, scikit-learn's ``score_samples`` low. ``"auto"`` takes
        functions and plain scores as high.

    After ``fit``: ``threshold_s_``, ``threshold_q_`` (on scores that are high for
    anomalies), ``result_`` (a :class:`~coad.thresholds.result.ThresholdResult`), ``status_``,
    ``scorer_s_``, ``scorer_q_``.

    >>> from coad.research.datasets.synthetic import synthetic_outliers
    >>> data = synthetic_outliers(2000, random_state=1)
    >>> det = CoincidenceThreshold().fit(data.s, data.q)
    >>> det.status_
    'found'
    >>> few, many = (det.tune(beta=beta).predict(data.s, data.q).sum() for beta in (0.1, 10))
    >>> bool(few < many)
    True
    """

    def __init__(
        self,
        scorer_s: Any = None,
        scorer_q: Any = None,
        *,
        beta: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        n_permutations: int = 200,
        random_state: RandomState = 0,
        significance: float = 0.05,
        ordered: bool = True,
        background: BackgroundKind = "auto",
        orientation: Orientation = "auto",
    ) -> None:
        self.scorer_s = scorer_s
        self.scorer_q = scorer_q
        self.beta = beta
        self.alpha = alpha
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.significance = significance
        self.ordered = ordered
        self.background = background
        self.orientation = orientation

    def fit(self, s: Any, q: Any = None, *, context: Any = None) -> CoincidenceThreshold:
        """Fit the scorers where needed, score both inputs, and pick the thresholds.

        Parameters
        ----------
        s, q
            Row i of both is the same moment; or one :class:`~coad.Pairs` in place of ``s``, whose context is used.
        context
            The operating regime of each row; chance is then counted within each regime.

        Returns
        -------
        CoincidenceThreshold
            This detector.
        """
        s, q, context, _, _ = unpacked(s, q, context)
        if self.orientation not in ("auto", "high", "low"):
            raise InputError(f"orientation must be 'auto', 'high' or 'low', not {self.orientation!r}")
        scorers = _fitted(self.scorer_s, s, "scorer_s"), _fitted(self.scorer_q, q, "scorer_q")
        score_s, score_q = self._scores(s, q, scorers)
        result = self._select(score_s, score_q, context, self.beta, self.alpha)
        # Nothing is replaced before all went well: a detector never mixes new scorers with old thresholds.
        self.scorer_s_, self.scorer_q_ = scorers
        self._keep(score_s, score_q, context)
        return self._take(result)

    def tune(self, beta: float, alpha: float | Literal["auto"] | None = None) -> CoincidenceThreshold:
        """Pick the thresholds again for another β on the scores seen in ``fit``; nothing is refitted."""
        self._check_fitted()
        alpha = self.alpha if alpha is None else alpha
        return self._take(self._select(self._score_s, self._score_q, self._context, beta, alpha))

    def _select(
        self, score_s: FloatArray, score_q: FloatArray, context: Any, beta: float, alpha: Any
    ) -> ThresholdResult:
        return select_thresholds(
            score_s,
            score_q,
            beta=beta,
            alpha=alpha,
            context=context,
            n_permutations=self.n_permutations,
            random_state=self.random_state,
            significance=self.significance,
            ordered=self.ordered,
            background=self.background,
        )

    def _take(self, result: ThresholdResult) -> CoincidenceThreshold:
        self.result_ = result
        self.status_ = result.status
        return self.set_threshold(result.threshold_s, result.threshold_q)

    def set_threshold(self, threshold_s: float, threshold_q: float) -> CoincidenceThreshold:
        """Set both thresholds by hand (``inf``: never flag)."""
        self._check_fitted()
        for value, name in ((threshold_s, "threshold_s"), (threshold_q, "threshold_q")):
            if not isinstance(value, (int, float, np.number)) or math.isnan(value):
                raise InputError(f"{name} must be a number, not {value!r}")
        self.threshold_s_, self.threshold_q_ = float(threshold_s), float(threshold_q)
        return self

    @property
    def rule_(self) -> Rule:
        """What is flagged, and with which β and α it is measured; the thresholds are those of the scores."""
        self._check_fitted()
        found = self.result_
        return Rule(
            found.beta,
            found.alpha,
            found.alpha_source == "given",
            (self.threshold_s_, self.threshold_q_),
            background="all rows" if self._context is None else "context",
            correlation=found.background.rho,
            correlation_uncertainty=found.background.error if found.background.rho > 0 else 0.0,
        )

    @property
    def confidence_thresholds_(self) -> tuple[float, float]:
        """Both thresholds in terms of p_s and p_q: the shares of training scores that do not exceed them."""
        pair = np.array([self.threshold_s_]), np.array([self.threshold_q_])
        return float(_share_below(self._ladder_s, pair[0])[0]), float(
            _share_below(self._ladder_q, pair[1])[0]
        )

    def save(self, folder: str | Path) -> None:
        """Write the thresholds, with the scores they were picked on, to a folder; :func:`coad.load` reads it.

        Detectors and functions are not saved, because that would need pickle: only a detector whose inputs are scores
        themselves can be saved.
        """
        from coad.data.model_files import write_folder

        self._check_fitted()
        if self.scorer_s_ is not None or self.scorer_q_ is not None:
            raise InputError("scorers cannot be saved; keep det.rule_ and set it with set_threshold")
        settings = {k: v for k, v in self.get_params().items() if k not in ("scorer_s", "scorer_q")}
        if not isinstance(settings["random_state"], (int, type(None))):
            settings["random_state"] = 0
        arrays: dict[str, Any] = {"score_s": self._score_s, "score_q": self._score_q}
        names = None
        if self._context is not None:
            names, arrays["context"] = as_strata(self._context, len(self._score_s))
        facts = {
            "kind": "thresholds",
            "settings": settings,
            "rule": self.rule_.to_dict(),
            "result": self.result_.to_dict(),
            "contexts": None if names is None else [str(name) for name in names],
        }
        write_folder(Path(folder), facts, arrays)

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> CoincidenceThreshold:
        """The detector that :meth:`save` wrote, from the content of its files."""
        from coad.data.model_files import from_json

        det = cls(**from_json(facts["settings"]))
        rule = from_json(facts["rule"])
        context = None
        if facts["contexts"] is not None:
            context = np.array(facts["contexts"])[arrays["context"]]
        score_s, score_q = (np.asarray(arrays[name], dtype=np.float64) for name in ("score_s", "score_q"))
        det.scorer_s_ = det.scorer_q_ = None
        det._keep(score_s, score_q, context)
        return det._take(ThresholdResult.from_dict(facts["result"])).set_threshold(*rule["thresholds"])

    def _keep(self, score_s: FloatArray, score_q: FloatArray, context: Any) -> None:
        self._score_s, self._score_q, self._context = score_s, score_q, context
        self._ladder_s, self._ladder_q = np.sort(score_s), np.sort(score_q)

    def score_samples(self, s: Any, q: Any = None) -> FloatArray:
        """p_s·p_q, high for anomalies; p is the share of training scores below a row's score."""
        return self.score_rows(s, q).score

    def predict(self, s: Any, q: Any = None) -> BoolArray:
        """True where both scores reach their thresholds."""
        return self.score_rows(s, q).flag

    def score_rows(self, s: Any, q: Any = None, context: Any = None) -> RowScores:
        """p_s, p_q (the share of training scores below a row's), their product and the decision, in one pass.

        The thresholds hold in every context; ``context`` is there because other detectors need it.
        """
        self._check_fitted()
        score_s, score_q = self._scores(s, q)
        p_s, p_q = _share_below(self._ladder_s, score_s), _share_below(self._ladder_q, score_q)
        return RowScores(p_s, p_q, p_s * p_q, self.rule_.flags(score_s, score_q))

    def evaluate(
        self, s: Any, q: Any = None, *, context: Any = None, group: Any = None, time: Any = None
    ) -> Evaluation:
        """What the thresholds find in these rows and how sure that is, without labels.

        Parameters
        ----------
        s, q, context
            Rows that the thresholds were not picked on: on those the figures are too high.
        group, time
            Run and time of each row, where events end; without them, rows follow each other.

        Returns
        -------
        Evaluation
        """
        scores, order = self.score_rows(s, q), order_of(s, q, group, time)
        labels = unpacked(s, q, context)[2]
        return assess(
            scores,
            self.rule_,
            context=None if labels is None else as_strata(labels, len(scores.flag))[1],
            order=order,
            seed=self.random_state if isinstance(self.random_state, int) else 0,
            significance=self.significance,
            trained=(self.status_, self.result_.p_value or 0.0),
            ordered=self.ordered,
            memberships=self._flags(s, q),
        )

    def score(self, s: Any, q: Any = None, *, context: Any = None) -> float:
        """F̂ of the thresholds on these rows, which should be new; scikit-learn's model selection asks for it.

        0 where nothing is flagged: a detector that found no coincidence is worth nothing.

        >>> from sklearn.model_selection import cross_val_score
        >>> rng = np.random.default_rng(0)
        >>> s, q = rng.normal(size=(2, 900)); s[:60] += 5; q[:60] += 5
        >>> order = rng.permutation(900)
        >>> bool(cross_val_score(CoincidenceThreshold(n_permutations=0), s[order], q[order], cv=3).min() > 0.5)
        True
        """
        labels = unpacked(s, q, context)[2]
        flag_s, flag_q = self._flags(s, q)
        strata = None if labels is None else as_strata(labels, len(flag_s))[1]
        with ignore_undefined():
            return figures(Moments.of(flag_s, flag_q, strata), self.rule_)[0]

    def _flags(self, s: Any, q: Any) -> tuple[BoolArray, BoolArray]:
        self._check_fitted()
        score_s, score_q = self._scores(s, q)
        return score_s >= self.threshold_s_, score_q >= self.threshold_q_

    def _scores(
        self, s: Any, q: Any, scorers: tuple[Any, Any] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        s, q, _, _, _ = unpacked(s, q)
        scorers = (self.scorer_s_, self.scorer_q_) if scorers is None else scorers
        scores = []
        for scorer, data, name in zip(scorers, (s, q), "sq", strict=True):
            score = as_score(_raw_score(scorer, data, self.orientation), f"the score of {name}")
            check_finite(score, f"the score of {name}", "drop or fill those rows first")
            scores.append(score)
        check_same_length(scores[0], scores[1], ("s", "q"))
        return scores[0], scores[1]

    def _check_fitted(self) -> None:
        if not hasattr(self, "_score_s"):
            raise NotFittedError("this CoincidenceThreshold is not fitted yet; call fit(s, q) first")


def _fitted(scorer: Any, data: Any, name: str) -> Any:
    """The scorer if it is fitted or needs no fit, else a fitted clone of it."""
    if scorer is None or not hasattr(scorer, "fit"):
        if scorer is not None and not callable(scorer):
            raise InputError(f"{name} must be a detector with fit, a function, or None, not {scorer!r}")
        return scorer
    return scorer if _is_fitted(scorer) else clone(scorer).fit(data)


def _is_fitted(scorer: Any) -> bool:
    """PyOD's mark of a fitted detector, or scikit-learn's: attributes that end in ``_``."""
    if _is_pyod(scorer):
        return getattr(scorer, "decision_scores_", None) is not None
    if hasattr(scorer, "steps"):  # a pipeline is as fitted as its last step
        return _is_fitted(scorer.steps[-1][1])
    if hasattr(scorer, "__sklearn_is_fitted__"):
        return bool(scorer.__sklearn_is_fitted__())
    return any(name.endswith("_") and not name.startswith("__") for name in vars(scorer))


def _raw_score(scorer: Any, data: Any, orientation: Orientation) -> Any:
    """The scorer's output, turned so that high means anomalous."""
    if scorer is None:
        return _turned(data, orientation)
    if not hasattr(scorer, "fit"):
        return _turned(scorer(data), orientation)
    core = scorer.steps[-1][1] if hasattr(scorer, "steps") else scorer
    if _is_pyod(core):
        return scorer.decision_function(data)
    if type(core).__module__.startswith("coad."):
        return scorer.score_samples(data)
    if isinstance(core, (OutlierMixin, DensityMixin)) or type(core).__name__ in (
        "KernelDensity",
        "GaussianMixture",
    ):
        if not hasattr(scorer, "score_samples"):
            raise InputError(
                f"{type(core).__name__} cannot score new data; "
                "if it is LocalOutlierFactor, make it with novelty=True"
            )
        return -np.asarray(scorer.score_samples(data), dtype=np.float64)
    if orientation == "auto":
        raise InputError(
            f"which end of {type(core).__name__}'s score is anomalous? "
            "pass orientation='high' or orientation='low'"
        )
    method = getattr(scorer, "score_samples", None) or scorer.decision_function
    return _turned(method(data), orientation)


def _turned(score: Any, orientation: Orientation) -> Any:
    return -np.asarray(score, dtype=np.float64) if orientation == "low" else score


def _is_pyod(scorer: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "pyod" for base in type(scorer).__mro__)


def _share_below(ladder: FloatArray, score: FloatArray) -> FloatArray:
    share: FloatArray = np.searchsorted(ladder, score, side="right") / len(ladder)
    return share
