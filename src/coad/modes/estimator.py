"""``CoincidenceModes``: every regime and every rare kind that two inputs share, without labels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.assessment import Evaluation, RowScores, assess
from coad.core.rule import NEVER, Rule
from coad.core.runs import RowOrder
from coad.core.validation import seed_of
from coad.core.verdict import FOUND, NO_COINCIDENCE
from coad.data.pairs import order_of, unpacked
from coad.exceptions import InputError, NoCoincidenceWarning, NotFittedError
from coad.learned.training.inputs import (
    as_context,
    as_fitted,
    as_groups,
    as_pair,
    as_times,
    check_kind_of_context,
    names_of,
    reject_constant,
    warn_of_outliers,
    warn_of_repeated_readings,
    warn_of_unseen_contexts,
)
from coad.learned.training.split import new_rows
from coad.modes import saving
from coad.modes.catalogue import ModeTable, Role
from coad.modes.checks import checked_modes, reject_unique, warn_of_columns, warn_of_copies
from coad.modes.consensus import mode_of_rows, pair_evidence
from coad.modes.coordinates import Arrays, Front
from coad.modes.deviations import Deviations
from coad.modes.fitting import fit_modes
from coad.modes.layer import Layer
from coad.modes.transforms import Transforms

__all__ = ["CoincidenceModes"]


class CoincidenceModes(BaseEstimator):  # type: ignore[misc]
    """A catalogue of coincident modes: large ones are regimes, small ones kinds of anomaly.

    Rows are pairs: row i of ``s`` and of ``q`` is the same moment. Every method takes two arrays, or one
    :class:`~coad.data.pairs.Pairs` as ``s``; ``context`` is the known regime of each row, if the fit had one.

    Parameters
    ----------
    n_modes : int, optional
        Outputs of each network, more than there are modes (default 40, fewer for less than 1,600 rows).
    max_rare : float
        Modes of at most this fraction of the rows are called rare if they are odd in both inputs (:mod:`coad.core.oddness`),
        until :meth:`set_role` says otherwise.
    smallest : float
        The smallest mode wanted, as a fraction of the rows; a batch must hold some rows of it.
    net : None, "mnist", "milling", "rf", NetSpec or a pair of NetSpec
        None chooses by shape: rows become features, windows (n, channels, points) go to convolutions only if window
        features show no coincidence, and images of more than 256 values always do. See :mod:`coad.modes.transforms`.
    n_starts : int
        Ensemble members (pairs of networks) for each of five folds of the rows, which they are trained without.
    steps, batch_size, micro_batch : int, optional
        Training steps on the table, rows per batch, and rows per micro-batch (less memory, same gradient).
    lr : float
        Learning rate.
    jitter : float, optional
        Noise on scaled training rows (default 0.15).
    significance : float
        Level of the tests on held-out rows.
    ordered : bool
        Whether rows are in time order; see :class:`~coad.CoAD`.
    verbose : bool
        Show a progress bar.
    random_state : int or Generator, optional
        Seed.

    Attributes
    ----------
    modes_ : ModeTable
        The modes, rare ones first; see :class:`~coad.modes.catalogue.Mode`.
    labels_ : array of int
        The mode of each row of the fit, -1 where the inputs disagree.
    held_out_confidences_ : pair of arrays
        a and b of the rows of the fit, each (n, modes), by members that did not see the row; empty after loading.
    p_value_ : float
        Permutation p-value of the coincidence in the whole table.
    reason_ : str
        Why there are no modes, if there are none.

    >>> rng = np.random.default_rng(0)
    >>> kind = rng.permutation(np.repeat([0, 1, 2], [500, 400, 40]))
    >>> s, q = (4 * np.eye(3)[kind] + rng.normal(size=(940, 3)) * 0.5 for _ in range(2))
    >>> det = CoincidenceModes(steps=80, random_state=0).fit(s, q)
    >>> len(det.modes_), [mode.role for mode in det.modes_], det.predict(s, q)[kind == 2].mean() > 0.9
    (3, ['rare', 'regime', 'regime'], np.True_)
    """

    #: The columns of the fit, if it was on tables.
    names_s_: tuple[str, ...] | None = None
    names_q_: tuple[str, ...] | None = None
    #: How the command line reads files for this model (the text of ``layout.json``), if it was made there.
    layout_: str | None = None
    #: Shared regimes are what a catalogue lists, so no warning is given for them.
    expects_regimes = True

    def __init__(
        self,
        *,
        n_modes: int | None = None,
        max_rare: float = 0.1,
        smallest: float = 0.01,
        net: Any = None,
        n_starts: int = 6,
        steps: int | None = None,
        batch_size: int | None = None,
        lr: float = 1e-2,
        jitter: float | None = None,
        micro_batch: int | None = None,
        significance: float = 0.01,
        ordered: bool = True,
        verbose: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_modes = n_modes
        self.max_rare = max_rare
        self.smallest = smallest
        self.net = net
        self.n_starts = n_starts
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.jitter = jitter
        self.micro_batch = micro_batch
        self.significance = significance
        self.ordered = ordered
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
    ) -> CoincidenceModes:
        """Learn the modes.

        Parameters
        ----------
        s, q : array or DataFrame
            Both inputs: (n, columns), (n, channels, points) or (n, channels, height, width). At least 100 rows.
        context : array, optional
            A known regime of each row: inputs are scaled, and coincidence is measured, within it.
        group : array, optional
            Run or batch of each row; rows that share it are held out together.
        time : array, optional
            Time of each row: stretches of time are held out, and the test against slow drift is in its order.

        Returns
        -------
        self : CoincidenceModes
        """
        self.names_s_, self.names_q_ = names_of(s, q)
        self.layout_ = None
        s, q, context, group, time = unpacked(s, q, context, group, time)
        rows_s, rows_q = as_pair(s, q, least=100)
        n = len(rows_s)
        new = new_rows(rows_s, rows_q)
        if new is not None:
            warn_of_repeated_readings(new, "each reading counts once", least=100)
        modes = checked_modes(self, n if new is None else int(new.sum()))
        time, group, labels = as_times(time, n), as_groups(group, n), as_context(context, n)
        reject_unique(labels)
        for name, rows, known in (("s", rows_s, self.names_s_), ("q", rows_q, self.names_q_)):
            reject_constant(rows, name)
            warn_of_columns(rows, name, known)
        warn_of_copies(rows_s, rows_q)
        self.random_state_ = seed_of(self.random_state)
        rng = np.random.default_rng(self.random_state_)
        self.shape_s_, self.shape_q_ = rows_s.shape[1:], rows_q.shape[1:]
        self.contexts_ = None if labels is None else np.unique(labels).tolist()
        if new is None:
            found = fit_modes(self, (rows_s, rows_q), labels, modes, group, time, rng)
        else:
            labels, group, time = (None if x is None else x[new] for x in (labels, group, time))
            found = fit_modes(self, (rows_s[new], rows_q[new]), labels, modes, group, time, rng).repeated(new)
        self.front_: Front = found.front
        self.layer_: Layer | None = found.layer
        self.deviations_: Deviations | None = found.deviations
        self.modes_: ModeTable = found.table
        self.sizes_: FloatArray = found.sizes
        self.labels_: IntArray = found.labels
        self.held_out_confidences_: tuple[FloatArray, FloatArray] = found.held
        self.p_value_: float = found.p_value
        self.reason_: str = found.reason
        for name, steps, scaler, rows, known in zip(
            "sq",
            self.front_.transforms,
            self.front_.scalers,
            (rows_s, rows_q),
            (self.names_s_, self.names_q_),
            strict=True,
        ):
            if not steps:  # transformed rows have columns of their own
                warn_of_outliers(scaler, rows, name, known)
        if not self.modes_:
            warnings.warn(
                f"no coincident modes: {self.reason_}; every row gets mode -1 and nothing is flagged",
                NoCoincidenceWarning,
                stacklevel=2,
            )
        return self

    @property
    def transforms_(self) -> Transforms:
        """What is done with rows before they are scaled, as fitted on all rows."""
        return self.front_.transforms

    def predict(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """True for rows of a rare mode, (n,)."""
        return self.score_rows(s, q, context).flag

    def predict_mode(self, s: Any, q: Any = None, context: Any = None) -> IntArray:
        """The mode of each row, (n,); -1 where the inputs disagree, or if there are no modes."""
        return mode_of_rows(self.evidence(s, q, context))

    def score_samples(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """The anomaly score of each row, (n,): its probability of a rare mode, 0 to 1."""
        return self.score_rows(s, q, context).score

    def score(self, s: Any, q: Any = None, *, context: Any = None) -> float:
        """``evaluate(s, q, context).fbeta_hat``, for model selection without labels; 0 if no mode is rare."""
        return float(self.evaluate(s, q, context).fbeta_hat)

    def evaluate(
        self, s: Any, q: Any = None, context: Any = None, *, group: Any = None, time: Any = None
    ) -> Evaluation:
        """F̂, P̂ and R̂ (β = 1) of all rare modes together on rows that the fit did not see, without labels.

        Events end where ``group`` changes and at gaps in ``time``.
        """
        scores, order = self.score_rows(s, q, context), order_of(s, q, group, time)
        return self.evaluate_scores(scores, unpacked(s, q, context, None, None)[2], order)

    def known_context(self, s: Any, q: Any, context: Any = None) -> Any:
        """The context of each row: the one that is given."""
        return context

    def evaluate_scores(
        self, scores: RowScores, context: Any = None, order: RowOrder | None = None
    ) -> Evaluation:
        """:meth:`evaluate` for rows that are scored already; ``order`` says where they stand in time."""
        return assess(
            scores,
            self.rule_,
            context=as_context(context, len(scores.flag)),
            order=order,
            seed=self.random_state_,
            significance=self.significance,
            trained=(self.status_, self.p_value_),
            expects_regimes=self.expects_regimes,
            ordered=self.ordered,
        )

    @property
    def rule_(self) -> Rule:
        """The rule: rows of rare modes are flagged; :meth:`set_role` changes it."""
        roles = {mode.mode: mode.role for mode in self.modes_}
        alpha = float(np.clip(self.alpha_, 1e-6, 0.5))
        background: Any = "all rows" if self.contexts_ is None else "context"
        return Rule(1.0, alpha, thresholds=NEVER, background=background, roles=roles)

    def set_role(self, mode: int, role: Role) -> CoincidenceModes:
        """Overrule the role of one mode.

        Parameters
        ----------
        mode : int
            Its number in ``modes_``.
        role : {"regime", "rare", "ignore"}
            Rows of rare modes are flagged; regimes serve as context; ignored modes do neither.

        Returns
        -------
        self : CoincidenceModes
        """
        self._check_fitted()
        if role not in ("regime", "rare", "ignore"):
            raise InputError(f"role must be 'regime', 'rare' or 'ignore', not {role!r}")
        numbers = sorted(one.mode for one in self.modes_)
        if mode not in numbers:
            raise InputError(f"there is no mode {mode!r}; there are {numbers}")
        self.modes_ = self.modes_.with_role(mode, role)
        return self

    def regimes(self, s: Any, q: Any = None, context: Any = None) -> IntArray:
        """The regime of each row, (n,), to serve as context for :class:`~coad.CoAD`.

        That is the regime with the most evidence, also for rows of other modes and rows whose inputs disagree; 0 for
        all rows if no mode is a regime.
        """
        evidence = self.evidence(s, q, context)
        keep = [mode.mode for mode in self.modes_ if mode.role == "regime"]
        if not keep:
            return np.zeros(len(evidence), dtype=np.int64)
        return np.asarray(np.array(sorted(keep))[evidence[:, sorted(keep)].argmax(1)], dtype=np.int64)

    def evidence(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """The evidence of each row for each mode, ``a b / size``, (n, modes).

        The sum of a row is the likelihood ratio of the pair against a random pairing; the inputs disagree below 0.5.
        """
        return self._evidence(*self.mode_confidences(s, q, context))

    def _evidence(self, a: FloatArray, b: FloatArray) -> FloatArray:
        listed = np.isin(np.arange(a.shape[1]), [mode.mode for mode in self.modes_])
        return np.where(listed, pair_evidence(a, b, self.sizes_), 0.0)

    def mode_confidences(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """a and b, each (n, modes): the confidence of s, and of q, in each mode; columns by mode number."""
        self._check_fitted()
        arrays, labels = self._checked(s, q, context)
        if self.layer_ is None:
            return np.zeros((len(arrays[0]), 0)), np.zeros((len(arrays[0]), 0))
        groups = self.layer_.groups(arrays, labels)
        modes = self.layer_.pooled(groups)
        return modes if self.deviations_ is None else self.deviations_.add(arrays, groups, modes)

    def confidences(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """p_s and p_q, each (n,): the confidence of each input by itself in a rare mode."""
        return self.score_rows(s, q, context)[:2]

    def score_rows(self, s: Any, q: Any = None, context: Any = None) -> RowScores:
        """Confidences, score, decision and mode of each row, in one pass."""
        a, b = self.mode_confidences(s, q, context)
        evidence = self._evidence(a, b)
        rare = [mode.mode for mode in self.modes_.rare]
        p_s, p_q = (np.clip(votes[:, rare].sum(1), 0.0, 1.0) for votes in (a, b))
        score = np.asarray(evidence[:, rare].sum(1) / np.maximum(evidence.sum(1), 1.0))
        mode = mode_of_rows(evidence)
        return RowScores(p_s, p_q, score, np.isin(mode, rare), mode)

    @property
    def status_(self) -> str:
        """``"found"``, or ``"no coincidence"`` if the catalogue is empty."""
        self._check_fitted()
        return FOUND if len(self.modes_) else NO_COINCIDENCE

    @property
    def alpha_(self) -> float:
        """The anomaly rate: the fraction of the rows of the fit in rare modes."""
        self._check_fitted()
        return float(sum(mode.size for mode in self.modes_.rare))

    alpha_how_ = "the fraction of the rows in rare modes"

    def save(self, folder: str | Path) -> None:
        """Write the catalogue to a folder of safetensors and JSON; :func:`coad.load` reads it."""
        self._check_fitted()
        saving.save_modes(self, Path(folder))

    def to_facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What goes into JSON, and what into safetensors."""
        return saving.modes_facts(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any], tensors: dict[str, Any], nets: Any = None) -> CoincidenceModes:
        """The inverse of :meth:`to_facts`."""
        return saving.restore_modes(cls(), facts, tensors, nets)

    def _checked(self, s: Any, q: Any, context: Any) -> tuple[Arrays, NDArray[Any] | None]:
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        arrays = as_fitted(self, s, q)
        labels = None if self.contexts_ is None else as_context(context, len(arrays[0]))
        check_kind_of_context(labels, self.contexts_)
        warn_of_unseen_contexts(labels, self.contexts_)
        return arrays, labels

    def _check_fitted(self) -> None:
        if not hasattr(self, "modes_"):
            raise NotFittedError("this CoincidenceModes is not fitted yet; call fit(s, q) first")
