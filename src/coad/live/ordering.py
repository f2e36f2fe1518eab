"""Samples of one stream in the order of time: late ones are waited for, and the same sample twice is one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray
from coad.live.values import Chunk

__all__ = ["NEVER", "Ordering", "Rows"]

#: Before every time there is.
NEVER = -(2**62)
#: So many times of rows that were handed out are remembered, to tell a sample that comes twice from a late one.
_REMEMBERED = 1000


@dataclass(frozen=True)
class Rows:
    """Rows in order of time; ``restarted`` if the clock was set back before the first of them."""

    time: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    restarted: bool = False

    def __len__(self) -> int:
        return len(self.time)

    def take(self, index: Any) -> Rows:
        """Some of the rows."""
        columns = {name: one[index] for name, one in self.columns.items()}
        return Rows(self.time[index], columns, self.restarted)

    def then(self, more: Rows) -> Rows:
        """These rows and others after them."""
        if not len(self) or not len(more):
            return more if len(more) else self
        columns = {name: np.concatenate([one, more.columns[name]]) for name, one in self.columns.items()}
        return Rows(np.concatenate([self.time, more.time]), columns, self.restarted)

    @classmethod
    def none(cls, names: tuple[str, ...]) -> Rows:
        """No rows."""
        return cls(np.empty(0, np.int64), {name: np.empty(0) for name in names})


@dataclass
class Ordering:
    """The samples of one stream that wait until none can come before them.

    Parameters
    ----------
    names
        The columns that every sample has.
    lateness
        How long a sample may come after a later one, in nanoseconds.
    jump
        A step of the clock by more than this, ahead or back, is believed when a second sample (ahead) or a second
        chunk (back) confirms it.

    >>> stream = Ordering(("a",), lateness=10, jump=1000)
    >>> stream.add(np.array([0, 20, 15, 20]), {"a": np.array([1.0, 3.0, 2.0, 3.0])})
    >>> stream.release().columns["a"].tolist(), stream.counts["duplicate"]
    ([1.0], 1)
    """

    names: tuple[str, ...]
    lateness: int
    jump: int
    waiting: Rows = field(init=False)
    aside: Rows = field(init=False)  # a single sample beyond a jump ahead
    recent: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    released: int = NEVER  # time of the last row handed out
    newest: int = NEVER
    set_back: bool = False  # whether the last chunk was wholly before a jump back
    restarted: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, str] = field(
        default_factory=dict
    )  # whether each column is text, and the shape of a value
    late: tuple[int, int, int] | None = None  # first and last time, and number, since they were asked for

    def __post_init__(self) -> None:
        self.waiting = self.aside = Rows.none(self.names)

    @property
    def watermark(self) -> int:
        """No sample before this time is waited for."""
        return NEVER if self.newest == NEVER else self.newest - self.lateness

    def unfit(self, chunk: Chunk) -> str | None:
        """What is wrong with a chunk: a column that is missing, or of another kind or length than before."""
        if np.asarray(chunk.time).dtype.kind not in "iu" or np.ndim(chunk.time) != 1:
            return "times that are not nanoseconds"
        for name in self.names:
            if name not in chunk.columns:
                return f"column {name!r} missing"
            values = np.asarray(chunk.columns[name])
            text, shape = values.dtype.kind == "U", values.shape[1:]
            if values.dtype.kind not in "fiubU" or values.shape[:1] != (len(chunk),):
                return f"column {name!r} has values of another kind or length"
            if self.kinds.setdefault(name, f"{text} {shape}") != f"{text} {shape}":
                return f"column {name!r} has values of another kind or shape"
        return None

    def add(self, time: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        """Take samples in, in any order."""
        rows = Rows(np.asarray(time, dtype=np.int64), {name: columns[name] for name in self.names})
        self.counts["samples"] += len(rows)
        rows = self._without_jump_ahead(rows)
        old = rows.time <= self.released
        if old.any():
            rows = self._without_late(rows, old)
        else:
            self.set_back = False
        if not len(rows):
            return
        self.newest = max(self.newest, int(rows.time.max()))
        rows = self.waiting.then(rows)
        if (np.diff(rows.time) <= 0).any():
            order = np.argsort(rows.time, kind="stable")
            again = np.diff(rows.time[order], prepend=NEVER) == 0
            self.counts["duplicate"] += int(again.sum())
            rows = rows.take(order[~again])
        self.waiting = rows

    def release(self, until: int = NEVER) -> Rows:
        """The rows that nothing is waited for any more before; ``until`` is a watermark from elsewhere."""
        mark = max(self.watermark, until)
        n = int(np.searchsorted(self.waiting.time, mark, side="right"))
        if n == 0:
            return Rows.none(self.names)
        ready = replace(self.waiting.take(slice(0, n)), restarted=self.restarted)
        self.waiting = self.waiting.take(slice(n, None))
        self.released, self.restarted = int(ready.time[-1]), False
        self.recent = np.concatenate([self.recent, ready.time[-_REMEMBERED:]])[-_REMEMBERED:]
        return ready

    def finish(self) -> Rows:
        """All rows that wait, at the end of a recording."""
        self.waiting, self.aside = self.waiting.then(self.aside), Rows.none(self.names)
        return self.release(-NEVER)

    def take_late(self) -> tuple[int, int, int] | None:
        """First and last time and number of the samples that came too late since the last call."""
        found, self.late = self.late, None
        return found

    def _without_jump_ahead(self, rows: Rows) -> Rows:
        """The rows without a single sample far ahead of all others, until another one confirms it."""
        aside, self.aside = self.aside, Rows.none(self.names)
        if len(aside) and len(rows):
            if (np.abs(rows.time - aside.time[0]) <= self.jump).any():
                return aside.then(rows)
            self.counts["clock jump"] += 1
        if self.newest == NEVER:
            return rows
        ahead = rows.time > self.newest + self.jump
        if ahead.sum() == 1:
            self.aside, rows = rows.take(ahead), rows.take(~ahead)
        return rows

    def _without_late(self, rows: Rows, old: BoolArray) -> Rows:
        """The rows that are in time; all of them if the clock was set back and a second chunk confirms it."""
        far = bool(old.all()) and int(rows.time.max()) < self.released - self.jump
        if far and self.set_back:
            self.set_back, self.restarted = False, True
            self.counts["clock set back"] += 1
            self.released = self.newest = NEVER
            self.recent = self.recent[:0]
            return rows
        self.set_back = far
        time = rows.time[old]
        again = np.isin(time, self.recent)
        self.counts["duplicate"] += int(again.sum())
        time = time[~again]
        if len(time):
            self.counts["late"] += len(time)
            first, last, n = self.late or (-NEVER, NEVER, 0)
            self.late = min(first, int(time.min())), max(last, int(time.max())), n + len(time)
        return rows.take(~old)
