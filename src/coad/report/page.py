"""One self-contained HTML page: a verdict, pictures with a sentence each, a footnote."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from coad._files import written_whole
from coad.exceptions import CoadError

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: A heading, a sentence that says what to look for, and the picture.
Section = tuple[str, str, "go.Figure"]

_STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.verdict { font-size: 1.1rem; border-left: 4px solid #0072B2; padding-left: 1rem; }
.note { color: #555; font-size: .9rem; margin-top: 3rem; }
"""


def write_page(path: Path, title: str, verdict: str, sections: Sequence[Section], note: str) -> None:
    """Write the page; it opens offline, since plotly's script is inside."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise CoadError("the pictures need plotly: pip install 'coad[plot]'") from None
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<script>{get_plotlyjs()}</script></head><body>",
        f"<h1>{escape(title)}</h1><p class='verdict'>{escape(verdict)}</p>",
    ]
    for heading, sentence, figure in sections:
        picture = figure.to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        parts.append(f"<h2>{escape(heading)}</h2><p>{escape(sentence)}</p>{picture}")
    parts.append(f"<p class='note'>{escape(note)}</p></body></html>")
    with written_whole(path) as draft:
        draft.write_text("\n".join(parts), encoding="utf-8")
