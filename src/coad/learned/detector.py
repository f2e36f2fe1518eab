"""What a fitted :class:`~coad.CoAD` does with rows: score, decide, evaluate, set thresholds."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.assessment import Evaluation, RowScores, assess
from coad.core.background import Background, BackgroundKind
from coad.core.figures import figures
from coad.core.metric import ignore_undefined
from coad.core.moments import Moments
from coad.core.rule import Rule
from coad.core.runs import RowOrder
from coad.core.validation import check_beta
from coad.data.pairs import order_of, unpacked
from coad.exceptions import InputError, NotFittedError
from coad.learned import dismissal
from coad.learned.background import searched_rule
from coad.learned.context import joined_context
from coad.learned.scaling import Scaler
from coad.learned.training.inputs import (
    as_context,
    as_fitted,
    check_kind_of_context,
    scaled_blocks,
    warn_of_unseen_contexts,
)
from coad.learned.training.model import Fitted, StartReport, absorb

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["DetectorMixin"]


class DetectorMixin:
    """The methods of :class:`~coad.CoAD` that need a fitted model.

    ``s``, ``q`` and ``context`` mean the same in all of them: the rows to score in the format of
    :meth:`CoAD.fit <coad.CoAD.fit>` (or one :class:`~coad.data.pairs.Pairs` as ``s``), and the
    operating regime of each row if the model was fitted with one.
    """

    alpha: float | Literal["auto"]
    significance: float
    background: BackgroundKind
    ordered: bool
    #: What ``fit`` found for each β; the anomaly rate; the contexts, shapes and scalers of the training rows.
    fitted_: dict[float, Fitted]
    alpha_: float
    alpha_how_: str
    random_state_: int
    contexts_: list[Any] | None
    scaler_s_: Scaler | None
    scaler_q_: Scaler | None
    #: What :func:`coad.events.kinds.find_kinds` found last.
    kinds_: Any = None

    def at(self, beta: float) -> CoAD:
        """The detector of one β of a list. Changing its thresholds does not change this model.

        Parameters
        ----------
        beta
            One of the values that were trained.

        Returns
        -------
        CoAD

        >>> from coad import CoAD
        >>> CoAD(beta=[0.5, 1]).at(1)
        Traceback (most recent call last):
        ...
        coad.exceptions.NotFittedError: this CoAD is not fitted yet; call fit(s, q) first
        """
        self._check_fitted()
        if float(beta) not in self.fitted_:
            raise InputError(f"beta = {beta:g} was not trained; trained were {_listed(self.fitted_)}")
        view = cast("CoAD", copy.copy(self))
        view.beta = float(beta)
        view.fitted_ = {float(beta): copy.copy(self.fitted_[float(beta)])}
        return view

    def confidences(
        self, s: Any, q: Any = None, context: Any = None, *, same_q: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The confidence of each network that a row is an anomaly.

        Parameters
        ----------
        s, q, context
            The rows to score.
        same_q
            A number for each row: rows that share it have the same q and context, which are scored once.

        Returns
        -------
        p_s, p_q
            Numbers in [0, 1], shape (n,).
        """
        own = self._only()
        rows_s, rows_q, labels = self._prepared(s, q, context)
        if own.direct is None:
            own.direct = absorb(own.scorer_s, self.scaler_s_), absorb(own.scorer_q, self.scaler_q_)
        back, labels_q = None, labels
        if same_q is not None:
            _, first, back = np.unique(same_q, return_index=True, return_inverse=True)
            rows_q, labels_q = rows_q[first], None if labels is None else labels[first]
        found = []
        for rows, direct, scorer, scaler, own_labels in (
            (rows_s, own.direct[0], own.scorer_s, self.scaler_s_, labels),
            (rows_q, own.direct[1], own.scorer_q, self.scaler_q_, labels_q),
        ):
            scale = (scaler, own_labels) if direct is None else (None, None)
            found.append((direct or scorer).confidence(scaled_blocks(rows, *scale)))
        return found[0], found[1] if back is None else found[1][back.reshape(-1)]

    def score_samples(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """The anomaly score p_s·p_q of each row, (n,); high = anomalous."""
        p_s, p_q = self.confidences(s, q, context)
        return p_s * p_q

    def score(self, s: Any, q: Any = None, *, context: Any = None) -> float:
        """F̂ of the rule on these rows, as :meth:`evaluate` gives it but without intervals.

        For model selection with scikit-learn, which passes s as X and q as y:
        ``cross_val_score(CoAD(), s, q)``, ``GridSearchCV(CoAD(), {"lr": [1e-3, 1e-2]})``.

        Parameters
        ----------
        s, q, context
            Rows that the model was not fitted on.

        Returns
        -------
        float
            High = better; 0 where nothing coincides.
        """
        scores = self.score_rows(s, q, context)
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        kept = slice(None) if scores.dismissed is None else ~scores.dismissed
        labels = as_context(self.known_context(s, q, context), len(scores.flag))
        strata = None if labels is None else np.unique(labels, return_inverse=True)[1][kept]
        with ignore_undefined():
            moments = Moments.of(*self.rule_.memberships(scores.p_s[kept], scores.p_q[kept]), strata)
            return figures(moments, self.rule_)[0]

    def predict(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """Which rows are anomalies.

        Nothing is flagged if training found no coincidence, unless a person chose another rule. Events of a dismissed
        kind are not flagged.

        Parameters
        ----------
        s, q, context
            The rows to score.

        Returns
        -------
        ndarray of bool, shape (n,)
            True = anomaly.
        """
        return self.score_rows(s, q, context).flag

    def score_rows(
        self, s: Any, q: Any = None, context: Any = None, *, same_q: IntArray | None = None
    ) -> RowScores:
        """Confidences, score and decision of each row, in one pass.

        Parameters
        ----------
        s, q, context, same_q
            The rows to score; see :meth:`confidences`.

        Returns
        -------
        RowScores
            With ``p_s``, ``p_q``, ``score`` and ``flag``, each of shape (n,).
        """
        p_s, p_q = self.confidences(s, q, context, same_q=same_q)
        flags, dismissed = self.rule_.flags(p_s, p_q), None
        if self.rule_.dismissed:
            dismissed = dismissal.is_dismissed(cast("CoAD", self), s, q, context, (p_s, p_q))
            flags = flags & ~dismissed
        return RowScores(p_s, p_q, p_s * p_q, flags, dismissed=dismissed)

    def latent(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """The input of the last layer of each network, two arrays (n, width), to plot the latent spaces."""
        own = self._only()
        rows_s, rows_q, labels = self._prepared(s, q, context)
        return (
            own.scorer_s.latent(scaled_blocks(rows_s, self.scaler_s_, labels)),
            own.scorer_q.latent(scaled_blocks(rows_q, self.scaler_q_, labels)),
        )

    def evaluate(
        self, s: Any, q: Any = None, context: Any = None, *, group: Any = None, time: Any = None
    ) -> Evaluation:
        """What the rule finds in these rows and how sure that is; no labels needed.

        Parameters
        ----------
        s, q, context
            Rows that the model was not fitted on: on the training rows the figures are too high.
        group, time
            Run and time of each row, where events end; without them, rows follow each other. A
            :class:`~coad.data.pairs.Pairs` has them, and its windows.

        Returns
        -------
        Evaluation
            The numbers of ``coad evaluate``, ``coad report`` and ``coad explore`` for these rows.
        """
        scores, order = self.score_rows(s, q, context), order_of(s, q, group, time)
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        return self.evaluate_scores(scores, self.known_context(s, q, context), order)

    def evaluate_scores(
        self, scores: RowScores, context: Any = None, order: RowOrder | None = None
    ) -> Evaluation:
        """:meth:`evaluate` for rows that are scored already.

        Parameters
        ----------
        scores
            From :meth:`score_rows`.
        context, order
            The regime of each row, and where the rows stand in time.

        Returns
        -------
        Evaluation
        """
        return assess(
            scores,
            self.rule_,
            context=as_context(context, len(scores.flag)),
            order=order,
            seed=self.random_state_,
            significance=self.significance,
            trained=(self.status_, self.p_value_),
            ordered=self.ordered,
        )

    @property
    def rule_(self) -> Rule:
        """What is flagged, and with which β and α it is measured; kept by :meth:`save`."""
        return self._only().rule

    @rule_.setter
    def rule_(self, rule: Rule) -> None:
        self._only().rule = rule

    def set_threshold(
        self, product: float | None = None, *, p_s: float | None = None, p_q: float | None = None
    ) -> CoAD:
        """Set the decision rule: a threshold for the product p_s·p_q, or one for each confidence.

        Parameters
        ----------
        product
            Flag rows with p_s·p_q ≥ ``product``.
        p_s, p_q
            Flag rows where both confidences reach their threshold.

        Returns
        -------
        CoAD
            This model.
        """
        if product is not None and p_s is None and p_q is None:
            self.rule_ = replace(self.rule_, product=_unit(product, "product"))
        elif product is None and p_s is not None and p_q is not None:
            pair = _unit(p_s, "p_s"), _unit(p_q, "p_q")
            self.rule_ = replace(self.rule_, thresholds=pair, product=None)
        else:
            raise InputError("give either product, or both p_s and p_q")
        return cast("CoAD", self)

    def tune(
        self,
        s: Any,
        q: Any = None,
        *,
        beta: float | None = None,
        context: Any = None,
        threshold_s: float | None = None,
        threshold_q: float | None = None,
        dismiss: int | None = None,
    ) -> CoAD:
        """Choose another rule for these rows; the networks do not change. :meth:`save` keeps it.

        Both thresholds are set to the exact optimum of F̂ on the rows that are of no dismissed kind. If these show no
        coincidence, they are infinite and nothing is flagged. With ``threshold_s`` and ``threshold_q``, they are set
        as they are given.

        Parameters
        ----------
        s, q, context
            The rows to tune on.
        beta
            The β of F̂ from now on, that of the rule if not given.
        threshold_s, threshold_q
            Thresholds of p_s and p_q to set, both or none.
        dismiss
            A kind from :func:`coad.events.kinds.find_kinds` to dismiss first.

        Returns
        -------
        CoAD
            This model.
        """
        before = self.rule_
        try:
            if beta is not None:
                self.rule_ = replace(self.rule_, beta=check_beta(beta))
            if dismiss is not None:
                dismissal.dismiss(cast("CoAD", self), dismiss, s, q, context)  # which tunes on what is left
            if threshold_s is not None or threshold_q is not None:
                self.set_threshold(p_s=threshold_s, p_q=threshold_q)
            elif dismiss is None:
                scores = self.score_rows(s, q, context)
                s, q, context, _, _ = unpacked(s, q, context, None, None)
                self.tune_scores(scores, self.known_context(s, q, context))
        except Exception:
            self.rule_ = before  # a rule is changed as a whole, or not at all
            raise
        return cast("CoAD", self)

    def tune_scores(self, scores: RowScores, context: Any = None) -> None:
        """Set both thresholds to the exact optimum of F̂ on rows that are scored already."""
        labels = as_context(context, len(scores.flag))
        kept = slice(None) if scores.dismissed is None else ~scores.dismissed
        self.rule_ = searched_rule(
            self, scores.p_s[kept], scores.p_q[kept], None if labels is None else labels[kept]
        )

    @property
    def starts_(self) -> list[StartReport]:
        """The result of each start on the validation rows."""
        return self._only().starts

    @property
    def status_(self) -> str:
        """``"found"``, ``"no coincidence"`` or ``"shared regime suspected"``."""
        return self._only().status

    @property
    def p_value_(self) -> float:
        """Share of shuffled pairings of the validation rows that do as well; selecting the best epoch is accounted for."""
        return self._only().p_value

    @property
    def background_(self) -> Background:
        """How chance was counted at the fit: for independent confidences or correlated ones, with which ρ, and why."""
        return self._only().background

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def _prepared(self, s: Any, q: Any, context: Any) -> tuple[Any, Any, Any]:
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        rows_s, rows_q = as_fitted(self, s, q)
        labels = as_context(self.known_context(s, q, context), len(rows_s))
        check_kind_of_context(labels, self.contexts_)
        warn_of_unseen_contexts(labels, self.contexts_)
        return rows_s, rows_q, labels

    def known_context(self, s: Any, q: Any, context: Any = None) -> Any:
        """The context of each row: given, discovered by ``context_``, or both."""
        return joined_context(getattr(self, "context_", None), s, q, context)

    def _check_fitted(self) -> None:
        if not hasattr(self, "fitted_"):
            raise NotFittedError("this CoAD is not fitted yet; call fit(s, q) first")

    def _only(self) -> Fitted:
        self._check_fitted()
        if len(self.fitted_) > 1:
            raise InputError(
                f"this model has several beta; choose one with at(beta): {_listed(self.fitted_)}"
            )
        return next(iter(self.fitted_.values()))


def _unit(value: float, name: str) -> float:
    if not 0.0 <= float(value) <= 1.0:
        raise InputError(f"the threshold {name} must lie in [0, 1], not {value!r}")
    return float(value)


def _listed(values: Any) -> str:
    return ", ".join(f"{v:g}" for v in values)
