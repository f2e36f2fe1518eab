"""Features of an event for clustering events into kinds.

A network that is trained to detect anomalies keeps little information on their kind: on the simulated RF
station neither its last layer nor its convolutions separate the kinds. But its gradient shows which
channels and times matter, and the signal there separates them. No labels are needed. The features are

- for windows: the weights of the channels in the gradient; and the time course of that combination of
  channels, as it is and weighted by the gradient over time: its shape, how well simple shapes fit it,
  and its values;
- for tables and images: the attribution of each part, and the direction of the last layer.

All features are dimensionless, of similar size, and depend on one row only. Many are redundant:
:mod:`coad.events.kinds` keeps the combinations that are correlated between the two inputs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, median_filter

from coad._typing import FloatArray
from coad.events.attribution import by_part, mean_gradient, part_numbers
from coad.learned.training.inputs import scaled_blocks

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD
    from coad.learned.training.model import Scorer

#: Features of s and of q, one row per event.
Features: TypeAlias = tuple[FloatArray, FloatArray]

_STEPS = 32  # gradients between the baseline and the row; fewer are inaccurate for large events
_POINTS = 100  # longer windows are averaged to this length
_VALUES = 50  # values of a time course that are features
_VALUE_SIZE = 0.25  # weight of the values: they are many, and neighbours are similar
_SHORTEST = 8  # shorter windows are treated like tables
_PARTS = 16  # patches per channel of an image
_PLACES = 33  # positions at which a fitted shape may start
_CUTS = (4, 8)  # numbers of steps in the piecewise constant fits
_LEFT = 0.003  # residual fraction of the variance below which fits are equally good


def event_features(det: CoAD, s: Any, q: Any = None, context: Any = None) -> Features:
    """Features of each pair, for each input.

    Parameters
    ----------
    det : CoAD
        A fitted detector.
    s, q : array or DataFrame
        Rows, all of them events; or a :class:`~coad.Pairs` and None.
    context : array, optional
        Context of each row.

    Returns
    -------
    tuple of arrays
        Features of s and of q, one row per event.
    """
    own = det._only()
    rows_s, rows_q, labels = det._prepared(s, q, context)
    found = []
    for rows, scorer, scaler in (
        (rows_s, own.scorer_s, det.scaler_s_),
        (rows_q, own.scorer_q, det.scaler_q_),
    ):
        parts = [_described(scorer, block) for block in scaled_blocks(rows, scaler, labels)]
        found.append(np.concatenate(parts) if parts else np.zeros((0, 1)))
    return found[0], found[1]


def _described(scorer: Scorer, block: NDArray[np.float32]) -> FloatArray:
    nothing = np.zeros(block.shape[1:], dtype=np.float32)
    gradient = mean_gradient(scorer.logit, block, nothing, _STEPS)
    if block.ndim == 3 and block.shape[2] >= _SHORTEST:
        pattern, when = _channels_and_times(gradient)
        course = _averaged(np.einsum("nct,nc->nt", block.astype(np.float64), pattern), _POINTS)
        course -= np.median(course, axis=1, keepdims=True)
        seen = course * _averaged(when, _POINTS)
        shapes = [one(x) for x in (seen, course) for one in (course_shape, course_fits)]
        return np.concatenate([np.square(pattern), *shapes, _VALUE_SIZE * _values(seen)], axis=1)
    shares = by_part(block * gradient, part_numbers(block.shape[1:], _PARTS))
    latent = scorer.latent([np.ascontiguousarray(block)]).astype(np.float64)
    # The direction depends on the kind of event, the length on its strength.
    return np.concatenate([_unit(shares), _unit(latent)], axis=1)


def _channels_and_times(gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The combination of channels (n, c) with the largest gradient, and its size over time (n, t)."""
    gram = np.einsum("nct,ndt->ncd", gradient, gradient)
    pattern = np.linalg.eigh(gram)[1][:, :, -1]
    when = np.sqrt(np.square(gradient).sum(1))
    # Include the neighbourhood, with which the network compares these times.
    when = maximum_filter1d(when, max(3, when.shape[1] // 10), axis=1)
    return pattern, when / np.maximum(when.max(1, keepdims=True), 1e-12)


def course_shape(course: FloatArray) -> FloatArray:
    """Four features of the shape of a time course that do not depend on its position or sign.

    The logarithm of its range; the largest change within a fiftieth of the window, divided by the range
    (step or drift); the largest change in the other direction, divided by that (does it return); and
    the logarithm of the total variation (once or repeatedly).

    >>> jump, dip, drift = np.arange(200) >= 100, abs(np.arange(200) - 100) < 30, np.arange(200) / 200
    >>> course_shape(np.stack([jump, dip, drift])).round(1)[:, 1:]
    array([[1. , 0. , 0. ],
           [1. , 1. , 0.7],
           [0. , 0. , 0. ]])
    """
    step = max(1, course.shape[1] // 50)
    if step > 1:
        course = median_filter(course, (1, 2 * step + 1))
    size = np.maximum(np.ptp(course, axis=1), 1e-9)
    unit = course / size[:, None]
    change = unit[:, step:] - unit[:, :-step]
    up, down = change.max(1), -change.min(1)
    largest = np.maximum(np.maximum(up, down), 1e-9)
    path = np.abs(np.diff(unit[:, ::step], axis=1)).sum(1)
    return np.stack(
        [np.log(size), largest, np.maximum(np.minimum(up, down), 0.0) / largest, np.log(path + 0.01)], axis=1
    )


def course_fits(course: FloatArray) -> FloatArray:
    """How well simple shapes fit a time course: logarithms of the residual fraction of the variance.

    Of one step; of a decaying step, a pulse and a ramp, each relative to one step; of four steps relative
    to the pulse; and of eight steps relative to four.

    >>> time = np.arange(34)
    >>> jump, dip, ramp = time >= 17, abs(time - 17) < 5, np.maximum(time - 11, 0)
    >>> course_fits(np.stack([jump, dip, ramp]).astype(float)).argmin(1)  # step, pulse, ramp
    array([0, 2, 3])
    """
    centred = course - course.mean(1, keepdims=True)
    variance = np.maximum(np.square(centred).sum(1), 1e-12)
    step, decay, pulse, ramp = (
        _log_residual(np.square(centred @ shapes.T).max(1) / variance) for shapes in _shapes(course.shape[1])
    )
    four, eight = (_log_residual(gained / variance) for gained in _steps(course))
    return np.stack(
        [step, decay - step, pulse - step, ramp - step, four - pulse, eight - four],
        axis=1,
    )


def _log_residual(explained: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(1 - explained, _LEFT)))


@lru_cache(maxsize=8)
def _shapes(points: int) -> list[FloatArray]:
    """Steps, decaying steps, pulses and ramps at all positions, with mean 0 and norm 1."""
    time = np.arange(points)
    places = np.unique(np.round(np.linspace(1, points - 1, min(points - 1, _PLACES))).astype(int))
    since = np.maximum(time - places[:, None], 0)
    step = (time >= places[:, None]).astype(float)
    decay = np.concatenate([step * np.exp(-since / (part * points)) for part in (0.15, 0.3, 0.6)])
    first, last = np.triu_indices(len(places), 1)
    ramp = np.maximum(time - np.concatenate([[0], places[:-3]])[:, None], 0.0)
    found = []
    for shapes in (step, decay, step[first] - step[last], ramp):
        shapes = shapes - shapes.mean(1, keepdims=True)
        found.append(shapes / np.linalg.norm(shapes, axis=1, keepdims=True))
    return found


def _steps(course: FloatArray) -> list[FloatArray]:
    """The sum of squares that 4 and 8 steps explain; steps are added greedily."""
    n, points = course.shape
    row, place = np.arange(n), np.arange(points + 1)
    total = np.concatenate([np.zeros((n, 1)), np.cumsum(course, axis=1)], axis=1)
    left, right = np.zeros((n, points + 1), dtype=np.int64), np.full((n, points + 1), points)
    gained, found = np.zeros(n), []
    for count in range(1, max(_CUTS) + 1):
        # The gain of a cut before each place within its segment, from left to right.
        before, after = place - left, right - place
        mean = (total - total[row[:, None], left]) / np.maximum(before, 1)
        other = (total[row[:, None], right] - total) / np.maximum(after, 1)
        gain = before * after / np.maximum(before + after, 1) * np.square(mean - other)
        best = gain.argmax(1)
        gained = gained + gain[row, best]
        cut = best[:, None]
        same = (left == left[row, best][:, None]) & (right == right[row, best][:, None])
        # A cut at the border of a segment gains nothing, so no cut is chosen twice.
        left, right = np.where(same & (place > cut), cut, left), np.where(same & (place <= cut), cut, right)
        if count in _CUTS:
            found.append(gained)
    return found


def _values(course: FloatArray) -> FloatArray:
    """The time course divided by its range, with the largest value positive."""
    values = _averaged(course, _VALUES)
    size = np.maximum(np.ptp(values, axis=1), 1e-9)
    largest = values[np.arange(len(values)), np.abs(values).argmax(1)]
    return np.asarray(values / np.where(largest < 0, -size, size)[:, None])


def _averaged(course: FloatArray, points: int) -> FloatArray:
    """Average a time course to at most ``points`` points."""
    if course.shape[1] <= points:
        return course.copy()
    starts = np.linspace(0, course.shape[1], points, endpoint=False).astype(int)
    return np.asarray(np.add.reduceat(course, starts, axis=1) / np.diff(starts, append=course.shape[1]))


def _unit(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9))
