"""The front of the networks: scaling, then for flat rows a partial whitening.

Of many sensors that say the same, the common direction has most of the variance, and a network
follows variance first. Dividing each principal direction by the square root of its deviation
gives a small but shared effect a chance, without blowing up what is only noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coad._typing import IntArray
from coad.scaling import Scaler
from coad.training.duo import Rows

__all__ = ["Front", "FrontRows"]

#: Rows that the principal directions are computed from.
_MOST_ROWS = 20_000
_POWER = 0.25  # of the variance: half way to whitening
_RIDGE = 1e-3


@dataclass(frozen=True)
class Front:
    """A scaler and, for flat rows of several features, a matrix."""

    scaler: Scaler
    matrix: NDArray[np.float32] | None

    @classmethod
    def fit(cls, rows: NDArray[np.float32], labels: NDArray[Any] | None, rng: np.random.Generator) -> Front:
        """Scale and directions of these rows."""
        scaler = Scaler.fit(rows, labels)
        if rows.ndim != 2 or rows.shape[1] < 2:
            return cls(scaler, None)
        some = np.sort(rng.permutation(len(rows))[:_MOST_ROWS])
        x = scaler.transform(rows[some], None if labels is None else labels[some]).astype(np.float64)
        variance, direction = np.linalg.eigh(np.cov(x.T))
        variance = np.maximum(variance, 0.0) + _RIDGE * max(float(variance.mean()), 1e-12)
        matrix = direction * variance**-_POWER
        spread = float((x @ matrix).std())
        return cls(scaler, (matrix / max(spread, 1e-12)).astype(np.float32))

    def transform(self, rows: NDArray[np.float32], labels: NDArray[Any] | None) -> NDArray[np.float32]:
        """Rows as the networks take them."""
        scaled = self.scaler.transform(rows, labels)
        return scaled if self.matrix is None else scaled @ self.matrix


class FrontRows(Rows):
    """Pairs that stay where they are, also on disk: rows pass the front when they are taken."""

    def __init__(
        self,
        arrays: tuple[NDArray[np.float32], NDArray[np.float32]],
        fronts: Sequence[Front],
        labels: NDArray[Any] | None,
    ) -> None:
        codes = None if labels is None else np.unique(labels, return_inverse=True)[1].astype(np.int64)
        object.__setattr__(self, "arrays", arrays)
        object.__setattr__(self, "fronts", tuple(fronts))
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "context", None if codes is None else torch.from_numpy(codes))

    arrays: tuple[NDArray[np.float32], NDArray[np.float32]]
    fronts: tuple[Front, ...]
    labels: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def take(self, index: IntArray) -> tuple[Tensor, Tensor]:
        labels = None if self.labels is None else self.labels[index]
        s, q = (
            torch.from_numpy(front.transform(array[index], labels))
            for array, front in zip(self.arrays, self.fronts, strict=True)
        )
        return s, q
