"""``coad modes``: files in, a catalogue of regimes and rare kinds out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._inputs import InputOptions, with_input_options
from coad.cli._print import out

if TYPE_CHECKING:
    from coad.data.layout import Layout
    from coad.data.pairs import Pairs
    from coad.modes.estimator import CoincidenceModes


@with_input_options
def modes(
    inputs: InputOptions,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with figures of each mode.")] = None,
    n_modes: Annotated[
        int | None, typer.Option(help="Number of modes to start from; default: at most 40.")
    ] = None,
    max_rare: Annotated[
        float, typer.Option(help="Largest share of rows that a mode may have and be called rare.")
    ] = 0.1,
    starts: Annotated[int, typer.Option(help="Pairs of networks for each of five folds of the rows.")] = 6,
) -> None:
    """Find the regimes and the rare kinds that two inputs share, without labels."""
    from coad.cli._catalogue import show_catalogue
    from coad.cli._options import notes
    from coad.cli._progress import on_terminal, progress
    from coad.exceptions import NoCoincidenceWarning

    if page is not None:
        from coad.data.atomic import check_writable

        check_writable(page)

    def write_page(model: CoincidenceModes, pairs: Pairs, layout: Layout) -> None:
        from coad.report.modes_page import write_modes_page

        if page is not None:
            write_modes_page(model, pairs, layout, page)

    with progress("looking for modes"):
        from coad.modes.transforms import describe_transforms  # loads torch, which takes seconds
        from coad.workflows.fitting import Training
        from coad.workflows.modes import fit_modes_files

        source, layout, clocks = inputs.resolve()
        training = Training(
            n_starts=starts,
            random_state=inputs.seed,
            ordered=not inputs.unordered,
            out_of_core=inputs.out_of_core.value,
            verbose=on_terminal(),
        )
        with notes(but=NoCoincidenceWarning):  # the printed catalogue says it
            report = fit_modes_files(
                source,
                layout,
                inputs.output,
                clocks=clocks,
                training=training,
                max_rare=max_rare,
                n_modes=n_modes,
                then=write_page,
            )
    used, model = report.recipe.layout, report.model
    out(report.summary)
    out(f"s: {', '.join(used.s)}\nq: {', '.join(used.q)}")
    show_catalogue(model.modes_, model.p_value_, model.reason_)
    words = describe_transforms(model.transforms_)
    if words and model.modes_:
        out(words)
    if page is not None:
        out(f"page: {page}")
    out(f"model: {inputs.output}")
