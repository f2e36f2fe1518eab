"""``coad modes``: files in, a catalogue of regimes and rare kinds out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._layout import (
    Align,
    AlignOption,
    ContextBlocksOption,
    Disk,
    DiskOption,
    FileArgument,
    GroupOption,
    LabelOption,
    MaxGapOption,
    Missing,
    MissingOption,
    OutputOption,
    QFileOption,
    QOption,
    SeedOption,
    SFileOption,
    SOption,
    StrideOption,
    TimeOption,
    TimeQOption,
    TimeUnitOption,
    ToleranceOption,
    WindowOption,
    YesOption,
)
from coad.cli._print import number, out, percent, table

if TYPE_CHECKING:
    from coad.data.layout import Layout
    from coad.modes.catalogue import ModeTable
    from coad.workflows.fitting import Training
    from coad.workflows.recipe import Clocks
    from coad.workflows.scoring import Source


def modes(
    file: FileArgument = None,
    s: SOption = "auto",
    q: QOption = "auto",
    output: OutputOption = Path("model"),
    page: Annotated[Path | None, typer.Option(help="An HTML page with pictures of each mode.")] = None,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    align: AlignOption = Align.nearest,
    tolerance: ToleranceOption = None,
    time: TimeOption = None,
    time_q: TimeQOption = None,
    time_unit: TimeUnitOption = None,
    window: WindowOption = None,
    stride: StrideOption = None,
    max_gap: MaxGapOption = None,
    context: Annotated[str | None, typer.Option(help="Columns of a regime that is known already.")] = None,
    context_blocks: ContextBlocksOption = None,
    group: GroupOption = None,
    label: LabelOption = None,
    missing: MissingOption = Missing.error,
    n_modes: Annotated[int | None, typer.Option(help="Modes to start with; default: 40 or fewer.")] = None,
    max_rare: Annotated[float, typer.Option(help="A larger mode is never called rare.")] = 0.1,
    seeds: Annotated[int, typer.Option(help="Networks; a mode must come back in most of them.")] = 6,
    seed: SeedOption = 0,
    disk: DiskOption = Disk.auto,
    yes: YesOption = False,
) -> None:
    """Find every regime and every rare kind that two inputs share, without labels."""
    from coad.cli._options import one_or_two
    from coad.cli._progress import on_terminal
    from coad.cli.fit import taken
    from coad.data.layout import Layout
    from coad.workflows.fitting import Training, propose
    from coad.workflows.recipe import Clocks, check_target

    source = one_or_two(file, s_file, q_file)
    check_target(output)
    if page is not None:
        from coad.data.atomic import check_writable

        check_writable(page)
    layout = Layout(
        s=s,
        q=q,
        context=context or None,
        time=time,
        group=group,
        label=label,
        time_unit=time_unit,
        context_blocks=context_blocks,
        window=window,
        stride=stride,
        max_gap=max_gap,
        missing=missing.value,
    )
    layout, proposal = propose(source, layout)
    if proposal is not None and not taken(proposal, ask=on_terminal() and not yes):
        raise typer.Exit(1)
    training = Training(seeds=seeds, seed=seed, split="auto", disk=disk.value, verbose=on_terminal())
    clocks = Clocks(align.value, tolerance, time_q) if source.two_clocks else None
    fit_and_show(source, layout, output, clocks, training, max_rare=max_rare, n_modes=n_modes, page=page)


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
    from coad.modes.looks import looks_in_words
    from coad.workflows.modes import fit_modes_files

    with notes(but=NoCoincidenceWarning):  # the catalogue says so itself
        report = fit_modes_files(
            source,
            layout,
            output,
            clocks=clocks,
            training=training,
            max_rare=max_rare,
            n_modes=n_modes,
            page=page,
        )
    used = report.recipe.layout
    out(report.summary)
    out(f"s: {', '.join(used.s)}\nq: {', '.join(used.q)}")
    show_catalogue(report.model.modes_, report.model.p_value_, report.model.reason_)
    words = looks_in_words(report.model.looks_)
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
                mode.p_in_words,
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
