"""The coordinates that both inputs are mapped to before the networks, and rows in these coordinates.

Flat rows are scaled by one factor for all columns, column by column, or mapped to canonical coordinates
(:mod:`coad.modes.canonical`). Pixels and channels of one unit do best with one factor, which does not amplify columns that
hardly vary; columns with units of their own need one of the others. :mod:`coad.modes.selection` chooses.
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
from coad.learned.scaling import Scaler
from coad.learned.training.duo import Rows

__all__ = ["Coordinates", "MappedRows", "PrecomputedRows", "nearest_neighbours"]

#: Rows that the widths of the columns are estimated from: enough for three digits.
_WIDTH_ROWS = 20_000
#: Rows among which neighbours are searched, so that the time stays linear in all rows.
_NEIGHBOUR_ROWS = 4_000
#: Values of both inputs up to which mapped rows are kept in memory (80 MB).
_MAX_PRECOMPUTED = 20_000_000


@dataclass(frozen=True)
class Coordinates:
    """A scaler, and what scaled columns are multiplied by: nothing, a factor for each, or a matrix."""

    scaler: Scaler
    factors: NDArray[np.float32] | None

    @classmethod
    def fit(
        cls, rows: NDArray[np.float32], labels: NDArray[Any] | None, *, pooled: bool = False
    ) -> Coordinates:
        """The scale of these rows within each context; ``pooled`` is one factor for all columns of flat rows."""
        scaler = Scaler.fit(rows, labels)
        if rows.ndim != 2 or rows.shape[1] < 2 or not pooled:
            return cls(scaler, None)
        some = scaler.clipped(rows[:: max(1, len(rows) // _WIDTH_ROWS)]).astype(np.float64)
        width = some.std(axis=0)
        return cls(scaler, (width / max(float(np.sqrt(np.square(width).mean())), 1e-30)).astype(np.float32))

    def transform(self, rows: NDArray[np.float32], labels: NDArray[Any] | None) -> NDArray[np.float32]:
        """Rows as the networks take them."""
        scaled = self.scaler.transform(rows, labels)
        if self.factors is None:
            return scaled
        return scaled @ self.factors if self.factors.ndim == 2 else scaled * self.factors

    def row_shape(self, rows: NDArray[np.float32]) -> tuple[int, ...]:
        """The shape of one such row in these coordinates."""
        return rows.shape[1:] if self.factors is None else self.factors.shape[-1:]


class MappedRows(Rows):
    """Pairs that stay where they are, in memory or on disk, and are mapped when they are taken."""

    arrays: tuple[NDArray[np.float32], NDArray[np.float32]]
    coordinates: tuple[Coordinates, ...]
    labels: NDArray[Any] | None

    def __init__(
        self,
        arrays: tuple[NDArray[np.float32], NDArray[np.float32]],
        coordinates: Sequence[Coordinates],
        labels: NDArray[Any] | None,
    ) -> None:
        codes = None if labels is None else np.unique(labels, return_inverse=True)[1].astype(np.int64)
        object.__setattr__(self, "arrays", arrays)
        object.__setattr__(self, "coordinates", tuple(coordinates))
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "context", None if codes is None else torch.from_numpy(codes))

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def flat(self) -> bool:
        """Whether rows of both inputs are lists of features."""
        return all(array.ndim == 2 for array in self.arrays)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of a mapped row of each input."""
        return [one.row_shape(array) for one, array in zip(self.coordinates, self.arrays, strict=True)]

    def side(self, which: int, index: IntArray) -> Tensor:
        """Some mapped rows of one input: 0 for s, 1 for q."""
        labels = None if self.labels is None else self.labels[index]
        return torch.from_numpy(self.coordinates[which].transform(self.arrays[which][index], labels))

    def take(self, index: IntArray) -> tuple[Tensor, Tensor]:
        return self.side(0, index), self.side(1, index)

    def precomputed(self) -> MappedRows:
        """The same rows mapped once and for all, if they are flat and fit in memory."""
        if not self.flat or len(self) * sum(shape[0] for shape in self.shapes) > _MAX_PRECOMPUTED:
            return self
        everything = np.arange(len(self))
        return PrecomputedRows(self, (self.side(0, everything).numpy(), self.side(1, everything).numpy()))


class PrecomputedRows(MappedRows):
    """Rows whose ``arrays`` are mapped already."""

    def __init__(self, rows: MappedRows, arrays: tuple[NDArray[np.float32], NDArray[np.float32]]) -> None:
        super().__init__(arrays, rows.coordinates, rows.labels)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [array.shape[1:] for array in self.arrays]

    def side(self, which: int, index: IntArray) -> Tensor:
        return torch.from_numpy(self.arrays[which][index])

    def precomputed(self) -> MappedRows:
        return self


def nearest_neighbours(rows: MappedRows, count: int, rng: np.random.Generator) -> list[IntArray]:
    """For each input, the ``count`` nearest neighbours of each row among a sample of the rows, (n, count)."""
    from sklearn.neighbors import NearestNeighbors

    n = len(rows)
    some = np.sort(rng.permutation(n)[:_NEIGHBOUR_ROWS])
    found = []
    for which in (0, 1):
        search = NearestNeighbors(n_neighbors=count + 1).fit(rows.side(which, some).numpy())
        parts = []
        for start in range(0, n, _NEIGHBOUR_ROWS):
            block = np.arange(start, min(start + _NEIGHBOUR_ROWS, n))
            near = some[search.kneighbors(rows.side(which, block).numpy(), return_distance=False)]
            # A row in the sample is its own nearest neighbour, which is left out.
            own = near[:, :1] == block[:, None]
            parts.append(np.where(own, near[:, 1:], near[:, :-1]))
        found.append(np.concatenate(parts).astype(np.int64))
    return found
