"""Rows of a station and the rows of the witness at their times, as soon as no later row can change the match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coad.data.alignment import Alignment, matches
from coad.live.ordering import NEVER, Rows

__all__ = ["Joined", "Witness", "join"]

#: So many rows are kept however old they are, so that a recording may be read in large pieces.
_MOST = 20_000


@dataclass(frozen=True)
class Joined:
    """What became of rows of a station: those with a match, those without, and those that wait for the witness."""

    rows: Rows
    unmatched: Rows
    waiting: Rows


@dataclass
class Witness:
    """The last rows of the witness.

    Parameters
    ----------
    how
        ``"nearest"``, ``"hold"`` or ``"interpolate"``; see :func:`coad.data.align`.
    limit
        The largest time difference of a pair, in nanoseconds.
    keep
        How long rows are kept, in nanoseconds: longer than stations may be behind.
    least
        So many rows are kept however old they are.
    """

    how: str
    limit: int
    keep: int
    rows: Rows
    known_until: int = NEVER  # no row before this is still to come
    least: int = _MOST

    def add(self, rows: Rows, until: int) -> None:
        """Take rows in, and forget those that are too old for any station."""
        if rows.restarted:
            self.rows, self.known_until = Rows.none(tuple(rows.columns)), NEVER
        self.rows = self.rows.then(rows)
        self.known_until = max(self.known_until, until)
        oldest = int(np.searchsorted(self.rows.time, self.known_until - self.keep - self.limit))
        oldest = min(oldest, len(self.rows) - self.least)
        # Trimmed rarely, since each time all that is kept is copied.
        if oldest > max(1, len(self.rows) // 2):
            self.rows = self.rows.take(slice(oldest - 1, None))


def join(rows: Rows, witness: Witness, nearest_only: frozenset[str], give_up: int = NEVER) -> Joined:
    """Match rows of a station with the witness.

    Parameters
    ----------
    rows
        Rows of the station, in order of time.
    witness
        The witness's rows so far.
    nearest_only
        Columns of the witness that cannot be interpolated: contexts.
    give_up
        Rows before this time no longer wait for the witness.

    Returns
    -------
    Joined
        The witness's columns are called ``q:name``.

    >>> q = Rows(np.array([0, 10]), {"x": np.array([5.0, 6.0])})
    >>> done = join(Rows(np.array([1, 9, 30]), {}), Witness("nearest", 4, 100, q, 10), frozenset())
    >>> done.rows.time, done.rows.columns["q:x"], done.waiting.time
    (array([1, 9]), array([5., 6.]), array([30]))
    """
    clock = witness.rows.time
    until = max(witness.known_until, give_up)
    newest = int(clock[-1]) if len(clock) else NEVER
    settled = rows.time <= until - (0 if witness.how == "hold" else witness.limit)
    if witness.how != "hold":
        settled |= rows.time < newest
    n = int(settled.sum())  # settled rows come first: time only grows
    final, waiting = rows.take(slice(0, n)), rows.take(slice(n, None))
    if not n or not len(clock):
        return Joined(final.take(slice(0, 0)), final, waiting)
    near, first, second, weight = matches(
        final.time.view("M8[ns]"), clock.view("M8[ns]"), witness.how, np.timedelta64(witness.limit, "ns")
    )
    matched = final.take(near)
    pairing = Alignment(
        witness.how, "", np.flatnonzero(near), first[near], second[near], weight[near], n, len(clock)
    )
    beside = {
        f"q:{name}": pairing.take_nearest_q(one) if name in nearest_only else pairing.take_q(one)
        for name, one in witness.rows.columns.items()
    }
    return Joined(Rows(matched.time, matched.columns | beside, matched.restarted), final.take(~near), waiting)
