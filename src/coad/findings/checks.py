"""What two inputs must be like, so that coincidence means anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.exceptions import InputError
from coad.learned.training.inputs import reject_constant

__all__ = ["check_rows"]


def check_rows(
    s: NDArray[Any], q: NDArray[Any], names_s: Sequence[str] | None, names_q: Sequence[str] | None
) -> None:
    """Refuse a constant input, equal inputs, and inputs that share a column: these coincide trivially."""
    reject_constant(s, "s")
    reject_constant(q, "q")
    if s.shape == q.shape and np.array_equal(s, q):
        raise InputError("s and q are equal, so everything coincides; give two different inputs")
    columns_s, columns_q = (_columns(x) for x in (s, q))
    for key, i in columns_s.items():
        j = columns_q.get(key)
        if j is not None:
            one, other = (_named(names, k) for names, k in ((names_s, i), (names_q, j)))
            raise InputError(
                f"{one} of s and {other} of q hold the same values, so they coincide trivially; leave one of them out"
            )


def _columns(x: NDArray[Any]) -> dict[bytes, int]:
    """The number of each column (or channel) that is not constant, by its content."""
    found: dict[bytes, int] = {}
    for number in range(x.shape[1]):
        column = np.ascontiguousarray(x[:, number])
        if (column != column.flat[0]).any():
            found.setdefault(column.tobytes(), number)
    return found


def _named(names: Sequence[str] | None, number: int) -> str:
    return f"column {number}" if names is None else f"column {names[number]!r}"
