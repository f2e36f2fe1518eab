"""The steps of a fit: choose transforms, train the ensemble, test, group, merge, test each mode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.core.validation import LEVEL
from coad.learned.training.progress import Progress
from coad.learned.training.split import in_time_order
from coad.modes import consensus, evidence
from coad.modes.catalogue import ModeTable, mode_statistics
from coad.modes.checks import warn_of_batch
from coad.modes.coordinates import Arrays, MappedRows
from coad.modes.ensemble import FoldMembers, Folds, make_folds, train_folds
from coad.modes.selection import choose_recipe
from coad.modes.training import CONV_BATCH, FLAT_BATCH, Plan
from coad.modes.transforms import candidate_steps

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["FitResult", "fit_modes"]


@dataclass(frozen=True)
class FitResult:
    """A catalogue and its networks; without modes, no networks, and the ``reason``.

    ``held`` are the confidences of s and q in each mode, each (n, modes), by members that did not see the row.
    """

    folds: list[FoldMembers]
    table: ModeTable
    sizes: FloatArray
    labels: IntArray
    held: tuple[FloatArray, FloatArray]
    p_value: float
    reason: str = ""


def fit_modes(
    model: CoincidenceModes,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    modes: int,
    group: NDArray[Any] | None,
    time: Any,
    rng: np.random.Generator,
) -> FitResult:
    """All steps of a fit; ``labels`` are the context, ``modes`` the outputs of each network.

    Windows go to convolutions point by point only if nothing coincides in their features, because that takes longer.
    """
    folds = make_folds(arrays, labels, group, time, model.ordered, rng)
    plan = Plan(model.steps, model.batch_size, model.lr, model.jitter, model.micro_batch)
    result: FitResult | None = None
    for candidates in candidate_steps(*arrays, model.net):
        recipe = choose_recipe(candidates, arrays, labels, folds, outputs=modes, plan=plan, rng=rng)
        with Progress("looking for modes", verbose=model.verbose) as bar:
            members = train_folds(
                recipe,
                arrays,
                labels,
                folds.used,
                net=model.net,
                members=model.n_starts,
                outputs=modes,
                plan=plan,
                seed=int(rng.integers(2**30)),
                tick=lambda step: bar.advance(1, f"networks of the first fold, step {step:,}"),
            )
        if members is None:  # canonical coordinates that some fold does not have
            plain = recipe._replace(scale="columns")
            members = train_folds(
                plain,
                arrays,
                labels,
                folds.used,
                net=model.net,
                members=model.n_starts,
                outputs=modes,
                plan=plan,
                seed=int(rng.integers(2**30)),
            )
            assert members is not None
        flat = MappedRows(
            (arrays[0][:1], arrays[1][:1]), members[0].front, None if labels is None else labels[:1]
        ).flat
        warn_of_batch(
            model.batch_size or (FLAT_BATCH if flat else CONV_BATCH), len(arrays[0]), model.smallest
        )
        result = _catalogue(model, arrays, labels, folds, members, time, modes, rng)
        if result.table:
            break
    assert result is not None
    return result


def _catalogue(
    model: CoincidenceModes,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    folds: Folds,
    members: list[FoldMembers],
    time: Any,
    outputs: int,
    rng: np.random.Generator,
) -> FitResult:
    """Test the coincidence of all members, group the rows, merge the groups, and test each mode."""
    n, fold = len(folds.fold), folds.fold
    votes = [one.votes(arrays, labels) for one in members]
    codes = None if labels is None else np.unique(labels, return_inverse=True)[1].reshape(-1)
    held_votes: list[evidence.HeldOutVotes] = []
    for k, (a, b) in enumerate(votes):
        rows = in_time_order(np.flatnonzero(fold == k), time)
        held_votes.append(
            (a[:, rows].argmax(2), b[:, rows].argmax(2), None if codes is None else codes[rows])
        )
    p_value = evidence.global_p_value(held_votes, outputs, rng)
    nothing = FitResult(
        members, ModeTable(), np.zeros(0), np.full(n, -1), (np.zeros((n, 0)), np.zeros((n, 0))), p_value
    )
    if p_value > model.significance:
        return replace(
            nothing, reason=f"shuffled pairings of the held-out rows do as well (p = {p_value:.3g})"
        )
    if model.ordered:
        moved = evidence.shift_p_value(held_votes, outputs, memory=folds.memory)
        if moved > max(LEVEL, model.significance):
            reason = (
                f"pairings of the held-out rows that are shifted in time may do as well (p = {moved:.2g}): if rows "
                "are in no order, say so (ordered=False, --unordered)"
            )
            return replace(nothing, p_value=moved, reason=reason)
    a, b = (np.concatenate([own[side] for own in votes]) for side in (0, 1))
    groups = consensus.group_rows(a, b, rng)
    groups = _Mapped(votes, groups, folds).labels
    s, q = _Mapped(votes, groups, folds).held_votes
    groups = consensus.merge_groups(consensus.fold_tables(s, q, fold, int(groups.max()) + 1))[groups]
    found = _Mapped(votes, _Mapped(votes, groups, folds).labels, folds)
    p_values = evidence.holm(evidence.mode_p_values(*found.held_votes, len(found.sizes), codes))
    kept = np.flatnonzero((p_values <= model.significance) & (found.sizes * n >= consensus.MIN_ROWS))
    if len(kept) < 2:
        return replace(nothing, reason="no mode is significant on rows that training did not see")
    row_evidence = consensus.pair_evidence(found.mean[0][:, kept], found.mean[1][:, kept], found.sizes[kept])
    labelled = consensus.mode_of_rows(row_evidence)
    held = found.held[0][:, kept], found.held[1][:, kept]
    cast = [(x.argmax(1), y.argmax(1)) for x, y in zip(a, b, strict=True)]
    table = mode_statistics(held, labelled, row_evidence, p_values[kept], cast, codes, model.max_rare)
    members = [
        replace(own, to_modes=(maps[0][:, :, kept], maps[1][:, :, kept]))
        for own, maps in zip(members, found.maps, strict=True)
    ]
    return FitResult(members, table, found.sizes[kept], labelled, held, p_value)


class _Mapped:
    """The outputs of all members mapped to groups of rows, ``groups`` (n,), -1 for rows in none.

    ``maps`` hold the group of each output of each fold's members, from the rows outside the fold; ``held`` are the
    confidences of s and q, each (n, groups), by members that did not see the row; ``mean`` those by all members.
    """

    def __init__(self, votes: list[tuple[FloatArray, FloatArray]], groups: IntArray, folds: Folds) -> None:
        n, k = len(groups), int(groups.max()) + 1
        self.sizes = np.maximum(np.bincount(groups[groups >= 0], minlength=k), 1) / n
        self.maps: list[tuple[FloatArray, FloatArray]] = []
        self.held, self.mean = (np.zeros((n, k)), np.zeros((n, k))), (np.zeros((n, k)), np.zeros((n, k)))
        for number, both in enumerate(votes):
            out = folds.fold == number
            own = [consensus.map_outputs(x, groups, ~out, k) for x in both]
            for side in (0, 1):
                mapped = np.einsum("mnk,mkg->ng", both[side], own[side], optimize=True) / len(both[side])
                self.held[side][out] = mapped[out]
                self.mean[side][:] += mapped / len(votes)
            self.maps.append((own[0], own[1]))

    @property
    def labels(self) -> IntArray:
        """The group with the most evidence for each row, by all members; -1 where the inputs disagree."""
        return consensus.mode_of_rows(consensus.pair_evidence(*self.mean, self.sizes))

    @property
    def held_votes(self) -> tuple[IntArray, IntArray]:
        """The group that s and that q vote for, by members that did not see the row."""
        return self.held[0].argmax(1), self.held[1].argmax(1)
