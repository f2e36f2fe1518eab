"""What a fit is made of: networks, steps, and which rows each member learns from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import ArrayLike, BoolArray, IntArray
from coad.exceptions import InputError
from coad.learned.net_spec import Conv, NetSpec, default_spec
from coad.learned.training.configure import blueprints_for
from coad.learned.training.model import Blueprint
from coad.modes.inputs import FrontRows, neighbours
from coad.modes.training import Plan

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["Task", "blueprints_of_modes", "folds", "held_out", "plan_for"]

_STEPS = 200
#: Times that convolutions see every row: more, and they learn the pairs by heart. Never more steps than the second.
_EPOCHS, _MOST_STEPS = 27, 1500
_WIDTH = 128
_JITTER = 0.15
#: Each row moves towards one of so many neighbours.
_NEAR = 5


@dataclass(frozen=True)
class Task:
    """What a fit is asked for: its settings, modes to start with, rows of a batch, and what is known of the rows."""

    model: CoincidenceModes
    modes: int
    batch: int
    group: ArrayLike | None = None
    time: Any = None


def plan_for(model: CoincidenceModes, data: FrontRows, batch: int, rng: np.random.Generator) -> Plan:
    """How long the members are trained, in which portions, and with which neighbours."""
    return Plan(
        steps=model.steps or (_STEPS if data.flat else _conv_steps(len(data), batch)),
        batch=batch,
        rate=model.lr,
        jitter=_JITTER if model.jitter is None else model.jitter,
        seed=int(rng.integers(2**30)),
        micro_batch=model.micro_batch,
        near=tuple(neighbours(data, _NEAR, rng)) if data.flat else None,
    )


def blueprints_of_modes(net: Any, data: FrontRows) -> tuple[Blueprint, Blueprint]:
    """The networks of s and of q: those that were asked for, or light ones that suit the shapes."""
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


def folds(n: int, count: int, group: ArrayLike | None, rng: np.random.Generator) -> IntArray:
    """The fold of each row, of ``count``; rows of a group are in one."""
    if group is None:
        return np.asarray(rng.permutation(n) % count, dtype=np.int64)
    values, code = np.unique(np.asarray(group), return_inverse=True)
    if len(code) != n:
        raise InputError(f"group has {len(code):,} values, but there are {n:,} rows")
    if len(values) < count:
        raise InputError(f"there are {len(values)} groups; n_starts = {count} needs at least {count}")
    return np.asarray((rng.permutation(len(values)) % count)[code.reshape(-1)], dtype=np.int64)


def held_out(n: int, group: ArrayLike | None, rng: np.random.Generator) -> BoolArray:
    """A third of the rows, whole groups where there are enough; never the larger part."""
    few = group is not None and len(np.unique(np.asarray(group))) < 3
    held = folds(n, 3, None if few else group, rng) == 0
    return np.asarray(~held if held.mean() > 0.5 else held)


def _light(convs: tuple[Conv, ...]) -> tuple[Conv, ...]:
    """Convolutions for several members with many outputs: few channels and large strides.

    One wide layer follows: K modes need room side by side, where the binary method needs one direction.
    """
    if not convs:
        return ()
    stride = max(2, round(math.prod(conv.stride for conv in convs) ** 0.5))
    return Conv(8, 5, stride, 2), Conv(16, 5, stride, 2)


def _conv_steps(n: int, batch: int) -> int:
    """Steps of convolutions: shapes take longer to learn than columns, and need more rows."""
    return int(np.clip(_EPOCHS * n / batch, _STEPS, _MOST_STEPS))
