"""Fit a catalogue of modes on files and save it as a model folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from coad.data.layout import Layout
from coad.data.pairs import Pairs
from coad.learned.training.progress import Progress
from coad.modes.estimator import CoincidenceModes
from coad.workflows.fitting import Training, read_data, split_of
from coad.workflows.model_folder import check_target, save_model
from coad.workflows.recipe import Clocks, Recipe
from coad.workflows.scoring import Source

__all__ = ["ModesReport", "fit_modes_files"]


@dataclass(frozen=True)
class ModesReport:
    """A fitted catalogue, how its files are read, and the number of pairs."""

    model: CoincidenceModes
    recipe: Recipe
    summary: str
    n_pairs: int


def fit_modes_files(
    source: Source,
    layout: Layout,
    output: Path,
    *,
    clocks: Clocks | None = None,
    training: Training,
    max_rare: float = 0.1,
    n_modes: int | None = None,
    then: Callable[[CoincidenceModes, Pairs, Layout], None] | None = None,
) -> ModesReport:
    """Fit a :class:`~coad.CoincidenceModes` on files and save it.

    Parameters
    ----------
    source, layout, output, clocks, training
        As for :func:`coad.workflows.fitting.fit_files`.
    max_rare, n_modes
        As for :class:`~coad.CoincidenceModes`.
    then : callable, optional
        Called with the catalogue, the pairs, which may be in a temporary folder, and their columns.

    Returns
    -------
    ModesReport
    """
    target = check_target(output)
    source.check()
    layout = layout.without_label()
    with ExitStack() as stack:
        with Progress("reading"):
            data = read_data(source, layout, clocks, training.out_of_core, target, stack)
        pairs = data.pairs
        model = _model(training, max_rare, n_modes).fit(pairs.with_group(_group(pairs, training)))
        save_model(model, data.recipe, target)
        if then is not None:
            then(model, pairs, data.recipe.layout)
        return ModesReport(model, data.recipe, data.summary, len(pairs))


def _model(training: Training, max_rare: float, n_modes: int | None) -> CoincidenceModes:
    return CoincidenceModes(
        n_modes=n_modes,
        max_rare=max_rare,
        n_starts=training.n_starts,
        random_state=training.random_state,
        ordered=training.ordered,
        verbose=training.verbose,
    )


def _group(pairs: Pairs, training: Training) -> NDArray[Any] | None:
    how, group = split_of(pairs, training.split)
    return group if how == "group" else None
