"""Regime or rare: a rule that looks at sizes and, where time is known, at how a mode sits in it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from coad._typing import FloatArray, IntArray

__all__ = ["Role", "assign_roles", "time_isolation"]

Role = Literal["regime", "rare", "ignore"]

#: A gap: the next larger mode is this many times as large.
GAP = 1.6
#: Rare modes together are never more than this part of the rows.
_MOST = 0.3
#: A mode that lies in stretches of time this much denser than its size, and is small, is an episode.
_ISOLATED = 0.5


def assign_roles(
    size: FloatArray,
    max_rare: float,
    isolation: FloatArray | None = None,
    family: IntArray | None = None,
) -> list[tuple[Role, str]]:
    """Role and reason of each mode, from the sizes (fractions of the rows).

    ``family`` numbers modes that shade into each other (variants of one regime): they are
    judged by their size together, or a variant of a regime would pass for something rare.

    Families up to ``max_rare`` that a gap in the sizes sets apart from all larger ones are
    rare. ``isolation`` (0: spread over all time, 1: in one stretch) makes a small mode rare without
    a gap.

    >>> [role for role, _ in assign_roles(np.array([0.5, 0.3, 0.15, 0.02]), 0.1)]
    ['regime', 'regime', 'regime', 'rare']
    """
    found: list[tuple[Role, str]] = []
    family = np.arange(len(size)) if family is None else family
    whole = np.bincount(family, size).astype(np.float64)
    limit, ratio = _gap(whole[whole > 0], max_rare)
    middle = float(np.median(size)) if len(size) else 0.0
    for k, part in enumerate(size):
        own = float(whole[family[k]])
        kin = int((family == family[k]).sum()) - 1
        small = own <= max_rare
        if kin and not small:
            found.append(("regime", f"{part:.2%} of the rows, a variant: it shades into {kin} other modes"))
            continue
        if small and own < limit:
            found.append(
                ("rare", f"{own:.2%} of the rows; the next larger mode has {ratio:.1f} times as many")
            )
        elif small and isolation is not None and isolation[k] >= _ISOLATED and own <= 0.5 * middle:
            found.append(("rare", f"{own:.2%} of the rows, in few stretches of time"))
        elif small:
            found.append(("regime", f"{own:.2%} of the rows, but no gap sets it apart from larger modes"))
        else:
            found.append(("regime", f"{own:.1%} of the rows, more than max_rare = {max_rare:g}"))
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


def _gap(size: FloatArray, max_rare: float) -> tuple[float, float]:
    """The size below which modes are rare, and the ratio at the gap; (0, 1) if there is none."""
    ascending = np.sort(size)
    best, limit = GAP, 0.0
    for i in range(len(ascending) - 1):
        if ascending[i] > max_rare or ascending[: i + 1].sum() > _MOST:
            break
        ratio = float(ascending[i + 1] / max(ascending[i], 1e-12))
        if ratio >= best:
            best, limit = ratio, float(ascending[i + 1])
    return limit, best
