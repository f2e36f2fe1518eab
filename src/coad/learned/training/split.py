"""Which rows are held out for validation (random, by group, the latest), and which repeat the row before."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, IntArray
from coad.exceptions import InputError
from coad.learned.training.inputs import as_groups, as_times

__all__ = ["Split", "hold_out", "new_rows"]

Split = Literal["random", "group", "time"]

#: Readings count as repeated if the share of rows that equal the row before exceeds its expectation for shuffled
#: rows by this much.
_REPEATED = 0.3
#: Values that are compared at a time, and values of the sample that this expectation is estimated from.
_SOME_VALUES = 4_000_000


def hold_out(
    n: int,
    fraction: float,
    how: Split,
    labels: ArrayLike | None,
    rng: np.random.Generator,
    among: IntArray | None = None,
) -> tuple[IntArray, IntArray]:
    """Split rows into training and validation rows.

    Parameters
    ----------
    n, fraction
        Number of rows, and the fraction to hold out.
    how
        "random"; "group": rows with the same group are kept in one split; "time": the latest rows are held out.
    labels
        The group or the time of each row; without times, rows are taken in order.
    rng
        Source of random numbers.
    among
        Use only these rows.

    Returns
    -------
    train, validation
        Row numbers, ascending.

    >>> hold_out(5, 0.4, "time", None, np.random.default_rng(0))[1]
    array([3, 4])
    """
    known = as_groups(labels, n) if how == "group" else as_times(labels, n)
    if among is not None:
        train, kept = hold_out(len(among), fraction, how, None if known is None else known[among], rng)
        return among[train], among[kept]
    wanted = max(1, round(n * fraction))
    if how == "random":
        held = rng.permutation(n)[:wanted]
    elif how == "time":
        when = np.arange(n) if known is None else known
        held = np.argsort(when, kind="stable")[n - wanted :]
    else:
        if known is None:
            raise InputError("split='group' needs group=: the label of each row's group")
        values, code, size = np.unique(known, return_inverse=True, return_counts=True)
        if len(values) < 2:
            raise InputError("split='group' needs at least two groups")
        order = rng.permutation(len(values))
        count = int(np.searchsorted(np.cumsum(size[order]), wanted)) + 1
        held = np.flatnonzero(np.isin(code, order[: min(count, len(values) - 1)]))
    mask = np.zeros(n, dtype=bool)
    mask[held] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def new_rows(s: NDArray[Any], q: NDArray[Any]) -> BoolArray | None:
    """Which rows are new readings, if many rows repeat the row before in both inputs; None if few do.

    A table that is written faster than its sensors are read repeats rows. The repeats are not evidence: a pair of
    noise values that occurs many times looks like a coincidence. Rows with few distinct values (codes, zeros) are equal
    in any order; this is no sign of repeated readings.

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 4, 3)).repeat(3, axis=1)
    >>> new_rows(s, q).tolist() == [True, False, False] * 4, new_rows(s[::3], q[::3]) is None
    (True, True)
    """
    width = sum(int(np.prod(x.shape[1:])) for x in (s, q))
    first = [_first_values(x) for x in (s, q)]
    same = np.append(False, np.logical_and(*(x[1:] == x[:-1] for x in first)))
    if same.mean() <= _REPEATED:
        return None
    block = max(2, _SOME_VALUES // width)
    for start in range(1, len(same), block):
        stop = min(start + block, len(same))
        for x in (s, q):
            same[start:stop] &= (x[start:stop] == x[start - 1 : stop - 1]).reshape(stop - start, -1).all(1)
    some = slice(None, None, max(1, len(same) * width // _SOME_VALUES))
    both = np.concatenate([x[some].reshape(len(x[some]), -1) for x in (s, q)], axis=1)
    count = np.unique(both.view((np.void, both.itemsize * width)), return_counts=True)[1]
    expected = float(np.square(count / count.sum()).sum())
    return ~same if same.mean() - expected > _REPEATED else None


def _first_values(x: NDArray[Any]) -> NDArray[Any]:
    """The first value of each row, without reading the others."""
    while x.ndim > 1:
        x = x[:, 0]
    return x
