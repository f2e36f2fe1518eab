"""``coad explore``: the report, alive, in a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import out


def explore(
    model: Annotated[Path, typer.Argument(help="Folder that coad fit wrote.")],
    file: Annotated[
        Path | None, typer.Argument(help="Table, array file, folder or glob.", show_default=False)
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port on this machine; 0: any that is free.", min=0, max=65535)
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    marks: Annotated[
        Path | None,
        typer.Option(
            help="File of your marks; default: beside the model, MODEL.marks.sqlite.", show_default=False
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels (0 or false: normal), for comparison.")
    ] = None,
    s_file: Annotated[Path | None, typer.Option(help="Source of s, for a model of two clocks.")] = None,
    q_file: Annotated[Path | None, typer.Option(help="Source of q.")] = None,
) -> None:
    """Look at events, move the thresholds, and mark what is real."""
    from coad.app.marks import Marks, marks_beside
    from coad.app.serve import bound_socket, get_ready, serve
    from coad.cli._options import name_bad_files, notes, one_or_two, total_rows
    from coad.cli._progress import progress
    from coad.workflows.model_folder import load_detector

    source = one_or_two(file, s_file, q_file)
    # What can be refused at once is refused before minutes of scoring.
    get_ready()
    listening = bound_socket(port)
    detector, recipe = load_detector(model)
    with Marks(marks_beside(model) if marks is None else marks) as kept:
        from coad.app.explorer import Explorer
        from coad.report.data import read_scored

        with notes(), progress("scoring", total_rows(source)) as advance:
            scored = read_scored(detector, recipe, source, label=label, progress=advance)
        name_bad_files(list(scored.bad_files))
        names = f"{model.name}, {(file or s_file or Path()).name}"
        explorer = Explorer(detector, recipe, scored, kept, names=names)
        serve(explorer, listening, open_browser=browser, say=out)
