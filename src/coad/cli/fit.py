"""``coad fit``: files in, a model folder out."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import out

if TYPE_CHECKING:
    from coad.fitting import FitReport
    from coad.slices import Slices


class Missing(StrEnum):
    """What to do with missing values."""

    error = "error"
    drop = "drop"
    mean = "mean"
    interpolate = "interpolate"


class Split(StrEnum):
    """How validation rows are held out."""

    auto = "auto"
    random = "random"
    group = "group"
    time = "time"


class Align(StrEnum):
    """How two clocks are brought together."""

    nearest = "nearest"
    interpolate = "interpolate"
    hold = "hold"


class Method(StrEnum):
    """What is learned."""

    binary = "binary"
    context = "context"
    modes = "modes"
    auto = "auto"


class Disk(StrEnum):
    """Where the training data live."""

    auto = "auto"
    always = "always"
    never = "never"


def fit(
    file: Annotated[
        Path | None, typer.Argument(help="Table, array file, folder or glob.", show_default=False)
    ] = None,
    s: Annotated[str, typer.Option("--s", help="Columns of s: names, globs, /regex/, or auto.")] = "auto",
    q: Annotated[str, typer.Option("--q", help="Columns of q, likewise.")] = "auto",
    output: Annotated[Path, typer.Option("--out", help="Folder for the model.")] = Path("model"),
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
    context: Annotated[str | None, typer.Option(help="Columns of the operating regime.")] = None,
    context_blocks: Annotated[str | None, typer.Option(help="Blocks of time as regimes, like 10min.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of what a split must not tear apart.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels, if there is one: left alone, for judging only.")
    ] = None,
    split: Annotated[
        Split, typer.Option(help="Held-out rows: random, whole groups, or the latest in time.")
    ] = Split.auto,
    missing: Annotated[Missing, typer.Option(help="Rows with missing values.")] = Missing.error,
    beta: Annotated[float, typer.Option(help="0 asks for precision, inf for recall.")] = 1.0,
    alpha: Annotated[str, typer.Option(help="Anomaly rate in (0, 0.5], or auto.")] = "auto",
    seeds: Annotated[int, typer.Option(help="Independent trainings; the best is kept.")] = 4,
    epochs: Annotated[int | None, typer.Option(help="Default: by the number of rows.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    method: Annotated[
        Method,
        typer.Option(
            help="One head; one head within discovered regimes; a catalogue of modes; or by held-out evidence."
        ),
    ] = Method.binary,
    disk: Annotated[
        Disk, typer.Option(help="Train from disk: if the data do not fit in memory, always, never.")
    ] = Disk.auto,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take the proposed columns without asking.")
    ] = False,
) -> None:
    """Learn from two inputs without labels, and say what was found."""
    from coad.cli._options import notes, number_or_auto, one_or_two
    from coad.cli._progress import on_terminal
    from coad.fitting import Training, fit_files, propose
    from coad.io.layout import Layout
    from coad.recipe import Clocks, check_target

    source = one_or_two(file, s_file, q_file)
    rate = number_or_auto(alpha, "--alpha")
    check_target(output)
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
    training = Training(beta, rate, seeds, epochs, seed, split.value, disk.value, verbose=on_terminal())
    clocks = Clocks(align.value, tolerance, time_q) if source.two_clocks else None
    wanted = method.value
    if method is Method.auto:
        from coad.modes.fitting import choose_method

        choice = choose_method(source, layout, output, clocks=clocks, training=training)
        wanted = choice.method
        out(f"method: {choice.method}, because {choice.reason}")
    if wanted == "modes":
        from coad.cli.modes import fit_and_show

        fit_and_show(source, layout, output, clocks, training)
        return
    if wanted == "context":
        training = replace(training, method="context")
    with notes():
        report = fit_files(source, layout, output, clocks=clocks, training=training)
    _show(report, output)


def _taken(proposal: Slices, *, ask: bool) -> bool:
    """Show the proposed columns with their reason; on a terminal the user decides."""
    import shlex

    out(f"proposed: --s {shlex.quote(','.join(proposal.s))} --q {shlex.quote(','.join(proposal.q))}")
    out(f"because {proposal.reason}")
    return not ask or typer.confirm("Take it?", default=True)


def _show(report: FitReport, output: Path) -> None:
    from coad.cli._options import show_judgement

    layout, judged, model = report.recipe.layout, report.judgement, report.model
    out(f"{report.summary}{'; trained from disk' if report.on_disk else ''}")
    out(f"s: {', '.join(layout.s)}\nq: {', '.join(layout.q)}")
    if report.regimes:
        smallest = min(report.regimes, key=lambda one: report.regimes[one])
        out(
            f"{len(report.regimes):,} regimes; the smallest, {smallest}, has {report.regimes[smallest]:,} pairs"
        )
    out(f"F̂, P̂ and R̂ are of the {judged.n_judged:,} held-out pairs")
    show_judgement(judged, model.alpha_, model.alpha_how_, windows=layout.window is not None)
    if judged.hint is not None:
        out(f"{judged.hint.sentence}; try:\n  {judged.hint.command(sys.argv[1:])}")
    elif judged.status == "shared regime suspected":
        out("no other column of the table explains it; name the regime with --context or --context-blocks")
    out(f"model: {output}")
