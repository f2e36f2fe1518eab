"""The paper's synthetic outliers (section 4.1): the demo, and both panels of figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coad.core.labels import label_scores
from coad.research.datasets.synthetic import LabelledScores, synthetic_outliers
from coad.thresholds.curves import DEFAULT_BETAS, ScanPoint, beta_scan
from coad.thresholds.selection import ThresholdResult, select_thresholds

if TYPE_CHECKING:
    from coad.report.page import Section

__all__ = ["DemoRun", "SyntheticRun", "run_demo", "run_synthetic", "write_demo_page", "write_synthetic_page"]


@dataclass(frozen=True)
class DemoRun:
    """What ``coad demo`` shows."""

    data: LabelledScores
    result: ThresholdResult
    scan: list[ScanPoint]
    ceiling: ScanPoint  # the best thresholds that labels could buy
    precision: float  # our thresholds, judged by labels
    recall: float
    fbeta: float
    rate: float


@dataclass(frozen=True)
class SyntheticRun:
    """The numbers behind figure 3."""

    n_rows: int
    n_anomalies: int
    alpha: float
    ours: list[ScanPoint]
    naive: list[ScanPoint]
    supervised: list[ScanPoint]

    def claims(self) -> list[str]:
        """The paper's statements about the figure, checked on these numbers."""
        gap = max(_true(c.fbeta) - _true(a.fbeta) for a, c in zip(self.ours, self.supervised, strict=True))
        over_p = max(a.precision_hat - _true(a.precision) for a in self.ours)
        over_r = max(a.recall_hat - _true(a.recall) for a in self.ours)
        ours = sum(_true(a.fbeta) - a.fbeta_hat for a in self.ours) / len(self.ours)
        naive = sum(_true(b.fbeta) - b.fbeta_hat for b in self.naive) / len(self.naive)
        return [
            f"Paper: unsupervised thresholds nearly match supervised ones. Here: F within {gap:.3f} for every β.",
            "Paper: P̂ and R̂ underestimate P and R (in expectation). Here, on one draw of the data: "
            f"P̂ exceeds P by at most {max(over_p, 0):.3f} and R̂ exceeds R by at most {max(over_r, 0):.3f} for any β.",
            f"Paper: D estimates much better than D_naive. Here: F̂ is below F by {ours:.3f} on average, "
            f"{naive:.3f} with D_naive.",
        ]


def run_demo(beta: float = 1.0, random_state: int = 0) -> DemoRun:
    """Make the data, pick thresholds without labels, and only then look at the labels."""
    data = synthetic_outliers(random_state=random_state)
    result = select_thresholds(data.s, data.q, beta=beta, random_state=random_state)
    scan = beta_scan(data.s, data.q, label=data.label)
    ceiling = beta_scan(data.s, data.q, betas=[beta], label=data.label, supervised=True)[0]
    flags = result.predict(data.s, data.q)
    fbeta, precision, recall = label_scores(flags, data.label, beta)
    return DemoRun(data, result, scan, ceiling, precision, recall, fbeta, float(data.label.mean()))


def run_synthetic(random_state: int = 0, betas: tuple[float, ...] = DEFAULT_BETAS) -> SyntheticRun:
    """Three curves for D and D_naive; α is that of the construction, as in the paper."""
    data = synthetic_outliers(random_state=random_state)
    alpha = float(data.label.mean())
    curves = [
        beta_scan(
            data.s, data.q, betas=betas, alpha=alpha, label=data.label, naive=naive, supervised=supervised
        )
        for naive, supervised in ((False, False), (True, False), (False, True))
    ]
    return SyntheticRun(len(data.label), int(data.label.sum()), alpha, *curves)


def write_demo_page(run: DemoRun, path: Path, more: Sequence[Section] = ()) -> None:
    """The demo's pictures as one self-contained page, with ``more`` sections at its end."""
    from coad.report import figures
    from coad.report.page import write_page

    write_page(
        path,
        "Coincidence on simulated outliers",
        f"{run.result.status}: {run.result.message}.",
        [
            (
                "What was flagged",
                "Each point is a row, placed by its two scores. Rows beyond both lines are flagged; "
                "colour shows the hidden truth, which the method never saw.",
                figures.score_scatter(run.data.s, run.data.q, run.result, run.data.label),
            ),
            (
                "Precision against recall",
                "Each point is the best pair of thresholds for one β. P̂ and R̂ are estimated without labels; "
                "P and R judge the same thresholds by the hidden labels.",
                figures.precision_recall(
                    {"without labels": (run.scan, "hat"), "judged by labels": (run.scan, "true")}, run.result
                ),
            ),
            (
                "The score over β",
                "F̂ without labels, and F of the same thresholds by the hidden labels.",
                figures.beta_scan_figure(
                    {"F̂ without labels": (run.scan, "hat"), "F judged by labels": (run.scan, "true")},
                    run.result.beta,
                ),
            ),
            *more,
        ],
        "The data are simulated: 20,000 normal rows with scores |N(0, 1)|, and 1,000 anomalies with scores "
        "1 + |N(0, 1.5)| in both inputs.",
    )


def write_synthetic_page(run: SyntheticRun, path: Path) -> None:
    """Both panels of figure 3 as one self-contained page."""
    from coad.report import figures
    from coad.report.page import write_page

    write_page(
        path,
        "Synthetic outliers: figure 3 of the paper",
        " ".join(run.claims()),
        [
            (
                "Precision and recall",
                "Three curves: estimated without labels; the same thresholds judged by labels; thresholds chosen by labels.",
                figures.precision_recall(
                    {
                        "Unsup. / unsup.": (run.ours, "hat"),
                        "Unsup. / sup.": (run.ours, "true"),
                        "Sup. / sup.": (run.supervised, "true"),
                    }
                ),
            ),
            (
                "The score over β",
                "F̂ with D and with D_naive, each with the true F of its thresholds, and the supervised optimum.",
                figures.beta_scan_figure(
                    {
                        "Unsup. / unsup., D": (run.ours, "hat"),
                        "Unsup. / sup., D": (run.ours, "true"),
                        "Unsup. / unsup., D naive": (run.naive, "hat"),
                        "Unsup. / sup., D naive": (run.naive, "true"),
                        "Sup. / sup.": (run.supervised, "true"),
                    }
                ),
            ),
        ],
        f"Simulated data: {run.n_rows:,} rows, {run.n_anomalies:,} anomalies.",
    )


def _true(value: float | None) -> float:
    assert value is not None
    return value
