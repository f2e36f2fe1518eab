"""The plan of a fit: networks, steps, and the rows that each ensemble member is trained on."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, IntArray
from coad.exceptions import CoadWarning, InputError
from coad.learned.net_spec import Conv, NetSpec, default_spec
from coad.learned.training.configure import blueprints_for
from coad.learned.training.inputs import warn_of_repeated_readings
from coad.learned.training.model import Blueprint
from coad.learned.training.split import (
    correlation_length,
    in_time_order,
    join_groups,
    new_rows,
    take_turns,
    widened,
)
from coad.modes.coordinates import MappedRows, nearest_neighbours
from coad.modes.training import Plan

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["Task", "folds", "held_out", "mode_blueprints", "plan_for", "split_groups", "training_rows"]

#: Training steps of flat rows: the table hardly changes after that.
_STEPS = 200
#: Epochs of convolutions (with more they memorise the pairs), and their most steps.
_EPOCHS, _MAX_STEPS = 27, 1500
#: Hidden units: K modes need room side by side.
_WIDTH = 128
#: Gaussian noise on scaled inputs, a regulariser well below the width of a mode.
_JITTER = 0.15
#: The length of stretches that are held out, in correlation lengths of the rows.
_STRETCH = 4
#: Neighbours that a row may be interpolated with: near enough to stay within its mode.
_NEIGHBOURS = 5


@dataclass(frozen=True)
class Task:
    """The settings of a fit, the modes to start with, the batch size, and the group, time and memory of the rows."""

    model: CoincidenceModes
    modes: int
    batch: int
    group: ArrayLike | None = None
    time: Any = None
    memory: int = 0


def plan_for(model: CoincidenceModes, data: MappedRows, batch: int, rng: np.random.Generator) -> Plan:
    """Steps, batches, noise and neighbours of the training."""
    return Plan(
        steps=model.steps or (_STEPS if data.flat else _conv_steps(len(data), batch)),
        batch=batch,
        rate=model.lr,
        jitter=_JITTER if model.jitter is None else model.jitter,
        seed=int(rng.integers(2**30)),
        micro_batch=model.micro_batch,
        neighbours=tuple(nearest_neighbours(data, _NEIGHBOURS, rng)) if data.flat else None,
    )


def mode_blueprints(net: Any, data: MappedRows) -> tuple[Blueprint, Blueprint]:
    """The networks of s and of q: the given ones, or light ones that suit the shapes."""
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


def split_groups(
    model: CoincidenceModes,
    rows_s: NDArray[Any],
    rows_q: NDArray[Any],
    labels: NDArray[Any] | None,
    given: NDArray[Any] | None,
    time: Any,
) -> tuple[NDArray[Any] | None, int]:
    """The rows that splits must not tear apart, None if each is by itself, and the number of rows that stay alike.

    These are the ``given`` groups, the rows of one reading, or stretches of time that are longer than the inputs stay
    alike. Given groups may be pieces of one slow series: those that follow each other are joined to such stretches. If
    they take turns, rows of other groups are next to every row, so stretches of time take their place.
    """
    n, group = len(rows_s), given
    memory = 0
    if given is None and (new := new_rows(rows_s, rows_q)) is not None:
        warn_of_repeated_readings(new, "the rows of one reading are kept in one split", least=100)
        group = np.cumsum(new, dtype=np.int64)
    if model.ordered:
        code = None if labels is None else np.unique(labels, return_inverse=True)[1]
        order = in_time_order(np.arange(n), time)
        memory = correlation_length(rows_s, rows_q, order, code)
        if memory:
            stretches = max(2 * max(2, model.n_starts), n // (_STRETCH * memory))
            joined = np.empty(n, dtype=np.int64)
            joined[order] = np.arange(n) * stretches // n
            if given is not None and take_turns(given[order]):
                warnings.warn(
                    f"groups take turns, but inputs stay alike for {memory:,} rows: stretches of time are held out instead "
                    "of groups; if rows are in no order, say so (ordered=False, --unordered)",
                    CoadWarning,
                    stacklevel=3,
                )
            elif given is not None:
                joined[order] = join_groups(given[order], n / stretches)
                if len(np.unique(joined)) < max(2, model.n_starts):  # too few for folds()
                    joined = given
            group = joined
    return group, memory


def training_rows(fold: IntArray, members: int, task: Task) -> BoolArray:
    """The rows that each member is trained on, (members, n): not its fold, nor rows that are alike with rows of it."""
    held = fold == np.arange(members)[:, None]
    if task.memory:
        order = in_time_order(np.arange(len(fold)), task.time)
        gap = min(task.memory, len(fold) // (2 * len(np.unique(np.asarray(task.group)))))
        held[:, order] = widened(held[:, order], gap)
    return np.asarray(~held)


def folds(n: int, count: int, group: ArrayLike | None, rng: np.random.Generator) -> IntArray:
    """The fold of each row, of ``count``; rows of a group share one."""
    if group is None:
        return np.asarray(rng.permutation(n) % count, dtype=np.int64)
    values, code = np.unique(np.asarray(group), return_inverse=True)
    if len(code) != n:
        raise InputError(f"group has {len(code):,} values, but there are {n:,} rows")
    if len(values) < count:
        raise InputError(f"there are {len(values)} groups; n_starts = {count} needs at least {count}")
    return np.asarray((rng.permutation(len(values)) % count)[code.reshape(-1)], dtype=np.int64)


def held_out(n: int, group: ArrayLike | None, rng: np.random.Generator) -> BoolArray:
    """A random third of the rows, in whole groups if there are at least three; never more than half."""
    few = group is not None and len(np.unique(np.asarray(group))) < 3
    held = folds(n, 3, None if few else group, rng) == 0
    return np.asarray(~held if held.mean() > 0.5 else held)


def _light(convs: tuple[Conv, ...]) -> tuple[Conv, ...]:
    """Two convolutions with few channels and large strides, because there are several members."""
    if not convs:
        return ()
    stride = max(2, round(math.prod(conv.stride for conv in convs) ** 0.5))
    return Conv(8, 5, stride, 2), Conv(16, 5, stride, 2)


def _conv_steps(n: int, batch: int) -> int:
    """Steps of convolutions, which need longer than flat rows."""
    return int(np.clip(_EPOCHS * n / batch, _STEPS, _MAX_STEPS))
