"""How far a few looks of a person bring a list of findings: F1 by labels after 0, 5 and 10 looks. Labels judge only.

A look is one finding: the one that stands first in the list among those that nobody has decided about; the list may reorder
with each decision. The labels stand in for the person: if most rows of the finding are the event, it is decided "event",
otherwise "normal".
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from coad._typing import ArrayLike, BoolArray, IntArray
from coad.core.labels import check_labels, f1
from coad.exceptions import InputError

__all__ = ["LOOKS", "FindingLike", "FindingsLike", "LabelEfficiency", "label_efficiency"]

#: After how many looks F1 is taken: a few minutes of a person's time, and twice that.
LOOKS = (5, 10)
#: A finding is the event if more than this share of its rows is: "most of it".
_MOST = 0.5


class FindingLike(Protocol):
    """One finding: its rows in the fit, and whether they are flagged by default."""

    @property
    def rows(self) -> IntArray:
        """Row numbers of the fit."""

    @property
    def flagged(self) -> bool:
        """Whether the finding is flagged."""


class FindingsLike(Protocol):
    """Findings, best first, numbered from 1, on which a person can decide: what ``coad.find`` returns."""

    def __len__(self) -> int:
        """Number of findings."""

    def __getitem__(self, number: int, /) -> FindingLike:
        """The finding of this number."""

    def next_to_decide(self) -> int | None:
        """The number of the first finding in the list that nobody has decided about; None if there is none."""

    def decide(self, number: int, decision: str, /) -> Any:
        """Take a person's word for a finding: ``"event"``, ``"normal"`` or ``"ignore"``."""

    def flags_of_fit(self) -> BoolArray:
        """Which rows of the fit are flagged."""

    def predict(self, s: Any, q: Any = None, /) -> BoolArray:
        """Which of these rows are flagged."""


@dataclass(frozen=True)
class LabelEfficiency:
    """F1 by labels before any look and after some, and where the event stands in the list.

    Attributes
    ----------
    n_findings
        Number of findings.
    looks_to_event
        The number of the first finding that is mostly the event; None if there is none.
    f1_fit
        F1 on the rows of the fit by the number of looks; 0 looks are the defaults.
    f1_test
        The same on the test rows; empty without them.
    """

    n_findings: int
    looks_to_event: int | None
    f1_fit: dict[int, float]
    f1_test: dict[int, float]

    def in_words(self) -> str:
        """One line for people; F1 on the test rows where there are some, otherwise on the rows of the fit.

        >>> LabelEfficiency(7, 2, {0: 0.25, 5: 0.5, 10: 0.5}, {}).in_words()
        'F1 by labels: 0.250 by default, 0.500 after 5 looks, 0.500 after 10 looks; the event is finding 2 of 7'
        """
        values = self.f1_test or self.f1_fit
        parts = [
            f"{value:.3f} after {many} look{'s'[: many != 1]}" if many else f"{value:.3f} by default"
            for many, value in values.items()
        ]
        where = (
            f"none of the {self.n_findings} findings is mostly the event"
            if self.looks_to_event is None
            else f"the event is finding {self.looks_to_event} of {self.n_findings}"
        )
        return f"F1 by labels: {', '.join(parts)}; {where}"


def label_efficiency(
    found: FindingsLike,
    label: ArrayLike,
    s_test: Any = None,
    q_test: Any = None,
    label_test: ArrayLike | None = None,
    *,
    looks: Sequence[int] = LOOKS,
) -> LabelEfficiency:
    """F1 by labels of what is flagged by default, and after a person has looked at the first findings.

    Parameters
    ----------
    found
        The findings; decisions are made on a copy.
    label
        For each row of the fit, whether it is the event. These labels answer for the person.
    s_test, q_test, label_test
        Other rows and their labels, to judge the decisions there; ``s_test`` may be a :class:`~coad.Pairs`.
    looks
        After how many looks F1 is taken.

    Returns
    -------
    LabelEfficiency
        F1 by the number of looks, on the rows of the fit and on the test rows.

    >>> from types import SimpleNamespace
    >>> class Found(list):  # two findings: rows 0 and 1 are flagged by default, rows 2 and 3 are not
    ...     def __getitem__(self, number):
    ...         return list.__getitem__(self, number - 1)
    ...     def decide(self, number, decision):
    ...         self[number].flagged, self[number].decision = decision == "event", decision
    ...     def next_to_decide(self):
    ...         return next((k for k in (1, 2) if not hasattr(self[k], "decision")), None)
    ...     def flags_of_fit(self):
    ...         return np.isin(np.arange(5), np.concatenate([[], *(x.rows for x in self if x.flagged)]))
    >>> found = Found([SimpleNamespace(rows=np.array([0, 1]), flagged=True),
    ...                SimpleNamespace(rows=np.array([2, 3]), flagged=False)])
    >>> label_efficiency(found, [0, 0, 1, 1, 0], looks=[1, 2])
    LabelEfficiency(n_findings=2, looks_to_event=2, f1_fit={0: 0.0, 1: 0.0, 2: 1.0}, f1_test={})
    >>> [finding.flagged for finding in found]
    [True, False]
    """
    truth = check_labels(label, len(np.atleast_1d(np.asarray(label))))
    truth_test = _test_labels(s_test, label_test)
    budgets = _budgets(looks)
    n = len(found)
    rows = {number: _rows_of(found[number], number, len(truth)) for number in range(1, n + 1)}
    is_event = {number: bool(len(own)) and bool(truth[own].mean() > _MOST) for number, own in rows.items()}

    decided = copy.deepcopy(found)
    on_fit, on_test, looked = {}, {}, 0
    for budget in (0, *budgets):
        while looked < budget and (number := decided.next_to_decide()) is not None:
            decided.decide(number, "event" if is_event[number] else "normal")
            looked += 1
        on_fit[budget] = f1(truth, _checked(decided.flags_of_fit(), len(truth)))
        if truth_test is not None:
            on_test[budget] = f1(truth_test, _checked(decided.predict(s_test, q_test), len(truth_test)))
    return LabelEfficiency(n, next((k for k in rows if is_event[k]), None), on_fit, on_test)


def _test_labels(s_test: Any, label_test: ArrayLike | None) -> BoolArray | None:
    if (s_test is None) != (label_test is None):
        missing = "label_test" if label_test is None else "s_test"
        raise InputError(f"test rows need both inputs and their labels: {missing} is missing")
    return None if label_test is None else check_labels(label_test, len(s_test))


def _budgets(looks: Sequence[int]) -> list[int]:
    if not all(isinstance(many, (int, np.integer)) and many >= 1 for many in looks):
        raise InputError(f"looks must be whole numbers from 1, not {list(looks)}")
    return sorted({int(many) for many in looks})


def _rows_of(finding: FindingLike, number: int, n: int) -> IntArray:
    rows = np.asarray(finding.rows, dtype=np.int64)
    if len(rows) and not 0 <= rows.min() <= rows.max() < n:
        raise InputError(
            f"label has {n:,} entries, but finding {number} holds row {int(rows.max()):,} of the fit; "
            "pass the labels of all rows of the fit, in their order"
        )
    return rows


def _checked(flags: BoolArray, n: int) -> BoolArray:
    flags = np.asarray(flags, dtype=np.bool_)
    if flags.shape != (n,):
        raise InputError(
            f"{flags.shape} rows were flagged or not, and there are {n:,} labels; they must match"
        )
    return flags
