"""Training of stacked K-way networks: first on the joint table, then on the labels of the consensus.

Member m is not trained on fold m, so its outputs there are held-out predictions.

At every step each row is interpolated with one of its nearest neighbours in the same input. A border between modes is
then expensive where it cuts through dense rows, and settles where the density is low.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from coad._typing import FloatArray, IntArray
from coad.learned.nets import LoopedNet, StackedNet
from coad.learned.training.adam import Adam, Group
from coad.learned.training.duo import Duo, Rows
from coad.learned.training.model import Blueprint
from coad.modes.coordinates import MappedRows
from coad.modes.objective import table_loss

__all__ = [
    "Plan",
    "PooledDuo",
    "build",
    "responsibilities",
    "train_members",
    "train_on_labels",
    "train_on_table",
]

Tick = Callable[[int], None]
Train = Callable[[Duo, Tensor, Tick | None], None]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

#: The learning rate rises over this fraction of the steps, then follows a cosine.
_WARM_UP = 0.1
#: Normalised logits are multiplied by this. At 1 every row votes a little for every mode and the table stays empty.
_SHARPNESS = 4.0


@dataclass(frozen=True)
class Plan:
    """Steps, batch size, learning rate, noise, and the neighbours of each row in s and in q."""

    steps: int
    batch: int
    rate: float
    jitter: float
    seed: int
    micro_batch: int | None = None
    neighbours: tuple[IntArray, ...] | None = None


class PooledDuo(Duo):
    """Networks with more outputs than modes; ``mode`` (outputs,) is the mode of each output, -1 if it has none."""

    mode: Tensor

    def __init__(self, net_s: StackedNet | LoopedNet, net_q: StackedNet | LoopedNet, mode: IntArray) -> None:
        super().__init__(net_s, net_q, normalised=False)
        self.register_buffer("mode", torch.from_numpy(np.asarray(mode, dtype=np.int64)))

    def forward(self, s: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        z_s, z_q = super().forward(s, q)
        return self._pooled(z_s), self._pooled(z_q)

    def _pooled(self, z: Tensor) -> Tensor:
        """Log-sum-exp over the outputs of each mode."""
        own = F.one_hot(self.mode.clamp_min(0)).to(z.dtype) * (self.mode >= 0)[:, None]
        top = z.detach().amax(-1, keepdim=True)
        return ((z - top).exp() @ own).clamp_min(1e-30).log() + top


def build(
    blueprints: tuple[Blueprint, Blueprint],
    seeds: list[int],
    outputs: int,
    *,
    sharp: bool = False,
    mode: IntArray | None = None,
) -> Duo:
    """Both networks of some members; ``sharp`` normalises the logits to a fixed scale, ``mode`` pools the outputs."""
    net_s = blueprints[0].build([2 * seed for seed in seeds], outputs)
    net_q = blueprints[1].build([2 * seed + 1 for seed in seeds], outputs)
    net_s.layout = net_q.layout = "channels_last"  # the faster one for several members in a stack
    if mode is not None:
        return PooledDuo(net_s, net_q, mode)
    duo = Duo(net_s, net_q, normalised=sharp)
    if sharp:
        with torch.no_grad():
            for head in (duo.head_s, duo.head_q):
                head.scale.fill_(_SHARPNESS).requires_grad_(False)
                head.shift.zero_().requires_grad_(False)
    return duo


def train_members(
    train: Train,
    blueprints: tuple[Blueprint, Blueprint],
    members: list[int],
    outputs: int,
    weight: Tensor,
    *,
    workers: int = 1,
    sharp: bool = False,
    like: Duo | None = None,
    mode: IntArray | None = None,
    tick: Tick | None = None,
) -> Duo:
    """Train all members, distributed over ``workers`` threads (fully-connected networks only).

    ``weight`` (members, n) is 0 for the rows that a member is not trained on. With ``like``, each member starts from the
    layers of the same member there whose shapes agree: all but the last, if the number of outputs differs. ``mode``
    pools the outputs of each mode.
    """
    parts = [part for part in np.array_split(np.arange(len(members)), workers) if len(part)]

    def one(part: IntArray) -> Duo:
        duo = build(blueprints, [members[i] for i in part], outputs, sharp=sharp, mode=mode)
        if like is not None:
            _start_like(duo, like, torch.from_numpy(part))
        train(duo, weight[torch.from_numpy(part)], tick if part[0] == 0 else None)
        return duo

    if len(parts) == 1:
        return one(parts[0])
    with ThreadPoolExecutor(len(parts), initializer=lambda: torch.set_num_threads(1)) as pool:
        states = [duo.state_dict() for duo in pool.map(one, parts)]
    whole = build(blueprints, members, outputs, sharp=sharp, mode=mode)
    stacked = {name: torch.cat([state[name] for state in states]) for name in states[0] if name != "mode"}
    whole.load_state_dict(stacked if mode is None else {**stacked, "mode": states[0]["mode"]})
    return whole


@torch.no_grad()
def _start_like(duo: Duo, like: Duo, part: Tensor) -> None:
    """Copy the layers of some members where the shapes agree; heads start anew."""
    known = dict(like.named_parameters())
    for name, value in duo.named_parameters():
        if name.startswith("net_") and known[name].shape[1:] == value.shape[1:]:
            value.copy_(known[name][part])


def train_on_table(rows: MappedRows, plan: Plan, duo: Duo, weight: Tensor, tick: Tick | None = None) -> None:
    """Maximise the mutual information of each member's joint table; ``weight`` (members, n) is 0 on its fold."""

    def loss(z_s: Tensor, z_q: Tensor, index: Tensor) -> Tensor:
        context = None if rows.context is None else rows.context[index]
        return table_loss(z_s.softmax(-1), z_q.softmax(-1), weight[:, index], context)

    _descend(duo, rows, np.arange(len(rows)), plan, loss, tick)


def train_on_labels(
    rows: MappedRows, plan: Plan, labels: IntArray, duo: Duo, weight: Tensor, tick: Tick | None = None
) -> None:
    """Train both networks on the labels of the consensus by cross-entropy; rows with -1 are left out."""
    target = torch.from_numpy(labels)

    def loss(z_s: Tensor, z_q: Tensor, index: Tensor) -> Tensor:
        wanted = target[index].expand(z_s.shape[0], -1)
        own = weight[:, index]
        each = sum(F.cross_entropy(z.transpose(1, 2), wanted, reduction="none") for z in (z_s, z_q))
        value: Tensor = ((each * own).sum(1) / own.sum(1).clamp_min(1.0)).sum()
        return value

    _descend(duo, rows, np.flatnonzero(labels >= 0), plan, loss, tick)


@torch.no_grad()
def responsibilities(duo: Duo, rows: Rows, block: int = 4096) -> tuple[FloatArray, FloatArray]:
    """The softmax outputs a and b of all rows, (members, n, K)."""
    duo.eval()
    parts = [duo(s, q) for s, q in rows.blocks(block)]
    a, b = (torch.cat([part[i] for part in parts], dim=1).softmax(-1).numpy() for i in (0, 1))
    return a, b


def _descend(duo: Duo, rows: MappedRows, used: IntArray, plan: Plan, loss: Loss, tick: Tick | None) -> None:
    group = Group([p for p in duo.parameters() if p.requires_grad], plan.rate)
    optimizer = Adam([group])
    rng = np.random.default_rng([plan.seed, plan.steps])
    noise = torch.Generator().manual_seed(int(rng.integers(2**62)))
    batches = max(1, round(len(used) / plan.batch))
    duo.head_s.momentum = duo.head_q.momentum = max(0.1, 1.0 / batches)
    step = 0
    while step < plan.steps:
        for index in np.array_split(rng.permutation(used), batches):
            group.lr = plan.rate * _learning_rate_factor(step / plan.steps)
            s, q = _augmented(rows, index, plan, noise)
            duo.train()
            optimizer.zero_grad()
            _backward(duo, s, q, torch.from_numpy(index), loss, plan.micro_batch)
            optimizer.step()
            step += 1
            if tick is not None:
                tick(step)
            if step >= plan.steps:
                break


def _augmented(rows: MappedRows, index: IntArray, plan: Plan, noise: torch.Generator) -> tuple[Tensor, ...]:
    """Some rows, interpolated with a neighbour and jittered, independently in s and in q."""
    found = list(rows.take(index))
    for side in (0, 1):
        x = found[side]
        if plan.neighbours is not None:
            near = plan.neighbours[side]
            pick = torch.randint(near.shape[1], (len(index),), generator=noise).numpy()
            part = torch.rand(len(index), 1, generator=noise)
            x = x + part * (rows.side(side, near[index, pick]) - x)
        if plan.jitter > 0:
            x = x + plan.jitter * torch.randn(x.shape, generator=noise)
        found[side] = x
    return tuple(found)


def _backward(duo: Duo, s: Tensor, q: Tensor, index: Tensor, loss: Loss, micro: int | None) -> None:
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
    if done < _WARM_UP:
        return (done + 0.01) / (_WARM_UP + 0.01)
    return 0.5 * (1.0 + math.cos(math.pi * (done - _WARM_UP) / (1.0 - _WARM_UP)))
