"""How a fit looks at rows before they are scaled.

As they are, or windows in few numbers, columns that span decades by their logarithm, codes by a column for each value.
Which look suits the data is asked of rows held out (:func:`coad.modes.front.choose_front`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.modes.codes import Codes
from coad.modes.digest import Digest
from coad.modes.logs import Logs

__all__ = [
    "AS_THEY_ARE",
    "Arrays",
    "Look",
    "Seen",
    "Transforms",
    "transformed",
    "transforms_for",
    "transforms_from_list",
    "transforms_in_words",
    "transforms_to_list",
]

Array32 = NDArray[np.float32]
Arrays = tuple[Array32, Array32]


@dataclass(frozen=True)
class Pixels:
    """Small images (n, channels, height, width) as lists of pixels: convolutions have no room in them."""

    words = "pixels one by one"

    def __call__(self, rows: Array32) -> Array32:
        return rows.reshape(len(rows), -1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "pixels"}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Pixels:
        """The inverse of :meth:`to_dict`."""
        return cls()


@dataclass(frozen=True)
class Signal:
    """Flat rows (n, points) as windows of one channel."""

    words = "rows as signals"

    def __call__(self, rows: Array32) -> Array32:
        return rows[:, None, :]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "signal"}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Signal:
        """The inverse of :meth:`to_dict`."""
        return cls()


#: What is done with the rows of one input, in turn, and with those of both.
Look = tuple[Digest | Pixels | Signal | Logs | Codes, ...]
Transforms = tuple[Look, Look]
Seen = tuple[Transforms, Arrays]

AS_THEY_ARE: Transforms = ((), ())
#: Images with more values than this are seen by convolutions.
_SMALL = 256
#: Flat rows may be signals if they have so many columns, and neighbouring ones go along with each other like this.
_POINTS, _SMOOTH = 64, 0.5
_MOST_ROWS = 5_000


def transforms_for(s: Array32, q: Array32, net: Any) -> list[list[Seen]]:
    """Transforms to choose from and what they show, the simplest first; if these are no clear modes, the next list is for trying.

    Networks of one's own see the rows as they are, and so do those of images that are not small.
    """
    as_they_are: Seen = AS_THEY_ARE, (s, q)
    if net is not None or any(x.ndim > 3 and math.prod(x.shape[1:]) > _SMALL for x in (s, q)):
        return [[as_they_are]]
    ways_s, ways_q = _ways(s), _ways(q)
    looks = [
        (ways_s[min(i, len(ways_s) - 1)], ways_q[min(i, len(ways_q) - 1)])
        for i in range(max(len(ways_s), len(ways_q)))
    ]
    seen = [(one, transformed(one, s, q)) for one in looks]
    seen = _with(Codes.fit, _with(Logs.fit, seen))
    return [seen] if looks[0] == AS_THEY_ARE else [seen, [as_they_are]]


def _ways(rows: Array32) -> list[Look]:
    """The ways to look at one input as flat rows, the simplest first."""
    if rows.ndim == 3:
        digest = Digest.fit(rows)
        return [(digest.with_shape(False),), (digest.with_shape(True),)]
    if rows.ndim > 3:
        return [(Pixels(),)]
    if rows.shape[1] < _POINTS or not _smooth(rows):
        return [()]
    signal = Signal()
    return [(), (signal, Digest.fit(signal(rows)))]


def _smooth(rows: Array32) -> bool:
    """Whether neighbouring columns mostly go along with each other, as the points of a signal do."""
    some = rows[:: max(1, len(rows) // _MOST_ROWS)].astype(np.float64)
    away = some - some.mean(axis=0)
    width = np.sqrt(np.square(away).mean(axis=0))
    along = (away[:, 1:] * away[:, :-1]).mean(axis=0) / np.maximum(width[1:] * width[:-1], 1e-300)
    return bool(np.median(along) >= _SMOOTH)


def transformed(looks: Transforms, s: Array32, q: Array32) -> Arrays:
    """Both inputs, as they are looked at."""
    found = []
    for look, rows in zip(looks, (s, q), strict=True):
        for step in look:
            rows = step(rows)
        found.append(rows)
    return found[0], found[1]


def transforms_in_words(looks: Transforms) -> str:
    """What is looked at, for people; nothing to say of rows as they are.

    >>> transforms_in_words(((Pixels(),), ())), transforms_in_words(AS_THEY_ARE)
    ('looked at: s by pixels one by one', '')
    """
    sides = [
        f"{name} by {', '.join(step.words for step in look)}"
        for name, look in zip("sq", looks, strict=True)
        if look
    ]
    return f"looked at: {'; '.join(sides)}" if sides else ""


def transforms_to_list(looks: Transforms) -> list[list[dict[str, Any]]]:
    """Plain data for JSON."""
    return [[step.to_dict() for step in look] for look in looks]


def transforms_from_list(data: Sequence[Sequence[dict[str, Any]]]) -> Transforms:
    """The inverse of :func:`transforms_to_list`."""
    kinds: dict[str, Any] = {
        "digest": Digest,
        "pixels": Pixels,
        "signal": Signal,
        "logs": Logs,
        "codes": Codes,
    }
    own = [tuple(kinds[step["kind"]].from_dict(step) for step in look) for look in data]
    return own[0], own[1]


def _with(fit: Callable[[Array32], Logs | Codes | None], seen: list[Seen]) -> list[Seen]:
    """These looks, and behind them the same with one step more, where some column may gain from it."""
    more: list[Seen] = []
    for looks, arrays in seen:
        steps = [fit(x) for x in arrays]
        if any(step is not None for step in steps):
            own = [look if step is None else (*look, step) for look, step in zip(looks, steps, strict=True)]
            shown = [x if step is None else step(x) for step, x in zip(steps, arrays, strict=True)]
            more.append(((own[0], own[1]), (shown[0], shown[1])))
    return seen + more
