"""Regime or rare: a rule that looks at sizes and, where time is known, at how a mode sits in it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from coad._typing import FloatArray, IntArray

__all__ = ["Role", "assign_roles", "time_isolation"]

Role = Literal["regime", "rare", "ignore"]

#: A rare mode has at most this part of the rows of the mode that a typical row is in.
_SMALL = 1.0 / 3.0
#: A mode that keeps to so much less of the time than a typical mode does, and is small, is an episode.
_ISOLATED = 0.5
#: A mode whose rows would be this far spread over the other modes comes with any of them, and is none of the regimes.
#: On simulated plants: faults in every regime 0.75 and more, other modes 0.53 and less; on digits up to 0.64.
_ANYWHERE = 0.7


def assign_roles(
    size: FloatArray,
    max_rare: float,
    isolation: FloatArray | None = None,
    spread: FloatArray | None = None,
) -> list[tuple[Role, str]]:
    """Role and reason of each mode, from the sizes (fractions of the rows).

    A mode is rare if it has at most ``max_rare`` of the rows and at most a third as many as the mode that a
    typical row is in (the median over rows, not over modes: many small kinds do not make
    each other common). ``isolation`` (0: spread over all time, 1: in one stretch) makes a mode rare
    that is small, but not that small, if the others are not in stretches too. So does ``spread``
    (:func:`~coad.modes.spread.spread_of_modes`): where there are many regimes, a fault that comes with all
    of them may have more rows than each.

    >>> [role for role, _ in assign_roles(np.array([0.5, 0.3, 0.15, 0.02]), 0.1)]
    ['regime', 'regime', 'regime', 'rare']
    """
    found: list[tuple[Role, str]] = []
    typical = _typical(size)
    usual = 0.0 if isolation is None else float(np.median(isolation))
    for k, part in enumerate(size):
        if part > max_rare:
            found.append(("regime", f"{part:.1%} of the rows, more than max_rare = {max_rare:g}"))
        elif part <= _SMALL * typical:
            times = typical / max(float(part), 1e-12)
            found.append(
                ("rare", f"{part:.2%} of the rows; a typical row's mode has {times:.1f} times as many")
            )
        elif isolation is not None and isolation[k] - usual >= _ISOLATED and part < typical:
            found.append(("rare", f"{part:.2%} of the rows, in few stretches of time"))
        elif spread is not None and spread[k] >= _ANYWHERE:
            found.append(("rare", f"{part:.2%} of the rows, which come with any of the other modes"))
        else:
            found.append(("regime", f"{part:.2%} of the rows, over a third of a typical row's mode"))
    return found


def time_isolation(label: IntArray, order: IntArray, modes: int, blocks: int = 50) -> FloatArray:
    """1 − the part of the time (in blocks of equally many rows) in which a mode is at home.

    At home: the blocks that are needed to hold 90 % of its rows.
    """
    n = len(label)
    where = np.empty(n, dtype=np.int64)
    where[order] = np.arange(n) * blocks // max(n, 1)
    out = np.zeros(modes)
    for k in range(modes):
        counts = np.sort(np.bincount(where[label == k], minlength=blocks))[::-1]
        total = counts.sum()
        if total >= blocks // 5:
            needed = int(np.searchsorted(np.cumsum(counts), 0.9 * total)) + 1
            out[k] = 1.0 - needed / min(blocks, total)
    return out


def _typical(size: FloatArray) -> float:
    """The size of the mode that the median row is in.

    >>> float(_typical(np.array([0.3, 0.02, 0.02, 0.02, 0.25])))
    0.25
    """
    if len(size) == 0:
        return 0.0
    ascending = np.sort(size)
    return float(ascending[np.searchsorted(np.cumsum(ascending), 0.5 * ascending.sum())])
