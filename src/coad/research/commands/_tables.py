"""``coad bench --data tables``: run, print and write what a few looks at findings are worth."""

from __future__ import annotations

from pathlib import Path

import typer

from coad.cli._print import out, table
from coad.research.commands._peers import print_now


def bench_tables(folder: Path | None, seed: int, output: Path) -> None:
    """Measure every table, print a line each and the means, and write the page; exit with 1 if a table failed."""
    from coad.report.page import Section, write_page
    from coad.research.experiments.tables import COLUMNS, LEGEND, cells, in_words, mean_values, run_tables

    results = run_tables(folder, random_state=seed, progress=print_now)
    good = [result for result in results if not result.error]
    failed = [f"{result.name} failed: {result.error}" for result in results if result.error]
    lines = [(result.name, *cells(result.values())) for result in good]
    if good:
        lines.append(("mean", *cells(mean_values(good))))
    table(("data", *COLUMNS), lines)
    for line in (*failed, in_words(results), LEGEND):
        out(line)
    write_page(
        output,
        "Findings after a few looks",
        in_words(results),
        [Section("Tables", " ".join(failed), table=(("data", *COLUMNS), lines))],
        LEGEND,
        tone="doubt" if failed else "good",
    )
    out(f"Table: {output}")
    if failed:
        raise typer.Exit(1)
