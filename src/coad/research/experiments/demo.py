"""The computations of ``coad demo``: findings of a simulated plant, thresholds on two scores, networks on raw windows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coad._typing import BoolArray, FloatArray
from coad.core.label_efficiency import LabelEfficiency, label_efficiency
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
    from coad.findings.estimator import Findings

__all__ = [
    "FindingsDemo",
    "LearnedDemo",
    "ThresholdDemo",
    "run_findings_demo",
    "run_learned_demo",
    "run_threshold_demo",
]


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


@dataclass(frozen=True)
class FindingsDemo:
    """Findings of the simulated plant, and how far they bring a person, by the true labels."""

    found: Findings
    looks: LabelEfficiency


def run_findings_demo(page: Path, n: int = 4000, random_state: int = 0) -> FindingsDemo:
    """Find in a file of the simulated plant as ``coad find`` does, and write the report to ``page``."""
    from coad.data.layout import Layout
    from coad.findings.lenses import DEFAULT
    from coad.report.findings_page import write_findings_page
    from coad.research.datasets.plant import simulated_plant, write_plant
    from coad.workflows.finding import find_in_files
    from coad.workflows.fitting import Training
    from coad.workflows.scored import read_scored
    from coad.workflows.scoring import Source

    with tempfile.TemporaryDirectory() as folder:
        source = Source(write_plant(Path(folder) / "plant.parquet", n, random_state))
        layout = Layout(s=("motor_*",), q=("vib_*", "noise_*"), time="time", context=("product",))
        done = find_in_files(
            source,
            layout,
            Path(folder) / "run",
            training=Training(random_state=random_state),
            lenses=DEFAULT,
        )
        scored = read_scored(done.model, done.recipe, source)
        write_findings_page(
            page, done.model, done.recipe, scored, source=source, names="a simulated press line"
        )
    label = simulated_plant(n, random_state).pairs.label
    assert label is not None
    return FindingsDemo(done.model, label_efficiency(done.model, label))


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
