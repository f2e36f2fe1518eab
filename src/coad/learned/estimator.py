"""``CoAD``: two networks trained end to end by F̂β, without labels."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from coad._typing import ArrayLike, BoolArray, FloatArray
from coad.data.pairs import unpacked
from coad.exceptions import InputError, NotFittedError
from coad.learned import dismissal, saving
from coad.learned.context import joined_context
from coad.learned.fitting import fit_model
from coad.learned.objective import Preset
from coad.learned.training.heads import plausible_rate
from coad.learned.training.inputs import (
    as_context,
    as_fitted,
    check_kind_of_context,
    scaled_blocks,
    warn_of_unseen_contexts,
)
from coad.learned.training.judge import Evaluation, RowScores, judge
from coad.learned.training.model import Fitted, StartReport, absorb, reaches
from coad.learned.training.settings import Augment, Schedule
from coad.learned.training.split import Split
from coad.thresholds.selection import select_thresholds

__all__ = ["CoAD", "Fitted"]

log = logging.getLogger(__name__)


class CoAD(BaseEstimator):  # type: ignore[misc]
    """Find anomalies that two inputs see at once; no labels, no contamination, no threshold.

    Parameters
    ----------
    beta : float or ascending list of floats
        0 asks for precision, ``inf`` for recall. A list trains shared networks with one head
        for each; :meth:`at` gives the detector of one.
    alpha : float or "auto"
        The anomaly rate. "auto" takes the largest TP that a recall head finds.
    net : None, "mnist", "milling", "rf", NetSpec, torch module, function making one, or a pair of these
        None chooses from the shapes. A pair is (for s, for q).
    n_starts : int
        Independent starts; the best by validation F̂ is kept, all are in ``starts_``.
    ensemble : bool
        Keep every start that found what the best one did, with nearly its F̂, and score by their mean
        logit: surer, and slower by their number. Both thresholds are then set to the exact optimum of
        F̂ on the rows of the fit.
    epochs, batch_size, patience, epoch_size : int, optional
        Chosen from the number of rows if not given. ``epoch_size`` rows make an epoch.
    lr, schedule : float, {"cosine", "constant"}, optional
        Adam's learning rate and its course: rising for a tenth of the steps, then falling to 0.
    validation, split : float, {"random", "group", "time"}
        The held-out fraction, and how it is taken (``group`` and ``time`` go to :meth:`fit`).
    augment : function (s, q, generator) -> (s, q), optional
        Applied to every training batch of scaled tensors; must keep the shapes.
    margin : float, optional
        TP must exceed what chance gives by this many standard deviations (4; paper: 0). It
        vanishes as the rows grow in number.
    jitter : float, optional
        Noise added to scaled training rows, against learning them by heart (0.2 for flat rows).
    preset : {"robust", "paper"}
        The normalised head with the hinge wall, or the paper's loss and plain head.
    checkpoint : path, optional
        A folder; an interrupted ``fit`` goes on from there.
    context : CoincidenceModes, optional
        A catalogue of modes whose regimes are the context of every row; fitted first if it is not.

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 600, 3))
    >>> s[:60] += 3; q[:60] -= 3
    >>> det = CoAD(epochs=60, n_starts=2, random_state=0).fit(s, q)
    >>> det.predict(s, q)[:60].mean() > 0.9, det.predict(s, q)[60:].mean() < 0.05
    (np.True_, np.True_)
    """

    def __init__(
        self,
        beta: float | Sequence[float] = 1.0,
        *,
        alpha: float | Literal["auto"] = "auto",
        net: Any = None,
        n_starts: int = 4,
        ensemble: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        schedule: Schedule | None = None,
        patience: int | None = None,
        epoch_size: int | None = None,
        validation: float = 0.2,
        split: Split = "random",
        scale: bool = True,
        augment: Augment | None = None,
        preset: Preset = "robust",
        lambda_wall: float | None = None,
        lambda_mag: float = 0.0,
        margin: float | None = None,
        jitter: float | None = None,
        micro_batch: int | None = None,
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        memory_format: Literal["auto", "default", "channels_last"] = "auto",
        significance: float = 0.01,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 10.0,
        context: Any = None,
        verbose: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.beta = beta
        self.alpha = alpha
        self.net = net
        self.n_starts = n_starts
        self.ensemble = ensemble
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.schedule = schedule
        self.patience = patience
        self.epoch_size = epoch_size
        self.validation = validation
        self.split = split
        self.scale = scale
        self.augment = augment
        self.preset = preset
        self.lambda_wall = lambda_wall
        self.lambda_mag = lambda_mag
        self.margin = margin
        self.jitter = jitter
        self.micro_batch = micro_batch
        self.precision = precision
        self.memory_format = memory_format
        self.significance = significance
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.context = context
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        s: Any,
        q: Any = None,
        *,
        context: Any = None,
        group: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> CoAD:
        """Learn from pairs: row i of ``s`` and of ``q`` is the same moment.

        One :class:`~coad.data.pairs.Pairs` may be given in place of ``s`` and ``q``; its context,
        group and time are used too. Float32 arrays on disk (``numpy.memmap``) are read as needed.

        ``context`` names the operating regime of each row; coincidence is then measured, and
        the inputs are scaled, within each regime. Regimes that training did not see are scaled
        like all rows together. With ``checkpoint`` set, an interrupted fit goes on where it was.
        """
        fit_model(self, s, q, context=context, group=group, time=time)
        return self

    # What a fitted detector says.

    def at(self, beta: float) -> CoAD:
        """The detector of one β of a list; it shares nothing that changes with this one.

        >>> CoAD(beta=[0.5, 1]).at(1)
        Traceback (most recent call last):
        ...
        coad.exceptions.NotFittedError: this CoAD is not fitted yet; call fit(s, q) first
        """
        self._check_fitted()
        if float(beta) not in self.fitted_:
            raise InputError(f"beta = {beta:g} was not trained; there are {_list(self.fitted_)}")
        view = copy.copy(self)
        view.beta = float(beta)
        view.fitted_ = {float(beta): copy.copy(self.fitted_[float(beta)])}
        return view

    def confidences(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """p_s and p_q of each row."""
        own = self._only()
        rows_s, rows_q, labels = self._prepared(s, q, context)
        if own.direct is None:
            own.direct = absorb(own.scorer_s, self.scaler_s_), absorb(own.scorer_q, self.scaler_q_)
        found = []
        for rows, direct, scorer, scaler in (
            (rows_s, own.direct[0], own.scorer_s, self.scaler_s_),
            (rows_q, own.direct[1], own.scorer_q, self.scaler_q_),
        ):
            if direct is not None:
                found.append(direct.confidence(scaled_blocks(rows, None, None)))
            else:
                found.append(scorer.confidence(scaled_blocks(rows, scaler, labels)))
        return found[0], found[1]

    def score_samples(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """p_s·p_q of each row: high = anomalous."""
        p_s, p_q = self.confidences(s, q, context)
        return p_s * p_q

    def predict(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """True for an anomaly. Nothing is flagged if training found no coincidence.

        Events of a kind that was dismissed are not flagged.
        """
        return self.score_rows(s, q, context).flag

    def score_rows(self, s: Any, q: Any = None, context: Any = None) -> RowScores:
        """Confidences, score and decision of each row, in one pass."""
        p_s, p_q = self.confidences(s, q, context)
        flags = self.decide(p_s, p_q)
        if self.dismissed_ and flags.any():
            flags &= ~self.is_dismissed(s, q, context)
        return RowScores(p_s, p_q, p_s * p_q, flags)

    def decide(self, p_s: FloatArray, p_q: FloatArray) -> BoolArray:
        """The decision for given confidences, such as :meth:`confidences` returns."""
        own = self._only()
        if own.status == "no coincidence":
            return np.zeros(len(p_s), dtype=bool)
        return reaches(p_s, p_q, own.threshold, own.thresholds)

    def latent(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """What the last layer of each network is given, for pictures of the latent spaces."""
        own = self._only()
        rows_s, rows_q, labels = self._prepared(s, q, context)
        return (
            own.scorer_s.latent(scaled_blocks(rows_s, self.scaler_s_, labels)),
            own.scorer_q.latent(scaled_blocks(rows_q, self.scaler_q_, labels)),
        )

    def evaluate(self, s: Any, q: Any = None, context: Any = None) -> Evaluation:
        """F̂, P̂, R̂ and J with intervals and a permutation p-value; no labels needed.

        The rows should be new: on the training rows the figures flatter.
        """
        p_s, p_q = self.confidences(s, q, context)
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        return self.evaluate_confidences(p_s, p_q, self._known(s, q, context))

    def evaluate_confidences(
        self, p_s: FloatArray, p_q: FloatArray, context: Any = None, *, flagged: int | None = None
    ) -> Evaluation:
        """:meth:`evaluate` for confidences that are already at hand; ``flagged`` rows are counted if not given."""
        labels = as_context(context, len(p_s))
        return judge(
            p_s,
            p_q,
            beta=self._only().beta,
            alpha=self.alpha_,
            alpha_given=self.alpha != "auto",
            flagged=int(self.decide(p_s, p_q).sum()) if flagged is None else flagged,
            context=None if labels is None else np.unique(labels, return_inverse=True)[1],
            seed=self.random_state_,
            significance=self.significance,
            plausible=plausible_rate(self),
        )

    def set_threshold(
        self, product: float | None = None, *, p_s: float | None = None, p_q: float | None = None
    ) -> CoAD:
        """Flag where p_s·p_q reaches ``product``, or where both reach their own threshold."""
        own = self._only()
        if product is not None and p_s is None and p_q is None:
            own.threshold, own.thresholds = _unit(product, "product"), None
        elif product is None and p_s is not None and p_q is not None:
            own.thresholds = (_unit(p_s, "p_s"), _unit(p_q, "p_q"))
        else:
            raise InputError("give either product, or both p_s and p_q")
        return self

    def tune(self, s: Any, q: Any, *, beta: float | None = None, context: Any = None) -> CoAD:
        """Set both thresholds to the exact optimum of F̂ on these rows, for this or another β.

        The networks stay as they are. If the rows show no coincidence, the thresholds are
        infinite and nothing is flagged.
        """
        own = self._only()
        p_s, p_q = self.confidences(s, q, context)
        labels = as_context(self._known(s, q, context), len(p_s))
        own.thresholds = self._searched(p_s, p_q, own.beta if beta is None else float(beta), labels)
        return self

    def _searched(
        self, p_s: FloatArray, p_q: FloatArray, beta: float, labels: Any, **options: Any
    ) -> tuple[float, float]:
        """The exact best thresholds of given confidences; ``options`` as in ``select_thresholds``."""
        own = {"alpha": self.alpha_, "random_state": self.random_state_, **options}
        found = select_thresholds(p_s, p_q, beta=beta, context=labels, **own)
        return found.threshold_s, found.threshold_q

    def dismiss(self, kind: int, s: Any = None, q: Any = None, *, context: Any = None) -> CoAD:
        """Leave events of a kind out from now on (:func:`coad.events.kinds.find_kinds` numbers them).

        With rows given, α and the thresholds are tuned again without that kind, so that the next
        one comes up. See :meth:`refit` for networks that never saw it.
        """
        dismissal.dismiss(self, kind, s, q, context)
        return self

    def is_dismissed(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """Which rows are events of a dismissed kind."""
        return dismissal.is_dismissed(self, s, q, context)

    def refit(self, s: Any, q: Any = None, *, context: Any = None) -> CoAD:
        """A new detector with the same settings, trained on the rows that are of no dismissed kind.

        :meth:`dismiss` keeps the networks, which may have learned little but the dismissed kind;
        this lets them learn the next one. The new detector has never seen the dismissed kinds, so it
        knows of none (``dismissed_`` is empty) and may flag some of them in new data: ask this
        one's :meth:`is_dismissed` about those.
        """
        return dismissal.refit(self, s, q, context)

    #: What :meth:`fit` found: for each β, the anomaly rate and where it comes from, the rows held out.
    fitted_: dict[float, Fitted]
    alpha_: float
    alpha_how_: str
    validation_rows_: NDArray[np.int64]
    #: Coincidence that looks like a shared regime is no event here, and is said to be suspect.
    expects_regimes = False
    #: The columns of the fit, if it was on tables.
    names_s_: tuple[str, ...] | None = None
    names_q_: tuple[str, ...] | None = None
    #: How the command line reads files for this model (the text of ``layout.json``), if it was made there.
    layout_: str | None = None
    #: Kinds that were dismissed; see :mod:`coad.learned.dismissal`. ``kinds_`` is what :func:`find_kinds` found last.
    dismissed_: tuple[Any, ...] = ()
    kinds_: Any = None

    @property
    def starts_(self) -> list[StartReport]:
        """How each seed ended, on validation data."""
        return self._only().starts

    @property
    def status_(self) -> str:
        """``"found"``, ``"no coincidence"`` or ``"shared regime suspected"``."""
        return self._only().status

    @property
    def p_value_(self) -> float:
        """How often shuffled pairings of the held-out rows do as well, selection included."""
        return self._only().p_value

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder of safetensors and JSON; see :func:`coad.load`."""
        saving.save(self, Path(folder))

    @classmethod
    def from_facts(
        cls, facts: dict[str, Any], tensors: dict[str, Any], nets: Any = None, **classes: Any
    ) -> CoAD:
        """A model as it was when :meth:`save` wrote these; see :func:`coad.load`."""
        return saving.restore(cls(), facts, tensors, nets, **classes)

    # Below: checks and small steps.

    def _prepared(self, s: Any, q: Any, context: Any) -> tuple[Any, Any, Any]:
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        rows_s, rows_q = as_fitted(self, s, q)
        labels = as_context(self._known(s, q, context), len(rows_s))
        check_kind_of_context(labels, self.contexts_)
        warn_of_unseen_contexts(labels, self.contexts_)
        return rows_s, rows_q, labels

    def _known(self, s: Any, q: Any, context: Any) -> Any:
        """The context of each row: given, discovered by ``context_``, or both."""
        if getattr(self, "context_", None) is None:
            return context
        return joined_context(self.context_, s, q, context)

    def _check_fitted(self) -> None:
        if not hasattr(self, "fitted_"):
            raise NotFittedError("this CoAD is not fitted yet; call fit(s, q) first")

    def _only(self) -> Fitted:
        self._check_fitted()
        if len(self.fitted_) > 1:
            raise InputError(
                f"this detector holds several beta; choose one with at(beta): {_list(self.fitted_)}"
            )
        return next(iter(self.fitted_.values()))


def _unit(value: float, name: str) -> float:
    if not 0.0 <= float(value) <= 1.0:
        raise InputError(f"the threshold {name} must lie in [0, 1], not {value!r}")
    return float(value)


def _list(values: Any) -> str:
    return ", ".join(f"{v:g}" for v in values)
