"""What a moment of the training is worth: its figures on validation rows, and the score it is kept by."""

from __future__ import annotations

import numpy as np

from coad.core.metric import fbeta_of, true_positive_fraction
from coad.core.moments import Moments

__all__ = ["COLLAPSED_BELOW", "figures", "selection_score"]

#: Below this mean confidence a network says nothing about anything: it has collapsed.
COLLAPSED_BELOW = 0.005
#: A snapshot needs this many joint events on validation to count in full.
_ENOUGH_EVENTS = 5.0


def figures(moments: Moments) -> dict[str, np.ndarray]:
    """TP, J and both means, per member and head."""
    values = {
        "true_positives": true_positive_fraction(moments),
        "joint": moments.mu_sq,
        "mu_s": moments.mu_s,
        "mu_q": moments.mu_q,
    }
    return {name: np.nan_to_num(value.numpy()) for name, value in values.items()}


def selection_score(
    found: dict[str, np.ndarray], beta: tuple[float, ...], alpha: np.ndarray, n: int
) -> np.ndarray:
    """F̂ per member and β, discounted where it rests on a handful of events or breaks the wall."""
    joint = found["joint"]
    score: np.ndarray = fbeta_of(np.minimum(found["true_positives"], 0.5), joint, beta, alpha[:, :1])
    score = score * np.minimum(1.0, n * joint / _ENOUGH_EVENTS)
    over = np.maximum(found["mu_s"], found["mu_q"]) > 0.5
    return np.where(over, np.minimum(score, 0.0) - 1.0, score)
