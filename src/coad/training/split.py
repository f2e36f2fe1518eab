"""Which rows are held out for validation: at random, by group, or the last block in time."""

from __future__ import annotations

from typing import Literal

import numpy as np

from coad._typing import ArrayLike, IntArray
from coad.exceptions import InputError

__all__ = ["Split", "hold_out"]

Split = Literal["random", "group", "time"]


def hold_out(
    n: int, fraction: float, how: Split, labels: ArrayLike | None, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """(training rows, validation rows), each in ascending order.

    ``labels`` are the groups (``how="group"``: a group is never on both sides) or the times
    (``how="time"``: the latest rows are held out; without times the rows are taken in order).

    >>> hold_out(5, 0.4, "time", None, np.random.default_rng(0))[1]
    array([3, 4])
    """
    if not 0.0 < fraction < 1.0:
        raise InputError(f"validation must be a fraction between 0 and 1, not {fraction!r}")
    wanted = max(1, round(n * fraction))
    if how == "random":
        held = rng.permutation(n)[:wanted]
    elif how == "time":
        when = np.arange(n) if labels is None else _labels(labels, n, "time")
        held = np.argsort(when, kind="stable")[n - wanted :]
    elif how == "group":
        if labels is None:
            raise InputError("split='group' needs group=: the label of each row's group")
        values, code, size = np.unique(_labels(labels, n, "group"), return_inverse=True, return_counts=True)
        if len(values) < 2:
            raise InputError("split='group' needs at least two groups")
        order = rng.permutation(len(values))
        count = int(np.searchsorted(np.cumsum(size[order]), wanted)) + 1
        held = np.flatnonzero(np.isin(code, order[: min(count, len(values) - 1)]))
    else:
        raise InputError(f"split must be 'random', 'group' or 'time', not {how!r}")
    mask = np.zeros(n, dtype=bool)
    mask[held] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def _labels(labels: ArrayLike, n: int, name: str) -> np.ndarray:
    array = np.asarray(labels)
    if array.shape != (n,):
        raise InputError(f"{name} has shape {array.shape}, but there are {n:,} rows")
    return array
