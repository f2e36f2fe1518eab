"""What kind: flagged events sorted into kinds by what the two networks see in them.

Events are described by numbers (:mod:`coad._kind_features`) and sorted by k-means. The number of kinds is
the largest whose sorting one half of the events predicts for the other (prediction strength,
Tibshirani and Walther 2005), provided that one cloud would not be cut as well; events far from
every kind are noise (-1); how firmly the sorting stands is measured on resamples. A kind that is
understood ("warm-up") can be dismissed: see :meth:`coad.CoAD.dismiss`.

The number is the weak point: kinds that overlap are put together, and on a few hundred events the
number may change with ``random_state`` (``strength`` tells how near other numbers came).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from coad._kind_features import event_features
from coad._typing import FloatArray, IntArray, RandomState
from coad._validation import as_generator
from coad.exceptions import InputError
from coad.training.inputs import unpacked

if TYPE_CHECKING:
    from coad.learned import CoAD

__all__ = ["NOISE", "KindModel", "Kinds", "find_kinds"]

NOISE = -1
_EVENTS_A_KIND = 8  # no kind has fewer events
_STRENGTH = 0.8  # of prediction, that a number of kinds must reach (as its inventors advise)
_HALVINGS = 6
_CLOUDS = 19  # single clouds that the sorting must beat: one chance in twenty
_FAR = 3.0  # times the middle distance from its kind: an event farther away belongs to none
_LEAST = 0.2  # a number that differs by less does not make a kind
_MOST = 2000  # events that choose the number of kinds


@dataclass(frozen=True)
class KindModel:
    """How an event's kind is told: standardise, and the nearest of some centres."""

    centre: FloatArray
    scale: FloatArray
    means: FloatArray  # (kinds, features), the largest kind first
    radius: FloatArray  # the middle distance of a kind's events from its mean

    def project(self, features: FloatArray) -> FloatArray:
        """Standardised features."""
        return np.asarray(np.clip((features - self.centre) / self.scale, -5, 5))

    def assign(self, features: FloatArray) -> IntArray:
        """The kind of each event; -1 for those far from every kind."""
        if len(features) == 0:
            return np.zeros(0, dtype=np.int64)
        distance = _distances(self.project(features), self.means)
        best = distance.argmin(1)
        near = distance[np.arange(len(best)), best] <= _FAR * self.radius[best]
        return np.where(near, best, NOISE)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: value.tolist() for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KindModel:
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: np.array(value, dtype=float) for name, value in data.items()})


@dataclass(frozen=True)
class Kinds:
    """Flagged events and their kinds, the largest kind first."""

    rows: IntArray  # the numbers of the flagged rows
    label: IntArray  # the kind of each, -1: noise
    n_kinds: int
    stability: float  # mean adjusted Rand index between this sorting and those of resamples
    kind_stability: FloatArray  # mean Jaccard index of each kind with its best match in a resample
    strength: dict[int, float]  # of prediction, for each number of kinds that was tried
    model: KindModel

    @property
    def sizes(self) -> IntArray:
        """Events of each kind."""
        return np.asarray(np.bincount(self.label[self.label >= 0], minlength=self.n_kinds))

    @property
    def n_noise(self) -> int:
        """Events of no kind."""
        return int((self.label == NOISE).sum())

    def of_row(self, n_rows: int) -> IntArray:
        """A kind for each of ``n_rows`` rows; -1 also for rows that were not flagged."""
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
    """Sort the flagged rows into kinds, and remember them in ``det.kinds_`` for ``det.dismiss``.

    ``flags`` says which rows to sort; by default those that ``det`` flags. At most ``max_kinds``
    kinds are looked for. ``n_resamples`` sortings of resampled events give the stability.

    >>> from coad.learned import CoAD
    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 800, 4))
    >>> s[:40, 0] += 6; q[:80, 1] += 6; s[40:80, 3] += 6
    >>> det = CoAD(epochs=60, n_seeds=2, random_state=0).fit(s, q)
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
        raise InputError(
            f"{len(rows)} flagged row{'s'[: len(rows) != 1]}: there is nothing to sort into kinds"
        )
    features = event_features(det, s[rows], q[rows], None if context is None else np.asarray(context)[rows])
    rng = as_generator(random_state)
    seed = int(rng.integers(2**31))
    model, strength = fit_kinds(features, max_kinds, seed)
    label = model.assign(features)
    stability, each = _stability(model, features, label, n_resamples, rng)
    found = Kinds(rows, label, len(model.means), stability, each, strength, model)
    det.kinds_ = found
    return found


def fit_kinds(features: FloatArray, max_kinds: int, seed: int) -> tuple[KindModel, dict[int, float]]:
    """The sorting, and the prediction strength of each number of kinds that was tried."""
    rng = np.random.default_rng(seed)
    centre = np.median(features, axis=0)
    low, high = np.quantile(features, (0.1, 0.9), axis=0)
    scale = np.maximum((high - low) / 2.56, _LEAST)  # a deviation, if they are normal
    z = np.clip((features - centre) / scale, -5, 5)
    some = z if len(z) <= _MOST else z[rng.choice(len(z), _MOST, replace=False)]
    most = max(1, min(max_kinds, len(some) // (2 * _EVENTS_A_KIND)))
    strength = {1: 1.0} | {k: _prediction_strength(some, k, rng) for k in range(2, most + 1)}
    good = [k for k, value in strength.items() if value >= _STRENGTH]
    best = next((k for k in reversed(good) if k == 1 or _beats_one_cloud(some, k, rng)), 1)
    sorting = _k_means(z, best, seed)
    sizes = np.bincount(sorting.labels_, minlength=best)
    # A handful of odd events is not a kind; they are noise, unless they lie near one.
    kept = [k for k in np.argsort(-sizes, kind="stable") if sizes[k] >= min(_EVENTS_A_KIND, sizes.max())]
    means = sorting.cluster_centers_[kept]
    radius = np.array(
        [np.median(_distances(z, means[[i]])[sorting.labels_ == k]) for i, k in enumerate(kept)]
    )
    return KindModel(centre, scale, means, np.maximum(radius, 1e-3)), strength


def _prediction_strength(z: FloatArray, k: int, rng: np.random.Generator) -> float:
    """Of the pairs that one half's sorting puts together, the other half's does so too: the worst kind.

    The mean over several halvings and, as the rule has it, one standard error.
    """
    found = []
    for _ in range(_HALVINGS):
        one, other = np.array_split(rng.permutation(len(z)), 2)
        seed = int(rng.integers(2**31))
        own = _k_means(z[one], k, seed).labels_
        told = _distances(z[one], _k_means(z[other], k, seed).cluster_centers_).argmin(1)
        counts = np.array([np.bincount(told[own == kind], minlength=k) for kind in range(k)])
        pairs = counts.sum(1) * (counts.sum(1) - 1)
        found.append(float(((counts * (counts - 1)).sum(1) / np.maximum(pairs, 1)).min()))
    return float(np.mean(found) + np.std(found, ddof=1) / np.sqrt(_HALVINGS))


def _beats_one_cloud(z: FloatArray, k: int, rng: np.random.Generator) -> bool:
    """Whether k kinds are tighter than k parts of a Gaussian cloud of the same covariance."""
    covariance = np.atleast_2d(np.cov(z.T))
    mine = _k_means(z, k, 0).inertia_
    clouds = (rng.multivariate_normal(np.zeros(z.shape[1]), covariance, len(z)) for _ in range(_CLOUDS))
    return all(mine < _k_means(cloud, k, 0).inertia_ for cloud in clouds)


def _k_means(z: FloatArray, k: int, seed: int) -> KMeans:
    return KMeans(k, n_init=4, random_state=seed).fit(z)


def _distances(z: FloatArray, means: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(z[:, None] - means, axis=2))


def _stability(
    model: KindModel, features: FloatArray, label: IntArray, n_resamples: int, rng: np.random.Generator
) -> tuple[float, FloatArray]:
    """How much of the sorting comes out again on resamples, with the same number of kinds."""
    k, z = len(model.means), model.project(features)
    held = label >= 0
    scores, overlap = [], np.ones((max(n_resamples, 1), k))
    for draw in range(n_resamples):
        drawn = z[rng.integers(0, len(z), len(z))]
        if len(np.unique(drawn, axis=0)) < k:
            continue
        again = _distances(z, _k_means(drawn, k, int(rng.integers(2**31))).cluster_centers_).argmin(1)
        scores.append(adjusted_rand_score(label[held], again[held]))
        both = np.array([[(held & (label == a) & (again == b)).sum() for b in range(k)] for a in range(k)])
        either = both.sum(1)[:, None] + both.sum(0) - both
        overlap[draw] = (both / np.maximum(either, 1)).max(1)
    return (float(np.mean(scores)) if scores else 1.0), overlap.mean(0)
