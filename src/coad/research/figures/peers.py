"""Figure and page of a method comparison: F1 of each method with and without labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coad.report.figures import BLUE, GREY, ORANGE
from coad.report.page import Section, write_page
from coad.research.experiments.peer_table import cells, head_of, paper_table

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from coad.research.experiments.peer_results import Line, PeersRun

__all__ = ["peers_figure", "write_peers_page"]

_MARKS = (
    ("best", "best threshold (needs labels)", GREY, "line-ns-open"),
    ("own", "the method's own threshold", ORANGE, "diamond"),
    ("ours", "coincidence threshold, no labels", BLUE, "circle"),
)


def peers_figure(lines: Sequence[Line]) -> go.Figure:
    """F1 of each method on one data set at its own, our and the best threshold; bars: standard deviation."""
    import plotly.graph_objects as go

    figure = go.Figure()
    ranked = sorted(lines, key=lambda line: line.best[0] if line.best else -1.0)
    for field, name, colour, symbol in _MARKS:
        known = [(line, value) for line in ranked if (value := getattr(line, field)) is not None]
        figure.add_scatter(
            x=[value[0] for _, value in known],
            y=[_name(line) for line, _ in known],
            error_x={"type": "data", "array": [value[1] for _, value in known], "thickness": 1},
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 11, "line": {"width": 2, "color": colour}},
        )
    figure.update_xaxes(title_text="F1 on test rows", range=[0, 1.02])
    names = [_name(line) for line in ranked]
    figure.update_yaxes(categoryorder="array", categoryarray=names, tickvals=names)
    return figure.update_layout(
        template="plotly_white",
        height=130 + 32 * max(len(ranked), 3),
        margin={"t": 60, "b": 50},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02},
    )


def write_peers_page(
    run: PeersRun,
    path: Path,
    title: str,
    verdict: str,
    note: str,
    sections: Sequence[Any] = (),
    *,
    paper: dict[str, float] | None = None,
    difference: str = "",
) -> None:
    """Write a comparison as one HTML page, with a figure and a table for each data set.

    Parameters
    ----------
    run
        The results.
    path
        The HTML file.
    title, verdict, note
        Texts at the top and at the end of the page.
    sections
        Sections to put first.
    paper
        The paper's F1 by method, shown as an extra column.
    difference
        How the paper's data differ from these.
    """
    parts: list[Any] = list(sections)
    lines = run.lines()
    for data in dict.fromkeys(line.data for line in lines):
        own = [line for line in lines if line.data == data]
        judged = any(line.best is not None for line in own)
        source = run.sources.get(data, "")
        text = f"{source[:1].upper()}{source[1:]}. {_over(max(x.splits for x in own))}"
        parts.append(
            Section(
                data if paper is None else "Our results and the paper's",
                f"{text} {difference}".strip(),
                peers_figure(own) if judged else None,
                (head_of(own), [cells(line) for line in own]) if paper is None else paper_table(own, paper),
            )
        )
    write_page(path, title, verdict, parts, note)


def _name(line: Line) -> str:
    return f"{line.title} *" if line.labels else line.title


def _over(splits: int) -> str:
    return "One split." if splits == 1 else f"Mean and standard deviation over {splits} splits."
