"""Printing lines, tables and numbers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def out(text: str = "") -> None:
    """Print one line to standard output."""
    sys.stdout.write(text + "\n")


def out_json(value: Any) -> None:
    """Print a value as JSON to standard output."""
    out(json.dumps(value, indent=2, ensure_ascii=False))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table: the first column left-aligned, the others right-aligned.

    Nothing is cut in a pipe or a file. On a narrow terminal the first column is wrapped.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, title=title and Text(title), title_justify="left", pad_edge=False)
    body = [[Text(cell) for cell in row] for row in rows]  # not markup: a column may be called "power [dBm]"
    for position, header in enumerate(headers):
        if position == 0:
            longest = max((row[0].cell_len for row in body), default=0)
            grid.add_column(Text(header), overflow="fold", min_width=min(longest, 12))
        else:
            grid.add_column(Text(header), justify="right", no_wrap=True)
    for row in body:
        grid.add_row(*row)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(
            console.width, console.measure(grid, options=console.options.update(width=10_000)).maximum
        )
    console.print(grid)


def number(value: float | None, digits: int = 3) -> str:
    """Format a number; ``–`` for None."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{digits}g}" if abs(value) < 1e-3 and value != 0 else f"{value:.{digits}f}"


def percent(value: float) -> str:
    """Format a share in percent."""
    return f"{value:.1%}" if value < 0.9995 else f"{value:.0%}"


def span(interval: tuple[float, float] | None, *, as_percent: bool = False) -> str:
    """Format an interval; empty for None."""
    if interval is None:
        return ""
    show = percent if as_percent else number
    return f"{show(interval[0])} to {show(interval[1])}"
