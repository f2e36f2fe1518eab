"""The front of the networks: how rows are scaled, and what lies near them.

Flat rows are scaled by one factor for all columns, or column by column, or taken to the coordinates that both
inputs share (:mod:`coad.modes.canonical`). Pixels and channels of one kind do best with the first, which does
not blow up what hardly varies; columns in units of their own need one of the others. Which it is, the data
tell: see :func:`coad.modes.front.choose_front`.
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

__all__ = ["Front", "FrontRows", "ReadyRows", "neighbours"]

#: Rows that the widths of the columns, and the neighbours, are taken from.
_MOST_ROWS = 20_000
_MOST_NEIGHBOURS = 4_000
#: Values of both inputs (80 MB) up to which rows are kept as they leave the front.
_MOST_READY = 20_000_000


@dataclass(frozen=True)
class Front:
    """A scaler, and what scaled columns are multiplied by: nothing, a factor for each, or a matrix."""

    scaler: Scaler
    factors: NDArray[np.float32] | None

    @classmethod
    def fit(cls, rows: NDArray[np.float32], labels: NDArray[Any] | None, *, pooled: bool = False) -> Front:
        """The scale of these rows; ``pooled`` is one factor for all columns of flat rows."""
        scaler = Scaler.fit(rows, labels)
        if rows.ndim != 2 or rows.shape[1] < 2 or not pooled:
            return cls(scaler, None)
        some = scaler.clipped(rows[:: max(1, len(rows) // _MOST_ROWS)]).astype(np.float64)
        spread = some.std(axis=0)
        return cls(scaler, (spread / max(float(np.sqrt(np.square(spread).mean())), 1e-30)).astype(np.float32))

    def transform(self, rows: NDArray[np.float32], labels: NDArray[Any] | None) -> NDArray[np.float32]:
        """Rows as the networks take them."""
        scaled = self.scaler.transform(rows, labels)
        if self.factors is None:
            return scaled
        return scaled @ self.factors if self.factors.ndim == 2 else scaled * self.factors

    def row_shape(self, rows: NDArray[np.float32]) -> tuple[int, ...]:
        """The shape of one such row after this front."""
        return rows.shape[1:] if self.factors is None else self.factors.shape[-1:]


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

    @property
    def flat(self) -> bool:
        """Whether rows of both inputs are lists of features."""
        return all(array.ndim == 2 for array in self.arrays)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """What a row of each input looks like to its network."""
        return [front.row_shape(array) for front, array in zip(self.fronts, self.arrays, strict=True)]

    def side(self, which: int, index: IntArray) -> Tensor:
        """Some rows of one input, as its network takes them."""
        labels = None if self.labels is None else self.labels[index]
        return torch.from_numpy(self.fronts[which].transform(self.arrays[which][index], labels))

    def take(self, index: IntArray) -> tuple[Tensor, Tensor]:
        return self.side(0, index), self.side(1, index)

    def ready(self) -> FrontRows:
        """The same rows past the front once and for all, if they are flat and few enough to be kept so."""
        if not self.flat or len(self) * sum(shape[0] for shape in self.shapes) > _MOST_READY:
            return self
        everything = np.arange(len(self))
        return ReadyRows(self, (self.side(0, everything).numpy(), self.side(1, everything).numpy()))


class ReadyRows(FrontRows):
    """Rows that have passed the front: ``arrays`` are as the networks take them."""

    def __init__(self, rows: FrontRows, arrays: tuple[NDArray[np.float32], NDArray[np.float32]]) -> None:
        super().__init__(arrays, rows.fronts, rows.labels)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [array.shape[1:] for array in self.arrays]

    def side(self, which: int, index: IntArray) -> Tensor:
        return torch.from_numpy(self.arrays[which][index])

    def ready(self) -> FrontRows:
        return self


def neighbours(rows: FrontRows, count: int, rng: np.random.Generator) -> list[IntArray]:
    """For each input, the ``count`` rows that lie nearest to each row, (n, count).

    Of many rows, a sample is searched: near enough, and the time stays linear.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(rows)
    some = np.sort(rng.permutation(n)[:_MOST_NEIGHBOURS])
    found = []
    for which in (0, 1):
        search = NearestNeighbors(n_neighbors=count + 1).fit(rows.side(which, some).numpy())
        parts = []
        for start in range(0, n, _MOST_NEIGHBOURS):
            block = np.arange(start, min(start + _MOST_NEIGHBOURS, n))
            near = some[search.kneighbors(rows.side(which, block).numpy(), return_distance=False)]
            # A row is its own nearest one if it is in the sample; then the others count.
            own = near[:, :1] == block[:, None]
            parts.append(np.where(own, near[:, 1:], near[:, :-1]))
        found.append(np.concatenate(parts).astype(np.int64))
    return found
