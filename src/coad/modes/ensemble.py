"""The ensemble: for each fold of the rows, transforms and several network pairs that never saw it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.exceptions import CoadWarning, InputError
from coad.learned.training.duo import Duo
from coad.learned.training.inputs import warn_of_repeated_readings
from coad.learned.training.model import Blueprint
from coad.learned.training.split import (
    correlation_length,
    in_time_order,
    join_groups,
    new_rows,
    take_turns,
    widened,
)
from coad.modes.coordinates import Arrays, Front, MappedRows, Recipe
from coad.modes.training import Plan, build, mode_blueprints, responsibilities, train_on_table

__all__ = ["FOLDS", "FoldMembers", "Folds", "make_folds", "mode_confidences", "train_folds"]

#: Folds: each network sees four fifths of the rows, and each row is held out once; five is customary.
FOLDS = 5
#: The length of stretches that are held out, in correlation lengths of the rows: their gaps then cost little.
_STRETCH = 4


class Folds(NamedTuple):
    """The fold of each row, the rows that each fold's members are trained on, and the rows that stay alike."""

    fold: IntArray
    used: list[IntArray]
    memory: int


def make_folds(
    arrays: Arrays,
    labels: NDArray[Any] | None,
    given: NDArray[Any] | None,
    time: Any,
    ordered: bool,
    rng: np.random.Generator,
) -> Folds:
    """Folds of whole groups, of stretches longer than the inputs stay alike, or of single rows.

    ``given`` groups may be pieces of one slow series: those that follow each other are joined to such stretches. If they
    take turns, rows of other groups are next to every row, so stretches of time take their place. Rows that are alike
    with rows of a fold are not used to train its members.
    """
    n, memory, group = len(arrays[0]), 0, given
    order = in_time_order(np.arange(n), time)
    if given is None and (new := new_rows(*arrays)) is not None:
        warn_of_repeated_readings(new, "the rows of one reading are kept in one split", least=100)
        group = np.cumsum(new, dtype=np.int64)
    if ordered:
        strata = None if labels is None else np.unique(labels, return_inverse=True)[1]
        memory = correlation_length(*arrays, order, strata)
    if memory:
        stretches = max(2 * FOLDS, n // (_STRETCH * memory))
        joined = np.empty(n, dtype=np.int64)
        joined[order] = np.arange(n) * stretches // n
        if given is not None and take_turns(given[order]):
            warnings.warn(
                f"groups take turns, but inputs stay alike for {memory:,} rows: stretches of time are held out instead "
                "of groups; if rows are in no order, say so (ordered=False, --unordered)",
                CoadWarning,
                stacklevel=4,
            )
        elif given is not None:
            joined[order] = join_groups(given[order], n / stretches)
            if len(np.unique(joined)) < FOLDS:
                joined = given
        group = joined
    code = np.arange(n) if group is None else np.unique(group, return_inverse=True)[1].reshape(-1)
    groups = int(code.max()) + 1
    if groups < 2:
        raise InputError(
            "there is one group: rows of at least two groups are needed, so that one can be held out"
        )
    count = min(FOLDS, groups)
    fold = (rng.permutation(groups) % count)[code]
    gap = min(memory, n // (2 * groups))
    used = []
    for k in range(count):
        held = fold == k
        if gap:
            held[order] = widened(held[order], gap)
        used.append(np.flatnonzero(~held))
    return Folds(fold, used, memory)


@dataclass(frozen=True, eq=False)
class FoldMembers:
    """What was fitted without one fold: transforms and scale, the networks, and the mode of each of their outputs.

    ``to_modes`` holds for s and for q the share of each mode in each output, (members, outputs, modes).
    """

    front: Front
    duo: Duo
    blueprints: tuple[Blueprint, Blueprint]
    to_modes: tuple[FloatArray, FloatArray] | None = None

    def votes(self, arrays: Arrays, labels: NDArray[Any] | None) -> tuple[FloatArray, FloatArray]:
        """The outputs a and b of some rows, (members, n, outputs)."""
        return responsibilities(self.duo, MappedRows(arrays, self.front, labels))


def train_folds(
    recipe: Recipe,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    used: Iterable[IntArray],
    *,
    net: Any,
    members: int,
    outputs: int,
    plan: Plan,
    seed: int,
    tick: Callable[[int], None] | None = None,
) -> list[FoldMembers] | None:
    """The members of each fold, trained on its ``used`` rows; None if the recipe does not apply to them."""

    def one(number: int, rows: IntArray) -> FoldMembers | None:
        front = Front.fit(recipe, arrays, labels, rows)
        if front is None:
            return None
        mapped = MappedRows(arrays, front, labels)
        blueprints = mode_blueprints(net, mapped)
        own = np.random.default_rng([seed, number])
        duo = build(blueprints, own.integers(2**30, size=members).tolist(), outputs)
        train_on_table(duo, mapped, rows, plan, int(own.integers(2**30)), tick if number == 0 else None)
        return FoldMembers(front, duo, blueprints)

    everything = list(used)
    threads = torch.get_num_threads()
    workers = threads if all(x.ndim == 2 for x in arrays) else 1
    torch.set_num_threads(
        threads if workers == 1 else 1
    )  # small products gain nothing from threads of their own
    try:
        with ThreadPoolExecutor(
            workers, initializer=lambda: torch.set_num_threads(threads // workers)
        ) as pool:
            found = list(pool.map(one, range(len(everything)), everything))
    finally:
        torch.set_num_threads(threads)
    return None if any(fold is None for fold in found) else [fold for fold in found if fold is not None]


def mode_confidences(
    folds: list[FoldMembers], arrays: Arrays, labels: NDArray[Any] | None
) -> tuple[FloatArray, FloatArray]:
    """a and b of new rows, each (n, modes): the outputs of all members, mapped to modes and averaged."""
    total: list[Any] = [0.0, 0.0]
    for fold in folds:
        assert fold.to_modes is not None
        for side, (votes, to_modes) in enumerate(zip(fold.votes(arrays, labels), fold.to_modes, strict=True)):
            total[side] = total[side] + np.einsum("mnk,mkg->ng", votes, to_modes, optimize=True) / len(votes)
    return total[0] / len(folds), total[1] / len(folds)
