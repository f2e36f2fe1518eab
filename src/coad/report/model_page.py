"""The report page of a CoAD model on some data: the verdict first, then what it is based on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coad.report import model_figures as figures
from coad.report.cards import card, one_sided, pair_facts, pair_title, strongest
from coad.report.drawings import NormalRows
from coad.report.model_settings import settings_section
from coad.report.page import Section, write_page
from coad.report.sections import (
    checks_section,
    drawings_legend,
    events_section,
    labels_section,
    null_section,
    numbers_section,
    page_note,
    regimes_section,
)
from coad.report.study import Study
from coad.report.words import tone, verdict
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored
from coad.workflows.scoring import Source

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["write_model_report"]

#: Cards of events, and of disagreements for each input: what fits a page.
_TOP, _ONE_SIDED = 12, 6


def write_model_report(
    path: Path, model: CoAD, recipe: Recipe, scored: Scored, *, source: Source | None = None, names: str = ""
) -> Study:
    """Write the report of scored pairs to ``path`` (.html).

    Parameters
    ----------
    path : Path
        The HTML file.
    model, recipe : CoAD, Recipe
        The model, and how it reads files.
    scored : Scored
        The scored pairs.
    source : Source, optional
        The files, to look for a column that explains a shared regime.
    names : str
        Which model and data these are, for the title.

    Returns
    -------
    study : Study
    """
    study = Study(scored, model, recipe, source)
    normal = NormalRows(scored, study.flags)
    best_only = " The dotted lines are the best pair, which is not significant."
    sections = [
        numbers_section(study),
        Section(
            "Confidences of both inputs",
            f"Each point is one of {len(scored):,} {scored.what}, placed by the confidence of each input that it is an "
            f"anomaly. Those {'above both thresholds' if study.has_thresholds else 'of rare modes'} are flagged."
            + (best_only if study.has_thresholds and math.inf in study.rule.thresholds else ""),
            figures.confidence_figure(study),
            after=_sampling(study),
            anchor="confidences",
        ),
        *(_thresholds(study) if study.has_thresholds else [_modes(study)]),
        null_section(study),
        _training(model) if study.has_thresholds else None,
        Section(
            "Events in time",
            f"{len(study.events):,} events by the score of their strongest {scored.what[:-1]}, and the share of "
            f"{scored.what} flagged in each eightieth of the data."
            if len(study.events)
            else "No event to show.",
            figures.timeline_figure(study) if len(study.events) else None,
            after=f"{figures.DRAWN_EVENTS:,} events are drawn, a fixed random sample."
            if len(study.events) > figures.DRAWN_EVENTS
            else "",
            anchor="timeline",
        ),
        _top(study, normal),
        events_section(study),
        _disagreements(study, normal),
        regimes_section(study),
        labels_section(study),
        checks_section(study),
        settings_section(study, names),
    ]
    write_page(
        path,
        "Coincident events" + (f" · {names}" if names else ""),
        verdict(study),
        [section for section in sections if section is not None],
        page_note(scored),
        tone=tone(study),
    )
    return study


def _sampling(study: Study) -> str:
    flagged = int(study.flags.sum())
    others = len(study.flags) - flagged
    if flagged <= figures.DRAWN_FLAGGED and others <= figures.DRAWN_OTHERS:
        return ""
    return (
        f"{min(others, figures.DRAWN_OTHERS):,} of the others and {min(flagged, figures.DRAWN_FLAGGED):,} of the "
        "flagged are drawn, a fixed random sample; all numbers are for all rows."
    )


def _thresholds(study: Study) -> list[Section]:
    """What other thresholds would find."""
    return [
        _surface(study),
        Section(
            "Precision against recall",
            "The best thresholds for every β, from few sure events (left) to all that can be found (right).",
            figures.curve_figure(study) if study.scan else None,
            anchor="curve",
        ),
        Section(
            "β scan",
            "F̂ of the best thresholds for every β. Small β favours precision, large β recall.",
            figures.beta_figure(study) if study.scan else None,
            anchor="beta",
        ),
    ]


def _modes(study: Study) -> Section:
    """How many pairs each mode of a catalogue has here."""
    mode = study.scored.mode
    assert mode is not None
    rows = [
        (str(one), study.rule.roles.get(one, "the inputs disagree"), f"{int((mode == one).sum()):,}")
        for one in (*sorted(study.rule.roles), -1)
    ]
    return Section(
        "Modes",
        f"The {study.scored.what} in each mode.",
        table=(("mode", "role", study.scored.what), rows),
        anchor="modes",
    )


def _surface(study: Study) -> Section:
    surface = study.surface()
    return Section(
        "F̂ over both thresholds",
        "F̂ of every pair of thresholds. With a broad maximum, the result does not depend on the exact thresholds."
        if surface is not None
        else "An input takes one value in more than half of the rows: there are no thresholds to compare.",
        None if surface is None else figures.surface_figure(surface, study),
        anchor="surface",
    )


def _training(model: CoAD) -> Section:
    own = next(iter(model.fitted_.values()))
    rows = [
        (
            f"{one.seed}{' (kept)' if one.seed in own.ensemble else ''}",
            one.status,
            f"{one.fbeta_hat:.3f}",
            f"{one.precision_hat:.1%}",
            f"{one.recall_hat:.1%}",
            f"{one.best_epoch:,} of {one.epochs:,}",
        )
        for one in own.starts
    ]
    lines = figures.history_lines(model)
    return Section(
        "Training, seed by seed",
        "Each seed is an independent start; the best on held-out pairs is kept. Seeds that agree are a good sign."
        + (
            ""
            if lines
            else " This model's folder has the result of each seed, but not the history of its epochs."
        ),
        figures.history_figure(lines) if lines else None,
        (("seed", "status", "F̂", "P̂", "R̂", "best epoch"), rows),
        anchor="training",
    )


def _top(study: Study, normal: NormalRows) -> Section:
    scored = study.scored
    if len(study.events):
        chosen = strongest(study, _TOP)
        cards = [
            card(study, normal, peak, pair_title(scored, peak), pair_facts(scored, peak, study.events[i]))
            for i, peak in zip(chosen.tolist(), study.events.peak[chosen].tolist(), strict=True)
        ]
        text = f"The {len(cards)} strongest of {len(study.events):,} events, with both inputs."
    else:
        best = np.argsort(-scored.score, kind="stable")[:4]
        cards = [
            card(study, normal, pair, pair_title(scored, pair), pair_facts(scored, pair))
            for pair in best.tolist()
        ]
        text = f"Nothing is flagged. These are the {scored.what} with the highest p_s·p_q."
    html = f"<div class='gallery'>{''.join(cards)}</div>"
    return Section("Events", f"{text} {drawings_legend(scored)}", html=html, anchor="events")


def _disagreements(study: Study, normal: NormalRows) -> Section:
    scored, cards = study.scored, []
    for side in "sq":
        for pair in one_sided(study, side, _ONE_SIDED).tolist():
            title = f"{pair_title(scored, pair)}: seen by {side} only"
            cards.append(card(study, normal, pair, title, pair_facts(scored, pair)))
    return Section(
        "Disagreements",
        "Anomalous in one input and normal in the other: noise of one sensor, or an event that the other cannot see."
        if cards
        else f"None: no {scored.what[:-1]} is anomalous in one input alone.",
        html=f"<div class='gallery'>{''.join(cards)}</div>",
        anchor="disagreements",
    )
