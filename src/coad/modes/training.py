"""Training of stacked K-way networks: on the mutual information of their joint table, and on labels of the consensus.

Networks of a fold are trained on the rows outside it, so their outputs on the fold are held-out predictions.

At every step each row is interpolated with one of its nearest neighbours in the same input. A border between modes is
then expensive where it cuts through dense rows, and settles where the density is low.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from coad._typing import FloatArray, IntArray
from coad.exceptions import InputError
from coad.learned.net_spec import Conv, NetSpec, default_spec
from coad.learned.training.adam import Adam, Group
from coad.learned.training.configure import blueprints_for
from coad.learned.training.duo import Duo, Rows
from coad.learned.training.model import Blueprint
from coad.modes.coordinates import MappedRows, nearest_neighbours
from coad.modes.objective import table_loss

__all__ = ["Plan", "build", "mode_blueprints", "responsibilities", "train_on_labels", "train_on_table"]

Tick = Callable[[int], None]

#: Training steps of flat rows, and epochs of convolutions: with more, the members memorise pairs and agree less. Many
#: members that are trained briefly agree better than few that are trained long.
STEPS, _EPOCHS = 60, 27
#: Training steps on labels. With 90 a rare digit is lost in one of three; 400 are no better (looked at on two digits and
#: one fault of the rig, with labels in view).
LABEL_STEPS = 200
#: Rows per batch: of flat rows, and of convolutions, which cost more per row.
FLAT_BATCH, CONV_BATCH = 2048, 800
#: Hidden units: room for the K modes side by side.
_WIDTH = 64
#: Gaussian noise on scaled inputs, well below the width of a mode.
_JITTER = 0.15
#: Neighbours that a row may be interpolated with: near enough to stay within its mode.
_NEIGHBOURS = 5
#: Normalised logits are multiplied by this. At 1 every row votes a little for every mode and the table stays empty.
_SHARPNESS = 4.0


@dataclass(frozen=True)
class Plan:
    """Steps (None: by the number of rows), rows per batch, learning rate, noise, and rows per micro-batch."""

    steps: int | None = None
    batch: int | None = None
    rate: float = 1e-2
    jitter: float | None = None
    micro_batch: int | None = None


def mode_blueprints(net: Any, rows: MappedRows) -> tuple[Blueprint, Blueprint]:
    """The networks of s and of q: the given ones, or light ones that suit the shapes."""
    shapes = [tuple(shape) for shape in rows.shapes]
    if net is not None:
        given = blueprints_for(net, shapes[0], shapes[1])
        if not all(isinstance(one.source, NetSpec) for one in given):
            raise InputError(
                "CoincidenceModes builds networks with several outputs, so net must be a coad.NetSpec, a pair of them "
                "or a name, not a module"
            )
        return given
    both = [Blueprint(NetSpec(_light(default_spec(shape).convs), (_WIDTH,)), shape) for shape in shapes]
    return both[0], both[1]


def _light(convs: tuple[Conv, ...]) -> tuple[Conv, ...]:
    """Two convolutions with few channels and large strides, because there are several members."""
    if not convs:
        return ()
    stride = max(2, round(math.prod(conv.stride for conv in convs) ** 0.5))
    return Conv(8, 5, stride, 2), Conv(16, 5, stride, 2)


def build(
    blueprints: tuple[Blueprint, Blueprint],
    seeds: list[int],
    outputs: int,
    *,
    sharp: bool = True,
    like: Duo | None = None,
) -> Duo:
    """Both networks of some members; ``sharp`` normalises their logits to a fixed scale.

    With ``like``, they start from its first members, all layers but the last.
    """
    net_s = blueprints[0].build([2 * seed for seed in seeds], outputs)
    net_q = blueprints[1].build([2 * seed + 1 for seed in seeds], outputs)
    net_s.layout = net_q.layout = "channels_last"  # the faster one for several members in a stack
    duo = Duo(net_s, net_q, normalised=sharp)
    with torch.no_grad():
        for head in (duo.head_s, duo.head_q) if sharp else ():
            head.scale.fill_(_SHARPNESS).requires_grad_(False)
            head.shift.zero_().requires_grad_(False)
        known = {} if like is None else dict(like.named_parameters())
        for name, value in duo.named_parameters():
            if name.startswith("net_") and name in known and known[name].shape[1:] == value.shape[1:]:
                value.copy_(known[name][: len(seeds)])
    return duo


def train_on_table(
    duo: Duo, rows: MappedRows, used: IntArray, plan: Plan, seed: int, tick: Tick | None = None
) -> Duo:
    """Maximise the mutual information of each member's joint table on the ``used`` rows."""

    def loss(z_s: Tensor, z_q: Tensor, index: Tensor) -> Tensor:
        context = None if rows.context is None else rows.context[index]
        return table_loss(z_s.softmax(-1), z_q.softmax(-1), torch.ones(z_s.shape[:2]), context)

    return _descend(duo, rows, used, plan, seed, STEPS, loss, tick)


def train_on_labels(
    duo: Duo,
    rows: MappedRows,
    used: IntArray,
    labels: IntArray,
    plan: Plan,
    seed: int,
    tick: Tick | None = None,
) -> Duo:
    """Both networks learn the group of each of the ``used`` rows, by cross-entropy."""
    target = torch.from_numpy(labels)

    def loss(z_s: Tensor, z_q: Tensor, index: Tensor) -> Tensor:
        wanted = target[index].expand(z_s.shape[0], -1)
        return F.cross_entropy(z_s.transpose(1, 2), wanted) + F.cross_entropy(z_q.transpose(1, 2), wanted)

    return _descend(duo, rows, used, plan, seed, LABEL_STEPS, loss, tick)


def _descend(
    duo: Duo,
    rows: MappedRows,
    used: IntArray,
    plan: Plan,
    seed: int,
    flat_steps: int,
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
    tick: Tick | None,
) -> Duo:
    batch = min(len(used), plan.batch or (FLAT_BATCH if rows.flat else CONV_BATCH))
    batches = max(1, round(len(used) / batch))
    steps = plan.steps or (flat_steps if rows.flat else max(STEPS, _EPOCHS * batches))
    jitter = _JITTER if plan.jitter is None else plan.jitter
    rng = np.random.default_rng(seed)
    noise = torch.Generator().manual_seed(seed)
    near = nearest_neighbours(rows, used, _NEIGHBOURS, rng) if rows.flat else None
    group = Group([p for p in duo.parameters() if p.requires_grad], plan.rate)
    optimizer = Adam([group])
    duo.train()
    duo.head_s.momentum = duo.head_q.momentum = max(0.1, 1.0 / batches)
    order: list[IntArray] = []
    for step in range(steps):
        order = order or list(np.array_split(rng.permutation(used), batches))
        index = order.pop()
        group.lr = plan.rate * _learning_rate_factor(step / steps)
        pair = []
        for side, x in enumerate(rows.take(index)):
            if near is not None:
                pick = near[side][index, rng.integers(near[side].shape[1], size=len(index))]
                x = x + torch.rand(len(index), 1, generator=noise) * (rows.side(side, pick) - x)
            pair.append(x + jitter * torch.randn(x.shape, generator=noise))
        optimizer.zero_grad()
        backward(duo, pair[0], pair[1], torch.from_numpy(index), loss, plan.micro_batch)
        optimizer.step()
        if tick is not None:
            tick(step + 1)
    return duo.eval()


@torch.no_grad()
def responsibilities(duo: Duo, rows: Rows, block: int = 4096) -> tuple[FloatArray, FloatArray]:
    """The softmax outputs a and b of all rows, (members, n, K), float32."""
    duo.eval()
    parts = [duo(s, q) for s, q in rows.blocks(block)]
    a, b = (torch.cat([part[i] for part in parts], dim=1).softmax(-1).numpy() for i in (0, 1))
    return a, b


def backward(
    duo: Duo,
    s: Tensor,
    q: Tensor,
    index: Tensor,
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
    micro: int | None,
) -> None:
    """The exact gradient of a batch, in micro-batches if asked for.

    The loss depends on the networks through K logits a row: these are collected without gradients, the loss is
    differentiated by them, and each micro-batch is back-propagated with its part.
    """
    if micro is None or micro >= len(s):
        logit_s, logit_q = duo(s, q)
        loss(logit_s, logit_q, index).backward()  # type: ignore[no-untyped-call]
        return
    collected = []
    for net, x in ((duo.net_s, s), (duo.net_q, q)):
        with torch.no_grad():
            z = torch.cat([net(part) for part in torch.split(x, micro)], dim=1)
        collected.append(z.requires_grad_(True))
    loss(duo.head_s(collected[0]), duo.head_q(collected[1]), index).backward()  # type: ignore[no-untyped-call]
    for net, x, z in ((duo.net_s, s, collected[0]), (duo.net_q, q, collected[1])):
        assert z.grad is not None
        for part, grad in zip(torch.split(x, micro), torch.split(z.grad, micro, dim=1), strict=True):
            net(part).backward(grad)


def _learning_rate_factor(done: float) -> float:
    """A rise over the first tenth of the steps, then a cosine to 0."""
    if done < 0.1:
        return (done + 0.01) / 0.11
    return 0.5 * (1.0 + math.cos(math.pi * (done - 0.1) / 0.9))
