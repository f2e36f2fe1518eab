"""``coad evaluate``: estimate how good a saved model is on new files, without labels or with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from coad.cli._options import (
    AnyModelArgument,
    ClusterOption,
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

if TYPE_CHECKING:
    from coad.workflows.scored import Scored


def evaluate(
    model: AnyModelArgument,
    file: FileArgument = None,
    label: LabelOption = None,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    missing: ModelMissingOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Estimate F̂, P̂ and R̂ of a model on new files without labels; with --label also F1."""
    from coad.cli._progress import progress
    from coad.workflows.evaluating import evaluate_files
    from coad.workflows.model_folder import load_model
    from coad.workflows.scored import read_scored

    source = one_or_two(file, s_file, q_file)
    detector, recipe = load_model(model)
    recipe, source = read_as(recipe, source, missing)
    with ExitStack() as stack:
        stack.enter_context(notes())
        advance = stack.enter_context(progress("evaluating", total_rows(source)))
        read: Callable[..., Scored] = read_scored
        if cluster is not None:
            from coad.scale.scoring import read_on_cluster

            read = stack.enter_context(read_on_cluster(model, cluster, missing))
        done = evaluate_files(detector, recipe, source, label=label, progress=advance, read=read)
    scored, judgement = done.scored, done.judgement
    parts = [f"{scored.n_rows:,} rows", f"{len(scored):,} {scored.what}"]
    if scored.contexts:
        parts.append(f"{len(scored.contexts):,} regimes")
    if scored.n_dismissed:
        parts.append(f"{scored.n_dismissed:,} {scored.what} of dismissed kinds left out")
    out(", ".join(parts))
    show_judgement(judgement, detector.rule_, windows=scored.windows)
    say_unseen(Counter(dict(scored.unseen)))
    if done.judged is not None and scored.label is not None:
        judged = done.judged
        out(
            f"by the labels in {label!r}: precision {percent(judged.precision)}, recall {percent(judged.recall)}, "
            f"F1 {judged.fbeta:.3f} ({int(scored.label.sum()):,} of {len(scored):,} anomalous)"
        )
    if done.looks is not None:
        out(f"with a person's looks, answered by the labels: {done.looks.in_words()}")
    if scored.bad_files:
        name_bad_files(list(scored.bad_files))
        raise typer.Exit(1)
