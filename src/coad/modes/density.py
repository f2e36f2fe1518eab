"""Density dips between modes: are two modes separate, or pieces of one continuum?

Any K-way network cuts a shared continuum (a temperature, a load) into pieces, and the sharpness of its border says
nothing. So the density of the rows is examined: two modes are projected on Fisher's discriminant, fitted without the
projected row (cross-validation). If the projection separates them and the density at the border is that of the thinner
mode, they are pieces of one continuum; if the density dips, they are two modes.

Where a line does not separate them (a ring from its centre), nearest neighbours decide: two modes are separate if they
hardly share any.
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
from coad.modes.consensus import compact, mode_sizes, renumbered
from coad.modes.coordinates import MappedRows

__all__ = ["Between", "DensityDips", "density_dips", "dip_ratio", "projected_density_dips"]

#: What lies between two modes: "unclear" where no line separates them and they share neighbours.
Between = Literal["dip", "no dip", "unclear"]

#: Rows sampled for the density, which keeps it to seconds, and columns of both inputs above which it is too noisy.
_SAMPLE, _MAX_COLUMNS = 5_000, 400
#: Cross-validation folds of the discriminant: ten is customary.
_FOLDS = 10
#: Dip ratio (density at the border / lower peak): no dip from the first on (1 but for noise), a clear dip below the
#: second. Of 0.3 and 0.6 the second keeps the rare digit of each of ten data sets apart, judged by its labels.
_NO_DIP, _CLEAR_DIP = 0.8, 0.6
#: Dip ratio from which a small mode is a variant of its neighbour: pieces of simulated patients have 0.6 and more, most
#: variants of a digit 0.3 and more, a rare digit 0.3 and less in six of ten sets, judged by its labels.
_VARIANT = 0.3
#: AUC from which the discriminant separates two modes; below, a dip along it means nothing.
_SEPARATED = 0.9
#: Ridge on the within-mode scatter, relative to its mean diagonal, so that it can be inverted.
_RIDGE = 0.05
#: Nearest neighbours per row, and the mixing (see ``_neighbour_mixing``) up to which two modes share hardly any.
_NEIGHBOURS, _UNMIXED = 10, 0.01
#: Mixing from which modes are pieces of one, where only some directions are examined: heart beats of one simulated patient
#: have 0.25 to 0.9.
_PIECES = 0.2
#: Principal components of each input for windows and wide rows: enough for 5,000 rows.
_COMPONENTS = 30
#: Grid points of the density estimate, finer than its bandwidth.
_GRID = 128
#: Modes of fewer sampled rows are too few for a density.
_MIN_ROWS = 5


@dataclass(frozen=True)
class DensityDips:
    """A sample of rows (m, coordinates), their numbers among all rows, and the cross-validation fold of each.

    ``projected``: only some directions are examined, in which separate modes may overlap.
    """

    rows: FloatArray
    index: IntArray
    fold: IntArray
    projected: bool = False

    @classmethod
    def of(
        cls, rows: FloatArray, index: IntArray, rng: np.random.Generator, *, projected: bool = False
    ) -> DensityDips:
        """The sample ``rows``, which are those numbered ``index``, with random folds."""
        return cls(rows, index, rng.permutation(len(rows)) % _FOLDS, projected)

    def between(self, labels: IntArray, one: int, other: int) -> Between:
        """Whether the density dips between two modes."""
        modes = max(int(labels.max()), one, other) + 1
        ratio = self.dip_ratios(labels, modes, [(one, other)])[one, other]
        if np.isnan(ratio):
            return "dip" if self._neighbour_mixing(labels, one, other) <= _UNMIXED else "unclear"
        return "dip" if ratio < _CLEAR_DIP else "no dip"

    def _neighbour_mixing(self, labels: IntArray, one: int, other: int) -> float:
        """Nearest neighbours that belong to the other mode, per neighbour of the smaller mode's rows.

        About 1 if two halves of one cluster are mixed at random, 0 if they are separate; 1 if there are too few rows.
        """
        label = labels[self.index]
        rows = np.flatnonzero((label == one) | (label == other))
        own = label[rows] == one
        fewer = int(min(own.sum(), (~own).sum()))
        if fewer < _MIN_ROWS:
            return 1.0
        near = min(_NEIGHBOURS, fewer - 1)
        found = NearestNeighbors(n_neighbors=near).fit(self.rows[rows]).kneighbors(return_distance=False)
        return float((own[found] != own[:, None]).sum() / (near * fewer))

    def cached_between(self, labels: IntArray) -> Callable[[IntArray, IntArray], Between]:
        """:meth:`between` for two sets of modes, computed once for each pair of sets."""
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], Between] = {}

        def between(one: IntArray, other: IntArray) -> Between:
            key = tuple(one.tolist()), tuple(other.tolist())
            if key not in known:
                group = np.arange(max(int(labels.max()), *key[0], *key[1]) + 1)
                group[one], group[other] = one[0], other[0]
                known[key] = self.between(renumbered(labels, group), int(one[0]), int(other[0]))
            return known[key]

        return between

    def adjacent(self, labels: IntArray, modes: int) -> BoolArray:
        """For pairs of modes, whether there is no clear dip between them, (K, K); False where it is unclear."""
        return np.asarray(self.dip_ratios(labels, modes) >= _CLEAR_DIP)

    def variant_groups(self, labels: IntArray, modes: int, most: float) -> IntArray:
        """The group of each mode: small modes (at most ``most`` of the rows) join the neighbour with the least dip.

        The pair with the least dip joins first, and the dips of the union are computed again. Two large modes never
        join.

        >>> rng = np.random.default_rng(0)
        >>> x = np.concatenate([rng.normal(size=900), rng.normal(3.5, 1, 50), rng.normal(20, 1, 50)])[:, None]
        >>> labels = np.repeat([0, 1, 2], [900, 50, 50])
        >>> DensityDips.of(x, np.arange(1000), rng).variant_groups(labels, 3, 0.1).tolist()
        [0, 0, 1]
        """
        group, labels = np.arange(modes), labels.copy()
        size = mode_sizes(labels, modes)
        ratio = np.nan_to_num(self.dip_ratios(labels, modes), nan=-1.0)
        while True:
            may = np.triu((size[:, None] <= most) | (size[None, :] <= most), 1)
            k, m = (int(i) for i in np.unravel_index(int(np.where(may, ratio, -1.0).argmax()), may.shape))
            if not may[k, m] or ratio[k, m] < _VARIANT:
                return np.unique(group, return_inverse=True)[1].reshape(-1)
            if self.projected and self._neighbour_mixing(labels, k, m) < _PIECES:
                ratio[k, m] = -1.0
                continue
            labels[labels == m], group[group == m] = k, k
            size[k], size[m] = size[k] + size[m], 1.0
            others = np.setdiff1d(group, k)
            pairs = [(min(k, int(j)), max(k, int(j))) for j in others]
            again = np.nan_to_num(self.dip_ratios(labels, modes, pairs), nan=-1.0)
            ratio[m, :] = ratio[:, m] = -1.0
            for i, j in pairs:
                ratio[i, j] = again[i, j]

    def merge_without_dip(self, labels: IntArray) -> IntArray:
        """Labels after merging, pair by pair, the modes without a dip between them; -1 stays.

        >>> rng = np.random.default_rng(0)
        >>> x = np.append(rng.normal(size=900), rng.normal(8, 1, 100))[:, None]
        >>> labels = np.where(x[:, 0] > 4, 2, np.where(x[:, 0] > 1.2, 1, 0))  # the first cluster is cut in two
        >>> np.bincount(DensityDips.of(x, np.arange(1000), rng).merge_without_dip(labels)).tolist()
        [900, 100]
        """
        labels = compact(labels)
        while labels.max() >= 1:
            pair = self._pair_without_dip(labels)
            if pair is None:
                break
            labels = compact(np.where(labels == pair[1], pair[0], labels))
        return labels

    def _pair_without_dip(self, labels: IntArray) -> tuple[int, int] | None:
        """The two modes with the largest dip ratio, if that is no dip and they share neighbours.

        Neighbours are needed because a projection hides holes: an arc of a ring lies beside the ring's centre.
        """
        ratio = np.triu(np.nan_to_num(self.dip_ratios(labels, int(labels.max()) + 1), nan=-1.0), 1)
        while True:
            k, m = (int(i) for i in np.unravel_index(int(ratio.argmax()), ratio.shape))
            if ratio[k, m] < _NO_DIP:
                return None
            if self._neighbour_mixing(labels, k, m) > _UNMIXED:
                return k, m
            ratio[k, m] = -1.0

    def dip_ratios(
        self, labels: IntArray, modes: int, pairs: Iterable[tuple[int, int]] | None = None
    ) -> FloatArray:
        """The :func:`dip_ratio` of pairs of modes (all by default), (K, K); NaN where no line separates them.

        ``labels`` are those of all rows, -1 where there is none.
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
        solved = np.linalg.solve(
            scatter, rows.T
        ).T  # a product with these rows is one in the discriminant's metric
        # The centres without the rows of each fold, as they are and in the discriminant's metric.
        left = np.maximum(size[:, None] - counts, 1.0)[..., None]
        without = (sums.sum(1, keepdims=True) - sums) / left
        solved_centres = np.linalg.solve(scatter, without.reshape(-1, width).T).T.reshape(without.shape)
        members = [np.flatnonzero(label == i) for i in range(k)]
        for i, j in combinations(range(k), 2) if pairs is None else pairs:
            if min(size[i], size[j]) < _MIN_ROWS:
                continue
            line, solved_line = without[i] - without[j], solved_centres[i] - solved_centres[j]
            middle = ((without[i] + without[j]) / 2 * solved_line).sum(1)
            length = np.sqrt(np.maximum((line * solved_line).sum(1), 1e-30))
            upper, lower = (
                ((solved[r] * line[fold[r]]).sum(1) - middle[fold[r]]) / length[fold[r]]
                for r in (members[i], members[j])
            )
            if np.searchsorted(np.sort(lower), upper).mean() / len(lower) >= _SEPARATED:
                found[i, j] = found[j, i] = dip_ratio(upper, lower)
        return found


def density_dips(data: MappedRows, rng: np.random.Generator) -> DensityDips | None:
    """A sample of rows of both inputs side by side, if they are flat and not too wide."""
    if not data.flat or sum(math.prod(shape) for shape in data.shapes) > _MAX_COLUMNS:
        return None
    some = np.sort(rng.permutation(len(data))[:_SAMPLE])
    return DensityDips.of(np.concatenate(_flattened(data, some), axis=1), some, rng)


def projected_density_dips(data: MappedRows, rng: np.random.Generator) -> DensityDips | None:
    """The same for windows and wide rows, in their principal components.

    Not for images: shapes that move about overlap on every line (MNIST's digits do).
    """
    if any(len(shape) > 2 for shape in data.shapes):
        return None
    some = np.sort(rng.permutation(len(data))[:_SAMPLE])
    rows = np.concatenate([_principal_components(x, rng) for x in _flattened(data, some)], axis=1)
    return DensityDips.of(rows, some, rng, projected=True)


def _flattened(data: MappedRows, some: IntArray) -> list[FloatArray]:
    return [data.side(which, some).numpy().reshape(len(some), -1).astype(np.float64) for which in (0, 1)]


def _principal_components(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    few = min(_COMPONENTS, x.shape[1], len(x) - 1)
    pca = PCA(few, svd_solver="randomized", random_state=int(rng.integers(2**31)))
    return np.asarray(pca.fit_transform(x))


def dip_ratio(upper: FloatArray, lower: FloatArray) -> float:
    """The least density between the medians of two samples on a line, divided by the lower of the two peaks.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> dip_ratio(x[x > 1], x[x <= 1]) > 0.9, dip_ratio(rng.normal(8, 1, 50), x) < 0.1
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
