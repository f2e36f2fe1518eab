"""The computations of ``coad demo``: thresholds on two scores, then two networks on raw windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coad._typing import BoolArray, FloatArray
from coad.core.labels import LabelScores, label_scores
from coad.research.datasets.synthetic import (
    LabelledScores,
    LabelledWindows,
    synthetic_outliers,
    synthetic_windows,
)
from coad.thresholds.curves import ScanPoint, beta_scan
from coad.thresholds.result import ThresholdResult
from coad.thresholds.selection import select_thresholds

if TYPE_CHECKING:
    from coad.core.assessment import Evaluation

__all__ = ["LearnedDemo", "ThresholdDemo", "run_learned_demo", "run_threshold_demo"]


@dataclass(frozen=True)
class ThresholdDemo:
    """Thresholds chosen without labels on simulated scores, and their evaluation with the true labels."""

    data: LabelledScores
    result: ThresholdResult
    scan: list[ScanPoint]
    ceiling: ScanPoint  # thresholds chosen with the true labels
    precision: float  # of the thresholds in ``result``, by labels
    recall: float
    fbeta: float
    rate: float


@dataclass(frozen=True)
class LearnedDemo:
    """Two networks trained on one set of simulated windows and evaluated on another."""

    data: LabelledWindows
    p_s: FloatArray
    p_q: FloatArray
    flagged: BoolArray
    evaluation: Evaluation
    status: str
    alpha: float
    judged: LabelScores  # the flags, by labels


def run_threshold_demo(beta: float = 1.0, random_state: int = 0) -> ThresholdDemo:
    """Simulate scores, choose thresholds without labels, then evaluate them with the true labels."""
    data = synthetic_outliers(random_state=random_state)
    result = select_thresholds(data.s, data.q, beta=beta, random_state=random_state)
    scan = beta_scan(data.s, data.q, label=data.label)
    ceiling = beta_scan(data.s, data.q, betas=[beta], label=data.label, supervised=True)[0]
    flags = result.predict(data.s, data.q)
    fbeta, precision, recall = label_scores(flags, data.label, beta)
    return ThresholdDemo(data, result, scan, ceiling, precision, recall, fbeta, float(data.label.mean()))


def run_learned_demo(n: int = 2500, random_state: int = 0, *, verbose: bool = False) -> LearnedDemo:
    """Train on simulated windows without labels, flag new windows, then evaluate with the true labels."""
    from coad.learned.estimator import CoAD  # imports torch

    train = synthetic_windows(n, random_state=random_state)
    new = synthetic_windows(n, random_state=random_state + 1)
    # Fewer epochs and smaller batches than the defaults, to keep the demo short.
    detector = CoAD(epochs=40, batch_size=400, random_state=random_state, verbose=verbose)
    detector.fit(train.s, train.q)
    scores = detector.score_rows(new.s, new.q)
    return LearnedDemo(
        data=new,
        p_s=scores.p_s,
        p_q=scores.p_q,
        flagged=scores.flag,
        evaluation=detector.evaluate_scores(scores),
        status=detector.status_,
        alpha=detector.alpha_,
        judged=label_scores(scores.flag, new.label),
    )
