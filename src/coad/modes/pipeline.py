"""The steps of a fit: train by the table, test, merge, vote, teach the consensus, describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad._typing import ArrayLike, FloatArray, IntArray
from coad.exceptions import InputError
from coad.modes import consensus
from coad.modes.catalogue import ModeTable, describe
from coad.modes.inputs import FrontRows
from coad.modes.roles import assign_roles, time_isolation
from coad.modes.training import Plan, build, responsibilities, train_on_labels, train_on_table
from coad.nets import NetSpec, default_spec
from coad.training.configure import blueprints_for
from coad.training.duo import Duo
from coad.training.model import Blueprint
from coad.training.progress import Progress

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["Found", "find_modes"]

_STEPS = 300
_LABEL_STEPS = 100  # for each of two rounds
_WIDTH = 128
_JITTER = 0.5
#: Modes that the inputs tell apart worse than this (κ) are one: of a member, and of the consensus.
_ONE_EARLY, _ONE = 0.6, 0.75
#: Modes that are told apart worse than this shade into each other: their role is decided together.
_FAMILY = 0.93
#: If the consensus leaves more of the rows than this without a mode, they are a mode of their own.
_REST = 0.3
#: A mode of fewer rows is not worth a line.
_LEAST_ROWS = 5


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


def find_modes(
    model: CoincidenceModes,
    data: FrontRows,
    modes: int,
    batch: int,
    group: ArrayLike | None,
    time: Any,
    rng: np.random.Generator,
) -> Found:
    """All steps of a fit on prepared rows."""
    n = len(data)
    blueprints = _blueprints(model.net, data)
    fold = _folds(n, max(2, model.n_seeds), group, rng)
    members = [int(x) for x in rng.integers(2**30, size=model.n_seeds)]
    seen = torch.from_numpy(np.stack([fold != m for m in range(model.n_seeds)]).astype(np.float32))
    steps = model.steps or _STEPS
    flat = all(len(b.input_shape) == 1 for b in blueprints)
    plan = Plan(
        steps=steps,
        batch=batch,
        rate=model.lr,
        jitter=(_JITTER if flat else 0.1) if model.jitter is None else model.jitter,
        floor=0.3 * model.smallest,
        seed=int(rng.integers(2**30)),
        micro_batch=model.micro_batch,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if flat else threads)
    label_steps = min(steps, _LABEL_STEPS)
    try:
        with Progress(steps + 2 * label_steps, verbose=model.verbose) as bar:
            duo = build(blueprints, members, modes)
            train_on_table(duo, data, seen, plan, lambda step: bar.advance(1, "looking for modes"))
            a, b = responsibilities(duo, data)
            b = consensus.matched(a, b)
            p_value = _significance(a, b, fold, data, rng)
            if p_value > model.significance:
                reason = f"shuffled pairings of the held-out rows do as well (p = {p_value:.3g})"
                return _nothing(blueprints, n, p_value, reason)
            own = [_member_labels(a[m], b[m], fold == m, model.significance) for m in range(len(a))]
            labels = _with_rest(consensus.consensus_labels(own))
            if labels.max() < 1:
                return _nothing(blueprints, n, p_value, "no mode came back in more than half of the members")
            for number in (1, 2):
                duo = build(blueprints, members, int(labels.max()) + 1)
                short = Plan(
                    label_steps,
                    batch,
                    plan.rate,
                    plan.jitter,
                    plan.floor,
                    plan.seed + number,
                    plan.micro_batch,
                )
                train_on_labels(duo, data, seen, labels, short, lambda step: bar.advance(1, "agreeing"))
                a, b = responsibilities(duo, data)
                mean_a, mean_b = a.mean(0), b.mean(0)
                labels = consensus.relabelled(mean_a, mean_b, labels)
                if number == 1:
                    labels = _merged(mean_a, mean_b, labels)
                    if labels.max() < 1:
                        return _nothing(blueprints, n, p_value, "all modes were merged into one")
    finally:
        torch.set_num_threads(threads)
    return _described(model, duo, blueprints, data, (a, b), labels, own, fold, time, p_value)


def _described(
    model: CoincidenceModes,
    duo: Duo,
    blueprints: tuple[Blueprint, Blueprint],
    data: FrontRows,
    both: tuple[FloatArray, FloatArray],
    labels: IntArray,
    own: list[IntArray],
    fold: IntArray,
    time: Any,
    p_value: float,
) -> Found:
    a, b = both
    k = a.shape[2]
    sizes = np.maximum(np.bincount(labels[labels >= 0], minlength=k) / max(1, (labels >= 0).sum()), 1e-6)
    isolation = None
    if time is not None:
        isolation = time_isolation(labels, np.argsort(np.asarray(time), kind="stable"), k)
    share = np.bincount(labels[labels >= 0], minlength=k) / len(labels)
    votes = consensus.joint_counts(a.mean(0).argmax(1), b.mean(0).argmax(1), k)
    roles = assign_roles(share, model.max_rare, isolation, consensus.merge_map(votes, _FAMILY))
    sure = consensus.posterior(a.mean(0), b.mean(0), sizes)[0]
    rows = np.flatnonzero(fold < len(a))  # with a single member, only its held-out rows are honest
    honest_a, honest_b = a[fold[rows], rows], b[fold[rows], rows]
    codes = None if data.context is None else data.context.numpy()[rows]
    table = describe(honest_a, honest_b, labels, sure, own, codes, roles)
    table = ModeTable(
        mode for mode in table if mode.rows >= _LEAST_ROWS and mode.p_value <= model.significance / k
    )
    if len(table) < 2:
        return _nothing(blueprints, len(labels), p_value, "no mode holds on rows that training did not see")
    return Found(duo, blueprints, table, sizes, labels, p_value)


def _blueprints(net: Any, data: FrontRows) -> tuple[Blueprint, Blueprint]:
    shapes = [array.shape[1:] for array in data.arrays]
    if net is not None:
        given = blueprints_for(net, shapes[0], shapes[1])
        if not all(isinstance(one.source, NetSpec) for one in given):
            raise InputError(
                "CoincidenceModes builds networks with as many outputs as it finds modes, so net must be a "
                "coad.NetSpec, a pair of them or a name, not a module"
            )
        return given
    # One wide layer: K modes need room side by side, where the binary method needs one direction.
    both = [Blueprint(NetSpec(default_spec(shape).convs, (_WIDTH,)), shape) for shape in shapes]
    return both[0], both[1]


def _folds(n: int, folds: int, group: ArrayLike | None, rng: np.random.Generator) -> IntArray:
    if group is None:
        return np.asarray(rng.permutation(n) % folds, dtype=np.int64)
    values, code = np.unique(np.asarray(group), return_inverse=True)
    if len(code) != n:
        raise InputError(f"group has {len(code):,} values, but there are {n:,} rows")
    if len(values) < folds:
        raise InputError(f"there are {len(values)} groups; n_seeds = {folds} needs at least {folds}")
    return np.asarray((rng.permutation(len(values)) % folds)[code.reshape(-1)], dtype=np.int64)


def _significance(
    a: FloatArray, b: FloatArray, fold: IntArray, data: FrontRows, rng: np.random.Generator
) -> float:
    choices, strata = [], []
    for m in range(len(a)):
        held = np.flatnonzero(fold == m)
        choices.append((a[m, held].argmax(1), b[m, held].argmax(1)))
        strata.append(None if data.context is None else data.context.numpy()[held])
    return consensus.global_p_value(choices, a.shape[2], strata, rng)


def _member_labels(a: FloatArray, b: FloatArray, held: Any, significance: float) -> IntArray:
    """One member's labels: twins merged, modes without coincidence on its held-out rows dropped."""
    k = a.shape[1]
    first, second = a.argmax(1), b.argmax(1)
    group = consensus.merge_map(consensus.joint_counts(first, second, k), _ONE_EARLY)
    chance = consensus.mode_p_values(consensus.joint_counts(group[first[held]], group[second[held]], k))
    joined = np.eye(k, dtype=a.dtype)[group]
    label = consensus.member_labels(a @ joined, b @ joined)
    real = chance <= significance / k
    return np.asarray(np.where((label >= 0) & real[np.maximum(label, 0)], label, -1))


def _with_rest(labels: IntArray) -> IntArray:
    rest = labels < 0
    return np.where(rest, labels.max() + 1, labels) if rest.mean() > _REST else labels


def _merged(a: FloatArray, b: FloatArray, labels: IntArray) -> IntArray:
    k = a.shape[1]
    group = consensus.merge_map(consensus.joint_counts(a.argmax(1), b.argmax(1), k), _ONE)
    merged = np.where(labels >= 0, group[np.maximum(labels, 0)], -1)
    known = np.unique(merged[merged >= 0])
    place = np.full(k + 1, -1)
    place[known] = np.arange(len(known))
    return np.asarray(place[merged])


def _nothing(blueprints: tuple[Blueprint, Blueprint], n: int, p_value: float, reason: str) -> Found:
    return Found(None, blueprints, ModeTable(), np.zeros(0), np.full(n, -1), p_value, reason)
