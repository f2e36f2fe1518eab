"""The permutation null of a whole training run.

A run selects the best of many epochs, so its result is compared with the best that each shuffled pairing reaches
over the same epochs. The networks were not trained on the validation rows; without coincidence, every pairing of
p_s and p_q on these rows is equally likely, and the test is exact despite the selection.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["NullMaximum", "p_value"]


class NullMaximum:
    """The largest correlation of p_s and p_q so far, for each shuffled pairing.

    With context, rows are shuffled within their stratum and centred on its mean.
    """

    def __init__(self, n: int, permutations: int, seed: int, context: Tensor | None, shape: tuple[int, int]):
        rng = np.random.default_rng([seed, 0x9E37])
        self.code = np.zeros(n, dtype=np.int64) if context is None else context.numpy()
        # Shuffling within strata: sort by (stratum, random key) and put back in the strata's places.
        place = np.argsort(self.code, kind="stable")
        self.order = np.empty((permutations, n), dtype=np.int64)
        for row in self.order:
            row[place] = np.lexsort((rng.random(n), self.code))
        self.maxima: NDArray[np.float64] = np.full((permutations, *shape), -1.0)

    def update(self, p_s: NDArray[np.float64], p_q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add the confidences (members, n, heads) of an epoch; returns the correlation of the true pairing."""
        true = np.zeros((p_s.shape[0], p_s.shape[2]))
        for k, h in np.ndindex(true.shape):
            a, b = self._centred(p_s[k, :, h]), self._centred(p_q[k, :, h])
            true[k, h] = a @ b
            shuffled = b.astype(np.float32)[self.order] @ a.astype(np.float32)
            self.maxima[:, k, h] = np.maximum(self.maxima[:, k, h], shuffled)
        return true

    def _centred(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        p = np.nan_to_num(p)
        size = np.bincount(self.code)
        centred = p - (np.bincount(self.code, p) / np.maximum(size, 1))[self.code]
        length = np.sqrt(centred @ centred)
        return np.asarray(centred / length if length > 1e-12 else np.zeros_like(centred))


def p_value(observed: float, null: NDArray[np.float64]) -> float:
    """(1 + number of shuffles that reach the observed value) / (1 + number of shuffles).

    >>> p_value(0.9, np.array([0.1, 0.2, 0.95]))
    0.5
    """
    return float((1 + (null >= observed).sum()) / (1 + len(null)))
