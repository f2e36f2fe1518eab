"""Pictures of the demo's learned part: raw windows of both inputs, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from coad._typing import FloatArray, IntArray
from coad.report.figures import BLUE, GREY, ORANGE, dressed

__all__ = ["example_windows"]


def example_windows(s: FloatArray, q: FloatArray, examples: Mapping[str, IntArray]) -> go.Figure:
    """Some windows of each kind: s in the upper row, q below."""
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
    dressed(figure, "", "")
    figure.update_yaxes(title_text="s", row=1, col=1)
    figure.update_yaxes(title_text="q", row=2, col=1)
    figure.update_layout(margin={"t": 40})
    return figure
