"""Figures and page of the regime comparison: F1 by data set, flags on SKAB and the hydraulic rig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.report.figures import BLUE, GREY, RED
from coad.report.page import Section, write_page
from coad.research.figures._styles import METHOD_STYLES

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.research.datasets.hydraulic import HydraulicData
    from coad.research.datasets.skab import SkabData
    from coad.research.experiments.regimes import RegimesRun, TableRow

__all__ = ["channels_figure", "cycles_figure", "runs_figure", "table_figure", "write_regimes_page"]


def write_regimes_page(run: RegimesRun, path: Path) -> None:
    """Write the table and the figures as one self-contained HTML page."""
    lines = run.table()
    sections = [
        Section(
            "F1 by labels, plain and with regimes",
            "Evaluated on test rows; the dark line is the F1 of calling all rows anomalous. Status and α̂ "
            "are from training, without labels.",
            table_figure(lines),
            _score_table(lines),
        )
    ]
    if run.skab is not None and run.skab_flags is not None:
        sections += [
            Section(
                "SKAB: the plain method finds the measurement campaign",
                "The fraction of the windows of each run that is flagged. Runs of one campaign (one day, one set-up) differ "
                "from the others in both inputs; that is a regime, not an anomaly.",
                runs_figure(run.skab, run.skab_flags),
            ),
            Section(
                "SKAB: channels that change in flagged windows",
                "Each channel's mean difference between windows that the regime-aware method flags (in most splits) "
                "and the others, in standard deviations within the run; and the same for the labelled anomalies. The labelled "
                "anomalies change the flow (q) and hardly anything in s, so coincidence cannot detect them; both inputs "
                "respond to another factor, which is not labelled.",
                channels_figure(run.skab, run.skab_flags["regimes"]),
            ),
        ]
    if run.hydraulic is not None and run.hydraulic_flags is not None:
        sections.append(
            Section(
                "Hydraulic rig: flags over the experiment",
                "Top: the oil temperature of every cycle in order of time, coloured by the fraction of splits that "
                "flag it. Middle: the flags of each split. Bottom: the leakage set by the experimenters. One detector "
                "finds the strongest coincidence, which may be leakage in one split and the warming up of the oil in another.",
                cycles_figure(run.hydraulic, run.hydraulic_flags["regimes"]),
                _leakage_table(run.hydraulic, run.hydraulic_flags["regimes"]),
            )
        )
    text = "; ".join(f"{x.dataset}, {x.method}: F1 {x.f1:.2f} (trivial {x.trivial:.2f})" for x in lines)
    write_page(
        path,
        "Three machines: what knowing the regime changes",
        text + ".",
        sections,
        "Labels were used only for evaluation. Figures show whole records, including training rows. Data: "
        + "; ".join(run.sources.values())
        + ".",
    )


def table_figure(lines: Sequence[TableRow]) -> go.Figure:
    """F1 of both methods on each data set with its standard deviation, and the F1 of flagging all rows."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for method, (name, colour, _) in METHOD_STYLES.items():
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
        name, colour, _ = METHOD_STYLES[method]
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
    """Mean difference of flagged (in most splits) and of labelled windows from the rest of their run."""
    import plotly.graph_objects as go

    pairs = skab.pairs
    names = [*pairs.s_names, *pairs.q_names]
    values = _within(np.hstack([pairs.s, pairs.q]), pairs.context)
    figure = go.Figure()
    for name, rows, colour in (
        ("flagged", flags.mean(axis=0) > 0.5, BLUE),
        ("labelled anomaly", np.asarray(pairs.label, dtype=bool), RED),
    ):
        if rows.any() and not rows.all():
            difference = values[rows].mean(axis=0) - values[~rows].mean(axis=0)
            figure.add_bar(
                y=names, x=np.round(difference, 3), name=name, orientation="h", marker_color=colour
            )
    figure.update_xaxes(
        title_text="mean difference from the other windows, standard deviations within the run"
    )
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(template="plotly_white", height=560, barmode="group", margin={"l": 230})


def cycles_figure(hydraulic: HydraulicData, flags: BoolArray) -> go.Figure:
    """Oil temperature of all cycles, the flags (splits, cycles), and the leakage set in the experiment."""
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


def _score_table(lines: Sequence[TableRow]) -> tuple[list[str], list[list[str]]]:
    head = ["data", "fault", "method", "splits", "F1", "lowest", "trivial", "flagged", "α̂", "F̂", "status"]
    return head, [
        [
            *(x.dataset, x.fault, x.method, str(x.splits), f"{x.f1:.2f} ± {x.deviation:.2f}"),
            *(f"{value:.2f}" for value in (x.lowest, x.trivial, x.flagged, x.alpha, x.fbeta_hat)),
            x.status,
        ]
        for x in lines
    ]


def _leakage_table(data: HydraulicData, flags: BoolArray) -> tuple[list[str], list[list[str]]]:
    kinds = [("no leakage", 0), ("weak leakage", 1), ("severe leakage", 2)]
    return ["flagged of", *(f"split {i + 1}" for i in range(len(flags)))], [
        [name, *(f"{flagged[data.leakage == level].mean():.0%}" for flagged in flags)]
        for name, level in kinds
        if (data.leakage == level).any()
    ]


def _within(values: FloatArray, context: Any) -> FloatArray:
    """Values standardised within each run."""
    out = np.array(values, dtype=np.float64)
    for run in np.unique(context):
        mine = out[context == run]
        spread = mine.std(axis=0)
        out[context == run] = (mine - mine.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return out
