"""Plotly figures of precision, recall and F over β; colours that colour-blind readers can tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from coad.core.verdict import NO_COINCIDENCE
from coad.thresholds.curves import ScanPoint

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.thresholds.selection import ThresholdResult

#: Okabe and Ito's palette.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#999999"
_LINES = ((BLUE, "solid"), (RED, "dash"), (GREEN, "dot"), (ORANGE, "dashdot"), (PURPLE, "longdash"))

Side = Literal["hat", "true"]
Curves = Mapping[str, tuple[list[ScanPoint], Side]]


def precision_recall(curves: Curves, result: ThresholdResult | None = None) -> go.Figure:
    """P against R (or P̂ against R̂) of each curve, with the chosen point if ``result`` found one."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for (name, (points, side)), (colour, dash) in zip(curves.items(), _LINES, strict=False):
        ordered = sorted(points, key=lambda point: _recall(point, side))
        figure.add_scatter(
            x=[_recall(point, side) for point in ordered],
            y=[_precision(point, side) for point in ordered],
            text=[f"β = {point.beta:.3g}" for point in ordered],
            mode="lines+markers",
            name=name,
            line={"color": colour, "dash": dash},
            marker={"size": 5},
        )
    if result is not None and result.status != NO_COINCIDENCE:
        figure.add_scatter(
            x=[result.recall_hat],
            y=[result.precision_hat],
            mode="markers",
            name=f"chosen, β = {result.beta:g}",
            marker={"color": ORANGE, "size": 13, "symbol": "star", "line": {"width": 1, "color": "black"}},
        )
    styled(figure, "recall", "precision")
    figure.update_yaxes(range=[0, 1.03])
    figure.update_xaxes(range=[0, 1.03])
    return figure


def beta_scan_figure(curves: Curves, chosen: float | None = None) -> go.Figure:
    """F over β, on a logarithmic axis."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for (name, (points, side)), (colour, dash) in zip(curves.items(), _LINES, strict=False):
        figure.add_scatter(
            x=[point.beta for point in points],
            y=[point.fbeta_hat if side == "hat" else point.fbeta for point in points],
            mode="lines",
            name=name,
            line={"color": colour, "dash": dash},
        )
    if chosen is not None and 0 < chosen < math.inf:
        figure.add_vline(x=chosen, line={"color": GREY, "dash": "dot"})
    styled(figure, "β", "F")
    figure.update_xaxes(type="log")
    figure.update_yaxes(range=[0, 1.03])
    return figure


def styled(figure: go.Figure, x: str, y: str) -> go.Figure:
    """Name the axes and apply the style of our pages; returns the figure."""
    figure.update_layout(
        template="plotly_white",
        xaxis_title=x,
        yaxis_title=y,
        height=460,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": -0.18},
        font={"size": 14},
    )
    return figure


def _precision(point: ScanPoint, side: Side) -> float:
    value = point.precision_hat if side == "hat" else point.precision
    assert value is not None
    return value


def _recall(point: ScanPoint, side: Side) -> float:
    value = point.recall_hat if side == "hat" else point.recall
    assert value is not None
    return value
