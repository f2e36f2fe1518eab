"""The little that floats, NumPy arrays and torch tensors do not share, behind one name each.

The metric is written once for all three. Torch is never imported: a tensor can only be handed in
by somebody who has imported it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from coad.exceptions import UndefinedMetricWarning

__all__ = ["is_torch", "library", "like", "maximum", "mean", "minimum", "ratio", "warn_if", "where"]


def is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def library(value: Any) -> Any:
    return sys.modules["torch"] if is_torch(value) else np


def where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    return library(condition).where(condition, a, b)


def minimum(a: Any, b: Any) -> Any:
    return a.clamp(max=b) if is_torch(a) else _plain(np.minimum(a, b))


def maximum(a: Any, b: Any) -> Any:
    return a.clamp(min=b) if is_torch(a) else _plain(np.maximum(a, b))


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def mean(total: Any, n: Any) -> Any:
    empty = n <= 0
    warn_if(empty, "no rows: the mean is set to 0")
    return where(empty, total * 0.0, total / where(empty, 1.0, n))


def like(value: Any, numbers: Sequence[float]) -> Any:
    kind = library(value)
    where = {"device": value.device} if is_torch(value) else {}
    return kind.asarray(numbers, dtype=kind.float64, **where)


def ratio(a: Any, b: Any) -> Any:
    empty = b <= 0
    return where(empty, a * 0.0, a / where(empty, 1.0, b))


def warn_if(condition: Any, message: str) -> None:
    if not is_torch(condition) and np.any(condition):
        warnings.warn(message, UndefinedMetricWarning, stacklevel=4)
