"""Plotly figures of scores, thresholds and curves; colours that the colour-blind can tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.verdict import NO_COINCIDENCE
from coad.thresholds.curves import ScanPoint

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.thresholds.selection import ThresholdResult

#: Okabe and Ito's palette.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#999999"
_LINES = ((BLUE, "solid"), (RED, "dash"), (GREEN, "dot"), (ORANGE, "dashdot"), (PURPLE, "longdash"))
_MAX_POINTS = 6_000  # of each kind in a scatter

Side = Literal["hat", "true"]
Curves = Mapping[str, tuple[list[ScanPoint], Side]]


def score_scatter(
    s: FloatArray, q: FloatArray, result: ThresholdResult, label: BoolArray | None = None
) -> go.Figure:
    """Both scores of each row with the two thresholds; what lies beyond both is flagged."""
    figure = decided_scatter(s, q, result.predict(s, q), label)
    if math.isfinite(result.threshold_s):
        line = {"color": BLUE, "dash": "dash", "width": 2}
        figure.add_vline(x=result.threshold_s, line=line)
        figure.add_hline(y=result.threshold_q, line=line)
    return figure


def decided_scatter(
    s: FloatArray,
    q: FloatArray,
    flagged: BoolArray,
    label: BoolArray | None = None,
    names: tuple[str, str] = ("score of s", "score of q"),
) -> go.Figure:
    """Rows by two numbers; colour and shape tell flagged from not and, with labels, right from wrong."""
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
        places = _thinned(np.flatnonzero(rows))
        figure.add_scattergl(
            x=s[places],
            y=q[places],
            mode="markers",
            name=f"{name} ({int(rows.sum()):,})",
            marker={"color": colour, "symbol": symbol, "size": 5, "opacity": 0.6},
        )
    return dressed(figure, *names)


def precision_recall(curves: Curves, result: ThresholdResult | None = None) -> go.Figure:
    """P against R (or P̂ against R̂), with the chosen point where there is one."""
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
    dressed(figure, "recall", "precision")
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
    dressed(figure, "β", "F")
    figure.update_xaxes(type="log")
    figure.update_yaxes(range=[0, 1.03])
    return figure


def dressed(figure: go.Figure, x: str, y: str) -> go.Figure:
    """The figure with its axes named, in the style of our pages."""
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


def _thinned(places: Any) -> Any:
    """A fixed sample, so that a page stays small and the same data give the same page."""
    if len(places) <= _MAX_POINTS:
        return places
    return np.random.default_rng(0).choice(places, _MAX_POINTS, replace=False)


def _precision(point: ScanPoint, side: Side) -> float:
    value = point.precision_hat if side == "hat" else point.precision
    assert value is not None
    return value


def _recall(point: ScanPoint, side: Side) -> float:
    value = point.recall_hat if side == "hat" else point.recall
    assert value is not None
    return value
