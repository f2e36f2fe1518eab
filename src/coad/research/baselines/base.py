"""What every peer has in common, and how rows are brought into shape for it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray
from coad.exceptions import InputError

__all__ = ["OneInput", "TwoInputs", "as_series", "flat", "stacked"]

Array32 = NDArray[np.float32]


@runtime_checkable
class OneInput(Protocol):
    """A method that looks at one input (or at a stack of two)."""

    #: The score from which the method itself calls a row anomalous; None if it has no rule for that.
    threshold_: float | None

    def fit(self, x: Array32) -> Any:
        """Learn from rows (n, features) or (n, channels, points), scaled."""

    def score(self, x: Array32) -> FloatArray:
        """One score a row, high for anomalies."""


@runtime_checkable
class TwoInputs(Protocol):
    """A method that looks at both inputs together.

    ``label`` is for those that need labels, ``group`` for those that hold rows out: a group's together.
    """

    def fit(self, s: Array32, q: Array32, label: Any = None, group: Any = None) -> Any:
        """Learn from scaled rows."""

    def scores(self, s: Array32, q: Array32) -> tuple[FloatArray, FloatArray]:
        """A score for each input, high for anomalies."""

    def predict(self, s: Array32, q: Array32) -> BoolArray | None:
        """The method's own decision; None if it has no rule for that."""


def flat(x: NDArray[Any]) -> Array32:
    """Rows of plain numbers.

    >>> flat(np.zeros((3, 2, 5))).shape
    (3, 10)
    """
    return np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)


def stacked(s: NDArray[Any], q: NDArray[Any]) -> Array32:
    """Both inputs as one: channels on top of each other, the shorter series stretched to the longer.

    Rows that are not both series are flattened and put side by side.

    >>> stacked(np.zeros((3, 1, 50)), np.zeros((3, 14, 1000))).shape
    (3, 15, 1000)
    >>> stacked(np.zeros((3, 4)), np.zeros((3, 2))).shape
    (3, 6)
    """
    if len(s) != len(q):
        raise InputError(f"s has {len(s):,} rows and q has {len(q):,}; they must match row by row")
    if s.ndim != 3 or q.ndim != 3:
        return np.hstack([flat(s), flat(q)])
    points = max(s.shape[2], q.shape[2])
    parts = [x[:, :, (np.arange(points) * x.shape[2]) // points] for x in (s, q)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)


def as_series(x: NDArray[Any], points: int = 100) -> Array32:
    """(n, channels, points): flat rows become series of one point, long ones are averaged down.

    >>> as_series(np.zeros((3, 14, 1000))).shape, as_series(np.zeros((3, 6))).shape
    ((3, 14, 100), (3, 6, 1))
    """
    if x.ndim != 3:
        return flat(x)[:, :, None]
    step = -(-x.shape[2] // points)
    if step == 1:
        return np.ascontiguousarray(x, dtype=np.float32)
    length = x.shape[2] // step * step
    # The last points count most in a window that was cut at a trigger: what does not fit goes in front.
    pooled = x[:, :, x.shape[2] - length :].reshape(len(x), x.shape[1], -1, step).mean(axis=3)
    return np.ascontiguousarray(pooled, dtype=np.float32)
