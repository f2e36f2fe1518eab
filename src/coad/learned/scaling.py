"""``Scaler``: each feature or channel to mean 0 and standard deviation 1, per context.

Rows of a context with fewer than ``MIN_ROWS`` training rows are scaled with the pooled mean and deviation, those of
all rows.

A sensor that reads -9999 now and then would have a deviation so large that all its other values become equal after
scaling. So outliers that inflate the deviation are clipped first. The clipping is soft: it keeps the order of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike
from coad.exceptions import InputError

__all__ = ["MIN_ROWS", "Scaler"]

#: A context with fewer rows than this is scaled with the pooled mean and deviation.
MIN_ROWS = 20
#: The bulk of a feature lies between these quantiles. Outliers are this many times the width of the bulk beyond it.
_BULK, _FAR = (0.05, 0.95), 2.0
#: Outliers are clipped if they make the deviation more than this many times as large.
_INFLATED = 3.0
#: Values of the sample that the quantiles are taken from, and its smallest number of rows.
_SOME_VALUES, _SOME_ROWS = 1_000_000, 1000
_NO_LIMITS = np.array([[-np.inf], [np.inf]])

Array32 = NDArray[np.float32]


@dataclass(frozen=True)
class Scaler:
    """Mean and standard deviation of each feature (n, features) or channel (n, channels, ...).

    Parameters
    ----------
    mean, std
        Row 0 is pooled over all rows, row i + 1 is that of ``contexts[i]``.
    contexts
        The contexts with a mean and deviation of their own.
    limits
        Shape (2, features): values outside are clipped; infinite for features without outliers, None if no
        feature has any.

    >>> scaler = Scaler.fit(np.array([[0.0, 5.0], [2.0, 5.0]], dtype=np.float32))
    >>> scaler.transform(np.array([[2.0, 6.0]], dtype=np.float32))
    array([[1., 1.]], dtype=float32)
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    contexts: tuple[Any, ...] = ()
    limits: NDArray[np.float64] | None = None

    @classmethod
    def fit(
        cls, x: Array32, context: ArrayLike | None = None, index: NDArray[np.int64] | None = None
    ) -> Scaler:
        """Fit a scaler, reading ``x`` block by block.

        Parameters
        ----------
        x
            The rows, float32.
        context
            The context of each row.
        index
            The rows to use, all if not given.

        Returns
        -------
        Scaler
            Constant features are centred but not divided.
        """
        index = np.arange(len(x)) if index is None else index
        within, contexts = [], []
        if context is not None:
            labels = np.asarray(context)[index]
            for label in np.unique(labels).tolist():
                rows = index[labels == label]
                if len(rows) >= MIN_ROWS:
                    contexts.append(label)
                    within.append(rows)
        scales = [_scale(x, index)]
        limits = _limits(x, index, scales[0][1])
        if limits is not None:
            scales = [_scale(x, index, limits)]
        scales += [_scale(x, rows, limits) for rows in within]
        # A feature that is constant within a context keeps the pooled deviation.
        pooled = scales[0][1]
        std = np.stack([np.where(s > 0, s, np.where(pooled > 0, pooled, 1.0)) for _, s in scales])
        return cls(np.stack([m for m, _ in scales]), std, tuple(contexts), limits)

    @property
    def room(self) -> NDArray[np.float64]:
        """How far beyond its limits a clipped feature can end: the width of its bulk."""
        assert self.limits is not None
        return np.asarray(_room(self.limits))

    def clipped(self, x: Array32) -> Array32:
        """The rows with outliers clipped, before scaling."""
        return x if self.limits is None else _clipped(x, self.limits)

    def transform(self, x: Array32, context: ArrayLike | None = None) -> Array32:
        """Scale rows.

        Parameters
        ----------
        x
            Rows of the shape of the fit, float32.
        context
            The context of each row; needed if the scaler was fitted with contexts.

        Returns
        -------
        ndarray of float32, the shape of ``x``
        """
        wide = (slice(None), slice(None)) + (None,) * (x.ndim - 2)
        row = np.zeros(len(x), dtype=np.int64)
        if context is not None and self.contexts:
            place = {label: i + 1 for i, label in enumerate(self.contexts)}
            distinct, code = np.unique(np.asarray(context), return_inverse=True)
            row = np.array([place.get(label, 0) for label in distinct.tolist()], dtype=np.int64)[code]
        elif self.contexts:
            raise InputError("this model was scaled per context; pass context= for the new rows as well")
        pick = row if row.any() else slice(0, 1)
        scaled = np.subtract(self.clipped(x), self.mean.astype(np.float32)[pick][wide], dtype=np.float32)
        scaled *= (1.0 / self.std).astype(np.float32)[pick][wide]
        return scaled

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = {"mean": self.mean.tolist(), "std": self.std.tolist(), "contexts": list(self.contexts)}
        if self.limits is not None:
            plain["limits"] = [[x if np.isfinite(x) else None for x in side] for side in self.limits.tolist()]
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Scaler:
        """The inverse of :meth:`to_dict`."""
        limits = None
        if "limits" in data:
            below, above = data["limits"]
            limits = np.array(
                [[-np.inf if x is None else x for x in below], [np.inf if x is None else x for x in above]]
            )
        mean, std = (np.array(data[name], dtype=np.float64) for name in ("mean", "std"))
        return cls(mean, std, tuple(data["contexts"]), limits)


def _limits(x: Array32, index: NDArray[np.int64], std: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The limits beyond which the values of each feature are clipped, if they inflate its deviation ``std``."""
    wanted = max(_SOME_ROWS, _SOME_VALUES // max(1, int(np.prod(x.shape[1:]))))
    some = x[index[:: max(1, len(index) // wanted)]]
    # Quantiles of the minimum and maximum of each window: a short pulse in every window is not an outlier.
    inner = tuple(range(2, x.ndim))
    low = np.quantile(some.min(axis=inner), _BULK[0], axis=0).astype(np.float64)
    high = np.quantile(some.max(axis=inner), _BULK[1], axis=0).astype(np.float64)
    middle = np.median(some, axis=(0, *inner))
    # A feature that is mostly at one end of its range (a count that is mostly 0) has no bulk to compare with.
    known = (low < middle) & (middle < high)
    limits = np.stack([low - _FAR * (high - low), high + _FAR * (high - low)])
    limits = np.where(known, limits, _NO_LIMITS)
    known &= std > _INFLATED * _clipped(some, limits).std(axis=(0, *inner), dtype=np.float64)
    return np.where(known, limits, _NO_LIMITS) if known.any() else None


def _clipped(x: Array32, limits: NDArray[np.float64]) -> Array32:
    """Soft clipping: values beyond the limits keep their order and end less than the width of the bulk beyond them."""
    out = x.astype(np.float32, copy=True)
    for feature in np.flatnonzero(np.isfinite(limits[0])):
        own = x[:, feature].astype(np.float64)
        inside = np.clip(own, *limits[:, feature])
        room = _room(limits[:, feature])
        over = own - inside
        out[:, feature] = inside + np.sign(over) * room * (1.0 - room / (room + np.abs(over)))
    return out


def _room(limits: NDArray[np.float64]) -> Any:
    return (limits[1] - limits[0]) / (2.0 * _FAR + 1.0)


def _scale(
    x: Array32, index: NDArray[np.int64], limits: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation in two passes over blocks of rows, so that x may be larger than memory."""
    axes = (0, *range(2, x.ndim))
    block = max(1, 4_000_000 // max(1, int(np.prod(x.shape[1:]))))
    starts = range(0, len(index), block)
    count = len(index) * int(np.prod(x.shape[2:]))
    wide = (None, slice(None)) + (None,) * (x.ndim - 2)

    def taken(start: int) -> Array32:
        rows = x[index[start : start + block]]
        return rows if limits is None else _clipped(rows, limits)

    mean = sum(taken(i).sum(axes, dtype=np.float64) for i in starts) / count
    square = sum(np.square(taken(i) - mean[wide]).sum(axes) for i in starts)
    std = np.sqrt(square / count)
    # Rounding gives a constant feature a deviation that is small but not 0.
    return mean, np.where(std > 1e-7 * np.maximum(np.abs(mean), 1e-30), std, 0.0)
