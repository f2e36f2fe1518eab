"""The list of findings, and what a person decides about them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.assessment import RowScores
from coad.core.validation import LEVEL
from coad.exceptions import InputError, NotFittedError
from coad.findings.finding import Decision, Finding, FindingTable
from coad.findings.learning import Leaning, LearnedRule, learn

__all__ = ["FindingList", "Memberships"]


class Memberships(NamedTuple):
    """Which findings rows belong to, whatever a person decides about them; a column for each finding, by number.

    ``says_s`` and ``says_q`` are what each input says by itself; ``odd_both`` is the smaller percentile of oddness;
    ``values`` is what decisions are learned from.
    """

    member: BoolArray
    says_s: BoolArray
    says_q: BoolArray
    odd_both: FloatArray
    values: NDArray[np.float32]


class FindingList:
    """Findings by number, with decisions: what :class:`~coad.Findings` is besides a detector."""

    findings_: tuple[Finding, ...]
    n_rows_: int
    p_value_: float
    correlated_p_value_: float
    random_state_: int
    #: What decisions are learned from, for the rows of the fit, and how many of the columns are those of s; None in models
    #: saved before decisions were learned.
    values_: NDArray[np.float32] | None
    values_of_s_: int
    #: What the decisions say about single rows; None as long as no event is named.
    learned_: LearnedRule | None

    @property
    def table(self) -> FindingTable:
        """The findings: those that nobody decided about first, the decided ones last.

        The order is that of the fit; once an event is named, findings of which more rows resemble it come first.
        """
        self._check_fitted()
        return FindingTable(sorted(self.findings_, key=lambda one: (one.decision is not None, -one.worth)))

    def next_to_decide(self) -> int | None:
        """The number of the first finding in the list that nobody has decided about; None if there is none."""
        first = self.table[0] if len(self) else None
        return None if first is None or first.decision is not None else int(first.number)

    def __len__(self) -> int:
        self._check_fitted()
        return len(self.findings_)

    def __getitem__(self, number: int) -> Finding:
        """The finding of this number, from 1."""
        self._check_fitted()
        if (
            isinstance(number, bool)
            or not isinstance(number, (int, np.integer))
            or not 1 <= number <= len(self)
        ):
            have = f"they are numbered from 1 to {len(self)}" if len(self) else "there are none"
            raise InputError(f"there is no finding {number!r}: {have}")
        return self.findings_[int(number) - 1]

    def __iter__(self) -> Iterator[Finding]:
        self._check_fitted()
        return iter(self.findings_)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        if not hasattr(self, "findings_"):
            return str(super().__repr__())
        return f"{self.headline}\n{self.table}"

    @property
    def headline(self) -> str:
        """What was found, in a sentence."""
        self._check_fitted()
        flagged = [one for one in self if one.flagged]
        if flagged:
            rows = int(self.flags_of_fit().sum())
            return (
                f"{_count(len(flagged), 'finding')} of {len(self)} flagged, {rows:,} of {self.n_rows_:,} rows"
            )
        if any(one.decision is not None for one in self):
            return f"nothing is flagged; {_count(len(self), 'finding')} in all"
        if self.p_value_ > LEVEL:
            return (
                "nothing is flagged: what is odd in both inputs is not more than chance explains "
                f"(p = {self.p_value_:.2g})"
            )
        if any(one.reason == "correlated" for one in self):
            return (
                "nothing is flagged: inputs as correlated as these have as many rows that are odd in both, without any "
                f"event (p = {self.correlated_p_value_:.2g}); look at the first findings, and decide"
            )
        return "nothing is flagged: no finding is rare and odd in both inputs; look at the first ones, and decide"

    def decide(self, number: int, decision: Decision | None) -> Self:
        """Say what a finding is.

        Parameters
        ----------
        number
            Its number.
        decision
            ``"event"``: its rows are flagged. ``"normal"``: they are not, unless a row resembles an event.
            ``"ignore"``: they are not, and figures leave them out. None takes a decision back. Rows that nobody decided
            about are flagged if they resemble the events more than the normal rows (:mod:`coad.findings.learning`).

        Returns
        -------
        Findings
            Itself.
        """
        changed = self[number].decided(decision)
        self.findings_ = tuple(changed if one.number == changed.number else one for one in self.findings_)
        if self.values_ is not None:
            self.learned_ = learn(self.findings_, self.values_, self.values_of_s_, seed=self.random_state_)
        self._follow()
        return self

    def copy(self) -> Self:
        """A copy with decisions of its own."""
        return copy.copy(self)

    def scores_of(self, rows: Memberships) -> RowScores:
        """Confidences, score, decision and finding of rows whose memberships are known: quick, after a decision.

        ``p_s`` and ``p_q`` are 1 where the input by itself puts the row into a finding that is flagged as a whole, or says
        that it resembles the events; 0 elsewhere.
        """
        leaning = None if self.learned_ is None else self.learned_(rows.values)
        flag, finding, ignored = self._decided(rows.member, leaning)
        kept = np.array([self._wholly(one) for one in self], dtype=bool)
        says = [x[:, kept].any(axis=1) for x in (rows.says_s, rows.says_q)]
        if leaning is not None:
            says = [x | (own > 0) for x, own in zip(says, (leaning.s, leaning.q), strict=True)]
        p_s, p_q = (np.asarray(x, dtype=np.float64) for x in says)
        some = any(one.decision == "ignore" for one in self)
        return RowScores(p_s, p_q, (flag + rows.odd_both) / 2, flag, finding, ignored if some else None)

    def flags_of_fit(self) -> BoolArray:
        """Which rows of the fit are flagged."""
        member = np.zeros((self.n_rows_, len(self)), dtype=bool)
        for one in self:
            member[one.rows, one.number - 1] = True
        return self._decided(member, self._leaning_of_fit())[0]

    def _leaning_of_fit(self) -> Leaning | None:
        if self.learned_ is None or self.values_ is None:
            return None
        return self.learned_(self.values_)

    def _wholly(self, one: Finding) -> bool:
        """Whether all rows of a finding are flagged: by a decision, or by default while nothing says otherwise.

        That an event is named only adds rows: another kind of event need not be like it. The default is in doubt once a
        person calls a finding normal that it flags.
        """
        if one.decision is not None:
            return one.decision == "event"
        doubted = any(other.flagged_by_default and other.decision == "normal" for other in self)
        return one.flagged_by_default and not (doubted and self.learned_ is not None)

    def _decided(
        self, member: BoolArray, leaning: Leaning | None = None
    ) -> tuple[BoolArray, IntArray, BoolArray]:
        """Flag, deciding finding and whether it is ignored, of rows that belong to findings as ``member`` says.

        What a person decided comes first, then findings flagged by default, then others; of each, a smaller finding comes
        before a larger one. The first one that a row belongs to decides; a row that it does not flag is flagged if it
        leans towards the events, unless it is ignored.
        """
        flag = np.zeros(len(member), dtype=bool)
        ignored = np.zeros(len(member), dtype=bool)
        finding = np.full(len(member), -1, dtype=np.int64)
        first = sorted(
            self.findings_,
            key=lambda one: (
                one.decision is None,
                one.decision is None and not self._wholly(one),
                one.n_rows,
                one.number,
            ),
        )
        for one in reversed(first):
            own = member[:, one.number - 1]
            flag[own], ignored[own], finding[own] = self._wholly(one), one.decision == "ignore", one.number
        if leaning is not None:
            flag |= (leaning.both > 0) & ~ignored
        return flag, finding, ignored

    def _follow(self) -> None:
        """Work out, for each finding, what the decisions say about its rows."""
        leaning, flags = self._leaning_of_fit(), self.flags_of_fit()

        def told(one: Finding) -> Finding:
            rows = one.rows
            like = None if leaning is None else float(expit(leaning.both[rows]).mean())
            return replace(one, like_events=like, n_flagged=int(flags[rows].sum()))

        self.findings_ = tuple(told(one) for one in self.findings_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "findings_"):
            raise NotFittedError("these Findings are not fitted yet; call fit(s, q), or coad.find(s, q)")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s'[: n != 1]}"
