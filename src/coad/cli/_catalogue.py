"""A catalogue of modes on the terminal: what ``modes``, ``fit`` and ``role`` print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coad.cli._print import number, out, percent, table

if TYPE_CHECKING:
    from coad.data.layout import Layout
    from coad.data.pairs import Pairs
    from coad.modes.catalogue import ModeTable
    from coad.modes.estimator import CoincidenceModes
    from coad.workflows.fitting import Training
    from coad.workflows.recipe import Clocks
    from coad.workflows.scoring import Source


def fit_and_show(
    source: Source,
    layout: Layout,
    output: Path,
    clocks: Clocks | None,
    training: Training,
    *,
    max_rare: float = 0.1,
    n_modes: int | None = None,
    page: Path | None = None,
) -> None:
    """Fit a catalogue, save it and print it, rarest first."""
    from coad.cli._options import notes
    from coad.exceptions import NoCoincidenceWarning
    from coad.modes.transforms import describe_transforms
    from coad.workflows.modes import fit_modes_files

    def write_page(model: CoincidenceModes, pairs: Pairs) -> None:
        from coad.report.modes_page import write_modes_page

        assert page is not None
        write_modes_page(model, pairs, page)

    with notes(but=NoCoincidenceWarning):  # the catalogue says so itself
        report = fit_modes_files(
            source,
            layout,
            output,
            clocks=clocks,
            training=training,
            max_rare=max_rare,
            n_modes=n_modes,
            then=None if page is None else write_page,
        )
    used = report.recipe.layout
    out(report.summary)
    out(f"s: {', '.join(used.s)}\nq: {', '.join(used.q)}")
    show_catalogue(report.model.modes_, report.model.p_value_, report.model.reason_)
    words = describe_transforms(report.model.transforms_)
    if words and report.model.modes_:
        out(words)
    if page is not None:
        out(f"pictures: {page}")
    out(f"model: {output}")


def show_catalogue(found: ModeTable, p_value: float, reason: str = "") -> None:
    """The catalogue as a table, rarest first, with the reason of each role below it."""
    from coad.modes.catalogue import STABLE

    if not found:
        out(f"no coincident modes: {reason or f'p = {p_value:.2g}'}; nothing will be flagged")
        return
    out(f"{len(found)} modes, {len(found.rare)} of them rare (p = {p_value:.2g} for the whole table)")
    table(
        ("mode", "role", "rows", "size", "P̂", "support", "p-value", "stability"),
        [
            (
                str(mode.mode),
                mode.role,
                f"{mode.rows:,}",
                percent(mode.size),
                number(mode.precision_hat, 2),
                percent(mode.support),
                mode.p_value_text,
                number(mode.stability, 2),
            )
            for mode in found
        ],
    )
    because: dict[tuple[str, str], list[str]] = {}
    for mode in found:
        because.setdefault((mode.role, mode.reason), []).append(str(mode.mode))
    for (role, reason), which in because.items():
        out(f"  {'mode' if len(which) == 1 else 'modes'} {', '.join(which)}: {role}, {reason}")
    if found.unstable:
        out(
            f"stability below {STABLE}: {len(found.unstable)} of them, whose borders are not sure; they are pieces of a "
            "continuum, or kinds of very few rows"
        )
