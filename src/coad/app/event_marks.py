"""A person's marks on the events of some scored pairs, and the precision that they confirm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coad.app.marks import VERDICTS, Mark, Marks
from coad.core.labels import wilson
from coad.events.runs import Events
from coad.workflows.scored import Scored

__all__ = ["EventMarks", "confirmed"]


class EventMarks:
    """Finds the marks of a file among scored pairs, by file name, rows and time.

    Parameters
    ----------
    scored : Scored
        The pairs.
    marks : Marks
        The marks on disk; those of other data are left alone.
    """

    def __init__(self, scored: Scored, marks: Marks) -> None:
        self.scored, self.marks = scored, marks
        self.files = _file_names(scored.files)
        self._number = {name: i for i, name in enumerate(self.files)}
        self._key = scored.file.astype(np.int64) << 40 | scored.first
        self._order = np.argsort(self._key, kind="stable")

    def put(self, pair: int, verdict: str | None) -> None:
        """Save the mark of a pair, or remove it if ``verdict`` is None; on disk when this returns."""
        scored = self.scored
        where = self.files[int(scored.file[pair])], int(scored.first[pair]), int(scored.last[pair])
        if verdict is None:
            self.marks.remove(*where)
        else:
            self.marks.put(Mark(*where, scored.time_text(pair) or "", verdict))

    def remove_event(self, pair: int, events: Events) -> None:
        """Remove every mark within the event around a pair."""
        number = int(events.of_pair([pair])[0])
        for other, _ in self._pairs():
            if other == pair or (number >= 0 and int(events.of_pair([other])[0]) == number):
                self.put(other, None)

    def of_events(self, events: Events) -> dict[int, str]:
        """The latest mark of each event that has one, by the number of the event."""
        pairs = self._pairs()
        if not pairs:
            return {}
        number = events.of_pair([pair for pair, _ in pairs])
        return {int(i): verdict for i, (_, verdict) in zip(number, pairs, strict=True) if i >= 0}

    def of_pair(self, pair: int) -> str | None:
        """The mark of a pair, if it has one."""
        return dict(self._pairs()).get(pair)

    def _pairs(self) -> list[tuple[int, str]]:
        """The marked pairs of these data, oldest mark first."""
        found = []
        for mark in self.marks.all():
            number = self._number.get(mark.file)
            if number is None:
                continue
            key = number << 40 | mark.first_row
            place = int(np.searchsorted(self._key, key, sorter=self._order))
            if place == len(self._order):
                continue
            pair = int(self._order[place])
            same = self._key[pair] == key and self.scored.last[pair] == mark.last_row
            if same and mark.time == (self.scored.time_text(pair) or ""):
                found.append((pair, mark.verdict))
        return found


def confirmed(marked: dict[int, str]) -> dict[str, Any]:
    """The precision among marked events with its interval; a known event counts as real."""
    counts = {name: sum(one == name for one in marked.values()) for name in VERDICTS}
    n = len(marked)
    hits = n - counts["not real"]
    low, high = wilson(hits, n)
    return {"n": n, "counts": counts, "precision": hits / n if n else None, "low": low, "high": high}


def _file_names(files: tuple[str, ...]) -> list[str]:
    """The name of each file in marks: without its folder, unless names repeat.

    Bytes in a name that are no text are written as ``\\udcXX``, since marks hold text only.
    """
    names = [Path(one).name for one in files]
    names = names if len(set(names)) == len(names) else list(files)
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]
