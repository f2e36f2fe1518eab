"""Shared by ``coad bench`` and ``coad reproduce``: run a method comparison, print it and write its page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from coad.cli._print import out, table

if TYPE_CHECKING:
    from coad.report.page import Section
    from coad.research.experiments.peer_data import BenchData
    from coad.research.experiments.peer_results import PeersRun


def compare(
    data: Sequence[BenchData], methods: Sequence[str], splits: int, *, quick: bool, seed: int, output: Path
) -> PeersRun:
    """Run the methods, saving results as Parquet beside ``output`` after every fit."""
    from coad.research.experiments.peers import run_peers

    return run_peers(
        data,
        methods,
        splits=splits,
        quick=quick,
        random_state=seed,
        store=output.with_suffix(".parquet"),
        progress=print_now,
    )


def show_comparison(run: PeersRun, output: Path) -> None:
    """Print the table of each data set, and write the page and the Markdown file."""
    from coad.data.atomic import written_whole
    from coad.research.experiments.peer_table import cells, head_of, legend_of, to_markdown, verdict
    from coad.research.figures.peers import write_peers_page

    lines = run.lines()
    for data in dict.fromkeys(line.data for line in lines):
        own = [line for line in lines if line.data == data]
        out(f"{data}: {run.sources[data]}")
        table(head_of(own), [cells(line) for line in own])
        for line in own:
            if line.note:
                out(f"{line.title}: {line.note}")
            if line.error:
                out(f"{line.title} failed: {line.error}")
    out(legend_of(lines))
    out(verdict(run))
    with written_whole(output.with_suffix(".md")) as draft:
        draft.write_text(to_markdown(lines), encoding="utf-8")
    write_peers_page(run, output, "Comparison of methods", verdict(run), legend_of(lines))
    out(f"Figures: {output}; table: {output.with_suffix('.md')}; results: {output.with_suffix('.parquet')}")


def show_paper_table(
    run: PeersRun,
    paper: dict[str, float],
    difference: str,
    output: Path,
    title: str,
    sections: Sequence[Section] = (),
) -> None:
    """Print the table with the paper's F1 in an extra column, and write the page.

    ``difference`` states how the paper's data differ; ``sections`` are put first on the page.
    """
    from coad.research.experiments.peer_table import LEGEND, paper_table, verdict
    from coad.research.figures.peers import write_peers_page

    lines = run.lines()
    table(*paper_table(lines, paper))
    for line in lines:
        if line.error:
            out(f"{line.title} failed: {line.error}")
    out(verdict(run))
    out(difference)
    write_peers_page(run, output, title, verdict(run), LEGEND, sections, paper=paper, difference=difference)
    out(f"Figures: {output}; results: {output.with_suffix('.parquet')}")


def fail_on_errors(run: PeersRun) -> None:
    """Exit with code 1 if a fit failed."""
    if run.errors:
        raise typer.Exit(1)


def names_in(text: str) -> list[str]:
    """Split a comma-separated list of names.

    >>> names_in("coad, lof,")
    ['coad', 'lof']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def print_now(line: str) -> None:
    """Print a line of progress and flush it, so that a log file of a long run is up to date."""
    out(line)
    sys.stdout.flush()
