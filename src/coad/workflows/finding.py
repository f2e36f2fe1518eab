"""Look for findings in files, keep them as a model folder, and decide about them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coad.data.layout import Layout
from coad.exceptions import InputError
from coad.findings.estimator import Findings
from coad.learned.training.progress import Progress
from coad.workflows.fitting import Training, read_data
from coad.workflows.model_folder import check_target, load, save_model
from coad.workflows.recipe import Clocks, Recipe
from coad.workflows.scoring import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coad.findings.finding import Decision

__all__ = ["FindReport", "decide", "find_in_files", "load_findings"]


@dataclass(frozen=True)
class FindReport:
    """What was found, and how its files are read."""

    model: Findings
    recipe: Recipe
    summary: str


def find_in_files(
    source: Source,
    layout: Layout,
    output: Path,
    *,
    clocks: Clocks | None = None,
    training: Training,
    max_rare: float = 0.1,
    lenses: Sequence[str],
    scorers: Sequence[str] = (),
) -> FindReport:
    """Look for findings in files and save them.

    Parameters
    ----------
    source, layout, output, clocks, training
        As for :func:`coad.workflows.fitting.fit_files`.
    max_rare, lenses, scorers
        As for :func:`coad.find`.

    Returns
    -------
    FindReport
    """
    target = check_target(output)
    source.check()
    layout = layout.without_label()
    with ExitStack() as stack:
        with Progress("reading"):
            data = read_data(source, layout, clocks, training.out_of_core, target, stack)
        model = Findings(
            max_rare=max_rare,
            lenses=tuple(lenses),
            scorers=tuple(scorers),
            ordered=training.ordered,
            random_state=training.random_state,
            verbose=training.verbose,
        ).fit(data.pairs)
        save_model(model, data.recipe, target)
        return FindReport(model, data.recipe, data.summary)


def load_findings(folder: Path) -> Findings:
    """The findings of a folder that ``coad find`` or ``Findings.save`` wrote."""
    model = load(folder)
    if not isinstance(model, Findings):
        raise InputError(f"{folder} holds no findings; coad find writes them")
    return model


def decide(folder: Path, number: int, decision: Decision | None) -> Findings:
    """Say what a finding of a folder is, and keep it there.

    Parameters
    ----------
    folder
        The model folder.
    number, decision
        As for :meth:`coad.Findings.decide`.

    Returns
    -------
    Findings
        With the decision.
    """
    model = load_findings(folder).decide(number, decision)
    model.save(folder)
    return model
