"""Checks on what a user hands in, with messages that say what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.exceptions import InputError

#: The significance level unless another is asked for.
LEVEL = 0.05
#: With fewer rows than this, no statement about coincidence is worth making.
MIN_ROWS = 10


def as_score(value: ArrayLike, name: str) -> FloatArray:
    """One score per row, as float64; NaN is allowed here and judged by :func:`check_finite`."""
    if hasattr(value, "detach"):  # a torch tensor, perhaps with a graph
        value = value.detach().cpu().numpy()
    if np.ma.isMaskedArray(value):
        value = np.ma.filled(value.astype(np.float64), np.nan)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold one score per row: {error}") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{name} must hold one score per row, but its shape is {array.shape}")
    if array.dtype.kind in "mMc":
        raise InputError(f"{name} is not numeric: it holds {array.dtype}")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            bad = next(i for i, item in enumerate(array.tolist()) if not _converts(item))
            raise InputError(f"{name} is not numeric: row {bad:,} holds {array[bad]!r}") from None
    return np.ascontiguousarray(array, dtype=np.float64)


def check_same_length(score_s: FloatArray, score_q: FloatArray, names: tuple[str, str]) -> None:
    """Refuse scores that do not match row by row."""
    if len(score_s) != len(score_q):
        raise InputError(
            f"{names[0]} has {len(score_s):,} rows and {names[1]} has {len(score_q):,}; "
            "both must describe the same rows, in the same order"
        )


def check_finite(score: FloatArray, name: str, remedy: str) -> None:
    """Refuse NaN and infinite scores: how many, where the first is, what to do."""
    finite = np.isfinite(score)
    if not finite.all():
        missing = len(score) - int(finite.sum())
        first = int(np.argmin(finite))
        raise InputError(
            f"{name} has {missing:,} missing or infinite value{'s'[: missing > 1]} "
            f"(first at row {first:,}: {score[first]}); {remedy}"
        )


def finite_rows(
    score_s: FloatArray,
    score_q: FloatArray,
    missing: Literal["error", "drop"],
    names: tuple[str, str] = ("score_s", "score_q"),
    remedy: str = "pass missing='drop' to leave those rows out",
    min_rows: int = MIN_ROWS,
) -> BoolArray:
    """Which rows to use, under an explicit policy for NaN and infinite scores."""
    if missing not in ("error", "drop"):
        raise InputError(f"missing must be 'error' or 'drop', not {missing!r}")
    check_same_length(score_s, score_q, names)
    if missing == "error":
        check_finite(score_s, names[0], remedy)
        check_finite(score_q, names[1], remedy)
    keep: BoolArray = np.isfinite(score_s) & np.isfinite(score_q)
    usable = int(keep.sum())
    if usable < min_rows:
        rows = "row" if usable == 1 else "rows"
        raise InputError(f"only {usable} usable {rows}; at least {min_rows} are needed")
    return keep


def as_strata(context: Any, n: int, keep: BoolArray | None = None) -> tuple[tuple[Any, ...], IntArray]:
    """Stratum labels and each row's stratum number, from one or several context columns.

    With ``keep``, only for those rows.
    """
    columns = _columns(context, n, np.ones(n, dtype=bool) if keep is None else keep)
    code = np.zeros(len(columns[0]), dtype=np.int64)
    labels: list[tuple[Any, ...]] = [()]
    for column in columns:
        values, inner = np.unique(column, return_inverse=True)
        present, code = np.unique(code * len(values) + inner, return_inverse=True)
        labels = [(*labels[p // len(values)], values[p % len(values)].item()) for p in present.tolist()]
    names = tuple(label[0] if len(label) == 1 else label for label in labels)
    return names, code.astype(np.int64)


def check_beta(beta: float) -> float:
    """β from 0 to infinity."""
    if not (_is_number(beta) and float(beta) >= 0):
        raise InputError(f"beta must be 0 or more (inf included), not {beta!r}")
    return float(beta)


def check_betas(beta: Any) -> tuple[float, ...]:
    """One β or a list of them, as a tuple.

    >>> check_betas(1), check_betas([0, float("inf")])
    ((1.0,), (0.0, inf))
    """
    values = list(beta) if isinstance(beta, (Sequence, np.ndarray)) and not isinstance(beta, str) else [beta]
    if not values:
        raise InputError("beta is an empty list; give at least one value, such as beta=[0.05, 1, inf]")
    return tuple(check_beta(one) for one in values)


def check_rate(alpha: Any) -> float:
    """α as a number: an anomaly rate in (0, 0.5]."""
    if not (_is_number(alpha) and 0.0 < float(alpha) <= 0.5):
        raise InputError(f"alpha, the anomaly rate, must lie in (0, 0.5], not {alpha!r}")
    return float(alpha)


def check_alpha(alpha: float | str) -> float | None:
    """α as a number, or None for ``"auto"``."""
    if isinstance(alpha, str):
        if alpha == "auto":
            return None
        raise InputError(f"alpha must be a number in (0, 0.5] or 'auto', not {alpha!r}")
    return check_rate(alpha)


def check_significance(significance: float) -> float:
    """A significance level, strictly between 0 and 1."""
    if not (_is_number(significance) and 0.0 < float(significance) < 1.0):
        raise InputError(f"significance must lie between 0 and 1, not {significance!r}")
    return float(significance)


def check_permutations(n_permutations: int, significance: float) -> None:
    """So many shuffles that the p-value can fall below the significance, or none."""
    if not (isinstance(n_permutations, (int, np.integer)) and 0 <= n_permutations <= 1_000_000):
        raise InputError(f"n_permutations must be a whole number from 0 to 1,000,000, not {n_permutations!r}")
    if 0 < n_permutations < 1 / significance - 1:
        raise InputError(
            f"{n_permutations} permutations cannot reach a p-value of {significance:g}; "
            f"take {math.ceil(1 / significance - 1)} or more, or 0 for no test"
        )


def as_generator(random_state: Any) -> np.random.Generator:
    """A generator from a seed, another generator, or nothing."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(f"random_state must be a whole number, 0 or more: {error}") from None


def _columns(context: Any, n: int, keep: BoolArray) -> list[Any]:
    if hasattr(context, "to_numpy"):
        context = context.to_numpy()
    array = np.asarray(context)
    columns = [array] if array.ndim == 1 else list(array.T) if array.ndim == 2 else []
    if not columns or any(len(column) != n for column in columns):
        raise InputError(f"context must have one entry per row ({n:,} rows), but its shape is {array.shape}")
    for column in columns:
        gaps = keep & np.array([_is_gap(item) for item in column.tolist()], dtype=bool)
        if gaps.any():
            raise InputError(
                f"context has {int(gaps.sum()):,} missing entries (first at row {int(np.argmax(gaps)):,})"
            )
    columns = [column[keep] for column in columns]
    return [column.astype(str) if column.dtype.kind == "O" else column for column in columns]


def _is_gap(item: Any) -> bool:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(item, float) and math.isnan(item)


def _converts(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    try:
        return not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def seed_of(random_state: Any) -> int:
    """The integer from which all random numbers are derived."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, (int, np.integer)) and 0 <= random_state < 2**62:
        return int(random_state)
    raise InputError(
        f"random_state must be None, an integer from 0 to 2**62, or a Generator, not {random_state!r}"
    )
