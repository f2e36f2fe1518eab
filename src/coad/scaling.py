"""Fitted scalers: each feature or channel to mean 0 and deviation 1, per input and per context.

Rows of a context that training did not see, or saw fewer than ``MIN_ROWS`` times, are scaled by
the pooled scaler: the mean and deviation of all rows together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike
from coad.exceptions import InputError

__all__ = ["MIN_ROWS", "Scaler"]

#: A context with fewer rows than this has no scale of its own.
MIN_ROWS = 20

Array32 = NDArray[np.float32]


@dataclass(frozen=True)
class Scaler:
    """Mean and deviation of each feature (n, features) or channel (n, channels, ...).

    ``contexts`` lists the contexts with a scale of their own; row 0 of ``mean`` and ``std``
    is the pooled scale, row i + 1 that of ``contexts[i]``.

    >>> scaler = Scaler.fit(np.array([[0.0, 5.0], [2.0, 5.0]], dtype=np.float32))
    >>> scaler.transform(np.array([[2.0, 6.0]], dtype=np.float32))
    array([[1., 1.]], dtype=float32)
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    contexts: tuple[Any, ...] = ()

    @classmethod
    def fit(
        cls, x: Array32, context: ArrayLike | None = None, index: NDArray[np.int64] | None = None
    ) -> Scaler:
        """Learn the scale of the rows ``index`` (all, if not given), a block at a time.

        A feature that never changes is centred and not divided.
        """
        index = np.arange(len(x)) if index is None else index
        parts, contexts = [index], []
        if context is not None:
            labels = np.asarray(context)[index]
            for label in np.unique(labels).tolist():
                rows = index[labels == label]
                if len(rows) >= MIN_ROWS:
                    contexts.append(label)
                    parts.append(rows)
        scales = [_scale(x, part) for part in parts]
        # A feature that is constant within a context keeps the pooled deviation.
        pooled = scales[0][1]
        std = np.stack([np.where(s > 0, s, np.where(pooled > 0, pooled, 1.0)) for _, s in scales])
        return cls(np.stack([m for m, _ in scales]), std, tuple(contexts))

    def transform(self, x: Array32, context: ArrayLike | None = None) -> Array32:
        """The scaled rows, float32."""
        wide = (slice(None), slice(None)) + (None,) * (x.ndim - 2)
        row = np.zeros(len(x), dtype=np.int64)
        if context is not None and self.contexts:
            place = {label: i + 1 for i, label in enumerate(self.contexts)}
            distinct, code = np.unique(np.asarray(context), return_inverse=True)
            row = np.array([place.get(label, 0) for label in distinct.tolist()], dtype=np.int64)[code]
        elif self.contexts:
            raise InputError("this model was scaled per context; pass context= for the new rows as well")
        pick = row if row.any() else slice(0, 1)
        scaled = np.subtract(x, self.mean.astype(np.float32)[pick][wide], dtype=np.float32)
        scaled *= (1.0 / self.std).astype(np.float32)[pick][wide]
        return scaled

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"mean": self.mean.tolist(), "std": self.std.tolist(), "contexts": list(self.contexts)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Scaler:
        """The inverse of :meth:`to_dict`."""
        return cls(np.array(data["mean"]), np.array(data["std"]), tuple(data["contexts"]))


def _scale(x: Array32, index: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation in two passes over blocks of rows, so that x may be larger than memory."""
    axes = (0, *range(2, x.ndim))
    block = max(1, 4_000_000 // max(1, int(np.prod(x.shape[1:]))))
    starts = range(0, len(index), block)
    count = len(index) * int(np.prod(x.shape[2:]))
    wide = (None, slice(None)) + (None,) * (x.ndim - 2)
    mean = sum(x[index[i : i + block]].sum(axes, dtype=np.float64) for i in starts) / count
    square = sum(np.square(x[index[i : i + block]] - mean[wide]).sum(axes) for i in starts)
    std = np.sqrt(square / count)
    # Rounding leaves a constant feature with a deviation that is small but not 0.
    return mean, np.where(std > 1e-7 * np.maximum(np.abs(mean), 1e-30), std, 0.0)
