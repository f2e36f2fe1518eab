"""Attribute a network's output to the values of its input: integrated gradients and Shapley values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coad._typing import FloatArray, IntArray

__all__ = [
    "Array32",
    "Logit",
    "by_part",
    "integrated_gradients",
    "logits",
    "mean_gradient",
    "part_numbers",
    "shapley_values",
]

Array32 = NDArray[np.float32]
Logit = Callable[[Tensor], Tensor]

_MOST_STEPS = 512  # of integrated gradients
_POINTS = 8_000_000  # values that go through a network at once


def integrated_gradients(logit: Logit, rows: Array32, base: Array32, steps: int) -> FloatArray:
    """Integrated gradients, with more steps for rows whose attributions miss the sum."""
    values = np.zeros(rows.shape)
    wanted = logits(logit, rows) - logits(logit, base[None])[0]
    todo = np.arange(len(rows))
    while len(todo):
        values[todo] = (rows[todo] - base) * mean_gradient(logit, rows[todo], base, steps)
        missed = np.abs(values[todo].reshape(len(todo), -1).sum(1) - wanted[todo])
        todo = todo[missed > 0.01 * np.maximum(np.abs(wanted[todo]), 0.01)]
        steps *= 2
        if steps > _MOST_STEPS:
            break
    return values


def mean_gradient(logit: Logit, rows: Array32, base: Array32, steps: int) -> FloatArray:
    """The mean gradient on the line from the baseline to each row (midpoint rule)."""
    mean = np.zeros(rows.shape)
    for part in _blocks(rows):
        away = torch.from_numpy(np.ascontiguousarray(rows[part] - base))
        for step in range(steps):
            x = (torch.from_numpy(base) + away * ((step + 0.5) / steps)).requires_grad_(True)
            (gradient,) = torch.autograd.grad(logit(x).sum(), x)
            mean[part] += gradient.numpy() / steps
    return mean


def shapley_values(
    logit: Logit, rows: Array32, base: Array32, parts: IntArray, samples: int, rng: np.random.Generator
) -> FloatArray:
    """Sampled Shapley values: parts are added in random orders and in their reverses."""
    count = int(parts.max()) + 1
    shares = np.zeros((len(rows), count))
    order = rng.permutation(count)
    for sample in range(samples):
        order = order[::-1].copy() if sample % 2 else rng.permutation(count)
        now = np.broadcast_to(base, rows.shape).copy()
        before = logits(logit, now)
        for part in order:
            now[:, parts == part] = rows[:, parts == part]
            after = logits(logit, now)
            shares[:, part] += (after - before) / samples
            before = after
    size = np.bincount(parts.ravel())
    return np.asarray((shares / size)[:, parts])


def part_numbers(shape: tuple[int, ...], segments: int) -> IntArray:
    """Number the part of each value of a row: a feature, a segment of a channel, or a patch of an image.

    >>> part_numbers((2, 4), 2)
    array([[0, 0, 1, 1],
           [2, 2, 3, 3]])
    """
    place = np.zeros(shape[1:], dtype=np.int64)
    across = segments if len(shape) == 2 else max(1, math.isqrt(segments))
    for axis, size in enumerate(shape[1:]):
        cut = min(across, size)
        index = np.arange(size) * cut // size
        place = place * cut + index.reshape([-1 if i == axis else 1 for i in range(len(shape) - 1)])
    each = int(place.max()) + 1 if place.size else 1
    channel = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return channel * each + place


def by_part(values: FloatArray, parts: IntArray) -> FloatArray:
    """Sum the values of each row over each part."""
    flat = values.reshape(len(values), -1)
    number = parts.ravel()
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(number.max() + 1))
    return np.asarray(np.add.reduceat(flat[:, order], starts, axis=1))


@torch.no_grad()
def logits(logit: Logit, rows: Array32) -> FloatArray:
    """The logit of each row."""
    parts = [logit(torch.from_numpy(np.ascontiguousarray(rows[part]))).numpy() for part in _blocks(rows)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _blocks(rows: Array32) -> list[slice]:
    size = max(1, _POINTS // max(1, math.prod(rows.shape[1:])))
    return [slice(start, start + size) for start in range(0, len(rows), size)]
