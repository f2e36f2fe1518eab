"""Explain why a row was flagged: attribute each network's output to channels and times.

:func:`explain` attributes the difference between the logit of a row and the logit of a baseline to
the values of the row, by integrated gradients or Shapley values. The attributions add up to that
difference; ``Attribution.error`` is what is missing. :func:`deletion_test` checks them: replacing the
most important parts by the baseline must lower the confidences more than replacing random parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray, RandomState
from coad.core.validation import as_generator
from coad.data.pairs import Pairs, unpacked
from coad.events.attribution import (
    Array32,
    Logit,
    by_part,
    integrated_gradients,
    logits,
    part_numbers,
    shapley_values,
)
from coad.exceptions import InputError
from coad.learned.training.inputs import column_names

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Attribution", "DeletionTest", "Explanation", "deletion_test", "explain", "healthy_baseline"]


@dataclass(frozen=True)
class Attribution:
    """Attributions for one input; positive values speak for an anomaly.

    Parameters
    ----------
    values : array
        Attribution of each value, in the shape of the input: (n, features), (n, channels, time) or
        (n, c, h, w).
    logit, baseline_logit : array of shape (n,)
        The network's logit for each row, and for the baseline.
    names : tuple of str
        Names of the channels.
    """

    values: FloatArray
    logit: FloatArray
    baseline_logit: FloatArray
    names: tuple[str, ...]

    @property
    def error(self) -> FloatArray:
        """For each row, the distance of the sum of the attributions from logit − baseline logit."""
        total: FloatArray = self.values.reshape(len(self.values), -1).sum(1)
        return np.abs(total - (self.logit - self.baseline_logit))

    @property
    def per_channel(self) -> FloatArray:
        """Sum over each channel, (n, channels); for a table, each feature."""
        summed: FloatArray = self.values.reshape(*self.values.shape[:2], -1).sum(2)
        return summed

    @property
    def per_time(self) -> FloatArray | None:
        """Sum over channels: (n, time), or (n, h, w) for images; None for a table."""
        return None if self.values.ndim == 2 else np.asarray(self.values.sum(1))

    @property
    def channel_importance(self) -> FloatArray:
        """Mean absolute attribution of each channel over all rows."""
        size: FloatArray = np.abs(self.per_channel).mean(0)
        return size

    def top_channels(self, row: int, count: int = 3) -> list[tuple[str, float]]:
        """The channels with the largest attributions in one row."""
        shares = self.per_channel[row]
        return [(self.names[i], float(shares[i])) for i in np.argsort(-shares)[:count]]


@dataclass(frozen=True)
class Explanation:
    """Attributions of both inputs for the same rows.

    Parameters
    ----------
    s, q : Attribution
        Attributions of the two inputs.
    method : str
        ``"gradients"`` or ``"shapley"``.
    baseline : tuple of arrays
        The reference: one scaled row of s and of q.
    """

    s: Attribution
    q: Attribution
    method: str
    baseline: tuple[FloatArray, FloatArray]

    def __len__(self) -> int:
        return len(self.s.values)


@dataclass(frozen=True)
class DeletionTest:
    """Decrease of log(p_s·p_q) when parts of both inputs are replaced by the baseline.

    Parameters
    ----------
    drop : array of shape (n,)
        Decrease for the most important parts.
    random_drop : array of shape (n, draws)
        Decrease for as many random parts.
    fraction : float
        Fraction of the parts that was replaced.
    """

    drop: FloatArray
    random_drop: FloatArray
    fraction: float

    @property
    def better(self) -> BoolArray:
        """Rows in which the important parts matter more than random ones on average."""
        return np.asarray(self.drop > self.random_drop.mean(1))

    @property
    def share(self) -> float:
        """The fraction of such rows."""
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
    """Attribute the logits of both networks to the channels and times of their inputs.

    Parameters
    ----------
    det : CoAD
        A fitted detector.
    s, q : array or DataFrame
        The rows to explain, usually flagged ones; or a :class:`~coad.Pairs` and None.
    method : {"gradients", "shapley"}
        Integrated gradients (Sundararajan et al. 2017), or sampled Shapley values of parts of the
        input.
    context : array, optional
        Context of each row.
    baseline : "mean" or pair of arrays
        The reference: the training mean (of the row's context), or one scaled row of s and of q, e.g.
        from :func:`healthy_baseline`.
    steps : int
        Steps of the integral; doubled for rows whose attributions miss the sum by more than 1 %.
    samples : int
        Random orders for Shapley values.
    segments : int
        Parts of each channel for Shapley values: equal segments of time, or patches of an image. In a
        table each feature is a part.
    random_state : int or Generator
        For Shapley values.
    names : pair of tuples of str
        Names of the channels of s and q (default: those of the ``Pairs`` or the DataFrame, else numbers).

    Returns
    -------
    Explanation

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
    known = (s.s_names, s.q_names) if isinstance(s, Pairs) else (column_names(s), column_names(q))
    names = (names[0] or known[0], names[1] or known[1])
    sides = _sides(det, s, q, context, baseline)
    rng = as_generator(random_state)
    found = []
    for (rows, base, logit), own in zip(sides, names, strict=True):
        if method == "gradients":
            values = integrated_gradients(logit, rows, base, steps)
        else:
            values = shapley_values(logit, rows, base, part_numbers(rows.shape[1:], segments), samples, rng)
        channels = rows.shape[1]
        labels = tuple(own) if own and len(own) == channels else tuple(str(i) for i in range(channels))
        at_base = np.full(len(rows), logits(logit, base[None])[0])
        found.append(Attribution(values, logits(logit, rows), at_base, labels))
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
    """Check an explanation: replace the most important parts by the baseline, then random parts.

    Parameters
    ----------
    det, s, q, context, segments
        As for :func:`explain`.
    explanation : Explanation, optional
        Of the same rows (default: ``explain(det, s, q)``).
    fraction : float
        Fraction of the parts that is replaced.
    draws : int
        Random choices of parts.
    random_state : int or Generator
        For the random parts.

    Returns
    -------
    DeletionTest

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
        before = _log_p(logits(logit, rows))
        named = np.argsort(-shares, axis=1)[:, :taken]
        drop += before - _log_p(logits(logit, _deleted(rows, base, parts, named)))
        for draw in range(draws):
            chosen = np.argsort(rng.random((n, count)), axis=1)[:, :taken]
            random_drop[:, draw] += before - _log_p(logits(logit, _deleted(rows, base, parts, chosen)))
    return DeletionTest(drop, random_drop, fraction)


def _sides(det: CoAD, s: Any, q: Any, context: Any, baseline: Any) -> list[tuple[Array32, Array32, Logit]]:
    """For each input: the scaled rows, the scaled baseline, and the network's logit."""
    own = det._only()
    rows_s, rows_q, labels = det._prepared(s, q, unpacked(s, q, context, None, None)[2])
    found: list[tuple[Array32, Array32, Logit]] = []
    for number, (rows, scaler, scorer) in enumerate(
        ((rows_s, det.scaler_s_, own.scorer_s), (rows_q, det.scaler_q_, own.scorer_q))
    ):
        scaled = rows if scaler is None else scaler.transform(rows, labels)
        base = np.zeros(rows.shape[1:], dtype=np.float32)  # the training mean after scaling
        if baseline != "mean":
            base = np.asarray(baseline[number], dtype=np.float32)
            if base.shape != rows.shape[1:]:
                raise InputError(
                    f"the baseline of {'sq'[number]} has shape {base.shape}, but a row has {rows.shape[1:]}"
                )
        elif scaler is None:
            raise InputError("this model does not scale its inputs; pass baseline=(row of s, row of q)")
        found.append((scaled, base, scorer.logit))
    return found


def healthy_baseline(det: CoAD, s: Any, q: Any = None, context: Any = None) -> tuple[FloatArray, FloatArray]:
    """The median of the rows that are not flagged, as a baseline for :func:`explain`.

    Parameters
    ----------
    det : CoAD
        A fitted detector.
    s, q : array or DataFrame
        Rows, most of them normal; or a :class:`~coad.Pairs` and None.
    context : array, optional
        Context of each row.

    Returns
    -------
    tuple of arrays
        One scaled row of s and one of q.
    """
    quiet = ~det.predict(s, q, context)
    if not quiet.any():
        raise InputError("every row is flagged, so there are no normal rows for a baseline")
    rows_s, rows_q, labels = det._prepared(s, q, unpacked(s, q, context, None, None)[2])
    labels = None if labels is None else labels[quiet]
    medians = [
        np.asarray(
            np.median(rows[quiet] if scaler is None else scaler.transform(rows[quiet], labels), axis=0), float
        )
        for rows, scaler in ((rows_s, det.scaler_s_), (rows_q, det.scaler_q_))
    ]
    return medians[0], medians[1]


def _log_p(logit: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0.0, -logit))


def _deleted(rows: Array32, base: Array32, parts: IntArray, chosen: IntArray) -> Array32:
    """Rows with the chosen parts replaced by the baseline."""
    gone = np.zeros((len(rows), int(parts.max()) + 1), dtype=bool)
    np.put_along_axis(gone, chosen, True, axis=1)
    return np.where(gone[:, parts], base, rows)
