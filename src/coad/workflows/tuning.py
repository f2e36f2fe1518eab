"""Choose another rule for a saved model on some files: another β, other thresholds, a kind that is not flagged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coad._typing import IntArray
from coad.core.rule import Rule
from coad.exceptions import InputError
from coad.workflows.evaluating import Judgement, judge
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored, read_scored, sampled
from coad.workflows.scoring import Progress, Source

if TYPE_CHECKING:
    from coad.events.kinds import Kinds
    from coad.learned.estimator import CoAD

__all__ = ["TuneReport", "event_kinds", "tune_files"]

#: Events below which kinds are not worth looking for, events that are clustered at once, and resamples for stability:
#: seconds.
FEWEST_EVENTS, MOST_SORTED, _RESAMPLES = 16, 3000, 8


@dataclass(frozen=True)
class TuneReport:
    """The rule before and after, and what each finds in the files."""

    old: Rule
    new: Rule
    before: Judgement
    after: Judgement
    scored: Scored


def tune_files(
    model: CoAD,
    recipe: Recipe,
    source: Source,
    folder: Path,
    *,
    beta: float | None = None,
    thresholds: tuple[float, float] | None = None,
    dismiss: int | None = None,
    restore: bool = False,
    progress: Progress | None = None,
) -> TuneReport:
    """Choose another rule and save it in the model folder.

    Parameters
    ----------
    model, recipe : CoAD, Recipe
        The model and how it reads files.
    source : Source
        The files to tune on.
    folder : Path
        The model folder, which is replaced.
    beta : float, optional
        Another β; the thresholds are then the best for it on these files.
    thresholds : pair of float, optional
        The thresholds of p_s and p_q to set.
    dismiss : int, optional
        A kind, counted from 1 as in the explorer, that is not flagged any more.
    restore : bool
        Flag the dismissed kinds again.
    progress : callable, optional
        Called with the number of rows read so far.

    Returns
    -------
    TuneReport
    """
    old = model.rule_
    scored = read_scored(model, recipe, source, inputs=dismiss is not None, progress=progress)
    before = judge(model, recipe, None, scored)
    if restore and old.dismissed:  # as it was before the first of them was dismissed
        first = old.dismissed[0]
        model.rule_ = replace(
            old, dismissed=(), alpha=model.alpha_, thresholds=first.thresholds, product=first.product
        )
        scored = read_scored(model, recipe, source, inputs=dismiss is not None)
    if beta is not None:
        model.rule_ = replace(model.rule_, beta=beta)
    if dismiss is not None:
        _dismiss(model, scored, dismiss)  # which tunes the thresholds on what is left
    if thresholds is not None:
        model.set_threshold(p_s=thresholds[0], p_q=thresholds[1])
    elif dismiss is None and (beta is not None or not restore):
        model.tune_scores(scored.scores, scored.code)
    model.save(folder)
    scored = read_scored(model, recipe, source, inputs=False)
    return TuneReport(old, model.rule_, before, judge(model, recipe, source, scored), scored)


def event_kinds(model: CoAD, scored: Scored) -> tuple[Kinds, IntArray] | None:
    """The kinds of the events and the pairs that were sorted; None if there are too few events."""
    from coad.events.kinds import find_kinds  # which loads torch

    peaks = scored.events(scored.flag).peak
    if len(peaks) < FEWEST_EVENTS:
        return None
    some = sampled(peaks, MOST_SORTED)
    kinds = find_kinds(
        model,
        scored.s.rows(some),
        scored.q.rows(some),
        context=scored.labels(some),
        flags=np.ones(len(some), dtype=np.bool_),
        n_resamples=_RESAMPLES,
    )
    return kinds, some


def _dismiss(model: CoAD, scored: Scored, kind: int) -> None:
    from coad.learned.dismissal import dismiss

    found = event_kinds(model, scored)
    if found is None:
        raise InputError(f"there are too few events to sort into kinds: fewer than {FEWEST_EVENTS}")
    model.kinds_ = found[0]
    if not 1 <= kind <= found[0].n_kinds:
        raise InputError(f"there is no kind {kind}; there are 1 to {found[0].n_kinds}")
    dismiss(model, kind - 1, scored.s, scored.q, scored.labels(), (scored.p_s, scored.p_q))
