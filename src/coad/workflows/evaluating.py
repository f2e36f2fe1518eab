"""Evaluate a model on files: F̂, P̂, R̂ without labels, signs of a shared regime, and F1 if there are labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.core.assessment import Evaluation
from coad.core.label_efficiency import LabelEfficiency, label_efficiency
from coad.core.labels import LabelScores, label_scores
from coad.core.verdict import NO_COINCIDENCE, SHARED_REGIME, Status, Suspicion, in_words
from coad.data.layout import FILE
from coad.data.paths import find_files
from coad.workflows.recipe import Recipe
from coad.workflows.regimes import RegimeHint, hint_regime
from coad.workflows.scored import Scored, read_scored
from coad.workflows.scoring import Progress, Source

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["EvaluationReport", "Judgement", "evaluate_files", "judge", "next_step"]

_MOST_CANDIDATES = 40  # columns that are tested as the shared regime


@dataclass(frozen=True)
class Judgement:
    """What a model's rule finds in some files, and what to do about it: the same in every command."""

    evaluation: Evaluation  # of all pairs; after a fit, of the held-out ones
    status: Status
    suspicions: tuple[Suspicion, ...]
    n_flagged: int  # of all pairs
    n_events: int
    hint: RegimeHint | None = None

    @property
    def message(self) -> str:
        """Why the status is not simply "found"."""
        return in_words(self.suspicions)


@dataclass(frozen=True)
class EvaluationReport:
    """The evaluation of files, and what was read."""

    judgement: Judgement
    scored: Scored
    judged: LabelScores | None
    looks: LabelEfficiency | None = None  # for findings: F1 after a person has looked at the first ones


def evaluate_files(
    model: CoAD,
    recipe: Recipe,
    source: Source,
    *,
    label: str | None = None,
    progress: Progress | None = None,
    read: Callable[..., Scored] = read_scored,
) -> EvaluationReport:
    """Evaluate a model on files; the inputs are not kept in memory.

    Parameters
    ----------
    model : CoAD or CoincidenceModes
        The fitted model.
    recipe : Recipe
        How files become pairs.
    source : Source
        The files.
    label : str, optional
        Label column (0 or false: normal).
    progress : callable, optional
        Called with the number of rows read so far.
    read : callable
        Scores the files: here, or on a cluster.

    Returns
    -------
    EvaluationReport
    """
    findings = getattr(model.rule_, "findings", {})
    scored = read(
        model, recipe, source, label=label, inputs=bool(findings) and label is not None, progress=progress
    )
    judged = None if scored.label is None else label_scores(scored.flag, scored.label)
    looks = None
    if findings and scored.label is not None:
        from coad.findings.looks import FindingsInRows

        rows = model.memberships(
            *(store[np.arange(len(scored))] for store in (scored.s, scored.q)), scored.labels()
        )
        looks = label_efficiency(FindingsInRows(model, rows), scored.label)
    return EvaluationReport(judge(model, recipe, source, scored, label=label), scored, judged, looks)


def judge(
    model: CoAD,
    recipe: Recipe,
    source: Source | None,
    scored: Scored,
    *,
    label: str | None = None,
    held: IntArray | None = None,
) -> Judgement:
    """What the model's rule finds in scored pairs, and the context that may explain it.

    Parameters
    ----------
    model, recipe : CoAD or CoincidenceModes, Recipe
        The fitted model, and how it reads files.
    source : Source, optional
        The files of the pairs, to look for a column that explains a shared regime.
    scored : Scored
        The pairs.
    label : str, optional
        A column that must not be suggested.
    held : array of int, optional
        Pairs that training did not use; the figures are then of these only.

    Returns
    -------
    Judgement
    """
    whole = found = model.evaluate_scores(scored.scores, scored.code, scored.order)
    if held is not None:
        part = scored.part(np.sort(held))
        found = model.evaluate_scores(part.scores, part.code, part.order)
    said = found if found.status == NO_COINCIDENCE else whole
    hint = None
    if said.status == SHARED_REGIME:
        columns = {} if source is None else candidate_columns(recipe, source, scored, label)
        hint = hint_regime(
            *model.rule_.memberships(scored.p_s, scored.p_q),
            columns,
            time=scored.time,
            context=scored.code,
            context_names=tuple(recipe.layout.context or ()),
        )
    return Judgement(found, said.status, said.suspicions, whole.flagged, whole.n_events, hint)


def next_step(judgement: Judgement) -> str:
    """What to do if the result is not simply "found"; empty if it is."""
    codes = {one.code for one in judgement.suspicions}
    if "no_rare_mode" in codes:
        return "next: coad role shows the modes and says which are called rare"
    if "no_flagged_finding" in codes:
        return "next: look at the findings, and decide which of them are events (coad explore or coad decide)"
    if "nothing_flagged" in codes:
        return "next: coad tune chooses lower thresholds on these files"
    if judgement.status == NO_COINCIDENCE:
        return (
            "next: longer windows (--window), other columns for s and q, more rows, or more --starts; "
            "coad modes looks for rare kinds behind regimes"
        )
    if judgement.status != SHARED_REGIME:
        return ""
    if judgement.hint is None:
        return (
            "next: no column explains it; name the operating regime with --context or --context-blocks, "
            "or let coad modes list the regimes and the rare kinds"
        )
    hint = judgement.hint
    which = "they are" if len(hint.columns) > 1 else "it is"
    condition = "" if hint.block else f", if {which} an operating condition, not a consequence of the fault"
    return f"{hint.sentence}; next: fit again with {hint.option}{condition}"


def candidate_columns(
    recipe: Recipe, source: Source, scored: Scored, label: str | None
) -> dict[str, NDArray[Any]]:
    """The columns that are neither input nor label, at the last row of each pair: what may be the shared regime."""
    if source.two_clocks:
        return {}
    from coad.data.read import file_labels
    from coad.data.tables import column_names, iter_batches, joined_parts

    layout = recipe.layout
    taken = {*layout.signals, *layout.others, *recipe.not_context, label}

    def allowed(name: str) -> bool:
        return name not in taken and not any(fnmatchcase(name, one) for one in recipe.not_context)

    files = find_files(source.files or [])
    labels = dict(zip(map(str, files), file_labels(files), strict=True))
    usable = [name for name in column_names(Path(scored.files[0])) if allowed(name)][:_MOST_CANDIDATES]
    for path in scored.files[1:]:
        here = set(column_names(Path(path)))
        usable = [name for name in usable if name in here]
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in usable}
    for number, path in enumerate(scored.files) if usable else ():
        batches = [batch.columns for batch in iter_batches(Path(path), usable, categories=usable)]
        rows = scored.last[scored.file == number]
        for name in usable:
            parts[name].append(joined_parts([columns[name] for columns in batches], name)[rows])
    found = {name: joined_parts(values, name) for name, values in parts.items()}
    if len(scored.files) > 1 and FILE not in found and allowed(FILE):
        found[FILE] = np.array([labels[path] for path in scored.files])[scored.file]
    return {name: values for name, values in found.items() if values.ndim == 1}
