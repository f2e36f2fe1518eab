"""``PyODDetector``: a detector of coad where PyOD asks for one of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyod.models.base import BaseDetector

from coad._typing import FloatArray, IntArray
from coad.adapters.columns import ColumnDetector, Columns

__all__ = ["PyODDetector"]

#: The score of a row that is not flagged is at most this: below the threshold 0, also where a confidence is at its own.
_BELOW = -1e-12


class PyODDetector(BaseDetector):  # type: ignore[misc]
    """Any detector of coad as a PyOD detector of one array, some columns of which are s and others q.

    There is no contamination: ``threshold_`` is 0, and ``decision_function`` says by how much the less certain of the two
    confidences exceeds its threshold. So ``labels_`` and ``predict`` flag what the detector flags, 0 % if it found no
    coincidence.

    Parameters
    ----------
    detector, s, q
        As for :class:`~coad.ColumnDetector`.

    >>> import coad
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)); X[:40] += 5
    >>> det = PyODDetector(coad.CoincidenceThreshold(ordered=False), s=[0], q=[1]).fit(X)
    >>> det.threshold_, bool((det.labels_ == det.predict(X)).all()), bool(det.labels_[:40].mean() > 0.9)
    (0.0, True, True)
    """

    def __init__(self, detector: Any, s: Columns = 0, q: Columns | None = None) -> None:
        super().__init__()
        self.detector = detector
        self.s = s
        self.q = q

    def fit(self, X: Any, y: Any = None) -> PyODDetector:
        """Fit the detector; ``y`` is ignored."""
        self._set_n_classes(y)
        self.columns_ = ColumnDetector(self.detector, s=self.s, q=self.q).fit(X)
        self.decision_scores_ = self.decision_function(X)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """By how much both confidences exceed their thresholds, (n,): 0 or more for rows that are flagged."""
        found, detector = self.columns_.score_rows(X), self.columns_.detector_
        rule = detector.rule_
        if rule.roles or rule.findings:
            margin = found.score - 0.5
        elif rule.product is not None:
            margin = found.score - rule.product
        else:
            least = getattr(detector, "confidence_thresholds_", rule.thresholds)
            margin = np.minimum(found.p_s - min(least[0], 1.0), found.p_q - min(least[1], 1.0))
        return np.where(found.flag, np.maximum(margin, 0.0), np.minimum(margin, _BELOW))

    def predict(self, X: Any, return_confidence: bool = False) -> Any:
        """1 for anomalies, 0 for other rows; with ``return_confidence``, PyOD's confidence too."""
        labels = (self.decision_function(X) >= self.threshold_).astype(int)
        return (labels, self.predict_confidence(X)) if return_confidence else labels

    def _process_decision_scores(self) -> PyODDetector:
        """What PyOD keeps of the rows of the fit, without a share of anomalies that somebody had to name."""
        self.threshold_ = 0.0
        self.labels_: IntArray = (self.decision_scores_ >= 0.0).astype(int)
        self.contamination = float(self.labels_.mean())  # found, not given: PyOD's confidence asks for it
        self._mu, self._sigma = np.mean(self.decision_scores_), np.std(self.decision_scores_)
        return self
