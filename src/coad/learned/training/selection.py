"""The figures of an epoch on validation rows, and the score that it is selected by."""

from __future__ import annotations

import numpy as np

from coad.core.metric import fbeta_of, true_positive_fraction
from coad.core.moments import Moments

__all__ = ["COLLAPSED_BELOW", "figures", "selection_score"]

#: A network whose mean confidence is below this has collapsed: it marks nothing.
COLLAPSED_BELOW = 0.005
#: With fewer joint events on validation rows than this, the score is reduced in proportion.
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
    """F̂ per member and β; reduced if it rests on few joint events, and below 0 if mu_s or mu_q exceeds one half."""
    joint = found["joint"]
    score: np.ndarray = fbeta_of(np.minimum(found["true_positives"], 0.5), joint, beta, alpha[:, :1])
    score = score * np.minimum(1.0, n * joint / _ENOUGH_EVENTS)
    over = np.maximum(found["mu_s"], found["mu_q"]) > 0.5
    return np.where(over, np.minimum(score, 0.0) - 1.0, score)
