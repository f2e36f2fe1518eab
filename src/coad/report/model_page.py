"""The report page of a CoAD model on some data: the verdict first, then what it is based on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad import __version__
from coad.core.labels import label_scores
from coad.core.verdict import NO_COINCIDENCE
from coad.report import model_figures as figures
from coad.report.cards import card, one_sided, pair_facts, pair_title, strongest
from coad.report.checks import checks_table, regime_rows
from coad.report.data import Scored
from coad.report.drawings import NormalRows, shape_kind
from coad.report.model_figures import beta_text
from coad.report.page import Section, html_table, write_page
from coad.report.study import Study
from coad.report.words import p_text, percent, tone, verdict
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["write_model_report"]

#: Cards of events, and of disagreements for each input; lines of the table of regimes: what fits a page.
_TOP, _ONE_SIDED, _REGIMES = 12, 6, 40


def write_model_report(
    path: Path, model: CoAD, recipe: Recipe, scored: Scored, *, study: Study | None = None, names: str = ""
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
    study : Study, optional
        The study of these pairs, if there is one already.
    names : str
        Which model and data these are, for the title.

    Returns
    -------
    study : Study
    """
    study = Study(scored, model) if study is None else study
    normal = NormalRows(scored, scored.flags(*study.start))
    best_only = " The dotted lines are the best pair, which is not significant."
    sections = [
        _numbers(study),
        Section(
            "Confidences of both inputs",
            f"Each point is one of {len(scored):,} {scored.what}, placed by the confidence of each input that it is an "
            "anomaly. Those above both thresholds are flagged."
            + (best_only if study.status == NO_COINCIDENCE else ""),
            figures.confidence_figure(study),
            after=_sampling(study),
            anchor="confidences",
        ),
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
        _null(study),
        _training(model),
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
        _disagreements(study, normal),
        _regimes(study),
        _labels(study),
        Section(
            "Assumptions, and whether they hold",
            "Coincidence is evidence of events only if the inputs are independent of each other in normal operation.",
            table=checks_table(study),
            anchor="checks",
        ),
        _settings(model, recipe, study, names),
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
    numbers, test, scored = study.numbers, study.test, study.scored
    intervals = test.intervals if study.set_by_hand is None else None
    cells: list[tuple[str, str]] = []
    if study.status != NO_COINCIDENCE:
        between = {} if intervals is None else asdict(intervals)
        span = {
            name: f", 95 %: {percent(ends[0])} to {percent(ends[1])}"
            for name, ends in between.items()
            if ends
        }
        cells = [
            (f"{len(study.events):,}", f"events, {numbers.n_joint:,} flagged {scored.what}"),
            (percent(numbers.precision_hat), f"P̂, not explained by chance{span.get('precision_hat', '')}"),
            (percent(numbers.recall_hat), f"R̂, found among all{span.get('recall_hat', '')}"),
            (
                f"{numbers.fbeta_hat:.2f}",
                f"F̂ at β = {beta_text(study.beta)}"
                + (
                    ""
                    if intervals is None
                    else f", 95 %: {intervals.fbeta_hat[0]:.2f} to {intervals.fbeta_hat[1]:.2f}"
                ),
            ),
            (percent(study.alpha), f"α, anomaly rate ({'given' if study.alpha_given else 'estimated here'})"),
            (f"{numbers.threshold_s:.4g} / {numbers.threshold_q:.4g}", "thresholds of p_s / p_q"),
        ]
    boxes = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in cells)
    own = int(scored.flag.sum())
    both = int((scored.flag & study.flags).sum())
    after = (
        f"The thresholds are those with the highest F̂ on these {scored.what}. The rule saved in the model, which "
        f"coad score uses, flags {own:,} {scored.what}; {both:,} of these are flagged here too."
    )
    if study.set_by_hand is not None:
        after = "The thresholds are those set in the model."
    if study.status == NO_COINCIDENCE:
        candidate = test.candidate
        after = "The figures below show why: the best that the search found is no more than chance gives."
        if candidate is not None:
            after += (
                f" The best pair of thresholds would flag {candidate.n_joint:,} {scored.what} with "
                f"F̂ = {candidate.fbeta_hat:.2f}."
            )
    return Section(
        "Estimates",
        html=f"<div class='numbers'>{boxes}</div>" if cells else "",
        after=after,
        anchor="numbers",
    )


def _sampling(study: Study) -> str:
    flagged = int(study.flags.sum())
    others = len(study.flags) - flagged
    if flagged <= figures.DRAWN_FLAGGED and others <= figures.DRAWN_OTHERS:
        return ""
    return (
        f"{min(others, figures.DRAWN_OTHERS):,} of the others and {min(flagged, figures.DRAWN_FLAGGED):,} of the "
        "flagged are drawn, a fixed random sample; all numbers are for all rows."
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
    figure = figures.null_figure(study)
    return Section(
        "Against chance",
        f"Not tested: {study.test.message}."
        if figure is None
        else f"The same search on {study.test.n_permutations} shuffled pairings, which coincide by chance only. The test "
        f"itself compares the evidence for joint events, which has more power: {p_text(study)}.",
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
            card(study, normal, peak, pair_title(scored, peak), pair_facts(scored, peak, int(size)))
            for peak, size in zip(
                study.events.peak[chosen].tolist(), study.events.n_pairs[chosen].tolist(), strict=True
            )
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
    head, rows = regime_rows(study, study.chosen)
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


def _settings(model: CoAD, recipe: Recipe, study: Study, names: str) -> Section:
    own = next(iter(model.fitted_.values()))
    files: Sequence[str] = study.scored.files
    rows = [
        ("model and data", names or "–"),
        (
            "files",
            ", ".join(Path(one).name for one in files[:10])
            + (f" and {len(files) - 10:,} more" if len(files) > 10 else ""),
        ),
        ("rows read", f"{study.scored.n_rows:,}, {len(study.scored):,} {study.scored.what}"),
        ("β", beta_text(study.beta)),
        ("α in training", f"{model.alpha_:.4g} ({model.alpha_how_})"),
        ("seed", f"{model.random_state_}; kept: {', '.join(map(str, sorted(own.ensemble)))}"),
        ("rule saved in the model", _rule(own)),
        ("trained", f"{own.status}, p = {own.p_value:.3g}"),
        ("coad", __version__),
    ]
    layout = json.dumps(recipe.to_dict(), indent=1, ensure_ascii=False)
    command = f"<pre>{escape(fit_command(recipe, model))}</pre><pre>{escape(layout[:6000])}</pre>"
    html = html_table((), rows, left=True) + command
    return Section("Settings, to reproduce this", html=html, anchor="settings")


def _rule(own: Any) -> str:
    if own.thresholds is not None:
        return f"p_s > {own.thresholds[0]:.4g} and p_q > {own.thresholds[1]:.4g}"
    return f"p_s·p_q > {own.threshold:g}"


def fit_command(recipe: Recipe, model: CoAD) -> str:
    """The command that fits such a model again."""
    layout = recipe.layout
    parts = ["coad", "fit", "DATA" if recipe.clocks is None else "--s-file S --q-file Q"]
    for name, value in (
        ("s", ",".join(layout.s)),
        ("q", ",".join(layout.q)),
        ("context", ",".join(layout.context or ())),
        ("time", layout.time),
        ("time-format", layout.time_format),
        ("long", layout.long),
        ("window", layout.window),
        ("stride", layout.stride),
        ("context-blocks", layout.context_blocks),
        ("group", layout.group),
        ("missing", None if layout.missing == "error" else layout.missing),
        ("beta", beta_text(float(next(iter(model.fitted_)))).replace("∞", "inf")),
        ("alpha", None if model.alpha == "auto" else model.alpha),
        ("seeds", model.n_starts),
        ("epochs", model.epochs),
        ("seed", model.random_state_),
    ):
        if value not in (None, ""):
            parts.append(f"--{name} {shlex.quote(str(value))}")
    return " ".join([*parts, "--ensemble"] if model.ensemble else parts)
