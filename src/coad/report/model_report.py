"""The report of a model on some data: the verdict first, then everything it rests on, in one HTML file."""

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
from coad.report.gallery import UsualRows, shape_kind
from coad.report.model_figures import beta_text
from coad.report.model_page import Part, write_report_page
from coad.report.study import Study
from coad.report.words import p_text, percent, tone, verdict
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["write_model_report"]

_TOP, _ONE_SIDED = 12, 6
_REGIMES = 40


def write_model_report(
    path: Path, model: CoAD, recipe: Recipe, scored: Scored, *, study: Study | None = None, names: str = ""
) -> Study:
    """Write the report of scored pairs to ``path`` (.html) and return what it is about.

    ``names`` says in a few words which model and data these are.
    """
    study = Study(scored, model) if study is None else study
    usual = UsualRows(scored, scored.flags(*study.start))
    parts = [
        _numbers(study),
        Part(
            "confidences",
            "What both inputs say",
            f"Each point is one of {len(scored):,} {scored.what}: how sure each input is that it is odd. What lies "
            "beyond both lines is flagged; what is odd in one input alone is not."
            + (
                "" if study.status != NO_COINCIDENCE else " The dotted lines are the best pair, not believed."
            ),
            [figures.confidence_figure(study)],
            after=_sampling(study),
        ),
        _surface(study),
        Part(
            "curve",
            "Precision against recall",
            "The best thresholds for every β, from few sure events (left) to all that can be found (right).",
            [figures.curve_figure(study)] if study.scan else [],
        ),
        Part(
            "beta",
            "β scan",
            "F̂ of the best thresholds for every β. Small β asks for precision, large β for recall.",
            [figures.beta_figure(study)] if study.scan else [],
        ),
        _null(study),
        _training(model, study),
        Part(
            "timeline",
            "When it happened",
            f"{len(study.events):,} events by the strength of their strongest {scored.what[:-1]}, and the share of "
            f"{scored.what} flagged in each eightieth of the data."
            if len(study.events)
            else "No event to show.",
            [figures.timeline_figure(study)] if len(study.events) else [],
            after=f"{figures.DRAWN_EVENTS:,} events are drawn, a fixed sample."
            if len(study.events) > figures.DRAWN_EVENTS
            else "",
        ),
        _top(study, usual),
        _disagreements(study, usual),
        _regimes(study),
        _labels(study),
        Part(
            "checks",
            "Assumptions, and whether they hold",
            "Coincidence proves events only if the inputs are independent of each other in normal operation.",
            table=checks_table(study),
        ),
        _settings(model, recipe, study, names),
    ]
    write_report_page(
        path,
        "Coincident events" + (f" · {names}" if names else ""),
        verdict(study),
        tone(study),
        [part for part in parts if part is not None],
        f"Made by coad {__version__}. F̂, P̂ and R̂ are estimates without labels; on the rows a model was trained "
        "on they flatter. "
        + (f"Left out: {len(scored.bad_files)} unreadable files." if scored.bad_files else ""),
    )
    return study


def _numbers(study: Study) -> Part:
    numbers, test, scored = study.numbers, study.test, study.scored
    intervals = test.intervals if study.set_by_hand is None else None
    cells: list[tuple[str, str]] = []
    if study.status != NO_COINCIDENCE:
        between = {} if intervals is None else asdict(intervals)
        span = {name: f", 95 %: {percent(x[0])} to {percent(x[1])}" for name, x in between.items() if x}
        cells = [
            (f"{len(study.events):,}", f"events, {numbers.n_joint:,} flagged {scored.what}"),
            (percent(numbers.precision_hat), f"P̂, real among flagged{span.get('precision_hat', '')}"),
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
        f"coad score uses, flags {own:,} {scored.what}; {both:,} of them are the same."
    )
    if study.set_by_hand is not None:
        after = "The thresholds are those set in the model."
    if study.status == NO_COINCIDENCE:
        candidate = test.candidate
        after = "The figures below show why: what the search found at best is no more than chance gives."
        if candidate is not None:
            after += (
                f" The best pair of thresholds would flag {candidate.n_joint:,} {scored.what} with "
                f"F̂ = {candidate.fbeta_hat:.2f}."
            )
    return Part(
        "numbers", "The numbers", html=f"<div class='numbers'>{boxes}</div>" if cells else "", after=after
    )


def _sampling(study: Study) -> str:
    flagged = int(study.flags.sum())
    others = len(study.flags) - flagged
    if flagged <= figures.DRAWN_FLAGGED and others <= figures.DRAWN_OTHERS:
        return ""
    return (
        f"{min(others, figures.DRAWN_OTHERS):,} of the others and {min(flagged, figures.DRAWN_FLAGGED):,} of the "
        "flagged are drawn, a fixed random sample; all numbers are of all."
    )


def _surface(study: Study) -> Part:
    surface = study.surface()
    return Part(
        "surface",
        "F̂ over both thresholds",
        "How good every pair of thresholds is. A broad hill is a finding that does not hang on the exact thresholds."
        if surface is not None
        else "An input takes one value in more than half of the rows: there are no thresholds to compare.",
        [] if surface is None else [figures.surface_figure(surface, study)],
    )


def _null(study: Study) -> Part:
    figure = figures.null_figure(study)
    if figure is None:
        return Part("chance", "Against chance", f"Not tested: {study.test.message}.")
    return Part(
        "chance",
        "Against chance",
        f"The same search on {study.test.n_permutations} shuffled pairings of the same values, where nothing can "
        f"coincide but by chance. The test itself compares the evidence for joint events, which is sharper: {p_text(study)}.",
        [figure],
    )


def _training(model: CoAD, study: Study) -> Part:
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
    shown = [figures.history_figure(lines)] if lines else []
    return Part(
        "training",
        "Training, seed by seed",
        "Each seed is an independent start; the best on held-out pairs is kept. Seeds that agree are a good sign."
        + (
            ""
            if shown
            else " The course of the epochs is not in this model's folder; how each seed ended is."
        ),
        shown,
        (("seed", "status", "F̂", "P̂", "R̂", "best epoch"), rows),
    )


def _top(study: Study, usual: UsualRows) -> Part:
    scored = study.scored
    if len(study.events):
        chosen = strongest(study, _TOP)
        cards = [
            card(study, usual, peak, pair_title(scored, peak), pair_facts(scored, peak, int(size)))
            for peak, size in zip(
                study.events.peak[chosen].tolist(), study.events.n_pairs[chosen].tolist(), strict=True
            )
        ]
        text = f"The {len(cards)} strongest of {len(study.events):,} events, both inputs as they were."
    else:
        best = np.argsort(-scored.score, kind="stable")[:4]
        cards = [
            card(study, usual, pair, pair_title(scored, pair), pair_facts(scored, pair))
            for pair in best.tolist()
        ]
        text = f"Nothing is flagged. These are the {scored.what} with the highest p_s·p_q, for a look."
    return Part(
        "events", "Events", f"{text} {_legend(scored)}", html=f"<div class='gallery'>{''.join(cards)}</div>"
    )


_LEGENDS = {
    "wave": "Grey: the usual range (5 to 95 %) of what is not flagged.",
    "bars": "Bars: how far a value lies from the middle of what is not flagged, in deviations.",
    "image": "Images: light is high.",
}


def _legend(scored: Scored) -> str:
    """How to read the drawings of both inputs."""
    kinds = [shape_kind(scored.s.shape, scored.s_names), shape_kind(scored.q.shape, scored.q_names)]
    return " ".join(_LEGENDS[kind] for kind in dict.fromkeys(kinds))


def _disagreements(study: Study, usual: UsualRows) -> Part:
    scored, cards = study.scored, []
    for side in "sq":
        for pair in one_sided(study, side, _ONE_SIDED).tolist():
            title = f"{pair_title(scored, pair)}: seen by {side} only"
            cards.append(card(study, usual, pair, title, pair_facts(scored, pair)))
    return Part(
        "disagreements",
        "Disagreements",
        "Odd in one input and normal in the other: noise of one sensor, or an event that the other cannot see."
        if cards
        else f"None: no {scored.what[:-1]} is odd in one input alone.",
        html=f"<div class='gallery'>{''.join(cards)}</div>",
    )


def _regimes(study: Study) -> Part:
    if study.scored.code is None:
        return Part(
            "regimes",
            "By regime",
            "No operating regime was named when the model was fitted (coad fit --context), so chance is counted over "
            "all rows together.",
        )
    head, rows = regime_rows(study, study.chosen)
    return Part(
        "regimes",
        "By regime",
        "Chance is counted within each regime. A regime that holds nearly all events may be the event.",
        table=(head, rows[:_REGIMES]),
        after=f"The {_REGIMES} with most flagged of {len(rows):,} regimes." if len(rows) > _REGIMES else "",
    )


def _labels(study: Study) -> Part | None:
    truth = study.scored.label
    if truth is None:
        return None
    f1, precision, recall = label_scores(study.flags, truth)
    return Part(
        "labels",
        "Judged by the labels",
        f"Precision {percent(precision)}, recall {percent(recall)}, F1 {f1:.3f}: {int(truth.sum()):,} of {len(truth):,} "
        f"{study.scored.what} are labelled anomalous. The labels judged; they chose nothing.",
    )


def _settings(model: CoAD, recipe: Recipe, study: Study, names: str) -> Part:
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
    table = "<div class='wide'><table class='left'>" + "".join(
        f"<tr><td>{escape(a)}</td><td>{escape(b)}</td></tr>" for a, b in rows
    )
    return Part("settings", "Settings, to do it again", html=table + "</table></div>" + command)


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
