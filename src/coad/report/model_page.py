"""A report as one HTML file: sections, figures that follow day, night and paper, nothing from the network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from coad.data.atomic import written_whole
from coad.exceptions import CoadError

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "COMMON_STYLE",
    "FIGURE_SCRIPT",
    "Part",
    "figure_json",
    "html_table",
    "plotly_script",
    "write_report_page",
]

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A section: a heading, a sentence that says what to look for, figures, a table (head, rows), raw HTML.

    ``html`` goes into the page as it is: whoever makes it escapes what it holds.
    """

    anchor: str
    heading: str
    text: str = ""
    figures: Sequence[go.Figure] = ()
    table: tuple[Sequence[str], Rows] | None = None
    html: str = ""
    after: str = field(default="")


def write_report_page(
    path: Path, title: str, verdict: str, tone: str, parts: Sequence[Part], note: str
) -> None:
    """Write the page; ``tone`` is "good", "doubt" or "none" and says how the verdict is framed."""
    number = 0
    body = [
        f"<header><h1>{escape(title)}</h1><p class='verdict {escape(tone)}'>{escape(verdict)}</p>",
        "<nav>",
        *(f"<a href='#{escape(part.anchor)}'>{escape(part.heading)}</a>" for part in parts),
        "</nav></header><main>",
    ]
    for part in parts:
        body.append(f"<section id='{escape(part.anchor)}'><h2>{escape(part.heading)}</h2>")
        if part.text:
            body.append(f"<p>{escape(part.text)}</p>")
        body.append(part.html)
        if part.table is not None:
            body.append(html_table(*part.table))
        for figure in part.figures:
            number += 1
            body.append(
                f"<div class='figure' id='figure-{number}'></div>"
                f"<script type='application/json' data-figure='figure-{number}'>{figure_json(figure)}</script>"
            )
        if part.after:
            body.append(f"<p class='aside'>{escape(part.after)}</p>")
        body.append("</section>")
    body.append(f"</main><p class='note'>{escape(note)}</p>")
    text = "\n".join(
        [
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            "<meta name='color-scheme' content='light dark'>",
            f"<title>{escape(title)}</title><style>{COMMON_STYLE}{_STYLE}</style></head><body>",
            "<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>",
            *body,
            f"<script>{plotly_script()}</script><script>{FIGURE_SCRIPT}</script></body></html>",
        ]
    )
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def plotly_script() -> str:
    """Plotly itself, to stand inside a page that opens offline."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise CoadError("the pictures need plotly: pip install 'coad[plot]'") from None
    script: str = get_plotlyjs()
    return script


def figure_json(figure: go.Figure) -> str:
    """A figure as JSON that may stand inside a script element: no ``<`` is left in it.

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


def html_table(head: Sequence[str], rows: Rows) -> str:
    """A table that scrolls sideways where the screen is narrow."""
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    head_html = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    return f"<div class='wide'><table>{head_html}<tbody>{''.join(lines)}</tbody></table></div>"


#: Colours of day and night, tables, and the small drawings: for the report and the explorer.
COMMON_STYLE = """
:root { --ink: #1d2126; --soft: #5b6470; --paper: #ffffff; --card: #f5f7f9; --line: #d5dae0;
  --blue: #0072B2; --orange: #b26e00; --red: #D55E00; --green: #00795a; --band: #b9c4cf; color-scheme: light; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --soft: #a3adb8; --paper: #14171b;
  --card: #1e2329; --line: #39424c; --blue: #56B4E9; --orange: #E69F00; --red: #ff8a4c; --green: #2fc79b;
  --band: #4a5663; color-scheme: dark; } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --card: #fff; --line: #bbb; --blue: #0072B2;
  --orange: #b26e00; --red: #D55E00; --green: #00795a; --band: #ccc; color-scheme: light; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .6rem; } h2 { font-size: 1.15rem; margin: 0 0 .4rem; }
p { margin: .3rem 0 .7rem; } .aside, .note { color: var(--soft); font-size: .88rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; font-size: .94rem; }
th, td { padding: .28rem .8rem .28rem 0; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
.left td, .left th { text-align: left; }
.verdict { font-size: 1.12rem; border-left: 5px solid var(--blue); padding: .2rem 0 .2rem .9rem; margin: 0 0 1rem; }
.verdict.doubt { border-color: var(--orange); } .verdict.none { border-color: var(--soft); }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 290px), 1fr)); gap: .8rem; }
.event { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .7rem;
  break-inside: avoid; min-width: 0; }
.event h3 { font-size: .92rem; margin: 0 0 .1rem; overflow-wrap: anywhere; }
.event .facts { font-size: .82rem; color: var(--soft); margin: 0 0 .3rem; overflow-wrap: anywhere; }
.event .side { font-size: .76rem; color: var(--soft); margin: .25rem 0 0; }
.sides.beside { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
svg.shape { width: 100%; height: auto; display: block; } svg.shape text { font-size: 10.5px; fill: var(--soft); }
svg.shape .line { fill: none; stroke: var(--blue); stroke-width: 1.4; }
svg.shape .usual { fill: var(--band); opacity: .55; } svg.shape .bar { fill: var(--blue); }
svg.shape .axis { stroke: var(--soft); stroke-width: 1; } svg.shape image { image-rendering: pixelated; }
"""

_STYLE = """
body { max-width: 1120px; margin: 0 auto; padding: 1.4rem 1rem 3rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem .9rem; font-size: .88rem; margin-bottom: .6rem; }
nav a { color: var(--blue); text-decoration: none; } nav a:hover { text-decoration: underline; }
section { margin: 1.9rem 0 0; padding-top: .8rem; border-top: 1px solid var(--line); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .7rem; }
.numbers div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .7rem; }
.numbers b { display: block; font-size: 1.35rem; line-height: 1.3; } .numbers span { font-size: .82rem; color: var(--soft); }
.figure { width: 100%; min-height: 430px; } pre { overflow-x: auto; background: var(--card); padding: .7rem;
  border: 1px solid var(--line); border-radius: 8px; font-size: .84rem; white-space: pre-wrap; overflow-wrap: anywhere; }
td { overflow-wrap: break-word; } .left td, td:first-child { overflow-wrap: anywhere; min-width: 5.5rem; }
@media print { nav { display: none; } body { font-size: 12px; } section { break-inside: avoid-page; }
  #events, #disagreements { break-inside: auto; } }
"""

#: Draws every figure of the page in the colours of day or night, and in those of day on paper.
FIGURE_SCRIPT = """
(() => {
  const night = window.matchMedia('(prefers-color-scheme: dark)');
  const colours = (dark) => {
    const [ink, line] = dark ? ['#e7eaee', '#39424c'] : ['#1d2126', '#dfe3e8'];
    return { ink, line };
  };
  // On a phone every second of many ticks, the last one kept.
  const thinned = (axis, width) => {
    const texts = axis.ticktext || [];
    const longest = (text) => Math.max(...text.split('<br>').map((line) => line.length));
    if (texts.length < 4 || 7 * texts.reduce((sum, text) => sum + longest(text), 0) < 0.5 * width) return axis;
    const kept = (_, i) => (texts.length - 1 - i) % 2 === 0;
    return { ...axis, ticktext: texts.filter(kept), tickvals: axis.tickvals.filter(kept) };
  };
  const themed = (layout, dark, width) => {
    const { ink, line } = colours(dark);
    const full = { ...layout, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)' };
    full.font = { ...(layout.font || {}), color: ink, family: 'system-ui, sans-serif' };
    for (const name of Object.keys(full).filter((key) => /^[xy]axis\\d*$/.test(key))) {
      const axis = name[0] === 'x' ? thinned(full[name], width) : full[name];
      full[name] = { ...axis, gridcolor: line, linecolor: line, zeroline: false, tickcolor: line };
    }
    return full;
  };
  const drawn = [];
  const draw = (one, dark) => Plotly.react(one.place, one.data, themed(one.layout, dark, one.place.clientWidth),
    { displaylogo: false, responsive: true, displayModeBar: 'hover' });
  for (const source of document.querySelectorAll('script[data-figure]')) {
    const { data, layout } = JSON.parse(source.textContent);
    const one = { place: document.getElementById(source.dataset.figure), data, layout };
    one.place.style.minHeight = (layout.height || 430) + 'px';
    drawn.push(one);
    draw(one, night.matches);
  }
  const all = (dark) => drawn.forEach((one) => draw(one, dark));
  night.addEventListener('change', () => all(night.matches));
  window.addEventListener('beforeprint', () => all(false));
  window.addEventListener('afterprint', () => all(night.matches));
  document.documentElement.dataset.drawn = String(drawn.length);
})();
"""
