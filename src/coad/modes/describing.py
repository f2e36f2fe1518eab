"""From labelled rows to a catalogue: evidence, roles and families of the modes that hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint
from coad.modes import consensus, evidence
from coad.modes.catalogue import ModeTable, describe
from coad.modes.families import families
from coad.modes.gaps import gaps_among, projected_gaps
from coad.modes.inputs import FrontRows
from coad.modes.plan import Task
from coad.modes.roles import assign_roles, roles_by_family, spread_beside_regimes, time_isolation
from coad.modes.spread import spread_of_modes

__all__ = ["LEAST_ROWS", "Found", "described", "nothing_found"]

#: Rows that families of modes are asked of.
_FAMILY_ROWS = 20_000
#: A small mode is not called rare if more than this part of its rows would be in it by chance.
_BY_CHANCE = 0.5
#: A mode of fewer rows is not worth a line.
LEAST_ROWS = 5


@dataclass(frozen=True)
class Found:
    """A catalogue and the networks behind it; without modes there are none."""

    duo: Duo | None
    blueprints: tuple[Blueprint, Blueprint]
    table: ModeTable
    sizes: FloatArray
    labels: IntArray
    p_value: float
    reason: str = ""
    slow: float = 0.0  #: how much of the coincidence is left if one input is moved in time
    kept: float = 0.0  #: what the modes that s and q vote for have in common, in nats
    clear: float = 0.0  #: the same as part of what each vote says

    @property
    def holds(self) -> tuple[bool, float]:
        """How much it tells; any mode is more than none."""
        return bool(self.table), self.kept


def described(
    task: Task,
    duo: Duo,
    blueprints: tuple[Blueprint, Blueprint],
    data: FrontRows,
    both: tuple[FloatArray, FloatArray],
    labels: IntArray,
    sizes: FloatArray,
    own: list[tuple[IntArray, IntArray]],
    fold: IntArray,
    p_value: float,
    rng: np.random.Generator,
) -> Found:
    """The catalogue of ``labels``, made by modes of these ``sizes``; ``both`` are the votes of the members (M, n, K),
    ``own`` those for the outputs that each had before they agreed, of s and of q."""
    model, time = task.model, task.time
    a, b = both
    k, mean = a.shape[2], (a.mean(0), b.mean(0))
    isolation = None
    if time is not None:
        isolation = time_isolation(labels, np.argsort(np.asarray(time), kind="stable"), k)
    now = consensus.part_of_rows(labels, k)
    spread, agreed = spread_of_modes(*mean, now, model.max_rare, rng)
    sure = consensus.posterior(*mean, now)[0]
    rows = np.flatnonzero(fold < len(a))  # with a single member, only its held-out rows are honest
    honest_a, honest_b = a[fold[rows], rows], b[fold[rows], rows]
    codes = None if data.context is None else data.context.numpy()[rows]
    chance = evidence.part_by_chance(honest_a, honest_b, sizes, codes)
    found = [
        mode
        for mode in describe(honest_a, honest_b, labels, sure, own, codes)
        if mode.rows >= LEAST_ROWS and mode.p_value <= model.significance / k
    ]
    if len(found) < 2:
        return nothing_found(
            blueprints, len(labels), p_value, "no mode holds on rows that training did not see"
        )
    # Such a mode is no event in most of its rows, and its size is no measure for those of others.
    small = [mode for mode in found if mode.size <= model.max_rare]
    weak = {mode.mode: mode for mode in small if chance[mode.mode] > _BY_CHANCE}
    found = [mode for mode in found if mode.mode not in weak]
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
        table = _by_family(
            model.max_rare, table, data, mean, labels, isolation, spread, agreed, rng.spawn(1)[0]
        )
    named = [
        replace(mode, reason=f"{chance[number]:.0%} of its rows would be in it by chance")
        for number, mode in weak.items()
    ]
    return Found(duo, blueprints, ModeTable.rarest_first([*table, *named]), sizes, labels, p_value)


def nothing_found(blueprints: tuple[Blueprint, Blueprint], n: int, p_value: float, reason: str) -> Found:
    """A catalogue without modes, and why."""
    return Found(None, blueprints, ModeTable(), np.zeros(0), np.full(n, -1), p_value, reason)


def _by_family(
    max_rare: float,
    table: ModeTable,
    data: FrontRows,
    both: tuple[FloatArray, FloatArray],
    labels: IntArray,
    isolation: FloatArray | None,
    spread: FloatArray,
    agreed: FloatArray,
    rng: np.random.Generator,
) -> ModeTable:
    """The catalogue in which small variants of larger modes are no rare modes, where these are usual or pieces."""
    listed = np.sort([mode.mode for mode in table])
    place = np.full(both[0].shape[1] + 1, -1)  # the last is for rows without a mode
    place[listed] = np.arange(len(listed))
    known = place[labels]
    gaps = gaps_among(data, rng)
    of = {mode.mode: mode for mode in table}
    before = [(of[k].role, of[k].reason) for k in listed]
    decided = partial(
        roles_by_family,
        before,
        np.array([of[k].size for k in listed]),
        max_rare=max_rare,
        isolation=None if isolation is None else isolation[listed],
        number=listed,
        rows=len(labels),
    )
    by_gaps = before
    if (asked := gaps or projected_gaps(data, rng)) is not None:
        pieces = asked.families(known, len(listed), max_rare)
        by_gaps = decided(
            pieces, usual=0, spread=spread_beside_regimes(before, pieces, spread[listed], agreed[listed])
        )
    # Where pieces alone leave one kind, that is it. Where they leave several, some may be ways of doing the same.
    if by_gaps != before and len({pieces[i] for i, (role, _) in enumerate(by_gaps) if role == "rare"}) == 1:
        roles = by_gaps
    else:
        some = np.sort(rng.permutation(len(known))[:_FAMILY_ROWS])
        a, b = (votes[some][:, listed] for votes in both)
        touching = None if gaps is None else gaps.touching(known, len(listed))
        roles = decided(families(a, b, known[some], touching, max_rare), spread=spread[listed])
        roles = by_gaps if roles == before else roles
    return ModeTable.rarest_first(
        replace(of[k], role=role, reason=reason) for k, (role, reason) in zip(listed, roles, strict=True)
    )
