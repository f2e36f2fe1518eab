"""The null of a whole training run: shuffled pairings, and pairings in which one input is moved in time.

A run selects the best of many epochs, so its result is compared with the best that each other pairing reaches over the
same epochs. The networks were not trained on the validation rows; without coincidence, every pairing of p_s and p_q on
these rows is equally likely, and the test is exact despite the selection.

Shuffling takes rows for independent. Slow inputs are not: two that have nothing in common drift together now and then.
Moving one of them as a whole, in a circle, keeps the slowness of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from coad._typing import IntArray

__all__ = ["Chance", "NullMaximum", "chance_of", "p_value"]

#: Rows by which an input is moved at least, because an event may last for a few; and the number of shifts, at most.
_LEAST_SHIFT, _SHIFTS = 2, 1999


class Chance(NamedTuple):
    """How often other pairings do as well: shuffled ones and distant shifts, and all shifts."""

    p_value: float
    shift_p_value: float


class NullMaximum:
    """The largest correlation of p_s and p_q so far, for each shuffled and, after these, each shifted pairing.

    With context, rows are shuffled and moved within their stratum, and centred on its mean. Without ``ordered`` (rows in
    time order) nothing is moved.
    """

    def __init__(
        self,
        n: int,
        permutations: int,
        seed: int,
        context: Tensor | None,
        shape: tuple[int, int],
        *,
        ordered: bool = True,
    ) -> None:
        rng = np.random.default_rng([seed, 0x9E37])
        self.code = np.zeros(n, dtype=np.int64) if context is None else context.numpy()
        # Shuffling within strata: sort by (stratum, random key) and put back in the strata's places.
        place = np.argsort(self.code, kind="stable")
        self.order = np.empty((permutations, n), dtype=np.int64)
        for row in self.order:
            row[place] = np.lexsort((rng.random(n), self.code))
        self.moved = _Moved(self.code) if ordered else None
        shifts = 0 if self.moved is None else self.moved.shifts
        self.maxima: NDArray[np.float64] = np.full((permutations + shifts, *shape), -1.0)

    def update(self, p_s: NDArray[np.float64], p_q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add the confidences (members, n, heads) of an epoch; returns the correlation of the true pairing."""
        true = np.zeros((p_s.shape[0], p_s.shape[2]))
        for k, h in np.ndindex(true.shape):
            a, b = self._centred(p_s[k, :, h]), self._centred(p_q[k, :, h])
            true[k, h] = a @ b
            other = b.astype(np.float32)[self.order] @ a.astype(np.float32)
            if self.moved is not None:
                other = np.concatenate([other, self.moved.correlations(a, b)])
            self.maxima[:, k, h] = np.maximum(self.maxima[:, k, h], other)
        return true

    def _centred(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        p = np.nan_to_num(p)
        size = np.bincount(self.code)
        centred = p - (np.bincount(self.code, p) / np.maximum(size, 1))[self.code]
        length = np.sqrt(centred @ centred)
        return np.asarray(centred / length if length > 1e-12 else np.zeros_like(centred))


class _Moved:
    """Correlations after moving one input in a circle within each stratum, by the same share of its rows."""

    def __init__(self, code: IntArray) -> None:
        size = np.bincount(code)
        by_code = np.argsort(code, kind="stable")
        starts = np.cumsum(size) - size
        self.shifts = int(np.clip(len(code) - 2 * _LEAST_SHIFT + 1, 1, _SHIFTS))
        share = np.linspace(0, 1, self.shifts)
        self.parts: list[tuple[IntArray, IntArray]] = []  # the rows of all strata of one size, and their lags
        for one in np.unique(size[size > 0]):
            rows = by_code[starts[size == one][:, None] + np.arange(one)]
            least = min(_LEAST_SHIFT, one // 2)
            self.parts.append((rows, least + np.rint(share * (one - 2 * least)).astype(np.int64)))

    def correlations(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.zeros(self.shifts)
        for rows, lags in self.parts:
            product = (np.conj(np.fft.rfft(a[rows])) * np.fft.rfft(b[rows])).sum(0)
            found += np.fft.irfft(product, rows.shape[1])[lags % rows.shape[1]]
        return found


def chance_of(observed: float, null: NDArray[np.float64], permutations: int, *, slow: bool) -> Chance:
    """The p-values of an observed correlation, from the maxima of a :class:`NullMaximum`.

    Parameters
    ----------
    observed, null, permutations
        The correlation, the maxima (shuffled, then shifted), and how many of them are shuffled.
    slow
        Whether neighbouring rows are alike. Then the number of shifts limits the p-value; otherwise shuffling does.

    >>> chance_of(0.9, np.array([0.1] * 99 + [0.95, 0.2, 0.2, 0.95]), 99, slow=True)
    Chance(p_value=0.01, shift_p_value=0.6)
    """
    chance = p_value(observed, null[:permutations])
    shifted = null[permutations:]
    if not len(shifted):
        return Chance(chance, chance)
    distant = shifted[len(shifted) // 4 : -(len(shifted) // 4) or None]
    share = float(np.mean(distant >= observed))
    return Chance(
        max(chance, share),
        max(chance, p_value(observed, shifted) if slow else float(np.mean(shifted >= observed))),
    )


def p_value(observed: float, null: NDArray[np.float64]) -> float:
    """(1 + number of shuffles that reach the observed value) / (1 + number of shuffles).

    >>> p_value(0.9, np.array([0.1, 0.2, 0.95]))
    0.5
    """
    return float((1 + (null >= observed).sum()) / (1 + len(null)))
