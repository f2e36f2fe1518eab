"""Figure of simulated RF windows: the station on the left, the beam on the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coad.report.figures import BLUE, GREY, RED
from coad.report.page import Section

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.research.experiments.rf import Examples

__all__ = ["examples_figure", "examples_section"]


def examples_section(examples: Examples) -> Section:
    """The example windows as a section of a page."""
    return Section(
        "Simulated windows, the station on the left and the beam on the right",
        "The normal windows (blue) are difficult ones: a glitch of the readback alone, a beam anomaly too early to "
        "match, a change of energy caused by another station. Events (orange) change both at once.",
        examples_figure(examples),
    )


def examples_figure(examples: Examples) -> go.Figure:
    """Draw one row per window: amplitude over time, and the seven positions in the bending plane."""
    from plotly.subplots import make_subplots

    count = len(examples.rows)
    titles = [text for title in examples.titles for text in (title, "")]
    figure = make_subplots(
        rows=count, cols=2, subplot_titles=titles, column_widths=[0.4, 0.6], vertical_spacing=0.35 / count
    )
    data = examples.data
    seconds_s = 5.0 * (np.arange(data.s.shape[2]) - data.s.shape[2] + 1)
    seconds_q = (np.arange(data.q.shape[2]) - data.q.shape[2] + 1) / 120.0
    for line, row in enumerate(examples.rows, start=1):
        colour = RED if data.label[row] else BLUE
        figure.add_scatter(
            x=seconds_s, y=np.round(data.s[row, 0], 2), mode="lines+markers", row=line, col=1,
            line={"color": colour, "width": 1}, marker={"size": 3},
        )  # fmt: skip
        for channel in range(0, data.q.shape[1], 2):
            # Means of 10 points: single readings are noisy and would make the page large.
            mean = data.q[row, channel, : len(seconds_q) // 10 * 10].reshape(-1, 10).mean(axis=1)
            figure.add_scatter(
                x=np.round(seconds_q[9::10], 2), y=np.round(mean, 4), mode="lines", row=line, col=2,
                line={"color": colour if channel == 6 else GREY, "width": 1},
            )  # fmt: skip
    figure.update_xaxes(title_text="s before the window's end", row=count)
    figure.update_yaxes(title_text="amplitude, %", col=1).update_yaxes(title_text="position, mm", col=2)
    return figure.update_layout(template="plotly_white", height=190 * count + 80, showlegend=False)
