"""One table, no split known: two slices that can each see the event and are otherwise independent.

A column that moves with another in normal operation belongs on its side, or the two
slices would coincide without any event. What is left to coincide across the cut should be
the rare rows in which both slices are far out. So a cut is judged by two numbers: how often
the two slices are far out together beyond chance (to be high), and how well one slice
predicts the other on all the other rows (to be low). Labels are never looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.metric import true_positive_fraction
from coad.core.moments import Moments
from coad.exceptions import InputError

__all__ = ["Slices", "propose_slices"]

#: The share of rows that count as far out when two slices are compared.
_FAR_OUT = 0.05
_MOST_ROWS = 20_000
_FEW = 8  # up to so many devices, every way to share them out is tried
_RIDGE = 0.1
#: Each slice gets at least this share of the devices: a lone odd column is independent, and blind.
_LEAST_SHARE = 0.25
#: Slices that predict each other to no more than this are nearly independent.
_APART = 0.35
_HALF = 0.4  # the smaller of two slices of about one size has this share
_TRIAL_ROWS, _TRIAL_EPOCHS, _TRIAL_BLOCKS = 4000, 60, 40
_RANDOM_CUTS = 150
#: Devices whose names begin alike are somewhat likely to belong together.
_SAME_NAME = 0.2


@dataclass(frozen=True)
class Slices:
    """A proposal: the columns of s and of q, and why.

    ``together`` is the share of far-out rows of a slice that are far out in the
    other too, beyond chance; ``predicted`` how well one slice predicts the other
    elsewhere (the largest canonical correlation), both from 0 to 1.
    """

    s: tuple[str, ...]
    q: tuple[str, ...]
    together: float
    predicted: float
    n_tried: int
    n_trained: int = 0

    @property
    def reason(self) -> str:
        """The proposal's reason in one sentence."""
        if self.n_trained:
            return (
                "no cut leaves two independent slices that are ever far out together (here they predict each other to "
                f"{self.predicted:.2f}, 1 being wholly); of {self.n_trained} cuts into halves that were trained for a "
                "moment, this one showed the clearest coincidence on held-out rows"
            )
        if self.n_tried == 1:
            return "there is only one way to share them out"
        return (
            f"when one slice is far out (its top {_FAR_OUT:.0%} of rows) the other is too in {self.together:.0%} "
            f"of cases beyond chance, and in the other rows they predict each other to {self.predicted:.2f} "
            f"(1: wholly); best of {self.n_tried:,} cuts"
        )


def propose_slices(
    table: Mapping[str, ArrayLike],
    names: Sequence[str] | None = None,
    *,
    context: ArrayLike | None = None,
    trials: int = 8,
) -> Slices:
    """Split the columns of one table into two slices for coincident learning.

    With ``context``, each row is compared with the rows of its own regime only.
    Columns that never change, and columns that repeat another one, tell nothing
    about where to cut; the first are left out, the second stay with their twin.
    ``trials`` short trainings decide where no cut leaves two independent slices
    (0: none, and the slices that are most often far out together are taken).

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 2000))
    >>> event = rng.random(2000) < 0.04
    >>> table = {f"a{i}": a + 0.5 * rng.normal(size=2000) + 4 * event for i in range(2)}
    >>> table |= {f"b{i}": b + 0.5 * rng.normal(size=2000) - 4 * event for i in range(2)}
    >>> proposal = propose_slices(table)
    >>> proposal.s, proposal.q
    (('a0', 'a1'), ('b0', 'b1'))
    """
    chosen = list(table if names is None else names)
    scores, kept = _normal_scores(table, chosen, context)
    if len(kept) < 2:
        raise InputError(
            f"two slices need at least two columns of numbers that change, and there {_are(len(kept))}"
        )
    device = _devices(kept)
    least = max(1, math.ceil(_LEAST_SHARE * (int(device.max()) + 1)))
    cuts: dict[tuple[bool, ...], Cut] = {}
    for devices in _cuts(_likeness(scores, kept, device)):
        smaller = min(int(devices.sum()), len(devices) - int(devices.sum()))
        key = tuple(devices.tolist() if devices[0] else (~devices).tolist())
        if key not in cuts and smaller >= least:
            side = devices[device]
            cuts[key] = Cut(side, smaller / len(devices), *_judge(scores, side))
    best, trained = _best(list(cuts.values()), scores, trials)
    side = best.side if best.side[0] else ~best.side
    return Slices(
        tuple(name for name, one in zip(kept, side, strict=True) if one),
        tuple(name for name, one in zip(kept, side, strict=True) if not one),
        max(0.0, best.together),
        best.predicted,
        len(cuts),
        trained,
    )


class Cut(NamedTuple):
    """A cut and its figures; ``share`` is that of the smaller side among the devices."""

    side: BoolArray
    share: float
    together: float
    predicted: float


def _best(cuts: list[Cut], scores: FloatArray, trials: int) -> tuple[Cut, int]:
    """The cut to propose, and how many were tried by training.

    If some cut leaves two slices nearly independent, the best of those. If none does (everything in the
    machine hangs together), a few cuts into halves are trained for a moment, and the clearest coincidence on
    held-out rows wins.
    """
    apart = [one for one in cuts if one.predicted <= _APART and one.together > 0]
    if apart:
        return max(apart, key=lambda one: one.together - one.predicted), 0
    halves = [one for one in cuts if one.share >= _HALF] or cuts
    if trials < 2 or len(halves) < 2:
        return max(halves, key=lambda one: one.together), 0
    chosen = np.random.default_rng(0).permutation(len(halves))[:trials]  # the same table: the same proposal
    tried = [halves[number] for number in chosen.tolist()]
    return max(tried, key=lambda one: _clearness(scores, one.side)), len(tried)


def _clearness(scores: FloatArray, side: BoolArray) -> float:
    """F̂ of a short training on held-out rows; blocks of rows, because neighbours may be alike."""
    import warnings

    from coad.exceptions import CoadWarning
    from coad.learned.estimator import CoAD

    rows = scores[:: max(1, len(scores) // _TRIAL_ROWS)]
    blocks = np.arange(len(rows)) * _TRIAL_BLOCKS // len(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        model = CoAD(n_starts=1, epochs=_TRIAL_EPOCHS, split="group", random_state=0)
        model.fit(rows[:, side], rows[:, ~side], group=blocks)
        held = rows[model.validation_rows_]
        return float(model.evaluate(held[:, side], held[:, ~side]).fbeta_hat)


def _are(count: int) -> str:
    return "is one" if count == 1 else "are none"


def _normal_scores(
    table: Mapping[str, ArrayLike], names: Sequence[str], context: ArrayLike | None
) -> tuple[FloatArray, list[str]]:
    """Each column by rank within its context, as normal deviates: (rows, columns), and the names."""
    columns, kept = [], []
    code: NDArray[Any] | None = None
    for name in names:
        values = np.asarray(table[name], dtype=np.float64)
        if values.ndim > 1:
            # A row with samples of its own counts by its level and by its spread; here by its level.
            values = values.reshape(len(values), -1).mean(axis=1)
        step = max(1, len(values) // _MOST_ROWS)
        values = values[::step]
        if not np.isfinite(values).all():
            raise InputError(
                f"column {name!r} has missing values; fill them in or drop those rows (files: --missing drop or mean)"
            )
        if code is None:
            labels = np.zeros(len(values)) if context is None else np.asarray(context)[::step]
            code = np.unique(labels, return_inverse=True)[1].reshape(-1)
        if np.ptp(values) == 0:
            continue
        deviates = np.empty(len(values))
        for stratum in range(int(code.max()) + 1):
            rows = code == stratum
            deviates[rows] = norm.ppf((rankdata(values[rows]) - 0.5) / rows.sum())
        columns.append(deviates)
        kept.append(name)
    return (np.stack(columns, axis=1) if columns else np.zeros((0, 0))), kept


def _devices(names: Sequence[str]) -> IntArray:
    """The number of each column's device: what is left of a name without its last part.

    ``vib_table_kurtosis`` and ``vib_table_energy`` are two views of one sensor, which no
    cut may part. Names that say nothing (all of one stem) leave every column by itself.
    """
    stems = [
        re.sub(r"(?<=.)[_\-.\s:/]+[^_\-.\s:/]*$", "", name).lower()
        if "__" not in name.strip("_")
        else name.lower().rsplit("__", 1)[0]  # a double underscore is where table makers add a feature's name
        for name in names
    ]
    _, code, counts = np.unique(stems, return_inverse=True, return_counts=True)
    if len(counts) < 2 or counts.max() > (1 - _LEAST_SHARE) * len(names):
        return np.arange(len(names))
    return code.reshape(-1).astype(np.int64)


def _likeness(scores: FloatArray, names: Sequence[str], device: IntArray) -> FloatArray:
    """How alike the devices are: mean correlation of their columns, and a little for like names."""
    correlation = np.abs(np.corrcoef(scores, rowvar=False))
    member = (device[:, None] == np.arange(int(device.max()) + 1)).astype(np.float64)
    member /= member.sum(axis=0)
    first = [names[int(np.argmax(device == one))] for one in range(member.shape[1])]
    family = np.array([re.split(r"[0-9_\-.\s:/]", name)[0].lower() or name for name in first])
    same = (family[:, None] == family[None, :]).astype(np.float64)
    likeness: FloatArray = member.T @ correlation @ member + _SAME_NAME * same
    return likeness


def _cuts(likeness: FloatArray) -> Iterator[BoolArray]:
    """Cuts worth a look: all if there are few, else along the spectrum of the likeness and down its tree."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if len(likeness) <= _FEW:
        yield from _shared_out(np.arange(len(likeness)))
        return
    degree = likeness.sum(axis=1)
    laplacian = np.eye(len(likeness)) - likeness / np.sqrt(np.outer(degree, degree))
    vectors = np.linalg.eigh(laplacian)[1]
    for column in (1, 2):
        order = vectors[:, column] / np.sqrt(degree)
        for low, high in pairwise(np.unique(order)):
            yield order > (low + high) / 2
    distance = np.clip(likeness.max() - likeness, 0, None)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average")
    for count in range(2, _FEW):
        yield from _shared_out(fcluster(tree, count, "maxclust"))
    rng = np.random.default_rng(0)  # the same table gives the same proposal
    for _ in range(_RANDOM_CUTS):
        yield rng.permutation(len(likeness)) < len(likeness) // 2


def _shared_out(group: NDArray[Any]) -> Iterator[BoolArray]:
    """Every way to give the groups to two sides."""
    labels, code = np.unique(group, return_inverse=True)
    for number in range(1, 2 ** (len(labels) - 1)):
        yield np.array([(number >> int(one)) & 1 for one in code], dtype=np.bool_)


def _judge(scores: FloatArray, side: BoolArray) -> tuple[float, float]:
    """(how often both are far out beyond chance, how well one predicts the other elsewhere)."""
    a, b = scores[:, side], scores[:, ~side]
    far_a, far_b = _far_out(a), _far_out(b)
    joint = true_positive_fraction(Moments.of(far_a, far_b))
    quiet = ~(far_a | far_b)
    return float(joint) / _FAR_OUT, _canonical(a[quiet], b[quiet])


def _far_out(part: FloatArray) -> BoolArray:
    """The rows with the largest distance from the middle, correlation taken into account."""
    covariance = np.cov(part, rowvar=False).reshape(part.shape[1], -1)
    covariance += _RIDGE * np.eye(len(covariance))
    distance = np.einsum("ij,ij->i", part, np.linalg.solve(covariance, part.T).T)
    flags: BoolArray = distance > np.quantile(distance, 1 - _FAR_OUT)
    return flags


def _canonical(a: FloatArray, b: FloatArray) -> float:
    """The largest canonical correlation of two sets of columns, with a ridge."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    inner = [
        np.linalg.cholesky(x.T @ x / len(x) + _RIDGE * np.eye(x.shape[1]))  # both are positive definite
        for x in (a, b)
    ]
    cross = np.linalg.solve(inner[0], a.T @ b / len(a))
    cross = np.linalg.solve(inner[1], cross.T)
    return float(min(1.0, np.linalg.svd(cross, compute_uv=False)[0]))
