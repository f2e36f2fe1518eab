"""Decisions about findings in the explorer: a draft that every number follows, and that is saved in the model folder."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.app.explorer import Explorer
from coad.app.session import HEAD_START, Session, stamp_of
from coad.app.view import View
from coad.exceptions import CoadWarning, InputError
from coad.findings.estimator import Findings
from coad.findings.finding import beyond_chance, top
from coad.findings.listing import Memberships
from coad.report.drawings import NormalRows
from coad.report.finding_cards import examples_of, finding_card
from coad.workflows.model_folder import load
from coad.workflows.scored import Scored

if TYPE_CHECKING:
    from coad.findings.finding import Decision

__all__ = ["FindingsSession", "open_session"]

#: Pairs whose memberships are computed at once (memory).
_BATCH = 20_000

Decisions = dict[int, "Decision | None"]


def open_session(explorer: Explorer) -> Session:
    """The session of an explorer: one that takes decisions if its model is a list of findings."""
    return FindingsSession(explorer) if isinstance(explorer.model, Findings) else Session(explorer)


class FindingsSession(Session):
    """Findings with the decisions of a person, saved or not.

    Decisions are a draft until they are saved. Each makes another explorer, whose numbers are those of the draft's rule.

    Parameters
    ----------
    explorer : Explorer
        Of all pairs, those of ignored findings too (``read_scored(…, everything=True)``).
    """

    def __init__(self, explorer: Explorer) -> None:
        super().__init__(explorer)
        #: What the folder holds is ``_kept``; what a person decided since is in ``_draft``.
        self._draft: Findings = copy.copy(explorer.model)
        self._kept = decisions_of(self._draft)
        self._all: Scored = explorer.scored
        self._rows: Memberships | None = None
        self._rows_lock = threading.Lock()  # its own: the list is shown while they are computed
        self._examples: dict[int, str] = {}
        self._normal = NormalRows(explorer.scored, explorer.scored.flag)
        self.current = self._explorer()

    def _prepare(self) -> None:
        self.current.prepare()
        self.current.first_view.wait(HEAD_START)
        self._memberships()  # so that the first decision need not wait for it

    def findings(self) -> dict[str, Any]:
        """The findings in the order of the table, with their cards, and what is not saved."""
        with self._lock:
            draft, unsaved = self._draft, self._unsaved()
            return {
                "headline": f"{draft.headline[0].upper()}{draft.headline[1:]}",
                "findings": len(draft),
                "flagged": sum(one.flagged for one in draft),
                "decided": sum(one.decision is not None for one in draft),
                "unsaved": sorted(unsaved),
                "cards": [
                    {
                        "number": one.number,
                        "rows": f"{one.n_rows:,}",
                        "odd_s": top(one.odd_s),
                        "odd_q": top(one.odd_q),
                        "beyond": beyond_chance(one),
                        "verdict": one.verdict,
                        "flagged": one.flagged,
                        "decision": one.decision,
                        "html": finding_card(self._all, one, self._drawn(one.number)),
                    }
                    for one in draft.table
                ],
            }

    def decide(self, number: int, decision: str | None) -> None:
        """Say what a finding is, or take it back with None; all numbers follow."""
        with self._lock:
            self._draft.decide(number, decision)  # type: ignore[arg-type]  # which refuses other words
            self._follow()

    def save_decisions(self) -> str:
        """Write the decisions to the model folder; returns what was saved, in words.

        If the folder was changed meanwhile, its decisions are taken over and the unsaved ones put on top.
        """
        with self._lock:
            folder = self.base.folder
            if folder is None:
                raise InputError("this explorer has no model folder, so no decision can be saved")
            mine, merged = self._unsaved(), ""
            if stamp_of(folder) != self._stamp:
                merged = self._merge(mine, folder)
            if mine:
                self._draft.save(folder)
            self._kept, self._stamp = decisions_of(self._draft), stamp_of(folder)
            self._follow()
            said = f"saved in {folder.name}: {in_words(mine)}" if mine else "there is nothing to save"
            return f"{said}{merged}; {self._draft.headline}"

    def save_rule(self, view: View) -> str:
        """Refused: what is flagged follows from the decisions."""
        raise InputError("findings have no thresholds to save; decide about them, and save the decisions")

    def _merge(self, mine: Decisions, folder: Path) -> str:
        """Take over the decisions of the folder, below the unsaved ones of this explorer; returns what they were."""
        other = load(folder)
        if not isinstance(other, Findings) or not _same(other, self._draft):
            raise InputError(
                f"{folder.name} holds other findings since the explorer began; start it again, so that nothing is lost"
            )
        theirs = decisions_of(other)
        changed = {k: what for k, what in theirs.items() if what != self._kept[k]}
        self._kept = theirs
        for number, what in (theirs | mine).items():
            self._draft.decide(number, what)
        taken = {k: what for k, what in changed.items() if k not in mine}
        replaced = {k: what for k, what in changed.items() if k in mine and what != mine[k]}
        text = f"; merged from elsewhere: {in_words(taken)}" if taken else ""
        return text + (f"; replaced what was decided elsewhere: {in_words(replaced)}" if replaced else "")

    def _unsaved(self) -> Decisions:
        return {k: what for k, what in decisions_of(self._draft).items() if what != self._kept[k]}

    def _follow(self) -> None:
        """Another explorer, of the draft as it is now."""
        scores = self._draft.scores_of(self._memberships())
        self._all = replace(
            self.base.scored,
            **{name: getattr(scores, name) for name in ("p_s", "p_q", "score", "flag", "mode")},
        )
        self.current = self._explorer()
        self.current.prepare()

    def _explorer(self) -> Explorer:
        """An explorer of the draft, without the pairs of ignored findings."""
        base, scored = self.base, self._all
        out = [one.number for one in self._draft if one.decision == "ignore"]
        if out and scored.mode is not None:
            left = ~np.isin(scored.mode, out)
            scored = replace(scored.part(np.flatnonzero(left)), n_dismissed=int((~left).sum()))
        made = Explorer(
            copy.copy(self._draft),
            base.recipe,
            scored,
            base.marks,
            source=base.source,
            names=base.names,
            folder=base.folder,
        )
        made.kept_rule = _with(self._draft, self._kept).rule_
        return made

    def _memberships(self) -> Memberships:
        """Which findings the pairs belong to: once, since decisions do not change it."""
        with self._rows_lock:
            if self._rows is None:
                self._rows = _memberships(self._draft, self.base.scored)
            return self._rows

    def _drawn(self, number: int) -> str:
        """The drawings of a finding's typical rows, made once: a list that reorders should not redraw."""
        if number not in self._examples:
            self._examples[number] = examples_of(self._all, self._normal, self._draft[number])
        return self._examples[number]


def _memberships(model: Findings, scored: Scored) -> Memberships:
    """Which findings the pairs belong to, batch by batch."""
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)  # said when the pairs were scored
        for start in range(0, len(scored), _BATCH):
            some = np.arange(start, min(start + _BATCH, len(scored)))
            parts.append(model.memberships(scored.s.rows(some), scored.q.rows(some), scored.labels(some)))
    return Memberships(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def decisions_of(model: Findings) -> Decisions:
    """What is decided about each finding."""
    return {one.number: one.decision for one in model}


def in_words(decisions: Mapping[int, str | None]) -> str:
    """Decisions as text.

    >>> in_words({3: "event", 4: None})
    'finding 3 event, finding 4 undecided'
    """
    return ", ".join(f"finding {k} {what or 'undecided'}" for k, what in sorted(decisions.items()))


def _with(model: Findings, decisions: Decisions) -> Findings:
    other = copy.copy(model)
    for number, what in decisions.items():
        other.decide(number, what)
    return other


def _same(one: Findings, other: Findings) -> bool:
    """Whether two lists have the same findings, whatever was decided."""
    return len(one) == len(other) and all(
        np.array_equal(a.rows, b.rows) for a, b in zip(one, other, strict=True)
    )
