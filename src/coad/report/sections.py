"""Sections that the pages of all kinds of models share: estimates, chance, events, regimes, labels, assumptions."""

from __future__ import annotations

from html import escape
from pathlib import Path

from coad import __version__
from coad.core.labels import label_scores
from coad.core.verdict import NO_COINCIDENCE, SHARED_REGIME
from coad.data.times import time_text
from coad.events.runs import event_spans
from coad.report import model_figures as figures
from coad.report.cards import strongest
from coad.report.checks import checks_table, regime_rows
from coad.report.drawings import shape_kind
from coad.report.model_figures import beta_text
from coad.report.page import Section
from coad.report.study import Study
from coad.report.words import alpha_source, p_text, percent
from coad.workflows.scored import Scored

__all__ = [
    "checks_section",
    "drawings_legend",
    "events_section",
    "labels_section",
    "null_section",
    "numbers_section",
    "page_note",
    "regimes_section",
]

#: Lines of the tables of regimes and of events: what fits a page.
_REGIMES, _LISTED = 40, 100


def numbers_section(study: Study) -> Section:
    """P̂, R̂ and F̂ of the rule in boxes; a table if they do not count as results."""
    found, scored = study.evaluation, study.scored
    rule = f"The rule of the model: {study.rule.words()}."
    if scored.n_dismissed:
        rule += f" {scored.n_dismissed:,} {scored.what} of {'ignored findings' if study.rule.findings else 'dismissed kinds'} are left out."
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


def null_section(study: Study) -> Section:
    """The joint pairs of the data among those of shuffled pairings."""
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


def events_section(study: Study) -> Section | None:
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
        (
            "p_s·p_q" if study.has_thresholds else "score",
            [f"{one:.3f}" for one in scored.scores.score[events.peak].tolist()],
        ),
    ]
    if scored.mode is not None:
        name = "finding" if study.rule.findings else "mode"
        columns.append((name, [str(one) for one in scored.mode[events.peak].tolist()]))
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


def drawings_legend(scored: Scored) -> str:
    """The legend of the drawings of both inputs."""
    kinds = [shape_kind(scored.s.shape, scored.s_names), shape_kind(scored.q.shape, scored.q_names)]
    return " ".join(_LEGENDS[kind] for kind in dict.fromkeys(kinds))


def regimes_section(study: Study) -> Section:
    """The results within each regime."""
    if study.scored.code is None:
        return Section(
            "By regime",
            "No operating regime was named when the model was fitted (--context), so chance is counted over "
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


def labels_section(study: Study) -> Section | None:
    """Precision and recall by the labels, if there are any."""
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


def checks_section(study: Study) -> Section:
    """What the result assumes, and whether it holds."""
    return Section(
        "Assumptions, and whether they hold",
        "Coincidence is evidence of events only if the inputs are independent of each other in normal operation.",
        table=checks_table(study),
        anchor="checks",
    )


def page_note(scored: Scored) -> str:
    """The footnote of a page."""
    left_out = f"Left out: {len(scored.bad_files)} unreadable files." if scored.bad_files else ""
    return (
        f"Made by coad {__version__}. F̂, P̂ and R̂ are estimates without labels; on the rows a model was trained on they are "
        f"optimistic. {left_out}"
    )
