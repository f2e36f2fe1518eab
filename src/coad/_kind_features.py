"""What describes an event for sorting it into kinds.

A network that is trained to say yes or no keeps little about *what kind* of yes it is: on the simulated RF
station its last layer, and its convolutions, hardly separate the kinds. Its gradient says where it
looks, and what is to be seen there tells the kinds apart. No label is needed. So an input is described

- by which channels the network looks at, and
- of windows, by the shape of their course: the combination of channels that the network looks at, when it
  looks. Of tables and images, by the share of each part in the logit, and the direction of the last layer.

All numbers are free of units and of about the same size. They depend on one row only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, median_filter

from coad._typing import FloatArray
from coad.explain import by_part, logit_of, mean_gradient, part_numbers
from coad.training.inputs import scaled_blocks

if TYPE_CHECKING:
    from coad.learned import CoAD
    from coad.training.model import Scorer

_STEPS = 32  # gradients between nothing and the row; with fewer, large events are described badly
_POINTS = 100  # longer windows are averaged down
_PARTS = 16  # patches of a channel of an image


def event_features(det: CoAD, s: Any, q: Any = None, context: Any = None) -> FloatArray:
    """One row of numbers per pair; both inputs."""
    own = det._only()
    rows_s, rows_q, labels = det._prepared(s, q, context)
    found = []
    for rows, scorer, scaler in (
        (rows_s, own.scorer_s, det.scaler_s_),
        (rows_q, own.scorer_q, det.scaler_q_),
    ):
        parts = [_described(scorer, block) for block in scaled_blocks(rows, scaler, labels)]
        found.append(np.concatenate(parts) if parts else np.zeros((0, 1)))
    return np.concatenate(found, axis=1)


def _described(scorer: Scorer, block: NDArray[np.float32]) -> FloatArray:
    nothing = np.zeros(block.shape[1:], dtype=np.float32)
    gradient = mean_gradient(logit_of(scorer), block, nothing, _STEPS)
    if block.ndim == 3:
        pattern, when = _looks(gradient)
        return np.concatenate([np.square(pattern), course_shape(block, pattern, when)], axis=1)
    shares = by_part(block * gradient, part_numbers(block.shape[1:], _PARTS))
    with torch.no_grad():
        latent = scorer.net.latent(torch.from_numpy(np.ascontiguousarray(block)))[0].double().numpy()
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


def course_shape(block: NDArray[np.float32], pattern: FloatArray, when: FloatArray) -> FloatArray:
    """Four numbers for the shape of a course, whenever in the window it begins and whichever way it goes.

    Its size (logarithm); of that size, the largest change within a fiftieth of the window (a jump or a
    drift?); the largest change the other way, as a part of it (does it come back?); the length
    of its path (logarithm: once, or again and again?).

    >>> jump, dip, drift = np.arange(200) >= 100, abs(np.arange(200) - 100) < 30, np.arange(200) / 200
    >>> one = np.ones((3, 1))
    >>> course_shape(np.stack([jump, dip, drift])[:, None], one, np.ones((3, 200))).round(1)[:, 1:]
    array([[1. , 0. , 0. ],
           [1. , 1. , 0.7],
           [0. , 0. , 0. ]])
    """
    course = np.einsum("nct,nc->nt", block.astype(np.float64), pattern)
    course = (course - np.median(course, axis=1, keepdims=True)) * when
    each = max(1, course.shape[1] // _POINTS)
    course = course[:, : course.shape[1] // each * each].reshape(len(course), -1, each).mean(2)
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


def _unit(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9))
