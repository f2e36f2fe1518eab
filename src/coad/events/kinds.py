"""Cluster flagged events into kinds.

Events have many features (:mod:`coad.events.kind_features`), most of them unrelated to the kind. If the
two inputs share nothing but the kind of an event, features that are correlated between the inputs depend on
the kind. So the canonical correlations that exceed those of shuffled pairs are kept, and events are clustered
in these coordinates by k-means. If that gives one kind, the principal components of all features are
clustered instead. With several kinds, Fisher's discriminants of all features are used in the end.

The number of kinds is the one with the best agreement between two halves of the events (the larger one
of equals), if there is a density dip between any two kinds, and if a single Gaussian would not be
clustered as tightly. Events far from all kinds are noise (-1). Stability is measured on bootstrap
resamples. A known kind ("warm-up") can be dismissed: see :meth:`coad.CoAD.dismiss`.

Limits: overlapping kinds are merged. Kinds that differ in one input only are separated only if no kinds
differ in both inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from coad._typing import FloatArray, IntArray, RandomState
from coad.core.validation import as_generator
from coad.data.pairs import take_rows, unpacked
from coad.events.kind_features import Features, event_features
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["NOISE", "KindModel", "Kinds", "find_kinds"]

NOISE = -1
_EVENTS_A_KIND = 8  # smallest size of a kind
_AGREEMENT = 0.6  # smallest adjusted Rand index between the clusterings of two halves
_AS_GOOD = 0.03  # more kinds are preferred if the agreement is lower by at most this
_HALVINGS = 12  # random halvings
_VALLEY = 0.85  # largest density half-way between two kinds, relative to that at their centres
_CLOUDS = 19  # simulated single Gaussians, all of which must be less tight: a test at 5 %
_SHUFFLES = 99  # shuffled pairings, all of which must have lower correlations: a test at 1 %
_RIDGE = 0.2  # shrinkage of covariances, relative to the mean variance
_MOST_SHARED = 8  # canonical correlations
_MOST_AXES = 20  # principal components
_FAR = 3.0  # events further from their kind than this many median distances are noise
_LEAST = 0.2  # smallest scale of a feature, so that tiny differences do not count
_MOST = 2000  # events that are used to choose the number of kinds


@dataclass(frozen=True)
class KindModel:
    """Assigns events to kinds: standardise features, project, and take the nearest centre."""

    centre: FloatArray
    scale: FloatArray
    axes: FloatArray  # (features, axes): the projection
    means: FloatArray  # (kinds, axes), the largest kind first
    typical: FloatArray  # (kinds, features), standardised
    radius: FloatArray  # median distance of the events of a kind from its centre

    def standardise(self, features: Features) -> FloatArray:
        """Standardised features of both inputs."""
        both = np.concatenate(features, axis=1)
        return np.asarray(np.clip((both - self.centre) / self.scale, -5, 5))

    def project(self, features: Features) -> FloatArray:
        """Standardised and projected features."""
        return np.asarray(self.standardise(features) @ self.axes)

    def assign(self, features: Features) -> IntArray:
        """The kind of each event; -1 for events far from all kinds."""
        if len(features[0]) == 0:
            return np.zeros(0, dtype=np.int64)
        z = self.standardise(features)
        best = _distances(z @ self.axes, self.means).argmin(1)
        near = np.linalg.norm(z - self.typical[best], axis=1) <= _FAR * self.radius[best]
        return np.where(near, best, NOISE)

    def kinds_of(self, det: CoAD, s: Any, q: Any, context: Any) -> IntArray:
        """The kind of each row; all rows are events of ``det``."""
        return self.assign(event_features(det, s, q, context))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: value.tolist() for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KindModel:
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: np.array(value, dtype=float) for name, value in data.items()})


@dataclass(frozen=True)
class Kinds:
    """Flagged rows and their kinds, the largest kind first.

    Parameters
    ----------
    rows : array of int
        The flagged rows.
    label : array of int
        The kind of each flagged row; -1 is noise.
    n_kinds : int
        Number of kinds.
    stability : float
        Mean adjusted Rand index between this clustering and those of resamples.
    kind_stability : array of shape (n_kinds,)
        Mean Jaccard index of each kind with its best match in the resamples.
    agreement : dict
        Agreement between two halves for each number of kinds that was tried.
    model : KindModel
        Assigns new events to kinds.
    """

    rows: IntArray
    label: IntArray
    n_kinds: int
    stability: float
    kind_stability: FloatArray
    agreement: dict[int, float]
    model: KindModel

    @property
    def sizes(self) -> IntArray:
        """Number of events of each kind."""
        return np.asarray(np.bincount(self.label[self.label >= 0], minlength=self.n_kinds))

    @property
    def n_noise(self) -> int:
        """Number of events that are noise."""
        return int((self.label == NOISE).sum())

    def of_row(self, n_rows: int) -> IntArray:
        """The kind of each of ``n_rows`` rows; -1 also for rows that are not flagged."""
        kinds: IntArray = np.full(n_rows, NOISE, dtype=np.int64)
        kinds[self.rows] = self.label
        return kinds

    def members(self, kind: int) -> IntArray:
        """The rows of a kind."""
        return np.asarray(self.rows[self.label == kind])


def find_kinds(
    det: CoAD,
    s: Any,
    q: Any = None,
    *,
    context: Any = None,
    flags: Any = None,
    max_kinds: int = 10,
    n_resamples: int = 20,
    random_state: RandomState = 0,
) -> Kinds:
    """Cluster the flagged rows into kinds; the result is also kept as ``det.kinds_`` for ``det.dismiss``.

    Parameters
    ----------
    det : CoAD
        A fitted detector.
    s, q : array or DataFrame
        Rows of the two inputs; or a :class:`~coad.Pairs` and None.
    context : array, optional
        Context of each row.
    flags : array of bool, optional
        The rows to cluster (default: those that ``det`` flags).
    max_kinds : int
        Largest number of kinds.
    n_resamples : int
        Bootstrap resamples for the stability.
    random_state : int or Generator
        For reproducible kinds.

    Returns
    -------
    Kinds

    >>> from coad.learned.estimator import CoAD
    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 800, 4))
    >>> s[:40, 0] += 6; q[:80, 1] += 6; s[40:80, 3] += 6
    >>> det = CoAD(epochs=60, n_starts=2, random_state=0).fit(s, q)
    >>> kinds = find_kinds(det, s, q)
    >>> kinds.n_kinds
    2
    """
    if max_kinds < 1:
        raise InputError(f"max_kinds must be 1 or more, not {max_kinds}")
    s, q, context, _, _ = unpacked(s, q, context, None, None)
    flagged = det.predict(s, q, context) if flags is None else np.asarray(flags, dtype=bool)
    if flagged.shape != (len(s),):
        raise InputError(f"flags has shape {flagged.shape}, but there are {len(s):,} rows")
    rows = np.flatnonzero(flagged)
    if len(rows) < 2:
        raise InputError(f"kinds need at least 2 flagged rows, not {len(rows)}")
    labels = None if context is None else np.asarray(context)[rows]
    features = event_features(det, take_rows(s, rows), take_rows(q, rows), labels)
    rng = as_generator(random_state)
    model, agreement = fit_kinds(features, max_kinds, int(rng.integers(2**31)))
    label = model.assign(features)
    stability, each = _stability(model, features, label, n_resamples, rng)
    found = Kinds(rows, label, len(model.means), stability, each, agreement, model)
    det.kinds_ = found
    return found


def fit_kinds(features: Features, max_kinds: int, random_state: int) -> tuple[KindModel, dict[int, float]]:
    """Fit kinds; also returns the agreement between two halves for each number of kinds that was tried."""
    rng = np.random.default_rng(random_state)
    both = np.concatenate(features, axis=1)
    centre = np.median(both, axis=0)
    low, high = np.quantile(both, (0.1, 0.9), axis=0)
    scale = np.maximum((high - low) / 2.56, _LEAST)  # the standard deviation of a normal distribution
    z = np.clip((both - centre) / scale, -5, 5)
    some = z if len(z) <= _MOST else z[rng.choice(len(z), _MOST, replace=False)]
    split = features[0].shape[1]
    axes = _shared_axes(some, split, rng)
    best, agreement = _number(some @ axes, max_kinds, rng)
    if best == 1:
        axes = _principal(some)
        best, agreement = _number(some @ axes, max_kinds, rng)
    label = _k_means(z @ axes, best, random_state).labels_
    sizes = np.bincount(label, minlength=best)
    # Clusters of few events are not kinds; their events are noise unless they lie near a kind.
    order = np.argsort(-sizes, kind="stable")
    kept = order[sizes[order] >= min(_EVENTS_A_KIND, sizes.max())]
    held = np.isin(label, kept)
    label = (label[held, None] == kept).argmax(1)
    if len(kept) > 1:
        axes = _discriminants(z[held], label, len(kept))
        y = z[held] @ axes
        label = _k_means(y, len(kept), random_state, start=_means(y, label, len(kept))).labels_
    typical = _means(z[held], label, len(kept))
    away = np.linalg.norm(z[held] - typical[label], axis=1)
    radius = np.array([np.median(away[label == kind]) for kind in range(len(kept))])
    order = np.argsort(-np.bincount(label), kind="stable")
    typical, radius = typical[order], np.maximum(radius[order], 1e-3)
    return KindModel(centre, scale, axes, typical @ axes, typical, radius), agreement


def _shared_axes(z: FloatArray, split: int, rng: np.random.Generator) -> FloatArray:
    """(features, axes): canonical axes with correlations above those of shuffled pairs.

    Each axis is weighted by the square root of its correlation.
    """
    sides = [z[:, :split] - z[:, :split].mean(0), z[:, split:] - z[:, split:].mean(0)]
    into = [_whitening(side) for side in sides]
    white = [side @ axes for side, axes in zip(sides, into, strict=True)]
    u, rho, v = np.linalg.svd(white[0].T @ white[1] / len(z))
    chance = max(
        np.linalg.norm(white[0].T @ rng.permutation(white[1]) / len(z), ord=2) for _ in range(_SHUFFLES)
    )
    count = min(int(np.cumprod(rho > chance).sum()), _MOST_SHARED)
    weight = np.sqrt(rho[:count])
    axes = np.zeros((z.shape[1], 2 * count))
    axes[:split, :count] = into[0] @ u[:, :count] * weight
    axes[split:, count:] = into[1] @ v.T[:, :count] * weight
    return axes


def _whitening(z: FloatArray) -> FloatArray:
    """(features, axes): principal components scaled to variance 1, up to the ridge."""
    directions = _principal(z)
    variance = (z @ directions).var(0)
    return np.asarray(directions / np.sqrt(np.maximum(variance + _RIDGE * variance.mean(), 1e-12)))


def _principal(z: FloatArray) -> FloatArray:
    """(features, axes): principal components; fewer if there are few events."""
    most = max(1, min(_MOST_AXES, len(z) // 10))
    return np.asarray(np.linalg.svd(z - z.mean(0), full_matrices=False)[2][:most].T)


def _discriminants(z: FloatArray, label: IntArray, k: int) -> FloatArray:
    """(features, k - 1): Fisher's discriminants of the kinds, with large variance ratios damped."""
    means = _means(z, label, k)
    within = np.cov((z - means[label]).T)
    within = (1 - _RIDGE) * within + _RIDGE * np.trace(within) / len(within) * np.eye(len(within))
    ratio, axes = eigh(np.cov(means[label].T), within)
    return np.asarray(axes[:, :-k:-1] / np.sqrt(2 + ratio[:-k:-1]))


def _number(y: FloatArray, max_kinds: int, rng: np.random.Generator) -> tuple[int, dict[int, float]]:
    """The number of kinds, and the agreement between halves for each number that was tried."""
    distinct = len(np.unique(y, axis=0)) if y.shape[1] else 0
    most = max(1, min(max_kinds, distinct // (2 * _EVENTS_A_KIND)))
    agreement = {1: 1.0} | {k: _agreement(y, k, rng) for k in range(2, most + 1)}
    good = [
        k
        for k, value in agreement.items()
        if k > 1 and value >= _AGREEMENT and _are_apart(y, k) and _beats_one_cloud(y, k, rng)
    ]
    if not good:
        return 1, agreement
    least = max(agreement[k] for k in good) - _AS_GOOD
    return max(k for k in good if agreement[k] >= least), agreement


def _agreement(y: FloatArray, k: int, rng: np.random.Generator) -> float:
    """Mean adjusted Rand index between the clustering of a half and its assignment to the other half's kinds."""
    found = []
    for _ in range(_HALVINGS):
        one, other = np.array_split(rng.permutation(len(y)), 2)
        state = int(rng.integers(2**31))
        assigned = _distances(y[one], _k_means(y[other], k, state).cluster_centers_).argmin(1)
        found.append(adjusted_rand_score(_k_means(y[one], k, state).labels_, assigned))
    return float(np.mean(found))


def _are_apart(y: FloatArray, k: int) -> bool:
    """Whether there is a density dip between any two kinds, along their Fisher discriminant."""
    label = _k_means(y, k, 0).labels_
    means = _means(y, label, k)
    within = np.atleast_2d(np.cov((y - means[label]).T))
    within += 0.05 * np.var(y) * np.eye(len(within))
    for a in range(k):
        for b in range(a):
            step = means[b] - means[a]
            way = np.linalg.solve(within, step)
            place = (y[(label == a) | (label == b)] - means[a]) @ way / max(float(step @ way), 1e-12)
            at_a, between, at_b = ((np.abs(place - at) < 0.25).sum() for at in (0.0, 0.5, 1.0))
            if between + 1 > _VALLEY * (np.sqrt(at_a * at_b) + 1):
                return False
    return True


def _beats_one_cloud(y: FloatArray, k: int, rng: np.random.Generator) -> bool:
    """Whether k kinds are tighter than k clusters of a Gaussian with the same covariance."""
    covariance = np.atleast_2d(np.cov(y.T))
    mine = _k_means(y, k, 0).inertia_
    clouds = (rng.multivariate_normal(np.zeros(y.shape[1]), covariance, len(y)) for _ in range(_CLOUDS))
    return all(mine < _k_means(cloud, k, 0).inertia_ for cloud in clouds)


def _k_means(y: FloatArray, k: int, random_state: int, start: FloatArray | None = None) -> KMeans:
    if start is not None:
        return KMeans(k, init=start, n_init=1, random_state=random_state).fit(y)
    return KMeans(k, n_init=4, random_state=random_state).fit(y)


def _means(z: FloatArray, label: IntArray, k: int) -> FloatArray:
    return np.array([z[label == kind].mean(0) for kind in range(k)])


def _distances(z: FloatArray, means: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(z[:, None] - means, axis=2))


def _stability(
    model: KindModel, features: Features, label: IntArray, n_resamples: int, rng: np.random.Generator
) -> tuple[float, FloatArray]:
    """Agreement with the clusterings of bootstrap resamples, over all and of each kind."""
    k, y = len(model.means), model.project(features)
    held = label >= 0
    scores, overlap = [], np.ones((max(n_resamples, 1), k))
    for draw in range(n_resamples):
        drawn = y[rng.choice(np.flatnonzero(held), held.sum())]
        if len(np.unique(drawn, axis=0)) < k:
            continue
        again = _distances(y, _k_means(drawn, k, int(rng.integers(2**31))).cluster_centers_).argmin(1)
        scores.append(adjusted_rand_score(label[held], again[held]))
        both = np.array([[(held & (label == a) & (again == b)).sum() for b in range(k)] for a in range(k)])
        either = both.sum(1)[:, None] + both.sum(0) - both
        overlap[draw] = (both / np.maximum(either, 1)).max(1)
    return (float(np.mean(scores)) if scores else 1.0), overlap.mean(0)
