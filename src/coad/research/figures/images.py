"""Figures and page of the image experiments: scores by digit, latent spaces, the simplified model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from coad._typing import ArrayLike
from coad.core.theory import MNIST_B, MNIST_W, simplified_mnist
from coad.report.page import Section, write_page
from coad.research.experiments.images import FLAGGED_ABOVE, ImageResult, beta_text

__all__ = ["latent_figure", "simplified_model_figure", "violin_figure", "write_images_page"]

#: One colour per class, distinguishable by colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
_PERPLEXITY = 30.0


def write_images_page(result: ImageResult, path: Path) -> None:
    """Write the tables and figures of an image experiment as one self-contained HTML page."""
    write_page(
        path,
        f"Coincident learning on {result.name}",
        f"Two networks, trained without labels on {result.train_pairs:,} pairs of images (preset "
        f"“{result.preset}”, {result.seconds:.0f} s). Digit 0 is normal; 1, 2 and 3 are events of growing "
        f"noise. A test image, fed to both networks, is flagged where p_s·p_q > {FLAGGED_ABOVE:g}.",
        [
            Section("Digits flagged", "", table=result.digits_table()),
            Section(
                "Scores by digit", "p_s·p_q of each test image.", violin_figure(result.scores, result.digit)
            ),
            Section(
                f"Latent spaces, β = {beta_text(result.latent_beta)}",
                "t-SNE of the input to the last layer of each network.",
                latent_figure(result.latent_s, result.latent_q, result.digit),
            ),
            Section(
                "The simplified model",
                "F̂β of three ways to label the digits, if all images of a digit were identical. "
                "Each is the best for a range of β.",
                simplified_model_figure(marks=list(result.scores)),
            ),
            Section(
                "Starts",
                "The best start is kept by F̂ on held-out pairs; no labels are used.",
                table=result.starts_table(),
            ),
        ],
        "The images are real; their pairing, and the noise of the observation model, are simulated.",
    )


def violin_figure(
    scores: Mapping[float, ArrayLike], digit: ArrayLike, *, limit: int = 400, title: str = ""
) -> go.Figure:
    """The product p_s·p_q of each digit's images, one panel per β (paper, MNIST violin plots).

    At most ``limit`` evenly spaced images per digit are drawn, so that the page stays small.

    >>> figure = violin_figure({1.0: [0.1, 0.9, 0.2, 0.8]}, [0, 1, 0, 1])
    >>> len(figure.data)
    2
    """
    classes = np.asarray(digit)
    betas = list(scores)
    figure = make_subplots(
        rows=1,
        cols=max(len(betas), 1),
        shared_yaxes=True,
        horizontal_spacing=0.03,
        subplot_titles=[f"β = {beta_text(beta)}" for beta in betas],
    )
    for column, beta in enumerate(betas, start=1):
        product = np.asarray(scores[beta], dtype=np.float64)
        for position, value in enumerate(np.unique(classes)):
            figure.add_trace(
                go.Violin(
                    y=np.round(_evenly(product[classes == value], limit), 4),
                    name=f"{value}",
                    line_color=COLOURS[position % len(COLOURS)],
                    # Confidences lie in [0, 1]; the smoothed outline must too.
                    span=[0, 1],
                    spanmode="manual",
                    scalemode="width",
                    points=False,
                    showlegend=False,
                ),
                row=1,
                col=column,
            )
        figure.add_hline(y=0.5, line_dash="dot", line_color="#666666", row=1, col=column)
        figure.update_xaxes(title_text="digit", type="category", row=1, col=column)
    figure.update_yaxes(title_text="p_s · p_q", range=[-0.03, 1.03], row=1, col=1)
    return figure.update_layout(template="plotly_white", title=title or None, height=420)


def latent_figure(
    latent_s: ArrayLike,
    latent_q: ArrayLike,
    digit: ArrayLike,
    *,
    limit: int = 1000,
    random_state: int = 0,
    title: str = "",
) -> go.Figure:
    """t-SNE of the input to the last layer of each network, coloured by digit.

    At most ``limit`` evenly spaced rows are embedded.
    """
    classes = _evenly(np.asarray(digit), limit)
    figure = make_subplots(
        rows=1, cols=2, subplot_titles=["network of s", "network of q"], horizontal_spacing=0.05
    )
    for column, latent in enumerate((latent_s, latent_q), start=1):
        place = _embed(_evenly(np.asarray(latent, dtype=np.float64), limit), random_state)
        for position, value in enumerate(np.unique(classes)):
            mine = place[classes == value]
            figure.add_trace(
                go.Scattergl(
                    x=np.round(mine[:, 0], 2),
                    y=np.round(mine[:, 1], 2),
                    mode="markers",
                    name=f"{value}",
                    legendgroup=f"{value}",
                    showlegend=column == 1,
                    marker={"size": 4, "color": COLOURS[position % len(COLOURS)]},
                ),
                row=1,
                col=column,
            )
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    return figure.update_layout(
        template="plotly_white", title=title or None, height=460, legend_title_text="digit"
    )


def simplified_model_figure(
    betas: ArrayLike | None = None,
    *,
    w: Sequence[float] = MNIST_W,
    b: Sequence[float] = MNIST_B,
    labelings: Sequence[Sequence[int]] = ((0, 1, 0, 0), (0, 1, 1, 0), (0, 1, 1, 1)),
    marks: Sequence[float] = (),
    title: str = "",
) -> go.Figure:
    """F̂β of three labelings if all images of a digit were identical (paper, simplified MNIST model).

    ``marks`` are values of β > 0 to mark with a line; ∞ is marked at the right edge.

    >>> len(simplified_model_figure().data)
    3
    """
    grid = np.geomspace(0.01, 100, 161) if betas is None else np.asarray(betas, dtype=np.float64)
    figure = go.Figure()
    for labels, colour in zip(labelings, COLOURS[1:], strict=False):
        figure.add_trace(
            go.Scatter(
                x=grid,
                y=[simplified_mnist(labels, beta=float(beta), w=w, b=b) for beta in grid],
                mode="lines",
                name=str(list(labels)),
                line={"color": colour},
            )
        )
    for beta in (mark for mark in marks if mark > 0):
        x = float(grid[-1]) if math.isinf(beta) else beta
        figure.add_vline(x=x, line_dash="dot", line_color="#666666")
        # On a logarithmic axis plotly places a line by its value, but an annotation by its logarithm.
        figure.add_annotation(
            x=math.log10(x),
            y=1,
            yref="paper",
            yanchor="bottom",
            showarrow=False,
            text=f"β = {beta_text(beta)}",
        )
    figure.update_xaxes(type="log", title_text="β").update_yaxes(title_text="F̂β", rangemode="tozero")
    return figure.update_layout(
        template="plotly_white",
        title=title or None,
        height=420,
        legend_title_text="flagged digits [0, 1, 2, 3]",
    )


def _evenly(values: NDArray[Any], limit: int) -> NDArray[Any]:
    """At most ``limit`` evenly spaced rows, in order."""
    if len(values) <= limit:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, limit).round().astype(np.int64)])


def _embed(latent: NDArray[Any], random_state: int) -> NDArray[np.float64]:
    """Two coordinates per row by t-SNE; zeros for fewer than four rows or constant ones."""
    n = len(latent)
    spread = np.asarray(latent, dtype=np.float64)
    if n < 4 or not np.ptp(spread, axis=0).any():
        return np.zeros((n, 2))
    from sklearn.manifold import TSNE  # slow to import, needed only here

    # Latent units that are constant are dropped; the others are scaled to unit deviation.
    live = spread[:, np.ptp(spread, axis=0) > 0]
    scaled = live / live.std(axis=0)
    model = TSNE(perplexity=min(_PERPLEXITY, (n - 1) / 3), init="random", random_state=random_state, n_jobs=1)
    return np.asarray(model.fit_transform(scaled), dtype=np.float64)
