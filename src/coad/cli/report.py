"""``coad report``: what a saved model finds in some files, as one HTML page that opens offline."""

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


def report(
    model: AnyModelArgument,
    file: FileArgument = None,
    output: Annotated[Path, typer.Option("--out", help="HTML file to write.")] = Path("report.html"),
    label: LabelOption = None,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    missing: ModelMissingOption = None,
) -> None:
    """Write one HTML page: the verdict, the evidence for it, and the events."""
    from coad.cli._progress import progress
    from coad.data.atomic import check_writable
    from coad.exceptions import InputError
    from coad.findings.estimator import Findings
    from coad.report.findings_page import findings_verdict, write_findings_page
    from coad.report.model_page import write_model_report
    from coad.report.words import verdict
    from coad.workflows.model_folder import load_model
    from coad.workflows.scored import read_scored

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, not {output.name!r}")
    check_writable(output)
    source = one_or_two(file, s_file, q_file)
    detector, recipe = load_model(model)
    recipe, source = read_as(recipe, source, missing)
    with notes(), progress("scoring", total_rows(source)) as advance:
        scored = read_scored(detector, recipe, source, label=label, progress=advance)
    names = f"{model.name}, {(file or s_file or Path()).name}"
    if isinstance(detector, Findings):
        study = write_findings_page(output, detector, recipe, scored, source=source, names=names)
        out(findings_verdict(study, detector))
    else:
        out(verdict(write_model_report(output, detector, recipe, scored, source=source, names=names)))
    out(f"report: {output}")
    if scored.bad_files:
        name_bad_files(list(scored.bad_files))
        raise typer.Exit(1)
