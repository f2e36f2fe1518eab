"""The figures of a catalogue of modes: sizes, exemplars of both inputs, rows in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.report.figures import BLUE, GREY, ORANGE, RED, short_text, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.modes.catalogue import Mode, ModeTable

__all__ = ["exemplars_figure", "sizes_figure", "time_figure"]

_COLOUR = {"rare": RED, "regime": BLUE, "ignore": GREY}
#: Exemplars and features drawn for each mode: what fits one figure.
_SHOWN, _MAX_FEATURES = 4, 12
#: Columns that a line of pictures is divided into: for 1, 2, 3 or 4 of them.
_GRID = 12
#: Letters of a name beside a bar, so that the bars have room on a phone too.
_LONGEST_NAME = 26


def sizes_figure(table: ModeTable) -> go.Figure:
    """The size of each mode on a logarithmic scale, which shows the gap between rare modes and regimes."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for role, colour in _COLOUR.items():
        own = [mode for mode in table if mode.role == role]
        if own:
            figure.add_bar(
                x=[f"mode {mode.mode}" for mode in own],
                y=[mode.size for mode in own],
                name=role,
                marker_color=colour,
                hovertext=[f"P̂ {mode.precision_hat:.2f}, stability {mode.stability:.2f}" for mode in own],
            )
    styled(figure, "", "fraction of the rows").update_layout(height=320)
    marks = [mark * 10.0**-decade for decade in range(6, 0, -1) for mark in (1, 2, 5)] + [1.0]
    figure.update_yaxes(type="log", tickvals=marks, tickformat="~%")
    figure.update_xaxes(categoryorder="array", categoryarray=[f"mode {mode.mode}" for mode in table])
    return figure.update_layout(showlegend=True)


def time_figure(table: ModeTable, labels: IntArray, time: NDArray[Any] | None) -> go.Figure:
    """The rows of each mode over time; regimes are thinned."""
    import plotly.graph_objects as go

    figure = go.Figure()
    when = np.arange(len(labels)) if time is None else time
    step = max(1, len(labels) // 20_000)
    for mode in table:
        rows = np.flatnonzero(labels == mode.mode)
        rows = rows if mode.role == "rare" else rows[::step]
        figure.add_scattergl(
            x=when[rows],
            y=[f"mode {mode.mode}"] * len(rows),
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 10, "color": _COLOUR[mode.role]},
            name=f"mode {mode.mode}",
            showlegend=False,
        )
    styled(figure, "row" if time is None else "time", "")
    names = [f"mode {mode.mode}" for mode in table]
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], tickvals=names)
    return figure.update_layout(height=110 + 26 * len(table))


def exemplars_figure(
    mode: Mode, s: NDArray[Any], q: NDArray[Any], names: tuple[Sequence[str], Sequence[str]]
) -> go.Figure:
    """The exemplars of a mode against the median of all rows: s, and q below it, so that long names have room."""
    from plotly.subplots import make_subplots

    rows = np.array(mode.exemplars[:_SHOWN], dtype=np.int64)
    places = [_places(x, len(rows)) for x in (s, q)]
    specs: list[list[Any]] = [[None] * _GRID, [None] * _GRID]
    for cells, (starts, width, _) in zip(specs, places, strict=True):
        for start in starts:
            cells[start - 1] = {"colspan": width}
    heights = [height for *_, height in places]
    titles = [
        title
        for side, (starts, _, _) in zip("sq", places, strict=True)
        for title in (side, *[""] * (len(starts) - 1))
    ]
    figure = make_subplots(
        *(2, _GRID),
        specs=specs,
        subplot_titles=titles,
        row_heights=heights,
        horizontal_spacing=0.01,
        vertical_spacing=90 / (sum(heights) + 90),
    )
    for line, (x, own) in enumerate(zip((s, q), names, strict=True), start=1):
        starts = places[line - 1][0]
        if x.ndim == 4:
            for row, start in zip(rows, starts, strict=True):
                figure.add_heatmap(
                    z=x[row, 0][::-1], colorscale="Greys", showscale=False, row=line, col=start
                )
                figure.update_xaxes(visible=False, row=line, col=start)
                figure.update_yaxes(visible=False, row=line, col=start)
        elif x.ndim == 3:
            _waves(figure, x, rows, {"row": line, "col": starts[0]})
            _powers(figure, x, rows, {"row": line, "col": starts[1]})
        else:
            _features(figure, x, rows, own, {"row": line, "col": 1})
    return figure.update_layout(
        template="none",
        height=sum(heights) + 170,
        showlegend=False,
        margin={"l": 60, "r": 12, "t": 40, "b": 40},
    )


def _places(x: NDArray[Any], n_rows: int) -> tuple[list[int], int, int]:
    """The columns of the grid where the pictures of an input begin, their width in columns, and their height."""
    if x.ndim == 4:
        width = _GRID // n_rows
        return [1 + i * width for i in range(n_rows)], width, 140
    if x.ndim == 3:
        return [1, 8], 5, 190
    return [1], _GRID, 20 + 22 * min(_MAX_FEATURES, x.shape[1])


def _waves(figure: go.Figure, x: NDArray[Any], rows: IntArray, place: dict[str, int]) -> None:
    median = np.median(x[:: max(1, len(x) // 2000), 0], axis=0)
    figure.add_scatter(y=median, line={"color": GREY, "width": 3}, name="median", **place)
    for row in rows:
        figure.add_scatter(y=x[row, 0], line={"color": ORANGE, "width": 1}, name=f"row {row}", **place)


def _powers(figure: go.Figure, x: NDArray[Any], rows: IntArray, place: dict[str, int]) -> None:
    """The median power spectrum of all windows and of the exemplars, which does not depend on phase or place."""
    points = x.shape[2]
    for some, colour, width in ((slice(None, None, max(1, len(x) // 2000)), GREY, 3), (rows, ORANGE, 2)):
        away = x[some, 0] - x[some, 0].mean(axis=1, keepdims=True)
        power = np.square(np.abs(np.fft.rfft(away * np.hanning(points + 2)[1:-1], axis=1)))[:, 1:] / points
        figure.add_scatter(
            x=np.arange(1, power.shape[1] + 1),
            y=np.median(power, axis=0),
            line={"color": colour, "width": width},
            **place,
        )
    figure.update_xaxes(title={"text": "cycles per window", "standoff": 6, "font": {"size": 12}}, **place)
    figure.update_yaxes(type="log", dtick=1, title_text="power", exponentformat="power", **place)


def _features(
    figure: go.Figure, x: NDArray[Any], rows: IntArray, names: Sequence[str], place: dict[str, int]
) -> None:
    """Mean deviation from the median row, in standard deviations of each feature; the largest first."""
    some = x[:: max(1, len(x) // 5000)]
    median, width = np.median(some, axis=0), some.std(axis=0)
    deviation = (x[rows] - median) / np.where(width > 0, width, 1.0)
    largest = np.argsort(-np.abs(deviation.mean(axis=0)))[:_MAX_FEATURES][::-1]
    label = [names[i] if len(names) > i else f"column {i}" for i in largest]
    figure.add_bar(
        x=deviation[:, largest].mean(axis=0),
        orientation="h",
        marker_color=ORANGE,
        hovertext=[short_text(one) for one in label],
        **place,
    )
    title = {"text": "standard deviations from the median", "standoff": 6, "font": {"size": 12}}
    figure.update_xaxes(title=title, **place)
    # Names are shortened, and two may then be equal: the bars are at numbers.
    ticks = [short_text(one, _LONGEST_NAME) for one in label]
    figure.update_yaxes(tickvals=list(range(len(label))), ticktext=ticks, automargin=True, **place)
