"""Pictures of the milling experiment: F1 by split, confidence by class, confidence against wear."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import ArrayLike, FloatArray
from coad.report.figures import BLUE, GREY, ORANGE, RED

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.research.experiments.milling import MillingRow

__all__ = ["class_violins", "fit_sigmoid", "splits_figure", "wear_figure"]

_CLASSES = ((0, "healthy", BLUE), (1, "degraded", ORANGE), (2, "failed", RED))
_LIMIT = 500


def splits_figure(rows: Sequence[MillingRow], paper: float, trivial: float) -> go.Figure:
    """F1 of each split under each method, with the paper's and the trivial score as lines."""
    import plotly.graph_objects as go

    figure = go.Figure()
    looks = {"plain": ("plain", ORANGE, "x"), "regimes": ("with regimes", BLUE, "circle")}
    for method, (name, colour, symbol) in looks.items():
        own = [row for row in rows if row.method == method]
        figure.add_scatter(
            x=[row.split + 1 for row in own],
            y=[row.f1 for row in own],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 11},
        )
    for value, words in ((paper, f"paper {paper:.2f}"), (trivial, f"all anomalous {trivial:.2f}")):
        figure.add_hline(y=value, line_dash="dot", line_color=GREY, annotation_text=words)
    figure.update_xaxes(title_text="split", dtick=1).update_yaxes(title_text="F1 on the test cuts")
    return figure.update_layout(template="plotly_white", height=380)


def class_violins(anomaly: ArrayLike, tool_class: ArrayLike) -> go.Figure:
    """The anomaly confidence of each tool class (paper, milling figure, left).

    >>> len(class_violins([0.1, 0.2, 0.9], [0, 0, 1]).data)
    2
    """
    import plotly.graph_objects as go

    confidence, classes = np.asarray(anomaly, dtype=np.float64), np.asarray(tool_class)
    figure = go.Figure()
    for value, name, colour in _CLASSES:
        own = confidence[classes == value]
        if not len(own):
            continue
        evenly = own[np.unique(np.linspace(0, len(own) - 1, _LIMIT).astype(int))]
        figure.add_violin(
            y=np.round(evenly, 4),
            name=f"{name} ({len(own):,})",
            line_color=colour,
            # Confidences lie in [0, 1]; the smoothed shape must not leave it.
            span=[0, 1],
            spanmode="manual",
            scalemode="width",
            points=False,
            showlegend=False,
        )
    figure.add_hline(y=0.5, line_dash="dot", line_color=GREY)
    figure.update_yaxes(title_text="anomaly confidence", range=[-0.03, 1.03])
    return figure.update_layout(template="plotly_white", height=420)


def wear_figure(anomaly: ArrayLike, wear: ArrayLike, context: Any, group: Any) -> go.Figure:
    """Confidence against flank wear, a panel per regime, a point per cut, with a fitted sigmoid."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    points = _by_cut(np.asarray(anomaly), np.asarray(wear), np.asarray(context), np.asarray(group))
    columns = 2
    lines = max(1, -(-len(points) // columns))
    figure = make_subplots(
        rows=lines,
        cols=columns,
        subplot_titles=list(points),
        shared_xaxes=True,
        shared_yaxes=True,
        vertical_spacing=0.3 / max(lines, 2),
    )
    for place, (x, y) in enumerate(points.values()):
        where = {"row": place // columns + 1, "col": place % columns + 1}
        figure.add_trace(
            go.Scatter(x=x, y=np.round(y, 4), mode="markers", marker={"color": BLUE, "size": 6}), **where
        )
        fit = fit_sigmoid(x, y)
        if fit is not None:
            grid = np.linspace(0.0, float(x.max()), 80)
            curve = _sigmoid(grid, *fit)
            figure.add_trace(
                go.Scatter(
                    x=grid, y=np.round(curve, 4), mode="lines", line={"color": "#333", "dash": "dash"}
                ),
                **where,
            )
    figure.update_yaxes(range=[-0.05, 1.05]).update_traces(showlegend=False)
    figure.update_xaxes(title_text="flank wear, mm", row=lines)
    return figure.update_layout(template="plotly_white", height=90 + 190 * lines)


def fit_sigmoid(wear: ArrayLike, confidence: ArrayLike) -> tuple[float, float] | None:
    """Middle (mm) and width (mm) of the rising sigmoid nearest to the points; None with fewer than four.

    >>> x = np.linspace(0, 1, 30)
    >>> middle, width = fit_sigmoid(x, 1 / (1 + np.exp(-(x - 0.4) / 0.05)))
    >>> round(middle, 2), round(width, 2)
    (0.4, 0.05)
    """
    from scipy.optimize import OptimizeWarning, curve_fit

    x, y = np.asarray(wear, dtype=np.float64), np.asarray(confidence, dtype=np.float64)
    if len(x) < 4:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)  # the errors of the fit are not used
        try:
            best, _ = curve_fit(
                _sigmoid, x, y, p0=(float(np.median(x)), 0.05), bounds=([-1.0, 1e-3], [3.0, 2.0])
            )
        except RuntimeError:  # no convergence: the points are drawn without a line
            return None
    return float(best[0]), float(best[1])


def _by_cut(
    anomaly: FloatArray, wear: FloatArray, context: Any, group: Any
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Wear and mean confidence of each measured cut, by regime."""
    points: dict[str, tuple[FloatArray, FloatArray]] = {}
    for regime in np.unique(context):
        mine = (context == regime) & ~np.isnan(wear)
        cuts, index = np.unique(group[mine], return_inverse=True)
        if len(cuts):
            count = np.bincount(index)
            points[str(regime)] = (
                np.bincount(index, wear[mine]) / count,
                np.bincount(index, anomaly[mine]) / count,
            )
    return points


def _sigmoid(x: Any, middle: float, width: float) -> Any:
    return 1.0 / (1.0 + np.exp(-np.clip((x - middle) / width, -50.0, 50.0)))
