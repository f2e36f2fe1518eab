"""``coad score``: p_s, p_q, score and flag of every row or window, from a saved model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._options import (
    AnyModelArgument,
    ClusterOption,
    FileArgument,
    ModelMissingOption,
    QFileOption,
    SFileOption,
    name_bad_files,
    notes,
    one_or_two,
    read_as,
    say_unseen,
    total_rows,
)
from coad.cli._print import out, percent
from coad.core.verdict import NO_COINCIDENCE

if TYPE_CHECKING:
    from coad.workflows.scoring import Scores, Source


def score(
    model: AnyModelArgument,
    file: FileArgument = None,
    output: Annotated[
        Path,
        typer.Option(
            "--out", help="Score table to write: .parquet or .csv; with --cluster a folder of parts."
        ),
    ] = Path("scores.parquet"),
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    missing: ModelMissingOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Write p_s, p_q, score and flag of every row or window; files may be larger than memory."""
    from coad.cli._progress import progress
    from coad.workflows.model_folder import load_model
    from coad.workflows.scoring import score_files

    source = one_or_two(file, s_file, q_file)
    detector, recipe = load_model(model)
    recipe, source = read_as(recipe, source, missing)
    with notes(), progress("scoring", total_rows(source)) as advance:
        if cluster is None:
            done = score_files(detector, recipe, source, output, progress=advance)
        else:
            done = _on_cluster(model, source, output, cluster, missing, advance)
    what = "windows" if recipe.layout.window is not None else "pairs"
    out(f"{done.n_rows:,} rows, {done.n_pairs:,} {what}")
    if detector.status_ == NO_COINCIDENCE:
        out("no coincidence: training found none")
    share, events = (
        percent(done.n_flagged / max(done.n_pairs, 1)),
        "event" if done.n_events == 1 else "events",
    )
    out(
        f"{done.n_flagged:,} flagged ({share}) in {done.n_events:,} {events}, by the rule: {detector.rule_.words()}"
    )
    say_unseen(done.unseen)
    out(f"scores: {output}")
    if done.bad_files:
        name_bad_files(done.bad_files)
        raise typer.Exit(1)


def _on_cluster(
    model: Path, source: Source, output: Path, cluster: str, missing: Any, advance: Callable[[int], None]
) -> Scores:
    from coad.exceptions import InputError
    from coad.scale.scoring import score as score_parts

    if source.files is None:
        raise InputError("--cluster takes one folder of files, not --s-file and --q-file")
    done = score_parts(model, source.files, output, cluster=cluster, missing=missing, progress=advance)
    out(f"{done.n_done:,} of {done.n_parts:,} parts scored, {len(done.parts) - done.n_done:,} were there")
    return done
