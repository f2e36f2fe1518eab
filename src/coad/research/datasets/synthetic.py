"""Simulated data: the paper's synthetic outliers, independent noise, raw windows with events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coad._typing import BoolArray, FloatArray, RandomState
from coad.exceptions import InputError

__all__ = [
    "LabelledScores",
    "LabelledWindows",
    "independent_noise",
    "synthetic_outliers",
    "synthetic_windows",
]


class LabelledScores(NamedTuple):
    """Two simulated scores per row and the true labels, which are for evaluation only."""

    s: FloatArray
    q: FloatArray
    label: BoolArray


class LabelledWindows(NamedTuple):
    """Simulated windows of two sensors (n, 1, points) and the true labels, which are for evaluation only."""

    s: FloatArray
    q: FloatArray
    label: BoolArray


def synthetic_outliers(
    n_normal: int = 20_000, rate: float = 0.05, random_state: RandomState = None
) -> LabelledScores:
    """Draw the paper's synthetic set (section 4.1): ``|N(0, 1)|``, and ``1 + |N(0, 1.5)|`` for anomalies.

    ``rate`` is the number of anomalies per normal point; they occur in both inputs at
    once, at random places in the sequence.

    >>> data = synthetic_outliers(1000, random_state=0)
    >>> len(data.s), int(data.label.sum())
    (1050, 50)
    """
    if n_normal < 1 or not 0 <= rate <= 1:
        raise InputError(f"n_normal must be positive and rate in [0, 1], not {n_normal} and {rate}")
    rng = np.random.default_rng(random_state)
    n_anomalous = round(rate * n_normal)
    label = rng.permutation(np.arange(n_normal + n_anomalous) < n_anomalous)
    s, q = np.abs(rng.normal(size=(2, len(label))))
    s[label], q[label] = 1 + np.abs(rng.normal(0, 1.5, size=(2, n_anomalous)))
    return LabelledScores(s, q, label)


def independent_noise(
    n: int, kind: str = "normal", random_state: RandomState = None
) -> tuple[FloatArray, FloatArray]:
    """Draw two independent scores: ``"normal"``, ``"heavy"`` tails, or ``"ties"``.

    >>> s, q = independent_noise(100, "ties", random_state=0)
    >>> len(np.unique(s)) < 20
    True
    """
    rng = np.random.default_rng(random_state)
    if kind == "normal":
        s, q = rng.normal(size=(2, n))
    elif kind == "heavy":
        s, q = rng.standard_cauchy(size=(2, n))
    elif kind == "ties":
        s, q = np.floor(rng.exponential(2.0, size=(2, n)))
    else:
        raise InputError(f"kind must be 'normal', 'heavy' or 'ties', not {kind!r}")
    return s, q


def synthetic_windows(
    n: int = 4000, rate: float = 0.05, random_state: RandomState = None, *, points: int = 64
) -> LabelledWindows:
    """Simulate windows of a current (s) and a vibration (q); an event is a dip in s and a burst in q.

    Equally many windows have a dip in s alone or a burst in q alone: sensor faults, not events.

    >>> data = synthetic_windows(200, random_state=0)
    >>> data.s.shape, data.q.shape, int(data.label.sum())
    ((200, 1, 64), (200, 1, 64), 10)
    """
    if n < 1 or not 0 <= rate <= 1 / 3:
        raise InputError(f"n must be positive and rate in [0, 1/3], not {n} and {rate}")
    rng = np.random.default_rng(random_state)
    each = round(rate * n)
    # 0 is normal, 1 an event, 2 a fault of s alone, 3 a fault of q alone.
    kind = rng.permutation(np.repeat([1, 2, 3, 0], [each, each, each, n - 3 * each]))
    t = np.arange(points)
    phase = rng.uniform(0, 2 * np.pi, (2, n, 1))
    s = np.sin(2 * np.pi * t / 16 + phase[0]) + 0.3 * rng.normal(size=(n, points))
    q = np.sin(2 * np.pi * t / 5 + phase[1]) + 0.6 * rng.normal(size=(n, points))
    middle = rng.uniform(0.25, 0.75, (2, n, 1)) * points
    depth, loudness = rng.uniform(2.0, 4.0, (2, n, 1))
    dip = depth * np.exp(-0.5 * ((t - middle[0]) / 4) ** 2)
    burst = loudness * np.exp(-0.5 * ((t - middle[1]) / 6) ** 2) * np.sin(2 * np.pi * t / 2.5)
    s -= dip * np.isin(kind, (1, 2))[:, None]
    q += burst * np.isin(kind, (1, 3))[:, None]
    return LabelledWindows(s[:, None], q[:, None], kind == 1)
