"""The paper's MNIST experiment: which digits are flagged, for β from precision to recall (Table 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from coad.exceptions import InputError
from coad.research.datasets.mnist import load_mnist, same_class_pairs
from coad.research.experiments._learned import LearnedResult, Recipe, Tell, folded_pairs, run_experiment

__all__ = ["PAPER_TABLE", "RECIPES", "reproduce_mnist"]

#: Fraction of the test images of digits 0 to 3 that the paper flags (product > 0.5), by β.
PAPER_TABLE: dict[float, tuple[float, ...]] = {
    0.05: (0.0, 0.963, 0.002, 0.001),
    1.0: (0.005, 0.991, 0.969, 0.012),
    math.inf: (0.005, 1.0, 0.992, 0.996),
}

#: ``fast`` is ours; ``paper`` is the paper's loss, learning rate and 3000 epochs of 1800 pairs.
RECIPES: dict[str, Recipe] = {
    "fast": Recipe(
        pairs=200_000,
        folds=20,
        n_seeds=2,
        epochs=80,
        batch_size=760,
        epoch_size=22_800,
        learning={"net": "mnist", "scale": False, "lr": 4e-3},
    ),
    "paper": Recipe(
        pairs=50_000,
        folds=10,
        n_seeds=3,
        epochs=3000,
        batch_size=760,
        epoch_size=1800,
        learning={"net": "mnist", "scale": False, "lr": 1e-4, "preset": "paper"},
    ),
}


def reproduce_mnist(
    preset: str = "fast",
    data: str | Path | None = None,
    betas: Sequence[float] = (0.05, 1.0, math.inf),
    seeds: int | None = None,
    *,
    frontier: bool = False,
    random_state: int = 0,
    page: str | Path | None = None,
    progress: Tell | None = None,
    verbose: bool = False,
    recipe: Recipe | None = None,
) -> LearnedResult:
    """Table 1 beside the paper's numbers, and the pictures as one HTML page if ``page`` is given.

    ``data`` is a folder with the MNIST files; without it they are looked for in
    COAD_DATA and the cache, then downloaded. ``seeds`` starts per β are trained and
    the best kept by validation F̂ alone. ``frontier`` trains all β at once on shared
    networks. ``progress`` is called with a line at each stage; ``verbose`` shows the
    training's own bar. ``recipe`` replaces the preset's.
    """
    plan = chosen_recipe(RECIPES, preset, seeds, recipe)
    say: Tell = progress if progress is not None else lambda _: None
    say("reading MNIST")
    images, labels = load_mnist("train", data)
    test_images, test_labels = load_mnist("test", data)
    rng = np.random.default_rng(random_state)
    used = labels < len(PAPER_TABLE[1.0])
    say(f"drawing {plan.pairs:,} pairs")
    train, fold = folded_pairs(images[used], labels[used], plan.pairs, plan.folds, rng)
    test = same_class_pairs(test_images, test_labels, rng)
    return run_experiment(
        "MNIST",
        preset,
        train,
        fold,
        test,
        plan,
        betas,
        paper=PAPER_TABLE,
        frontier=frontier,
        random_state=random_state,
        page=page,
        tell=progress,
        verbose=verbose,
    )


def chosen_recipe(
    recipes: dict[str, Recipe], preset: str, seeds: int | None, recipe: Recipe | None
) -> Recipe:
    """The preset's recipe or the given one, with the number of seeds replaced if it is given."""
    if recipe is None:
        if preset not in recipes:
            raise InputError(f"preset must be one of {', '.join(map(repr, recipes))}, not {preset!r}")
        recipe = recipes[preset]
    if seeds is None:
        return recipe
    if seeds < 1:
        raise InputError(f"seeds, the number of starts for each beta, must be at least 1, not {seeds}")
    return replace(recipe, n_seeds=seeds)
