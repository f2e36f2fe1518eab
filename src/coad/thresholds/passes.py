"""Passes over the parts of a table: what each learns of a part, and adding it up."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.thresholds.count_table import CountTable
from coad.thresholds.moved_rows import AtPair, Pair, at_pair, moved_cells
from coad.thresholds.row_parts import BLOCK_ROWS, Code, Part, ReadRules, blocks
from coad.thresholds.strip_rows import StripRows, Wanted

__all__ = ["Counted", "Each", "OnStrips", "Passes", "at_pair_part", "count_part", "strips_part"]

T = TypeVar("T")
#: What applies a function to each part, in this process or in others, and gives the results in order.
Each = Callable[[Callable[[Part], Any], Sequence[Part]], Iterable[Any]]


class Passes:
    """The parts of a table, and how often they were read."""

    def __init__(self, parts: Sequence[Part], rules: ReadRules, each: Each = map) -> None:
        self.parts, self.rules, self.each, self.count = list(parts), rules, each, 0

    def sum(self, work: Callable[..., T], *rest: Any) -> T:
        """``work(part, rules, *rest)`` of all parts, added up."""
        self.count += 1
        total: T = reduce(operator.add, self.each(partial(_applied, work, self.rules, rest), self.parts))
        return total


def _applied(work: Callable[..., T], rules: ReadRules, rest: tuple[Any, ...], part: Part) -> T:
    return work(part, rules, *rest)


@dataclass(frozen=True)
class Counted:
    both: tuple[CountTable, IntArray]

    def __add__(self, other: Counted) -> Counted:
        return Counted((self.both[0] + other.both[0], self.both[1] + other.both[1]))


def count_part(
    part: Part,
    rules: ReadRules,
    edges_s: FloatArray,
    edges_q: FloatArray,
    merged: Code,
    strata: int,
    n: int,
    nodes: Sequence[IntArray] = (),
    moves: int = 0,
    seed: int = 0,
) -> Counted:
    """The second pass over a part."""
    table = CountTable.empty(edges_s, edges_q, strata, n)
    shape = [len(one) + 1 for one in nodes]
    moved = np.zeros((moves, *(shape or [0, 0])), dtype=np.int64)
    coarse = [
        np.searchsorted(one, np.arange(len(edges)), side="right").astype(np.uint8)
        for one, edges in zip(nodes, (edges_s, edges_q), strict=False)
    ]
    for number, s, q, code in blocks(part, rules):
        cell_s, cell_q = table.add(s, q, merged[code])
        if moves:
            rng = np.random.default_rng([seed, number])
            moved_cells(coarse[0][cell_s], coarse[1][cell_q], code, len(merged), moved, rng)
    return Counted((table, moved))


@dataclass(frozen=True)
class OnStrips:
    """Rows on strips, and, if it was asked for, the flags of all rows."""

    rows: StripRows
    shown: AtPair | None

    def __add__(self, other: OnStrips) -> OnStrips:
        shown = None if self.shown is None or other.shown is None else self.shown + other.shown
        return OnStrips(self.rows + other.rows, shown)


def strips_part(
    part: Part, rules: ReadRules, wanted: Wanted, strata: int, pairs: tuple[Pair, Pair] | None
) -> OnStrips:
    """The third pass over a part."""
    kept = StripRows.none()
    shown = nothing_shown(strata)
    for number, s, q, code in blocks(part, rules):
        kept += wanted.of(s, q, code)
        if pairs is not None:
            shown += at_pair(number * BLOCK_ROWS, s, q, code, strata, *pairs)
    return OnStrips(kept, None if pairs is None else shown)


def at_pair_part(part: Part, rules: ReadRules, strata: int, pair: Pair, other: Pair) -> AtPair:
    found = (
        at_pair(number * BLOCK_ROWS, s, q, code, strata, pair, other)
        for number, s, q, code in blocks(part, rules)
    )
    return reduce(operator.add, found, nothing_shown(strata))


def nothing_shown(strata: int) -> AtPair:
    none = np.empty(0)
    return at_pair(0, none, none, np.empty(0, np.int32), strata, (0.0, 0.0), (0.0, 0.0))
