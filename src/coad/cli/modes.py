"""``coad modes``: files in, a catalogue of regimes and rare kinds out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    starts: Annotated[int, typer.Option(help="Networks; a mode must come back in most of them.")] = 6,
    seed: SeedOption = 0,
    out_of_core: OutOfCoreOption = OutOfCore.auto,
    yes: YesOption = False,
) -> None:
    """Find every regime and every rare kind that two inputs share, without labels."""
    from coad.cli._catalogue import fit_and_show
    from coad.cli._progress import on_terminal
    from coad.workflows.fitting import Training
    from coad.workflows.model_folder import check_target

    check_target(output)
    if page is not None:
        from coad.data.atomic import check_writable

        check_writable(page)
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
        starts=starts, seed=seed, split="auto", out_of_core=out_of_core.value, verbose=on_terminal()
    )
    fit_and_show(source, layout, output, clocks, training, max_rare=max_rare, n_modes=n_modes, page=page)
