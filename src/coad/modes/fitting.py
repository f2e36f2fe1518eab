"""The steps of a fit: choose transforms, train the ensemble, test, group, test each group, look for kinds in several modes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.core.validation import LEVEL
from coad.learned.training.progress import Progress
from coad.learned.training.split import in_time_order
from coad.modes import evidence
from coad.modes.catalogue import ModeTable, mode_statistics
from coad.modes.checks import warn_of_batch
from coad.modes.consensus import mode_of_rows, pair_evidence
from coad.modes.coordinates import Arrays, Front, MappedRows
from coad.modes.deviations import Deviations, find_kinds, with_kinds
from coad.modes.ensemble import FoldMembers, Folds, make_folds, train_folds
from coad.modes.grouping import Two, find_groups, finest_groups, oddness_of_groups
from coad.modes.selection import choose_recipe
from coad.modes.training import CONV_BATCH, FLAT_BATCH, Plan
from coad.modes.transforms import candidate_steps

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["FitResult", "fit_modes"]


@dataclass(frozen=True)
class FitResult:
    """A catalogue and its networks; without modes, the ``reason``.

    ``held`` are the confidences of s and q in each mode, each (n, modes), by members that did not see the row.
    """

    folds: list[FoldMembers]
    deviations: Deviations | None
    table: ModeTable
    sizes: FloatArray
    labels: IntArray
    held: Two
    p_value: float
    reason: str = ""


def fit_modes(
    model: CoincidenceModes,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    outputs: int,
    group: NDArray[Any] | None,
    time: Any,
    rng: np.random.Generator,
) -> FitResult:
    """All steps of a fit; ``labels`` are the context, ``outputs`` those of each network.

    Windows go to convolutions point by point only if nothing coincides in their features, because that takes longer.
    """
    folds = make_folds(arrays, labels, group, time, model.ordered, rng)
    plan = Plan(model.steps, model.batch_size, model.lr, model.jitter, model.micro_batch)
    result: FitResult | None = None
    for candidates in candidate_steps(*arrays, model.net):
        recipe = choose_recipe(candidates, arrays, labels, folds, outputs=outputs, plan=plan, rng=rng)
        by_columns = recipe._replace(scale="columns")
        whole = Front.fit(by_columns, arrays, labels, np.arange(len(folds.fold)))
        assert whole is not None
        rows = MappedRows(arrays, whole, labels)
        batch = model.batch_size or (FLAT_BATCH if rows.flat else CONV_BATCH)
        warn_of_batch(batch, len(rows), model.smallest)
        with Progress("looking for modes", verbose=model.verbose) as bar:
            train = partial(
                train_folds,
                arrays=arrays,
                labels=labels,
                used=folds.used,
                net=model.net,
                members=model.n_starts
                if rows.flat
                else 1,  # a convolution costs as much as many flat networks
                outputs=outputs,
                plan=plan,
                seed=int(rng.integers(2**30)),
                tick=lambda step: bar.advance(1, f"networks of the first fold, step {step:,}"),
            )
            # Some fold may have no canonical coordinates.
            members = train(recipe) or train(by_columns)
        assert members is not None
        result = _catalogue(model, rows, folds, members, time, outputs, plan, rng)
        if result.table:
            break
    assert result is not None
    return result


def _catalogue(
    model: CoincidenceModes,
    rows: MappedRows,
    folds: Folds,
    members: list[FoldMembers],
    time: Any,
    outputs: int,
    plan: Plan,
    rng: np.random.Generator,
) -> FitResult:
    """Test the coincidence of all members, group the rows, test each group, look for kinds in several modes."""
    n, fold, arrays, labels = len(rows), folds.fold, rows.arrays, rows.labels
    votes = [one.votes(arrays, labels) for one in members]
    codes = None if rows.context is None else rows.context.numpy()
    p_value, reason = _tested(model, votes, folds, codes, time, outputs, rng)
    groups = None if reason else find_groups(votes, fold, codes, model.significance, rng)
    if groups is not None and len(groups) < 2:
        reason = "no mode is significant on rows that training did not see"
    if groups is None or reason:
        nothing = np.zeros((n, 0))
        return FitResult(
            members, None, ModeTable(), np.zeros(0), np.full(n, -1), (nothing, nothing), p_value, reason
        )
    mapped = MappedRows(arrays, members[0].front, labels)
    odd = np.array(
        [
            oddness_of_groups(
                groups.labels, len(groups), mapped.side(side, np.arange(n)).numpy(), model.max_rare, rng
            )
            for side in (0, 1)
        ]
    )
    held, mean, to_modes = groups.held, groups.mean, groups.to_groups
    sizes, p_values, stability = groups.sizes, groups.p_values, groups.stability
    found = None
    if rows.flat and codes is None:  # with a context, rows are scaled within it already
        regimes = finest_groups(votes, fold, rng)
        found = find_kinds(
            arrays,
            rows.front,
            regimes,
            folds,
            plan,
            members=max(1, model.n_starts // 2),  # less is left to be found
            outputs=outputs,
            rare=model.max_rare,
            significance=model.significance,
            rng=rng,
        )
    if found is not None:
        _, kinds, own = found
        to_modes = groups.beside(regimes)
        held, mean = with_kinds(held, kinds.held), with_kinds(mean, kinds.mean)
        sizes, p_values, stability = (
            np.concatenate(pair)
            for pair in ((sizes, kinds.sizes), (p_values, kinds.p_values), (stability, kinds.stability))
        )
        odd = np.concatenate([odd, own], axis=1)
    members = [replace(one, to_modes=pair) for one, pair in zip(members, to_modes, strict=True)]
    row_evidence = pair_evidence(*mean, sizes)
    told = mode_of_rows(row_evidence)
    table = mode_statistics(held, told, row_evidence, p_values, stability, odd, codes, model.max_rare)
    return FitResult(members, None if found is None else found[0], table, sizes, told, held, p_value)


def _tested(
    model: CoincidenceModes,
    votes: list[Two],
    folds: Folds,
    codes: IntArray | None,
    time: Any,
    outputs: int,
    rng: np.random.Generator,
) -> tuple[float, str]:
    """The p-value of the coincidence in the whole table on held-out rows, and why there are no modes, if there are none."""
    held: list[evidence.HeldOutVotes] = []
    for k, (a, b) in enumerate(votes):
        rows = in_time_order(np.flatnonzero(folds.fold == k), time)
        own = None if codes is None else codes[rows]
        held.append((a[:, rows].argmax(2), b[:, rows].argmax(2), own))
    p_value = evidence.global_p_value(held, outputs, rng)
    if p_value > model.significance:
        return p_value, f"shuffled pairings of the held-out rows do as well (p = {p_value:.3g})"
    if model.ordered:
        moved = evidence.shift_p_value(held, outputs, memory=folds.memory)
        if moved > max(LEVEL, model.significance):
            return moved, (
                f"pairings of the held-out rows that are shifted in time may do as well (p = {moved:.2g}): if rows "
                "are in no order, say so (ordered=False, --unordered)"
            )
    return p_value, ""
