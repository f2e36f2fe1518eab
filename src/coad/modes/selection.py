"""The choice of transforms and scale, by cross-fitted information and the one-standard-error rule."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.modes.coordinates import Arrays, Recipe, Scale
from coad.modes.evidence import cross_information
from coad.modes.folds import Folds
from coad.modes.layer import train_ensemble
from coad.modes.training import Plan
from coad.modes.transforms import Steps, fit_steps

__all__ = ["choose_recipe", "simplest_within_error"]

log = logging.getLogger(__name__)

#: Rows and steps of a trial: enough to rank the candidates, in about a second each.
_TRIAL_ROWS, _TRIAL_STEPS = 1500, 60
#: The simplest first.
_SCALES: tuple[Scale, ...] = ("columns", "one factor", "canonical")


def choose_recipe(
    candidates: list[Steps],
    arrays: Arrays,
    labels: NDArray[Any] | None,
    folds: Folds,
    *,
    outputs: int,
    plan: Plan,
    rng: np.random.Generator,
) -> Recipe:
    """The simplest recipe whose information on held-out rows is within one standard error of the largest.

    Everything is fitted on half of the folds and judged on the other half, and the other way round.
    """
    recipes = [Recipe(steps, scale) for steps in _different(candidates, arrays) for scale in _SCALES]
    flat = all(x.ndim == 2 or steps for x, steps in zip(arrays, recipes[0].steps, strict=True))
    if not flat:
        return recipes[0]
    some = np.sort(rng.permutation(len(folds.fold))[:_TRIAL_ROWS])
    few = arrays[0][some], arrays[1][some]
    context = None if labels is None else labels[some]
    held = folds.fold[some] % 2
    seed = int(rng.integers(2**30))
    trial = Plan(min(plan.steps or _TRIAL_STEPS, _TRIAL_STEPS), plan.batch, plan.rate, plan.jitter)
    found: list[tuple[Recipe, FloatArray]] = []
    for recipe in recipes:
        value = _shared(recipe, few, context, held, outputs, trial, seed)
        if value is not None:
            log.info("shared on held-out rows: %.3f nats, %s", value.mean(), recipe)
            found.append((recipe, value))
    return found[simplest_within_error([value for _, value in found])][0]


def simplest_within_error(values: list[FloatArray]) -> int:
    """The first candidate whose mean is within one standard error of the largest mean.

    >>> noise = np.random.default_rng(0).normal(size=400)
    >>> simplest_within_error([noise, noise + 0.2, noise + 0.22])
    1
    """
    means = np.array([value.mean() for value in values])
    best = int(means.argmax())
    error = values[best].std() / np.sqrt(len(values[best]))
    return int(np.argmax(means >= means[best] - error))


def _different(candidates: list[Steps], arrays: Arrays) -> list[Steps]:
    """The candidates without those whose last step applies to no column."""
    kept: dict[Any, Steps] = {}
    for names in candidates:
        fitted = [fit_steps(own, x[: 4 * _TRIAL_ROWS]) for own, x in zip(names, arrays, strict=True)]
        kept.setdefault(tuple(tuple(_key(step) for step in steps) for steps in fitted), names)
    return list(kept.values())


def _key(step: Any) -> Any:
    """What tells two fitted steps apart."""
    return type(step).__name__, getattr(step, "shape", None)


def _shared(
    recipe: Recipe,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    held: IntArray,
    outputs: int,
    plan: Plan,
    seed: int,
) -> FloatArray | None:
    """The information of each row by networks that did not see it, (n,); None if the recipe does not apply."""
    used = [np.flatnonzero(held != half) for half in (0, 1)]
    both = train_ensemble(
        recipe, arrays, labels, used, net=None, members=2, outputs=outputs, plan=plan, seed=seed
    )
    if both is None:
        return None
    value = np.zeros(len(held))
    for half, votes in enumerate(both.votes):
        rows = np.flatnonzero(held == half)
        parts = np.arange(len(rows)) % 2  # a row is not judged by a table that it is in
        a, b = (own[:, rows].argmax(2) for own in votes)
        for s, q in zip(a, b, strict=True):
            value[rows] += cross_information(s, q, parts, outputs) / len(a)
    return value
