"""Evaluate a model on files: F̂, P̂, R̂ without labels, signs of a shared regime, and F1 if there are labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray
from coad.core.labels import label_scores
from coad.core.runs import find_runs
from coad.core.verdict import NO_COINCIDENCE, SHARED_REGIME, Status, Suspicion, in_words
from coad.exceptions import FileError, InputError
from coad.workflows.recipe import Recipe
from coad.workflows.regimes import RegimeHint, hint_regime, second_opinion
from coad.workflows.scoring import (
    Progress,
    Source,
    iter_confidences,
    known_contexts,
    no_pairs,
    unseen_contexts,
)

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["EvaluationReport", "Judged", "Judgement", "evaluate_files", "judge", "n_events"]

Candidates = Callable[[], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Judgement:
    """Estimates of a model's quality without labels, and their status."""

    evaluation: Any  # coad's Evaluation
    status: Status
    message: str
    suspicions: tuple[Suspicion, ...]
    n_judged: int
    n_flagged: int
    n_events: int
    hint: RegimeHint | None = None


@dataclass(frozen=True)
class Judged:
    """Precision, recall and F1 of the flags by labels."""

    precision: float
    recall: float
    f1: float
    n_anomalous: int


@dataclass(frozen=True)
class EvaluationReport:
    """The evaluation of files, and what was read."""

    judgement: Judgement
    n_rows: int
    n_regimes: int
    unseen: Counter[str]
    judged: Judged | None
    bad_files: list[tuple[Path, FileError]]


def evaluate_files(
    model: CoAD,
    recipe: Recipe,
    source: Source,
    *,
    label: str | None = None,
    progress: Progress | None = None,
) -> EvaluationReport:
    """Evaluate a model on files; only the confidences, context, time and label of each pair are kept in memory.

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

    Returns
    -------
    EvaluationReport
    """
    kept: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("p_s", "p_q", "flag", "context", "time", "label")
    }
    bad_files: list[tuple[Path, FileError]] = []
    n_rows, overlap = 0, 1
    if label is not None and label in recipe.layout.signals:
        raise InputError(f"column {label!r} is the label and also an input; labels are for judging only")
    for part in iter_confidences(
        model,
        recipe,
        source,
        label=label,
        on_bad_file=lambda path, error: bad_files.append((path, error)),
    ):
        for name in ("p_s", "p_q", "flag"):
            kept[name].append(getattr(part.scores, name))
        for name in ("context", "time", "label"):
            values = getattr(part.pairs, name)
            if values is not None:
                kept[name].append(values)
        n_rows = part.rows_read
        if part.pairs.windows is not None:
            overlap = overlapping(part.pairs.windows.length, part.pairs.windows.start)
        if progress is not None:
            progress(n_rows)
    if not kept["p_s"]:
        raise no_pairs(bad_files)
    joined = {name: _joined(parts, name) for name, parts in kept.items()}
    context, known = joined["context"], known_contexts(model, recipe)
    unseen = unseen_contexts(context, known)
    n_regimes = 0 if context is None else len(np.unique(context))
    judged = None if label is None else _by_labels(joined["flag"], joined["label"], label)
    p_s, p_q, flags = joined["p_s"], joined["p_q"], joined["flag"]
    assert p_s is not None
    assert p_q is not None
    assert flags is not None
    judgement = judge(model, p_s, p_q, flags=flags, context=context, time=joined["time"], overlap=overlap)
    return EvaluationReport(judgement, n_rows, n_regimes, unseen, judged, bad_files)


def judge(
    model: CoAD,
    p_s: FloatArray,
    p_q: FloatArray,
    *,
    flags: BoolArray,
    context: NDArray[Any] | None = None,
    time: NDArray[Any] | None = None,
    overlap: int = 1,
    rows: NDArray[Any] | None = None,
    candidates: Candidates | None = None,
    context_names: tuple[str, ...] = (),
) -> Judgement:
    """Estimate F̂, P̂ and R̂, and test for a shared regime.

    Parameters
    ----------
    model : CoAD or CoincidenceModes
        The fitted model. A catalogue of modes lists regimes itself, so it is not tested for one.
    p_s, p_q : array of shape (n,)
        Confidences of all pairs.
    flags : array of bool
        The pairs that the model flags.
    context, time : array, optional
        Context and time of each pair.
    overlap : int
        Number of consecutive windows that share samples.
    rows : array, optional
        Pairs on which F̂, P̂ and R̂ are estimated (default: all). The test for a regime uses all pairs.
    candidates : callable, optional
        Reads the columns that may explain a shared regime; called only if one is suspected.
    context_names : tuple of str
        Columns that form ``context``.

    Returns
    -------
    Judgement
    """
    kept: Any = slice(None) if rows is None else rows
    known = None if context is None else context[kept]
    evaluation = model.evaluate_confidences(
        p_s[kept],
        p_q[kept],
        known,
        flagged=int(flags[kept].sum()),
        time=None if time is None else time[kept],
    )
    status: Status = evaluation.status
    message, hint = "", None
    suspicions: tuple[Suspicion, ...] = ()
    if model.status_ == NO_COINCIDENCE:
        status, message = NO_COINCIDENCE, "training found none, so nothing is flagged"
        suspicions = (Suspicion("none_in_training", {"p_value": model.p_value_}),)
    elif status == NO_COINCIDENCE:
        suspicions = (Suspicion("not_significant_here", {"p_value": evaluation.p_value}),)
        message = in_words(suspicions)
    elif not model.expects_regimes:
        if time is not None and (time[1:] < time[:-1]).any():
            order = np.argsort(time, kind="stable")  # the test for a regime shifts one input in time
            p_s, p_q, time = p_s[order], p_q[order], time[order]
            context = None if context is None else context[order]
            candidates = None if candidates is None else _sorted(candidates, order)
        opinion = second_opinion(
            p_s, p_q, beta=evaluation.beta, context=context, overlap=overlap, ordered=model.ordered
        )
        if SHARED_REGIME in (opinion.status, status, model.status_):
            status = SHARED_REGIME
            if opinion.status == status:
                suspicions = opinion.suspicions
            elif evaluation.shift_p_value > model.significance:
                suspicions = (Suspicion("slow", {"p_value": evaluation.shift_p_value}),)
            message = in_words(suspicions)
            flag_s, flag_q = p_s > 0.5, p_q > 0.5
            if opinion.n_joint:
                flag_s, flag_q = p_s >= opinion.threshold_s, p_q >= opinion.threshold_q
            columns = {} if candidates is None else candidates()
            hint = hint_regime(
                flag_s, flag_q, columns, time=time, context=context, context_names=context_names
            )
    return Judgement(
        evaluation, status, message, suspicions, evaluation.n_rows, int(flags.sum()), n_events(flags), hint
    )


def n_events(flags: BoolArray) -> int:
    """The number of runs of flagged rows.

    >>> n_events(np.array([True, True, False, True]))
    2
    """
    return len(find_runs(flags).first)


def overlapping(length: int, start: NDArray[Any]) -> int:
    """The number of consecutive windows that share samples.

    >>> overlapping(64, np.array([0, 32, 64, 96]))
    2
    """
    steps = np.diff(start)
    steps = steps[steps > 0]
    return -(-length // max(1, int(np.median(steps)))) if len(steps) else 1


def _sorted(candidates: Candidates, order: NDArray[Any]) -> Candidates:
    return lambda: {name: values[order] for name, values in candidates().items()}


def _by_labels(flags: Any, labels: NDArray[Any] | None, name: str) -> Judged:
    assert labels is not None
    if labels.dtype.kind not in "biuf":
        raise InputError(
            f"column {name!r} holds {'text' if labels.dtype.kind == 'U' else labels.dtype}; labels are numbers "
            "or true/false (0 or false: normal)"
        )
    anomalous = labels != 0
    f1, precision, recall = label_scores(flags, anomalous)
    return Judged(precision, recall, f1, int(anomalous.sum()))


def _joined(parts: list[NDArray[Any]], name: str) -> NDArray[Any] | None:
    from coad.data.tables import joined_parts

    return joined_parts(parts, name) if parts else None
