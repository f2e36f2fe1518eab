"""Transforms of single columns: logarithms of columns that span decades, one-hot columns for codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray

__all__ = ["LogColumns", "OneHotColumns"]

#: A column spans decades if it is never negative, mostly positive, and the 99th percentile of its positive values is this
#: many times their median: 7 for an exponential distribution, 10 for a log-normal one of width 1.
_DECADES = 10.0
#: A column holds codes if it has 3 to 10 different values, all whole numbers, none of which has more than 90 % of the
#: rows or fewer than 5 of the sample (values that get rarer and rarer are counts). At most 400 columns are made of them.
_MIN_CODES, _MAX_CODES, _MOST_COMMON, _MIN_ROWS, _MAX_COLUMNS = 3, 10, 0.9, 5, 400
#: Rows that columns are judged by.
_SAMPLE = 20_000

Array32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LogColumns:
    """Flat rows with some columns x replaced by log(x + floor); ``floor`` (columns,) is NaN for the others.

    Most rows of a pressure, a dose rate or a count lie in a small part of its range, where kinds that differ by a factor
    cannot be told apart.

    >>> x = np.random.default_rng(0).lognormal(size=(500, 2)).astype(np.float32) ** [0.1, 2]
    >>> logs = LogColumns.fit(x.astype(np.float32))
    >>> np.isnan(logs.floor).tolist(), bool(abs(logs(x)[:, 1].std() - 2) < 0.2)
    ([True, False], True)
    """

    floor: FloatArray

    @classmethod
    def fit(cls, rows: Array32) -> LogColumns | None:
        """Logarithms of the columns that span decades, if any; the floor is half the least value.

        If there are zeros, it is half the first percentile of the positive values, so that one tiny value does not
        send the zeros far away.
        """
        some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
        floor = np.full(some.shape[1], np.nan)
        for column in np.flatnonzero(rows.min(axis=0) >= 0):
            positive = some[some[:, column] > 0, column]
            mostly = len(positive) > len(some) / 2
            if mostly and np.quantile(positive, 0.99) >= _DECADES * np.median(positive):
                least = np.quantile(positive, 0.01) if len(positive) < len(some) else positive.min()
                floor[column] = least / 2
        return None if np.isnan(floor).all() else cls(floor)

    def __call__(self, rows: Array32) -> Array32:
        """Some rows with the logarithms in place; negative values count as 0."""
        out = rows.astype(np.float32, copy=True)
        chosen = np.flatnonzero(~np.isnan(self.floor))
        out[:, chosen] = np.log(np.maximum(out[:, chosen], 0.0) + self.floor[chosen])
        return out

    @property
    def description(self) -> str:
        """What is done, in words."""
        return f"logarithms in {np.count_nonzero(~np.isnan(self.floor))} of {len(self.floor)} columns"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "logs", "floor": [None if np.isnan(x) else float(x) for x in self.floor]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LogColumns:
        """The inverse of :meth:`to_dict`."""
        return cls(np.array([np.nan if x is None else x for x in data["floor"]], dtype=np.float64))


@dataclass(frozen=True)
class OneHotColumns:
    """Flat rows with a 0/1 column for each code, whose order means nothing; ``values`` are the codes of each column, none
    if it stays as it is.

    >>> x = np.array([[0.5, 7], [1.5, 9], [2.5, 2], [0.5, 7]] * 5, dtype=np.float32)
    >>> one_hot = OneHotColumns.fit(x)
    >>> one_hot.values, one_hot(x)[:2].tolist()
    (((), (2.0, 7.0, 9.0)), [[0.5, 0.0, 1.0, 0.0], [1.5, 0.0, 0.0, 1.0]])
    """

    values: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, rows: Array32) -> OneHotColumns | None:
        """The columns of these rows that hold codes, if there are any and not too many."""
        some = np.asarray(rows[:: max(1, len(rows) // _SAMPLE)])
        values = tuple(_codes(column) for column in some.T)
        return cls(values) if 0 < sum(map(len, values)) <= _MAX_COLUMNS else None

    def __call__(self, rows: Array32) -> Array32:
        """Some rows with a column for each code; a code that the fit did not know is 0 in all of them."""
        parts = [
            (rows[:, i : i + 1] == np.array(own, dtype=np.float32)) if own else rows[:, i : i + 1]
            for i, own in enumerate(self.values)
        ]
        return np.concatenate([part.astype(np.float32) for part in parts], axis=1)

    @property
    def description(self) -> str:
        """What is done, in words."""
        return f"one-hot codes in {sum(map(bool, self.values))} of {len(self.values)} columns"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "codes", "values": [list(own) for own in self.values]}

    @classmethod
    def from_dict(cls, data: dict[str, Sequence[Sequence[float]]]) -> OneHotColumns:
        """The inverse of :meth:`to_dict`."""
        return cls(tuple(tuple(float(x) for x in own) for own in data["values"]))


def _codes(column: Array32) -> tuple[float, ...]:
    """The values of a column of codes; none for other columns."""
    if len(np.unique(column[: 5 * _MAX_CODES])) > _MAX_CODES:  # the first rows rule out most columns
        return ()
    found, counts = np.unique(column, return_counts=True)
    whole = bool((found == np.round(found)).all())
    few = _MIN_CODES <= len(found) <= _MAX_CODES
    even = counts.min() >= _MIN_ROWS and counts.max() <= _MOST_COMMON * len(column)
    return tuple(found.tolist()) if whole and few and even else ()
