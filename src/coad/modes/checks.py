"""Checks of the settings and of the inputs, with errors and warnings that say what to do."""

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
]

#: Rows that a mode needs to be learned (twice as many by default, or members learn pairs by heart), and the default number
#: of outputs of a network: more than there are modes (the
#: consensus joins what is split), because a rare kind that shares its output with another is lost. More cost time.
ROWS_PER_MODE, DEFAULT_MODES = 20, 40
#: Rows of the smallest mode that a batch should hold.
_MIN_BATCH_ROWS = 8
#: Rows that copies are looked for in.
_SAMPLE = 4000
_TINY = 1e-300
#: Each numeric setting, its range, and whether it is a whole number.
_SETTINGS: tuple[tuple[str, float, float, bool], ...] = (
    ("max_rare", _TINY, 0.5, False),
    ("smallest", _TINY, 0.5, False),
    ("n_starts", 1, 10_000, True),
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
    """The number of modes to start with, after a check of all settings."""
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
        return min(DEFAULT_MODES, n // (2 * ROWS_PER_MODE))
    k = int(model.n_modes)
    if k < 2:
        raise InputError(
            f"n_modes = {model.n_modes!r}: at least 2 modes are needed, for one mode holds every row; "
            "leave it out to have it chosen"
        )
    if n < k * ROWS_PER_MODE:
        raise InputError(
            f"{n:,} rows are too few for {k} modes, which need {ROWS_PER_MODE} each; "
            f"give at least {k * ROWS_PER_MODE:,} rows or n_modes of {n // ROWS_PER_MODE} or fewer"
        )
    return k


def reject_unique(labels: NDArray[Any] | None) -> None:
    """Refuse a context with a different value in almost every row."""
    if labels is None:
        return
    distinct = len(np.unique(labels))
    if distinct > len(labels) / 2:
        raise InputError(
            f"context has {distinct:,} values in {len(labels):,} rows: within a context there is nothing "
            "to compare; use a column with few values, or leave it out"
        )


def warn_of_columns(rows: NDArray[np.float32], name: str, known: Sequence[str] | None = None) -> None:
    """Warn of constant and repeated columns; ``known`` are their names, if they have some."""
    if rows.ndim != 2 or rows.shape[1] < 2:
        return
    some = rows[:: max(1, len(rows) // 20_000)]
    constant = np.flatnonzero((some == some[:1]).all(0) & (rows == rows[:1]).all(0))
    _, first, inverse = np.unique(some, axis=1, return_index=True, return_inverse=True)
    copies = np.setdiff1d(np.flatnonzero(first[inverse.reshape(-1)] != np.arange(rows.shape[1])), constant)
    first_constant, first_copy = (
        "" if not len(found) else str(found[0]) if known is None else repr(known[found[0]])
        for found in (constant, copies)
    )
    if len(constant):
        warnings.warn(
            f"{name} has {len(constant)} constant column{'s' * (len(constant) > 1)} (first: {first_constant}); they carry no information",
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
    """Refuse equal inputs; warn if one input is a function of the other.

    Tested are linear functions of all columns, and monotonic functions of single columns.
    """
    if rows_s.shape == rows_q.shape and np.array_equal(rows_s, rows_q):
        raise InputError(
            "s and q are the same: one input determines the other, so every mode would be certain; "
            "give two different measurements"
        )
    step = max(1, len(rows_s) // _SAMPLE)
    s, q = (x[::step].reshape(len(x[::step]), -1).astype(np.float64) for x in (rows_s, rows_q))
    for known, other, names in ((s, q, ("s", "q")), (q, s, ("q", "s"))):
        if _linear(known, other) or _monotonic(known, other):
            warnings.warn(
                f"{names[0]} determines {names[1]} exactly, so every mode is certain and coincidence "
                "means nothing; leave out the columns that both inputs share",
                CoadWarning,
                stacklevel=4,
            )
            return


def _linear(known: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether all columns of the other input are linear functions of these; False if there are few rows."""
    if known.shape[1] > _SAMPLE // 8 or len(known) < 4 * known.shape[1]:
        return False
    design = np.column_stack([np.ones(len(known)), _standard(known)])
    target = _standard(other)
    left = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return bool(np.square(left).sum() < 1e-6 * max(float(np.square(target).sum()), 1e-30))


def _monotonic(known: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether each column of the other input is a monotonic function of one of these.

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> _monotonic(x, np.exp(x)), _monotonic(x, x.sum(1, keepdims=True))
    (True, False)
    """
    few = _SAMPLE // 8
    ranks = [_standard(rankdata(x[:few], axis=0)) for x in (known, other)]
    varying = ranks[1][:, ranks[1].any(axis=0)]
    if not varying.size:
        return False
    # Column by column, so that the first that is not ends it.
    return all(np.abs(ranks[0].T @ column).max() > (1 - 1e-6) * len(column) for column in varying.T)


def _standard(x: NDArray[np.float64]) -> NDArray[np.float64]:
    width = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(width > 0, width, 1.0))


def warn_of_batch(batch: int, n: int, smallest: float) -> None:
    """Warn if batches hold too few rows of the smallest mode wanted."""
    if batch < n and batch * smallest < _MIN_BATCH_ROWS:
        wanted = math.ceil(_MIN_BATCH_ROWS / smallest)
        warnings.warn(
            f"a batch of {batch:,} rows holds about {batch * smallest:.1f} rows of a mode of {smallest:.3g}; "
            f"to find modes that rare, use batch_size of {wanted:,} or more",
            CoadWarning,
            stacklevel=4,
        )
