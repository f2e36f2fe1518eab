"""``coad explore``: the report as an interactive page, served on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coad.cli._options import (
    AnyModelArgument,
    FileArgument,
    LabelOption,
    ModelMissingOption,
    QFileOption,
    SFileOption,
    name_bad_files,
    notes,
    one_or_two,
    read_as,
    total_rows,
)
from coad.cli._print import out


def explore(
    model: AnyModelArgument,
    file: FileArgument = None,
    port: Annotated[int, typer.Option(help="Port; 0: any free port.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
    marks: Annotated[
        Path | None,
        typer.Option(
            help="File for your marks; default: MODEL.marks.sqlite, beside the model.", show_default=False
        ),
    ] = None,
    label: LabelOption = None,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    missing: ModelMissingOption = None,
) -> None:
    """Look at events in a browser, choose the rule or decide about findings, and mark which events are real."""
    from coad.app.marks import Marks, marks_beside
    from coad.app.serve import bound_socket, get_ready, serve
    from coad.cli._progress import progress
    from coad.workflows.model_folder import load_model

    source = one_or_two(file, s_file, q_file)
    # Report errors that need no data before minutes of scoring.
    get_ready()
    listening = bound_socket(port)
    from coad.app.explorer import Explorer
    from coad.findings.estimator import Findings
    from coad.workflows.scored import read_scored

    detector, recipe = load_model(model)
    recipe, source = read_as(recipe, source, missing)
    kept = Marks(marks_beside(model) if marks is None else marks)
    with notes(), progress("scoring", total_rows(source)) as advance:
        # Findings are decided in the explorer, so that those that are ignored may come back.
        everything = isinstance(detector, Findings)
        scored = read_scored(detector, recipe, source, label=label, everything=everything, progress=advance)
    name_bad_files(list(scored.bad_files))
    names = f"{model.name}, {(file or s_file or Path()).name}"
    explorer = Explorer(detector, recipe, scored, kept, source=source, names=names, folder=model)
    serve(explorer, listening, open_browser=browser, say=out)
