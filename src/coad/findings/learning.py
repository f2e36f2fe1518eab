"""What a person's decisions say about rows that nobody has decided about: a linear rule, learned from the decided findings.

A finding that a person calls an event is mostly the event, and not all of the event: some of it lies in other findings, and
some rows of a decided finding are something else. So single rows are told apart, by a logistic regression on the
features of both inputs and how odd the row is in each. It learns from rows of the decided findings; findings that are
not odd in both inputs stand for normal rows. Events and normal rows count alike, however many there are of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.oddness import ODD
from coad.findings.candidates import Rows

__all__ = ["Leaning", "LearnedRule", "columns_of_s", "learn", "values_of"]

#: Components of each input that are learned from, those with the most variance first. They are kept for all rows of the
#: fit, so that a decision can be applied to them later; F1 after looks is no better with 20 or 50.
_COMPONENTS = 10
#: Rows that are learned from of each finding: more of a crowd of similar rows say nothing new.
_EXAMPLES = 100
#: The inverse of the penalty on the squared weights (scikit-learn's C): few findings are decided, so the rule is kept
#: simple. From 0.03 to 0.3 F1 after looks hardly changes.
_C = 0.1


class _Decidable(Protocol):
    """What is read of a finding."""

    @property
    def number(self) -> int: ...

    @property
    def rows(self) -> IntArray: ...

    @property
    def odd_s(self) -> float: ...

    @property
    def odd_q(self) -> float: ...

    @property
    def decision(self) -> str | None: ...


class Leaning(NamedTuple):
    """How much rows lean towards the events, each (n,): log odds by s alone, by q alone and by both; above 0 is an event."""

    s: FloatArray
    q: FloatArray
    both: FloatArray


@dataclass(frozen=True, eq=False)
class LearnedRule:
    """Weights of the values of s, of q and of both (each a row, the last entry being the offset).

    The weights of the other input are 0 in the first two rows.
    """

    weights: FloatArray

    def __call__(self, values: NDArray[np.floating]) -> Leaning:
        """How rows with these values (:func:`values_of`) lean."""
        return Leaning(*(values @ weight[:-1] + weight[-1] for weight in self.weights))


def values_of(rows: Rows) -> NDArray[np.float32]:
    """What is learned from, (n, columns): components of s and oddness in s, then the same of q."""
    parts = [
        column
        for features, odd in ((rows.features_s, rows.odd_s), (rows.features_q, rows.odd_q))
        for column in (features[:, :_COMPONENTS], odd[:, None])
    ]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def columns_of_s(rows: Rows) -> int:
    """How many of the columns of :func:`values_of` are those of s."""
    return min(_COMPONENTS, int(rows.features_s.shape[1])) + 1


def learn(
    findings: Sequence[_Decidable], values: NDArray[np.floating], columns_s: int, *, seed: int
) -> LearnedRule | None:
    """The rule that the decisions say; None without an event, or without normal rows beside it.

    Parameters
    ----------
    findings
        With their decisions.
    values
        Of the rows of the fit (:func:`values_of`).
    columns_s
        How many of the columns are those of s.
    seed
        Draws the rows that are learned from, where a finding has many.

    Returns
    -------
    LearnedRule or None
    """
    rows, event = _examples(findings, _answers(findings), len(values), seed)
    if event.all() or not event.any():
        return None
    centre, width = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
    width = np.where(width > 0, width, 1.0)
    scaled = (values[rows] - centre) / width
    weights = np.zeros((3, values.shape[1] + 1))
    for weight, used in zip(weights, (slice(0, columns_s), slice(columns_s, -1), slice(0, -1)), strict=True):
        columns = np.arange(values.shape[1] + 1)[used]
        model = LogisticRegression(C=_C, class_weight="balanced", max_iter=1000)
        model.fit(scaled[:, columns], event)
        weight[columns] = model.coef_[0] / width[columns]
        weight[-1] = model.intercept_[0] - weight[columns] @ centre[columns]
    return LearnedRule(weights)


def _examples(
    findings: Sequence[_Decidable], answers: Mapping[int, bool], n: int, seed: int
) -> tuple[IntArray, BoolArray]:
    """Rows that are learned from, and whether they are events; the smaller finding answers for a row of two."""
    answering = np.full(n, -1, dtype=np.int64)
    for one in sorted(findings, key=lambda one: (-len(one.rows), -one.number)):
        if one.number in answers:
            answering[one.rows] = one.number
    drawn = [
        np.random.default_rng([seed, number]).permutation(np.flatnonzero(answering == number))[:_EXAMPLES]
        for number in answers
    ]
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
    return rows, np.array([answers[number] for number in answering[rows]], dtype=bool)


def _answers(findings: Sequence[_Decidable]) -> Mapping[int, bool]:
    """For each finding that is learned from, whether it is an event."""
    answers = {}
    for one in findings:
        if one.decision in ("event", "normal"):
            answers[one.number] = one.decision == "event"
        elif one.decision is None and min(one.odd_s, one.odd_q) < ODD:
            answers[one.number] = False
    return answers
