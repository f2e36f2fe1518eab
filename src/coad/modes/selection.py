"""Selection of the transform and of the coordinates, by the information that both inputs share on held-out rows."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray
from coad.modes.canonical import canonical_maps
from coad.modes.cataloguing import FitResult
from coad.modes.checks import warn_of_batch
from coad.modes.coordinates import Coordinates, MappedRows
from coad.modes.objective import chance_table, joint_table, mutual_information
from coad.modes.pipeline import find_modes
from coad.modes.plan import Task, held_out, mode_blueprints, plan_for
from coad.modes.training import build, responsibilities, train_on_table
from coad.modes.transforms import Arrays, Transformed, Transforms, apply_transforms, candidate_transforms

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["SelectedFit", "choose_coordinates", "fit_best_transform"]

log = logging.getLogger(__name__)

#: Rows per batch: flat rows; convolutions, which cost more per row; the same from 12,000 rows on, with less noisy tables.
_FLAT_BATCH, _CONV_BATCH, _CONV_BATCH_MANY, _MANY = 2048, 800, 1600, 12_000
#: Normalised information of s and q from which modes are clear: simulated windows with regimes have 0.8 and more in
#: window features; those of the simulated RF station less than 0.1, and 0.14 to 0.17 point by point.
_CLEAR = 0.5
#: Rows on which transforms are compared: each transform is a copy of them.
_TRANSFORM_SAMPLE = 20_000
#: The short training that compares coordinates: long enough to rank them, in about a second.
_TRIAL_STEPS, _TRIAL_ROWS = 80, 1500
#: Rows that canonical coordinates are fitted to.
_CANONICAL_ROWS = 20_000
#: A later candidate must share this many times as much: smaller differences are noise of the short training.
_CLEARLY = 1.1
#: Runners-up that share at least this fraction of the best are returned too, at most so many.
_RUNNER_UP, _MAX_RUNNERS_UP = 0.5, 2


class SelectedFit(NamedTuple):
    """A fit, and the transforms, rows and task that it was made with."""

    found: FitResult
    transforms: Transforms
    data: MappedRows
    task: Task


def fit_best_transform(
    model: CoincidenceModes,
    s: Any,
    q: Any,
    labels: NDArray[Any] | None,
    modes: int,
    group: ArrayLike | None,
    time: Any,
    memory: int,
    rng: np.random.Generator,
) -> SelectedFit:
    """The fit whose modes hold most of the shared information.

    Windows are fitted point by point only if window features show no clear modes, because that takes longer.
    """
    best: SelectedFit | None = None
    choose = partial(choose_coordinates, model, modes=modes, rng=rng)
    for candidates in _candidates(choose, s, q, labels, group, model.net):
        arrays = [shown for _, shown in candidates]
        conv_batch = _CONV_BATCH if len(s) < _MANY else _CONV_BATCH_MANY
        flat = arrays[0][0].ndim == arrays[0][1].ndim == 2
        batch = min(len(s), model.batch_size or (_FLAT_BATCH if flat else conv_batch))
        warn_of_batch(batch, len(s), model.smallest)
        options = choose(arrays, labels, group=group)
        task = Task(model, modes, batch, group, time, memory)
        number, found = find_modes(task, [rows for _, rows in options], rng)
        chosen, data = options[number]
        if best is None or found.strength >= best.found.strength:
            best = SelectedFit(found, candidates[chosen][0], data, task)
        if found.clarity >= _CLEAR:
            break
    assert best is not None
    return best


def _candidates(
    choose: Callable[..., list[tuple[int, MappedRows]]], s: Any, q: Any, labels: Any, group: Any, net: Any
) -> Iterator[list[Transformed]]:
    """Lists of transforms to choose from, with their results; of many rows, a sample chooses one."""
    few = slice(None, None, max(1, len(s) // _TRANSFORM_SAMPLE))
    for candidates in candidate_transforms(s[few], q[few], net):
        if few.step == 1:
            yield candidates
            continue
        chosen = 0
        if len(candidates) > 1:
            some_labels, some_groups = (None if x is None else np.asarray(x)[few] for x in (labels, group))
            arrays = [shown for _, shown in candidates]
            chosen, _ = choose(arrays, some_labels, group=some_groups)[0]
        transforms = candidates[chosen][0]
        yield [(transforms, apply_transforms(transforms, s, q))]


def choose_coordinates(
    model: CoincidenceModes,
    transformed: Sequence[Arrays],
    labels: NDArray[Any] | None,
    *,
    modes: int,
    group: ArrayLike | None,
    rng: np.random.Generator,
) -> list[tuple[int, MappedRows]]:
    """The best coordinates, then the runners-up, each with the number of its transform.

    For each of the ``transformed`` pairs of arrays the candidates are one factor for all columns, canonical coordinates
    and one factor per column. The first is taken unless a later one shares clearly more information on rows held out
    of a short training. Shared information may be a continuum instead of modes, so runners-up are returned too.
    """
    n = len(transformed[0][0])
    held: BoolArray | None = None
    candidates: list[_Candidate] = []
    for number, arrays in enumerate(transformed):
        by_columns = MappedRows(arrays, tuple(Coordinates.fit(x, labels) for x in arrays), labels)
        pooled = tuple(Coordinates.fit(x, labels, pooled=True) for x in arrays)
        if by_columns.flat and any(one.factors is not None for one in pooled):
            held = held_out(n, group, rng) if held is None else held
            candidates.append(_Candidate(number, "by one factor", pooled))
            many = np.sort(rng.permutation(n)[:_CANONICAL_ROWS])
            s, q = (by_columns.side(which, many).numpy() for which in (0, 1))
            maps = canonical_maps(s, q, held[many])
            if maps is not None:
                own = zip(by_columns.coordinates, maps, strict=True)
                canonical = tuple(replace(one, factors=factors) for one, factors in own)
                candidates.append(_Candidate(number, "canonical", canonical))
        candidates.append(_Candidate(number, "by columns", by_columns.coordinates))
    if len(candidates) > 1:
        held = held_out(n, group, rng) if held is None else held
        candidates = _ranked(model, transformed, labels, modes, held, candidates, rng)
    return [
        (one.transform, MappedRows(transformed[one.transform], one.coordinates, labels)) for one in candidates
    ]


class _Candidate(NamedTuple):
    """The number of a transform, and the coordinates after it."""

    transform: int
    scale: str
    coordinates: tuple[Coordinates, ...]


def _ranked(
    model: CoincidenceModes,
    transformed: Sequence[Arrays],
    labels: NDArray[Any] | None,
    modes: int,
    held: BoolArray,
    candidates: Sequence[_Candidate],
    rng: np.random.Generator,
) -> list[_Candidate]:
    """The first candidate, or a later one that shares clearly more on the ``held`` rows; then the runners-up."""
    some = np.sort(rng.permutation(len(held))[:_TRIAL_ROWS])
    own = None if labels is None else labels[some]
    trials = (
        MappedRows(
            (transformed[one.transform][0][some], transformed[one.transform][1][some]), one.coordinates, own
        )
        for one in candidates
    )
    seed = int(rng.integers(2**30))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # trials run side by side: small products gain nothing from threads of their own
    try:
        with ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1)) as pool:
            values = list(pool.map(partial(_shared_information, model, modes, held[some], seed), trials))
    finally:
        torch.set_num_threads(threads)
    best, most = 0, -math.inf
    for number, (one, value) in enumerate(zip(candidates, values, strict=True)):
        log.info(
            "shared on held-out rows: %.3f nats, transform %d scaled %s", value, one.transform, one.scale
        )
        if value > (_CLEARLY * most if most > 0 else most):
            best, most = number, value
    others = [i for i in np.argsort(values)[::-1] if i != best and values[i] >= _RUNNER_UP * most > 0]
    return [candidates[i] for i in (best, *others[:_MAX_RUNNERS_UP])]


def _shared_information(
    model: CoincidenceModes, modes: int, held: BoolArray, seed: int, data: MappedRows
) -> float:
    """Mutual information of the outputs on held-out rows after a short training, less that of a shuffled pairing."""
    data, rng = data.precomputed(), np.random.default_rng(seed)
    plan = replace(plan_for(model, data, len(data), rng), steps=_TRIAL_STEPS)
    duo = build(mode_blueprints(model.net, data), [seed], modes, sharp=True)
    train_on_table(data, plan, duo, torch.from_numpy((~held).astype(np.float32))[None])
    a, b = (torch.from_numpy(x[:, held]) for x in responsibilities(duo, data))
    weight = torch.ones(a.shape[:2])
    context = None if data.context is None else data.context[torch.from_numpy(held)]
    chance = chance_table(a, b, weight, context)
    tables = [joint_table(a, x, weight) for x in (b, b[:, torch.from_numpy(rng.permutation(b.shape[1]))])]
    paired, shuffled = (float(mutual_information(table, chance).mean()) for table in tables)
    return paired - shuffled
