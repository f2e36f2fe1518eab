"""Readings of any form into chunks: what cannot be read becomes a missing value and is counted, never raised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.data.numbers import MISSING_WORDS
from coad.data.times import parse_time
from coad.exceptions import InputError
from coad.live.protocols import Wanted
from coad.live.values import Chunk

__all__ = ["joined", "make_chunks", "nanoseconds"]

_TRUTH = {"true": 1.0, "false": 0.0}
_MISSING = frozenset(MISSING_WORDS)
#: Times further from 1970 than this (about 250 years) are no times; sums with a lateness still fit in 64 bits.
_FURTHEST = 2**63 - 2**60


def make_chunks(
    wanted: Wanted,
    counts: Counter[str],
    time: Any,
    columns: Mapping[str, Any],
    *,
    stream: str | None = None,
) -> list[Chunk]:
    """The samples as a chunk for each stream that wants some of the columns.

    Parameters
    ----------
    wanted
        What the model needs.
    counts
        Counts of the source: ``malformed`` and ``unknown`` are added to.
    time
        Time of each sample: numbers, ISO 8601 text or ``datetime64``.
    columns
        Values of each column, as long as ``time``; others are counted as malformed.
    stream
        Whose samples these are; None gives each column to the one stream that has it.

    Returns
    -------
    list of Chunk

    >>> counts = Counter()
    >>> (chunk,) = make_chunks(Wanted({"": ("a", "b")}), counts, [1.0, 2.0], {"a": [5, "bad"], "x": [0, 0]})
    >>> chunk.time.tolist(), chunk.columns["a"].tolist(), dict(counts)
    ([1000000000, 2000000000], [5.0, nan], {})
    """
    streams = wanted.columns if stream is None else [stream] if stream in wanted.columns else []
    owners = Counter(column for name in streams for column in wanted.columns[name])
    chosen = [
        (name, [c for c in wanted.columns[name] if c in columns and owners[c] == 1]) for name in streams
    ]
    chosen = [(name, known) for name, known in chosen if known]
    if not chosen:
        counts["unknown"] += 1
        return []
    stamps, readable = nanoseconds(time, wanted)
    if not readable.all():
        counts["malformed"] += int((~readable).sum())
    made = {}
    for name in {column for _, known in chosen for column in known}:
        values = columns[name]
        if len(values) != len(stamps):
            counts["malformed"] += 1
            continue
        made[name] = _values(values, counts, text=name in wanted.text)[readable]
    kept = [(name, {c: made[c] for c in known if c in made}) for name, known in chosen]
    return [Chunk(name, stamps[readable], one) for name, one in kept if one and readable.any()]


def nanoseconds(time: Any, wanted: Wanted) -> tuple[IntArray, NDArray[np.bool_]]:
    """Times in nanoseconds since 1970, and which of them could be read; plain numbers count as seconds.

    >>> stamps, readable = nanoseconds(["2026-03-09T10:00:00", "noon"], Wanted({}))
    >>> stamps[readable].tolist()
    [1773050400000000000]
    """
    try:
        stamps, readable = _parsed(np.asarray(time), wanted)
    except (InputError, ValueError, OverflowError, TypeError):
        if len(time) == 1:
            return np.zeros(1, np.int64), np.zeros(1, bool)
        # One bad time must not cost the others: look at each alone.
        both = [nanoseconds([one], wanted) for one in time]
        stamps, readable = (np.concatenate([pair[k] for pair in both]) for k in (0, 1))
    return stamps, readable


def joined(chunks: Iterable[Chunk], position: Any, before: Any) -> list[Chunk]:
    """Chunks of one stream with the same columns put together, in the order of arrival of the first of each.

    Only the last chunk has the new ``position``: if the program ends between two of them, the samples of the others
    come again.

    >>> one = Chunk("K01", np.array([1]), {"a": np.array([5.0])})
    >>> [len(chunk) for chunk in joined([one, one, one], None, None)]
    [3]
    """
    parts: dict[tuple[str, ...], list[Chunk]] = {}
    for chunk in chunks:
        parts.setdefault((chunk.stream, *chunk.columns), []).append(chunk)
    whole: list[Chunk] = []
    for (stream, *names), same in parts.items():
        columns = {name: np.concatenate([one.columns[name] for one in same]) for name in names}
        last = len(whole) == len(parts) - 1
        whole.append(
            Chunk(stream, np.concatenate([one.time for one in same]), columns, position if last else before)
        )
    return whole


def _parsed(time: NDArray[Any], wanted: Wanted) -> tuple[IntArray, NDArray[np.bool_]]:
    if time.dtype == object or time.dtype.kind == "b":
        raise TypeError("a time is a number or text")
    times = parse_time(time, unit=wanted.time_unit, format=wanted.time_format)
    if times.dtype.kind == "M":
        return times.view(np.int64), ~np.isnat(times)
    readable = np.abs(times) < _FURTHEST / 1e9  # False for NaN
    return np.rint(np.where(readable, times, 0.0) * 1e9).astype(np.int64), readable


def _values(values: Any, counts: Counter[str], *, text: bool) -> NDArray[Any]:
    """Text of a context, or float64; what is neither a number nor a word for a missing value is counted."""
    if text:
        return np.array(["" if one is None else str(one) for one in values])
    try:
        numbers = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        numbers = _one_by_one(values, counts)
    if numbers.ndim != 1:
        counts["malformed"] += 1
        return np.full(len(values), np.nan)
    numbers[np.isinf(numbers)] = np.nan
    return numbers


def _one_by_one(values: Sequence[Any], counts: Counter[str]) -> FloatArray:
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        word = value.strip().lower() if isinstance(value, str) else value
        if word is None or (isinstance(word, str) and word in _MISSING):
            continue
        try:
            numbers[row] = _TRUTH[word] if isinstance(word, str) and word in _TRUTH else float(word)
        except (ValueError, TypeError, OverflowError):
            counts["malformed"] += 1
    return numbers
