"""The rows on strips that the search must know one by one: whole ones, and single scores of rows that are never joint.

On a strip of s lies every row with s in one of its cells. Most of them have a q so low that no box of the strip reaches
it. Whether s flags them or not, they are not joint, and all that the search asks is how many of them lie above a
threshold. Of such a *single* row one score is kept, and it is no threshold: lowering the threshold of s to it, from the
next higher score of a whole row, flags more rows by s alone and none jointly, so that D rises or stays, and F̂ falls or
stays. What is told of s holds for q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.thresholds.count_table import Nodes, Rows, Strips, place
from coad.thresholds.row_parts import Code

__all__ = ["Singles", "StripRows", "Wanted", "rows_held"]

_WHOLE, _OF_S, _OF_Q = 1, 2, 3
#: A single row takes about this part of the memory of a whole one, until the search is done.
_PART_OF_WHOLE = 3


class Singles(NamedTuple):
    """One score of rows that are never joint, the cell of the other score, and the stratum."""

    score: FloatArray
    cell: NDArray[Any]
    code: Code


@dataclass(frozen=True)
class Wanted:
    """Which rows are wanted for some boxes of a table.

    ``strips`` are the cells of s and of q whose rows are; ``reach`` says for each cell of s in which cell of q its last
    box lies (-1: it has none), and the other way round.
    """

    edges_s: FloatArray
    edges_q: FloatArray
    strips: Strips
    reach: tuple[IntArray, IntArray]

    @classmethod
    def for_boxes(cls, nodes: Nodes, boxes: BoolArray) -> Wanted:
        return cls(nodes.s.edges, nodes.q.edges, nodes.strips(boxes), (_last(boxes), _last(boxes.T)))

    def of(self, s: FloatArray, q: FloatArray, code: Code) -> StripRows:
        """Those among some rows."""
        kind, cell = _sorted_out(s, q, self.edges_s, self.edges_q, *self.strips, *self.reach)
        whole, of_s, of_q = (kind == one for one in (_WHOLE, _OF_S, _OF_Q))
        return StripRows(
            [(s[whole], q[whole], code[whole])],
            [Singles(s[of_s], cell[of_s], code[of_s])],
            [Singles(q[of_q], cell[of_q], code[of_q])],
        )


@dataclass(frozen=True)
class StripRows:
    """Wanted rows in pieces; those of different rows add up."""

    whole: list[Rows]
    of_s: list[Singles]
    of_q: list[Singles]

    def __add__(self, other: StripRows) -> StripRows:
        return StripRows(self.whole + other.whole, self.of_s + other.of_s, self.of_q + other.of_q)

    @classmethod
    def none(cls) -> StripRows:
        empty, code = np.empty(0), np.empty(0, np.int32)
        single = Singles(empty, np.empty(0, np.int16), code)
        return cls([(empty, empty, code)], [single], [single])

    def joined(self, stratum: Code) -> tuple[Rows, Singles, Singles]:
        """All of them, with other numbers for the strata; the pieces are emptied."""
        s, q, code = (np.concatenate(values) for values in zip(*self.whole, strict=True))
        self.whole.clear()
        both = []
        for pieces in (self.of_s, self.of_q):
            score, cell, codes = (np.concatenate(values) for values in zip(*pieces, strict=True))
            pieces.clear()
            both.append(Singles(score, cell, stratum[codes]))
        return (s, q, stratum[code]), both[0], both[1]


def rows_held(nodes: Nodes, boxes: BoolArray) -> int:
    """How many whole rows take the memory that a search of these boxes needs."""
    wanted = Wanted.for_boxes(nodes, boxes)
    whole, single = _how_many(nodes.table.counts, *wanted.strips, *wanted.reach)
    return int(whole + single // _PART_OF_WHOLE)


def _last(boxes: BoolArray) -> IntArray:
    """The last box of each line; -1 where there is none.

    >>> _last(np.array([[True, True, False], [False, False, False]])).tolist()
    [1, -1]
    """
    found = boxes.shape[1] - 1 - np.argmax(boxes[:, ::-1], axis=1)
    return np.where(boxes.any(1), found, -1).astype(np.int64)


@numba.njit(cache=True, inline="always")
def _kind(p, t, strips_s, strips_q, reach_s, reach_q):  # type: ignore[no-untyped-def]
    on_s, on_q = strips_s[p], strips_q[t]
    if (on_s and (on_q or t <= reach_s[p])) or (on_q and p <= reach_q[t]):
        return 1
    return 2 if on_s else (3 if on_q else 0)


@numba.njit(cache=True, nogil=True)
def _sorted_out(s, q, edges_s, edges_q, strips_s, strips_q, reach_s, reach_q):  # type: ignore[no-untyped-def]
    """What each row is, and the cell of the other score of those that are single."""
    kind, cell = np.empty(len(s), np.int8), np.empty(len(s), np.int16)
    for row in range(len(s)):
        p, t = place(edges_s, s[row]), place(edges_q, q[row])
        kind[row] = _kind(p, t, strips_s, strips_q, reach_s, reach_q)
        cell[row] = t if kind[row] == 2 else p
    return kind, cell


@numba.njit(cache=True, nogil=True)
def _how_many(counts, strips_s, strips_q, reach_s, reach_q):  # type: ignore[no-untyped-def]
    """Whole rows, and single ones."""
    whole = single = 0
    for p in range(counts.shape[0]):
        for t in range(counts.shape[1]):
            kind = _kind(p, t, strips_s, strips_q, reach_s, reach_q)
            if kind == 0:
                continue
            rows = 0
            for c in range(counts.shape[2]):
                rows += counts[p, t, c]
            if kind == 1:
                whole += rows
            else:
                single += rows
    return whole, single
