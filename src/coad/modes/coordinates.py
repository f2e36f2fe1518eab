"""How rows reach the networks: transforms, then a scale or canonical coordinates, fitted on some of the rows.

Pixels and channels of one unit do best with one factor, which does not amplify columns that hardly vary. Columns with units
of their own need a factor each. Canonical correlation analysis (Hotelling, 1936) finds the directions of s and of q with
the largest correlation; there a weak shared factor is not hidden by what only one input sees.
:mod:`coad.modes.selection` chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coad._typing import FloatArray, IntArray
from coad.learned.scaling import Scaler
from coad.learned.training.duo import Rows
from coad.modes.transforms import Steps, Transforms, apply_steps, fit_steps

__all__ = ["Arrays", "Front", "MappedRows", "Recipe", "Scale", "canonical_maps", "nearest_neighbours"]

Scale = Literal["one factor", "columns", "canonical"]
Array32 = NDArray[np.float32]
Arrays = tuple[Array32, Array32]

#: Rows that widths, directions and neighbours are found with: three digits are enough, and the time stays linear.
_SAMPLE = 4_000
#: Ridge on the variance in each direction, where a scaled column has 1: directions that hardly vary are noise.
_RIDGE = 1e-2
#: Values of both inputs up to which mapped rows are kept in memory (80 MB).
_MAX_KEPT = 20_000_000


class Recipe(NamedTuple):
    """Names of the steps for each input (see :func:`~coad.modes.transforms.fit_steps`), and how the result is scaled."""

    steps: Steps
    scale: Scale


@dataclass(frozen=True, eq=False)
class Front:
    """A recipe fitted on some rows: what is done with every row before the networks.

    ``factors`` multiply the scaled columns of each input: a number each, a matrix, or None.
    """

    transforms: Transforms
    scalers: tuple[Scaler, Scaler]
    factors: tuple[Array32 | None, Array32 | None] = (None, None)

    @classmethod
    def fit(cls, recipe: Recipe, arrays: Arrays, labels: NDArray[Any] | None, used: IntArray) -> Front | None:
        """The recipe fitted on the ``used`` rows; None if it does not apply to them."""
        taken = [x if len(used) == len(x) else x[used] for x in arrays]
        transforms = fit_steps(recipe.steps[0], taken[0]), fit_steps(recipe.steps[1], taken[1])
        own = None if labels is None else labels[used]
        shown = [apply_steps(steps, x) for steps, x in zip(transforms, taken, strict=True)]
        scalers = Scaler.fit(shown[0], own), Scaler.fit(shown[1], own)
        if recipe.scale == "columns":
            return cls(transforms, scalers)
        if any(x.ndim != 2 for x in shown) or all(x.shape[1] < 2 for x in shown):
            return None
        few = np.linspace(0, len(used) - 1, min(len(used), _SAMPLE)).astype(np.int64)
        if recipe.scale == "one factor":
            widths = [
                one.clipped(x[few]).astype(np.float64).std(0) for one, x in zip(scalers, shown, strict=True)
            ]
            factors = [
                (w / max(float(np.sqrt(np.square(w).mean())), 1e-30)).astype(np.float32) for w in widths
            ]
            return cls(transforms, scalers, (factors[0], factors[1]))
        context = None if own is None else own[few]
        scaled = [one.transform(x[few], context) for one, x in zip(scalers, shown, strict=True)]
        maps = canonical_maps(scaled[0], scaled[1])
        return None if maps is None else cls(transforms, scalers, maps)

    def map(self, side: int, rows: Array32, labels: NDArray[Any] | None) -> Array32:
        """Some rows of one input (0 for s, 1 for q) as its network takes them."""
        scaled = self.scalers[side].transform(apply_steps(self.transforms[side], rows), labels)
        factors = self.factors[side]
        if factors is None:
            return scaled
        return scaled @ factors if factors.ndim == 2 else scaled * factors


def canonical_maps(s: Array32, q: Array32) -> Arrays | None:
    """A matrix for each input, (columns, coordinates), or None if the inputs share no direction.

    ``s`` and ``q`` are scaled. Directions come from two of three rows; the width of each coordinate is its correlation on
    the third, so that directions which only fit noise vanish.

    >>> rng = np.random.default_rng(0)
    >>> both, s, q = rng.normal(size=(3, 2000, 3)).astype(np.float32)
    >>> s[:, 0], q[:, 2] = both[:, 0], both[:, 0] + 0.1 * q[:, 2]
    >>> maps = canonical_maps(s, q)
    >>> [(abs(m[:, 0]) > 0.5).tolist() for m in maps]
    [[True, False, False], [False, False, True]]
    """
    held = np.arange(len(s)) % 3 == 0
    fit_s, fit_q = (x[~held].astype(np.float64) for x in (s, q))
    white_s, white_q = _whitening(fit_s), _whitening(fit_q)
    left, _, right = np.linalg.svd((fit_s @ white_s).T @ (fit_q @ white_q) / len(fit_s), full_matrices=False)
    maps = white_s @ left, white_q @ right.T
    x, y = (_standardised(rows[held] @ map_) for rows, map_ in zip((s, q), maps, strict=True))
    width = np.maximum((x * y).mean(0), 0.0)
    if not width.any():
        return None
    width /= np.sqrt(np.square(width).mean())
    return (maps[0] * width).astype(np.float32), (maps[1] * width).astype(np.float32)


def _whitening(x: FloatArray) -> FloatArray:
    """A matrix after which the columns are uncorrelated with unit variance; constant directions are dropped."""
    variance, directions = np.linalg.eigh(np.atleast_2d(np.cov(x.T, bias=True)))
    varies = variance > 1e-6 * max(float(variance[-1]), 1e-30)
    return np.asarray(directions[:, varies] / np.sqrt(variance[varies] + _RIDGE))


def _standardised(x: FloatArray) -> FloatArray:
    x = x - x.mean(0)
    return np.asarray(x / np.maximum(np.sqrt(np.square(x).mean(0)), 1e-30))


class MappedRows(Rows):
    """Pairs as the networks take them: mapped once if they are flat and small, else whenever they are taken."""

    arrays: Arrays
    front: Front
    labels: NDArray[Any] | None
    kept: tuple[Tensor, Tensor] | None

    def __init__(self, arrays: Arrays, front: Front, labels: NDArray[Any] | None) -> None:
        codes = None if labels is None else np.unique(labels, return_inverse=True)[1].astype(np.int64)
        object.__setattr__(self, "arrays", arrays)
        object.__setattr__(self, "front", front)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "context", None if codes is None else torch.from_numpy(codes))
        object.__setattr__(self, "kept", None)
        if self.flat and len(self) * sum(shape[0] for shape in self.shapes) <= _MAX_KEPT:
            everything = np.arange(len(self))
            object.__setattr__(self, "kept", (self.side(0, everything), self.side(1, everything)))

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def flat(self) -> bool:
        """Whether mapped rows of both inputs are lists of features."""
        return all(len(shape) == 1 for shape in self.shapes)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of a mapped row of each input."""
        return [self.side(which, np.arange(1)).shape[1:] for which in (0, 1)]

    def side(self, which: int, index: IntArray) -> Tensor:
        """Some mapped rows of one input: 0 for s, 1 for q."""
        if self.kept is not None:
            return self.kept[which][torch.from_numpy(index)]
        labels = None if self.labels is None else self.labels[index]
        return torch.from_numpy(self.front.map(which, self.arrays[which][index], labels))

    def take(self, index: IntArray) -> tuple[Tensor, Tensor]:
        return self.side(0, index), self.side(1, index)


def nearest_neighbours(
    rows: MappedRows, used: IntArray, count: int, rng: np.random.Generator
) -> list[IntArray]:
    """For each input, the ``count`` nearest neighbours of each of the ``used`` rows among a sample of them, (n, count).

    Other rows are their own neighbours.
    """
    from sklearn.neighbors import NearestNeighbors

    some = np.sort(rng.permutation(used)[:_SAMPLE])
    count = min(count, len(some) - 1)
    found = []
    for which in (0, 1):
        search = NearestNeighbors(n_neighbors=count + 1).fit(rows.side(which, some).numpy())
        near = np.repeat(np.arange(len(rows))[:, None], count, axis=1)
        for start in range(0, len(used), _SAMPLE):
            block = used[start : start + _SAMPLE]
            own = some[search.kneighbors(rows.side(which, block).numpy(), return_distance=False)]
            # A row in the sample is its own nearest neighbour, which is left out.
            near[block] = np.where(own[:, :1] == block[:, None], own[:, 1:], own[:, :-1])
        found.append(near)
    return found
