"""``CoincidenceModes``: every regime and every rare kind that two inputs share, without labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.verdict import FOUND, NO_COINCIDENCE
from coad.data.pairs import unpacked
from coad.exceptions import InputError, NoCoincidenceWarning, NotFittedError
from coad.learned.training.configure import seed_of
from coad.learned.training.duo import Duo
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
from coad.learned.training.judge import Evaluation, RowScores, judge
from coad.learned.training.split import new_rows
from coad.modes import saving
from coad.modes.catalogue import ModeTable
from coad.modes.checks import (
    checked_modes,
    reject_unique,
    warn_of_batch,
    warn_of_columns,
    warn_of_copies,
    warn_of_slowness,
)
from coad.modes.consensus import DISAGREE
from coad.modes.describing import Found
from coad.modes.deviations import Deviations, with_deviations
from coad.modes.front import choose_front
from coad.modes.inputs import FrontRows
from coad.modes.pipeline import find_modes
from coad.modes.plan import Task
from coad.modes.roles import Role
from coad.modes.transforms import AS_THEY_ARE, Seen, Transforms, transformed, transforms_for

__all__ = ["CoincidenceModes"]

#: Rows from which on batches of convolutions are doubled: the table's noise falls with the batch.
_MANY = 12_000
#: Modes are clear if s and q have so much of what they say in common: simulated windows with regimes 0.8 and more, in few
#: numbers of each; those of the simulated RF station less than 0.1, and 0.14 to 0.17 point by point.
_CLEAR = 0.5
#: Rows that tell, of many more, which look at them shows most.
_TRANSFORM_SAMPLE = 20_000


class CoincidenceModes(BaseEstimator):  # type: ignore[misc]
    """A catalogue of coincident modes: large ones are regimes, small ones kinds of anomaly.

    Parameters
    ----------
    n_modes : int, optional
        Modes to start with, more than needed (40, fewer for short data); those without
        coincidence are dropped, those that are one are merged.
    max_rare : float
        A mode with more of the rows than this is never called rare.
    smallest : float
        The rarest mode wanted, as a part of the rows; batches must hold some rows of it.
    net : None, "mnist", "milling", "rf", NetSpec or a pair of NetSpec
        None chooses from the shapes: windows (n, channels, points) are put in few numbers, and seen
        point by point only if these show no clear modes; images of more than 256 values are seen by
        convolutions. Columns that span decades are seen by their logarithm, and codes one by one, if
        that shows more (:mod:`coad.modes.transforms`).
    n_starts : int
        Pairs of networks, each of which leaves out another part of the rows; rows that most of
        them put together are a mode.
    steps, batch_size, lr, jitter, micro_batch : optional
        The course of the training; chosen from the data if not given.
    significance : float
        The level of the tests on held-out rows.

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
    #: How rows are looked at before they are scaled; see :mod:`coad.modes.transforms`.
    transforms_: Transforms = AS_THEY_ARE
    #: That the inputs share regimes is what a catalogue is for, not a suspicion.
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
        """Learn from pairs: row i of ``s`` and of ``q`` is the same moment.

        One :class:`~coad.data.pairs.Pairs` may be given in place of ``s`` and ``q``. ``context`` is a
        regime that is known already: the inputs are scaled, and coincidence is measured,
        within it. Rows of one ``group`` are held out together. ``time`` helps to tell an episode
        from a regime.
        """
        self.names_s_, self.names_q_ = names_of(s, q)
        self.layout_ = None
        s, q, context, group, time = unpacked(s, q, context, group, time)
        rows_s, rows_q = as_pair(s, q, least=100)
        n = len(rows_s)
        modes = checked_modes(self, n)
        time, group = as_times(time, n), as_groups(group, n)
        labels = as_context(context, n)
        reject_unique(labels)
        for name, rows, known in (("s", rows_s, self.names_s_), ("q", rows_q, self.names_q_)):
            reject_constant(rows, name)
            warn_of_columns(rows, name, known)
        warn_of_copies(rows_s, rows_q)
        seed = seed_of(self.random_state)
        rng = np.random.default_rng(seed)
        if group is None and (new := new_rows(rows_s, rows_q)) is not None:
            warn_of_repeated_readings(new, "the rows of one reading are kept in one split", least=100)
            group = np.cumsum(new)
        self.shape_s_, self.shape_q_ = rows_s.shape[1:], rows_q.shape[1:]
        self.contexts_ = None if labels is None else np.unique(labels).tolist()
        self.random_state_ = seed
        found, looks, data, task = self._best_transform(rows_s, rows_q, labels, modes, group, time, rng)
        self.transforms_, self.fronts_ = looks, data.fronts
        self.deviations_: Deviations | None
        found, self.deviations_ = with_deviations(task, found, data, rng)
        self._take(found)
        for name, look, front, known in zip(
            "sq", self.transforms_, self.fronts_, (self.names_s_, self.names_q_), strict=True
        ):
            if not look:  # digests and codes have columns of their own
                warn_of_outliers(front.scaler, rows_s if name == "s" else rows_q, name, known)
        if not self.modes_:
            warnings.warn(
                f"no coincident modes: {self.reason_}; every row gets mode -1 and nothing is flagged",
                NoCoincidenceWarning,
                stacklevel=2,
            )
        warn_of_slowness(found.slow if self.modes_ else 0.0, grouped=group is not None)
        return self

    def _take(self, found: Found) -> None:
        self.duo_: Duo | None = found.duo
        self.blueprints_ = found.blueprints
        self.modes_: ModeTable = found.table
        self.sizes_: FloatArray = found.sizes
        self.p_value_: float = found.p_value
        self.reason_: str = found.reason
        self.labels_: IntArray = found.labels

    # What a fitted catalogue says about rows.

    def mode_confidences(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """a and b, (n, modes): how sure each input is of each mode, columns by mode number."""
        self._check_fitted()
        data = self._prepared(s, q, context)
        return self._confidences(data)

    def confidences(self, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
        """p_s and p_q of each row: how sure each input by itself is of a rare mode."""
        return self.score_rows(s, q, context)[:2]

    def score_rows(self, s: Any, q: Any = None, context: Any = None) -> RowScores:
        """Confidences, score, decision and mode of each row, in one pass."""
        a, b = self.mode_confidences(s, q, context)
        evidence = self._evidence(a, b)
        rare = [mode.mode for mode in self.modes_.rare]
        p_s, p_q = (np.clip(votes[:, rare].sum(1), 0.0, 1.0) for votes in (a, b))
        score = np.asarray(evidence[:, rare].sum(1) / np.maximum(evidence.sum(1), 1.0))
        mode = self._mode(evidence)
        return RowScores(p_s, p_q, score, np.isin(mode, rare), mode)

    @property
    def status_(self) -> str:
        """``"found"``, or ``"no coincidence"`` if the catalogue is empty."""
        self._check_fitted()
        return FOUND if len(self.modes_) else NO_COINCIDENCE

    @property
    def alpha_(self) -> float:
        """The anomaly rate: the part of the rows of the fit that is in rare modes."""
        self._check_fitted()
        return float(sum(mode.size for mode in self.modes_.rare))

    alpha_how_ = "the part of the rows in rare modes"

    def evaluate(self, s: Any, q: Any = None, context: Any = None) -> Evaluation:
        """F̂, P̂ and R̂ (β = 1) of all rare modes together on rows that should be new; no labels needed."""
        rows = self.score_rows(s, q, context)
        context = unpacked(s, q, context, None, None)[2]
        return self.evaluate_confidences(rows.p_s, rows.p_q, context, flagged=int(rows.flag.sum()))

    def evaluate_confidences(
        self, p_s: FloatArray, p_q: FloatArray, context: Any = None, *, flagged: int
    ) -> Evaluation:
        """:meth:`evaluate` for confidences that are already at hand, and as many ``flagged`` rows."""
        labels = as_context(context, len(p_s))
        return judge(
            p_s,
            p_q,
            beta=1.0,
            alpha=float(np.clip(self.alpha_, 1e-6, 0.5)),
            alpha_given=False,
            flagged=flagged,
            context=None if labels is None else np.unique(labels, return_inverse=True)[1],
            seed=self.random_state_,
            significance=self.significance,
            plausible=1.0,  # which modes are rare is said already, by the sizes or by a person
        )

    def evidence(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """For each row and mode, what the pair says for it: ``a b / size``.

        The sum of a row tells how many times likelier the pair is than a pairing of strangers.
        """
        return self._evidence(*self.mode_confidences(s, q, context))

    def _evidence(self, a: FloatArray, b: FloatArray) -> FloatArray:
        listed = np.isin(np.arange(a.shape[1]), [mode.mode for mode in self.modes_])
        evidence = np.asarray(np.where(listed, a * b / np.maximum(self.sizes_, 1e-6), 0.0))
        return evidence if self.deviations_ is None else self.deviations_.weighed(evidence, a, b)

    def predict_mode(self, s: Any, q: Any = None, context: Any = None) -> IntArray:
        """The mode of each row, -1 where the inputs disagree (or there are no modes)."""
        return self._mode(self.evidence(s, q, context))

    def score_samples(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """How sure it is that the row is in a rare mode: high = anomalous, in [0, 1]."""
        return self.score_rows(s, q, context).score

    def predict(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """True for rows of a rare mode."""
        return self.score_rows(s, q, context).flag

    def set_role(self, mode: int, role: Role) -> CoincidenceModes:
        """Overrule the rule for one mode: "regime", "rare" or "ignore"."""
        self._check_fitted()
        if role not in ("regime", "rare", "ignore"):
            raise InputError(f"role must be 'regime', 'rare' or 'ignore', not {role!r}")
        numbers = sorted(one.mode for one in self.modes_)
        if mode not in numbers:
            raise InputError(f"there is no mode {mode!r}; there are {numbers}")
        self.modes_ = self.modes_.with_role(mode, role)
        return self

    def regimes(self, s: Any, q: Any = None, context: Any = None) -> IntArray:
        """The regime of each row, to serve as context: its mode, unless that is a kind of anomaly.

        Rows of rare or ignored modes, and rows whose inputs disagree, go to the
        regime that fits them best.
        """
        evidence = self.evidence(s, q, context)
        keep = [mode.mode for mode in self.modes_ if mode.role == "regime"]
        if not keep:
            return np.zeros(len(evidence), dtype=np.int64)
        return np.asarray(np.array(sorted(keep))[evidence[:, sorted(keep)].argmax(1)], dtype=np.int64)

    def save(self, folder: str | Path) -> None:
        """Write the catalogue as a folder of safetensors and JSON; see :func:`coad.load`."""
        self._check_fitted()
        saving.save_modes(self, Path(folder))

    def to_facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What goes into JSON, and what into safetensors."""
        return saving.modes_facts(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any], tensors: dict[str, Any], nets: Any = None) -> CoincidenceModes:
        """The inverse of :meth:`to_facts`."""
        return saving.restore_modes(cls(), facts, tensors, nets)

    # Below: checks and small steps.

    def _best_transform(
        self, s: Any, q: Any, labels: Any, modes: int, group: Any, time: Any, rng: np.random.Generator
    ) -> tuple[Found, Transforms, FrontRows, Task]:
        """The catalogue that holds most of what is shared, and the look at the rows that it was found by.

        Windows are seen point by point only if few numbers of each show no clear modes: that takes longer.
        """
        best: tuple[Found, Transforms, FrontRows, Task] | None = None
        for seen in self._seen(s, q, labels, modes, group, rng):
            arrays = [shown for _, shown in seen]
            # Convolutions cost more a row; a batch still holds some rows of the rarest mode wanted.
            usual = 2048 if arrays[0][0].ndim == arrays[0][1].ndim == 2 else 800 if len(s) < _MANY else 1600
            batch = min(len(s), self.batch_size or usual)
            warn_of_batch(batch, len(s), self.smallest)
            options = choose_front(self, arrays, labels, modes, group, rng)
            task = Task(self, modes, batch, group, time)
            number, found = find_modes(task, [rows for _, rows in options], rng)
            chosen, data = options[number]
            if best is None or found.holds >= best[0].holds:
                best = found, seen[chosen][0], data, task
            if found.clear >= _CLEAR:
                break
        assert best is not None
        return best

    def _seen(
        self, s: Any, q: Any, labels: Any, modes: int, group: ArrayLike | None, rng: np.random.Generator
    ) -> Iterator[list[Seen]]:
        """Transforms to choose from and what they show; of many rows, some tell which one it is, for each is a copy."""
        few = slice(None, None, max(1, len(s) // _TRANSFORM_SAMPLE))
        for seen in transforms_for(s[few], q[few], self.net):
            if few.step == 1:
                yield seen
                continue
            chosen = 0
            if len(seen) > 1:
                some_labels, some_groups = (
                    None if x is None else np.asarray(x)[few] for x in (labels, group)
                )
                arrays = [shown for _, shown in seen]
                chosen, _ = choose_front(self, arrays, some_labels, modes, some_groups, rng)[0]
            looks = seen[chosen][0]
            yield [(looks, transformed(looks, s, q))]

    def _mode(self, evidence: FloatArray) -> IntArray:
        if evidence.shape[1] == 0:
            return np.full(len(evidence), -1)
        agree = evidence.sum(1) >= DISAGREE  # not where a row is too wild to be told anything of
        return np.asarray(np.where(agree, evidence.argmax(1), -1), dtype=np.int64)

    def _confidences(self, data: FrontRows) -> tuple[FloatArray, FloatArray]:
        from coad.modes.training import responsibilities

        if self.duo_ is None:
            return np.zeros((len(data), 0)), np.zeros((len(data), 0))
        a, b = (votes.mean(0).astype(np.float64) for votes in responsibilities(self.duo_, data))
        return (a, b) if self.deviations_ is None else self.deviations_.joined(data, a, b)

    def _prepared(self, s: Any, q: Any, context: Any) -> FrontRows:
        s, q, context, _, _ = unpacked(s, q, context, None, None)
        rows_s, rows_q = as_fitted(self, s, q)
        labels = as_context(context, len(rows_s))
        if self.contexts_ is None:
            labels = None
        check_kind_of_context(labels, self.contexts_)
        warn_of_unseen_contexts(labels, self.contexts_)
        return FrontRows(transformed(self.transforms_, rows_s, rows_q), self.fronts_, labels)

    def _check_fitted(self) -> None:
        if not hasattr(self, "modes_"):
            raise NotFittedError("this CoincidenceModes is not fitted yet; call fit(s, q) first")
