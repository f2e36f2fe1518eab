"""The report page of a CoAD model on some data: the verdict first, then what it is based on."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coad import __version__
from coad.core.labels import label_scores
from coad.core.verdict import NO_COINCIDENCE, SHARED_REGIME
from coad.data.times import time_text
from coad.events.runs import event_spans
from coad.report import model_figures as figures
from coad.report.cards import card, one_sided, pair_facts, pair_title, strongest
from coad.report.checks import checks_table, regime_rows
from coad.report.drawings import NormalRows, shape_kind
from coad.report.model_figures import beta_text
from coad.report.model_settings import settings_section
from coad.report.page import Section, write_page
from coad.report.study import Study
from coad.report.words import alpha_source, p_text, percent, tone, verdict
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored
from coad.workflows.scoring import Source

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["write_model_report"]

#: Cards of events, and of disagreements for each input; lines of the tables of regimes and of events: what fits a page.
_TOP, _ONE_SIDED, _REGIMES, _LISTED = 12, 6, 40, 100


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
        _numbers(study),
        Section(
            "Confidences of both inputs",
            f"Each point is one of {len(scored):,} {scored.what}, placed by the confidence of each input that it is an "
            "anomaly. Those above both thresholds are flagged."
            + (best_only if math.inf in study.rule.thresholds else ""),
            figures.confidence_figure(study),
            after=_sampling(study),
            anchor="confidences",
        ),
        *(_thresholds(study) if study.has_thresholds else [_modes(study)]),
        _null(study),
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
        _events(study),
        _disagreements(study, normal),
        _regimes(study),
        _labels(study),
        Section(
            "Assumptions, and whether they hold",
            "Coincidence is evidence of events only if the inputs are independent of each other in normal operation.",
            table=checks_table(study),
            anchor="checks",
        ),
        settings_section(study, names),
    ]
    write_page(
        path,
        "Coincident events" + (f" · {names}" if names else ""),
        verdict(study),
        [section for section in sections if section is not None],
        f"Made by coad {__version__}. F̂, P̂ and R̂ are estimates without labels; on the rows a model was trained "
        "on they are optimistic. "
        + (f"Left out: {len(scored.bad_files)} unreadable files." if scored.bad_files else ""),
        tone=tone(study),
    )
    return study


def _numbers(study: Study) -> Section:
    found, scored = study.evaluation, study.scored
    rule = f"The rule of the model: {study.rule.words()}."
    if scored.n_dismissed:
        rule += f" {scored.n_dismissed:,} {scored.what} of dismissed kinds are left out."
    if study.status == NO_COINCIDENCE:
        return Section("Estimates", after=rule, anchor="numbers")
    spans = found.intervals
    assert spans.alpha is not None
    rate = found.precision_hat * found.joint_fraction
    cells = [
        (
            f"{len(study.events):,}",
            f"events; {found.flagged:,} flagged {scored.what} ({percent(found.flagged / max(len(scored), 1))})",
        ),
        (
            percent(found.precision_hat),
            f"P̂, flagged {scored.what} not explained by chance{_span(spans.precision_hat)}",
        ),
        (percent(found.recall_hat), f"R̂, found among all that coincides{_span(spans.recall_hat)}"),
        (
            f"{found.fbeta_hat:.2f}",
            f"F̂ at β = {beta_text(found.beta)}, 95 %: {found.interval[0]:.2f} to {found.interval[1]:.2f}",
        ),
        (
            f"{100 * found.alpha:.1f} %",
            f"α, the share of anomalies ({alpha_source(found, study.rule)}); R̂ compares the "
            f"{rate:.2%} that are flagged and not explained by chance with it",
        ),
    ]
    if study.status == SHARED_REGIME:  # not results, so not in large type
        return Section(
            "Estimates, if no regime were shared",
            "While a shared regime is suspected, these figures measure that regime and do not count as results.",
            table=(("", ""), [(name, value) for value, name in cells]),
            after=rule,
            anchor="numbers",
        )
    boxes = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in cells)
    return Section("Estimates", html=f"<div class='numbers'>{boxes}</div>", after=rule, anchor="numbers")


def _span(ends: tuple[float, float]) -> str:
    return f", 95 %: {percent(ends[0])} to {percent(ends[1])}"


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


def _null(study: Study) -> Section:
    figure, scored = figures.null_figure(study), study.scored
    return Section(
        "Against chance",
        "Not tested: nothing is flagged by both inputs."
        if figure is None
        else f"The {scored.what} that the rule flags in both inputs, in the data and in shuffled pairings, which coincide by "
        f"chance only: {p_text(study.evaluation)}."
        + (f" Of {scored.overlap} windows that share samples, one is tested." if scored.overlap > 1 else ""),
        figure,
        anchor="chance",
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
    return Section("Events", f"{text} {_legend(scored)}", html=html, anchor="events")


def _events(study: Study) -> Section | None:
    """The strongest events as a table: when, how long, how many rows."""
    scored, chosen = study.scored, strongest(study, _LISTED)
    if not len(chosen):
        return None
    events = study.events[chosen]
    first, last = scored.first[events.first], scored.last[events.last]
    columns: list[tuple[str, list[str]]] = []
    if scored.time is not None:
        spans = event_spans(events, scored.time, scored.first, scored.last)
        unit = " (s)" if scored.time.dtype.kind == "M" else ""
        columns = [
            ("start", [time_text(one) for one in spans.start]),
            ("end", [time_text(one) for one in spans.end]),
            (f"duration{unit}", [f"{one:.4g}" for one in spans.duration]),
            ("peak", [time_text(one) for one in spans.peak]),
        ]
    if len(scored.files) > 1:
        columns.append(("file", [Path(scored.files[int(i)]).name for i in scored.file[events.peak]]))
    columns += [
        ("first row", [f"{one:,}" for one in first.tolist()]),
        ("rows", [f"{one:,}" for one in (last - first + 1).tolist()]),
        ("p_s·p_q", [f"{one:.3f}" for one in scored.scores.score[events.peak].tolist()]),
    ]
    return Section(
        "List of events",
        f"The {len(chosen):,} strongest of {len(study.events):,} events. An event ends at a gap, a file or a group."
        if len(chosen) < len(study.events)
        else "All events, strongest first. An event ends at a gap, a file or a group.",
        table=(tuple(name for name, _ in columns), list(zip(*(cells for _, cells in columns), strict=True))),
        anchor="list",
    )


_LEGENDS = {
    "wave": "Grey: the 5 to 95 % range of what is not flagged.",
    "bars": "Bars: distance from the median of what is not flagged, in standard deviations.",
    "image": "Images: bright is high.",
}


def _legend(scored: Scored) -> str:
    """The legend of the drawings of both inputs."""
    kinds = [shape_kind(scored.s.shape, scored.s_names), shape_kind(scored.q.shape, scored.q_names)]
    return " ".join(_LEGENDS[kind] for kind in dict.fromkeys(kinds))


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


def _regimes(study: Study) -> Section:
    if study.scored.code is None:
        return Section(
            "By regime",
            "No operating regime was named when the model was fitted (coad fit --context), so chance is counted over "
            "all rows together.",
            anchor="regimes",
        )
    head, rows = regime_rows(study, study.rule)
    return Section(
        "By regime",
        "Chance is counted within each regime. If one regime has nearly all events, they may be that regime itself.",
        table=(head, rows[:_REGIMES]),
        after=f"The {_REGIMES} with most flagged of {len(rows):,} regimes." if len(rows) > _REGIMES else "",
        anchor="regimes",
    )


def _labels(study: Study) -> Section | None:
    truth = study.scored.label
    if truth is None:
        return None
    f1, precision, recall = label_scores(study.flags, truth)
    return Section(
        "Judged by the labels",
        f"Precision {percent(precision)}, recall {percent(recall)}, F1 {f1:.3f}: {int(truth.sum()):,} of {len(truth):,} "
        f"{study.scored.what} are labelled anomalous. The labels were used for this figure only.",
        anchor="labels",
    )
