"""Windows in few numbers: some statistics, the power in bands of frequency, and if need be a coarse shape.

A bearing that rings, a valve that hunts, a spike somewhere: what such windows have in common is no point of theirs, for
the phase and the place differ from one to the next. Networks would have to learn that from some dozens of examples.
Powers and statistics say it at once, and as flat rows windows take part in all that is done with those. The shape,
averaged over stretches, tells what always happens at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray

__all__ = ["Digest", "band_edges"]

#: Columns of the shape, and of the power, of all channels together; and what a channel has of them at least and at most.
_SHAPE, _LEAST_STRETCHES = 100, 4
_BANDS, _LEAST_BANDS, _MOST_BANDS = 240, 4, 20
#: What is added to a deviation, as part of its typical one, before the logarithm is taken: a channel that stands still is
#: no more than so far away. To a power, the same part of the typical variance.
_FLOOR = 1e-3
#: What is farther away than so many widths is taken to be there: float32 must be able to square it.
_FARTHEST = 1e15
#: Values that the widths are taken from, and that are digested at a time.
_MOST_VALUES, _BLOCK = 20_000_000, 4_000_000

Array32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Digest:
    """Windows (n, channels, points) to flat rows (n, columns), whatever the units of the channels are.

    ``width`` (channels,) is the deviation over all rows and points, ``within`` the typical one in a window.

    >>> rng = np.random.default_rng(0)
    >>> waves = np.sin(np.arange(64) / 3 + rng.uniform(0, 6, (50, 1, 1))).astype(np.float32)
    >>> digest = Digest.fit(waves)
    >>> digest(waves).shape, np.allclose(digest(waves), Digest.fit(1e6 * waves)(1e6 * waves), atol=1e-4)
    ((50, 25), True)
    """

    width: FloatArray
    within: FloatArray
    shape: bool = False  #: with the means of stretches of the window

    @classmethod
    def fit(cls, rows: Array32) -> Digest:
        """The widths of these windows."""
        some = rows[:: max(1, rows.size // _MOST_VALUES)]
        parts = [part.astype(np.float64) for part in _blocks(some)]
        count = len(some) * some.shape[2]
        mean = sum(part.sum(axis=(0, 2)) for part in parts) / count
        square = sum(np.square(part - mean[:, None]).sum(axis=(0, 2)) for part in parts)
        width = np.sqrt(square / count)
        within = np.median(np.concatenate([part.std(axis=2) for part in parts]), axis=0)
        # A channel that mostly stands still has no typical deviation; one that always does, none at all.
        width = np.where(width > 0, width, 1.0)
        return cls(width, np.where(within > 0, within, width))

    def with_shape(self, shape: bool) -> Digest:
        """The same with the shape, or without."""
        return replace(self, shape=shape)

    def __call__(self, rows: Array32) -> Array32:
        """The digests of some windows."""
        return np.concatenate([self._digested(part) for part in _blocks(rows)])

    def _digested(self, rows: Array32) -> Array32:
        n, channels, points = rows.shape
        level = rows.mean(axis=2, dtype=np.float64)
        away = rows - level[:, :, None]
        peak = np.abs(away).max(axis=2)
        peak = np.where(peak > 0, peak, 1.0)
        # As part of its peak, a window may be squared and cubed in float32, whatever its units and however wild it is.
        away = (away / peak[:, :, None]).astype(np.float32)
        deviation = peak * np.sqrt(np.square(away).mean(axis=2, dtype=np.float64))
        steady = deviation + _FLOOR * self.within
        ramp = np.linspace(-1.0, 1.0, points, dtype=np.float32)
        columns = [
            level / self.width,
            away @ ramp * peak / (points * self.width),
            np.log(steady / self.within),
            (away * np.square(away)).mean(axis=2, dtype=np.float64) * (peak / steady) ** 3,
            np.log((away.max(axis=2) - away.min(axis=2)) * peak / steady + _FLOOR),
        ]
        if points >= 4:
            columns.append(self._powers(away, peak))
        if self.shape:
            stretches = min(max(_SHAPE // channels, _LEAST_STRETCHES), points)
            starts = np.linspace(0, points, stretches + 1).round().astype(np.int64)
            means = np.add.reduceat(away, starts[:-1], axis=2) / np.diff(starts)
            columns.append((means * peak[:, :, None] + level[:, :, None]) / self.width[:, None])
        flat = np.concatenate([x.reshape(n, -1) for x in columns], axis=1)
        return np.asarray(np.clip(flat, -_FARTHEST, _FARTHEST), dtype=np.float32)

    def _powers(self, away: Array32, peak: FloatArray) -> FloatArray:
        """The logarithm of the power in each band, as part of the typical variance; ``away`` is as part of its peak."""
        channels, points = away.shape[1:]
        taper = np.hanning(points + 2)[1:-1]
        taper = (taper / np.sqrt(np.square(taper).mean())).astype(np.float32)
        power = np.square(np.abs(np.fft.rfft(away * taper, axis=2)))[:, :, 1:].astype(np.float64) / points
        edges = band_edges(power.shape[2], int(np.clip(_BANDS // channels, _LEAST_BANDS, _MOST_BANDS)))
        mean = np.add.reduceat(power, edges[:-1], axis=2) / np.diff(edges)
        return np.asarray(np.log(mean * np.square(peak / self.within)[:, :, None] + _FLOOR))

    @property
    def words(self) -> str:
        """What is looked at, in words."""
        return f"level, spread and power in bands of frequency{', with a coarse shape' if self.shape else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        widths = {"width": self.width.tolist(), "within": self.within.tolist()}
        return {"kind": "digest", **widths, "shape": self.shape}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Digest:
        """The inverse of :meth:`to_dict`."""
        return cls(np.array(data["width"]), np.array(data["within"]), bool(data["shape"]))


def band_edges(bins: int, most: int) -> IntArray:
    """Where bands of frequency begin, and the end: narrow ones first, each then wider by the same factor.

    >>> band_edges(3, 8).tolist(), band_edges(64, 8).tolist()
    ([0, 1, 2, 3], [0, 1, 2, 4, 7, 13, 22, 38, 64])
    """
    if bins <= most:
        return np.arange(bins + 1)
    best = np.array([0, bins])
    for count in range(3, 8 * most):
        edges = np.unique(np.geomspace(1, bins + 1, count).round().astype(np.int64)) - 1
        if len(edges) > most + 1:
            break
        best = edges
    # Rounded, a band may be narrower than the one before.
    return np.append(0, np.cumsum(np.sort(np.diff(best))))


def _blocks(rows: Array32) -> Iterator[Array32]:
    """The rows, some at a time: they may lie on disk."""
    block = max(1, _BLOCK // max(1, rows.shape[1] * rows.shape[2]))
    for start in range(0, len(rows), block):
        yield rows[start : start + block]
