"""The coordinates that a fit looks at the rows in: which of several suits the data, asked of rows held out."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray
from coad.modes.canonical import canonical_maps
from coad.modes.inputs import Front, FrontRows
from coad.modes.objective import chance_table, joint_table, mutual_information
from coad.modes.plan import blueprints_of_modes, held_out, plan_for
from coad.modes.training import build, responsibilities, train_on_table
from coad.modes.transforms import Arrays

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["choose_front"]

log = logging.getLogger(__name__)

#: The trial that chooses the scale.
_TRIAL_STEPS, _TRIAL_ROWS = 80, 1500
#: Rows that the coordinates shared by both inputs are taken from.
_MAPPED_ROWS = 20_000
#: What suits the data better shows clearly; a small difference is noise.
_CLEARLY = 1.1
#: Others that share at least this part of what the chosen one does, and no more than so many, may be asked as well.
_PART, _OTHERS = 0.5, 2


def choose_front(
    model: CoincidenceModes,
    looks: Sequence[Arrays],
    labels: NDArray[Any] | None,
    modes: int,
    group: ArrayLike | None,
    rng: np.random.Generator,
) -> list[tuple[int, FrontRows]]:
    """The first of several looks at the rows, scaled by one factor, or what shares clearly more; then the next best.

    That is asked of rows that a short training has not seen. Each look is a pair of arrays; the other scales are the
    coordinates that the inputs share, and each column by itself. What is shared may be no kinds at all, so others that
    share nearly as much are given too, the most first.
    """
    n = len(looks[0][0])
    held: BoolArray | None = None
    candidates: list[_Candidate] = []
    for look, arrays in enumerate(looks):
        by_columns = FrontRows(arrays, tuple(Front.fit(x, labels) for x in arrays), labels)
        pooled = tuple(Front.fit(x, labels, pooled=True) for x in arrays)
        if by_columns.flat and any(front.factors is not None for front in pooled):
            held = held_out(n, group, rng) if held is None else held
            candidates.append(_Candidate(look, "by one factor", pooled))
            many = np.sort(rng.permutation(n)[:_MAPPED_ROWS])
            s, q = (by_columns.side(which, many).numpy() for which in (0, 1))
            maps = canonical_maps(s, q, held[many])
            if maps is not None:
                own = zip(by_columns.fronts, maps, strict=True)
                shared = tuple(replace(front, factors=factors) for front, factors in own)
                candidates.append(_Candidate(look, "canonical", shared))
        candidates.append(_Candidate(look, "by columns", by_columns.fronts))
    if len(candidates) > 1:
        held = held_out(n, group, rng) if held is None else held
        candidates = _most_shared(model, looks, labels, modes, held, candidates, rng)
    return [(one.look, FrontRows(looks[one.look], one.fronts, labels)) for one in candidates]


class _Candidate(NamedTuple):
    """One of the looks, and how it is scaled."""

    look: int
    scale: str
    fronts: tuple[Front, ...]


def _most_shared(
    model: CoincidenceModes,
    looks: Sequence[Arrays],
    labels: NDArray[Any] | None,
    modes: int,
    held: BoolArray,
    candidates: Sequence[_Candidate],
    rng: np.random.Generator,
) -> list[_Candidate]:
    """The first candidate, or one behind it that shares clearly more on the ``held`` rows; then some that share much too."""
    some = np.sort(rng.permutation(len(held))[:_TRIAL_ROWS])
    own = None if labels is None else labels[some]
    trials = (
        FrontRows((looks[one.look][0][some], looks[one.look][1][some]), one.fronts, own) for one in candidates
    )
    seed = int(rng.integers(2**30))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # trials side by side: small products gain nothing from threads of their own
    try:
        with ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1)) as pool:
            values = list(pool.map(partial(_shared, model, modes, held[some], seed), trials))
    finally:
        torch.set_num_threads(threads)
    best, most = 0, -math.inf
    for number, (one, value) in enumerate(zip(candidates, values, strict=True)):
        log.info("shared on held-out rows: %.3f nats, look %d scaled %s", value, one.look, one.scale)
        if value > (_CLEARLY * most if most > 0 else most):
            best, most = number, value
    others = [i for i in np.argsort(values)[::-1] if i != best and values[i] >= _PART * most > 0]
    return [candidates[i] for i in (best, *others[:_OTHERS])]


def _shared(model: CoincidenceModes, modes: int, held: BoolArray, seed: int, data: FrontRows) -> float:
    """The information that a short training finds on rows it has not seen, beyond a shuffled pairing's."""
    data, rng = data.ready(), np.random.default_rng(seed)
    plan = replace(plan_for(model, data, len(data), rng), steps=_TRIAL_STEPS)
    duo = build(blueprints_of_modes(model.net, data), [seed], modes, sharp=True)
    train_on_table(data, plan, duo, torch.from_numpy((~held).astype(np.float32))[None])
    a, b = (torch.from_numpy(x[:, held]) for x in responsibilities(duo, data))
    weight = torch.ones(a.shape[:2])
    context = None if data.context is None else data.context[torch.from_numpy(held)]
    chance = chance_table(a, b, weight, context)
    values = [joint_table(a, x, weight) for x in (b, b[:, torch.from_numpy(rng.permutation(b.shape[1]))])]
    real, shuffled = (float(mutual_information(table, chance).mean()) for table in values)
    return real - shuffled
