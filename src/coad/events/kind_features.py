"""What describes an event for sorting it into kinds.

A network that is trained to say yes or no keeps little about *what kind* of yes it is: on the simulated RF
station its last layer, and its convolutions, hardly separate the kinds. Its gradient says where it
looks, and what is to be seen there tells the kinds apart. No label is needed. So an input is described

- by which channels the network looks at, and
- of windows, by their course: the combination of channels that the network looks at, once as it is and
  once weighted by when the network looks. Its shape, which shapes it fits, and its values.
  Of tables and images, by the share of each part in the logit, and the direction of the last layer.

All numbers are free of units and of about the same size. They depend on one row only. There are more of
them than are needed: :mod:`coad.events.kinds` keeps the combinations on which both inputs agree.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, median_filter

from coad._typing import FloatArray
from coad.events.explain import by_part, mean_gradient, part_numbers
from coad.learned.training.inputs import scaled_blocks

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD
    from coad.learned.training.model import Scorer

#: One row of numbers per event, of s and of q.
Features: TypeAlias = tuple[FloatArray, FloatArray]

_STEPS = 32  # gradients between nothing and the row; with fewer, large events are described badly
_POINTS = 100  # longer windows are averaged down
_VALUES = 50  # of a course that are kept
_VALUE_SIZE = 0.25  # so that many values, neighbours alike, do not drown the other numbers
_SHORTEST = 8  # a shorter window has no shape worth the name
_PARTS = 16  # patches of a channel of an image
_PLACES = 33  # where a fitted shape may begin
_CUTS = (4, 8)  # of a course that jumps again and again
_LEFT = 0.003  # of a course's variance that a fit cannot be expected to explain


def event_features(det: CoAD, s: Any, q: Any = None, context: Any = None) -> Features:
    """One row of numbers per pair, for each input."""
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
        pattern, when = _looks(gradient)
        course = _averaged(np.einsum("nct,nc->nt", block.astype(np.float64), pattern), _POINTS)
        course -= np.median(course, axis=1, keepdims=True)
        seen = course * _averaged(when, _POINTS)
        shapes = [one(x) for x in (seen, course) for one in (course_shape, course_fits)]
        return np.concatenate([np.square(pattern), *shapes, _VALUE_SIZE * _values(seen)], axis=1)
    shares = by_part(block * gradient, part_numbers(block.shape[1:], _PARTS))
    latent = scorer.latent([np.ascontiguousarray(block)]).astype(np.float64)
    # Their direction tells what was seen, their length how strongly.
    return np.concatenate([_unit(shares), _unit(latent)], axis=1)


def _looks(gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The combination of channels (n, c) that a network looks at, and how much at each moment (n, t)."""
    gram = np.einsum("nct,ndt->ncd", gradient, gradient)
    pattern = np.linalg.eigh(gram)[1][:, :, -1]
    when = np.sqrt(np.square(gradient).sum(1))
    # Next to what it looks at is what that is compared with.
    when = maximum_filter1d(when, max(3, when.shape[1] // 10), axis=1)
    return pattern, when / np.maximum(when.max(1, keepdims=True), 1e-12)


def course_shape(course: FloatArray) -> FloatArray:
    """Four numbers for the shape of a course, whenever in the window it begins and whichever way it goes.

    Its size (logarithm); of that size, the largest change within a fiftieth of the window (a jump or a
    drift?); the largest change the other way, as a part of it (does it come back?); the length
    of its path (logarithm: once, or again and again?).

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
    """How well some shapes fit a course: logarithms of the part of its variance that they leave.

    That of one jump; then of a jump that is slowly forgotten, of a jump there and back, and of a ramp,
    compared with one jump; of four jumps compared with there and back, and of eight compared with four.

    >>> time = np.arange(34)
    >>> jump, dip, ramp = time >= 17, abs(time - 17) < 5, np.maximum(time - 11, 0)
    >>> course_fits(np.stack([jump, dip, ramp]).astype(float)).argmin(1)  # one jump, there and back, ramp
    array([0, 2, 3])
    """
    centred = course - course.mean(1, keepdims=True)
    variance = np.maximum(np.square(centred).sum(1), 1e-12)
    jump, forgotten, back, ramp = (
        _left(np.square(centred @ shapes.T).max(1) / variance) for shapes in _shapes(course.shape[1])
    )
    four, eight = (_left(gained / variance) for gained in _jumps(course))
    return np.stack(
        [jump, forgotten - jump, back - jump, ramp - jump, four - back, eight - four],
        axis=1,
    )


def _left(explained: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(1 - explained, _LEFT)))


@lru_cache(maxsize=8)
def _shapes(points: int) -> list[FloatArray]:
    """Jumps, jumps that are forgotten, jumps there and back, and ramps, wherever they begin; of mean 0, size 1."""
    time = np.arange(points)
    places = np.unique(np.round(np.linspace(1, points - 1, min(points - 1, _PLACES))).astype(int))
    since = np.maximum(time - places[:, None], 0)
    jump = (time >= places[:, None]).astype(float)
    forgotten = np.concatenate([jump * np.exp(-since / (part * points)) for part in (0.15, 0.3, 0.6)])
    first, last = np.triu_indices(len(places), 1)
    ramp = np.maximum(time - np.concatenate([[0], places[:-3]])[:, None], 0.0)
    found = []
    for shapes in (jump, forgotten, jump[first] - jump[last], ramp):
        shapes = shapes - shapes.mean(1, keepdims=True)
        found.append(shapes / np.linalg.norm(shapes, axis=1, keepdims=True))
    return found


def _jumps(course: FloatArray) -> list[FloatArray]:
    """The sum of squares that jumps explain, one cut after the other where it explains most."""
    n, points = course.shape
    row, place = np.arange(n), np.arange(points + 1)
    total = np.concatenate([np.zeros((n, 1)), np.cumsum(course, axis=1)], axis=1)
    left, right = np.zeros((n, points + 1), dtype=np.int64), np.full((n, points + 1), points)
    gained, found = np.zeros(n), []
    for count in range(1, max(_CUTS) + 1):
        # What a cut before each place gains within its stretch, from left to right.
        before, after = place - left, right - place
        mean = (total - total[row[:, None], left]) / np.maximum(before, 1)
        other = (total[row[:, None], right] - total) / np.maximum(after, 1)
        gain = before * after / np.maximum(before + after, 1) * np.square(mean - other)
        best = gain.argmax(1)
        gained = gained + gain[row, best]
        cut = best[:, None]
        same = (left == left[row, best][:, None]) & (right == right[row, best][:, None])
        # A place that is a cut itself gains nothing more: its stretch to the left ends there.
        left, right = np.where(same & (place > cut), cut, left), np.where(same & (place <= cut), cut, right)
        if count in _CUTS:
            found.append(gained)
    return found


def _values(course: FloatArray) -> FloatArray:
    """The course in units of its size, with its largest value upwards."""
    values = _averaged(course, _VALUES)
    size = np.maximum(np.ptp(values, axis=1), 1e-9)
    largest = values[np.arange(len(values)), np.abs(values).argmax(1)]
    return np.asarray(values / np.where(largest < 0, -size, size)[:, None])


def _averaged(course: FloatArray, points: int) -> FloatArray:
    """Averaged down to so many points, if there are more."""
    if course.shape[1] <= points:
        return course.copy()
    starts = np.linspace(0, course.shape[1], points, endpoint=False).astype(int)
    return np.asarray(np.add.reduceat(course, starts, axis=1) / np.diff(starts, append=course.shape[1]))


def _unit(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9))
