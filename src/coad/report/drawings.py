"""Small drawings of one input of one pair (waveforms, images or feature bars) beside the normal range.

They are plain SVG, so that a page with dozens of them stays small, prints sharply and follows its light or dark colours.
Every name is escaped.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray
from coad.workflows.scored import RowStore, Scored

__all__ = ["NormalRange", "NormalRows", "describe", "draw", "shape_kind"]

Kind = Literal["wave", "image", "bars"]

#: Pairs that the normal range is estimated from, and the fewest of a regime that are enough.
_SAMPLE, _FEWEST = 200, 20
#: Channels, bars and points along a waveform that a small drawing has room for.
_LANES, _BARS, _POINTS = 4, 8, 160
#: Height of a channel and width of a drawing, in SVG units.
_LANE, _WIDTH = 46, 320


@dataclass(frozen=True)
class NormalRange:
    """The median and the 5 to 95 % range of pairs that are not flagged, element by element."""

    low: NDArray[np.float32]
    middle: NDArray[np.float32]
    high: NDArray[np.float32]

    def width(self) -> NDArray[np.float64]:
        """About one standard deviation (3.29 of them hold 90 % of a Gaussian), never 0."""
        wide = (self.high.astype(np.float64) - self.low) / 3.29
        floor = 1e-9 + 1e-3 * float(np.mean(wide)) + 1e-6 * float(np.abs(self.middle).max(initial=0.0))
        return np.asarray(np.maximum(wide, floor))

    def deviation(self, row: NDArray[Any]) -> NDArray[np.float64]:
        """The distance of each element from the median, in standard deviations."""
        return np.asarray((row - self.middle) / self.width())


class NormalRows:
    """The normal range of each input, within a regime if that has enough pairs."""

    def __init__(self, scored: Scored, flagged: BoolArray) -> None:
        self._scored, self._quiet = scored, ~flagged
        self._made: dict[tuple[str, int], NormalRange] = {}

    def of(self, side: str, pair: int) -> NormalRange:
        """The normal range for a pair; ``side`` is "s" or "q"."""
        code = -1 if self._scored.code is None else int(self._scored.code[pair])
        if (side, code) not in self._made:
            self._made[side, code] = self._make(getattr(self._scored, side), code)
        return self._made[side, code]

    def _make(self, store: RowStore, code: int) -> NormalRange:
        places = np.flatnonzero(self._quiet if code < 0 else self._quiet & (self._scored.code == code))
        if len(places) < _FEWEST:
            places = np.flatnonzero(self._quiet)
        if len(places) < _FEWEST:
            places = np.arange(len(self._scored))
        if len(places) > _SAMPLE:
            places = np.sort(np.random.default_rng(0).choice(places, _SAMPLE, replace=False))
        low, middle, high = np.quantile(store.rows(places), (0.05, 0.5, 0.95), axis=0).astype(np.float32)
        return NormalRange(low, middle, high)


def shape_kind(shape: tuple[int, ...], names: Sequence[str]) -> Kind:
    """How rows of a shape are drawn.

    >>> shape_kind((3,), "abc"), shape_kind((2, 64), "ab"), shape_kind((28, 28), ["image"])
    ('bars', 'wave', 'image')
    """
    if len(shape) <= 1:
        return "bars"
    if len(shape) == 2 and (shape[0] == len(names) or min(shape) < 8):
        return "wave"
    return "image"


def draw(row: NDArray[Any], names: Sequence[str], normal: NormalRange, title: str = "") -> str:
    """The drawing of one row as an ``<svg>`` element."""
    kind = shape_kind(row.shape, names)
    body, height = {"wave": _waves, "image": _images, "bars": _bars}[kind](row, names, normal)
    width = 154 * len(_planes(row)) if kind == "image" else _WIDTH
    return (
        f"<svg class='shape' viewBox='0 0 {width} {height}' role='img' aria-label='{escape(title, quote=True)}'>"
        f"{body}</svg>"
    )


def describe(
    row: NDArray[Any],
    names: Sequence[str],
    normal: NormalRange,
    *,
    most: int = 12,
    attribution: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """The same as plain lists, for a picture that the browser draws.

    ``attribution``, of the row's shape, is the contribution of each point to the network's output.
    """
    kind = shape_kind(row.shape, names)
    if kind == "image":
        parts = _planes(row)
        more = {} if attribution is None else {"attribution": [_listed(x) for x in _planes(attribution)]}
        images = [_listed(x) for x in parts]
        return {"kind": kind, "names": _labels(names, len(parts)), "images": images} | more
    deviation = normal.deviation(row)
    if kind == "bars":
        order = np.sort(_furthest(np.abs(deviation.reshape(-1)), 3 * most))
        labels = _labels(names, row.size)
        more = {} if attribution is None else {"attribution": _listed(attribution.reshape(-1)[order])}
        return {
            "kind": kind,
            "total": row.size,
            "names": [labels[i] for i in order],
            "values": _listed(row.reshape(-1)[order]),
            "deviations": _listed(deviation.reshape(-1)[order]),
        } | more
    chosen = np.sort(_furthest(_lane_deviation(deviation), most))
    labels = _labels(names, len(row))
    step = max(1, -(-row.shape[1] // 2000))
    drawn = {"y": row, "low": normal.low, "high": normal.high} | (
        {} if attribution is None else {"attribution": attribution}
    )
    lanes = [
        {"name": labels[i], **{key: _listed(values[i, ::step]) for key, values in drawn.items()}}
        for i in chosen
    ]
    return {"kind": kind, "total": len(row), "step": step, "lanes": lanes}


def _waves(row: NDArray[Any], names: Sequence[str], normal: NormalRange) -> tuple[str, int]:
    """A lane for each channel, the least normal if there are many."""
    chosen = np.sort(_furthest(_lane_deviation(normal.deviation(row)), _LANES))
    labels = _labels(names, len(row))
    parts = []
    for lane, channel in enumerate(chosen):
        top = lane * _LANE
        y, low, high = (_thinned(x[channel]) for x in (row, normal.low, normal.high))
        floor, ceiling = float(min(y.min(), low.min())), float(max(y.max(), high.max()))
        scale = (_LANE - 18) / (ceiling - floor if ceiling > floor else 1.0)
        x = np.linspace(2, _WIDTH - 2, len(y))

        def place(values: Any, x: Any = x, top: int = top, floor: float = floor, scale: float = scale) -> str:
            down = top + _LANE - 3 - (values - floor) * scale
            return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), down.tolist(), strict=True))

        band = f"{place(high)} " + " ".join(reversed(place(low).split(" ")))
        parts.append(
            f"<text x='2' y='{top + 11}'>{escape(_short(labels[channel]))}</text>"
            f"<polygon class='normal' points='{band}'/><polyline class='line' points='{place(y)}'/>"
        )
    if len(row) > _LANES:
        parts.append(
            f"<text x='2' y='{len(chosen) * _LANE + 11}'>{_LANES} of {len(row)} channels, the least normal</text>"
        )
    return "".join(parts), len(chosen) * _LANE + (16 if len(row) > _LANES else 0)


def _bars(row: NDArray[Any], names: Sequence[str], normal: NormalRange) -> tuple[str, int]:
    """Deviations from the median to the left and right; bars are cut at ±8."""
    deviation = normal.deviation(row).reshape(-1)
    chosen = np.sort(_furthest(np.abs(deviation), _BARS))
    labels = _labels(names, row.size)
    parts, middle, half = [], 214, 96
    for line, i in enumerate(chosen):
        top = 4 + 20 * line
        length = half * min(abs(float(deviation[i])), 8.0) / 8.0
        left = middle if deviation[i] >= 0 else middle - length
        parts.append(
            f"<text x='112' y='{top + 12}' text-anchor='end'>{escape(_short(labels[i], 16))}</text>"
            f"<rect class='bar' x='{left:.1f}' y='{top + 1}' width='{max(length, 1):.1f}' height='14'>"
            f"<title>{escape(labels[i])}: {float(row.reshape(-1)[i]):.4g}, {float(deviation[i]):+.1f} deviations"
            "</title></rect>"
        )
    height = 8 + 20 * len(chosen) + 16
    parts.append(
        f"<line class='axis' x1='{middle}' x2='{middle}' y1='2' y2='{height - 14}'/>"
        f"<text x='{middle - half}' y='{height - 3}'>−8</text><text x='{middle}' y='{height - 3}' "
        f"text-anchor='middle'>deviations</text><text x='{middle + half}' y='{height - 3}' text-anchor='end'>8</text>"
    )
    if row.size > _BARS:
        parts.append(f"<text x='2' y='{height - 3}'>{_BARS} of {row.size}</text>")
    return "".join(parts), height


def _images(row: NDArray[Any], names: Sequence[str], normal: NormalRange) -> tuple[str, int]:
    """Grey images side by side, up to three planes."""
    planes, low, high = _planes(row), float(normal.low.min()), float(normal.high.max())
    low, high = min(low, float(row.min())), max(high, float(row.max()))
    size = 150
    parts = []
    for number, plane in enumerate(planes):
        grey = np.round(255 * (plane - low) / (high - low if high > low else 1.0)).astype(np.uint8)
        height = size * grey.shape[0] / grey.shape[1]
        parts.append(
            f"<image x='{2 + number * (size + 4)}' y='2' width='{size}' height='{min(height, 150):.0f}' "
            f"preserveAspectRatio='xMidYMid' href='data:image/png;base64,{base64.b64encode(_png(grey)).decode()}'/>"
        )
    return "".join(parts), 156


def _png(grey: NDArray[np.uint8]) -> bytes:
    """A grey image as PNG."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def _planes(row: NDArray[Any]) -> list[NDArray[Any]]:
    """Two-dimensional parts of an image, no more than three, each at most some 96 points a side."""
    flat = row.reshape(-1, *row.shape[-2:])[:3]
    step = max(1, -(-max(row.shape[-2:]) // 96))
    return [plane[::step, ::step] for plane in flat]


def _lane_deviation(deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.abs(deviation).mean(axis=-1) + 0.2 * np.abs(deviation).max(axis=-1))


def _furthest(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    return np.argsort(-values, kind="stable")[:most]


def _thinned(values: NDArray[Any]) -> NDArray[np.float64]:
    """At most ``_POINTS`` points: of each segment the one furthest from its mean, so that spikes stay."""
    y = np.asarray(values, dtype=np.float64)
    if len(y) <= _POINTS:
        return y
    pieces = np.array_split(y, _POINTS)
    return np.array([piece[np.argmax(np.abs(piece - piece.mean()))] for piece in pieces])


def _labels(names: Sequence[str], count: int) -> list[str]:
    if len(names) == count:
        return [str(name) for name in names]
    base = str(names[0]) if len(names) == 1 else ""
    return [f"{base}[{i}]" for i in range(count)]


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _listed(values: NDArray[Any]) -> list[Any]:
    """Lists with four digits, which is more than a screen shows."""
    array = np.asarray(values, dtype=np.float64)
    scale = float(np.abs(array).max(initial=0.0))
    digits = 4 - int(np.floor(np.log10(scale))) if scale > 0 else 4
    return np.round(array, digits).tolist()  # type: ignore[no-any-return]
