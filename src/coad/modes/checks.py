"""What a catalogue cannot be made from, said clearly."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from coad.exceptions import CoadWarning, InputError

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = [
    "checked_modes",
    "reject_unique",
    "warn_of_batch",
    "warn_of_columns",
    "warn_of_copies",
    "warn_of_slowness",
]

ROWS_A_MODE = 20
MOST_MODES = 40
_FEW = 8
#: From this part of the coincidence on that is left after one input is moved in time, it is said.
_SLOW = 0.2
_SAMPLE = 4000
_TINY = 1e-300
#: Each setting that is a number: the least and the most that it may be, and whether it is a whole one.
_SETTINGS: tuple[tuple[str, float, float, bool], ...] = (
    ("max_rare", _TINY, 0.5, False),
    ("smallest", _TINY, 0.5, False),
    ("n_starts", 1, math.inf, True),
    ("n_modes", -math.inf, math.inf, True),
    ("steps", 1, math.inf, True),
    ("batch_size", 2, math.inf, True),
    ("micro_batch", 1, math.inf, True),
    ("lr", _TINY, 1.0, False),
    ("jitter", 0, 2.0, False),
    ("significance", _TINY, 1.0, False),
)
_OPTIONAL = ("n_modes", "steps", "batch_size", "micro_batch", "jitter")


def checked_modes(model: CoincidenceModes, n: int) -> int:
    """How many modes to start with; the other settings are checked with it."""
    for name, low, high, whole in _SETTINGS:
        value = getattr(model, name)
        if value is None and name in _OPTIONAL:
            continue
        kind = numbers.Integral if whole else numbers.Real
        good = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= value <= high:
            least = (
                "more than 0"
                if low == _TINY
                else f"at least {max(low, 2):g}"
                if name == "n_modes"
                else f"at least {low:g}"
            )
            most = "" if high == math.inf else f" and at most {high:g}"
            raise InputError(
                f"{name} must be a {'whole ' if whole else ''}number of {least}{most}, not {value!r}"
            )
    if model.n_modes is None:
        return min(MOST_MODES, n // ROWS_A_MODE)
    k = int(model.n_modes)
    if k < 2:
        raise InputError(
            f"n_modes = {model.n_modes!r}: at least 2 modes are needed, for one mode holds every row; "
            "leave it out to have it chosen"
        )
    if n < k * ROWS_A_MODE:
        raise InputError(
            f"{n:,} rows are too few for {k} modes, which need {ROWS_A_MODE} each; "
            f"give at least {k * ROWS_A_MODE:,} rows or n_modes of {n // ROWS_A_MODE} or fewer"
        )
    return k


def reject_unique(labels: NDArray[Any] | None) -> None:
    """A context that is another one in (almost) every row leaves nothing to compare."""
    if labels is None:
        return
    distinct = len(np.unique(labels))
    if distinct > len(labels) / 2:
        raise InputError(
            f"context has {distinct:,} values in {len(labels):,} rows: within a context there is nothing "
            "to compare; use a column with few values, or leave it out"
        )


def warn_of_columns(rows: NDArray[np.float32], name: str, known: Sequence[str] | None = None) -> None:
    """Name columns that tell nothing: constant ones, and copies of another; ``known`` are their names, if they have some."""
    if rows.ndim != 2 or rows.shape[1] < 2:
        return
    some = rows[:: max(1, len(rows) // 20_000)]
    still = np.flatnonzero((some == some[:1]).all(0) & (rows == rows[:1]).all(0))
    _, first, inverse = np.unique(some, axis=1, return_index=True, return_inverse=True)
    copies = np.setdiff1d(np.flatnonzero(first[inverse.reshape(-1)] != np.arange(rows.shape[1])), still)
    first_still, first_copy = (
        "" if not len(found) else str(found[0]) if known is None else repr(known[found[0]])
        for found in (still, copies)
    )
    if len(still):
        warnings.warn(
            f"{name} has {len(still)} constant column{'s' * (len(still) > 1)} (first: {first_still}); they tell nothing",
            CoadWarning,
            stacklevel=4,
        )
    if len(copies):
        warnings.warn(
            f"{name} has {len(copies)} columns that repeat another (first: {first_copy}); leave them out",
            CoadWarning,
            stacklevel=4,
        )


def warn_of_copies(rows_s: NDArray[np.float32], rows_q: NDArray[np.float32]) -> None:
    """The same measurement on both sides is no coincidence: copies raise, what is a function of the other input is said.

    Asked are linear functions of all columns, and rising or falling functions of single ones.
    """
    if rows_s.shape == rows_q.shape and np.array_equal(rows_s, rows_q):
        raise InputError(
            "s and q are the same: one input determines the other, so every mode would be certain; "
            "give two different measurements"
        )
    step = max(1, len(rows_s) // _SAMPLE)
    s, q = (x[::step].reshape(len(x[::step]), -1).astype(np.float64) for x in (rows_s, rows_q))
    for known, other, names in ((s, q, ("s", "q")), (q, s, ("q", "s"))):
        if _linear(known, other) or _ordered(known, other):
            warnings.warn(
                f"{names[0]} determines {names[1]} exactly, so every mode is certain and the catalogue only "
                "cuts up what is the same on both sides; leave out the columns that both inputs share",
                CoadWarning,
                stacklevel=4,
            )
            return


def _linear(known: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether all columns of the other input are linear functions of these; not asked of few rows."""
    if known.shape[1] > _SAMPLE // 8 or len(known) < 4 * known.shape[1]:
        return False
    design = np.column_stack([np.ones(len(known)), _standard(known)])
    target = _standard(other)
    left = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return bool(np.square(left).sum() < 1e-6 * max(float(np.square(target).sum()), 1e-30))


def _ordered(known: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether each column of the other input puts the rows in the order, or the reverse, of one of these.

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> _ordered(x, np.exp(x)), _ordered(x, x.sum(1, keepdims=True))
    (True, False)
    """
    few = _SAMPLE // 8
    ranks = [_standard(rankdata(x[:few], axis=0)) for x in (known, other)]
    varying = ranks[1][:, ranks[1].any(axis=0)]
    if not varying.size:
        return False
    # Column by column, so that the first one that is new ends it.
    return all(np.abs(ranks[0].T @ column).max() > (1 - 1e-6) * len(column) for column in varying.T)


def _standard(x: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def warn_of_batch(batch: int, n: int, smallest: float) -> None:
    """Warn, with the number, if batches hold too few rows of the rarest mode wanted."""
    if batch < n and batch * smallest < _FEW:
        wanted = math.ceil(_FEW / smallest)
        warnings.warn(
            f"a batch of {batch:,} rows holds about {batch * smallest:.1f} rows of a mode of {smallest:.3g}; "
            f"to find modes that rare, use batch_size of {wanted:,} or more",
            CoadWarning,
            stacklevel=4,
        )


def warn_of_slowness(slow: float, *, grouped: bool) -> None:
    """Warn if much of the coincidence outlives moving one input in time."""
    if slow < _SLOW:
        return
    cure = (
        ""
        if grouped
        else "; give the run or day of each row as group (files: --group), so that whole stretches are held out"
    )
    warnings.warn(
        f"rows that follow each other are alike, and {slow:.0%} of the coincidence is left if one input is moved in "
        f"time: modes may be stretches of a slow drift, and p-values are too small{cure}",
        CoadWarning,
        stacklevel=3,
    )
