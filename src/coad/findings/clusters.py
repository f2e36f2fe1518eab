"""Clusters of pairs: k-means in the features of both inputs side by side.

What people call a kind of event is often a small crowd of similar rows far from the rest in both inputs. Each input by
itself says that a row belongs to a cluster if its own part of the centre is the nearest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from coad._typing import FloatArray, IntArray
from coad.findings.candidates import Candidate, FitRows, Rows, Votes

__all__ = ["ClusterLens"]

#: Clusters looked for: about as many as a person looks through. With 10, small kinds share a cluster with normal rows; with
#: 40, common events fall into many pieces. Fewer in short tables, where a cluster has this many rows in the mean.
_CLUSTERS, _MEAN_ROWS = 20, 15
#: Starts of k-means for the clusters, and without each part of the rows.
_STARTS, _STARTS_OF_PARTS = 5, 2
#: Rows that centres are fitted on: of a cluster of one row in a hundred it sees fifty, and more do not move its centre.
_MOST_ROWS = 5_000


class ClusterLens:
    """Clusters of the pairs as candidates."""

    name = "clusters"

    def __init__(self, centres_s: FloatArray | None = None, centres_q: FloatArray | None = None) -> None:
        self.centres_s = np.zeros((0, 0)) if centres_s is None else centres_s
        self.centres_q = np.zeros((0, 0)) if centres_q is None else centres_q

    def propose(self, data: FitRows) -> list[Candidate]:
        """The clusters of all rows; their scores are those of clusters found without the row's part."""
        count = min(_CLUSTERS, len(data) // _MEAN_ROWS)
        both = np.concatenate([data.features_s, data.features_q], axis=1).astype(np.float64)
        width = data.features_s.shape[1]
        rng = data.rng(1)
        centres = _centres(both, np.arange(len(both)), count, _STARTS, rng)
        self.centres_s, self.centres_q = centres[:, :width], centres[:, width:]
        label = self.votes(data).member.argmax(1)
        scores = np.full((2, len(data), count), -np.inf)
        again = np.zeros((2, count))
        for fold in np.unique(data.fold):
            rows, held = np.flatnonzero(data.fold != fold), np.flatnonzero(data.fold == fold)
            part = _centres(both, rows, count, _STARTS_OF_PARTS, rng)
            # A cluster of the part belongs to the whole one that holds most of its rows.
            nearest = _distances(both[rows], part).argmin(1)
            table = np.zeros((count, len(part)))
            np.add.at(table, (label[rows], nearest), 1)
            home = table.argmax(0)
            distances = [
                _distances(x[held], y)
                for x, y in ((both[:, :width], part[:, :width]), (both[:, width:], part[:, width:]))
            ]
            for side, distance in enumerate(distances):
                scores[side, held] = _margins(distance, home, count)
            found = home[(distances[0] + distances[1]).argmin(1)]
            for k in range(count):
                again[:, k] += (
                    np.sum((label[held] == k) & (found == k)),
                    np.sum((label[held] == k) | (found == k)),
                )
        stability = again[0] / np.maximum(again[1], 1)
        judged = np.ones(len(data), dtype=bool)
        return [
            Candidate(self.name, k, label == k, scores[0, :, k], scores[1, :, k], judged, float(stability[k]))
            for k in range(count)
            if (label == k).any()
        ]

    def votes(self, rows: Rows) -> Votes:
        """Margins of each input, and the nearest centre by both."""
        count = len(self.centres_s)
        distance_s, distance_q = (
            _distances(rows.features_s, self.centres_s),
            _distances(rows.features_q, self.centres_q),
        )
        nearest = (distance_s + distance_q).argmin(1)
        own = np.arange(count)
        return Votes(
            _margins(distance_s, own, count),
            _margins(distance_q, own, count),
            nearest[:, None] == own[None, :],
        )

    def to_facts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The centres."""
        return {}, {"centres_s": self.centres_s, "centres_q": self.centres_q}

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> ClusterLens:
        """The inverse of :meth:`to_facts`."""
        return cls(arrays["centres_s"], arrays["centres_q"])


def _centres(x: FloatArray, rows: IntArray, count: int, starts: int, rng: np.random.Generator) -> FloatArray:
    some = rows if len(rows) <= _MOST_ROWS else rng.permutation(rows)[:_MOST_ROWS]
    count = min(count, len(np.unique(x[some], axis=0)))
    model = KMeans(count, n_init=starts, random_state=int(rng.integers(2**31))).fit(x[some])
    return np.asarray(model.cluster_centers_, dtype=np.float64)


def _distances(x: NDArray[Any], centres: FloatArray) -> FloatArray:
    """Squared distances, (n, centres)."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(np.square(x).sum(1)[:, None] - 2 * x @ centres.T + np.square(centres).sum(1))


def _margins(distance: FloatArray, home: IntArray, count: int) -> FloatArray:
    """By how much a row is nearer to its own centres than to all others, for each of ``count`` clusters.

    ``home`` says which cluster each centre belongs to; a cluster without a centre gets -inf.
    """
    nearest = np.full((len(distance), count), np.inf)
    for k in range(count):
        own = home == k
        if own.any():
            nearest[:, k] = distance[:, own].min(1)
    order = np.sort(nearest, axis=1)
    first, second = order[:, :1], order[:, 1:2] if count > 1 else order[:, :1]
    other = np.where(nearest <= first, second, first)
    with np.errstate(invalid="ignore"):
        margin = other - nearest
    return np.where(np.isinf(nearest), -np.inf, np.where(np.isinf(other), np.inf, margin))
