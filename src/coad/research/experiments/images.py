"""Shared by the image experiments (MNIST, digits): train for each β and evaluate by digit."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.theory import MNIST_W
from coad.exceptions import InputError
from coad.research.datasets.mnist import CROP, ROLL, ImagePairs, Images, mnist_pairs
from coad.research.experiments._progress import Progress, silent

__all__ = [
    "DigitRow",
    "ImageResult",
    "Recipe",
    "StartRow",
    "beta_text",
    "chosen_recipe",
    "folded_pairs",
    "run_experiment",
]

#: A pair is flagged where the product of the two confidences exceeds this (paper, Table 1).
FLAGGED_ABOVE = 0.5
#: The anomaly rate of the observation model; as in the paper, it is passed to the method.
ALPHA = 1.0 - MNIST_W[0]


@dataclass(frozen=True)
class Recipe:
    """Number of pairs and folds to draw, and training settings; ``learning`` are arguments of CoAD."""

    pairs: int
    folds: int
    n_starts: int
    epochs: int
    batch_size: int
    epoch_size: int
    learning: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DigitRow:
    """One cell of Table 1: the fraction of a digit's test images that are flagged."""

    beta: float
    digit: int
    flagged: float
    images: int
    paper: float | None = None


@dataclass(frozen=True)
class StartRow:
    """Outcome of one training start (random initialisation) for one β; ``kept`` if it was selected by validation F̂."""

    beta: float
    seed: int
    status: str
    fbeta_hat: float
    mu_s: float
    mu_q: float
    kept: bool


@dataclass(frozen=True)
class ImageResult:
    """Results of an image experiment; the arrays have one row per test image."""

    name: str
    preset: str
    table: list[DigitRow]
    starts: list[StartRow]
    seconds: float
    train_pairs: int
    digit: IntArray
    scores: dict[float, FloatArray]
    latent_beta: float
    latent_s: FloatArray
    latent_q: FloatArray

    def flagged(self, beta: float) -> tuple[float, ...]:
        """Return the flagged fraction of each digit, in order, for one β."""
        rows = [row.flagged for row in self.table if row.beta == beta]
        if not rows:
            raise InputError(f"beta = {beta:g} is not part of this result; there are {sorted(self.scores)}")
        return tuple(rows)

    def digits_table(self) -> tuple[list[str], list[list[str]]]:
        """Return head and rows: flagged fraction of each digit by β, next to the paper's value if there is one."""
        betas = list(self.scores)
        has_paper = any(row.paper is not None for row in self.table)
        head = ["digit", "test images", *(f"β = {beta_text(beta)}" for beta in betas)]
        if has_paper:
            head += [f"paper, {beta_text(beta)}" for beta in betas]
        rows = []
        for digit in sorted({row.digit for row in self.table}):
            own = {row.beta: row for row in self.table if row.digit == digit}
            cells = [str(digit), f"{own[betas[0]].images:,}"]
            cells += [f"{100 * own[beta].flagged:.1f} %" for beta in betas]
            if has_paper:
                printed = [own[beta].paper for beta in betas]
                cells += ["" if value is None else f"{100 * value:.1f} %" for value in printed]
            rows.append(cells)
        return head, rows

    def starts_table(self) -> tuple[list[str], list[list[str]]]:
        """Return head and rows: the outcome of each start."""
        rows = [
            [
                beta_text(row.beta),
                str(row.seed),
                row.status,
                f"{row.fbeta_hat:.4f}",
                f"{row.mu_s:.3f}",
                f"{row.mu_q:.3f}",
                "kept" if row.kept else "",
            ]
            for row in self.starts
        ]
        return ["β", "seed", "status", "validation F̂", "mu_s", "mu_q", ""], rows


def beta_text(beta: float) -> str:
    """Format β for display.

    >>> beta_text(float("inf")), beta_text(1.0), beta_text(0.05)
    ('∞', '1', '0.05')
    """
    return "∞" if math.isinf(beta) else f"{beta:g}"


def folded_pairs(
    images: Images,
    labels: IntArray,
    n: int,
    folds: int,
    rng: np.random.Generator,
    *,
    crop: int = CROP,
    roll: int = ROLL,
) -> tuple[ImagePairs, IntArray]:
    """Draw ``n`` pairs from ``folds`` disjoint subsets of the images.

    A subset held out for validation therefore shares no image with the others.

    Parameters
    ----------
    images, labels
        Images (n, h, w) and the digit of each.
    n, folds
        Number of pairs and of subsets.
    rng
        Source of randomness.
    crop, roll
        Side of the cropped images, and the largest shift in pixels.

    Returns
    -------
    tuple
        The pairs, and the number of the subset each pair was drawn from.

    >>> images = np.zeros((80, 28, 28), np.uint8)
    >>> pairs, fold = folded_pairs(images, np.arange(80) % 4, 30, 3, np.random.default_rng(0))
    >>> len(pairs), np.bincount(fold).tolist()
    (30, [10, 10, 10])
    """
    part = np.empty(len(images), np.int64)
    for digit in np.unique(labels):  # every subset gets the same share of every digit
        mine = np.flatnonzero(labels == digit)
        part[mine] = rng.permutation(np.arange(len(mine)) % folds)
    sizes = np.bincount(np.arange(n) % folds, minlength=folds)
    drawn = [
        mnist_pairs(images[part == k], labels[part == k], int(size), rng, crop=crop, roll=roll)
        for k, size in enumerate(sizes)
    ]
    columns = (
        np.concatenate([getattr(d, name) for d in drawn])
        for name in ("s", "q", "digit", "digit_s", "digit_q")
    )
    return ImagePairs(*columns), np.repeat(np.arange(folds), sizes)


def run_experiment(
    name: str,
    preset: str,
    train: ImagePairs,
    fold: IntArray,
    test: ImagePairs,
    recipe: Recipe,
    betas: Sequence[float],
    *,
    paper: Mapping[float, Sequence[float]] | None = None,
    frontier: bool = False,
    random_state: int = 0,
    progress: Progress = silent,
    verbose: bool = False,
) -> ImageResult:
    """Train several starts per β, keep the best by validation F̂, and evaluate it by digit.

    Parameters
    ----------
    name, preset
        Name of the data and of the recipe, for titles.
    train, fold
        Training pairs and the fold of each; whole folds are held out for validation.
    test
        Test pairs.
    recipe
        Training settings.
    betas
        The values of β, each once.
    paper
        The paper's flagged fractions by β, one per digit.
    frontier
        Train all β at once on shared networks instead of one after the other.
    random_state
        Seed of the training.
    progress
        Called with one line at each stage.
    verbose
        Show the progress bar of the training.

    Returns
    -------
    ImageResult
        Flagged fractions, starts, and the scores and latent vectors of the test pairs.
    """
    wanted = [float(beta) for beta in betas]
    if not wanted or len(set(wanted)) != len(wanted):
        raise InputError(f"betas must name at least one beta, each once, not {list(betas)!r}")
    from coad.learned.estimator import CoAD  # imports torch

    start = time.monotonic()
    table: list[DigitRow] = []
    starts: list[StartRow] = []
    scores: dict[float, FloatArray] = {}
    detectors: dict[float, CoAD] = {}
    for group in [sorted(wanted)] if frontier else [[beta] for beta in wanted]:
        progress(f"training beta = {', '.join(f'{beta:g}' for beta in group)}: {recipe.n_starts} starts")
        detector = CoAD(
            beta=group if len(group) > 1 else group[0],
            alpha=ALPHA,
            n_starts=recipe.n_starts,
            epochs=recipe.epochs,
            batch_size=recipe.batch_size,
            epoch_size=recipe.epoch_size,
            patience=recipe.epochs,
            validation=1.0 / recipe.folds,
            split="group",
            ordered=False,  # pairs are drawn at random
            random_state=random_state,
            verbose=verbose,
            **recipe.learning,
        ).fit(train.s, train.q, group=fold)
        detectors |= {beta: detector.at(beta) for beta in group}
    for beta in wanted:
        p_s, p_q = detectors[beta].confidences(test.s, test.q)
        scores[beta] = p_s * p_q
        table += _digit_rows(beta, scores[beta], test.digit, (paper or {}).get(beta))
        kept = detectors[beta].fitted_[beta].ensemble
        starts += [
            StartRow(beta, row.seed, row.status, row.fbeta_hat, row.mu_s, row.mu_q, kept=row.seed in kept)
            for row in detectors[beta].starts_
        ]
    middle = 1.0 if 1.0 in wanted else wanted[len(wanted) // 2]
    latent_s, latent_q = detectors[middle].latent(test.s, test.q)
    return ImageResult(
        name=name,
        preset=preset,
        table=table,
        starts=starts,
        seconds=time.monotonic() - start,
        train_pairs=len(train),
        digit=test.digit,
        scores=scores,
        latent_beta=middle,
        latent_s=latent_s,
        latent_q=latent_q,
    )


def chosen_recipe(
    recipes: Mapping[str, Recipe], preset: str, starts: int | None, recipe: Recipe | None
) -> Recipe:
    """Return ``recipe``, or else the preset's, with the number of starts replaced if it is given."""
    if recipe is None:
        if preset not in recipes:
            raise InputError(f"preset must be one of {', '.join(map(repr, recipes))}, not {preset!r}")
        recipe = recipes[preset]
    if starts is None:
        return recipe
    if starts < 1:
        raise InputError(f"starts, the number of starts for each beta, must be at least 1, not {starts}")
    return replace(recipe, n_starts=starts)


def _digit_rows(
    beta: float, product: FloatArray, digit: IntArray, paper: Sequence[float] | None
) -> list[DigitRow]:
    rows = []
    for value in np.unique(digit).tolist():
        own = product[digit == value]
        printed = None if paper is None or value >= len(paper) else float(paper[value])
        rows.append(DigitRow(beta, value, float((own > FLAGGED_ABOVE).mean()), len(own), printed))
    return rows
