"""``--each`` of ``coad find`` and ``coad fit``: a model for each of many sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._inputs import InputOptions
from coad.cli._print import number, out, percent, table
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.workflows.fitting import Training

EachOption = Annotated[
    str | None,
    typer.Option(
        help="A model for each source: a column; 'folder': each subfolder; 'list': each line of a text file."
    ),
]
ProcessesOption = Annotated[
    int | None, typer.Option(min=1, help="With --each: processes at once; default: one per processor.")
]

#: Sources that are printed; the table and the page have all of them.
_PRINTED = 20


def without_each(cluster: str | None, processes: int | None) -> None:
    """Refuse options that ask for many sources where there is one."""
    if cluster is not None or processes is not None:
        raise InputError("--cluster and --processes spread many sources over workers; say which by --each")


def run_each(
    each: str,
    inputs: InputOptions,
    training: Training,
    *,
    lenses: tuple[str, ...] = (),
    scorers: tuple[str, ...] = (),
    max_rare: float = 0.1,
    cluster: str | None,
    processes: int | None,
) -> None:
    """Train a model for each source, and print the worst of them and those that failed."""
    from coad.cli._progress import progress
    from coad.scale.each import TABLE, Job, fit_each
    from coad.scale.page import write_sources_page
    from coad.scale.split import first_files
    from coad.workflows.scoring import Source

    source = Source(inputs.file, inputs.s_file, inputs.q_file)
    source.check()
    shown = first_files(each, source)
    file, s_file, q_file = (
        None if one is None else Path(str(one)) for one in (shown.files, shown.s, shown.q)
    )
    _, layout, clocks = replace(inputs, file=file, s_file=s_file, q_file=q_file).resolve(check=False)
    job = Job(layout.without_label(), replace(training, verbose=False), clocks, lenses, scorers, max_rare)
    with progress("sources") as advance:
        done = fit_each(
            each, source, inputs.output, job, cluster=cluster, processes=processes, progress=advance
        )
    page: Path = inputs.output / "index.html"
    write_sources_page(page, done.results, done.errors)
    out(
        f"{len(done.results):,} sources, {done.n_done:,} done now, {len(done.results) - done.n_done:,} were there"
    )
    fitted = [one for one in done.results if not one["error"]]
    table(
        ("source", "status", "rows", "flagged", "F̂", "p", "p (Holm)"),
        [
            (
                one["source"],
                one["status"],
                f"{one['rows']:,}",
                percent(one["flagged"] / max(one["rows"], 1)),
                number(one["fbeta_hat"]),
                *("" if one[name] is None else number(one[name]) for name in ("p", "p_holm")),
            )
            for one in fitted[:_PRINTED]
        ],
    )
    if len(fitted) > _PRINTED:
        out(f"and {len(fitted) - _PRINTED:,} more, see the page")
    for one in done.errors:
        out(f"no model of {one['source']}: {one['error']}")
    out(f"models, {TABLE} and page: {page}")
    if done.errors:
        raise typer.Exit(1)
