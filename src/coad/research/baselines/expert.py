"""An expert rule for RF stations whose two limits are set with labels (after Humble et al. 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray
from coad.exceptions import InputError, NotFittedError
from coad.research.baselines.base import Array32
from coad.thresholds.curves import beta_scan

__all__ = ["RFExpert"]

#: Initial points of the beam, where a change is too early to match, and points per block mean.
_TOO_EARLY, _MEAN_OF = 160, 40


class RFExpert:
    """Scores: deviation of the last readings from earlier ones, and range of the beam energy late in its window.

    The energy is the projection of all monitors on their dispersion, which is estimated from the labelled events
    of the training rows; an operator measures it with known changes of energy.
    """

    def fit(self, s: Array32, q: Array32, label: Any = None, group: Any = None) -> RFExpert:
        """Estimate the dispersion and set both limits with labels."""
        if label is None:
            raise InputError("the expert rule needs labels, and the data have none")
        if s.ndim != 3 or q.ndim != 3 or q.shape[2] <= 2 * _TOO_EARLY or s.shape[2] < 20:
            raise InputError(
                f"the expert rule needs RF windows, (n, 1, 50) and (n, 14, 1000), not {s.shape[1:]} and {q.shape[1:]}"
            )
        truth = np.asarray(label, dtype=bool)
        # The first principal direction of the monitors within events is the dispersion.
        slow = _slow(q[truth])
        moved = slow - slow.mean(axis=2, keepdims=True)
        matrix = np.einsum("ict,idt->cd", moved, moved)
        self.dispersion_ = np.linalg.eigh(matrix)[1][:, -1]
        score_s, score_q = self.scores(s, q)
        (best,) = beta_scan(score_s, score_q, betas=[1.0], label=truth, supervised=True)
        self.limits_ = best.threshold_s, best.threshold_q
        return self

    def scores(self, s: Array32, q: Array32) -> tuple[FloatArray, FloatArray]:
        """Compute both scores; means of two extremes make them robust against single readings."""
        if not hasattr(self, "dispersion_"):
            raise NotFittedError("this rule is not fitted yet; call fit(s, q, label) first")
        readings = np.asarray(s[:, 0], dtype=np.float64)
        level = np.median(readings[:, -12:-4], axis=1, keepdims=True)
        late = np.abs(readings[:, -4:] - level)
        score_s = np.sort(late, axis=1)[:, -2:].mean(axis=1)
        energy = np.einsum("c,ict->it", self.dispersion_, _slow(q))
        early = _TOO_EARLY // _MEAN_OF
        tail = energy[:, early:]
        high, low = np.sort(tail, axis=1)[:, -2:].mean(axis=1), np.sort(tail, axis=1)[:, :2].mean(axis=1)
        return score_s, np.asarray(high - low)

    def predict(self, s: Array32, q: Array32) -> BoolArray:
        """Flag rows whose two scores reach their limits."""
        score_s, score_q = self.scores(s, q)
        return np.asarray((score_s >= self.limits_[0]) & (score_q >= self.limits_[1]))


def _slow(q: Array32) -> NDArray[np.float64]:
    """Block means of a third of a second, which remove most of the shot noise."""
    n, channels, points = q.shape
    length = points // _MEAN_OF * _MEAN_OF
    return np.asarray(q[:, :, points - length :].reshape(n, channels, -1, _MEAN_OF).mean(axis=3), np.float64)
