"""Regime or rare: rules on the sizes of modes, on groups of variants and, if time is known, on isolation in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from coad._typing import FloatArray, IntArray

__all__ = [
    "Role",
    "assign_roles",
    "dispersion_beside_regimes",
    "gap_in_sizes",
    "roles_by_variant_group",
    "time_isolation",
]

Role = Literal["regime", "rare", "ignore"]

#: A rare mode has at most this fraction of the rows of a typical row's mode.
_SMALL = 1.0 / 3.0
#: A size gap separates rare modes from regimes if the ratio of sizes is at least the first, its logarithm at least the
#: second × that of the next gap, and at least the third × the standard error of two counts.
_GAP, _WIDEST, _SURE = 1.5, 2.0, 4.0
#: Modes below a size gap have at most this fraction of the rows together: if many rows lie there, the large modes stand out.
_TOGETHER = 0.25
#: Modes of fewer rows than this make no gap: their counts are noise.
_COUNTED = 5
#: A small mode whose time isolation exceeds the median by this is an episode: half of all time blocks.
_ISOLATED = 0.5
#: Dispersion from which a mode occurs in any regime, so is none. On simulated plants: faults in every regime 0.75 and
#: more, other modes 0.53 and less; on digits up to 0.64.
_ANYWHERE = 0.7
#: Small variants are common if at least so many groups have some, and this fraction of the groups that are not rare. Set
#: by the labels of ten sets of digits (3 to 5 of about 9 groups have some); on simulated plants and the hydraulic rig,
#: where small modes are faults, the rule never applies.
_COMMON, _COMMON_PART = 3, 1.0 / 3.0


def assign_roles(
    size: FloatArray,
    max_rare: float,
    isolation: FloatArray | None = None,
    dispersion: FloatArray | None = None,
    rows: int | None = None,
) -> list[tuple[Role, str]]:
    """Role of each mode and the reason for it.

    Parameters
    ----------
    size : array
        Sizes as fractions of the rows.
    max_rare : float
        A mode above this size is a regime.
    isolation : array, optional
        0 (at all times) to 1 (in one stretch of time), see :func:`time_isolation`. A mode below the typical size that is
        much more isolated than the others is rare.
    dispersion : array, optional
        See :func:`~coad.modes.dispersion.mode_dispersion`. A mode that occurs in every regime is rare, also if each
        regime is smaller than it.
    rows : int, optional
        The number of rows, to look for a size gap (:func:`gap_in_sizes`): modes below it are rare. Without a gap, modes
        of at most a third of the size of a typical row's mode are (the median over rows, not over modes, so that many
        small kinds do not make each other typical).

    >>> [role for role, _ in assign_roles(np.array([0.5, 0.3, 0.15, 0.02]), 0.1)]
    ['regime', 'regime', 'regime', 'rare']
    """
    found: list[tuple[Role, str]] = []
    typical = _typical(size)
    median_isolation = 0.0 if isolation is None else float(np.median(isolation))
    gap = None if rows is None else gap_in_sizes(size, max_rare, rows)
    for k, part in enumerate(size):
        if part > max_rare:
            found.append(("regime", f"larger than max_rare = {max_rare:g} of the rows"))
        elif gap is not None and part <= gap[0]:
            times = gap[1] / max(float(part), 1e-12)
            found.append(
                ("rare", f"the next mode, above a gap in the sizes, has {times:.1f} times as many rows")
            )
        elif gap is None and part <= _SMALL * typical:
            times = typical / max(float(part), 1e-12)
            found.append(("rare", f"a typical row's mode has {times:.1f} times as many rows"))
        elif isolation is not None and isolation[k] - median_isolation >= _ISOLATED and part < typical:
            found.append(("rare", "it occurs in few stretches of time"))
        elif dispersion is not None and dispersion[k] >= _ANYWHERE and part > _SMALL * typical:
            found.append(("rare", "it occurs in every regime"))
        elif gap is not None:
            found.append(("regime", f"above the gap in the sizes, which starts at {gap[0]:.2%} of the rows"))
        else:
            found.append(("regime", "more than a third of the rows of a typical row's mode"))
    return found


def gap_in_sizes(size: FloatArray, max_rare: float, rows: int) -> tuple[float, float] | None:
    """The sizes below and above the one wide gap among modes that may be rare; None if no gap stands out.

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


def roles_by_variant_group(
    roles: Sequence[tuple[Role, str]],
    size: FloatArray,
    group: IntArray,
    max_rare: float,
    isolation: FloatArray | None = None,
    dispersion: FloatArray | None = None,
    number: IntArray | None = None,
    rows: int | None = None,
    common: int = _COMMON,
) -> list[tuple[Role, str]]:
    """Roles in which small variants of larger modes are not rare, if variants are common and a whole group is rare.

    ``group`` is the variant group of each mode. A small mode of a group that is not small is a variant. If few groups
    have one, it stays rare, as a fault in one regime does. If at least ``common`` groups do (every digit has a rare way
    of writing) and a whole group is rare by the rule for modes, only that group is. ``common`` = 0 is for groups by
    density dips, where a variant is a piece of a mode: then a gap in the sizes of the groups must stand out.
    Modes that are rare by isolation or dispersion stay rare. ``number`` are the modes' own numbers, for the reason.

    >>> size = np.array([0.28, 0.02, 0.28, 0.02, 0.28, 0.02, 0.1])
    >>> roles = assign_roles(size, 0.1)
    >>> [role for role, _ in roles]
    ['regime', 'rare', 'regime', 'rare', 'regime', 'rare', 'regime']
    >>> [role for role, _ in roles_by_variant_group(roles, size, np.array([0, 0, 1, 1, 2, 2, 3]), 0.1)]
    ['regime', 'regime', 'regime', 'regime', 'regime', 'regime', 'rare']
    """
    whole: FloatArray = np.bincount(group, weights=size).astype(np.float64)
    typical = _typical(whole)
    gap = None if rows is None else gap_in_sizes(whole, max_rare, rows)
    rare_group = (whole <= min(max_rare, _SMALL * typical if gap is None else gap[0]))[group]
    variant = np.array([role == "rare" for role, _ in roles], dtype=bool) & ~rare_group
    if isolation is not None:
        variant &= isolation - np.median(isolation) < _ISOLATED
    if dispersion is not None:
        variant &= dispersion < _ANYWHERE
    having, large = len(np.unique(group[variant])), len(np.unique(group[~rare_group]))
    clear = having >= max(common, _COMMON_PART * large) if common else gap is not None
    if not rare_group.any() or not clear:
        return list(roles)
    found = list(roles)
    for k in np.flatnonzero(rare_group):
        times = typical / max(float(whole[group[k]]), 1e-12)
        found[k] = (
            "rare",
            f"unlike all others; a typical row's group of variants has {times:.1f} times as many rows",
        )
    for k in np.flatnonzero(variant):
        largest = int(np.where(group == group[k], size, 0.0).argmax())
        name = largest if number is None else number[largest]
        why = f"{having} of {large} groups have variants" if common else "no clear density dip between them"
        what = (
            f"a variant of mode {name}"
            if largest != k
            else f"with its variants {whole[group[k]]:.1%} of the rows"
        )
        found[k] = ("regime", f"{what}; {why}")
    return found


def dispersion_beside_regimes(
    roles: Sequence[tuple[Role, str]], group: IntArray, dispersion: FloatArray, agreed: FloatArray
) -> FloatArray:
    """The dispersion that keeps a mode from being a variant, of the two that
    :func:`~coad.modes.dispersion.mode_dispersion` returns.

    Modes in a group with a regime have the first. In a group of small modes only, each would be dispersed without the
    others, so s and q must agree on the reassignment: the second.

    >>> roles = [("regime", ""), ("rare", ""), ("rare", ""), ("rare", "")]
    >>> dispersion_beside_regimes(roles, np.array([0, 0, 1, 1]), np.full(4, 0.9), np.zeros(4)).tolist()
    [0.9, 0.9, 0.0, 0.0]
    """
    regimes = [role == "regime" for role, _ in roles]
    return np.asarray(np.where(np.isin(group, group[regimes]), dispersion, agreed))


def time_isolation(label: IntArray, order: IntArray, modes: int, blocks: int = 50) -> FloatArray:
    """1 − the fraction of time blocks (of equally many rows) that hold 90 % of a mode's rows; ``order`` sorts by time."""
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
