"""From files to a saved catalogue, and the choice between the methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from coad.data.layout import Layout
from coad.data.pairs import Pairs
from coad.exceptions import NoCoincidenceWarning
from coad.modes.catalogue import STABLE
from coad.modes.estimator import CoincidenceModes
from coad.workflows.fitting import Training, read_data, split_of
from coad.workflows.model_folder import check_target, save_model
from coad.workflows.recipe import Clocks, Recipe
from coad.workflows.scoring import Source

__all__ = ["Choice", "ModesReport", "choose_method", "fit_modes_files"]


@dataclass(frozen=True)
class ModesReport:
    """A fitted catalogue, how its files are read, and the pairs it was made from."""

    model: CoincidenceModes
    recipe: Recipe
    summary: str
    n_pairs: int


@dataclass(frozen=True)
class Choice:
    """A method, the evidence for it, and the catalogue that it speaks from."""

    method: str
    reason: str
    catalogue: CoincidenceModes


def fit_modes_files(
    source: Source,
    layout: Layout,
    output: Path,
    *,
    clocks: Clocks | None = None,
    training: Training,
    max_rare: float = 0.1,
    n_modes: int | None = None,
    then: Callable[[CoincidenceModes, Pairs], None] | None = None,
) -> ModesReport:
    """Fit a :class:`CoincidenceModes` on files, save it with its layout.

    ``then`` is called with the catalogue and its pairs, which may be on disk only as long as this runs.
    A catalogue of these files that was fitted to choose the method (``training.catalogue``) is taken as it is.
    """
    target = check_target(output)
    source.check()
    layout = layout.without_label()
    with ExitStack() as stack:
        data = read_data(source, layout, clocks, training.out_of_core, target, stack)
        pairs = data.pairs
        model = training.catalogue
        if model is None:
            model = _model(training, max_rare, n_modes).fit(pairs.with_group(_group(pairs, training)))
        save_model(model, data.recipe, target)
        if then is not None:
            then(model, pairs)
        return ModesReport(model, data.recipe, data.summary, len(pairs))


def choose_method(
    source: Source, layout: Layout, output: Path, *, clocks: Clocks | None = None, training: Training
) -> Choice:
    """Binary, context or modes, by what the held-out rows show."""
    target = check_target(output)
    source.check()
    with ExitStack() as stack:
        data = read_data(source, layout.without_label(), clocks, training.out_of_core, target, stack)
        pairs = data.pairs
        model = _model(training, 0.1, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoCoincidenceWarning)
            model.fit(pairs.with_group(_group(pairs, training)))
        return chosen(model)


def chosen(model: CoincidenceModes) -> Choice:
    """The method that a catalogue speaks for."""
    table = model.modes_
    if not table:
        return Choice("binary", f"there are no modes: {model.reason_}", model)
    sure = [mode for mode in table.rare if mode.p_value <= 0.01 and mode.stability >= STABLE]
    if sure:
        best = max(sure, key=lambda mode: mode.stability)
        return Choice(
            "modes",
            f"{len(sure)} rare mode(s) hold on rows that training did not see; the surest has P̂ "
            f"{best.precision_hat:.2f}, stability {best.stability:.2f}, {best.size:.2%} of the rows",
            model,
        )
    regimes = [mode for mode in table if mode.role == "regime"]
    if len(regimes) >= 2:
        return Choice(
            "context",
            f"the inputs share {len(regimes)} regimes and no rare mode, so events are looked for within regimes",
            model,
        )
    return Choice("binary", "there is one regime only", model)


def _model(training: Training, max_rare: float, n_modes: int | None) -> CoincidenceModes:
    return CoincidenceModes(
        n_modes=n_modes,
        max_rare=max_rare,
        n_starts=training.starts,
        random_state=training.seed,
        verbose=training.verbose,
    )


def _group(pairs: Pairs, training: Training) -> NDArray[Any] | None:
    how, group = split_of(pairs, training.split)
    return group if how == "group" else None
