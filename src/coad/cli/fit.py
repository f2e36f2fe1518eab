"""``coad fit``: files in, a model folder out."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._layout import (
    Align,
    AlignOption,
    ContextBlocksOption,
    FileArgument,
    GroupOption,
    LabelOption,
    MaxGapOption,
    Missing,
    MissingOption,
    OutOfCore,
    OutOfCoreOption,
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
    what_to_read,
)
from coad.cli._print import out

if TYPE_CHECKING:
    from coad.workflows.fitting import FitReport


class Split(StrEnum):
    """How validation rows are held out."""

    auto = "auto"
    random = "random"
    group = "group"
    time = "time"


class Method(StrEnum):
    """What is learned."""

    binary = "binary"
    context = "context"
    modes = "modes"
    auto = "auto"


def fit(
    file: FileArgument = None,
    s: SOption = "auto",
    q: QOption = "auto",
    output: OutputOption = Path("model"),
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
    context: Annotated[str | None, typer.Option(help="Columns of the operating regime.")] = None,
    context_blocks: ContextBlocksOption = None,
    group: GroupOption = None,
    label: LabelOption = None,
    split: Annotated[
        Split, typer.Option(help="Held-out rows: random, whole groups, or the latest in time.")
    ] = Split.auto,
    missing: MissingOption = Missing.error,
    beta: Annotated[float, typer.Option(help="0 asks for precision, inf for recall.")] = 1.0,
    alpha: Annotated[str, typer.Option(help="Anomaly rate in (0, 0.5], or auto.")] = "auto",
    starts: Annotated[int, typer.Option(help="Independent trainings; the best is kept.")] = 4,
    ensemble: Annotated[
        bool,
        typer.Option("--ensemble", help="Keep every training that ended near the best; they score together."),
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Default: by the number of rows.")] = None,
    seed: SeedOption = 0,
    method: Annotated[
        Method,
        typer.Option(
            help="One head; one head within discovered regimes; a catalogue of modes; or by held-out evidence."
        ),
    ] = Method.binary,
    out_of_core: OutOfCoreOption = OutOfCore.auto,
    yes: YesOption = False,
) -> None:
    """Learn from two inputs without labels, and say what was found."""
    from coad.cli._options import notes, number_or_auto
    from coad.cli._progress import on_terminal
    from coad.workflows.fitting import Training, fit_files
    from coad.workflows.model_folder import check_target

    rate = number_or_auto(alpha, "--alpha")
    check_target(output)
    source, layout, clocks = what_to_read(
        (file, s_file, q_file),
        align=align,
        tolerance=tolerance,
        time_q=time_q,
        missing=missing,
        yes=yes,
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
    )
    training = Training(
        beta,
        rate,
        starts,
        epochs,
        seed,
        split.value,
        out_of_core.value,
        verbose=on_terminal(),
        ensemble=ensemble,
    )
    wanted = method.value
    if method is Method.auto:
        from coad.workflows.modes import choose_method

        choice = choose_method(source, layout, output, clocks=clocks, training=training)
        wanted = choice.method
        training = replace(training, catalogue=choice.catalogue)
        out(f"method: {choice.method}, because {choice.reason}")
    if wanted == "modes":
        from coad.cli._catalogue import fit_and_show

        given = {"--beta": beta != 1.0, "--alpha": alpha != "auto", "--epochs": epochs is not None}
        given |= {"--ensemble": ensemble, "--split time": split is Split.time}
        for option in (name for name, used in given.items() if used):
            sys.stderr.write(f"note: {option} has no meaning for a catalogue of modes\n")
        fit_and_show(source, layout, output, clocks, training)
        return
    if wanted == "context":
        training = replace(training, method="context")
    with notes():
        report = fit_files(source, layout, output, clocks=clocks, training=training)
    _show(report, output)


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
