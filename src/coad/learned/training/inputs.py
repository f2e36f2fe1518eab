"""What people pass in, as float32 arrays: NumPy, torch, pandas or Polars, checked row by row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray
from coad.data.pairs import Pairs
from coad.exceptions import CoadWarning, InputError, UnseenContextWarning
from coad.learned.scaling import Scaler

__all__ = [
    "as_context",
    "as_fitted",
    "as_groups",
    "as_pair",
    "as_rows",
    "as_times",
    "check_kind_of_context",
    "column_names",
    "names_of",
    "reject_constant",
    "scaled_blocks",
    "warn_of_held_rows",
    "warn_of_unseen_contexts",
    "warn_of_wild_values",
]

#: Rows that are scaled and scored at a time, and bytes: networks are slower where a block leaves the caches.
_BLOCK, _BLOCK_BYTES = 1024, 2**25
#: From so many values on, two threads are worth starting for a sum.
_LARGE = 2**20
#: Rows that are asked whether float32 holds them, and what it may be off by, as part of a column's range.
_SAMPLE, _ROUNDED = 4_000, 0.01


def names_of(s: Any, q: Any) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The names of the columns of both inputs: a table's, or those that a ``Pairs`` of flat rows knows."""
    if q is not None or not isinstance(s, Pairs):
        return column_names(s), column_names(q)
    sides = ((s.s, s.s_names), (s.q, s.q_names))
    found = [names if rows.ndim == 2 and len(names) == rows.shape[1] else None for rows, names in sides]
    return found[0], found[1]


def as_pair(s: Any, q: Any, *, least: int = 1) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both inputs checked and of one length.

    >>> [x.shape for x in as_pair([[1.0], [2.0]], [[0.5, 1.0], [1.0, 2.0]])]
    [(2, 1), (2, 2)]
    """
    fit = least > 1  # single rows tell nothing about the width of a column
    rows_s, rows_q = as_rows(s, "s", exact=fit), as_rows(q, "q", exact=fit)
    if len(rows_s) != len(rows_q):
        raise InputError(
            f"s has {len(rows_s):,} rows and q has {len(rows_q):,}; row i of both must be the same moment"
        )
    if len(rows_s) < least:
        what = f"are too few to learn from; coad needs at least {least} pairs" if fit else "hold nothing"
        raise InputError(f"{len(rows_s):,} rows {what}")
    return rows_s, rows_q


def as_fitted(model: Any, s: Any, q: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both inputs checked against the columns and shapes that a model was fitted on."""
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
    return tuple(str(c) for c in x.columns) if hasattr(x, "columns") else None


def _check_names(x: Any, known: tuple[str, ...] | None, name: str) -> None:
    """A table must have the columns of the fit, in their order; arrays are taken as they come."""
    names = column_names(x)
    if known is None or names is None or names == known:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(names, known, strict=False)) if a != b), min(len(names), len(known))
    )
    found, wanted = (one[place] if place < len(one) else "nothing" for one in (names, known))
    raise InputError(
        f"column {place} of {name} is {found!r}, but the model was fitted with {wanted!r} there; "
        "give the columns of the fit in their order"
    )


def as_rows(x: Any, name: str, *, exact: bool = False) -> NDArray[np.float32]:
    """One input as float32, (n, features), (n, channels, time) or (n, c, h, w).

    With ``exact``, columns that float32 cannot hold are refused.
    """
    columns = column_names(x)
    array = _as_array(x, name)
    if array.dtype.kind in "iub":
        warnings.warn(
            f"{name} holds {array.dtype} numbers; they are taken as measurements, and as codes by modes only "
            "if that shows more (convert to float to say that this is meant)",
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
    # The sum is finite unless a value is not, or values are too large to be summed: then look closer.
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
    """A column that float32 cannot hold, a small change on a large offset, would be noise without a word."""
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
            "subtract its mean and divide by its width first"
        )


def _sum(rows: NDArray[np.float32]) -> float:
    if rows.size >= _LARGE and rows.flags.writeable:  # torch warns of arrays that are not
        import torch

        return float(torch.from_numpy(rows).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        return float(rows.sum())


def as_context(context: Any, n: int) -> NDArray[Any] | None:
    """One label a row; several columns are joined into one label."""
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
    """Text is never equal to a number: "1" would be taken for a regime that training did not see.

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
    """Rows in regimes that training did not see are scaled like all training rows: nothing better is known."""
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
    """The group of each row, none of them missing."""
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


def as_times(time: Any, n: int) -> NDArray[Any] | None:
    """The time of each row, numbers or datetime64, none of them missing."""
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
    """Scaled blocks of rows, so that a large input is never copied whole."""
    each = max(1, rows[:1].nbytes)
    size = max(64, min(_BLOCK, 2 ** int(np.log2(max(1, _BLOCK_BYTES // each)))))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        block = np.ascontiguousarray(rows[part])
        yield block if scaler is None else scaler.transform(block, None if labels is None else labels[part])


def reject_constant(rows: NDArray[np.float32], name: str) -> None:
    """An input that never changes has nothing to tell."""
    for start in range(0, len(rows), 1024):
        if (rows[start : start + 1024] != rows[:1]).any():
            return
    raise InputError(f"{name} is constant: every row is the same, so there is nothing to learn from it")


def warn_of_held_rows(new: BoolArray, done: str, *, least: int) -> None:
    """Say that most rows are no new readings, and what is done about it; too few new ones are refused."""
    what = (
        f"{1 - new.mean():.0%} of the rows repeat the row before in both inputs, as readings do that are held"
    )
    if new.sum() < least:
        raise InputError(f"{what}; coad needs at least {least} readings, and there are {new.sum():,}")
    warnings.warn(f"{what}; {done}", CoadWarning, stacklevel=3)


def warn_of_wild_values(scaler: Scaler | None, name: str, known: tuple[str, ...] | None = None) -> None:
    """Name the features in which some values lie so far out that the scale leaves them aside."""
    if scaler is None or scaler.limits is None:
        return
    wild = np.flatnonzero(np.isfinite(scaler.limits[0]))
    low, high = scaler.limits[:, wild[0]]
    first = wild[0] if known is None else repr(known[wild[0]])
    warnings.warn(
        f"{name} has wild values in {len(wild)} of {scaler.limits.shape[1]} columns or channels (first: {first}, "
        f"outside {low:.3g} to {high:.3g}); they are taken to lie just outside. If they stand for missing values, "
        "drop or fill these rows",
        CoadWarning,
        stacklevel=3,
    )
