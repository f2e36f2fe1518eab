"""One self-contained HTML page: a verdict, sections with a sentence, a table or a picture, a footnote."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coad.data.atomic import written_whole
from coad.report.model_page import html_table, plotly_script

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Section(NamedTuple):
    """A heading, a sentence that says what to look for, and a picture or a table (head, rows) or both."""

    heading: str
    text: str
    figure: go.Figure | None = None
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None


_STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.verdict { font-size: 1.1rem; border-left: 4px solid #0072B2; padding-left: 1rem; }
.note { color: #555; font-size: .9rem; margin-top: 3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
td:not(:first-child) { white-space: nowrap; }
"""


def write_page(
    path: Path,
    title: str,
    verdict: str,
    sections: Sequence[Section | tuple[Any, ...]],
    note: str,
) -> None:
    """Write the page; it opens offline, since plotly's script is inside. All text is escaped."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<script>{plotly_script()}</script></head><body>",
        f"<h1>{escape(title)}</h1><p class='verdict'>{escape(verdict)}</p>",
    ]
    parts += [_html(Section(*section)) for section in sections]
    parts.append(f"<p class='note'>{escape(note)}</p></body></html>")
    with written_whole(path) as draft:
        draft.write_text("\n".join(parts), encoding="utf-8")


def _html(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.table is not None:
        parts.append(html_table(*section.table))
    if section.figure is not None:
        config = {"displaylogo": False, "responsive": True}
        parts.append(section.figure.to_html(full_html=False, include_plotlyjs=False, config=config))
    return "\n".join(parts)
