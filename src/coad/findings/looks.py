"""Findings as they show in other rows than those of the fit, for judging by labels after a few looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coad._typing import BoolArray, IntArray
from coad.findings.estimator import Findings
from coad.findings.finding import places
from coad.findings.listing import Memberships

__all__ = ["FindingsInRows"]


@dataclass(frozen=True)
class _Shown:
    """A finding as it shows in some rows."""

    rows: IntArray
    flagged: bool


class FindingsInRows:
    """The findings of a model in some rows; decisions are those of a copy.

    It is what :func:`coad.core.label_efficiency.label_efficiency` asks for, with these rows in place of those of the fit.
    """

    def __init__(self, found: Findings, rows: Memberships) -> None:
        self._found, self._rows = found.copy(), rows

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, number: int) -> _Shown:
        return _Shown(places(self._rows.member[:, number - 1]), self._found[number].flagged)

    def next_to_decide(self) -> int | None:
        """The first finding in the list that nobody has decided about."""
        return self._found.next_to_decide()

    def decide(self, number: int, decision: Any) -> None:
        """Take a person's word for a finding."""
        self._found.decide(number, decision)

    def flags_of_fit(self) -> BoolArray:
        """Which of the rows are flagged."""
        return self._found.scores_of(self._rows).flag

    def predict(self, s: Any, q: Any = None) -> BoolArray:
        """Which of other rows are flagged."""
        return self._found.predict(s, q)
