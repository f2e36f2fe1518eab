"""Rows in parts that are read anew for every pass, and the first pass: how many there are, and a sample of them.

What a pass learns of each part adds up, so parts may lie in different processes. The sample is the rows whose numbers
have the smallest hashes: the same rows however a table is cut into parts and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.validation import _is_gap, as_score, check_same_length
from coad.exceptions import InputError

__all__ = [
    "MAX_STRATA",
    "Batch",
    "Code",
    "Part",
    "ReadRules",
    "Sample",
    "Sketch",
    "blocks",
    "sampled_rows",
    "sketch",
]

#: A batch: the two scores, and the columns of the context (or None).
Batch = tuple[Any, Any, Sequence[NDArray[Any]] | None]
Code = NDArray[np.int32]
Labels = tuple[str, ...]

MAX_STRATA = 10_000
#: Rows that are moved in time among themselves; parts of a table begin at multiples of this, so that the blocks are
#: the same for any number of parts.
BLOCK_ROWS = 1 << 20


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a table: the number of the first, and what reads them."""

    batches: Callable[[], Iterable[Batch]]
    start: int = 0


@dataclass(frozen=True)
class ReadRules:
    """How rows are checked while they are read, and the number of each context."""

    missing: Literal["error", "drop"] = "error"
    names: tuple[str, str] = ("score_s", "score_q")
    remedy: str = "pass missing='drop' to leave those rows out"
    strata: dict[Labels, int] = field(default_factory=dict)


class Sample(NamedTuple):
    """Some whole rows: their numbers, both scores and strata."""

    row: IntArray
    s: FloatArray
    q: FloatArray
    code: IntArray

    def take(self, rows: Any) -> Sample:
        """Some of these."""
        return Sample(*(values[rows] for values in self))


@dataclass(frozen=True)
class Sketch:
    """What the first pass knows of some rows; sketches of different rows add up."""

    n: int
    sizes: dict[Labels, int]  # rows of each context, numbered in this order
    sample: Sample
    most: int  # rows that the sample keeps

    def __add__(self, other: Sketch) -> Sketch:
        names = dict.fromkeys([*self.sizes, *other.sizes])
        number = {label: place for place, label in enumerate(names)}
        sizes = {label: self.sizes.get(label, 0) + other.sizes.get(label, 0) for label in names}
        _check_few(sizes)
        code = np.array([number[label] for label in other.sizes], dtype=np.int64)
        moved = other.sample._replace(code=code[other.sample.code])
        both = _fewest([self.sample, moved], self.most)
        return replace(self, n=self.n + other.n, sizes=sizes, sample=both)

    def sorted(self) -> Sketch:
        """With contexts numbered in the order of their names, and the sample in the order of the rows."""
        names = sorted(self.sizes)
        number = {label: place for place, label in enumerate(names)}
        code = np.array([number[label] for label in self.sizes], dtype=np.int64)
        sample = self.sample._replace(code=code[self.sample.code]).take(np.argsort(self.sample.row))
        return replace(self, sizes={label: self.sizes[label] for label in names}, sample=sample)


def sketch(part: Part, rules: ReadRules, most: int) -> Sketch:
    """The first pass over a part, keeping ``most`` rows as a sample."""
    number: dict[Labels, int] = {}
    counts = np.zeros(0, dtype=np.int64)
    none = Sample(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.int64))
    pieces, held, bound = [none], 0, np.uint64(2**64 - 1)
    for row, s, q, context in _usable(part, rules):
        labels, code = ([()], np.zeros(len(row), dtype=np.int64)) if context is None else _labels(context)
        code = np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)[code]
        _check_few(number)
        more = np.bincount(code, minlength=len(number))
        counts = more + np.pad(counts, (0, len(number) - len(counts)))
        few = np.flatnonzero(_hashes(row) <= bound)
        pieces.append(Sample(row, s, q, code).take(few))
        held += len(few)
        if held > 2 * most:  # not with every batch, which would take long
            pieces = [_fewest(pieces, most)]
            held, bound = most, _hashes(pieces[0].row).max()
    sizes = dict(zip(number, counts.tolist(), strict=True))
    return Sketch(int(counts.sum()), sizes, _fewest(pieces, most), most)


def sampled_rows(rows: IntArray, most: int) -> IntArray:
    """Which of some rows, given by their numbers, a sample of ``most`` keeps; ascending.

    >>> few = sampled_rows(np.arange(1000), 3)
    >>> len(few), np.isin(few, sampled_rows(np.arange(2000), 6)).all()
    (3, np.True_)
    """
    if len(rows) <= most:
        return np.arange(len(rows))
    return np.sort(np.argpartition(_hashes(rows), most - 1)[:most])


def blocks(part: Part, rules: ReadRules) -> Iterator[tuple[int, FloatArray, FloatArray, Code]]:
    """The usable rows of a part in blocks of consecutive row numbers: number of the block, s, q and stratum."""
    waiting: list[tuple[IntArray, FloatArray, FloatArray, Code]] = []
    here = -1

    def joined() -> tuple[int, FloatArray, FloatArray, Code]:
        s, q, code = (np.concatenate([one[i] for one in waiting]) for i in (1, 2, 3))
        return here, s, q, code

    for row, s, q, context in _usable(part, rules):
        code: Code = np.zeros(len(row), dtype=np.int32)
        if context is not None and len(rules.strata) > 1:
            labels, inner = _labels(context)
            if not rules.strata.keys() >= set(labels):
                raise changed()
            code = np.array([rules.strata[label] for label in labels])[inner].astype(np.int32)
        block = row // BLOCK_ROWS
        cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(row)]
        for start, stop in pairwise(cuts):
            if start == stop:
                continue
            if waiting and block[start] != here:
                yield joined()
                waiting.clear()
            here = int(block[start])
            waiting.append((row[start:stop], s[start:stop], q[start:stop], code[start:stop]))
    if waiting:
        yield joined()


def changed() -> InputError:
    """The error for rows that are not those of an earlier pass."""
    return InputError("the rows changed while they were read; they must be the same in every pass")


def _usable(
    part: Part, rules: ReadRules
) -> Iterator[tuple[IntArray, FloatArray, FloatArray, list[NDArray[Any]] | None]]:
    """Row numbers, scores and context of the rows with both scores."""
    at = part.start
    for score_s, score_q, context in part.batches():
        s, q = as_score(score_s, rules.names[0]), as_score(score_q, rules.names[1])
        check_same_length(s, q, rules.names)
        row = np.arange(at, at + len(s))
        finite_s, finite_q = np.isfinite(s), np.isfinite(q)
        keep: BoolArray = finite_s & finite_q
        whole = bool(keep.all())
        if rules.missing == "error" and not whole:
            side = 0 if not finite_s.all() else 1
            first = int(np.argmin((finite_s, finite_q)[side]))
            raise InputError(
                f"{rules.names[side]} has missing or infinite values "
                f"(first at row {at + first:,}: {(s, q)[side][first]}); {rules.remedy}"
            )
        columns = None
        if context is not None:
            columns = [np.asarray(column)[keep] for column in context]
            for column in columns:
                gaps = _gaps(column)
                if gaps.any():
                    raise InputError(
                        f"context has missing entries (first at row {int(row[keep][np.argmax(gaps)]):,})"
                    )
        at += len(s)
        yield (row, s, q, columns) if whole else (row[keep], s[keep], q[keep], columns)


def _fewest(pieces: Sequence[Sample], most: int) -> Sample:
    """The rows with the smallest hashes."""
    joined = Sample(*(np.concatenate(values) for values in zip(*pieces, strict=True)))
    return joined.take(sampled_rows(joined.row, most))


def _check_few(contexts: Collection[Labels]) -> None:
    if len(contexts) > MAX_STRATA:
        raise InputError(
            f"the context has more than {MAX_STRATA:,} regimes, too many for a search that reads "
            "the rows in passes; take a coarser context, or search in memory (--max-rows)"
        )


@numba.njit(cache=True, nogil=True)
def _hashes(rows):  # type: ignore[no-untyped-def]
    """A number for each row number that looks random: splitmix64."""
    out = np.empty(len(rows), np.uint64)
    for i in range(len(rows)):
        x = (np.uint64(rows[i]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = x ^ (x >> np.uint64(31))
    return out


def _labels(context: Sequence[NDArray[Any]]) -> tuple[list[Labels], IntArray]:
    """The distinct labels of a batch, and the number of each row's label among them."""
    code = np.zeros(len(context[0]), dtype=np.int64)
    labels: list[Labels] = [()]
    for column in context:
        values, inner = np.unique(column, return_inverse=True)
        present, code = np.unique(code * len(values) + inner, return_inverse=True)
        texts = [_text(value) for value in values.tolist()]
        labels = [(*labels[p // len(values)], texts[p % len(values)]) for p in present.tolist()]
    return labels, code


def _text(value: Any) -> str:
    """Whole numbers read the same, whether a file holds them as integers or not."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _gaps(column: NDArray[Any]) -> BoolArray:
    """Where a column has no entry."""
    if column.dtype.kind == "O":
        return np.array([_is_gap(item) for item in column.tolist()], dtype=bool)
    return np.asarray(column != column)  # NaN and NaT differ from themselves
