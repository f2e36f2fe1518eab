"""Why: which channels, and which stretch of time, made each network speak.

:func:`explain` shares the difference between a network's logit for a row and for a baseline
out among the points of the row, by integrated gradients or by Shapley values; either way the
shares add up to that difference, and how far they miss it is in the result.
:func:`deletion_test` checks them: replacing what is named important by the baseline must lower
the confidences more than replacing parts of equal size at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coad._typing import BoolArray, FloatArray, IntArray, RandomState
from coad.core.validation import as_generator
from coad.data.pairs import unpacked
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Attribution", "DeletionTest", "Explanation", "deletion_test", "explain", "healthy_baseline"]

Array32 = NDArray[np.float32]
Logit = Callable[[Tensor], Tensor]

_MOST_STEPS = 512
_POINTS = 8_000_000  # numbers that go through a network at once


@dataclass(frozen=True)
class Attribution:
    """What the points of one input add to its network's logit; positive speaks for an anomaly."""

    values: FloatArray  # of the shape of the input: (n, features), (n, channels, time) or (n, c, h, w)
    logit: FloatArray
    baseline_logit: FloatArray
    names: tuple[str, ...]

    @property
    def error(self) -> FloatArray:
        """How far the values of each row are from adding up to logit − baseline logit."""
        total: FloatArray = self.values.reshape(len(self.values), -1).sum(1)
        return np.abs(total - (self.logit - self.baseline_logit))

    @property
    def per_channel(self) -> FloatArray:
        """(n, channels); of a table, its features."""
        summed: FloatArray = self.values.reshape(*self.values.shape[:2], -1).sum(2)
        return summed

    @property
    def per_time(self) -> FloatArray | None:
        """(n, time) or, of images, (n, h, w); None for a table, which has no time."""
        return None if self.values.ndim == 2 else np.asarray(self.values.sum(1))

    @property
    def channel_importance(self) -> FloatArray:
        """Over all rows: the mean size of each channel's share."""
        size: FloatArray = np.abs(self.per_channel).mean(0)
        return size

    @property
    def time_importance(self) -> FloatArray | None:
        """Over all rows: the mean size of each moment's share."""
        each = self.per_time
        return None if each is None else np.asarray(np.abs(each).mean(0))

    def top_channels(self, row: int, count: int = 3) -> list[tuple[str, float]]:
        """The channels that speak loudest for an anomaly in one row."""
        shares = self.per_channel[row]
        return [(self.names[i], float(shares[i])) for i in np.argsort(-shares)[:count]]


@dataclass(frozen=True)
class Explanation:
    """The attributions of both inputs for the same rows."""

    s: Attribution
    q: Attribution
    method: str
    baseline: tuple[FloatArray, FloatArray]  # of one row, scaled

    def __len__(self) -> int:
        return len(self.s.values)


@dataclass(frozen=True)
class DeletionTest:
    """By how much log(p_s·p_q) falls when parts of both inputs are replaced by the baseline."""

    drop: FloatArray  # the parts named important, for each row
    random_drop: FloatArray  # (n, draws): as many parts drawn at random
    fraction: float

    @property
    def better(self) -> BoolArray:
        """Rows in which the named parts matter more than random ones do on average."""
        return np.asarray(self.drop > self.random_drop.mean(1))

    @property
    def share(self) -> float:
        """The share of those rows."""
        return float(self.better.mean())


def explain(
    det: CoAD,
    s: Any,
    q: Any = None,
    *,
    method: Literal["gradients", "shapley"] = "gradients",
    context: Any = None,
    baseline: Literal["mean"] | tuple[Any, Any] = "mean",
    steps: int = 32,
    samples: int = 16,
    segments: int = 20,
    random_state: RandomState = 0,
    names: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = (None, None),
) -> Explanation:
    """Attribute the logits of both networks to the channels and moments of their inputs.

    ``s`` and ``q`` hold the rows to explain (the flagged ones, mostly), or one
    :class:`~coad.data.pairs.Pairs`. ``baseline`` is the row that stands for "nothing there": the
    training mean (of the row's context), or a pair of rows, scaled, such as
    :func:`healthy_baseline` gives.

    ``"gradients"``: integrated gradients (Sundararajan et al. 2017) with ``steps`` steps, doubled
    for rows whose shares miss the sum by more than 1 %. ``"shapley"``: the mean over ``samples``
    random orders of what each part adds when it comes in; parts are the features of a table,
    ``segments`` stretches of time of each channel, or a grid of patches of each channel.

    >>> from coad.learned.estimator import CoAD
    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 600, 3))
    >>> s[:60, 1] += 4; q[:60, 2] -= 4
    >>> det = CoAD(epochs=60, n_starts=2, random_state=0).fit(s, q)
    >>> why = explain(det, s[:60], q[:60])
    >>> int(why.s.channel_importance.argmax()), int(why.q.channel_importance.argmax())
    (1, 2)
    """
    if method not in ("gradients", "shapley"):
        raise InputError(f"method must be 'gradients' or 'shapley', not {method!r}")
    for name, value in (("steps", steps), ("samples", samples), ("segments", segments)):
        if value < 1:
            raise InputError(f"{name} must be 1 or more, not {value}")
    if getattr(s, "s_names", None) is not None and q is None:
        names = (names[0] or s.s_names, names[1] or s.q_names)
    sides = _sides(det, s, q, context, baseline)
    rng = as_generator(random_state)
    found = []
    for (rows, base, logit), own in zip(sides, names, strict=True):
        if method == "gradients":
            values = _integrated(logit, rows, base, steps)
        else:
            values = _shapley(logit, rows, base, part_numbers(rows.shape[1:], segments), samples, rng)
        channels = rows.shape[1]
        labels = tuple(own) if own and len(own) == channels else tuple(str(i) for i in range(channels))
        at_base = np.full(len(rows), _values(logit, base[None])[0])
        found.append(Attribution(values, _values(logit, rows), at_base, labels))
    return Explanation(found[0], found[1], method, (sides[0][1].astype(float), sides[1][1].astype(float)))


def deletion_test(
    det: CoAD,
    s: Any,
    q: Any = None,
    *,
    explanation: Explanation | None = None,
    fraction: float = 0.1,
    draws: int = 20,
    segments: int = 20,
    context: Any = None,
    random_state: RandomState = 0,
) -> DeletionTest:
    """Whether the explanation names what matters: delete it, and delete as much at random.

    Of the parts of each input (see :func:`explain`), those with the largest shares, a
    ``fraction`` of all, are replaced by the baseline in both inputs at once; then, ``draws``
    times, as many parts chosen at random.

    >>> from coad.learned.estimator import CoAD
    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 600, 5))
    >>> s[:60, 1] += 4; q[:60, 2] -= 4
    >>> det = CoAD(epochs=60, n_starts=2, random_state=0).fit(s, q)
    >>> deletion_test(det, s[:60], q[:60], fraction=0.2).share > 0.9
    True
    """
    if not 0 < fraction < 1:
        raise InputError(f"fraction must lie between 0 and 1, not {fraction!r}")
    why = explain(det, s, q, context=context) if explanation is None else explanation
    sides = _sides(det, s, q, context, why.baseline)
    if len(why) != len(sides[0][0]):
        raise InputError(f"the explanation is of {len(why):,} rows, but {len(sides[0][0]):,} were given")
    rng = as_generator(random_state)
    n = len(why)
    drop, random_drop = np.zeros(n), np.zeros((n, draws))
    for (rows, base, logit), own in zip(sides, (why.s, why.q), strict=True):
        parts = part_numbers(rows.shape[1:], segments)
        count = int(parts.max()) + 1
        taken = min(max(1, round(fraction * count)), max(1, count - 1))
        shares = by_part(own.values, parts)
        before = _log_p(_values(logit, rows))
        named = np.argsort(-shares, axis=1)[:, :taken]
        drop += before - _log_p(_values(logit, _deleted(rows, base, parts, named)))
        for draw in range(draws):
            chosen = np.argsort(rng.random((n, count)), axis=1)[:, :taken]
            random_drop[:, draw] += before - _log_p(_values(logit, _deleted(rows, base, parts, chosen)))
    return DeletionTest(drop, random_drop, fraction)


def part_numbers(shape: tuple[int, ...], segments: int) -> IntArray:
    """The part that each point of a row belongs to: a feature, a stretch of a channel, or a patch of it.

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


def _sides(det: CoAD, s: Any, q: Any, context: Any, baseline: Any) -> list[tuple[Array32, Array32, Logit]]:
    """For each input: its scaled rows, the scaled baseline, and the network's logit."""
    own = det._only()
    rows_s, rows_q, labels = det._prepared(s, q, unpacked(s, q, context, None, None)[2])
    found: list[tuple[Array32, Array32, Logit]] = []
    for number, (rows, scaler, scorer) in enumerate(
        ((rows_s, det.scaler_s_, own.scorer_s), (rows_q, det.scaler_q_, own.scorer_q))
    ):
        scaled = rows if scaler is None else scaler.transform(rows, labels)
        base = np.zeros(rows.shape[1:], dtype=np.float32)  # the training mean, once scaled
        if baseline != "mean":
            base = np.asarray(baseline[number], dtype=np.float32)
            if base.shape != rows.shape[1:]:
                raise InputError(
                    f"the baseline of {'sq'[number]} has shape {base.shape}, but a row has {rows.shape[1:]}"
                )
        elif scaler is None:
            raise InputError("this model does not scale its inputs: pass baseline=(row of s, row of q)")
        found.append((scaled, base, scorer.logit))
    return found


def healthy_baseline(det: CoAD, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
    """The median of the rows that are not flagged, scaled: a baseline for :func:`explain`."""
    quiet = ~det.predict(s, q, context)
    if not quiet.any():
        raise InputError("every row is flagged, so there is no healthy row to take as a baseline")
    rows_s, rows_q, labels = det._prepared(s, q, unpacked(s, q, context, None, None)[2])
    labels = None if labels is None else labels[quiet]
    medians = [
        np.asarray(
            np.median(rows[quiet] if scaler is None else scaler.transform(rows[quiet], labels), axis=0), float
        )
        for rows, scaler in ((rows_s, det.scaler_s_), (rows_q, det.scaler_q_))
    ]
    return medians[0], medians[1]


def _blocks(rows: Any) -> list[slice]:
    size = max(1, _POINTS // max(1, math.prod(rows.shape[1:])))
    return [slice(start, start + size) for start in range(0, len(rows), size)]


@torch.no_grad()
def _values(logit: Logit, rows: Array32) -> FloatArray:
    parts = [logit(torch.from_numpy(np.ascontiguousarray(rows[part]))).numpy() for part in _blocks(rows)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _log_p(logit: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0.0, -logit))


def _integrated(logit: Logit, rows: Array32, base: Array32, steps: int) -> FloatArray:
    """Integrated gradients, with more steps for the rows that need them."""
    values = np.zeros(rows.shape)
    wanted = _values(logit, rows) - _values(logit, base[None])[0]
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
    """The mean of the gradient along the straight line from the baseline to each row (midpoint sums)."""
    mean = np.zeros(rows.shape)
    for part in _blocks(rows):
        away = torch.from_numpy(np.ascontiguousarray(rows[part] - base))
        for step in range(steps):
            x = (torch.from_numpy(base) + away * ((step + 0.5) / steps)).requires_grad_(True)
            (gradient,) = torch.autograd.grad(logit(x).sum(), x)
            mean[part] += gradient.numpy() / steps
    return mean


def _shapley(
    logit: Logit, rows: Array32, base: Array32, parts: IntArray, samples: int, rng: np.random.Generator
) -> FloatArray:
    """Parts come in one after the other, in random orders and their reverses."""
    count = int(parts.max()) + 1
    shares = np.zeros((len(rows), count))
    order = rng.permutation(count)
    for sample in range(samples):
        order = order[::-1].copy() if sample % 2 else rng.permutation(count)
        now = np.broadcast_to(base, rows.shape).copy()
        before = _values(logit, now)
        for part in order:
            now[:, parts == part] = rows[:, parts == part]
            after = _values(logit, now)
            shares[:, part] += (after - before) / samples
            before = after
    size = np.bincount(parts.ravel())
    return np.asarray((shares / size)[:, parts])


def by_part(values: FloatArray, parts: IntArray) -> FloatArray:
    flat = values.reshape(len(values), -1)
    number = parts.ravel()
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(number.max() + 1))
    return np.asarray(np.add.reduceat(flat[:, order], starts, axis=1))


def _deleted(rows: Array32, base: Array32, parts: IntArray, chosen: IntArray) -> Array32:
    """Each row with its chosen parts replaced by the baseline."""
    gone = np.zeros((len(rows), int(parts.max()) + 1), dtype=bool)
    np.put_along_axis(gone, chosen, True, axis=1)
    return np.where(gone[:, parts], base, rows)
