"""Findings on labelled tables: F1 by default and after a few looks, beside peers with as many labels. Needs COAD_DATA."""

from __future__ import annotations

from benchmarks._results import record, table
from coad.research.experiments.tables import (
    COLUMNS,
    LEGEND,
    TableResult,
    cells,
    in_words,
    mean_values,
    run_tables,
)

RANDOM_STATES = (0, 1, 2)


def run() -> None:
    """Every table of ``COAD_DATA/tables`` with three random states; the section holds the means over them."""
    results = [result for seed in RANDOM_STATES for result in run_tables(random_state=seed, progress=print)]
    record("findings", "Findings after a few looks: labelled tables", body(results))
    if any(result.error for result in results):
        raise SystemExit("some tables failed; their lines say why")


def body(results: list[TableResult]) -> str:
    """The text of the section."""
    names = list(dict.fromkeys(result.name for result in results))
    good = {name: [one for one in results if one.name == name and not one.error] for name in names}
    lines = [(name, *cells(mean_values(own))) for name, own in good.items() if own]
    every = [one for own in good.values() for one in own]
    lines.append(("**mean**", *cells(mean_values(every))))
    failed = [
        f"{one.name}, random_state {one.random_state}, failed: {one.error}." for one in results if one.error
    ]
    settings = (
        f"Default settings, random_state {', '.join(map(str, RANDOM_STATES))}: each line is the mean over these, and "
        "looks are the mean over those in which a finding is mostly the event. A quarter of the rows is held out, "
        "whole groups where there are groups. "
    )
    return "\n\n".join([table(("data", *COLUMNS), lines), *failed, in_words(results), settings + LEGEND])
