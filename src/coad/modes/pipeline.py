"""The steps of a fit: choose a scale, train by the table, test, group, teach, merge, describe."""

from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.exceptions import InputError
from coad.modes import consensus, evidence, merging
from coad.modes.canonical import canonical_maps
from coad.modes.catalogue import ModeTable, describe
from coad.modes.families import families
from coad.modes.gaps import Gaps
from coad.modes.inputs import Front, FrontRows, neighbours
from coad.modes.objective import chance_table, joint_table, mutual_information
from coad.modes.roles import assign_roles, roles_by_family, time_isolation
from coad.modes.spread import log_evidence, spread_of_modes
from coad.modes.training import Plan, build, responsibilities, train_on_labels, train_on_table, trained
from coad.nets import Conv, NetSpec, default_spec
from coad.training.configure import blueprints_for
from coad.training.duo import Duo
from coad.training.model import Blueprint
from coad.training.progress import Progress

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["LEAST_ROWS", "Found", "choose_front", "find_modes", "held_out"]

log = logging.getLogger(__name__)

_STEPS = 200
_LABEL_STEPS = 90  # for each of two rounds; of convolutions, half as many as for the table
#: Times that convolutions see every row: more, and they learn the pairs by heart. Never more steps than the second.
_EPOCHS, _MOST_STEPS = 27, 1500
_WIDTH = 128
_JITTER = 0.15
#: Each row moves towards one of so many neighbours.
_NEAR = 5
#: Rows that are compared with each other; the others follow the networks that learn from these.
_COMPARED = 2500
#: A row that shows coincidence less than this times as clearly as the typical row of its group is no example, if the
#: inputs contradict each other often: in a fifth of the rows (0.5 / 2.5) or more, and in proportion below that.
_CLEAR, _OFTEN = 0.5, 2.5
#: If s and q vote together for less than this part of the rows of a mode for which they did before modes were merged, it
#: was lost: small beside the merged ones, it is not learned anew. The networks then go on with the outputs they had.
_LOST = 0.5
#: A row that is less than this times as near to a group as its typical row is unlike it.
_UNLIKE = 0.5
#: Candidates for each mode that a member has, at most.
_MORE = 1.15
#: Modes between which s and q choose independently (κ below the first) are one. With many rows a weaker dependence is
#: sure too, but not below the second.
_INDEPENDENT, _NEGLIGIBLE = 0.15, 0.05
#: Modes that overlap more than this are one. Lower, and rare kinds vanish in what looks like them (Hennig: 0.025).
_OVERLAP = 0.04
#: The trial that chooses the scale.
_TRIAL_STEPS, _TRIAL_ROWS = 80, 1500
#: Rows that the coordinates shared by both inputs are taken from, and that families of modes are asked of.
_MAPPED_ROWS = 20_000
#: What suits the data better shows clearly; a small difference is noise.
_CLEARLY = 1.1
#: Rows that are asked whether there is a gap between two modes, and columns of both inputs beyond which they are not.
_GAP_ROWS, _MOST_COLUMNS = 5_000, 400
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


def find_modes(
    model: CoincidenceModes,
    data: FrontRows,
    modes: int,
    batch: int,
    group: ArrayLike | None,
    time: Any,
    rng: np.random.Generator,
    *,
    most_steps: int | None = None,
) -> Found:
    """All steps of a fit on scaled rows; ``most_steps`` is for the training by the table."""
    data, n = data.ready(), len(data)
    blueprints = _blueprints(model.net, data)
    fold = _folds(n, max(2, model.n_seeds), group, rng)
    members = [int(x) for x in rng.integers(2**30, size=model.n_seeds)]
    seen = torch.from_numpy(np.stack([fold != m for m in range(model.n_seeds)]).astype(np.float32))
    plan = _plan(model, data, batch, rng)
    if most_steps is not None:
        plan = replace(plan, steps=min(plan.steps, most_steps))
    short = replace(plan, steps=min(plan.steps, _LABEL_STEPS if data.flat else plan.steps // 2))
    threads = torch.get_num_threads()
    workers = threads if data.flat else 1
    torch.set_num_threads(1 if data.flat else threads)
    try:
        with Progress(plan.steps + 2 * short.steps, verbose=model.verbose) as bar:
            duo = trained(
                partial(train_on_table, data, plan),
                blueprints,
                members,
                modes,
                seen,
                workers=workers,
                sharp=True,
                tick=lambda step: bar.advance(1, "looking for modes"),
            )
            a, b = responsibilities(duo, data)
            held = [np.flatnonzero(fold == m) for m in range(len(a))]
            strata = [None if data.context is None else data.context.numpy()[rows] for rows in held]
            p_value = evidence.global_p_value(_held_votes(a, b, held), modes, strata, rng)
            if p_value > model.significance:
                reason = f"shuffled pairings of the held-out rows do as well (p = {p_value:.3g})"
                return _nothing(blueprints, n, p_value, reason)
            if time is not None:
                when = np.asarray(time)
                held = [rows[np.argsort(when[rows], kind="stable")] for rows in held]
            slow = evidence.slowness(_held_votes(a, b, held), modes, rng)
            b = consensus.matched(a, b)
            own = [consensus.member_labels(a[m], b[m]) for m in range(len(a))]
            codes = None if data.context is None else data.context.numpy()
            clarity = consensus.together(a, b)
            clear = min(_CLEAR, _OFTEN * float((clarity <= 0).mean()))
            labels = _candidates(a, b, clarity, round(_MORE * modes), fold, codes, rng)
            labels = consensus.compact(consensus.clearest(clarity, labels, clear))
            teach = partial(_taught, data, short, blueprints, members, seen, workers, bar)
            if labels.max() < 1:
                return _nothing(blueprints, n, p_value, "all candidates for modes overlap")
            first = teach(labels, 1)
            a, b = responsibilities(first, data)
            pieces = consensus.relabelled(a.mean(0), b.mean(0), labels)
            a, b = _honest(a, b, fold)
            labels = _taught_again(a, b, pieces, _gaps(data, rng), clear)
            if labels.max() < 1:
                return _nothing(blueprints, n, p_value, "all candidates for modes overlap")
            # Convolutions would see every row too often: they start anew (see _EPOCHS).
            duo = teach(labels, 2, like=first if data.flat else None)
            if data.flat:
                mode = consensus.merged_into(pieces, labels, a.shape[1])
                pooled = np.eye(int(labels.max()) + 1)[np.maximum(mode, 0)] * (mode >= 0)[:, None]
                before = consensus.agreed(a @ pooled, b @ pooled, labels)
                after = consensus.agreed(*_honest(*responsibilities(duo, data), fold), labels)
                if (after < _LOST * before).any():
                    duo = teach(labels, 2, like=first, mode=mode)
            a, b = responsibilities(duo, data)
            labels = consensus.relabelled(a.mean(0), b.mean(0), labels)
    finally:
        torch.set_num_threads(threads)
    found = _described(model, duo, blueprints, data, (a, b), labels, own, fold, time, p_value, rng)
    return replace(found, slow=slow)


def _taught(
    data: FrontRows,
    plan: Plan,
    blueprints: tuple[Blueprint, Blueprint],
    members: list[int],
    seen: torch.Tensor,
    workers: int,
    bar: Progress,
    labels: IntArray,
    number: int,
    *,
    like: Duo | None = None,
    mode: IntArray | None = None,
) -> Duo:
    """The members, taught the ``labels`` of the consensus for the first or the second time."""
    return trained(
        partial(train_on_labels, data, replace(plan, seed=plan.seed + number), labels),
        blueprints,
        members,
        int(labels.max()) + 1 if mode is None else len(mode),
        seen,
        workers=workers,
        like=like,
        mode=mode,
        tick=lambda step: bar.advance(1, "agreeing"),
    )


def choose_front(
    model: CoincidenceModes,
    arrays: tuple[NDArray[np.float32], NDArray[np.float32]],
    labels: NDArray[Any] | None,
    modes: int,
    group: ArrayLike | None,
    rng: np.random.Generator,
) -> FrontRows:
    """Rows scaled by one factor, or as shares clearly more on rows that a short training has not seen.

    The others are the coordinates that the inputs share, and each column by itself.
    """
    by_columns = FrontRows(arrays, tuple(Front.fit(x, labels) for x in arrays), labels)
    pooled = tuple(Front.fit(x, labels, pooled=True) for x in arrays)
    if not by_columns.flat or all(front.factors is None for front in pooled):
        return by_columns
    n = len(by_columns)
    held = held_out(n, group, rng)
    many = np.sort(rng.permutation(n)[:_MAPPED_ROWS])
    maps = canonical_maps(by_columns.side(0, many).numpy(), by_columns.side(1, many).numpy(), held[many])
    fronts = {"by one factor": pooled}
    if maps is not None:
        fronts["canonical"] = tuple(
            replace(front, factors=factors) for front, factors in zip(by_columns.fronts, maps, strict=True)
        )
    fronts["by columns"] = by_columns.fronts
    some = np.sort(rng.permutation(n)[:_TRIAL_ROWS])
    part = arrays[0][some], arrays[1][some]
    own = None if labels is None else labels[some]
    seed = int(rng.integers(2**30))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # trials side by side: small products gain nothing from threads of their own
    try:
        with ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1)) as pool:
            trial = partial(_shared, model, modes, held[some], seed)
            values = list(pool.map(trial, (FrontRows(part, front, own) for front in fronts.values())))
    finally:
        torch.set_num_threads(threads)
    best, most = pooled, -math.inf
    for (name, front), value in zip(fronts.items(), values, strict=True):
        log.info("shared on held-out rows: %.3f nats, scaled %s", value, name)
        if value > (_CLEARLY * most if most > 0 else most):
            best, most = front, value
    return FrontRows(arrays, best, labels)


def held_out(n: int, group: ArrayLike | None, rng: np.random.Generator) -> BoolArray:
    """A third of the rows, whole groups where there are enough; never the larger part."""
    few = group is not None and len(np.unique(np.asarray(group))) < 3
    held = _folds(n, 3, None if few else group, rng) == 0
    return np.asarray(~held if held.mean() > 0.5 else held)


def _shared(model: CoincidenceModes, modes: int, held: BoolArray, seed: int, data: FrontRows) -> float:
    """The information that a short training finds on rows it has not seen, beyond a shuffled pairing's."""
    data, rng = data.ready(), np.random.default_rng(seed)
    plan = replace(_plan(model, data, len(data), rng), steps=_TRIAL_STEPS)
    duo = build(_blueprints(model.net, data), [seed], modes, sharp=True)
    train_on_table(data, plan, duo, torch.from_numpy((~held).astype(np.float32))[None])
    a, b = (torch.from_numpy(x[:, held]) for x in responsibilities(duo, data))
    weight = torch.ones(a.shape[:2])
    context = None if data.context is None else data.context[torch.from_numpy(held)]
    chance = chance_table(a, b, weight, context)
    values = [joint_table(a, x, weight) for x in (b, b[:, torch.from_numpy(rng.permutation(b.shape[1]))])]
    real, shuffled = (float(mutual_information(table, chance).mean()) for table in values)
    return real - shuffled


def _plan(model: CoincidenceModes, data: FrontRows, batch: int, rng: np.random.Generator) -> Plan:
    return Plan(
        steps=model.steps or (_STEPS if data.flat else _conv_steps(len(data), batch)),
        batch=batch,
        rate=model.lr,
        jitter=_JITTER if model.jitter is None else model.jitter,
        seed=int(rng.integers(2**30)),
        micro_batch=model.micro_batch,
        near=tuple(neighbours(data, _NEAR, rng)) if data.flat else None,
    )


def _candidates(
    a: FloatArray,
    b: FloatArray,
    clarity: FloatArray,
    most: int,
    fold: IntArray,
    context: IntArray | None,
    rng: np.random.Generator,
) -> IntArray:
    """Groups of rows that the members put together in both inputs, and that these see at once; -1 for other rows.

    Rows that show in one input only (``clarity`` is not above 0) are left out: they lie between the modes and would
    join them. Of many rows some are compared with each other, and the rest goes to the group that it is most alike.
    """
    labels = np.full(a.shape[1], -1)
    shared = np.flatnonzero(clarity > 0)
    some = np.sort(rng.permutation(shared)[:_COMPARED])
    if len(some) < 2 * LEAST_ROWS:
        return labels
    labels[some] = consensus.groups(consensus.alike(a[:, some], b[:, some]), most, LEAST_ROWS)
    if labels.max() < 0:
        return labels
    near_s, near_q = consensus.nearness(a, b, labels)
    rest = np.setdiff1d(shared, some)
    labels[rest] = (near_s[rest] * near_q[rest]).argmax(1)
    rows = np.flatnonzero(fold < len(a))
    near_s, near_q = (near[rows] for near in consensus.nearness(a, b, labels, fold))
    real = evidence.coincident(near_s, near_q, None if context is None else context[rows])
    return _with_crowd(a, b, consensus.compact(np.where(real[labels] & (labels >= 0), labels, -1)))


def _with_crowd(a: FloatArray, b: FloatArray, labels: IntArray) -> IntArray:
    """Labels in which the crowd is a group too: the rows that look like no group in either input, if most rows do.

    Where normal rows share nothing, each network cuts them elsewhere, and hardly two of them are alike. Rows that look
    like one group in s and like another in q are no crowd.
    """
    far, known = labels < 0, labels >= 0
    if far.mean() <= 0.5 or not known.any():
        return labels
    for near in consensus.nearness(a, b, labels):
        most = near.max(1)
        far &= most < _UNLIKE * np.median(most[known])
    return np.where(far, labels.max() + 1, labels) if far.mean() > 0.5 else labels


def _honest(a: FloatArray, b: FloatArray, fold: IntArray) -> tuple[FloatArray, FloatArray]:
    """What the member that did not learn from a row says about it; where all did, their mean."""
    rows = np.flatnonzero(fold < len(a))
    found = []
    for votes in (a, b):
        mean = votes.mean(0)
        mean[rows] = votes[fold[rows], rows]
        found.append(mean)
    return found[0], found[1]


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
    rng: np.random.Generator,
) -> Found:
    a, b = both
    k, mean = a.shape[2], (a.mean(0), b.mean(0))
    sizes = np.maximum(np.bincount(labels[labels >= 0], minlength=k) / max(1, (labels >= 0).sum()), 1e-6)
    isolation = None
    if time is not None:
        isolation = time_isolation(labels, np.argsort(np.asarray(time), kind="stable"), k)
    spread = spread_of_modes(log_evidence(*mean, sizes), model.max_rare, rng)
    sure = consensus.posterior(*mean, sizes)[0]
    rows = np.flatnonzero(fold < len(a))  # with a single member, only its held-out rows are honest
    honest_a, honest_b = a[fold[rows], rows], b[fold[rows], rows]
    codes = None if data.context is None else data.context.numpy()[rows]
    found = [
        mode
        for mode in describe(honest_a, honest_b, labels, sure, own, codes)
        if mode.rows >= LEAST_ROWS and mode.p_value <= model.significance / k
    ]
    if len(found) < 2:
        return _nothing(blueprints, len(labels), p_value, "no mode holds on rows that training did not see")
    listed = np.array([mode.mode for mode in found])
    roles = assign_roles(
        np.array([mode.size for mode in found]),
        model.max_rare,
        None if isolation is None else isolation[listed],
        spread[listed],
        len(labels),
    )
    table = ModeTable.rarest_first(
        replace(mode, role=role, reason=reason) for mode, (role, reason) in zip(found, roles, strict=True)
    )
    if sum(mode.role == "rare" for mode in table) > 1:
        table = _by_family(model, table, data, mean, labels, isolation, spread, rng.spawn(1)[0])
    return Found(duo, blueprints, table, sizes, labels, p_value)


def _by_family(
    model: CoincidenceModes,
    table: ModeTable,
    data: FrontRows,
    both: tuple[FloatArray, FloatArray],
    labels: IntArray,
    isolation: FloatArray | None,
    spread: FloatArray,
    rng: np.random.Generator,
) -> ModeTable:
    """The catalogue in which small variants of larger modes are no rare modes, where these are usual."""
    listed = np.sort([mode.mode for mode in table])
    place = np.full(both[0].shape[1] + 1, -1)  # the last is for rows without a mode
    place[listed] = np.arange(len(listed))
    known = place[labels]
    gaps = _gaps(data, rng)
    touching = None if gaps is None else gaps.touching(known, len(listed))
    some = np.sort(rng.permutation(len(known))[:_MAPPED_ROWS])
    a, b = (votes[some][:, listed] for votes in both)
    family = families(a, b, known[some], touching, model.max_rare)
    of = {mode.mode: mode for mode in table}
    roles = roles_by_family(
        [(of[k].role, of[k].reason) for k in listed],
        np.array([of[k].size for k in listed]),
        family,
        model.max_rare,
        None if isolation is None else isolation[listed],
        spread[listed],
        listed,
    )
    return ModeTable.rarest_first(
        replace(of[k], role=role, reason=reason) for k, (role, reason) in zip(listed, roles, strict=True)
    )


def _blueprints(net: Any, data: FrontRows) -> tuple[Blueprint, Blueprint]:
    shapes = data.shapes
    if net is not None:
        given = blueprints_for(net, shapes[0], shapes[1])
        if not all(isinstance(one.source, NetSpec) for one in given):
            raise InputError(
                "CoincidenceModes builds networks with as many outputs as it finds modes, so net must be a "
                "coad.NetSpec, a pair of them or a name, not a module"
            )
        return given
    both = [Blueprint(NetSpec(_light(default_spec(shape).convs), (_WIDTH,)), shape) for shape in shapes]
    return both[0], both[1]


def _light(convs: tuple[Conv, ...]) -> tuple[Conv, ...]:
    """Convolutions for several members with many outputs: few channels and large strides.

    One wide layer follows: K modes need room side by side, where the binary method needs one direction.
    """
    if not convs:
        return ()
    stride = max(2, round(math.prod(conv.stride for conv in convs) ** 0.5))
    return Conv(8, 5, stride, 2), Conv(16, 5, stride, 2)


def _folds(n: int, folds: int, group: ArrayLike | None, rng: np.random.Generator) -> IntArray:
    if group is None:
        return np.asarray(rng.permutation(n) % folds, dtype=np.int64)
    values, code = np.unique(np.asarray(group), return_inverse=True)
    if len(code) != n:
        raise InputError(f"group has {len(code):,} values, but there are {n:,} rows")
    if len(values) < folds:
        raise InputError(f"there are {len(values)} groups; n_seeds = {folds} needs at least {folds}")
    return np.asarray((rng.permutation(len(values)) % folds)[code.reshape(-1)], dtype=np.int64)


def _conv_steps(n: int, batch: int) -> int:
    """Steps of convolutions: shapes take longer to learn than columns, and need more rows."""
    return int(np.clip(_EPOCHS * n / batch, _STEPS, _MOST_STEPS))


def _held_votes(a: FloatArray, b: FloatArray, held: list[IntArray]) -> list[tuple[IntArray, IntArray]]:
    """What each member votes for on rows that it did not learn from."""
    return [(a[m, rows].argmax(1), b[m, rows].argmax(1)) for m, rows in enumerate(held)]


def _merged(a: FloatArray, b: FloatArray, labels: IntArray, gaps: Gaps | None) -> IntArray:
    """Labels after merging the modes that are one.

    They are, if the inputs confuse them, if many rows belong to both and no clear gap lies between them, or if
    there is no gap at all.
    """
    counts = consensus.joint_counts(a.argmax(1), b.argmax(1), a.shape[1])
    group = merging.merge_map(
        counts, _INDEPENDENT, None if gaps is None else gaps.apart(labels), least=_NEGLIGIBLE
    )
    joined = np.eye(int(group.max()) + 1)[group]
    labels = consensus.renumbered(labels, group)
    size = consensus.part_of_rows(labels, joined.shape[1])
    sure, total = consensus.posterior(a @ joined, b @ joined, size)
    sure = sure[total >= consensus.DISAGREE]
    sure /= sure.sum(1, keepdims=True)
    group = merging.merge_overlapping(sure, _OVERLAP, None if gaps is None else gaps.apart(labels))
    merged = consensus.compact(consensus.renumbered(labels, group))
    return merged if gaps is None or merged.max() < 1 else gaps.merged(merged)


def _taught_again(
    a: FloatArray, b: FloatArray, labels: IntArray, gaps: Gaps | None, clear: float
) -> IntArray:
    """The examples of the second round: modes that are one merged, without rows that are much less clear than others."""
    merged = _merged(a, b, labels, gaps)
    known = labels >= 0
    joined = np.zeros((a.shape[1], int(merged.max()) + 1))
    joined[labels[known], merged[known]] = 1.0
    clarity = consensus.posterior(a @ joined, b @ joined, consensus.part_of_rows(merged))[1]
    return consensus.clearest(clarity, merged, clear)


def _gaps(data: FrontRows, rng: np.random.Generator) -> Gaps | None:
    """Rows of both inputs side by side, to be asked about gaps, if they are flat and not too wide."""
    if not data.flat or sum(math.prod(shape) for shape in data.shapes) > _MOST_COLUMNS:
        return None
    some = np.sort(rng.permutation(len(data))[:_GAP_ROWS])
    rows = np.concatenate([data.side(which, some).numpy() for which in (0, 1)], axis=1)
    return Gaps.among(rows.astype(np.float64), some, rng)


def _nothing(blueprints: tuple[Blueprint, Blueprint], n: int, p_value: float, reason: str) -> Found:
    return Found(None, blueprints, ModeTable(), np.zeros(0), np.full(n, -1), p_value, reason)
