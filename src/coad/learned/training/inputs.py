"""The inputs of the user (NumPy, torch, pandas or Polars) as checked float32 arrays."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray
from coad.data.pairs import Pairs, table_names
from coad.exceptions import CoadWarning, InputError, UnseenContextWarning
from coad.learned.scaling import Scaler

__all__ = [
    "as_context",
    "as_fitted",
    "as_gate",
    "as_groups",
    "as_pair",
    "as_rows",
    "as_times",
    "check_kind_of_context",
    "column_names",
    "names_of",
    "reject_constant",
    "scaled_blocks",
    "warn_of_outliers",
    "warn_of_repeated_readings",
    "warn_of_unseen_contexts",
]

#: Most rows and most bytes that are scaled and scored at a time: larger blocks do not fit into the caches.
_BLOCK, _BLOCK_BYTES = 1024, 2**25
#: The same for images, whose convolutions make many values of one pixel: 1.5 times as fast as 1,024 on MNIST's.
_IMAGES = 256
#: From this many values on, torch's threads make a sum faster.
_LARGE = 2**20
#: Rows of which the float32 rounding error is checked, and the largest error, as a fraction of the column's range.
_SAMPLE, _ROUNDED = 4_000, 0.01


def names_of(s: Any, q: Any) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The column names of both inputs, from tables or from a ``Pairs`` of flat rows; None where there are none."""
    if q is not None or not isinstance(s, Pairs):
        return column_names(s), column_names(q)
    sides = ((s.s, s.s_names), (s.q, s.q_names))
    found = [names if rows.ndim == 2 and len(names) == rows.shape[1] else None for rows, names in sides]
    return found[0], found[1]


def as_pair(s: Any, q: Any, *, least: int = 1) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both inputs checked and of the same length, at least ``least`` rows.

    >>> [x.shape for x in as_pair([[1.0], [2.0]], [[0.5, 1.0], [1.0, 2.0]])]
    [(2, 1), (2, 2)]
    """
    fit = least > 1  # the range of a column is not known from single rows
    rows_s, rows_q = as_rows(s, "s", exact=fit), as_rows(q, "q", exact=fit)
    if len(rows_s) != len(rows_q):
        raise InputError(
            f"s has {len(rows_s):,} rows and q has {len(rows_q):,}; row i of both must be of the same time"
        )
    if len(rows_s) < least:
        what = f"are too few to learn from; coad needs at least {least} pairs" if fit else "hold nothing"
        raise InputError(f"{len(rows_s):,} rows {what}")
    return rows_s, rows_q


def as_fitted(model: Any, s: Any, q: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both inputs checked against the column names and shapes of the training rows of ``model``."""
    found = []
    for name, given, rows in zip("sq", (s, q), as_pair(s, q), strict=True):
        _check_names(given, getattr(model, f"names_{name}_"), name)
        shape = tuple(getattr(model, f"shape_{name}_"))
        if shape == (1, *rows.shape[1:]):  # the samples of one channel
            rows = rows[:, None]
        if rows.shape[1:] != shape:
            raise InputError(
                f"{name} has rows of shape {rows.shape[1:]}, but the model was fitted on {shape}"
            )
        found.append(rows)
    return found[0], found[1]


def column_names(x: Any) -> tuple[str, ...] | None:
    """The names of a table's columns; None for arrays, which have none."""
    names = table_names(x)
    return None if names is None else tuple(names)


def _check_names(x: Any, known: tuple[str, ...] | None, name: str) -> None:
    """A table must have the columns of the training rows in the same order; arrays have no names to check."""
    names = column_names(x)
    if known is None or names is None or names == known:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(names, known, strict=False)) if a != b), min(len(names), len(known))
    )
    found, wanted = (one[place] if place < len(one) else "nothing" for one in (names, known))
    raise InputError(
        f"column {place} of {name} is {found!r}, but the model was fitted with {wanted!r} there; "
        "give the columns in the order of the fit"
    )


def as_rows(x: Any, name: str, *, exact: bool = False) -> NDArray[np.float32]:
    """One input as float32, (n, features), (n, channels, time) or (n, c, h, w).

    With ``exact``, columns that float32 cannot represent are refused.
    """
    columns = column_names(x)
    array = _as_array(x, name)
    if array.dtype.kind in "iub":
        warnings.warn(
            f"{name} holds {array.dtype} numbers; they are used as measurements (CoincidenceModes may use them as "
            "categories); convert them to float to avoid this warning",
            CoadWarning,
            stacklevel=3,
        )
    elif array.dtype.kind != "f":
        raise InputError(
            f"{name} holds {array.dtype} values; coad needs numbers (float32 or float64). "
            "Convert or drop columns that are text, dates or mixed"
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim not in (2, 3, 4) or 0 in array.shape[1:]:
        raise InputError(
            f"{name} has shape {array.shape}; coad takes (n, features), (n, channels, time) or (n, c, h, w)"
        )
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array, dtype=np.float32)
    # A finite sum means that all values are finite; otherwise every value is checked.
    if not np.isfinite(_sum(rows)):
        _reject_non_finite(rows, name, columns)
    if exact and len(rows) and array.dtype != np.float32:
        _reject_rounded(array, rows, name)
    return rows


def _as_array(x: Any, name: str) -> NDArray[Any]:
    if hasattr(x, "toarray"):
        raise InputError(f"{name} is a sparse matrix; pass {name}.toarray()")
    if np.ma.isMaskedArray(x) and np.ma.getmaskarray(x).any():
        raise InputError(f"{name} has masked values; fill them in or drop those rows")
    if hasattr(x, "detach"):
        x = x.detach().cpu().numpy()
    elif hasattr(x, "to_numpy"):
        x = x.to_numpy()
    try:
        return np.asarray(x)
    except ValueError as error:
        raise InputError(f"{name} is not a regular array: {error}") from error


def _reject_rounded(array: NDArray[Any], rows: NDArray[np.float32], name: str) -> None:
    """Refuse a column with a small range on a large offset, of which float32 would keep only rounding errors."""
    step = max(1, len(rows) // _SAMPLE)
    exact = array[::step].reshape(len(rows[::step]), -1).astype(np.float64)
    off = np.abs(rows[::step].reshape(exact.shape) - exact).max(0)
    low, high = exact.min(0), exact.max(0)
    lost = np.flatnonzero(off > _ROUNDED * (high - low))
    lost = lost[high[lost] > low[lost]]
    if len(lost):
        column = int(lost[0])
        raise InputError(
            f"column {column} of {name} goes from {low[column]:.9g} to {high[column]:.9g}, which float32 cannot hold; "
            "subtract its mean and divide by its range first"
        )


def _sum(rows: NDArray[np.float32]) -> float:
    torch = sys.modules.get("torch")  # not loaded for this alone
    if (
        torch is not None and rows.size >= _LARGE and rows.flags.writeable
    ):  # torch warns of arrays that are not
        return float(torch.from_numpy(rows).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        return float(rows.sum())


def as_context(context: Any, n: int) -> NDArray[Any] | None:
    """One label per row; several columns are joined into one label."""
    if context is None:
        return None
    if hasattr(context, "detach"):
        context = context.detach().cpu().numpy()
    elif hasattr(context, "to_numpy"):
        context = context.to_numpy()
    array = np.asarray(context)
    if array.ndim == 2:
        array = array[:, 0] if array.shape[1] == 1 else np.array([" | ".join(map(str, row)) for row in array])
    if array.shape != (n,):
        raise InputError(f"context has shape {array.shape}, but there are {n:,} rows")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError("context has missing values; give them a label of their own, or drop the rows")
    return array.astype(str) if array.dtype.kind in "OmM" else array


def check_kind_of_context(labels: NDArray[Any] | None, known: Sequence[Any] | None) -> None:
    """Refuse text where training had numbers, and the other way round: "1" and 1 would be different contexts.

    >>> check_kind_of_context(np.array(["0", "1"]), [0, 1])
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: context holds text ('0'), but the model was fitted with numbers (0)
    """
    if labels is None or not known or not len(labels):
        return
    given, fitted = ("text" if isinstance(one, str) else "numbers" for one in (labels[0], known[0]))
    if given != fitted:
        raise InputError(
            f"context holds {given} ({labels[0].item()!r}), but the model was fitted with {fitted} ({known[0]!r})"
        )


def warn_of_unseen_contexts(labels: NDArray[Any] | None, known: Sequence[Any] | None) -> None:
    """Warn of rows in contexts that are not in the training rows: they are scaled with the pooled mean and deviation."""
    if labels is None or not known:
        return
    names, counts = np.unique(labels, return_counts=True)
    new = ~np.isin(names, np.asarray(known))
    if new.any():
        shown = ", ".join(repr(one) for one in names[new][:4].tolist())
        more = ", ..." if new.sum() > 4 else ""
        warnings.warn(
            f"{counts[new].sum():,} of {len(labels):,} rows are in contexts that training did not see ({shown}{more}): "
            "they are scaled like all training rows together",
            UnseenContextWarning,
            stacklevel=5,
        )


def as_groups(group: Any, n: int) -> NDArray[Any] | None:
    """The group of each row; missing values are refused."""
    if group is None:
        return None
    array = _per_row(group, n, "group")
    kind = array.dtype.kind
    missing = np.isnan(array) if kind in "fmM" else np.array([one is None or one != one for one in array])
    if missing.any():
        raise InputError(
            f"group has {missing.sum():,} missing values (first at row {missing.argmax():,}); drop those rows"
        )
    return array.astype(str) if kind == "O" else array


def as_gate(gate: Any, n: int) -> tuple[FloatArray, FloatArray] | None:
    """The gates of s and q, one number in [0, 1] per row; others are refused.

    >>> as_gate(([1, 0], [0.5, 1]), 2)
    (array([1., 0.]), array([0.5, 1. ]))
    """
    if gate is None:
        return None
    if len(gate) != 2:
        raise InputError("gate must be a pair: one number per row for s, and one for q")
    found = []
    for side, values in zip("sq", gate, strict=True):
        one = np.ascontiguousarray(_per_row(values, n, f"the gate of {side}"), dtype=np.float64)
        if not ((one >= 0.0) & (one <= 1.0)).all():
            raise InputError(f"the gate of {side} must lie in [0, 1]; drop rows where it is missing")
        found.append(one)
    return found[0], found[1]


def as_times(time: Any, n: int) -> NDArray[Any] | None:
    """The time of each row as numbers or datetime64; missing values are refused."""
    if time is None:
        return None
    when = _per_row(time, n, "time")
    if when.dtype.kind == "O" and all(isinstance(one, datetime) for one in when):
        when = when.astype("datetime64[us]")
    if when.dtype.kind not in "iufmM":
        raise InputError(
            "time holds text or mixed values; give numbers or datetime64 (pandas.to_datetime makes them)"
        )
    if when.dtype.kind in "fmM" and np.isnan(when).any():
        raise InputError("time has missing values; fill them in or drop those rows")
    return when


def _per_row(values: Any, n: int, name: str) -> NDArray[Any]:
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.shape != (n,):
        raise InputError(f"{name} has shape {array.shape}, but there are {n:,} rows")
    return array


def _reject_non_finite(rows: NDArray[np.float32], name: str, columns: tuple[str, ...] | None) -> None:
    bad = ~np.isfinite(rows)
    if not bad.any():
        return
    where = np.argwhere(bad)[0]
    part = ""
    if columns is not None and rows.ndim == 2:
        part = f" (column {columns[where[1]]!r})"
    raise InputError(
        f"{name} has {int(bad.sum()):,} values that are missing, infinite or too large for float32, "
        f"first at row {int(where[0]):,}{part}; fill them in or drop those rows"
    )


def scaled_blocks(
    rows: NDArray[np.float32], scaler: Scaler | None, labels: Any
) -> Iterator[NDArray[np.float32]]:
    """Scaled rows in blocks, so that a large input is not copied as a whole."""
    each = max(1, rows[:1].nbytes)
    most = _IMAGES if rows.ndim == 4 else _BLOCK
    size = max(64, min(most, 2 ** int(np.log2(max(1, _BLOCK_BYTES // each)))))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        block = np.ascontiguousarray(rows[part])
        yield block if scaler is None else scaler.transform(block, None if labels is None else labels[part])


def reject_constant(rows: NDArray[np.float32], name: str) -> None:
    """Refuse an input of which all rows are equal."""
    for start in range(0, len(rows), 1024):
        if (rows[start : start + 1024] != rows[:1]).any():
            return
    raise InputError(f"{name} is constant: all its rows are equal, so there is nothing to learn from it")


def warn_of_repeated_readings(new: BoolArray, action: str, *, least: int) -> None:
    """Warn that many rows repeat the row before, and what is done about it.

    Parameters
    ----------
    new
        Which rows are new readings, from :func:`~coad.learned.training.split.new_rows`.
    action
        What is done, for the message.
    least
        With fewer new readings than this, :class:`~coad.exceptions.InputError` is raised.
    """
    found = f"{1 - new.mean():.0%} of the rows repeat the row before in both inputs (repeated readings)"
    if new.sum() < least:
        raise InputError(f"{found}; coad needs at least {least} new readings, and there are {new.sum():,}")
    warnings.warn(f"{found}; {action}", CoadWarning, stacklevel=3)


def warn_of_outliers(
    scaler: Scaler | None, rows: NDArray[np.float32], name: str, known: tuple[str, ...] | None = None
) -> None:
    """Warn of the outliers in ``rows`` that ``scaler`` clips.

    Parameters
    ----------
    scaler, rows
        The scaler, and the rows that it was fitted on.
    name, known
        The input, s or q, and its column names.
    """
    if scaler is None or scaler.limits is None:
        return
    columns = np.flatnonzero(np.isfinite(scaler.limits[0]))
    first, count, largest = int(columns[0]), 0, 0.0
    low, high = scaler.limits[:, first]
    for start in range(0, len(rows), _BLOCK):
        values = rows[start : start + _BLOCK, first]
        outside = values[(values < low) | (values > high)]
        count += len(outside)
        largest = max([largest, *outside.tolist()], key=abs)
    which = (
        f"column {first if known is None else repr(known[first])}" if rows.ndim == 2 else f"channel {first}"
    )
    others = f", and outliers in {len(columns) - 1} others" if len(columns) > 1 else ""
    warnings.warn(
        f"{name}: {count:,} outliers in {which} (largest {largest:,.6g}){others} were clipped before scaling. "
        "If they stand for missing values, drop or fill these rows",
        CoadWarning,
        stacklevel=3,
    )
