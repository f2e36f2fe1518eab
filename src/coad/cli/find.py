"""``coad find``: files in, a ranked list of what is rare, odd and coincident out."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._each import EachOption, ProcessesOption, run_each, without_each
from coad.cli._inputs import InputOptions, with_input_options
from coad.cli._options import ClusterOption
from coad.cli._print import out

if TYPE_CHECKING:
    from coad.findings.estimator import Findings
    from coad.workflows.finding import FindReport
    from coad.workflows.scoring import Source

#: Findings that are printed; the report has all of them.
_PRINTED = 20


@with_input_options
def find(
    inputs: InputOptions,
    max_rare: Annotated[
        float, typer.Option(help="Largest share of the rows that a finding may have and be flagged.")
    ] = 0.1,
    lens: Annotated[
        str | None,
        typer.Option(help="What to look with, comma-separated: clusters, tails, modes, networks."),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Detectors of PyOD that the lens tails tries too, comma-separated: pyod:ECOD,pyod:KNN."
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")
    ] = True,
    each: EachOption = None,
    processes: ProcessesOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Find what is rare, odd in both inputs and coincident: a ranked list, and a page of it."""
    from coad.cli._options import notes
    from coad.cli._progress import on_terminal, progress

    with ExitStack() as stack:
        stack.enter_context(progress("looking for findings"))
        from coad.findings.lenses import DEFAULT
        from coad.workflows.finding import find_in_files
        from coad.workflows.fitting import Training

        training = Training(
            random_state=inputs.seed,
            ordered=not inputs.unordered,
            out_of_core=inputs.out_of_core.value,
            verbose=on_terminal(),
        )
        names, scorers = (
            default if given is None else tuple(one.strip() for one in given.split(","))
            for given, default in ((lens, DEFAULT), (scorer, ()))
        )
        if each is not None:
            stack.close()  # sources have a line of their own
            run_each(
                each,
                inputs,
                training,
                lenses=names,
                scorers=scorers,
                max_rare=max_rare,
                cluster=cluster,
                processes=processes,
            )
            return
        without_each(cluster, processes)
        stack.enter_context(notes())
        source, layout, clocks = inputs.resolve()
        done = find_in_files(
            source,
            layout,
            inputs.output,
            clocks=clocks,
            training=training,
            max_rare=max_rare,
            lenses=names,
            scorers=scorers,
        )
    used = done.recipe.layout
    out(done.summary)
    out(f"s: {', '.join(used.s)}\nq: {', '.join(used.q)}")
    show_findings(done.model, what="window" if used.window is not None else "row")
    folder = inputs.output
    if page:
        _write_report(done, source, folder / "report.html")
    out(f"model: {folder}")
    if len(done.model):
        out(f"next: look at a finding, then say what it is: coad decide {folder} 1 event")


def show_findings(found: Findings, most: int = _PRINTED, what: str = "row") -> None:
    """Print the headline and the ranked table; if chance explains as much, the oddest rows too."""
    from coad.core.validation import LEVEL
    from coad.findings.finding import top

    out(found.headline)
    table = found.table
    if len(table):
        out()
        out(str(table[:most]))
        if len(table) > most:
            out(f"and {len(table) - most} more, see the report")
        out()
        for one in table[:3]:
            if str(one.why):
                out(f"  {one.number}: {one.why}")
    if found.p_value_ > LEVEL and not any(one.flagged for one in found):
        out(
            f"the {len(found.oddest_)} {what}s that are oddest in both inputs; chance alone explains as much:"
        )
        for row, (odd_s, odd_q) in zip(
            found.oddest_.tolist(), found.oddest_percentiles_.tolist(), strict=True
        ):
            out(f"  {what} {row:,}: {top(odd_s)} in s, {top(odd_q)} in q")


def _write_report(done: FindReport, source: Source, path: Path) -> None:
    """Write the page of the findings; the list stands even where no page can be drawn."""
    from coad._extras import missing_package
    from coad.cli._progress import progress

    try:
        with progress("writing the report"):
            from coad.report.findings_page import write_findings_page
            from coad.workflows.scored import read_scored

            scored = read_scored(done.model, done.recipe, source)
            write_findings_page(path, done.model, done.recipe, scored, source=source, names=str(path.parent))
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        out(f"no report: {missing}")
        return
    out(f"report: {path}")
