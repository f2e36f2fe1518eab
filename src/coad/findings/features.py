"""Features of one input: columns on one scale within each context, few outlying values, few directions.

Windows become statistics and powers in frequency bands, images rows of pixels. Each column is centred on its median
and divided by its robust width, within the context; then far values are drawn in, and principal components keep the
number of columns small. All features of an input together have the variance 1, so that both inputs count alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray
from coad.modes.window_features import WindowFeatures

__all__ = ["InputFeatures"]

#: Values are drawn in smoothly towards this many robust widths: an outlier stays far out, but does not outweigh all
#: other columns. Three widths hold 99.7 % of a normal column, so that the bulk keeps its shape.
_FAR = 4.0
#: Principal components that are kept: distances in more dimensions are all alike, and cost more.
_COMPONENTS = 50
#: Contexts with fewer rows than this are scaled by all rows.
_FEW_ROWS = 20
#: Rows that medians and components are estimated from.
_SAMPLE = 20_000
#: The interquartile range of a normal column is this many standard deviations.
_QUARTILES_OF_NORMAL = 1.349


@dataclass(frozen=True, eq=False)
class InputFeatures:
    """From the rows of one input to features, the same for new rows.

    ``centre`` and ``width`` have a row for all rows and one for each of ``contexts``.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(200, 3)).astype(np.float32) * [1, 100, 0.01]
    >>> features = InputFeatures.fit(rows)
    >>> x = features(rows)
    >>> x.shape, round(float(x.var(0).sum()), 1)
    ((200, 3), 1.0)
    """

    centre: FloatArray
    width: FloatArray
    mean: FloatArray
    axes: FloatArray
    contexts: tuple[Any, ...] = ()
    windows: WindowFeatures | None = None

    @classmethod
    def fit(cls, rows: NDArray[Any], context: NDArray[Any] | None = None) -> InputFeatures:
        """Estimate scales and components.

        Parameters
        ----------
        rows
            (n, columns), (n, channels, points) or (n, channels, height, width).
        context
            The context of each row; columns are scaled within it.

        Returns
        -------
        InputFeatures
        """
        windows = WindowFeatures.fit(rows).with_shape(True) if rows.ndim == 3 else None
        step = max(1, len(rows) // _SAMPLE)
        some = _flat(rows[::step], windows)
        labels = None if context is None else np.asarray(context)[::step]
        names = (
            []
            if labels is None
            else [x for x in np.unique(labels).tolist() if (labels == x).sum() >= _FEW_ROWS]
        )
        parts = [some] + [some[labels == name] for name in names]
        pooled = _scale(some)
        scales = [pooled] + [_scale(part, pooled[1]) for part in parts[1:]]
        centre, width = (np.stack([one[i] for one in scales]) for i in (0, 1))
        plain = cls(centre, width, np.zeros(0), np.zeros((0, 0)), tuple(names), windows)
        scaled = plain._scaled(some, labels)
        mean = scaled.mean(0)
        covariance = np.cov(scaled - mean, rowvar=False).reshape(len(mean), len(mean))
        values, axes = np.linalg.eigh(covariance)
        kept = np.argsort(values)[::-1][:_COMPONENTS]
        total = float(np.maximum(values[kept], 0.0).sum())
        axes = axes[:, kept] / np.sqrt(total if total > 0 else 1.0)
        # The sign of a component is arbitrary; a fixed one makes features the same on every machine.
        axes *= np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
        return cls(centre, width, mean, axes, tuple(names), windows)

    def __call__(self, rows: NDArray[Any], context: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """The features of some rows, (n, components)."""
        scaled = self._scaled(_flat(rows, self.windows), context)
        return np.asarray((scaled - self.mean) @ self.axes, dtype=np.float32)

    def deviations(self, rows: NDArray[Any], context: NDArray[Any] | None = None) -> FloatArray:
        """How many robust widths each value lies from the median of its column, (n, columns)."""
        return self._scaled(_flat(rows, self.windows), context)

    def _scaled(self, flat: FloatArray, context: NDArray[Any] | None) -> FloatArray:
        place = np.zeros(len(flat), dtype=np.int64)
        if context is not None and self.contexts:
            number = {name: i + 1 for i, name in enumerate(self.contexts)}
            distinct, code = np.unique(np.asarray(context), return_inverse=True)
            place = np.array([number.get(one, 0) for one in distinct.tolist()])[code.reshape(-1)]
        scaled = (flat - self.centre[place]) / self.width[place]
        return np.asarray(_FAR * np.tanh(scaled / _FAR))

    def to_facts(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """What goes into JSON, and what into safetensors."""
        facts = {
            "contexts": list(self.contexts),
            "windows": None if self.windows is None else self.windows.to_dict(),
        }
        return facts, {name: getattr(self, name) for name in ("centre", "width", "mean", "axes")}

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, FloatArray]) -> InputFeatures:
        """The inverse of :meth:`to_facts`."""
        windows = None if facts["windows"] is None else WindowFeatures.from_dict(facts["windows"])
        return cls(**arrays, contexts=tuple(facts["contexts"]), windows=windows)


def _flat(rows: NDArray[Any], windows: WindowFeatures | None) -> FloatArray:
    """Rows as columns of numbers."""
    flat = rows if windows is None else windows(np.ascontiguousarray(rows, dtype=np.float32))
    return flat.reshape(len(flat), -1).astype(np.float64)


def _scale(rows: FloatArray, pooled: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Median and robust width of each column; a column that hardly moves within its context keeps the pooled width.

    Half of a column may be one value (a count that is mostly 0): then its standard deviation is the width.
    """
    low, centre, high = np.quantile(rows, (0.25, 0.5, 0.75), axis=0)
    width = (high - low) / _QUARTILES_OF_NORMAL
    deviation = rows.std(0)
    tiny = 1e-9 * np.maximum(np.abs(centre), deviation)
    width = np.where(width > tiny, width, deviation)
    least = 1e-9 * np.maximum(np.abs(centre), 1e-30)
    fallback = np.ones_like(width) if pooled is None else pooled
    return centre, np.where(width > least, width, fallback)
