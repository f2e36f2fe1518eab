"""One self-contained HTML page: a verdict, sections with text, tables and figures, a note. It opens offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coad.data.atomic import written_whole
from coad.exceptions import CoadError
from coad.report.page_assets import COMMON_STYLE, FIGURE_SCRIPT, PAGE_STYLE

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Section", "figure_json", "html_table", "plotly_script", "write_page"]

Rows = Sequence[Sequence[str]]


class Section(NamedTuple):
    """A part of a page.

    Parameters
    ----------
    heading, text : str
        The heading, and a sentence that says what to look for.
    figure : plotly Figure, optional
        Drawn last.
    table : (head, rows), optional
        Drawn before the figure.
    html : str
        Raw HTML between text and table; whoever makes it escapes what it holds.
    after : str
        A remark in small type.
    anchor : str
        The target of a link in the contents; sections without one are not listed there.
    """

    heading: str
    text: str = ""
    figure: go.Figure | None = None
    table: tuple[Sequence[str], Rows] | None = None
    html: str = ""
    after: str = ""
    anchor: str = ""


def write_page(
    path: Path,
    title: str,
    verdict: str,
    sections: Sequence[Section | tuple[Any, ...]],
    note: str,
    *,
    tone: str = "good",
) -> None:
    """Write the page to ``path``; all text is escaped.

    Parameters
    ----------
    path : Path
        The file, replaced as a whole.
    title, verdict, note : str
        The heading, the answer in a sentence, and a footnote.
    sections : sequence of Section
        What the page holds.
    tone : {"good", "doubt", "none"}
        The colour of the bar beside the verdict.
    """
    parts = [Section(*section) for section in sections]
    drawn = any(one.figure is not None for one in parts)
    scripts = f"<script>{plotly_script()}</script><script>{FIGURE_SCRIPT}</script>" if drawn else ""
    links = [f"<a href='#{escape(one.anchor)}'>{escape(one.heading)}</a>" for one in parts if one.anchor]
    numbers = count(1)
    text = "\n".join(
        [
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            "<meta name='color-scheme' content='light dark'>",
            f"<title>{escape(title)}</title><style>{COMMON_STYLE}{PAGE_STYLE}</style></head><body>",
            "<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>" if drawn else "",
            f"<header><h1>{escape(title)}</h1><p class='verdict {escape(tone)}'>{escape(verdict)}</p>",
            *(["<nav>", *links, "</nav>"] if links else []),
            "</header><main>",
            *(_section_html(section, numbers) for section in parts),
            f"</main><p class='note'>{escape(note)}</p>",
            f"{scripts}</body></html>",
        ]
    )
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _section_html(section: Section, numbers: count[int]) -> str:
    parts = [f"<section id='{escape(section.anchor)}'>" if section.anchor else "<section>"]
    parts.append(f"<h2>{escape(section.heading)}</h2>")
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    parts.append(section.html)
    if section.table is not None:
        parts.append(html_table(*section.table))
    if section.figure is not None:
        name = f"figure-{next(numbers)}"
        parts.append(
            f"<div class='figure' id='{name}'></div>"
            f"<script type='application/json' data-figure='{name}'>{figure_json(section.figure)}</script>"
        )
    if section.after:
        parts.append(f"<p class='aside'>{escape(section.after)}</p>")
    return "\n".join([*parts, "</section>"])


def plotly_script() -> str:
    """The source of plotly.js, so that a page opens offline."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise CoadError("the pictures need plotly: pip install 'coad[plot]'") from None
    script: str = get_plotlyjs()
    return script


def figure_json(figure: go.Figure) -> str:
    """A figure as JSON that is safe inside a script element.

    >>> import plotly.graph_objects as go
    >>> "</script>" in figure_json(go.Figure().add_scatter(name="</script>"))
    False
    """
    text: str = figure.to_json()
    return safe_json_text(text)


def safe_json_text(text: str) -> str:
    """JSON text that cannot end the script element around it."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    json.loads(text)
    return text


def html_table(head: Sequence[str], rows: Rows, *, left: bool = False) -> str:
    """A table as HTML that scrolls sideways on narrow screens; ``left`` aligns all columns to the left."""
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    head_html = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    kind = " class='left'" if left else ""
    return f"<div class='wide'><table{kind}>{head_html}<tbody>{''.join(lines)}</tbody></table></div>"
