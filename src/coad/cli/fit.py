"""``coad fit``: files in, a model folder out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._each import EachOption, ProcessesOption, run_each, without_each
from coad.cli._inputs import InputOptions, with_input_options
from coad.cli._options import BackgroundChoice, BackgroundOption, ClusterOption
from coad.cli._print import out
from coad.core.verdict import NO_COINCIDENCE
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.workflows.fitting import FitReport


class Split(StrEnum):
    """How validation rows are held out."""

    auto = "auto"
    random = "random"
    group = "group"
    time = "time"


class Spread(StrEnum):
    """What several processes of torchrun share."""

    rows = "rows"
    starts = "starts"


class Device(StrEnum):
    """Where networks are trained."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


@with_input_options
def fit(
    inputs: InputOptions,
    split: Annotated[
        Split, typer.Option(help="Validation rows: random rows, whole groups, or the latest in time.")
    ] = Split.auto,
    beta: Annotated[
        float, typer.Option(help="Weight of recall against precision: 0: precision only, inf: recall only.")
    ] = 1.0,
    alpha: Annotated[str, typer.Option(help="Anomaly rate in (0, 0.5]; auto: estimate it.")] = "auto",
    starts: Annotated[
        int, typer.Option(help="Trainings from different random starts; the best is kept.")
    ] = 4,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Average all trainings that ended near the best.")
    ] = False,
    not_context: Annotated[
        str | None,
        typer.Option(
            help="Columns (names, globs) that are never suggested as a context: consequences of the fault."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Default: from the number of rows.")] = None,
    spread: Annotated[
        Spread | None,
        typer.Option(
            help="Under torchrun, what processes share: the rows of each batch (default), or starts."
        ),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="Where networks are trained; auto: a GPU if there is one (untried).")
    ] = Device.cpu,
    each: EachOption = None,
    processes: ProcessesOption = None,
    cluster: ClusterOption = None,
    background: BackgroundOption = BackgroundChoice.independent,
) -> None:
    """Train two networks without labels, save the model, and report what was found."""
    from coad.cli._options import notes, number_or_auto
    from coad.cli._progress import on_terminal, progress

    rate = number_or_auto(alpha, "--alpha")
    with ExitStack() as stack:
        stack.enter_context(progress("fitting"))
        from coad.scale.torchrun import process_group
        from coad.workflows.fitting import Training, fit_files  # loads torch, which takes seconds

        training = Training(
            beta=beta,
            alpha=rate,
            n_starts=starts,
            epochs=epochs,
            random_state=inputs.seed,
            split=split.value,
            ordered=not inputs.unordered,
            out_of_core=inputs.out_of_core.value,
            ensemble=ensemble,
            background=background.value,
            device=device.value,
            not_context=tuple(not_context.split(",")) if not_context else (),
            verbose=on_terminal(),
        )
        if each is not None:
            stack.close()  # sources have a line of their own
            with process_group(refuse="--each"):
                run_each(each, inputs, training, cluster=cluster, processes=processes)
            return
        without_each(cluster, processes)
        rank = stack.enter_context(process_group())
        if spread is not None and rank is None:
            raise InputError(
                f"--spread {spread} needs several processes: torchrun --nproc-per-node 2 -m -- coad fit …"
            )
        stack.enter_context(notes())
        source, layout, clocks = inputs.resolve()
        report = fit_files(
            source,
            layout,
            inputs.output,
            clocks=clocks,
            training=replace(training, rank=rank, spread=(spread or Spread.rows).value),
        )
    if not rank:
        _show(report, inputs.output)


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
    if judged.status != NO_COINCIDENCE:
        out(f"F̂, P̂, R̂ and α are estimated on {judged.evaluation.n_rows:,} held-out pairs, the rest is of all")
    show_judgement(judged, model.rule_, windows=layout.window is not None)
    if model.background != "independent":
        out(f"background: {model.background_.kind} ({model.background_.why})")
    if judged.hint is not None:
        out(f"  {judged.hint.command(sys.argv[1:])}")
    out(f"model: {output}")
