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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from coad._typing import BoolArray, FloatArray, IntArray
from coad.modes.consensus import compact, part_of_rows, renumbered
from coad.modes.inputs import FrontRows

__all__ = ["Between", "Gaps", "gaps_among", "projected_gaps", "valley"]

#: What lies between two modes; nothing is said where no line tells them apart and some of their rows are neighbours.
Between = Literal["gap", "no gap", "unsaid"]

#: Rows that are asked whether there is a gap between two modes, and columns of both inputs beyond which they are not, but
#: for the families of modes.
_GAP_ROWS, _MOST_COLUMNS = 5_000, 400
_FOLDS = 10
#: The density at the border, as part of the lower peak: from the first on there is no gap (without one it is 1 but
#: for chance), below the second there clearly is. Of 0.3 and 0.6 the second keeps the rare digit of each of ten
#: data sets apart, judged by its labels.
_NO_GAP, _CLEAR_GAP = 0.8, 0.6
#: From this on, a small mode is of the family of the other. Pieces of simulated patients have 0.6 and more, most ways of
#: writing a digit 0.3 and more, and the rare digit 0.3 and less in six of ten sets, judged by its labels.
_KIN = 0.3
#: How often a row of one mode must lie above a row of the other, for the line to tell them apart.
_TOLD = 0.9
#: What is added to the scatter within modes, as part of its mean, before it is inverted.
_RIDGE = 0.05
#: So many nearest rows are asked where a line says nothing, and so much of what the smaller mode's rows have may be mixed.
_NEAREST, _MIXED = 10, 0.01
#: Where only some directions are looked at, pieces of one crowd have so many of each other's rows near: those of a simulated
#: patient's heart beats 0.25 to 0.9.
_PIECES = 0.2
#: Directions of each input that are looked at if there are too many columns, or if these are points of windows.
_DIRECTIONS = 30
_GRID = 128
_LEAST_ROWS = 5


@dataclass(frozen=True)
class Gaps:
    """Some rows, (m, coordinates), their numbers among all rows, and the fold of each."""

    rows: FloatArray
    index: IntArray
    fold: IntArray
    projected: bool = False  #: only some directions are looked at: kinds may overlap in them that do not

    @classmethod
    def among(
        cls, rows: FloatArray, index: IntArray, rng: np.random.Generator, *, projected: bool = False
    ) -> Gaps:
        """What is asked about gaps: ``rows`` are those numbered ``index``."""
        return cls(rows, index, rng.permutation(len(rows)) % _FOLDS, projected)

    def between(self, labels: IntArray, one: int, other: int) -> Between:
        """Whether there is a clear gap between two modes."""
        modes = max(int(labels.max()), one, other) + 1
        found = self.valleys(labels, modes, [(one, other)])[one, other]
        if np.isnan(found):
            return "gap" if self._strangers(labels, one, other) else "unsaid"
        return "gap" if found < _CLEAR_GAP else "no gap"

    def _strangers(self, labels: IntArray, one: int, other: int) -> bool:
        """Whether rows of two modes are hardly ever among each other's nearest."""
        return self._mixed(labels, one, other) <= _MIXED

    def _mixed(self, labels: IntArray, one: int, other: int) -> float:
        """How many of the nearest rows are of the other mode, for each row that the smaller of two modes has.

        It is 1 if the halves of a crowd are mixed up, and 0 if they are strangers. Too few rows count as mixed.
        """
        label = labels[self.index]
        rows = np.flatnonzero((label == one) | (label == other))
        own = label[rows] == one
        fewer = int(min(own.sum(), (~own).sum()))
        if fewer < _LEAST_ROWS:
            return 1.0
        near = min(_NEAREST, fewer - 1)
        found = NearestNeighbors(n_neighbors=near).fit(self.rows[rows]).kneighbors(return_distance=False)
        return float((own[found] != own[:, None]).sum() / (near * fewer))

    def asked(self, labels: IntArray) -> Callable[[IntArray, IntArray], Between]:
        """What lies between two sets of modes; no pair of sets is looked at twice."""
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], Between] = {}

        def between(one: IntArray, other: IntArray) -> Between:
            key = tuple(one.tolist()), tuple(other.tolist())
            if key not in known:
                group = np.arange(max(int(labels.max()), *key[0], *key[1]) + 1)
                group[one], group[other] = one[0], other[0]
                known[key] = self.between(renumbered(labels, group), int(one[0]), int(other[0]))
            return known[key]

        return between

    def touching(self, labels: IntArray, modes: int) -> BoolArray:
        """For pairs of modes, whether the rows between them are so many that no clear gap is there, (K, K)."""
        return np.asarray(
            self.valleys(labels, modes) >= _CLEAR_GAP
        )  # where nothing is said, they do not touch

    def families(self, labels: IntArray, modes: int, most: float) -> IntArray:
        """The family of each mode: small modes (at most ``most`` of the rows) go with what hardly any gap parts them from.

        The two with the least gap join first, and what they are together is asked again. Two large ones never join.

        >>> rng = np.random.default_rng(0)
        >>> x = np.concatenate([rng.normal(size=900), rng.normal(3.5, 1, 50), rng.normal(20, 1, 50)])[:, None]
        >>> labels = np.repeat([0, 1, 2], [900, 50, 50])
        >>> Gaps.among(x, np.arange(1000), rng).families(labels, 3, 0.1).tolist()
        [0, 0, 1]
        """
        family, labels = np.arange(modes), labels.copy()
        size = part_of_rows(labels, modes)
        flatness = np.nan_to_num(self.valleys(labels, modes), nan=-1.0)
        while True:
            may = np.triu((size[:, None] <= most) | (size[None, :] <= most), 1)
            k, m = (int(i) for i in np.unravel_index(int(np.where(may, flatness, -1.0).argmax()), may.shape))
            if not may[k, m] or flatness[k, m] < _KIN:
                return np.unique(family, return_inverse=True)[1].reshape(-1)
            if self.projected and self._mixed(labels, k, m) < _PIECES:
                flatness[k, m] = -1.0
                continue
            labels[labels == m], family[family == m] = k, k
            size[k], size[m] = size[k] + size[m], 1.0
            others = np.setdiff1d(family, k)
            pairs = [(min(k, int(j)), max(k, int(j))) for j in others]
            again = np.nan_to_num(self.valleys(labels, modes, pairs), nan=-1.0)
            flatness[m, :] = flatness[:, m] = -1.0
            for i, j in pairs:
                flatness[i, j] = again[i, j]

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
            pair = self._one_crowd(labels)
            if pair is None:
                break
            labels = compact(np.where(labels == pair[1], pair[0], labels))
        return labels

    def _one_crowd(self, labels: IntArray) -> tuple[int, int] | None:
        """The two modes with the least gap between them, if there is none, and if rows of the one have some of the other near.

        A line sees no hole: a ring's arc lies beside its centre as if there were no gap.
        """
        flatness = np.triu(np.nan_to_num(self.valleys(labels, int(labels.max()) + 1), nan=-1.0), 1)
        while True:
            k, m = (int(i) for i in np.unravel_index(int(flatness.argmax()), flatness.shape))
            if flatness[k, m] < _NO_GAP:
                return None
            if not self._strangers(labels, k, m):
                return k, m
            flatness[k, m] = -1.0

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
    return Gaps.among(np.concatenate(_sides(data, some), axis=1), some, rng)


def projected_gaps(data: FrontRows, rng: np.random.Generator) -> Gaps | None:
    """The same for windows and wide rows, in the directions in which they vary most.

    Not for images: things that differ in shape alone, moved about, overlap on every line (MNIST's digits do).
    """
    if any(len(shape) > 2 for shape in data.shapes):
        return None
    some = np.sort(rng.permutation(len(data))[:_GAP_ROWS])
    rows = np.concatenate([_widest(x, rng) for x in _sides(data, some)], axis=1)
    return Gaps.among(rows, some, rng, projected=True)


def _sides(data: FrontRows, some: IntArray) -> list[FloatArray]:
    return [data.side(which, some).numpy().reshape(len(some), -1).astype(np.float64) for which in (0, 1)]


def _widest(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The rows in the directions in which they vary most."""
    few = min(_DIRECTIONS, x.shape[1], len(x) - 1)
    pca = PCA(few, svd_solver="randomized", random_state=int(rng.integers(2**31)))
    return np.asarray(pca.fit_transform(x))


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
