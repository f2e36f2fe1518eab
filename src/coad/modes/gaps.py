"""Is there a gap between two modes, or are they pieces of one crowd?

A continuum that both inputs see (a temperature, a load) is cut into pieces by any K-way network, and a sharp
border says nothing: the networks draw it wherever they were taught to. So the rows themselves are asked. Two
modes are laid along the line on which they differ most (Fisher's discriminant; no row takes part in the line
that it is laid along). If that line tells them apart and there are nevertheless as many rows at the border as
in the thinner of the two, it is a cut through one crowd; if there are hardly any, they are two.

Where the line does not tell them apart, as a ring from its centre, neighbours are asked: if hardly any row of the one
is among the nearest of a row of the other, they are two. If some are, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import compact, renumbered
from coad.modes.inputs import FrontRows
from coad.modes.merging import Apart

__all__ = ["Gaps", "gaps_among", "valley"]

#: Rows that are asked whether there is a gap between two modes, and columns of both inputs beyond which they are not.
_GAP_ROWS, _MOST_COLUMNS = 5_000, 400
_FOLDS = 10
#: The density at the border, as part of the lower peak: from the first on there is no gap (without one it is 1 but
#: for chance), below the second there clearly is. Of 0.3 and 0.6 the second keeps the rare digit of each of ten
#: data sets apart, judged by its labels.
_NO_GAP, _CLEAR_GAP = 0.8, 0.6
#: How often a row of one mode must lie above a row of the other, for the line to tell them apart.
_TOLD = 0.9
#: What is added to the scatter within modes, as part of its mean, before it is inverted.
_RIDGE = 0.05
#: So many nearest rows are asked where a line says nothing, and so much of what the smaller mode's rows have may be mixed.
_NEAREST, _MIXED = 10, 0.01
_GRID = 128
_LEAST_ROWS = 5


@dataclass(frozen=True)
class Gaps:
    """Some rows, (m, coordinates), their numbers among all rows, and the fold of each."""

    rows: FloatArray
    index: IntArray
    fold: IntArray

    @classmethod
    def among(cls, rows: FloatArray, index: IntArray, rng: np.random.Generator) -> Gaps:
        """What is asked about gaps: ``rows`` are those numbered ``index``."""
        return cls(rows, index, rng.permutation(len(rows)) % _FOLDS)

    def clear(self, labels: IntArray, one: int, other: int) -> bool:
        """Whether there is a clear gap between two modes."""
        modes = max(int(labels.max()), one, other) + 1
        found = self.valleys(labels, modes, [(one, other)])[one, other]
        return self._strangers(labels, one, other) if np.isnan(found) else bool(found < _CLEAR_GAP)

    def _strangers(self, labels: IntArray, one: int, other: int) -> bool:
        """Whether rows of two modes are hardly ever among each other's nearest."""
        label = labels[self.index]
        rows = np.flatnonzero((label == one) | (label == other))
        own = label[rows] == one
        fewer = int(min(own.sum(), (~own).sum()))
        if fewer < _LEAST_ROWS:
            return False
        near = min(_NEAREST, fewer - 1)
        found = NearestNeighbors(n_neighbors=near).fit(self.rows[rows]).kneighbors(return_distance=False)
        mixed = own[found] != own[:, None]
        return bool(mixed.sum() <= _MIXED * near * fewer)

    def apart(self, labels: IntArray) -> Apart:
        """Whether there is a clear gap between two sets of modes; no pair of sets is looked at twice."""
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}

        def clear(one: IntArray, other: IntArray) -> bool:
            key = tuple(one.tolist()), tuple(other.tolist())
            if key not in known:
                group = np.arange(max(int(labels.max()), *key[0], *key[1]) + 1)
                group[one], group[other] = one[0], other[0]
                known[key] = self.clear(renumbered(labels, group), int(one[0]), int(other[0]))
            return known[key]

        return clear

    def touching(self, labels: IntArray, modes: int) -> BoolArray:
        """For pairs of modes, whether the rows between them are so many that no clear gap is there, (K, K)."""
        return np.asarray(
            self.valleys(labels, modes) >= _CLEAR_GAP
        )  # where nothing is said, they do not touch

    def merged(self, labels: IntArray) -> IntArray:
        """Labels after joining, pair by pair, the modes that are pieces of one crowd; -1 stays.

        >>> rng = np.random.default_rng(0)
        >>> x = np.append(rng.normal(size=900), rng.normal(8, 1, 100))[:, None]
        >>> labels = np.where(x[:, 0] > 4, 2, np.where(x[:, 0] > 1.2, 1, 0))  # a cut through the first crowd
        >>> np.bincount(Gaps.among(x, np.arange(1000), rng).merged(labels)).tolist()
        [900, 100]
        """
        labels = compact(labels)
        while labels.max() >= 1:
            flatness = np.nan_to_num(self.valleys(labels, int(labels.max()) + 1), nan=-1.0)
            k, m = sorted(int(i) for i in np.unravel_index(int(flatness.argmax()), flatness.shape))
            if flatness[k, m] < _NO_GAP:
                break
            labels = compact(np.where(labels == m, k, labels))
        return labels

    def valleys(
        self, labels: IntArray, modes: int, pairs: Iterable[tuple[int, int]] | None = None
    ) -> FloatArray:
        """For pairs of modes, the density between them as part of their lower peak; NaN where nothing is said.

        ``labels`` are those of all rows, -1 where there is none; without ``pairs``, all are looked at.
        """
        k, width = modes, self.rows.shape[1]
        label = labels[self.index]
        known = label >= 0
        rows, label, fold = self.rows[known], label[known], self.fold[known]
        found = np.full((k, k), np.nan)
        if len(rows) == 0:
            return found
        sums, counts = np.zeros((k, _FOLDS, width)), np.zeros((k, _FOLDS))
        np.add.at(sums, (label, fold), rows)
        np.add.at(counts, (label, fold), 1.0)
        size = counts.sum(1)
        centre = sums.sum(1) / np.maximum(size, 1.0)[:, None]
        within = rows - centre[label]
        scatter = within.T @ within / len(rows)
        scatter[np.diag_indices(width)] += _RIDGE * max(float(scatter.trace()) / width, 1e-12)
        turned = np.linalg.solve(scatter, rows.T).T  # a product with this is one in the discriminant's metric
        # The centres, and their images, without the rows of each fold.
        left = np.maximum(size[:, None] - counts, 1.0)[..., None]
        without = (sums.sum(1, keepdims=True) - sums) / left
        image = np.linalg.solve(scatter, without.reshape(-1, width).T).T.reshape(without.shape)
        members = [np.flatnonzero(label == i) for i in range(k)]
        for i, j in combinations(range(k), 2) if pairs is None else pairs:
            if min(size[i], size[j]) < _LEAST_ROWS:
                continue
            line = without[i] - without[j]
            middle = ((without[i] + without[j]) / 2 * (image[i] - image[j])).sum(1)
            length = np.sqrt(np.maximum((line * (image[i] - image[j])).sum(1), 1e-30))
            upper, lower = (
                ((turned[r] * line[fold[r]]).sum(1) - middle[fold[r]]) / length[fold[r]]
                for r in (members[i], members[j])
            )
            if np.searchsorted(np.sort(lower), upper).mean() / len(lower) >= _TOLD:
                found[i, j] = found[j, i] = valley(upper, lower)
        return found


def gaps_among(data: FrontRows, rng: np.random.Generator) -> Gaps | None:
    """Rows of both inputs side by side, to be asked about gaps, if they are flat and not too wide."""
    if not data.flat or sum(math.prod(shape) for shape in data.shapes) > _MOST_COLUMNS:
        return None
    some = np.sort(rng.permutation(len(data))[:_GAP_ROWS])
    rows = np.concatenate([data.side(which, some).numpy() for which in (0, 1)], axis=1)
    return Gaps.among(rows.astype(np.float64), some, rng)


def valley(upper: FloatArray, lower: FloatArray) -> float:
    """The least density between the medians of two samples on a line, as part of the lower of the two peaks.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> valley(x[x > 1], x[x <= 1]) > 0.9, valley(rng.normal(8, 1, 50), x) < 0.1
    (True, True)
    """
    both = np.append(upper, lower)
    fewer = min(len(upper), len(lower))
    width = max(1.06 * min(float(upper.std()), float(lower.std())) * fewer**-0.2, 1e-12)  # Silverman's rule
    grid = np.linspace(both.min(), both.max(), _GRID)
    density = np.exp(-0.5 * np.square((grid[:, None] - both[None, :]) / width)).sum(1)
    between = np.flatnonzero((grid >= np.median(lower)) & (grid <= np.median(upper)))
    if len(between) == 0:
        return 1.0
    low = between[density[between].argmin()]
    return float(density[low] / max(float(min(density[: low + 1].max(), density[low:].max())), 1e-300))
