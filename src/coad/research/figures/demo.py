"""The page of ``coad demo``: flagged rows, precision against recall, F over β, and the learned windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.report.figures import BLUE, GREY, ORANGE, RED, beta_scan_figure, precision_recall, styled
from coad.report.page import Section, write_page

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.research.experiments.demo import LearnedDemo, ThresholdDemo
    from coad.thresholds.result import ThresholdResult

__all__ = ["decision_scatter", "example_windows", "threshold_scatter", "write_demo_page"]

_MAX_POINTS = 6_000  # of each kind in a scatter plot


def write_demo_page(thresholds: ThresholdDemo, learned: LearnedDemo, path: Path) -> None:
    """Write both parts of the demo as one self-contained HTML page."""
    result = thresholds.result
    write_page(
        path,
        "Coincidence on simulated outliers",
        f"{result.status}: {result.message}.",
        [*_threshold_sections(thresholds), *_learned_sections(learned)],
        "The data are simulated: 20,000 normal rows with scores |N(0, 1)|, and 1,000 anomalies with scores "
        "1 + |N(0, 1.5)| in both inputs.",
    )


def _threshold_sections(run: ThresholdDemo) -> list[Section]:
    return [
        Section(
            "What was flagged",
            "Each point is a row, placed by its two scores. Rows beyond both lines are flagged; "
            "the colour shows the true label, which the method never saw.",
            threshold_scatter(run.data.s, run.data.q, run.result, run.data.label),
        ),
        Section(
            "Precision against recall",
            "Each point is the best pair of thresholds for one β. P̂ and R̂ are estimated without labels; "
            "P and R evaluate the same thresholds with the true labels.",
            precision_recall(
                {"without labels": (run.scan, "hat"), "evaluated with labels": (run.scan, "true")}, run.result
            ),
        ),
        Section(
            "The score over β",
            "F̂ without labels, and F of the same thresholds computed with the true labels.",
            beta_scan_figure(
                {"F̂ without labels": (run.scan, "hat"), "F with labels": (run.scan, "true")},
                run.result.beta,
            ),
        ),
    ]


def _learned_sections(run: LearnedDemo) -> list[Section]:
    high_s, high_q = run.p_s > 0.5, run.p_q > 0.5
    examples = {
        "both networks: flagged": np.flatnonzero(run.flagged)[:3],
        "network of s only": np.flatnonzero(high_s & ~high_q)[:3],
        "network of q only": np.flatnonzero(high_q & ~high_s)[:3],
    }
    return [
        Section(
            "Learned from raw windows",
            f"No scores are given here: two networks were trained on {len(run.data.label):,} pairs of raw windows, "
            "one network per input, to give high confidence on the same pairs. Below are new windows; a pair with "
            "high confidence from both networks is an event.",
            example_windows(run.data.s, run.data.q, examples),
        ),
        Section(
            "Confidence of the two networks",
            "Each point is a new pair of windows. Faults of one sensor lie along the edges, events in the "
            "corner; the colour shows the true label.",
            decision_scatter(run.p_s, run.p_q, run.flagged, run.data.label, ("p_s", "p_q")),
        ),
    ]


def threshold_scatter(
    s: FloatArray, q: FloatArray, result: ThresholdResult, label: BoolArray | None = None
) -> go.Figure:
    """Both scores of each row with the two thresholds; rows beyond both are flagged."""
    figure = decision_scatter(s, q, result.predict(s, q), label)
    if math.isfinite(result.threshold_s):
        line = {"color": BLUE, "dash": "dash", "width": 2}
        figure.add_vline(x=result.threshold_s, line=line)
        figure.add_hline(y=result.threshold_q, line=line)
    return figure


def decision_scatter(
    s: FloatArray,
    q: FloatArray,
    flagged: BoolArray,
    label: BoolArray | None = None,
    names: tuple[str, str] = ("score of s", "score of q"),
) -> go.Figure:
    """Scatter plot of two values per row, by decision and, if given, by label.

    Parameters
    ----------
    s, q
        One value per row and input.
    flagged
        The decision for each row.
    label
        True labels; with them, each combination of decision and label has its own colour and symbol.
    names
        Titles of the two axes.

    Returns
    -------
    go.Figure
        At most 6,000 points of each kind.
    """
    import plotly.graph_objects as go

    if label is None:
        kinds = [("not flagged", ~flagged, GREY, "circle"), ("flagged", flagged, RED, "diamond")]
    else:
        kinds = [
            ("normal", ~flagged & ~label, GREY, "circle"),
            ("normal, flagged", flagged & ~label, ORANGE, "x"),
            ("anomaly, missed", ~flagged & label, BLUE, "circle"),
            ("anomaly, flagged", flagged & label, RED, "diamond"),
        ]
    figure = go.Figure()
    for name, rows, colour, symbol in kinds:
        places = _subsample(np.flatnonzero(rows))
        figure.add_scattergl(
            x=s[places],
            y=q[places],
            mode="markers",
            name=f"{name} ({int(rows.sum()):,})",
            marker={"color": colour, "symbol": symbol, "size": 5, "opacity": 0.6},
        )
    return styled(figure, *names)


def example_windows(s: FloatArray, q: FloatArray, examples: Mapping[str, IntArray]) -> go.Figure:
    """Draw windows of each kind: s in the upper row, q in the lower, one column per kind."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2,
        cols=len(examples),
        shared_xaxes=True,
        subplot_titles=list(examples),
        vertical_spacing=0.06,
        horizontal_spacing=0.05,
    )
    for column, places in enumerate(examples.values(), start=1):
        for row, values in ((1, s), (2, q)):
            for shade, place in enumerate(places):
                figure.add_scatter(
                    y=values[place, 0].round(3),
                    mode="lines",
                    line={"color": (BLUE, ORANGE, GREY)[shade % 3], "width": 1.4},
                    name=f"row {place}",
                    showlegend=False,
                    row=row,
                    col=column,
                )
    styled(figure, "", "")
    figure.update_yaxes(title_text="s", row=1, col=1)
    figure.update_yaxes(title_text="q", row=2, col=1)
    figure.update_layout(margin={"t": 40})
    return figure


def _subsample(places: IntArray) -> IntArray:
    """A fixed random sample, so that a page stays small and the same data give the same page."""
    if len(places) <= _MAX_POINTS:
        return places
    return np.random.default_rng(0).choice(places, _MAX_POINTS, replace=False)
