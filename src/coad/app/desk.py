"""The explorer that is in use: all pairs, or those that are left when kinds of events are dismissed."""

from __future__ import annotations

import threading

import numpy as np

from coad._typing import BoolArray
from coad.app.marks import KindNote
from coad.app.state import Explorer

__all__ = ["Desk"]

_ROUNDS = 3
_HEAD_START = 5.0  # seconds that the first picture has for itself, at most


class Desk:
    """Holds the explorer in use; a kind that is dismissed makes another one, without that kind's events.

    The thresholds are then tuned again on what is left, so that the next kind comes up. As in
    :func:`coad.learned.dismissal.dismiss`, but a click takes it back, no row is scored again, and the model stays as it is.
    """

    def __init__(self, explorer: Explorer) -> None:
        self.base = self.now = explorer
        self._gone: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Work out the slow parts while the first picture is looked at."""
        threading.Thread(target=self._prepare, name="coad-tests", daemon=True).start()

    def _prepare(self) -> None:
        self.base.looked.wait(_HEAD_START)  # two threads at once would only delay the first picture
        self.base.prepare()
        self.settle()

    def note(self, note: KindNote) -> None:
        """Keep what is said about a kind; on disk when this returns."""
        self.base.marks.note_kind(note)
        self.settle()

    def settle(self) -> None:
        """Leave out the events of the kinds that are dismissed."""
        with self._lock:
            gone = frozenset(one["kind"] for one in self.base.kinds() if one["dismissed"])
            if gone == self._gone:
                return
            self._gone = gone
            self.now = self._without(gone) if gone else self.base
            if self.now is not self.base:
                threading.Thread(target=self.now.prepare, name="coad-tests", daemon=True).start()

    def _without(self, gone: frozenset[str]) -> Explorer:
        """What is left; thresholds that are tuned again may let more of the same through, so look again."""
        base, left = self.base, self.base
        kept = np.arange(len(base.scored))
        for _ in range(_ROUNDS):
            found = _of_kinds(left, gone)
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


def _of_kinds(explorer: Explorer, gone: frozenset[str]) -> BoolArray:
    """The pairs in events of these kinds, at the best thresholds."""
    scored = explorer.scored
    events = scored.events(scored.flags(*explorer.study.start))
    found = np.zeros(len(scored), dtype=np.bool_)
    for number, kind in enumerate(explorer.insight.kinds_of(events.peak)):
        if kind in gone:
            found[events.first[number] : events.last[number] + 1] = True
    return found
