"""Columns that hold codes: a column of its own for each value, for the order of codes means nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codes"]

#: A column may hold codes if it has so many different values, all whole numbers, if none of them is nearly all there is,
#: and if each has some rows (what gets rarer and rarer is a count). More columns than the last are not made.
_LEAST_VALUES, _MOST_VALUES, _COMMONEST, _LEAST_ROWS, _MOST_COLUMNS = 3, 10, 0.9, 5, 400
_MOST_ROWS = 20_000

Array32 = NDArray[np.float32]


@dataclass(frozen=True)
class Codes:
    """Flat rows with columns of 0 and 1 in place of codes; ``values`` are those of each column, none if it stays.

    >>> x = np.array([[0.5, 7], [1.5, 9], [2.5, 2], [0.5, 7]] * 5, dtype=np.float32)
    >>> codes = Codes.fit(x)
    >>> codes.values, codes(x)[:2].tolist()
    (((), (2.0, 7.0, 9.0)), [[0.5, 0.0, 1.0, 0.0], [1.5, 0.0, 0.0, 1.0]])
    """

    values: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, rows: Array32) -> Codes | None:
        """The columns of these rows that may hold codes, if there are any and not too many."""
        some = np.asarray(rows[:: max(1, len(rows) // _MOST_ROWS)])
        values = tuple(_values(column) for column in some.T)
        return cls(values) if 0 < sum(map(len, values)) <= _MOST_COLUMNS else None

    def __call__(self, rows: Array32) -> Array32:
        """Some rows with a column for each code; one that the fit did not know is none of them."""
        parts = [
            (rows[:, i : i + 1] == np.array(own, dtype=np.float32)) if own else rows[:, i : i + 1]
            for i, own in enumerate(self.values)
        ]
        return np.concatenate([part.astype(np.float32) for part in parts], axis=1)

    @property
    def words(self) -> str:
        """What is looked at, in words."""
        return f"codes one by one in {sum(map(bool, self.values))} of {len(self.values)} columns"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "codes", "values": [list(own) for own in self.values]}

    @classmethod
    def from_dict(cls, data: dict[str, Sequence[Sequence[float]]]) -> Codes:
        """The inverse of :meth:`to_dict`."""
        return cls(tuple(tuple(float(x) for x in own) for own in data["values"]))


def _values(column: Array32) -> tuple[float, ...]:
    """The values of a column that may hold codes; of another, none."""
    if len(np.unique(column[: 5 * _MOST_VALUES])) > _MOST_VALUES:  # most columns are told by their first rows
        return ()
    found, counts = np.unique(column, return_counts=True)
    whole = bool((found == np.round(found)).all())
    few = _LEAST_VALUES <= len(found) <= _MOST_VALUES
    even = counts.min() >= _LEAST_ROWS and counts.max() <= _COMMONEST * len(column)
    return tuple(found.tolist()) if whole and few and even else ()
