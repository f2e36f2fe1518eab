"""Figures and page of the milling experiment: F1 by split, confidence by tool class and by wear."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import ArrayLike, FloatArray
from coad.report.figures import BLUE, GREY, ORANGE, RED
from coad.report.page import Section, write_page
from coad.research.experiments.milling import PAPER_F1, MillingRow, MillingRun
from coad.research.figures._styles import METHOD_STYLES

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["class_violins", "fit_sigmoid", "splits_figure", "wear_figure", "write_milling_page"]

_CLASSES = ((0, "healthy", BLUE), (1, "degraded", ORANGE), (2, "failed", RED))
_LIMIT = 500


def write_milling_page(run: MillingRun, path: Path) -> None:
    """Write the figures and the table of all splits as one self-contained HTML page."""
    inverted = sum(row.inverted for row in run.rows if row.method == "regimes")
    splits = run.summary("regimes").splits
    write_page(
        path,
        "Milling: worn tools found without labels",
        run.verdict(),
        [
            Section(
                "F1 of every split",
                "Each point is a split by cut: no cut is in both training and test. The lines are the paper's "
                "F1, on raw signals, and the F1 of calling every window anomalous.",
                splits_figure(run.rows, PAPER_F1, run.trivial),
                _split_table(run.rows),
            ),
            Section(
                "Confidence by tool class",
                "The anomaly confidence of test windows, by tool class (from flank wear).",
                class_violins(run.anomaly, run.judged.tool_class),
            ),
            Section(
                "Confidence against flank wear, for each regime",
                "Each point is a cut whose wear was measured: the mean over its windows. The line is a "
                "fitted sigmoid. The wear at which it rises differs between regimes, which the labels do not "
                "take into account.",
                wear_figure(run.anomaly, run.judged.wear, run.judged.pairs.context, run.judged.pairs.group),
            ),
        ],
        "Coincidence finds two classes, sharp and worn, but not which is which: both have nearly the "
        "same F̂. One fact decides for all splits: a sharp tool draws less motor current. Because of it the outputs "
        f"of the networks were inverted in {inverted} of {splits} splits. Without it the mean F1 with regimes is "
        f"{run.summary('regimes').mean_as_trained:.2f}. Labels and wear were used only for evaluation.",
    )


def splits_figure(rows: Sequence[MillingRow], paper: float, trivial: float) -> go.Figure:
    """F1 of each split under each method, with the paper's and the trivial score as lines."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for method, (name, colour, symbol) in METHOD_STYLES.items():
        own = [row for row in rows if row.method == method]
        figure.add_scatter(
            x=[row.split + 1 for row in own],
            y=[row.f1 for row in own],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 11},
        )
    for value, text in ((paper, f"paper {paper:.2f}"), (trivial, f"all anomalous {trivial:.2f}")):
        figure.add_hline(y=value, line_dash="dot", line_color=GREY, annotation_text=text)
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
        drawn = own[np.unique(np.linspace(0, len(own) - 1, _LIMIT).astype(int))]
        figure.add_violin(
            y=np.round(drawn, 4),
            name=f"{name} ({len(own):,})",
            line_color=colour,
            # Confidences lie in [0, 1]; the smoothed outline must too.
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
    """Fit a rising sigmoid: its middle and width in mm; None for fewer than four points.

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


def _split_table(rows: Sequence[MillingRow]) -> tuple[list[str], list[list[str]]]:
    head = [
        "split",
        "method",
        "F1",
        "P",
        "R",
        "all anomalous",
        "inverted",
        "F̂",
        "F̂ of the other class",
        "as trained",
    ]
    return head, [
        [
            *(str(x.split + 1), x.method),
            *(f"{value:.2f}" for value in (x.f1, x.precision, x.recall, x.trivial)),
            "yes" if x.inverted else "no",
            *(f"{value:.3f}" for value in (x.fbeta_hat, x.fbeta_hat_other, x.f1_as_trained)),
        ]
        for x in rows
    ]


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
