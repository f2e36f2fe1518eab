"""The page of figure 3: precision against recall, and F over β, on the paper's synthetic outliers."""

from __future__ import annotations

from pathlib import Path

from coad.report.figures import beta_scan_figure, precision_recall
from coad.report.page import write_page
from coad.research.experiments.synthetic import SyntheticRun

__all__ = ["write_synthetic_page"]


def write_synthetic_page(run: SyntheticRun, path: Path) -> None:
    """Write both panels of figure 3 as one self-contained HTML page."""
    write_page(
        path,
        "Synthetic outliers: figure 3 of the paper",
        " ".join(run.claims()),
        [
            (
                "Precision and recall",
                "Three curves: estimated without labels; the same thresholds evaluated with labels; thresholds chosen with labels.",
                precision_recall(
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
                beta_scan_figure(
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
