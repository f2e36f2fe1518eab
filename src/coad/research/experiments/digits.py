"""A small version of the MNIST experiment on scikit-learn's 8 × 8 digits: offline, in under a minute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coad.research.datasets.digits import load_digits_split
from coad.research.datasets.mnist import ImagePairs, same_class_pairs
from coad.research.experiments._progress import Progress, silent
from coad.research.experiments.images import (
    ImageResult,
    Recipe,
    chosen_recipe,
    folded_pairs,
    run_experiment,
)

__all__ = ["RECIPES", "reproduce_digits"]

RECIPES: dict[str, Recipe] = {
    "fast": Recipe(
        pairs=12_000,
        folds=6,
        n_starts=4,
        epochs=100,
        batch_size=1000,
        epoch_size=5000,
        learning={"lr": 2e-2},
    ),
}


def reproduce_digits(
    preset: str = "fast",
    betas: Sequence[float] = (0.05, 1.0, math.inf),
    starts: int | None = None,
    *,
    frontier: bool = False,
    random_state: int = 0,
    progress: Progress = silent,
    verbose: bool = False,
    recipe: Recipe | None = None,
) -> ImageResult:
    """Run the MNIST experiment on scikit-learn's 8 × 8 images; the paper has no such table.

    Images are shifted by at most one pixel and not cropped, since a crop of this size would lose
    the digit. Parameters and result are those of
    :func:`coad.research.experiments.mnist.reproduce_mnist`.
    """
    plan = chosen_recipe(RECIPES, preset, starts, recipe)
    rng = np.random.default_rng(random_state)
    images, labels = load_digits_split("train")
    used = labels < 4
    side = images.shape[1]
    train, fold = folded_pairs(images[used], labels[used], plan.pairs, plan.folds, rng, crop=side, roll=1)
    test = same_class_pairs(*load_digits_split("test"), rng, crop=side, roll=1)
    train, test = _flat(train), _flat(test)
    return run_experiment(
        "digits",
        preset,
        train,
        fold,
        test,
        plan,
        betas,
        frontier=frontier,
        random_state=random_state,
        progress=progress,
        verbose=verbose,
    )


def _flat(pairs: ImagePairs) -> ImagePairs:
    """Images as rows of 64 numbers: at this size a fully connected network is faster and equally good."""
    return replace(pairs, s=pairs.s.reshape(len(pairs), -1), q=pairs.q.reshape(len(pairs), -1))
