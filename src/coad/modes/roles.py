"""Regime or rare: a rule that looks at sizes, at families and, where time is known, at how a mode sits in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from coad._typing import FloatArray, IntArray

__all__ = [
    "Role",
    "assign_roles",
    "gap_in_sizes",
    "roles_by_family",
    "spread_beside_regimes",
    "time_isolation",
]

Role = Literal["regime", "rare", "ignore"]

#: A rare mode has at most this part of the rows of the mode that a typical row is in.
_SMALL = 1.0 / 3.0
#: A gap in the sizes parts rare modes from regimes if those above have this many times as many rows, if it is so many
#: times as wide (in logarithms) as the next one among modes that may be rare, and so many standard errors of two counts.
_GAP, _WIDEST, _SURE = 1.5, 2.0, 4.0
#: What lies below a gap has at most this part of the rows together.
_TOGETHER = 0.25
#: Modes of fewer rows than this make no gap.
_COUNTED = 5
#: A mode that keeps to so much less of the time than a typical mode does, and is small, is an episode.
_ISOLATED = 0.5
#: A mode whose rows would be this far spread over the other modes comes with any of them, and is none of the regimes.
#: On simulated plants: faults in every regime 0.75 and more, other modes 0.53 and less; on digits up to 0.64.
_ANYWHERE = 0.7
#: Small variants are usual if so many families have some, and this part of the families that are not rare. That the rule
#: is needed was seen by the labels of ten sets of digits (3 to 5 of about 9 families have some); on the simulated plants
#: and the hydraulic rig, where small modes are faults, it never applies: one family has some, or none stands apart.
_USUAL, _USUAL_PART = 3, 1.0 / 3.0


def assign_roles(
    size: FloatArray,
    max_rare: float,
    isolation: FloatArray | None = None,
    spread: FloatArray | None = None,
    rows: int | None = None,
) -> list[tuple[Role, str]]:
    """Role and reason of each mode, from the sizes (fractions of the rows).

    A mode is rare if it has at most ``max_rare`` of the rows and lies below a gap in the sizes (see
    :func:`gap_in_sizes`; asked if the number of ``rows`` is given). Where there is none, it has at most a third
    as many as the mode that a typical row is in (the median over rows, not over modes: many small kinds do not make
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
    gap = None if rows is None else gap_in_sizes(size, max_rare, rows)
    for k, part in enumerate(size):
        if part > max_rare:
            found.append(("regime", f"more of the rows than max_rare = {max_rare:g}"))
        elif gap is not None and part <= gap[0]:
            times = gap[1] / max(float(part), 1e-12)
            found.append(
                ("rare", f"the next mode, above a gap in the sizes, has {times:.1f} times as many rows")
            )
        elif gap is None and part <= _SMALL * typical:
            times = typical / max(float(part), 1e-12)
            found.append(("rare", f"a typical row's mode has {times:.1f} times as many rows"))
        elif isolation is not None and isolation[k] - usual >= _ISOLATED and part < typical:
            found.append(("rare", "in few stretches of time"))
        elif spread is not None and spread[k] >= _ANYWHERE and part > _SMALL * typical:
            found.append(("rare", "its rows come with any of the other modes"))
        elif gap is not None:
            found.append(
                (
                    "regime",
                    f"above the gap in the sizes: below it are at most {gap[0]:.2%} of the rows",
                )
            )
        else:
            found.append(("regime", "over a third of the rows of a typical row's mode"))
    return found


def gap_in_sizes(size: FloatArray, max_rare: float, rows: int) -> tuple[float, float] | None:
    """The sizes on both sides of the one wide gap among modes that may be rare; None if no gap stands out.

    Regimes may be of very different sizes, and many; if one gap is much wider than all others, what lies below is
    another sort of thing, unless many rows lie there: then it is the large modes that stand out.

    >>> gap_in_sizes(np.array([0.05] * 19 + [0.03, 0.02]), 0.1, 10_000) is None
    True
    >>> gap_in_sizes(np.array([0.09] * 7 + [0.37]), 0.1, 5000) is None
    True
    >>> gap_in_sizes(np.array([0.5, 0.24, 0.12, 0.08, 0.05, 0.01]), 0.1, 3000)
    (0.01, 0.05)
    """
    ascending = np.sort(size[size * rows >= _COUNTED])
    below, above = ascending[:-1], ascending[1:]
    may = (below <= max_rare) & (np.cumsum(below) <= _TOGETHER * size.sum())
    if not may.any():
        return None
    below, above = below[may], above[may]
    wide = np.log(above / below)
    first = int(wide.argmax())
    next_widest = float(np.delete(wide, first).max(initial=0.0))
    error = np.sqrt((1.0 / below[first] + 1.0 / above[first]) / rows)
    if wide[first] < max(np.log(_GAP), _WIDEST * next_widest, _SURE * error):
        return None
    return float(below[first]), float(above[first])


def roles_by_family(
    roles: Sequence[tuple[Role, str]],
    size: FloatArray,
    family: IntArray,
    max_rare: float,
    isolation: FloatArray | None = None,
    spread: FloatArray | None = None,
    number: IntArray | None = None,
    rows: int | None = None,
    usual: int = _USUAL,
) -> list[tuple[Role, str]]:
    """Roles in which ways of doing the same are no kinds of their own, if there are many such and a kind stands apart.

    ``family`` is the number of each mode's family (:func:`~coad.modes.families.families`). A small mode of a family that
    is not small is a variant. Where few families have one, it is news, as a fault in one regime is. Where most
    digits are written in a rare way by some, it is not, if a whole family is rare by the rule for modes (below a gap in
    the sizes of families, if ``rows`` are given, or a third of a typical row's family): that one is.
    How many families must have variants is ``usual``; 0 for families that are parted by gaps, where a variant is a piece,
    and where one gap in the sizes must stand out.
    What is rare by its place in time, or would be anywhere if it were not there, stays so. ``number`` are the modes' own, for the reason.

    >>> size = np.array([0.28, 0.02, 0.28, 0.02, 0.28, 0.02, 0.1])
    >>> roles = assign_roles(size, 0.1)
    >>> [role for role, _ in roles]
    ['regime', 'rare', 'regime', 'rare', 'regime', 'rare', 'regime']
    >>> [role for role, _ in roles_by_family(roles, size, np.array([0, 0, 1, 1, 2, 2, 3]), 0.1)]
    ['regime', 'regime', 'regime', 'regime', 'regime', 'regime', 'rare']
    """
    whole: FloatArray = np.bincount(family, weights=size).astype(np.float64)
    typical = _typical(whole)
    gap = None if rows is None else gap_in_sizes(whole, max_rare, rows)
    apart = (whole <= min(max_rare, _SMALL * typical if gap is None else gap[0]))[family]
    variant = np.array([role == "rare" for role, _ in roles], dtype=bool) & ~apart
    if isolation is not None:
        variant &= isolation - np.median(isolation) < _ISOLATED
    if spread is not None:
        variant &= spread < _ANYWHERE
    having, large = len(np.unique(family[variant])), len(np.unique(family[~apart]))
    clear = having >= max(usual, _USUAL_PART * large) if usual else gap is not None
    if not apart.any() or not clear:
        return list(roles)
    found = list(roles)
    for k in np.flatnonzero(apart):
        times = typical / max(float(whole[family[k]]), 1e-12)
        found[k] = (
            "rare",
            f"unlike all others; a typical row's family has {times:.1f} times as many rows",
        )
    for k in np.flatnonzero(variant):
        larger = int(np.where(family == family[k], size, 0.0).argmax())
        name = larger if number is None else number[larger]
        why = f"{having} of {large} families have some" if usual else "hardly any gap lies between them"
        what = (
            f"a variant of mode {name}"
            if larger != k
            else f"with its variants {whole[family[k]]:.1%} of the rows"
        )
        found[k] = ("regime", f"{what}; {why}")
    return found


def spread_beside_regimes(
    roles: Sequence[tuple[Role, str]], family: IntArray, spread: FloatArray, agreed: FloatArray
) -> FloatArray:
    """The spread that keeps a mode from being a piece, of the two that :func:`~coad.modes.spread.spread_of_modes` tells.

    What would be anywhere if it were not there is no piece of the regime beside it. But where a whole family is small
    modes, each would be anywhere without the others; then s and q must agree on where.

    >>> roles = [("regime", ""), ("rare", ""), ("rare", ""), ("rare", "")]
    >>> spread_beside_regimes(roles, np.array([0, 0, 1, 1]), np.full(4, 0.9), np.zeros(4)).tolist()
    [0.9, 0.9, 0.0, 0.0]
    """
    regimes = [role == "regime" for role, _ in roles]
    return np.asarray(np.where(np.isin(family, family[regimes]), spread, agreed))


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
