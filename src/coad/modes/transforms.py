"""Transforms of the rows before they are scaled.

Rows stay as they are, or windows become window features, columns that span decades their logarithm, and codes one-hot
columns. :mod:`coad.modes.selection` chooses on held-out rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.modes.column_transforms import LogColumns, OneHotColumns
from coad.modes.window_features import WindowFeatures

__all__ = [
    "NO_TRANSFORMS",
    "Arrays",
    "InputTransform",
    "Transformed",
    "Transforms",
    "apply_transforms",
    "candidate_transforms",
    "describe_transforms",
    "transforms_from_list",
    "transforms_to_list",
]

Array32 = NDArray[np.float32]
Arrays = tuple[Array32, Array32]


class _NoSettings:
    """Steps without settings are equal if they are of one class, and are saved by their kind alone."""

    kind: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": self.kind}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """The inverse of :meth:`to_dict`."""
        return cls()


@dataclass(frozen=True)
class Pixels(_NoSettings):
    """Small images (n, channels, height, width) as flat rows of pixels, because they are too small for convolutions."""

    kind, description = "pixels", "pixels one by one"

    def __call__(self, rows: Array32) -> Array32:
        return rows.reshape(len(rows), -1)


@dataclass(frozen=True)
class Signal(_NoSettings):
    """Flat rows (n, points) as windows of one channel."""

    kind, description = "signal", "rows as signals"

    def __call__(self, rows: Array32) -> Array32:
        return rows[:, None, :]


#: The steps for one input, in order; those for both inputs; and these with the arrays that they give.
InputTransform = tuple[WindowFeatures | Pixels | Signal | LogColumns | OneHotColumns, ...]
Transforms = tuple[InputTransform, InputTransform]
Transformed = tuple[Transforms, Arrays]

NO_TRANSFORMS: Transforms = ((), ())
#: Images with more values than this go to convolutions.
_SMALL_IMAGE = 256
#: Flat rows may be signals if they have so many columns, and if the median correlation of neighbouring columns is this.
_MIN_POINTS, _SMOOTH = 64, 0.5
#: Rows that this correlation is estimated from.
_SAMPLE = 5_000


def candidate_transforms(s: Array32, q: Array32, net: Any) -> list[list[Transformed]]:
    """Lists of transforms to choose from, with their results; a list is used only if the one before shows no clear modes.

    Each list starts with the simplest. If the user gave a ``net``, or for images that are not small, rows stay as they are.
    """
    as_they_are: Transformed = NO_TRANSFORMS, (s, q)
    if net is not None or any(x.ndim > 3 and math.prod(x.shape[1:]) > _SMALL_IMAGE for x in (s, q)):
        return [[as_they_are]]
    ways_s, ways_q = _input_transforms(s), _input_transforms(q)
    transforms = [
        (ways_s[min(i, len(ways_s) - 1)], ways_q[min(i, len(ways_q) - 1)])
        for i in range(max(len(ways_s), len(ways_q)))
    ]
    flat = [(one, apply_transforms(one, s, q)) for one in transforms]
    flat = _with_step(OneHotColumns.fit, _with_step(LogColumns.fit, flat))
    return [flat] if transforms[0] == NO_TRANSFORMS else [flat, [as_they_are]]


def _input_transforms(rows: Array32) -> list[InputTransform]:
    """The ways to make flat rows of one input, the simplest first."""
    if rows.ndim == 3:
        features = WindowFeatures.fit(rows)
        return [(features.with_shape(False),), (features.with_shape(True),)]
    if rows.ndim > 3:
        return [(Pixels(),)]
    if rows.shape[1] < _MIN_POINTS or not _smooth(rows):
        return [()]
    signal = Signal()
    return [(), (signal, WindowFeatures.fit(signal(rows)))]


def _smooth(rows: Array32) -> bool:
    """Whether neighbouring columns are mostly correlated, as the points of a signal are."""
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    centred = some - some.mean(axis=0)
    width = np.sqrt(np.square(centred).mean(axis=0))
    correlation = (centred[:, 1:] * centred[:, :-1]).mean(axis=0) / np.maximum(width[1:] * width[:-1], 1e-300)
    return bool(np.median(correlation) >= _SMOOTH)


def apply_transforms(transforms: Transforms, s: Array32, q: Array32) -> Arrays:
    """Both inputs after their steps."""
    found = []
    for steps, rows in zip(transforms, (s, q), strict=True):
        for step in steps:
            rows = step(rows)
        found.append(rows)
    return found[0], found[1]


def describe_transforms(transforms: Transforms) -> str:
    """The transforms in words; empty if there are none.

    >>> describe_transforms(((Pixels(),), ())), describe_transforms(NO_TRANSFORMS)
    ('transformed: s to pixels one by one', '')
    """
    sides = [
        f"{name} to {', '.join(step.description for step in steps)}"
        for name, steps in zip("sq", transforms, strict=True)
        if steps
    ]
    return f"transformed: {'; '.join(sides)}" if sides else ""


def transforms_to_list(transforms: Transforms) -> list[list[dict[str, Any]]]:
    """Plain data for JSON."""
    return [[step.to_dict() for step in steps] for steps in transforms]


def transforms_from_list(data: Sequence[Sequence[dict[str, Any]]]) -> Transforms:
    """The inverse of :func:`transforms_to_list`."""
    kinds: dict[str, Any] = {
        "digest": WindowFeatures,
        "pixels": Pixels,
        "signal": Signal,
        "logs": LogColumns,
        "codes": OneHotColumns,
    }
    own = [tuple(kinds[step["kind"]].from_dict(step) for step in steps) for steps in data]
    return own[0], own[1]


def _with_step(
    fit: Callable[[Array32], LogColumns | OneHotColumns | None], candidates: list[Transformed]
) -> list[Transformed]:
    """These transforms, followed by the same with one step more, where some column may gain from it."""
    more: list[Transformed] = []
    for transforms, arrays in candidates:
        steps = [fit(x) for x in arrays]
        if any(step is not None for step in steps):
            own = [
                before if step is None else (*before, step)
                for before, step in zip(transforms, steps, strict=True)
            ]
            shown = [x if step is None else step(x) for step, x in zip(steps, arrays, strict=True)]
            more.append(((own[0], own[1]), (shown[0], shown[1])))
    return candidates + more
