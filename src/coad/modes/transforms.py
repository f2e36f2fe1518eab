"""Transforms of the rows before they are scaled.

Rows stay as they are, or windows become window features, columns that span decades their logarithm, and codes one-hot
columns. :mod:`coad.modes.selection` chooses by information on held-out rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.modes.column_transforms import LogColumns, OneHotColumns
from coad.modes.window_features import WindowFeatures

__all__ = [
    "NO_TRANSFORMS",
    "InputTransform",
    "Steps",
    "Transforms",
    "apply_steps",
    "candidate_steps",
    "describe_transforms",
    "fit_steps",
    "transforms_from_list",
    "transforms_to_list",
]

Array32 = NDArray[np.float32]


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


#: The fitted steps for one input, in order; those for both inputs; and the names of the steps for each.
InputTransform = tuple[WindowFeatures | Pixels | Signal | LogColumns | OneHotColumns, ...]
Transforms = tuple[InputTransform, InputTransform]
Steps = tuple[tuple[str, ...], tuple[str, ...]]

NO_TRANSFORMS: Transforms = ((), ())
#: Images with more values than this go to convolutions: as many hidden units as pixels would learn them by heart.
_SMALL_IMAGE = 256
#: Flat rows may be signals if they have this many columns and neighbouring ones are mostly correlated (above 0.5).
_MIN_POINTS = 64
#: Rows that this correlation is estimated from.
_SAMPLE = 5_000


def candidate_steps(s: Array32, q: Array32, net: Any) -> list[list[Steps]]:
    """Lists of steps to choose from, the simplest first; a list is used only if nothing coincides with the one before.

    If the user gave a ``net``, or for images that are not small, rows stay as they are.
    """
    as_they_are: Steps = ((), ())
    if net is not None or any(x.ndim > 3 and math.prod(x.shape[1:]) > _SMALL_IMAGE for x in (s, q)):
        return [[as_they_are]]
    ways = [_flat_steps(s), _flat_steps(q)]
    pairs: list[Steps] = [
        (ways[0][min(i, len(ways[0]) - 1)], ways[1][min(i, len(ways[1]) - 1)])
        for i in range(max(map(len, ways)))
    ]
    for name in ("logs", "codes"):
        pairs += [((*one, name), (*other, name)) for one, other in pairs]
    flat = all(x.ndim == 2 for x in (s, q))
    return [pairs] if flat else [pairs, [as_they_are]]


def _flat_steps(rows: Array32) -> list[tuple[str, ...]]:
    """The ways to make flat rows of one input, the simplest first."""
    if rows.ndim == 3:
        return [("windows",), ("windows with shape",)]
    if rows.ndim > 3:
        return [("pixels",)]
    if rows.shape[1] < _MIN_POINTS or not _smooth(rows):
        return [()]
    return [(), ("signal", "windows")]


def _smooth(rows: Array32) -> bool:
    """Whether neighbouring columns are mostly correlated, as the points of a signal are."""
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    centred = some - some.mean(axis=0)
    width = np.sqrt(np.square(centred).mean(axis=0))
    correlation = (centred[:, 1:] * centred[:, :-1]).mean(axis=0) / np.maximum(width[1:] * width[:-1], 1e-300)
    return bool(np.median(correlation) >= 0.5)


def fit_steps(names: Sequence[str], rows: Array32) -> InputTransform:
    """The named steps fitted on these rows; logarithms and codes are left out where no column calls for them.

    >>> x = np.random.default_rng(0).normal(size=(50, 1, 32)).astype(np.float32)
    >>> [type(step).__name__ for step in fit_steps(("windows", "codes"), x)]
    ['WindowFeatures']
    """
    fitted: list[Any] = []
    for name in names:
        step: Any
        if name.startswith("windows"):
            step = WindowFeatures.fit(rows).with_shape(name.endswith("shape"))
        elif name in ("pixels", "signal"):
            step = Pixels() if name == "pixels" else Signal()
        else:
            step = LogColumns.fit(rows) if name == "logs" else OneHotColumns.fit(rows)
        if step is not None:
            fitted.append(step)
            rows = step(rows)
    return tuple(fitted)


def apply_steps(steps: InputTransform, rows: Array32) -> Array32:
    """Rows of one input after its steps."""
    for step in steps:
        rows = step(rows)
    return rows


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
