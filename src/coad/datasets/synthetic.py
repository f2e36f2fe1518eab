"""Simulated scores: the paper's synthetic outliers, and noise that holds nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coad._typing import BoolArray, FloatArray, RandomState
from coad.exceptions import InputError

__all__ = ["LabelledScores", "independent_noise", "synthetic_outliers"]


class LabelledScores(NamedTuple):
    """Two simulated scores per row and the hidden truth, which is for judging only."""

    s: FloatArray
    q: FloatArray
    label: BoolArray


def synthetic_outliers(
    n_normal: int = 20_000, rate: float = 0.05, random_state: RandomState = None
) -> LabelledScores:
    """The paper's synthetic set (section 4.1): |N(0, 1)|, and 1 + |N(0, 1.5)| for anomalies.

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
    """Two scores with nothing in common: ``"normal"``, ``"heavy"`` tails, or ``"ties"``.

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
