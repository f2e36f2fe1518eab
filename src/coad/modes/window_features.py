"""Features of windows: statistics, power in frequency bands, and optionally a coarse shape.

A bearing that rings, a valve that hunts, a spike: phase and place differ from window to window, and networks would have to
learn that from some dozens of examples. Statistics and powers do not depend on them. The shape, averaged over segments,
shows what always happens at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray

__all__ = ["WindowFeatures", "band_edges"]

#: Columns of the shape of all channels together, and the least segments per channel: about a hundred columns train well.
_SHAPE, _MIN_SEGMENTS = 100, 4
#: The same for powers, with the most bands per channel.
_BANDS, _MIN_BANDS, _MAX_BANDS = 240, 4, 20
#: Added to a deviation (or power), relative to its typical value, before the logarithm: a constant channel stays finite.
_FLOOR = 1e-3
#: Features are clipped at this many widths, so that float32 can square them.
_CLIP = 1e15
#: Values that the widths are estimated from, and that are processed at a time (memory).
_SAMPLE, _BLOCK = 20_000_000, 4_000_000

Array32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WindowFeatures:
    """Windows (n, channels, points) to flat rows (n, columns), independent of the units of the channels.

    ``width`` (channels,) is the standard deviation over all rows and points, ``within`` the typical one in a window;
    ``shape`` adds the means of segments of the window.

    >>> rng = np.random.default_rng(0)
    >>> waves = np.sin(np.arange(64) / 3 + rng.uniform(0, 6, (50, 1, 1))).astype(np.float32)
    >>> features = WindowFeatures.fit(waves)
    >>> features(waves).shape, np.allclose(features(waves), WindowFeatures.fit(1e6 * waves)(1e6 * waves), atol=1e-4)
    ((50, 25), True)
    """

    width: FloatArray
    within: FloatArray
    shape: bool = False

    @classmethod
    def fit(cls, rows: Array32) -> WindowFeatures:
        """The widths of these windows."""
        some = rows[:: max(1, rows.size // _SAMPLE)]
        parts = [part.astype(np.float64) for part in _blocks(some)]
        count = len(some) * some.shape[2]
        mean = sum(part.sum(axis=(0, 2)) for part in parts) / count
        square = sum(np.square(part - mean[:, None]).sum(axis=(0, 2)) for part in parts)
        width = np.sqrt(square / count)
        within = np.median(np.concatenate([part.std(axis=2) for part in parts]), axis=0)
        # A channel that is constant in most windows has no typical deviation; one that always is, no width.
        width = np.where(width > 0, width, 1.0)
        return cls(width, np.where(within > 0, within, width))

    def with_shape(self, shape: bool) -> WindowFeatures:
        """The same with the shape, or without."""
        return replace(self, shape=shape)

    def __call__(self, rows: Array32) -> Array32:
        """The features of some windows."""
        return np.concatenate([self._features(part) for part in _blocks(rows)])

    def _features(self, rows: Array32) -> Array32:
        n, channels, points = rows.shape
        level = rows.mean(axis=2, dtype=np.float64)
        centred = rows - level[:, :, None]
        peak = np.abs(centred).max(axis=2)
        peak = np.where(peak > 0, peak, 1.0)
        # Divided by its peak, a window can be cubed in float32 whatever its units are.
        centred = (centred / peak[:, :, None]).astype(np.float32)
        deviation = peak * np.sqrt(np.square(centred).mean(axis=2, dtype=np.float64))
        floored = deviation + _FLOOR * self.within
        ramp = np.linspace(-1.0, 1.0, points, dtype=np.float32)
        columns = [
            level / self.width,
            centred @ ramp * peak / (points * self.width),  # slope
            np.log(floored / self.within),
            (centred * np.square(centred)).mean(axis=2, dtype=np.float64) * (peak / floored) ** 3,  # skewness
            np.log((centred.max(axis=2) - centred.min(axis=2)) * peak / floored + _FLOOR),  # crest
        ]
        if points >= 4:
            columns.append(self._powers(centred, peak))
        if self.shape:
            segments = min(max(_SHAPE // channels, _MIN_SEGMENTS), points)
            starts = np.linspace(0, points, segments + 1).round().astype(np.int64)
            means = np.add.reduceat(centred, starts[:-1], axis=2) / np.diff(starts)
            columns.append((means * peak[:, :, None] + level[:, :, None]) / self.width[:, None])
        flat = np.concatenate([x.reshape(n, -1) for x in columns], axis=1)
        return np.asarray(np.clip(flat, -_CLIP, _CLIP), dtype=np.float32)

    def _powers(self, centred: Array32, peak: FloatArray) -> FloatArray:
        """The logarithm of the power in each band, relative to the typical variance; ``centred`` is divided by its peak."""
        channels, points = centred.shape[1:]
        taper = np.hanning(points + 2)[1:-1]
        taper = (taper / np.sqrt(np.square(taper).mean())).astype(np.float32)
        power = np.square(np.abs(np.fft.rfft(centred * taper, axis=2)))[:, :, 1:].astype(np.float64) / points
        edges = band_edges(power.shape[2], int(np.clip(_BANDS // channels, _MIN_BANDS, _MAX_BANDS)))
        mean = np.add.reduceat(power, edges[:-1], axis=2) / np.diff(edges)
        return np.asarray(np.log(mean * np.square(peak / self.within)[:, :, None] + _FLOOR))

    @property
    def description(self) -> str:
        """What is done, in words."""
        return f"level, deviation and power in frequency bands{', with a coarse shape' if self.shape else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        widths = {"width": self.width.tolist(), "within": self.within.tolist()}
        return {"kind": "digest", **widths, "shape": self.shape}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> WindowFeatures:
        """The inverse of :meth:`to_dict`."""
        return cls(np.array(data["width"]), np.array(data["within"]), bool(data["shape"]))


def band_edges(bins: int, most: int) -> IntArray:
    """Edges of at most ``most`` frequency bands: single bins first, then wider by a constant factor.

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
    # After rounding, a band may be narrower than the one before, so they are sorted.
    return np.append(0, np.cumsum(np.sort(np.diff(best))))


def _blocks(rows: Array32) -> Iterator[Array32]:
    """The rows in blocks, because they may be on disk."""
    block = max(1, _BLOCK // max(1, rows.shape[1] * rows.shape[2]))
    for start in range(0, len(rows), block):
        yield rows[start : start + block]
