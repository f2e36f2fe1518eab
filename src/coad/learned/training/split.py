"""Which rows are held out for validation (random, by group, the latest), and which repeat the row before.

Rows are taken to be in time order. Where neighbouring rows are alike in both inputs, a network recognises a held-out
row by its neighbours in training, and "validates" what it has memorised. So stretches of rows are held out, which are
longer than the inputs remember, with a gap on both sides. Groups may be pieces of one slow series too: consecutive ones
are then held out together, with the same gap.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.runs import find_runs
from coad.exceptions import InputError
from coad.learned.training.inputs import as_groups, as_times

__all__ = [
    "Split",
    "correlation_length",
    "hold_out",
    "in_time_order",
    "join_groups",
    "new_rows",
    "take_turns",
    "widened",
]

Split = Literal["random", "group", "time"]

#: Readings count as repeated if the share of rows that equal the row before exceeds its expectation for shuffled
#: rows by this much.
_REPEATED = 0.3
#: Values that are compared at a time, and values of a sample of rows.
_SOME_VALUES = 4_000_000
#: Rows are alike while the autocorrelation of some column exceeds the first, and the second × its standard error more.
_ALIKE, _NOISE = 0.2, 2.0
#: Rows and columns that the autocorrelation is estimated from; fewer rows if they are long.
_SOME_ROWS, _FEWEST_ROWS, _SOME_COLUMNS = 20_000, 2_000, 16
#: The length of a held-out stretch in correlation lengths: its gaps then cost a tenth of the rows; and the largest gap, as
#: a fraction of the rows for each stretch.
_STRETCH, _WIDEST_GAP = 4, 0.1


def hold_out(
    n: int,
    fraction: float,
    how: Split,
    labels: ArrayLike | None,
    rng: np.random.Generator,
    among: IntArray | None = None,
    memory: int = 0,
) -> tuple[IntArray, IntArray]:
    """Split rows into training and validation rows.

    Parameters
    ----------
    n, fraction
        Number of rows, and the fraction to hold out.
    how
        "random": rows, or stretches of rows if they have a ``memory``; "group": rows with the same group are kept in one
        split, and with a ``memory`` groups that follow each other are held out together; "time": the latest rows are held out.
    labels
        The group or the time of each row; without times, rows are taken in order.
    rng
        Source of random numbers.
    among
        Use only these rows, in this order.
    memory
        The :func:`correlation_length` of the rows; rows so close to a held-out stretch are in neither part.

    Returns
    -------
    train, validation
        Row numbers, in the order of the rows.

    >>> hold_out(5, 0.4, "time", None, np.random.default_rng(0))[1]
    array([3, 4])
    """
    known = as_groups(labels, n) if how == "group" else as_times(labels, n)
    if among is not None:
        own = None if known is None else known[among]
        train, kept = hold_out(len(among), fraction, how, own, rng, memory=memory)
        return among[train], among[kept]
    wanted = max(1, round(n * fraction))
    if how == "random" and memory:
        stretches = _stretches(wanted, memory)
        period, length = n / stretches, wanted / stretches
        gap = min(memory, _WIDEST_GAP * period, (period - length) / 4)
        place = (np.arange(n) + rng.integers(n)) % period
        used = (place >= length + gap) & (place < period - gap)
        return np.flatnonzero(used), np.flatnonzero(place < length)
    if how == "random":
        held = rng.permutation(n)[:wanted]
    elif how == "time":
        order = in_time_order(np.arange(n), known)
        gap = min(memory, round(_WIDEST_GAP * n), (n - wanted) // 2)
        return np.sort(order[: n - wanted - gap]), np.sort(order[n - wanted :])
    else:
        if known is None:
            raise InputError("split='group' needs group=: the label of each row's group")
        return _hold_out_groups(known, wanted, memory, rng)
    mask = np.zeros(n, dtype=bool)
    mask[held] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def _stretches(wanted: int, memory: int) -> int:
    """The number of stretches that so many held-out rows are in."""
    return max(1, round(wanted / (_STRETCH * memory)))


def _hold_out_groups(
    group: NDArray[Any], wanted: int, memory: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Hold out random groups of at least so many rows; rows are in time order if they have a ``memory``."""
    n = len(group)
    code, size = np.unique(group, return_inverse=True, return_counts=True)[1:]
    if len(size) < 2:
        raise InputError("split='group' needs at least two groups")
    turns = memory > 0 and take_turns(group)
    if turns:
        wanted = min(2 * wanted, n // 2)  # see below: rows of one half of the time are validated
    elif memory:
        # There remain two blocks: the middles of the first and of the last group are half of the rows apart.
        code = join_groups(group, min(wanted / _stretches(wanted, memory), n / 2))
        size = np.bincount(code)
    order = rng.permutation(len(size))
    count = min(int(np.searchsorted(np.cumsum(size[order]), wanted)) + 1, len(size) - 1)
    held = np.isin(code, order[:count])
    train = ~held
    if turns:
        # Rows of other groups are next to all that is held out: train on the others in one half of the time, and
        # validate on the groups held out in the other half.
        early = np.arange(n) < n // 2
        gap = min(memory, round(_WIDEST_GAP * n))
        options = [(train & ~widened(half, gap), held & half) for half in (early, ~early)]
        train, held = max(options, key=lambda parts: min(map(np.count_nonzero, parts)))
    elif memory:
        runs = len(find_runs(held).first)
        gap = int(min(memory, _WIDEST_GAP * n / runs, np.count_nonzero(train) / (4 * runs)))
        train = ~widened(held, gap)
    return np.flatnonzero(train), np.flatnonzero(held)


def take_turns(group: NDArray[Any]) -> bool:
    """Whether groups come back after others, for rows in time order.

    >>> take_turns(np.array([5, 5, 2, 2])), take_turns(np.array([5, 2, 2, 5]))
    (False, True)
    """
    return bool(np.count_nonzero(group[1:] != group[:-1]) >= len(np.unique(group)))


def join_groups(group: NDArray[Any], length: float) -> IntArray:
    """The block of each row, of rows in time order: groups that follow each other are joined to about ``length`` rows.

    >>> join_groups(np.array([7, 7, 5, 5, 6, 6, 8, 8]), 4).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    code, size = np.unique(group, return_inverse=True, return_counts=True)[1:]
    order = np.argsort(np.bincount(code, np.arange(len(code))) / size)  # by the mean place of their rows
    middle = np.empty(len(size))
    middle[order] = np.cumsum(size[order]) - size[order] / 2
    return np.unique((middle // length)[code], return_inverse=True)[1]


def widened(mask: BoolArray, gap: int) -> BoolArray:
    """The rows of a mask (the last axis), and so many rows on both sides of them.

    >>> widened(np.array([False, False, False, True, False]), 1).astype(int).tolist()
    [0, 0, 1, 1, 1]
    """
    wide = maximum_filter1d(mask.astype(np.uint8), 2 * gap + 1, mode="constant")
    return np.asarray(wide, dtype=np.bool_)


def in_time_order(rows: IntArray, time: NDArray[Any] | None) -> IntArray:
    """The rows in the order of their ``time``; as they are without.

    >>> in_time_order(np.array([0, 2, 3]), np.array([5.0, 0.0, 1.0, 3.0])).tolist()
    [2, 3, 0]
    """
    return rows if time is None else rows[np.argsort(time[rows], kind="stable")]


def correlation_length(
    s: NDArray[Any], q: NDArray[Any], order: IntArray | None = None, code: IntArray | None = None
) -> int:
    """The number of rows over which both inputs stay alike, in this order; 0 if neighbouring rows are independent.

    It is where the autocorrelation of every column (also of its deviation from the median) has fallen in one input.
    Of each value only the side of the median counts: rare events that last for many rows, or are sorted, are no slow input.
    With context (``code``, the stratum of each row), columns are taken less their mean in it.

    >>> walk = np.random.default_rng(0).normal(size=(2, 2000, 1)).cumsum(1)
    >>> noise = np.random.default_rng(1).normal(size=(2000, 1))
    >>> correlation_length(*walk) > 100, correlation_length(walk[0], noise)
    (True, 0)
    """
    order = np.arange(len(s)) if order is None else order
    code = np.zeros(len(s), dtype=np.int64) if code is None else code
    most = max(_FEWEST_ROWS, min(_SOME_ROWS, _SOME_VALUES // (s[:1].size + q[:1].size)))
    step = max(1, len(order) // most)
    samples = [(1, order[:most])] + [(step, order[::step])] * (step > 1)
    found = 0
    for spacing, rows in samples:
        both = np.minimum(_autocorrelation(s[rows], code[rows]), _autocorrelation(q[rows], code[rows]))
        least = _ALIKE + _NOISE / np.sqrt(len(rows))
        found = max(found, spacing * (int(np.argmax(np.append(both, -1.0) < least)) - 1))
    return found


def _autocorrelation(x: NDArray[Any], code: IntArray) -> FloatArray:
    """The largest autocorrelation of any column at each lag, (n,); rows of many values also by their mean and spread."""
    flat = x.reshape(len(x), -1)
    some = np.unique(np.linspace(0, flat.shape[1] - 1, _SOME_COLUMNS).round().astype(np.int64))
    values = flat[:, some].astype(np.float64)
    if x.ndim > 2:  # windows that share samples are alike, whatever their columns
        values = np.column_stack([values, flat.mean(1), flat.std(1)])
    size = np.maximum(np.bincount(code), 1)
    values -= np.stack([(np.bincount(code, one) / size)[code] for one in values.T], axis=1)
    values = np.concatenate([values, np.abs(values - np.median(values, axis=0))], axis=1)
    values = (values > np.median(values, axis=0)).astype(np.float64)
    values -= values.mean(0)
    power = np.square(np.abs(np.fft.rfft(values, 2 * len(x), axis=0)))
    found = np.fft.irfft(power, axis=0)[: len(x)]
    return np.asarray((found / np.maximum(found[0], 1e-300)).max(1))


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
