"""``Findings`` and ``find``: what is rare, odd and coincident, in an order worth a person's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.assessment import Evaluation, RowScores, assess
from coad.core.oddness import Oddness
from coad.core.rule import HALF, NEVER, Rule
from coad.core.runs import RowOrder
from coad.core.validation import seed_of
from coad.core.verdict import FOUND, NO_COINCIDENCE, Status
from coad.data.pairs import Pairs, order_of, unpacked
from coad.data.times import time_text
from coad.exceptions import InputError
from coad.findings import saving
from coad.findings.candidates import Candidate, FitRows, Lens, Rows, folds_of
from coad.findings.checks import check_rows
from coad.findings.features import InputFeatures
from coad.findings.finding import Finding
from coad.findings.learning import columns_of_s, values_of
from coad.findings.lenses import DEFAULT, made
from coad.findings.listing import FindingList, Memberships
from coad.findings.order import findings_of
from coad.findings.why import Why, channel_names, sets_apart
from coad.learned.training.inputs import (
    as_context,
    as_fitted,
    as_groups,
    as_pair,
    as_times,
    names_of,
    warn_of_unseen_contexts,
)

__all__ = ["Findings", "find"]

#: Fewer rows than this show nothing but chance.
FEWEST_ROWS = 50
#: Typical rows that are kept of each finding.
_EXEMPLARS = 6
#: Rows that are listed if nothing else can be.
ODDEST = 20


def find(
    s: Any,
    q: Any = None,
    *,
    context: Any = None,
    group: ArrayLike | None = None,
    time: ArrayLike | None = None,
    ordered: bool = True,
    max_rare: float = 0.1,
    lenses: Sequence[str] = DEFAULT,
    scorers: Sequence[str] = (),
    random_state: int | np.random.Generator | None = 0,
    verbose: bool = False,
) -> Findings:
    """Find what is rare, odd and coincident in two inputs, without labels.

    Parameters
    ----------
    s, q
        Both inputs, row by row: (n, columns), windows (n, channels, points) or images (n, channels, height, width);
        or a :class:`~coad.Pairs` as ``s``.
    context
        The operating regime of each row: what is usual is learned, and chance is counted, within it.
    group
        Run or batch of each row; rows that share it are held out together.
    time
        Time of each row.
    ordered
        Whether rows are in time order; if not, no input is moved in time.
    max_rare
        The largest share of the rows that a finding may have and be flagged by default.
    lenses
        What to look with: "clusters", "tails", "modes", "networks".
    scorers
        One-input scorers that the lens "tails" tries beside its own five: detectors of PyOD by name, as ``"pyod:ECOD"``.
    random_state
        Seed.
    verbose
        Show a progress bar.

    Returns
    -------
    Findings

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 600, 3)); s[:20] += 6; q[:20] -= 6
    >>> found = find(s, q, ordered=False, lenses=["clusters"])
    >>> found[1].n_rows, found[1].flagged, found.predict(s, q).sum() == 20
    (20, True, np.True_)
    """
    model = Findings(
        max_rare=max_rare,
        lenses=lenses,
        scorers=scorers,
        ordered=ordered,
        random_state=random_state,
        verbose=verbose,
    )
    return model.fit(s, q, context=context, group=group, time=time)


class Findings(FindingList, BaseEstimator):  # type: ignore[misc]
    """Findings of all lenses, judged by one engine, in one order, with what a person decided about them.

    Rows are pairs: row i of ``s`` and of ``q`` is the same moment. A row is flagged if it belongs to a flagged
    finding; what a person decided comes before what is flagged by default, and a smaller finding before a larger one.

    Parameters
    ----------
    max_rare, lenses, scorers, ordered, random_state, verbose
        As for :func:`find`.

    Attributes
    ----------
    findings_ : tuple of Finding
        By number.
    p_value_ : float
        How often other pairings agree as much on what is rare and odd.
    correlated_p_value_ : float
        How often inputs that are merely correlated show as much; 1 if the first one is not significant.
    """

    names_s_: tuple[str, ...] | None = None
    names_q_: tuple[str, ...] | None = None
    #: How the command line reads files for this model (the text of ``layout.json``), if it was made there.
    layout_: str | None = None
    #: Regimes are listed as findings, so no warning is given for them.
    expects_regimes = True

    def __init__(
        self,
        *,
        max_rare: float = 0.1,
        lenses: Sequence[str] = DEFAULT,
        scorers: Sequence[str] = (),
        ordered: bool = True,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.max_rare = max_rare
        self.lenses = lenses
        self.scorers = scorers
        self.ordered = ordered
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        s: Any,
        q: Any = None,
        *,
        context: Any = None,
        group: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Findings:
        """Look for findings; parameters as for :func:`find`."""
        if not 0 < self.max_rare <= 0.5:
            raise InputError(f"max_rare must lie above 0 and at most at 0.5, not {self.max_rare}")
        lenses = made(self.lenses, self.scorers)
        self.names_s_, self.names_q_ = names_of(s, q)
        self.layout_ = None
        channels = channel_names(s) if isinstance(s, Pairs) else (self.names_s_, self.names_q_)
        order = order_of(s, q, group, time)
        s, q, context, group, time = unpacked(s, q, context, group, time)
        rows_s, rows_q = as_pair(s, q, least=FEWEST_ROWS)
        check_rows(rows_s, rows_q, self.names_s_, self.names_q_)
        n = len(rows_s)
        labels, groups = as_context(context, n), as_groups(group, n)
        as_times(time, n)
        self.shape_s_, self.shape_q_ = rows_s.shape[1:], rows_q.shape[1:]
        self.contexts_ = None if labels is None else np.unique(labels).tolist()
        self.random_state_ = seed_of(self.random_state)
        rng = np.random.default_rng([self.random_state_, 0xF1D])
        self.features_ = tuple(InputFeatures.fit(x, labels) for x in (rows_s, rows_q))
        features = [make(x, labels) for make, x in zip(self.features_, (rows_s, rows_q), strict=True)]
        self.oddness_ = tuple(Oddness.fit(x, rare=self.max_rare, rng=rng) for x in features)
        odd = [measure(x) for measure, x in zip(self.oddness_, features, strict=True)]
        data = FitRows(
            rows_s,
            rows_q,
            labels,
            features[0],
            features[1],
            odd[0],
            odd[1],
            order=order,
            fold=folds_of(n, groups, order, self.ordered, rng),
            ordered=self.ordered,
            max_rare=self.max_rare,
            seed=self.random_state_,
            group=groups,
            time=None if time is None else np.asarray(time),
            verbose=self.verbose,
        )
        candidates: list[Candidate] = []
        for lens in lenses:
            candidates += lens.propose(data)
        found, self.p_value_, self.correlated_p_value_ = findings_of(candidates, data)
        used = {one.lens[0] for one in found}
        self.lenses_: dict[str, Lens] = {lens.name: lens for lens in lenses if lens.name in used}
        self.findings_ = tuple(self._described(one, data, channels) for one in found)
        self.n_rows_ = n
        self.values_, self.values_of_s_, self.learned_ = values_of(data), columns_of_s(data), None
        self._follow()
        #: The rows of the fit that are oddest in both inputs, for a list where nothing else can be told.
        self.oddest_: IntArray = np.argsort(-np.minimum(odd[0], odd[1]), kind="stable")[:ODDEST]
        self.oddest_percentiles_ = np.column_stack(odd)[self.oddest_]
        return self

    def _described(
        self, one: Finding, data: FitRows, channels: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
    ) -> Finding:
        """A finding with its typical rows, what sets it apart, and when it was seen."""
        member = np.zeros(len(data), dtype=bool)
        member[one.rows] = True
        both = np.concatenate([data.features_s[one.rows], data.features_q[one.rows]], axis=1)
        typical = np.argsort(np.square(both - np.median(both, axis=0)).sum(1), kind="stable")[:_EXEMPLARS]
        columns = [
            sets_apart(rows, member, features, data.context, names)
            for rows, features, names in zip((data.s, data.q), self.features_, channels, strict=True)
        ]
        seen: list[str | None] = [None, None]
        if data.time is not None:
            own = np.sort(data.time[one.rows])
            seen = [time_text(own[0]), time_text(own[-1])]
        return replace(
            one,
            exemplars=tuple(int(i) for i in one.rows[typical]),
            why=Why(columns[0], columns[1]),
            first_seen=seen[0],
            last_seen=seen[1],
        )

    # The detector.

    @property
    def rule_(self) -> Rule:
        """What is flagged: the findings that are, by number."""
        flagged = float(np.mean(self.flags_of_fit())) if self.n_rows_ else 0.0
        return Rule(
            1.0,
            float(np.clip(flagged, 1e-6, 0.5)),
            # Without any finding there is nothing to flag, and no rule that could.
            thresholds=HALF if len(self) else NEVER,
            background="all rows" if self.contexts_ is None else "context",
            findings={one.number: one.decision or ("flagged" if one.flagged else "listed") for one in self},
        )

    @property
    def status_(self) -> Status:
        """``"found"`` if a finding is flagged, else ``"no coincidence"``."""
        return FOUND if any(one.flagged for one in self) else NO_COINCIDENCE

    def predict(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """Which rows belong to a flagged finding, (n,)."""
        return self.score_rows(s, q, context).flag

    def score_samples(self, s: Any, q: Any = None, context: Any = None) -> FloatArray:
        """The anomaly score of each row, (n,): at least one half for flagged rows; higher if it is odder in both inputs."""
        return self.score_rows(s, q, context).score

    def predict_finding(self, s: Any, q: Any = None, context: Any = None) -> IntArray:
        """The finding of each row, (n,): the one that decides whether it is flagged; -1 for rows of none."""
        found = self.score_rows(s, q, context).mode
        assert found is not None
        return found

    def score_rows(self, s: Any, q: Any = None, context: Any = None) -> RowScores:
        """Confidences, score, decision and finding of each row, in one pass; see :meth:`scores_of`."""
        return self.scores_of(self.memberships(s, q, context))

    def memberships(self, s: Any, q: Any = None, context: Any = None) -> Memberships:
        """Which findings each row belongs to; decisions do not change it."""
        self._check_fitted()
        rows = self._rows(s, q, context)
        member, says_s, says_q = (np.zeros((len(rows), len(self)), dtype=bool) for _ in range(3))
        for name, lens in self.lenses_.items():
            votes = lens.votes(rows)
            for one in self:
                if one.lens[0] == name:
                    k = one.number - 1
                    member[:, k] = votes.member[:, one.candidate]
                    says_s[:, k] = votes.score_s[:, one.candidate] >= 0
                    says_q[:, k] = votes.score_q[:, one.candidate] >= 0
        return Memberships(member, says_s, says_q, np.minimum(rows.odd_s, rows.odd_q), values_of(rows))

    def _rows(self, s: Any, q: Any, context: Any) -> Rows:
        s, q, context, _, _ = unpacked(s, q, context)
        rows_s, rows_q = as_fitted(self, s, q)
        labels = as_context(context, len(rows_s))
        if labels is None and self.contexts_ is not None:
            raise InputError("this model was fitted with a context; pass context= for the new rows as well")
        if labels is not None and self.contexts_ is None:
            raise InputError("this model was fitted without a context; do not pass one")
        warn_of_unseen_contexts(labels, self.contexts_)
        features = [make(x, labels) for make, x in zip(self.features_, (rows_s, rows_q), strict=True)]
        odd = [measure(x) for measure, x in zip(self.oddness_, features, strict=True)]
        return Rows(rows_s, rows_q, labels, features[0], features[1], odd[0], odd[1])

    def evaluate(
        self, s: Any, q: Any = None, context: Any = None, *, group: Any = None, time: Any = None
    ) -> Evaluation:
        """F̂, P̂ and R̂ (β = 1) of all flagged findings together, without labels.

        Events end where ``group`` changes and at gaps in ``time``.
        """
        scores, order = self.score_rows(s, q, context), order_of(s, q, group, time)
        return self.evaluate_scores(scores, unpacked(s, q, context)[2], order)

    def score(self, s: Any, q: Any = None, *, context: Any = None) -> float:
        """``evaluate(s, q, context).fbeta_hat``, for model selection without labels."""
        return float(self.evaluate(s, q, context).fbeta_hat)

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
            expects_regimes=True,
            ordered=self.ordered,
            memberships=(scores.p_s >= 0.5, scores.p_q >= 0.5),
        )

    def save(self, folder: str | Path) -> None:
        """Write the findings, the decisions and all that is needed for new rows to a folder; :func:`coad.load` reads it."""
        self._check_fitted()
        saving.save_findings(self, Path(folder))

    def to_facts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The content of the JSON and of the safetensors file."""
        return saving.findings_facts(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Findings:
        """The inverse of :meth:`to_facts`."""
        return saving.restore_findings(cls(), facts, tensors)
