"""The interfaces of all methods, and functions that reshape rows for them."""

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
    """A method of one input, or of two inputs stacked."""

    #: Rows with at least this score are anomalous by the method's own rule; None if it has no rule.
    threshold_: float | None

    def fit(self, x: Array32) -> Any:
        """Fit to scaled rows (n, features) or (n, channels, points)."""

    def score(self, x: Array32) -> FloatArray:
        """Compute one score per row, high for anomalies."""


@runtime_checkable
class TwoInputs(Protocol):
    """A method of both inputs.

    ``label`` is for methods that need labels; ``group`` for methods that hold rows out for validation,
    which hold out whole groups.
    """

    def fit(self, s: Array32, q: Array32, label: Any = None, group: Any = None) -> Any:
        """Fit to scaled rows."""

    def scores(self, s: Array32, q: Array32) -> tuple[FloatArray, FloatArray]:
        """Compute one score per row and input, high for anomalies."""

    def predict(self, s: Array32, q: Array32) -> BoolArray | None:
        """Decide by the method's own rule; None if it has no rule."""


def flat(x: NDArray[Any]) -> Array32:
    """Flatten each row to a vector.

    >>> flat(np.zeros((3, 2, 5))).shape
    (3, 10)
    """
    return np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)


def stacked(s: NDArray[Any], q: NDArray[Any]) -> Array32:
    """Stack both inputs: channels are concatenated, and the shorter series is repeated to the longer length.

    Unless both inputs are series, their rows are flattened and concatenated.

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
    """Reshape to (n, channels, points): flat rows become series of one point, long series are averaged.

    >>> as_series(np.zeros((3, 14, 1000))).shape, as_series(np.zeros((3, 6))).shape
    ((3, 14, 100), (3, 6, 1))
    """
    if x.ndim != 3:
        return flat(x)[:, :, None]
    step = -(-x.shape[2] // points)
    if step == 1:
        return np.ascontiguousarray(x, dtype=np.float32)
    length = x.shape[2] // step * step
    # Surplus points are dropped at the start: in a triggered window the last points matter most.
    pooled = x[:, :, x.shape[2] - length :].reshape(len(x), x.shape[1], -1, step).mean(axis=3)
    return np.ascontiguousarray(pooled, dtype=np.float32)
