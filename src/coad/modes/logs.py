"""Logarithms of columns that span decades: a pressure, a dose rate, a count.

Most rows of such a column lie in a corner of its range, and kinds that differ by a factor cannot be told apart there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray

__all__ = ["Logs"]

#: A column spans decades if it is never negative, mostly positive, and its 99th percentile is so many times its median,
#: zeros left out. Of an exponential distribution it is 7 times, of a log-normal one of width 1 ten times.
_DECADES = 10.0
_MOST_ROWS = 20_000

Array32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Logs:
    """Flat rows with some columns replaced by their logarithm; ``floor`` (columns,) is added first, NaN leaves a column.

    >>> x = np.random.default_rng(0).lognormal(size=(500, 2)).astype(np.float32) ** [0.1, 2]
    >>> logs = Logs.fit(x.astype(np.float32))
    >>> np.isnan(logs.floor).tolist(), bool(abs(logs(x)[:, 1].std() - 2) < 0.2)
    ([True, False], True)
    """

    floor: FloatArray

    @classmethod
    def fit(cls, rows: Array32) -> Logs | None:
        """The logarithms that these rows may gain from, if any.

        Half the least value is added first; if there are zeros, half of what is nearly the least of the others.
        """
        some = rows[:: max(1, len(rows) // _MOST_ROWS)].astype(np.float64)
        floor = np.full(some.shape[1], np.nan)
        for column in np.flatnonzero(rows.min(axis=0) >= 0):
            positive = some[some[:, column] > 0, column]
            mostly = len(positive) > len(some) / 2
            if mostly and np.quantile(positive, 0.99) >= _DECADES * np.median(positive):
                # One speck of dust must not send the zeros far away from everything else.
                least = np.quantile(positive, 0.01) if len(positive) < len(some) else positive.min()
                floor[column] = least / 2
        return None if np.isnan(floor).all() else cls(floor)

    def __call__(self, rows: Array32) -> Array32:
        """Some rows with the logarithms in place; what is below 0 counts as 0."""
        out = rows.astype(np.float32, copy=True)
        chosen = np.flatnonzero(~np.isnan(self.floor))
        out[:, chosen] = np.log(np.maximum(out[:, chosen], 0.0) + self.floor[chosen])
        return out

    @property
    def words(self) -> str:
        """What is looked at, in words."""
        return f"logarithms in {np.count_nonzero(~np.isnan(self.floor))} of {len(self.floor)} columns"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "logs", "floor": [None if np.isnan(x) else float(x) for x in self.floor]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Logs:
        """The inverse of :meth:`to_dict`."""
        return cls(np.array([np.nan if x is None else x for x in data["floor"]], dtype=np.float64))
