"""Pictures of what coincidence finds with and without the regime, on SKAB and the hydraulic rig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.report.figures import BLUE, GREY, ORANGE, RED

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.research.datasets.hydraulic import HydraulicData
    from coad.research.datasets.skab import SkabData
    from coad.research.experiments.regimes import TableRow

__all__ = ["channels_figure", "cycles_figure", "runs_figure", "table_figure"]

_LOOKS = {"plain": ("plain", ORANGE), "regimes": ("with regimes", BLUE)}


def table_figure(lines: Sequence[TableRow]) -> go.Figure:
    """F1 of both methods on each data set, the spread over splits, and the trivial score."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for method, (name, colour) in _LOOKS.items():
        own = [line for line in lines if line.method == method]
        figure.add_bar(
            x=[line.dataset for line in own],
            y=[line.f1 for line in own],
            error_y={"type": "data", "array": [line.deviation for line in own]},
            name=name,
            marker_color=colour,
            hovertext=[f"{line.status}; α̂ {line.alpha:.2f}; F̂ {line.fbeta_hat:.2f}" for line in own],
        )
    trivial = {line.dataset: line.trivial for line in lines}
    figure.add_scatter(
        x=list(trivial),
        y=list(trivial.values()),
        mode="markers",
        name="everything anomalous",
        marker={"symbol": "line-ew-open", "size": 60, "color": "#333"},
    )
    figure.update_yaxes(title_text="F1", range=[0, 1])
    return figure.update_layout(template="plotly_white", height=380, barmode="group")


def runs_figure(skab: SkabData, flags: Mapping[str, BoolArray]) -> go.Figure:
    """The flagged fraction of each SKAB run, for each method; ``flags`` are (splits, windows)."""
    import plotly.graph_objects as go

    runs: Any = skab.pairs.context
    names = list(dict.fromkeys(runs.tolist()))
    figure = go.Figure()
    for method, flagged in flags.items():
        name, colour = _LOOKS[method]
        figure.add_bar(
            x=names,
            y=[float(flagged[:, runs == run].mean()) for run in names],
            name=name,
            marker_color=colour,
        )
    figure.update_yaxes(title_text="fraction of windows flagged", range=[0, 1])
    figure.update_xaxes(title_text="run", tickangle=-60)
    return figure.update_layout(template="plotly_white", height=420, barmode="group")


def channels_figure(skab: SkabData, flags: BoolArray) -> go.Figure:
    """How windows flagged in most splits, and labelled ones, differ from the rest of their run."""
    import plotly.graph_objects as go

    pairs = skab.pairs
    names = [*pairs.s_names, *pairs.q_names]
    values = _within(np.hstack([pairs.s, pairs.q]), pairs.context)
    figure = go.Figure()
    for words, rows, colour in (
        ("flagged", flags.mean(axis=0) > 0.5, BLUE),
        ("labelled anomaly", np.asarray(pairs.label, dtype=bool), RED),
    ):
        if rows.any() and not rows.all():
            difference = values[rows].mean(axis=0) - values[~rows].mean(axis=0)
            figure.add_bar(
                y=names, x=np.round(difference, 3), name=words, orientation="h", marker_color=colour
            )
    figure.update_xaxes(title_text="mean difference to the other windows, deviations within the run")
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(template="plotly_white", height=560, barmode="group", margin={"l": 230})


def cycles_figure(hydraulic: HydraulicData, flags: BoolArray) -> go.Figure:
    """Oil temperature of all cycles, the flags (splits, cycles), and the leakage that was set."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    cycle = np.arange(flags.shape[1])
    figure = make_subplots(
        rows=3, cols=1, shared_xaxes=True, row_heights=[0.55, 0.25, 0.2], vertical_spacing=0.05
    )
    share = {"colorscale": [[0, GREY], [1, RED]], "cmin": 0, "cmax": 1}
    figure.add_trace(
        go.Scattergl(
            x=cycle,
            y=np.round(hydraulic.temperature, 2),
            mode="markers",
            marker={"color": flags.mean(axis=0), "size": 4, "colorbar": {"title": "flagged"}, **share},
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Heatmap(
            z=flags.astype(int),
            y=[f"split {i + 1}" for i in range(len(flags))],
            colorscale=[[0, "#EEEEEE"], [1, RED]],
            showscale=False,
        ),
        row=2,
        col=1,
    )
    leakage = go.Scatter(x=cycle, y=hydraulic.leakage, mode="lines", line={"color": BLUE, "width": 1})
    figure.add_trace(leakage, row=3, col=1)
    figure.update_yaxes(title_text="TS1, °C", row=1).update_yaxes(title_text="leakage", dtick=1, row=3)
    figure.update_yaxes(autorange="reversed", row=2)
    figure.update_xaxes(title_text="load cycle", row=3)
    return figure.update_layout(template="plotly_white", height=560, showlegend=False)


def _within(values: FloatArray, context: Any) -> FloatArray:
    """Deviations from the mean of the run, in its standard deviations."""
    out = np.array(values, dtype=np.float64)
    for run in np.unique(context):
        mine = out[context == run]
        spread = mine.std(axis=0)
        out[context == run] = (mine - mine.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return out
