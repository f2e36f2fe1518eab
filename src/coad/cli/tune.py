"""``coad tune``: choose another rule for a saved model, and keep it in the model folder."""

from __future__ import annotations

from typing import Annotated

import typer

from coad.cli._options import (
    FileArgument,
    ModelArgument,
    ModelMissingOption,
    QFileOption,
    SFileOption,
    name_bad_files,
    notes,
    one_or_two,
    read_as,
    show_judgement,
    total_rows,
)
from coad.cli._print import out, percent, table
from coad.exceptions import InputError


def tune(
    model: ModelArgument,
    file: FileArgument = None,
    beta: Annotated[
        float | None,
        typer.Option(help="Another weight of recall against precision; sets the best thresholds for it."),
    ] = None,
    threshold_s: Annotated[float | None, typer.Option(help="Threshold of p_s, with --threshold-q.")] = None,
    threshold_q: Annotated[float | None, typer.Option(help="Threshold of p_q, with --threshold-s.")] = None,
    dismiss: Annotated[
        int | None,
        typer.Option(
            metavar="KIND", help="Stop flagging this kind (see --kinds), and tune again on the rest."
        ),
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="Flag all dismissed kinds again.")] = False,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="List the kinds of events, and change nothing.")
    ] = False,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    missing: ModelMissingOption = None,
) -> None:
    """Choose another rule, on these files, and save it in the model; score, evaluate, report and explore then use it."""
    from coad.cli._progress import progress
    from coad.core.validation import check_beta
    from coad.workflows.model_folder import load_detector
    from coad.workflows.tuning import tune_files

    if (threshold_s is None) != (threshold_q is None):
        raise InputError("give both --threshold-s and --threshold-q, or none")
    if beta is not None:
        check_beta(beta)
    pair = None if threshold_s is None or threshold_q is None else (threshold_s, threshold_q)
    source = one_or_two(file, s_file, q_file)
    detector, recipe = load_detector(model)
    recipe, source = read_as(recipe, source, missing)
    with notes(), progress("scoring", total_rows(source)) as advance:
        if kinds:
            from coad.workflows.scored import read_scored
            from coad.workflows.tuning import event_kinds

            scored = read_scored(detector, recipe, source, progress=advance)
            found = event_kinds(detector, scored)
        else:
            done = tune_files(
                detector,
                recipe,
                source,
                model,
                beta=beta,
                thresholds=pair,
                dismiss=dismiss,
                restore=restore,
                progress=advance,
            )
            scored = done.scored
    name_bad_files(list(scored.bad_files))
    if kinds:
        if found is None:
            out("there are too few events to sort into kinds")
            return
        sorted_kinds = found[0]
        rows = [
            (
                str(i + 1),
                f"{int((sorted_kinds.label == i).sum()):,}",
                percent(float(sorted_kinds.kind_stability[i])),
            )
            for i in range(sorted_kinds.n_kinds)
        ]
        table(("kind", "events", "stability"), rows)
        return
    changed = done.old.changes(done.new)
    out(f"changed: {changed}" if changed else "the rule stays as it was")
    before, after = done.before, done.after
    out(
        f"in these files: {before.n_flagged:,} → {after.n_flagged:,} flagged, "
        f"{before.n_events:,} → {after.n_events:,} events"
    )
    show_judgement(after, done.new, windows=scored.windows)
    out(f"model: {model}")
