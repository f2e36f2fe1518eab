"""From labelled rows to a catalogue: statistics and roles of the modes that hold on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint
from coad.modes import consensus, evidence
from coad.modes.catalogue import ModeTable, mode_statistics
from coad.modes.coordinates import MappedRows
from coad.modes.density import density_dips, projected_density_dips
from coad.modes.dispersion import mode_dispersion
from coad.modes.plan import Task
from coad.modes.roles import assign_roles, dispersion_beside_regimes, roles_by_variant_group, time_isolation
from coad.modes.variants import variant_groups

__all__ = ["MIN_ROWS", "FitResult", "build_catalogue", "empty_result"]

#: Rows that variants are looked for in: seconds, whatever the size of the data.
_VARIANT_ROWS = 20_000
#: A small mode is not rare if it keeps more than this fraction of its rows with shuffled pairs: most are no events.
_MAX_CHANCE_SHARE = 0.5
#: Modes of fewer rows are not listed: nothing can be tested with less.
MIN_ROWS = 5


@dataclass(frozen=True)
class FitResult:
    """A catalogue and its networks, which are None if there are no modes.

    ``information`` is the mutual information of the votes of s and q for the modes in nats, and ``clarity`` the same,
    normalised. ``held`` are the confidences of both inputs in each mode, by networks that were not trained on the row.
    """

    duo: Duo | None
    blueprints: tuple[Blueprint, Blueprint]
    table: ModeTable
    sizes: FloatArray
    labels: IntArray
    p_value: float
    reason: str = ""
    information: float = 0.0
    clarity: float = 0.0
    held: tuple[FloatArray, FloatArray] | None = None

    @property
    def strength(self) -> tuple[bool, float]:
        """The order of results: any mode is better than none, then by information."""
        return bool(self.table), self.information


def build_catalogue(
    task: Task,
    duo: Duo,
    blueprints: tuple[Blueprint, Blueprint],
    data: MappedRows,
    votes: tuple[FloatArray, FloatArray],
    labels: IntArray,
    sizes: FloatArray,
    first_votes: list[tuple[IntArray, IntArray]],
    fold: IntArray,
    p_value: float,
    rng: np.random.Generator,
) -> FitResult:
    """The catalogue of ``labels``, which come from modes of these ``sizes``.

    ``votes`` of the members are (M, n, K); ``first_votes`` of s and q are those of each member before the consensus, for
    the stability.
    """
    model, time = task.model, task.time
    a, b = votes
    k, mean = a.shape[2], (a.mean(0), b.mean(0))
    isolation = None
    if time is not None:
        isolation = time_isolation(labels, np.argsort(np.asarray(time), kind="stable"), k)
    now = consensus.mode_sizes(labels, k)
    dispersion, agreed = mode_dispersion(*mean, now, model.max_rare, rng)
    row_evidence = consensus.pair_evidence(*mean, now)[0]
    rows = np.flatnonzero(fold < len(a))  # with a single member, only its held-out rows
    held_a, held_b = a[fold[rows], rows], b[fold[rows], rows]
    codes = None if data.context is None else data.context.numpy()[rows]
    chance = evidence.chance_share(held_a, held_b, sizes, codes)
    found = [
        mode
        for mode in mode_statistics(held_a, held_b, labels, row_evidence, first_votes, codes)
        if mode.rows >= MIN_ROWS and mode.p_value <= model.significance / k
    ]
    if len(found) < 2:
        return empty_result(
            blueprints, len(labels), p_value, "no mode is significant on rows that training did not see"
        )
    # Modes that are mostly chance are listed, but their sizes do not count for the roles of others.
    small = [mode for mode in found if mode.size <= model.max_rare]
    by_chance = {mode.mode: mode for mode in small if chance[mode.mode] > _MAX_CHANCE_SHARE}
    found = [mode for mode in found if mode.mode not in by_chance]
    listed = np.array([mode.mode for mode in found], dtype=np.int64)
    roles = assign_roles(
        np.array([mode.size for mode in found]),
        model.max_rare,
        None if isolation is None else isolation[listed],
        agreed[listed],
        len(labels),
    )
    table = ModeTable.rarest_first(
        replace(mode, role=role, reason=reason) for mode, (role, reason) in zip(found, roles, strict=True)
    )
    if sum(mode.size <= model.max_rare for mode in table) > 1:
        table = _without_variants(
            model.max_rare, table, data, mean, labels, isolation, dispersion, agreed, rng.spawn(1)[0]
        )
    others = [
        replace(mode, reason=f"it keeps {chance[number]:.0%} of its rows if q is shuffled")
        for number, mode in by_chance.items()
    ]
    return FitResult(duo, blueprints, ModeTable.rarest_first([*table, *others]), sizes, labels, p_value)


def empty_result(blueprints: tuple[Blueprint, Blueprint], n: int, p_value: float, reason: str) -> FitResult:
    """A result without modes, and why."""
    return FitResult(None, blueprints, ModeTable(), np.zeros(0), np.full(n, -1), p_value, reason)


def _without_variants(
    max_rare: float,
    table: ModeTable,
    data: MappedRows,
    votes: tuple[FloatArray, FloatArray],
    labels: IntArray,
    isolation: FloatArray | None,
    dispersion: FloatArray,
    agreed: FloatArray,
    rng: np.random.Generator,
) -> ModeTable:
    """The catalogue in which small variants of larger modes are not rare, where variants are common or pieces."""
    listed = np.sort([mode.mode for mode in table])
    place = np.full(votes[0].shape[1] + 1, -1)  # the last is for rows without a mode
    place[listed] = np.arange(len(listed))
    known = place[labels]
    dips = density_dips(data, rng)
    of = {mode.mode: mode for mode in table}
    before = [(of[k].role, of[k].reason) for k in listed]
    decided = partial(
        roles_by_variant_group,
        before,
        np.array([of[k].size for k in listed]),
        max_rare=max_rare,
        isolation=None if isolation is None else isolation[listed],
        number=listed,
        rows=len(labels),
    )
    by_dips = before
    if (any_dips := dips or projected_density_dips(data, rng)) is not None:
        pieces = any_dips.variant_groups(known, len(listed), max_rare)
        own = dispersion_beside_regimes(before, pieces, dispersion[listed], agreed[listed])
        by_dips = decided(pieces, common=0, dispersion=own)
    # If removing pieces leaves one rare group, that is it. If it leaves several, some may be variants of each other.
    if by_dips != before and len({pieces[i] for i, (role, _) in enumerate(by_dips) if role == "rare"}) == 1:
        roles = by_dips
    else:
        some = np.sort(rng.permutation(len(known))[:_VARIANT_ROWS])
        a, b = (x[some][:, listed] for x in votes)
        adjacent = None if dips is None else dips.adjacent(known, len(listed))
        groups = variant_groups(a, b, known[some], adjacent, max_rare)
        roles = decided(groups, dispersion=dispersion[listed])
        roles = by_dips if roles == before else roles
    return ModeTable.rarest_first(
        replace(of[k], role=role, reason=reason) for k, (role, reason) in zip(listed, roles, strict=True)
    )
