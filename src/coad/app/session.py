"""The current explorer: of all pairs, or of those that are left after kinds of events are dismissed."""

from __future__ import annotations

import hashlib
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.app.explorer import Explorer
from coad.app.marks import KindNote
from coad.app.view import View
from coad.exceptions import InputError
from coad.learned.dismissal import dismiss, is_dismissed

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Session", "stamp_of"]

#: Seconds that the first picture has for itself, at most, before the tests start.
HEAD_START = 5.0
_NO_FINDINGS = "this model has no findings to decide about; coad find makes such a model"


class Session:
    """Holds the current explorer, which is replaced when a kind is dismissed or a rule is saved.

    A dismissed kind is a draft of a rule, as :meth:`coad.CoAD.dismiss` makes it: thresholds tuned again on what is left.
    It can be undone until the rule is saved.

    Parameters
    ----------
    explorer : Explorer
        The explorer of all pairs.
    """

    def __init__(self, explorer: Explorer) -> None:
        self.base = self.current = explorer
        self._dismissed: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._stamp = stamp_of(explorer.folder)

    def begin(self) -> None:
        """Start to compute the slow parts in the background."""
        threading.Thread(target=self._prepare, name="coad-tests", daemon=True).start()

    def _prepare(self) -> None:
        self.base.first_view.wait(HEAD_START)  # two threads at once would only delay the first picture
        self.base.prepare()
        self.update()

    def note(self, note: KindNote) -> None:
        """Save the name of a kind and whether it is dismissed; on disk when this returns."""
        with self._lock:
            self.base.marks.note_kind(note)
            self._update()

    def update(self) -> None:
        """Replace the current explorer if other kinds are dismissed than before."""
        with self._lock:
            self._update()

    def _update(self) -> None:
        dismissed = frozenset(one["kind"] for one in self.base.kinds() if one["dismissed"])
        if dismissed == self._dismissed:
            return
        self._dismissed = dismissed
        self._use(self._without(dismissed) if dismissed else self.base)

    def save_rule(self, view: View) -> str:
        """Write the rule of a view, and the dismissed kinds, to the model folder; returns what changed, in words."""
        with self._lock:
            base, current = self.base, self.current
            if base.folder is None:
                raise InputError("this explorer has no model folder, so no rule can be saved")
            if not view.saved and not all(
                0 <= t <= 1 or t == math.inf for t in (view.threshold_s, view.threshold_q)
            ):
                raise InputError("thresholds lie in [0, 1], or are infinite: nothing is flagged")
            if stamp_of(base.folder) != self._stamp:
                raise InputError(
                    f"{base.folder.name} was changed since the explorer began; start it again, so that no change is lost"
                )
            old, new = base.model.rule_, current.rule_of(view.check())
            changed = old.changes(new)
            if not changed:
                return "this is the rule of the model already"
            base.model.rule_ = new
            try:
                base.model.save(base.folder)
            except Exception:
                base.model.rule_ = old
                raise
            before, after = base.study.evaluation, current.study.under(new).evaluation
            self._stamp = stamp_of(base.folder)
            for one in base.kinds():  # they are part of the rule now
                if one["kind"] in self._dismissed:
                    base.marks.note_kind(KindNote(one["kind"], one["name"], False))
            self.base = _explorer(base, base.model, base, anew=True)
            self._dismissed = frozenset()
            self._use(self.base)
            return (
                f"saved in {base.folder.name}: {changed}; "
                f"{before.flagged:,} → {after.flagged:,} flagged, {before.n_events:,} → {after.n_events:,} events here"
            )

    def findings(self) -> dict[str, Any]:
        """The findings of the model, if it is a list of them."""
        raise InputError(_NO_FINDINGS)

    def decide(self, number: int, decision: str | None) -> None:
        """Say what a finding is."""
        raise InputError(_NO_FINDINGS)

    def save_decisions(self) -> str:
        """Write the decisions about findings to the model folder."""
        raise InputError(_NO_FINDINGS)

    def _use(self, explorer: Explorer) -> None:
        self.current = explorer
        threading.Thread(target=explorer.prepare, name="coad-tests", daemon=True).start()

    def _without(self, dismissed: frozenset[str]) -> Explorer:
        """An explorer without the events of these kinds: the draft of a rule."""
        base = self.base
        model = base.model.at(next(iter(base.model.fitted_)))
        model.kinds_ = base.insight.found
        scored, labels = base.scored, base.scored.labels()
        for number in base.insight.numbers_of(dismissed):
            dismiss(model, number, scored.s, scored.q, labels, (scored.p_s, scored.p_q))
        return _explorer(base, model, base)


def stamp_of(folder: Path | None) -> bytes:
    """The content of a model folder in short, to see whether another process changed it."""
    try:
        return b"" if folder is None else hashlib.sha256((folder / "model.json").read_bytes()).digest()
    except OSError:
        return b""


def _explorer(base: Explorer, model: CoAD, of: Explorer, *, anew: bool = False) -> Explorer:
    """An explorer of the pairs of another under the rule of a model, without those of dismissed kinds.

    Kinds are those of the other, or looked for ``anew``.
    """
    scored = of.scored
    left = ~is_dismissed(model, scored.s, scored.q, scored.labels(), (scored.p_s, scored.p_q))
    kept = np.flatnonzero(left)
    part = scored.part(kept)
    part = replace(
        part,
        flag=model.rule_.flags(part.p_s, part.p_q),
        n_dismissed=scored.n_dismissed + len(scored) - len(kept),
    )
    return Explorer(
        model,
        base.recipe,
        part,
        base.marks,
        source=base.source,
        names=base.names,
        folder=base.folder,
        parent=None if anew else (of, kept),
    )
