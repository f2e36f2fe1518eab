"""One layer of modes: an ensemble on the joint table, its consensus, and a pair of networks that learns the consensus.

For each fold, several pairs of networks maximise the mutual information of their joint table on the other folds. Rows that
the members of all folds put together are groups, and one pair for each fold learns these groups from the rows outside its
fold. What it says of its own fold is held out: groups are merged, and tested, by that.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint
from coad.modes import consensus, evidence
from coad.modes.coordinates import Arrays, Front, MappedRows, Recipe
from coad.modes.folds import Folds
from coad.modes.merging import merge_modes
from coad.modes.training import (
    Plan,
    build,
    mode_blueprints,
    responsibilities,
    train_on_labels,
    train_on_table,
)

__all__ = ["Ensemble", "FoldNets", "Layer", "distil", "train_ensemble"]

Two = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class FoldNets:
    """What was fitted without one fold: transforms and scale, and networks of s and q."""

    front: Front
    duo: Duo
    blueprints: tuple[Blueprint, Blueprint]

    def votes(self, arrays: Arrays, labels: NDArray[Any] | None) -> Two:
        """The outputs a and b of some rows, (members, n, outputs)."""
        return responsibilities(self.duo, MappedRows(arrays, self.front, labels))


class Ensemble(NamedTuple):
    """The members of each fold, and their outputs for all rows: (members, n, outputs) for s and for q."""

    nets: list[FoldNets]
    votes: list[Two]


@dataclass(frozen=True, eq=False)
class Layer:
    """A pair of networks for each fold, whose outputs are groups of rows, and the mode of each group.

    Parameters
    ----------
    nets
        One pair for each fold.
    mode : array of int
        The mode of each group, (groups,).
    sizes, p_values, stability : array
        Of the modes, (K,): as a fraction of the rows; on held-out rows; see :func:`~coad.modes.consensus.stability_of`.
    """

    nets: list[FoldNets]
    mode: IntArray
    sizes: FloatArray
    p_values: FloatArray
    stability: FloatArray

    def __len__(self) -> int:
        return len(self.sizes)

    def groups(self, arrays: Arrays, labels: NDArray[Any] | None) -> Two:
        """The confidences of s and q in each group, (n, groups): the mean over folds."""
        total: list[Any] = [0.0, 0.0]
        for one in self.nets:
            for side, votes in enumerate(one.votes(arrays, labels)):
                total[side] = total[side] + votes.mean(0, dtype=np.float64) / len(self.nets)
        return total[0], total[1]

    def pooled(self, groups: Two) -> Two:
        """The confidences in modes, (n, K), from those in groups."""
        member = np.eye(len(self.sizes))[self.mode]
        return groups[0] @ member, groups[1] @ member


def train_ensemble(
    recipe: Recipe,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    used: list[IntArray],
    *,
    net: Any,
    members: int,
    outputs: int,
    plan: Plan,
    seed: int,
    tick: Callable[[int], None] | None = None,
) -> Ensemble | None:
    """The members of each fold, trained on its ``used`` rows; None if the recipe does not apply to them."""

    def one(number: int) -> tuple[FoldNets, Two] | None:
        front = Front.fit(recipe, arrays, labels, used[number])
        if front is None:
            return None
        mapped = MappedRows(arrays, front, labels)
        blueprints = mode_blueprints(net, mapped)
        own = np.random.default_rng([seed, number])
        duo = build(blueprints, own.integers(2**30, size=members).tolist(), outputs)
        seed_of_rows = int(own.integers(2**30))
        train_on_table(duo, mapped, used[number], plan, seed_of_rows, tick if number == 0 else None)
        return FoldNets(front, duo, blueprints), responsibilities(duo, mapped)

    found = _for_each_fold(one, len(used), flat=all(x.ndim == 2 for x in arrays))
    if any(fold is None for fold in found):
        return None
    return Ensemble([fold[0] for fold in found if fold], [fold[1] for fold in found if fold])


def distil(
    ensemble: Ensemble,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    folds: Folds,
    codes: IntArray | None,
    plan: Plan,
    rng: np.random.Generator,
    tick: Callable[[int], None] | None = None,
) -> tuple[Layer, Two, Two]:
    """The modes of an ensemble, and the confidences in each *group* by held-out pairs and by all, each (n, groups).

    ``codes`` are the strata within which coincidence is tested. The votes of the ensemble are changed in place, because
    they are the largest arrays of a fit.
    """
    for number, votes in enumerate(ensemble.votes):
        _merge_outputs(*votes, folds.fold == number)
    a, b = ([member for own in ensemble.votes for member in own[side]] for side in (0, 1))
    target = consensus.group_rows(a, b, rng)
    k = int(target.max()) + 1
    seed = int(rng.integers(2**30))

    def one(number: int) -> tuple[FoldNets, Two]:
        nets = ensemble.nets[number]
        mapped = MappedRows(arrays, nets.front, labels)
        own = np.random.default_rng([seed, number])
        duo = build(nets.blueprints, [int(own.integers(2**30))], k, like=nets.duo)
        seed_of_rows = int(own.integers(2**30))
        train_on_labels(
            duo, mapped, folds.used[number], target, plan, seed_of_rows, tick if number == 0 else None
        )
        return replace(nets, duo=duo), responsibilities(duo, mapped)

    found = _for_each_fold(one, len(ensemble.nets), flat=all(x.ndim == 2 for x in arrays))
    held, mean = (np.zeros((len(target), k)), np.zeros((len(target), k))), [0.0, 0.0]
    for number, (_, votes) in enumerate(found):
        out = folds.fold == number
        for side in (0, 1):
            held[side][out] = votes[side][0][out]
            mean[side] = mean[side] + votes[side][0].astype(np.float64) / len(found)
    vote_s, vote_q = held[0].argmax(1), held[1].argmax(1)
    mode = merge_modes(vote_s, vote_q, k)
    layer = Layer([nets for nets, _ in found], mode, np.ones(int(mode.max()) + 1), np.ones(0), np.ones(0))
    both = (np.asarray(mean[0]), np.asarray(mean[1]))
    pooled = layer.pooled(both)
    sizes = np.bincount(mode[target], minlength=len(layer)) / len(target)
    sizes = np.maximum(sizes, 1.0 / len(target))
    label = consensus.mode_of_rows(consensus.pair_evidence(*pooled, sizes))
    held_modes = layer.pooled(held)
    p_values = evidence.holm(
        evidence.mode_p_values(held_modes[0].argmax(1), held_modes[1].argmax(1), len(layer), codes)
    )
    cast = [(x.argmax(1), y.argmax(1)) for x, y in zip(a, b, strict=True)]
    stability = np.array([consensus.stability_of(label == one, cast) for one in range(len(layer))])
    order = np.argsort(p_values, kind="stable")  # significant modes have the first numbers
    return (
        replace(
            layer,
            mode=np.argsort(order)[mode],
            sizes=sizes[order],
            p_values=p_values[order],
            stability=stability[order],
        ),
        held,
        both,
    )


def _merge_outputs(a: FloatArray, b: FloatArray, held: BoolArray) -> None:
    """Merge, in place, the outputs of members that the votes on their ``held`` rows do not tell apart."""
    for one, other in zip(a, b, strict=True):
        mode = merge_modes(one[held].argmax(1), other[held].argmax(1), one.shape[1])
        pooling = np.eye(one.shape[1], dtype=one.dtype)[mode]
        one[:], other[:] = one @ pooling, other @ pooling


def _for_each_fold(one: Callable[[int], Any], folds: int, *, flat: bool) -> list[Any]:
    """The result for each fold, in threads for flat rows: their small products gain nothing from threads of their own."""
    threads = torch.get_num_threads()
    workers = threads if flat else 1
    torch.set_num_threads(threads // workers)
    try:
        with ThreadPoolExecutor(
            workers, initializer=lambda: torch.set_num_threads(threads // workers)
        ) as pool:
            return list(pool.map(one, range(folds)))
    finally:
        torch.set_num_threads(threads)
