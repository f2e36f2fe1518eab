"""The figures of a model's report: confidences, F̂ over both thresholds, null distribution, training, time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray
from coad.core.metric import fbeta_of
from coad.core.verdict import NO_COINCIDENCE
from coad.report.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    add_star,
    beta_scan_figure,
    precision_recall,
    short_text,
    styled,
)
from coad.report.study import Study, Surface
from coad.workflows.scored import Scored, sampled

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.learned.estimator import CoAD

__all__ = [
    "beta_figure",
    "confidence_figure",
    "curve_figure",
    "history_figure",
    "history_lines",
    "logit",
    "null_figure",
    "surface_figure",
    "timeline_figure",
]

#: Points drawn of what is flagged, of what is not, and of events: more would make the page slow.
DRAWN_FLAGGED, DRAWN_OTHERS, DRAWN_EVENTS = 1500, 2500, 2000
_TICKS = (1e-6, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.99, 1 - 1e-4, 1 - 1e-6)
_SEEDS = (BLUE, ORANGE, GREEN, RED, PURPLE, "#56B4E9", GREY, "#F0E442")
_DASHES = ("solid", "dash", "dot", "dashdot")


def logit(p: Any) -> FloatArray:
    """The base-10 logit of a confidence, clipped at one in ten million.

    >>> logit([0.5, 1.0]).round(2).tolist()
    [0.0, 7.0]
    """
    clipped = np.clip(np.asarray(p, dtype=np.float64), 1e-7, 1 - 1e-7)
    return np.asarray(np.log10(clipped / (1 - clipped)))


def confidence_figure(study: Study) -> go.Figure:
    """p_s against p_q with both thresholds."""
    import plotly.graph_objects as go

    scored, flags = study.scored, study.flags
    figure = go.Figure()
    groups: list[tuple[str, Any, str, str, int]] = [
        (f"not flagged ({int((~flags).sum()):,})", ~flags, GREY, "circle", DRAWN_OTHERS),
        (f"flagged ({int(flags.sum()):,})", flags, RED, "diamond", DRAWN_FLAGGED),
    ]
    if scored.label is not None:
        missed = scored.label & ~flags
        wrong = flags & ~scored.label
        groups += [
            (f"labelled anomalous, missed ({int(missed.sum()):,})", missed, BLUE, "x", DRAWN_FLAGGED),
            (
                f"flagged, labelled normal ({int(wrong.sum()):,})",
                wrong,
                ORANGE,
                "circle-open",
                DRAWN_FLAGGED,
            ),
        ]
    for name, rows, colour, symbol, most in groups:
        places = sampled(np.flatnonzero(rows), most)
        figure.add_scatter(
            x=_small(logit(scored.p_s[places])),
            y=_small(logit(scored.p_q[places])),
            text=[where(scored, int(i)) for i in places],
            hovertemplate="%{text}<extra></extra>",
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 6, "opacity": 0.55},
        )
    significant = study.status != NO_COINCIDENCE
    line = {"color": BLUE if significant else GREY, "dash": "dash" if significant else "dot", "width": 2}
    if study.rule.product is not None:
        p = np.geomspace(study.rule.product, 1.0, 50)[1:-1]
        figure.add_scatter(
            x=logit(p), y=logit(study.rule.product / p), mode="lines", line=line, name="the rule"
        )
    elif study.has_thresholds and all(map(math.isfinite, study.start)):
        figure.add_vline(x=float(logit(study.start[0])), line=line)
        figure.add_hline(y=float(logit(study.start[1])), line=line)
    styled(figure, "p_s", "p_q")
    shown = np.concatenate([logit(scored.p_s), logit(scored.p_q)])
    ends = [float(shown.min()) - 0.3, float(shown.max()) + 0.3]
    axis = {"tickvals": logit(_TICKS).tolist(), "ticktext": [_tick(p) for p in _TICKS], "range": ends}
    figure.update_xaxes(axis).update_yaxes(axis)
    return figure


def surface_figure(surface: Surface, study: Study) -> go.Figure:
    """F̂ over both thresholds, on axes of the share that each flags."""
    import plotly.graph_objects as go

    n = len(study.scored)
    figure = go.Figure()
    x, y = surface.flagged_s / n, surface.flagged_q / n
    value = np.clip(surface.fbeta_hat, 0.0, None)
    figure.add_heatmap(
        x=np.log10(x),
        y=np.log10(y),
        z=_small(value.T),
        zmin=0,
        zmax=max(float(value.max()), 0.05),
        colorscale="Cividis",
        colorbar={"title": {"text": "F̂"}, "thickness": 12},
        customdata=np.stack(np.meshgrid(surface.threshold_s, surface.threshold_q), axis=-1).astype(
            np.float32
        ),
        hovertemplate="p_s ≥ %{customdata[0]:.4g}<br>p_q ≥ %{customdata[1]:.4g}<br>F̂ %{z:.3f}<extra></extra>",
    )
    t_s, t_q = study.start
    if math.isfinite(t_s):
        share = [float(np.mean(p >= t)) for p, t in ((study.scored.p_s, t_s), (study.scored.p_q, t_q))]
        if min(share) > 0:
            add_star(figure, math.log10(share[0]), math.log10(share[1]), _chosen(study))
    styled(figure, "flagged by s (its threshold below)", "flagged by q (its threshold)")
    figure.update_xaxes(_share_ticks(x, surface.threshold_s, "<br>"))
    figure.update_yaxes(_share_ticks(y, surface.threshold_q, "<br>"))
    figure.update_layout(margin_l=80)
    return figure


def curve_figure(study: Study) -> go.Figure:
    """P̂ against R̂ over β, and the same by the labels if there are any, with the chosen point."""
    curves: dict[str, Any] = {"estimated": (study.scan, "hat")}
    if study.scored.label is not None:
        curves["by the labels"] = (study.scan, "true")
    figure = precision_recall(curves)
    numbers = study.numbers(study.rule) if study.flags.any() else study.numbers_at(*study.start, study.beta)
    name = f"{_chosen(study)}, β = {beta_text(study.beta)}"
    add_star(figure, numbers.recall_hat, numbers.precision_hat, name)
    styled(figure, "R̂, found among all", "P̂, not explained by chance")
    most = max([1.0, numbers.recall_hat, *(point.recall_hat for point in study.scan)])
    figure.update_xaxes(range=[0, most + 0.03])
    return figure


def beta_figure(study: Study) -> go.Figure:
    """F̂ over β."""
    curves: dict[str, Any] = {"F̂ of the best thresholds": (study.scan, "hat")}
    if study.scored.label is not None:
        curves["F of the same, by the labels"] = (study.scan, "true")
    figure = beta_scan_figure(curves, study.beta)
    styled(figure, "β (dotted: the model's)", "F̂")
    ticks = [0.01, 0.1, 1, 10, 100]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{one:g}" for one in ticks])
    most = max([1.0, *(point.fbeta_hat for point in study.scan)])
    return figure.update_yaxes(range=[0, most + 0.03])


def null_figure(study: Study) -> go.Figure | None:
    """The joint rows of shuffled pairings, and those of the data."""
    import plotly.graph_objects as go

    found = study.evaluation
    if found.null_joint is None:
        return None
    figure = go.Figure()
    figure.add_histogram(
        x=_small(found.null_joint),
        nbinsx=40,
        marker_color=GREY,
        name=f"{len(found.null_joint)} shuffled pairings",
    )
    figure.add_vline(
        x=found.n_tested,
        line={"color": RED, "width": 3},
        annotation_text=f"data: {found.n_tested:,.0f}",
        annotation_position="top left",
    )
    styled(figure, f"{study.scored.what} flagged by both inputs", "shuffled pairings")
    most = max(1.0, found.n_tested, float(found.null_joint.max(initial=0.0)))
    return figure.update_xaxes(range=[0, most * 1.1]).update_layout(showlegend=True, bargap=0.05)


def history_figure(lines: Sequence[HistoryLine]) -> go.Figure:
    """F̂ on held-out pairs over the epochs, one line per seed; the kept one is thick."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for number, line in enumerate(lines):
        figure.add_scatter(
            x=line.epoch,
            y=line.fbeta_hat,
            mode="lines",
            name=f"seed {line.seed}{' (kept)' if line.kept else ''}",
            line={
                "color": _SEEDS[number % len(_SEEDS)],
                "dash": _DASHES[number // len(_SEEDS) % len(_DASHES)],
                "width": 4 if line.kept else 1.5,
            },
        )
    return styled(figure, "epoch", "F̂ on held-out pairs")


class HistoryLine(NamedTuple):
    """The history of one seed."""

    seed: int
    kept: bool
    epoch: list[int]
    fbeta_hat: list[float]


def history_lines(model: CoAD) -> list[HistoryLine]:
    """F̂ of each seed over the epochs, at the final α of its training; empty if the history was not saved."""
    own = next(iter(model.fitted_.values()))
    lines = []
    for seed, entries in sorted(model.history_.items()):
        alpha = max(float(np.ravel(entries[-1]["alpha"])[0]), 1e-9)
        values = [
            fbeta_of(
                float(np.ravel(one["true_positives"])[0]), float(np.ravel(one["joint"])[0]), own.beta, alpha
            )
            for one in entries
        ]
        epochs = [int(one["epoch"]) for one in entries]
        lines.append(HistoryLine(int(seed), int(seed) in own.ensemble, epochs, np.round(values, 4).tolist()))
    return lines


def timeline_figure(study: Study) -> go.Figure:
    """The score of each event over time, and the share flagged in each part of the data."""
    from plotly.subplots import make_subplots

    scored, events = study.scored, study.events
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.68, 0.32], vertical_spacing=0.06)
    order = sampled(np.arange(len(events)), DRAWN_EVENTS)
    peak = events.peak[order]
    axis = _axis(scored)
    strength = scored.p_s[peak] * scored.p_q[peak]
    groups = [("events", np.ones(len(peak), dtype=bool), RED)]
    if scored.code is not None and 1 < len(scored.contexts) <= len(_SEEDS):
        groups = [
            (name, scored.code[peak] == i, _SEEDS[i])
            for i, name in enumerate(scored.regime_names)
            if (scored.code[peak] == i).any()
        ]
    symbols = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
    for number, (name, rows, colour) in enumerate(groups):
        figure.add_scatter(
            x=axis[peak[rows]],
            y=_small(strength[rows]),
            mode="markers",
            name=short_text(name),
            text=[where(scored, int(i)) for i in peak[rows]],
            hovertemplate="%{text}<br>p_s·p_q %{y:.3f}<extra></extra>",
            marker={"color": colour, "size": 7, "opacity": 0.7, "symbol": symbols[number % len(symbols)]},
            row=1,
            col=1,
        )
    places = np.linspace(0, len(scored), 81).astype(np.int64)
    by_time = np.argsort(axis, kind="stable") if (axis[1:] < axis[:-1]).any() else np.arange(len(scored))
    flagged = np.r_[0, np.cumsum(study.flags[by_time])]
    middle = by_time[np.minimum((places[:-1] + places[1:]) // 2, len(scored) - 1)]
    share = np.diff(flagged[places]) / np.maximum(np.diff(places), 1)
    figure.add_scatter(
        x=axis[middle],
        y=_small(share),
        mode="lines",
        line={"color": BLUE, "shape": "hvh", "width": 1.5},
        fill="tozeroy",
        name="share flagged",
        row=2,
        col=1,
    )
    styled(figure, "", "p_s·p_q")
    figure.update_yaxes(title_text="p_s·p_q", range=[0, 1.05], row=1, col=1)
    figure.update_yaxes(title_text="flagged", tickformat=".1%", rangemode="tozero", row=2, col=1)
    figure.update_yaxes(automargin=True, title_standoff=8)
    figure.update_xaxes(title_text="time" if scored.time is not None else scored.what[:-1], row=2, col=1)
    return figure


def where(scored: Scored, pair: int) -> str:
    """ID, time, row and regime of a pair, escaped for HTML."""
    parts = [f"row {int(scored.first[pair]):,}"]
    if scored.time is not None:
        parts.insert(0, scored.time_text(pair) or "")
    if scored.id is not None:
        parts.insert(0, short_text(str(scored.id[pair])))
    context = scored.context_of(pair)
    if context is not None:
        parts.append(short_text(context))
    return " · ".join(parts)


def beta_text(beta: float) -> str:
    """β as text."""
    return "∞" if math.isinf(beta) else f"{beta:g}"


def _chosen(study: Study) -> str:
    if study.rule.product is not None:
        return "best"
    return "the rule" if math.inf not in study.rule.thresholds else "best, not significant"


def _axis(scored: Scored) -> NDArray[Any]:
    if scored.time is None:
        return np.arange(len(scored))
    if scored.time.dtype.kind == "M":
        return scored.time.astype("datetime64[ms]")
    return scored.time


def _share_ticks(share: FloatArray, threshold: FloatArray, sep: str) -> dict[str, Any]:
    """Ticks at round shares, each with the threshold that flags it."""
    ticks = [
        t for t in (1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5) if float(share.min()) <= t <= float(share.max()) * 1.3
    ]
    ticks = ticks or [float(share[-1])]
    nearest = [float(threshold[np.argmin(np.abs(np.log(share / t)))]) for t in ticks]
    return {
        "tickvals": np.log10(ticks).tolist(),
        "tickfont": {"size": 11},
        "ticktext": [f"{100 * t:g} %{sep}≥ {p:.2g}" for t, p in zip(ticks, nearest, strict=True)],
    }


def _tick(p: float) -> str:
    exact = {1e-6: "10⁻⁶", 1e-4: "10⁻⁴", 1 - 1e-4: "1−10⁻⁴", 1 - 1e-6: "1−10⁻⁶"}
    return exact.get(p, f"{p:g}")


def _small(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, dtype=np.float32)
