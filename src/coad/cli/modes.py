"""``coad modes``: files in, a catalogue of regimes and rare kinds out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import number, out, percent, table
from coad.cli.fit import Align, Disk, Missing, Split

if TYPE_CHECKING:
    from coad.fitting import Training
    from coad.io.layout import Layout
    from coad.modes.catalogue import ModeTable
    from coad.recipe import Clocks
    from coad.scoring import Source


def modes(
    file: Annotated[
        Path | None, typer.Argument(help="Table, array file, folder or glob.", show_default=False)
    ] = None,
    s: Annotated[str, typer.Option("--s", help="Columns of s: names, globs, /regex/, or auto.")] = "auto",
    q: Annotated[str, typer.Option("--q", help="Columns of q, likewise.")] = "auto",
    output: Annotated[Path, typer.Option("--out", help="Folder for the model.")] = Path("model"),
    page: Annotated[Path | None, typer.Option(help="An HTML page with pictures of each mode.")] = None,
    s_file: Annotated[
        Path | None, typer.Option(help="Source of s, if q has a source and clock of its own.")
    ] = None,
    q_file: Annotated[Path | None, typer.Option(help="Source of q.")] = None,
    align: Annotated[Align, typer.Option(help="How q is brought to the clock of s.")] = Align.nearest,
    tolerance: Annotated[str | None, typer.Option(help="Largest distance of two clocks, like 50ms.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the time.")] = None,
    time_q: Annotated[str | None, typer.Option(help="Its name in --q-file, if another.")] = None,
    time_unit: Annotated[
        str | None, typer.Option(help="s, ms, us, ns or number, if not told by the values.")
    ] = None,
    window: Annotated[str | None, typer.Option(help="Window in samples (64) or time (250ms).")] = None,
    stride: Annotated[
        str | None,
        typer.Option("--stride", "--hop", help="From one window to the next; default: the window."),
    ] = None,
    max_gap: Annotated[str | None, typer.Option(help="A longer step in time breaks windows.")] = None,
    context: Annotated[str | None, typer.Option(help="Columns of a regime that is known already.")] = None,
    context_blocks: Annotated[str | None, typer.Option(help="Blocks of time as regimes, like 10min.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of what a split must not tear apart.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels, if there is one: left alone, for judging only.")
    ] = None,
    missing: Annotated[Missing, typer.Option(help="Rows with missing values.")] = Missing.error,
    n_modes: Annotated[int | None, typer.Option(help="Modes to start with; default: 30 or fewer.")] = None,
    max_rare: Annotated[float, typer.Option(help="A larger mode is never called rare.")] = 0.1,
    seeds: Annotated[int, typer.Option(help="Networks; a mode must come back in most of them.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    disk: Annotated[
        Disk, typer.Option(help="Train from disk: if the data do not fit in memory, always, never.")
    ] = Disk.auto,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take the proposed columns without asking.")
    ] = False,
) -> None:
    """Find every regime and every rare kind that two inputs share, without labels."""
    from coad.cli._options import one_or_two
    from coad.cli._progress import on_terminal
    from coad.cli.fit import _taken
    from coad.fitting import Training, propose
    from coad.io.layout import Layout
    from coad.recipe import Clocks, check_target

    source = one_or_two(file, s_file, q_file)
    check_target(output)
    if page is not None:
        from coad._files import check_writable

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
    if proposal is not None and not _taken(proposal, ask=on_terminal() and not yes):
        raise typer.Exit(1)
    training = Training(
        seeds=seeds, seed=seed, split=Split.auto.value, disk=disk.value, verbose=on_terminal()
    )
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
    from coad.modes.fitting import fit_modes_files

    with notes():
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
    show_catalogue(report.model.modes_, report.model.p_value_)
    if page is not None:
        out(f"pictures: {page}")
    out(f"model: {output}")


def show_catalogue(found: ModeTable, p_value: float) -> None:
    """The catalogue as a table, rarest first, with the reason of each role below it."""
    if not found:
        out(f"no coincident modes (p = {p_value:.2g}); nothing will be flagged")
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
                f"{mode.p_value:.1g}",
                number(mode.stability, 2),
            )
            for mode in found
        ],
    )
    for mode in found:
        out(f"  mode {mode.mode}: {mode.role}, {mode.reason}")
