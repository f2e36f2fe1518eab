"""Plotly figures of precision, recall and F over β, and the style of all figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from coad.core.verdict import NO_COINCIDENCE
from coad.thresholds.curves import ScanPoint

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.thresholds.result import ThresholdResult

#: Okabe and Ito's palette, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#999999"
_LINES = ((BLUE, "solid"), (RED, "dash"), (GREEN, "dot"), (ORANGE, "dashdot"), (PURPLE, "longdash"))

Side = Literal["hat", "true"]
Curves = Mapping[str, tuple[list[ScanPoint], Side]]


def precision_recall(curves: Curves, result: ThresholdResult | None = None) -> go.Figure:
    """P against R of each curve.

    Parameters
    ----------
    curves : mapping of name to (points, "hat" or "true")
        The points of a β scan, and whether to draw P̂ and R̂ or the values by the labels.
    result : ThresholdResult, optional
        The chosen thresholds, marked by a star.
    """
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
        add_star(figure, result.recall_hat, result.precision_hat, f"chosen, β = {result.beta:g}")
    styled(figure, "recall", "precision")
    figure.update_yaxes(range=[0, 1.03])
    figure.update_xaxes(range=[0, 1.03])
    return figure


def beta_scan_figure(curves: Curves, chosen: float | None = None) -> go.Figure:
    """F over β of each curve (see :func:`precision_recall`), with a line at the ``chosen`` β."""
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


def add_star(figure: go.Figure, x: float, y: float, name: str) -> None:
    """Mark a point by a star."""
    figure.add_scatter(
        x=[x],
        y=[y],
        mode="markers",
        name=name,
        marker={"color": ORANGE, "size": 14, "symbol": "star", "line": {"width": 1, "color": "black"}},
        showlegend=True,
    )


def styled(figure: go.Figure, x: str, y: str) -> go.Figure:
    """Name the axes and apply the common style, to which the page adds light or dark colours; returns the figure."""
    figure.update_layout(
        template="none",
        xaxis={"title": {"text": x, "standoff": 8}, "automargin": True, "tickangle": 0},
        yaxis={"title": {"text": y, "standoff": 8}, "automargin": True},
        height=430,
        margin={"l": 60, "r": 12, "t": 40, "b": 50},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        font={"size": 13},
        hovermode="closest",
    )
    return figure


def short_text(text: str, most: int = 48) -> str:
    """Text shortened in its middle, and escaped because Plotly reads <b> and the like as markup.

    >>> short_text("hydraulic_pressure_3_rms", 12), short_text("a<b")
    ('hydrau…3_rms', 'a&lt;b')
    """
    short = text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _precision(point: ScanPoint, side: Side) -> float:
    value = point.precision_hat if side == "hat" else point.precision
    assert value is not None
    return value


def _recall(point: ScanPoint, side: Side) -> float:
    value = point.recall_hat if side == "hat" else point.recall
    assert value is not None
    return value
