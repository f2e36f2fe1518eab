"""The current explorer: of all pairs, or of those that are left after kinds of events are dismissed."""

from __future__ import annotations

import threading

import numpy as np

from coad._typing import BoolArray
from coad.app.explorer import Explorer
from coad.app.marks import KindNote

__all__ = ["Session"]

#: New thresholds may flag more of a dismissed kind, so dismissal is repeated, at most so often.
_ROUNDS = 3
#: Seconds that the first picture has for itself, at most, before the tests start.
_HEAD_START = 5.0


class Session:
    """Holds the current explorer, which is replaced by one without the events of a kind when that is dismissed.

    The thresholds are then tuned again on what is left, so that the next kind shows. As in
    :func:`coad.learned.dismissal.dismiss`, but it can be undone, no row is scored again, and the model is not changed.

    Parameters
    ----------
    explorer : Explorer
        The explorer of all pairs.
    """

    def __init__(self, explorer: Explorer) -> None:
        self.base = self.current = explorer
        self._dismissed: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start to compute the slow parts in the background."""
        threading.Thread(target=self._prepare, name="coad-tests", daemon=True).start()

    def _prepare(self) -> None:
        self.base.first_view.wait(_HEAD_START)  # two threads at once would only delay the first picture
        self.base.prepare()
        self.update()

    def note(self, note: KindNote) -> None:
        """Save the name of a kind and whether it is dismissed; on disk when this returns."""
        self.base.marks.note_kind(note)
        self.update()

    def update(self) -> None:
        """Replace the current explorer if other kinds are dismissed than before."""
        with self._lock:
            dismissed = frozenset(one["kind"] for one in self.base.kinds() if one["dismissed"])
            if dismissed == self._dismissed:
                return
            self._dismissed = dismissed
            self.current = self._without(dismissed) if dismissed else self.base
            if self.current is not self.base:
                threading.Thread(target=self.current.prepare, name="coad-tests", daemon=True).start()

    def _without(self, dismissed: frozenset[str]) -> Explorer:
        """An explorer without the events of these kinds."""
        base, left = self.base, self.base
        kept = np.arange(len(base.scored))
        for _ in range(_ROUNDS):
            found = _of_kinds(left, dismissed)
            if not found.any() or found.all():
                break
            kept = kept[~found]
            left = Explorer(
                base.model,
                base.recipe,
                base.scored.part(kept),
                base.marks,
                names=base.names,
                parent=(base, kept),
            )
        return left


def _of_kinds(explorer: Explorer, dismissed: frozenset[str]) -> BoolArray:
    """The pairs in events of these kinds, at the best thresholds."""
    scored = explorer.scored
    events = scored.events(scored.flags(*explorer.study.start))
    found = np.zeros(len(scored), dtype=np.bool_)
    for number, kind in enumerate(explorer.insight.kinds_of(events.peak)):
        if kind in dismissed:
            found[events.first[number] : events.last[number] + 1] = True
    return found
