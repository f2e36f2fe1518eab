"""``coad evaluate``: what a saved model is worth on new files, without labels, or judged by them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import out, percent


def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder that coad fit wrote.")],
    file: Annotated[
        Path | None, typer.Argument(help="Table, array file, folder or glob.", show_default=False)
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels (0 or false: normal), to judge the flags by.")
    ] = None,
    s_file: Annotated[Path | None, typer.Option(help="Source of s, for a model of two clocks.")] = None,
    q_file: Annotated[Path | None, typer.Option(help="Source of q.")] = None,
) -> None:
    """Estimate F̂, P̂ and R̂ of a model on new files; labels only if there are any."""
    from coad.cli._options import (
        name_bad_files,
        notes,
        one_or_two,
        say_unseen,
        show_judgement,
        total_rows,
    )
    from coad.cli._progress import progress
    from coad.workflows.evaluating import evaluate_files
    from coad.workflows.model_folder import load_model

    source = one_or_two(file, s_file, q_file)
    detector, recipe = load_model(model)
    with notes(), progress("evaluating", total_rows(source)) as advance:
        done = evaluate_files(detector, recipe, source, label=label, progress=advance)
    windows = recipe.layout.window is not None
    parts = [f"{done.n_rows:,} rows", f"{done.judgement.n_judged:,} {'windows' if windows else 'pairs'}"]
    if done.n_regimes:
        parts.append(f"{done.n_regimes:,} regimes")
    out(", ".join(parts))
    show_judgement(done.judgement, detector.alpha_, detector.alpha_how_, windows=windows)
    say_unseen(done.unseen)
    if done.judgement.hint is not None:
        out(f"{done.judgement.hint.sentence}; fit again with {done.judgement.hint.option}")
    if done.judged is not None:
        judged = done.judged
        out(
            f"by the labels in {label!r}: precision {percent(judged.precision)}, recall {percent(judged.recall)}, "
            f"F1 {judged.f1:.3f} ({judged.n_anomalous:,} of {done.judgement.n_judged:,} anomalous)"
        )
    if done.bad_files:
        name_bad_files(done.bad_files)
        raise typer.Exit(1)
