"""Rows that are read again and again: two scores and a regime, a batch at a time, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.validation import MIN_ROWS, _is_gap, as_score, check_same_length
from coad.exceptions import InputError

#: A batch: the two scores, and the columns of the context (or None).
Batch = tuple[Any, Any, Sequence[NDArray[Any]] | None]
Code = NDArray[np.int32]

MAX_STRATA = 10_000
_TOP = 4096  # highest scores kept exactly, for the thresholds that flag few rows


class RowStream:
    """The usable rows of a source of batches, which is opened anew for every pass.

    The constructor makes the first pass: it counts the rows, judges missing
    scores, numbers the strata, and keeps a sample, the highest scores and the lowest
    score of each input. Iterating gives ``(s, q, code)`` of the usable rows, in order.
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[Batch]],
        *,
        missing: Literal["error", "drop"],
        names: tuple[str, str],
        remedy: str,
        sample: int,
        rng: np.random.Generator,
    ) -> None:
        self._batches, self._names, self._remedy, self._missing = batches, names, remedy, missing
        self.n = self.passes = 0
        sizes: dict[tuple[str, ...], int] = {}
        samples = (_Sample(sample, rng), _Sample(sample, rng))
        self.tops: list[FloatArray] = [np.empty(0), np.empty(0)]  # highest first
        self.lowest = [np.inf, np.inf]
        for s, q, context in self._usable():
            self.n += len(s)
            for side, score in enumerate((s, q)):
                samples[side].add(score)
                self.tops[side] = _highest(np.concatenate([self.tops[side], _highest(score)]))
                self.lowest[side] = min(self.lowest[side], score.min(initial=np.inf))
            if context is not None:
                labels, code = _labels(context)
                for label, count in zip(labels, np.bincount(code).tolist(), strict=True):
                    sizes[label] = sizes.get(label, 0) + count
                if len(sizes) > MAX_STRATA:
                    raise InputError(
                        f"the context has more than {MAX_STRATA:,} regimes, too many for a search that reads "
                        "the rows in passes; take a coarser context, or search in memory (--max-rows)"
                    )
        if self.n < MIN_ROWS:
            rows = "row" if self.n == 1 else "rows"
            raise InputError(f"only {self.n} usable {rows}; at least {MIN_ROWS} are needed")
        self.strata = {label: number for number, label in enumerate(sorted(sizes))}
        self.sizes: IntArray = np.array([sizes[label] for label in self.strata] or [self.n], dtype=np.int64)
        self.samples: list[FloatArray] = [one.values() for one in samples]  # lowest first

    def __iter__(self) -> Iterator[tuple[FloatArray, FloatArray, Code]]:
        changed = InputError("the rows changed while they were read; they must be the same in every pass")
        rows = 0
        for s, q, context in self._usable():
            rows += len(s)
            code = np.zeros(len(s), dtype=np.int64)
            if context is not None and len(self.strata) > 1:
                labels, code = _labels(context)
                if not self.strata.keys() >= set(labels):
                    raise changed
                code = np.array([self.strata[label] for label in labels], dtype=np.int64)[code]
            yield s, q, code.astype(np.int32)
        if rows != self.n:
            raise changed

    def sample(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray | None]:
        """A pass that keeps about ``size`` whole rows in their order, or all if there are no more: s, q and stratum."""
        parts = []
        for s, q, code in self:
            keep = slice(None) if self.n <= size else rng.random(len(s)) < size / self.n
            parts.append((s[keep].copy(), q[keep].copy(), code[keep]))
        s, q, code = (np.concatenate([part[i] for part in parts]) for i in range(3))
        if len(self.sizes) == 1:
            return s, q, None
        return s, q, np.unique(code, return_inverse=True)[1].astype(np.int64)

    def _usable(self) -> Iterator[tuple[FloatArray, FloatArray, list[NDArray[Any]] | None]]:
        self.passes += 1
        at = 0
        for score_s, score_q, context in self._batches():
            s, q = as_score(score_s, self._names[0]), as_score(score_q, self._names[1])
            check_same_length(s, q, self._names)
            finite_s, finite_q = np.isfinite(s), np.isfinite(q)
            keep: BoolArray = finite_s & finite_q
            if self._missing == "error" and not keep.all():
                side = 0 if not finite_s.all() else 1
                row = int(np.argmin((finite_s, finite_q)[side]))
                raise InputError(
                    f"{self._names[side]} has missing or infinite values "
                    f"(first at row {at + row:,}: {(s, q)[side][row]}); {self._remedy}"
                )
            columns = None
            if context is not None:
                columns = [np.asarray(column)[keep] for column in context]
                for column in columns:
                    gaps = _gaps(column)
                    if gaps.any():
                        row = at + int(np.flatnonzero(keep)[np.argmax(gaps)])
                        raise InputError(f"context has missing entries (first at row {row:,})")
            at += len(s)
            yield s[keep], q[keep], columns


class _Sample:
    """About ``size`` values out of any number of them: each one is kept by the toss of a coin."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._size, self._rng, self._rate = size, rng, 1.0
        self._parts: list[FloatArray] = []
        self._held = 0

    def add(self, values: FloatArray) -> None:
        """Let some values in; when there are too many, every second one goes, and later ones are rarer."""
        if self._rate < 1:
            values = values[self._rng.random(len(values)) < self._rate]
        self._parts.append(values.copy())
        self._held += len(values)
        while self._held > 2 * self._size:
            joined = np.concatenate(self._parts)
            self._parts = [joined[self._rng.random(len(joined)) < 0.5]]
            self._held, self._rate = len(self._parts[0]), self._rate / 2

    def values(self) -> FloatArray:
        return np.sort(np.concatenate([np.empty(0), *self._parts]))


def _highest(score: FloatArray) -> FloatArray:
    """The highest few scores, highest first."""
    if len(score) > _TOP:
        score = np.partition(score, len(score) - _TOP)[-_TOP:]
    return np.sort(score)[::-1]


def _labels(context: Sequence[NDArray[Any]]) -> tuple[list[tuple[str, ...]], IntArray]:
    """The distinct labels of a batch, and the number of each row's label among them."""
    code = np.zeros(len(context[0]), dtype=np.int64)
    labels: list[tuple[str, ...]] = [()]
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
