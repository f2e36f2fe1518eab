"""Names for the argument kinds that many rooms share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: A float, a NumPy array or a torch tensor: what the metric's arithmetic accepts.
Numeric = Any

#: What ``numpy.random.default_rng`` accepts.
RandomState = int | np.random.Generator | None

__all__ = ["ArrayLike", "BoolArray", "FloatArray", "IntArray", "Numeric", "RandomState"]
