"""The options that ``fit`` and ``modes`` share: which columns, which clocks, which windows, which regimes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._print import out

if TYPE_CHECKING:
    from coad.data.layout import Layout
    from coad.workflows.recipe import Clocks
    from coad.workflows.scoring import Source
    from coad.workflows.slices import Slices


class Missing(StrEnum):
    """What to do with missing values."""

    error = "error"
    drop = "drop"
    mean = "mean"
    interpolate = "interpolate"


class Align(StrEnum):
    """How two clocks are brought together."""

    nearest = "nearest"
    interpolate = "interpolate"
    hold = "hold"


class OutOfCore(StrEnum):
    """Where the training data live."""

    auto = "auto"
    always = "always"
    never = "never"


FileArgument = Annotated[
    Path | None, typer.Argument(help="Table, array file, folder or glob.", show_default=False)
]
SOption = Annotated[str, typer.Option("--s", help="Columns of s: names, globs, /regex/, or auto.")]
QOption = Annotated[str, typer.Option("--q", help="Columns of q, likewise.")]
OutputOption = Annotated[Path, typer.Option("--out", help="Folder for the model.")]
SFileOption = Annotated[
    Path | None, typer.Option(help="Source of s, if q has a source and clock of its own.")
]
QFileOption = Annotated[Path | None, typer.Option(help="Source of q.")]
AlignOption = Annotated[Align, typer.Option(help="How q is brought to the clock of s.")]
ToleranceOption = Annotated[str | None, typer.Option(help="Largest distance of two clocks, like 50ms.")]
TimeOption = Annotated[str | None, typer.Option(help="Column of the time.")]
TimeQOption = Annotated[str | None, typer.Option(help="Its name in --q-file, if another.")]
TimeUnitOption = Annotated[
    str | None, typer.Option(help="s, ms, us, ns or number, if not told by the values.")
]
WindowOption = Annotated[str | None, typer.Option(help="Window in samples (64) or time (250ms).")]
StrideOption = Annotated[
    str | None,
    typer.Option("--stride", "--hop", help="From one window to the next; default: the window."),
]
MaxGapOption = Annotated[str | None, typer.Option(help="A longer step in time breaks windows.")]
ContextBlocksOption = Annotated[str | None, typer.Option(help="Blocks of time as regimes, like 10min.")]
GroupOption = Annotated[str | None, typer.Option(help="Column of what a split must not tear apart.")]
LabelOption = Annotated[
    str | None, typer.Option(help="Column of labels, if there is one: left alone, for judging only.")
]
MissingOption = Annotated[Missing, typer.Option(help="Rows with missing values.")]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]
OutOfCoreOption = Annotated[
    OutOfCore, typer.Option(help="Train from disk: if the data do not fit in memory, always, never.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Take the proposed columns without asking.")]


def what_to_read(
    files: tuple[Path | None, Path | None, Path | None],
    *,
    align: Align,
    tolerance: str | None,
    time_q: str | None,
    missing: Missing,
    yes: bool,
    **layout: Any,
) -> tuple[Source, Layout, Clocks | None]:
    """The source, the layout and the clocks that the options name; columns are proposed where they say auto.

    ``files`` are the one file, or those of s and of q; ``layout`` has the other fields of a
    :class:`~coad.data.layout.Layout`. Without ``yes``, a person at a terminal is asked about proposed columns.
    """
    from coad.cli._options import one_or_two
    from coad.cli._progress import on_terminal
    from coad.data.layout import Layout
    from coad.workflows.fitting import propose
    from coad.workflows.recipe import Clocks

    source = one_or_two(*files)
    wanted, proposal = propose(source, Layout(missing=missing.value, **layout))
    if proposal is not None and not _taken(proposal, ask=on_terminal() and not yes):
        raise typer.Exit(1)
    return source, wanted, Clocks(align.value, tolerance, time_q) if source.two_clocks else None


def _taken(proposal: Slices, *, ask: bool) -> bool:
    """Show the proposed columns with their reason; on a terminal the user decides."""
    import shlex

    out(f"proposed: --s {shlex.quote(','.join(proposal.s))} --q {shlex.quote(','.join(proposal.q))}")
    out(f"because {proposal.reason}")
    return not ask or typer.confirm("Take it?", default=True)
