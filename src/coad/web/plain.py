"""Values that JSON can hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["plain"]


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """The same with arrays as lists, infinity as "inf" and NaN as None.

    >>> plain({"beta": math.inf, "counts": np.arange(2)})
    {'beta': 'inf', 'counts': [0, 1]}
    """
    return {str(key): _plain(item) for key, item in answer.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else None
    return value
