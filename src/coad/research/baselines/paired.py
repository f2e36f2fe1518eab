"""Two networks trained jointly with another objective: correlation, covariance, or labels.

The networks and the normalised head are those of CoAD; only the objective differs. Of two starts the one with
the better objective is kept (CoAD can average its starts: ``ensemble``).
Deep CCA maximises corr(p_s, p_q) (paper: akin to P̂), deep MCA cov(p_s, p_q) (akin to R̂), and
the supervised networks (SNN) minimise the cross-entropy of p_s · p_q against labels.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coad._typing import BoolArray, FloatArray, IntArray
from coad.exceptions import InputError, NotFittedError
from coad.learned.nets import NormalisedHead, StackedNet
from coad.learned.training.configure import blueprints_for
from coad.learned.training.settings import Augment
from coad.learned.training.split import hold_out
from coad.research.baselines.base import Array32

__all__ = ["DeepCCA", "DeepMCA", "SupervisedNets"]

_BLOCK = 512


class PairedNets(ABC):
    """Base class: train several starts at once and keep the one with the best objective on held-out rows.

    Parameters
    ----------
    net
        Name or builder of the networks, as for :class:`~coad.learned.estimator.CoAD`.
    epochs, least_steps
        Number of epochs; more if they amount to fewer than ``least_steps`` training steps.
    batch_size, lr
        Batch size, and the maximum of a one-cycle learning rate schedule.
    n_starts
        Number of starts.
    augment
        Applied to every training batch.
    random_state
        Seed of weights, held-out rows and batches.
    """

    needs_labels = False
    sign_is_free = True  #: the objective is the same if both scores change their sign

    def __init__(
        self,
        *,
        net: Any = None,
        epochs: int = 40,
        least_steps: int = 0,
        batch_size: int = 256,
        lr: float = 5e-3,
        n_starts: int = 2,
        augment: Augment | None = None,
        random_state: int = 0,
    ) -> None:
        self.net = net
        self.epochs = epochs
        self.least_steps = least_steps
        self.batch_size = batch_size
        self.lr = lr
        self.n_starts = n_starts
        self.augment = augment
        self.random_state = random_state

    @abstractmethod
    def objective(self, z_s: Tensor, z_q: Tensor, label: Tensor) -> Tensor:
        """Compute the loss of each start; the logits are (starts, n)."""

    def fit(self, s: Array32, q: Array32, label: Any = None, group: Any = None) -> PairedNets:
        """Train; a fifth of the rows (or of the groups) is held out to choose the epoch and the start."""
        if self.needs_labels and label is None:
            raise InputError("this method learns from labels, and the data have none")
        all_s = torch.from_numpy(np.ascontiguousarray(s, dtype=np.float32))
        all_q = torch.from_numpy(np.ascontiguousarray(q, dtype=np.float32))
        truth = torch.zeros(len(all_s)) if label is None else torch.from_numpy(np.asarray(label, np.float32))
        pair = _Pair(
            self.net, s.shape[1:], q.shape[1:], [self.random_state + i for i in range(self.n_starts)]
        )
        first = torch.cat([p.detach().flatten().clone() for p in pair.parameters()])
        train, held = (torch.from_numpy(part) for part in self._held_out(len(all_s), group))
        generator = torch.Generator().manual_seed(self.random_state)
        size = min(self.batch_size, len(train))
        # With few rows an epoch has few steps; as in CoAD, the number of epochs is raised.
        epochs = max(self.epochs, -(-self.least_steps // (len(train) // size)))
        steps = epochs * (len(train) // size)
        optimiser = torch.optim.Adam(pair.parameters(), lr=self.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.lr, total_steps=steps + 1)
        best, kept, self.losses_ = np.inf, copy.deepcopy(pair.state_dict()), []
        self._member = 0
        for _ in range(epochs):
            pair.train()
            total, batches = 0.0, 0
            # An incomplete last batch is dropped: its correlation would be noisy.
            for index in torch.split(train[torch.randperm(len(train), generator=generator)], size):
                if len(index) < size:
                    continue
                x, y = all_s[index], all_q[index]
                if self.augment is not None:
                    x, y = self.augment(x, y, generator)
                z_s, z_q = pair(x, y)
                loss = self.objective(z_s, z_q, truth[index]).sum()
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
                total, batches = total + loss.item() / self.n_starts, batches + 1
            self.losses_.append(total / batches)
            with torch.no_grad():
                value = self.objective(*_logits(pair, all_s[held], all_q[held]), truth[held])
            if float(value.min()) < best:
                best, self._member = float(value.min()), int(value.argmin())
                kept = copy.deepcopy(pair.state_dict())
        pair.load_state_dict(kept)
        now = torch.cat([p.detach().flatten() for p in pair.parameters()])
        self.moved_ = float((now - first).norm() / first.norm())
        self._pair = pair
        self._sign = 1.0
        if not self.needs_labels:
            # Neither objective determines which sign is anomalous: take the rarer one.
            z_s, z_q = self._own(all_s, all_q)
            self._sign = 1.0 if (z_s > 0).mean() + (z_q > 0).mean() <= 1 else -1.0
        return self

    def _held_out(self, n: int, group: Any) -> tuple[IntArray, IntArray]:
        rng = np.random.default_rng(self.random_state)
        if group is not None and len(np.unique(group)) > 1:
            return hold_out(n, 0.2, "group", group, rng)
        order = rng.permutation(n)
        held = max(2, n // 5)
        return order[held:], order[:held]

    def scores(self, s: Array32, q: Array32) -> tuple[FloatArray, FloatArray]:
        """Compute the logits of both networks."""
        if not hasattr(self, "_pair"):
            raise NotFittedError("this method is not fitted yet; call fit(s, q) first")
        z_s, z_q = self._own(torch.from_numpy(np.asarray(s)), torch.from_numpy(np.asarray(q)))
        return self._sign * z_s, self._sign * z_q

    def predict(self, s: Array32, q: Array32) -> BoolArray | None:
        """Return None: without labels there is no decision rule."""
        return None

    def _own(self, s: Tensor, q: Tensor) -> tuple[FloatArray, FloatArray]:
        z_s, z_q = _logits(self._pair, s, q)
        return z_s[self._member].double().numpy(), z_q[self._member].double().numpy()


class DeepCCA(PairedNets):
    """Maximise the correlation of the two confidences (Andrew et al. 2013, one dimension)."""

    def objective(self, z_s: Tensor, z_q: Tensor, label: Tensor) -> Tensor:
        covariance, dev_s, dev_q = _moments(z_s, z_q)
        return -covariance / (dev_s * dev_q + 1e-6)


class DeepMCA(PairedNets):
    """Maximise the covariance of the two confidences (Luo et al. 2018, one dimension)."""

    def objective(self, z_s: Tensor, z_q: Tensor, label: Tensor) -> Tensor:
        return -_moments(z_s, z_q)[0]


class SupervisedNets(PairedNets):
    """Minimise the cross-entropy of p_s · p_q with labels: an upper reference (the paper's SNN)."""

    needs_labels = True
    sign_is_free = False

    def objective(self, z_s: Tensor, z_q: Tensor, label: Tensor) -> Tensor:
        log_p = (F.logsigmoid(z_s) + F.logsigmoid(z_q)).clamp(max=-1e-6)
        return -(label * log_p + (1 - label) * torch.log1p(-log_p.exp())).mean(1)

    def predict(self, s: Array32, q: Array32) -> BoolArray:
        """Flag rows with p_s · p_q above one half."""
        z_s, z_q = self.scores(s, q)
        return np.asarray(np.logaddexp(0, -z_s) + np.logaddexp(0, -z_q) < np.log(2.0))


class _Pair(nn.Module):
    def __init__(self, net: Any, shape_s: Any, shape_q: Any, seeds: list[int]) -> None:
        super().__init__()
        plan_s, plan_q = blueprints_for(net, shape_s, shape_q)
        self.s = StackedNet(plan_s.source, shape_s, seeds)  # type: ignore[arg-type]
        self.q = StackedNet(plan_q.source, shape_q, [seed + 10_000 for seed in seeds])  # type: ignore[arg-type]
        self.s.layout = self.q.layout = "channels_last"
        self.head_s, self.head_q = (NormalisedHead(len(seeds), 1) for _ in range(2))

    def forward(self, s: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        return self.head_s(self.s(s))[:, :, 0], self.head_q(self.q(q))[:, :, 0]


def _logits(pair: _Pair, s: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of all starts in evaluation mode, computed in blocks."""
    pair.eval()

    def blocks() -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in zip(torch.split(s, _BLOCK), torch.split(q, _BLOCK), strict=True):
            yield pair(x, y)

    with torch.no_grad():
        parts = list(blocks())
    return torch.cat([a for a, _ in parts], 1), torch.cat([b for _, b in parts], 1)


def _moments(z_s: Tensor, z_q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p_s, p_q = torch.sigmoid(z_s), torch.sigmoid(z_q)
    p_s, p_q = p_s - p_s.mean(1, keepdim=True), p_q - p_q.mean(1, keepdim=True)
    return (p_s * p_q).mean(1), p_s.square().mean(1).sqrt(), p_q.square().mean(1).sqrt()
