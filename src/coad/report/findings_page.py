"""The page of findings: the headline, the ranked table, a card for each of the first, then the events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coad.core.validation import LEVEL
from coad.findings.finding import top
from coad.report.cards import card, pair_facts, pair_title
from coad.report.drawings import NormalRows
from coad.report.finding_cards import examples_of, finding_card, oddest_pairs
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
from coad.workflows.evaluating import next_step
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored
from coad.workflows.scoring import Source

if TYPE_CHECKING:
    from coad.findings.estimator import Findings

__all__ = ["findings_verdict", "write_findings_page"]

#: Findings that get a card: further down the list hardly anything is worth a look.
_CARDS = 20
#: Rows that are drawn where nothing but the oddest rows can be shown.
_DRAWN = 8


def write_findings_page(
    path: Path,
    model: Findings,
    recipe: Recipe,
    scored: Scored,
    *,
    source: Source | None = None,
    names: str = "",
) -> Study:
    """Write the page of findings to ``path`` (.html).

    Parameters
    ----------
    path
        The HTML file.
    model, recipe
        The findings, and how they read files.
    scored
        The scored pairs, as :func:`coad.workflows.scored.read_scored` gives them.
    source
        The files, to look for a column that explains a shared regime.
    names
        Which model and data these are, for the title.

    Returns
    -------
    Study
    """
    study = Study(scored, model, recipe, source)
    normal = NormalRows(scored, study.flags)
    sections = [
        _table(model),
        _oddest(study, normal, model),
        _cards(study, normal, model),
        numbers_section(study),
        events_section(study),
        null_section(study),
        regimes_section(study),
        labels_section(study),
        checks_section(study),
        settings_section(study, names),
    ]
    write_page(
        path,
        "Findings" + (f" · {names}" if names else ""),
        findings_verdict(study, model),
        [section for section in sections if section is not None],
        page_note(scored),
        tone=tone(study),
    )
    return study


def findings_verdict(study: Study, model: Findings) -> str:
    """What was found in the fit, and what that gives on these pairs."""
    headline = f"{model.headline[0].upper()}{model.headline[1:]}."
    if study.flags.any():
        return f"{headline} On this page: {verdict(study)}"
    step = next_step(study.judgement)
    return f"{headline} {step[0].upper()}{step[1:]}." if step and len(model) else headline


def _table(model: Findings) -> Section:
    table = model.table
    return Section(
        "Findings, in the order that is worth a look",
        "Rare, odd in both inputs, beyond chance and found again come first; what is decided comes last. Odd: how far its "
        "rows stand out among all rows of an input. Beyond chance: the share of its rows that chance does not explain, "
        "with its 95 % interval, on rows held out. Comes back: the share of it that is found without a part of the rows."
        if len(table)
        else "There are none.",
        table=(table.header(), table.lines()) if len(table) else None,
        anchor="findings",
    )


def _cards(study: Study, normal: NormalRows, model: Findings) -> Section | None:
    scored, shown = study.scored, model.table[:_CARDS]
    if not len(shown):
        return None
    cards = [finding_card(scored, one, examples_of(scored, normal, one)) for one in shown]
    text = "All of them" if len(shown) == len(model) else f"The first {len(shown)} of {len(model)}"
    return Section(
        "What they are",
        f"{text}. s and q: the columns that set a finding apart from all rows, in widths of the column. Typical rows of it "
        f"are drawn. {drawings_legend(scored)}",
        html=f"<div class='findings'>{''.join(cards)}</div>",
        anchor="cards",
    )


def _oddest(study: Study, normal: NormalRows, model: Findings) -> Section | None:
    """Where chance explains as much, the rows that are oddest in both inputs."""
    if model.p_value_ <= LEVEL or study.flags.any():
        return None
    scored = study.scored
    rows = oddest_pairs(scored, model.oddest_, model.oddest_percentiles_, len(model.oddest_))
    cards = [
        card(study, normal, pair, pair_title(scored, pair), pair_facts(scored, pair))
        for pair in rows[:_DRAWN].tolist()
    ]
    lines = [
        (
            str(place),
            pair_title(scored, pair),
            f"{int(scored.first[pair]):,}",
            top(2 * float(scored.score[pair])),
        )
        for place, pair in enumerate(rows.tolist(), start=1)
    ]
    return Section(
        f"The {len(rows)} {scored.what} that are oddest in both inputs",
        "Chance alone explains as much as these show, so they are a list to look at and no result. "
        f"{drawings_legend(scored)}",
        html=f"<div class='gallery'>{''.join(cards)}</div>",
        table=(("", "where", "row", "odd in both"), lines),
        anchor="oddest",
    )
