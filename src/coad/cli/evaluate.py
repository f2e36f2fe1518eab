"""``coad evaluate``: estimate how good a saved model is on new files, without labels or with them."""

from __future__ import annotations

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
    say_unseen,
    show_judgement,
    total_rows,
)
from coad.cli._print import out, percent


def evaluate(
    model: AnyModelArgument,
    file: FileArgument = None,
    label: LabelOption = None,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    missing: ModelMissingOption = None,
) -> None:
    """Estimate F̂, P̂ and R̂ of a model on new files without labels; with --label also F1."""
    from coad.cli._progress import progress
    from coad.workflows.evaluating import evaluate_files
    from coad.workflows.model_folder import load_model

    source = one_or_two(file, s_file, q_file)
    detector, recipe = load_model(model)
    recipe, source = read_as(recipe, source, missing)
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
        out(f"{done.judgement.hint.sentence}; refit with {done.judgement.hint.option}")
    if done.judged is not None:
        judged = done.judged
        out(
            f"by the labels in {label!r}: precision {percent(judged.precision)}, recall {percent(judged.recall)}, "
            f"F1 {judged.f1:.3f} ({judged.n_anomalous:,} of {done.judgement.n_judged:,} anomalous)"
        )
    if done.bad_files:
        name_bad_files(done.bad_files)
        raise typer.Exit(1)
