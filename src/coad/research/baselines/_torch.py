"""The training loop shared by the deep methods of one input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coad._typing import FloatArray
from coad.exceptions import InputError, NotFittedError
from coad.research.baselines.base import Array32, as_series

_BLOCK = 512


class TorchScorer(ABC):
    """Base class of a network trained on one input; a subclass defines network, loss and score.

    Parameters
    ----------
    epochs, batch_size, lr
        Training settings; ``lr`` is the maximum of a one-cycle schedule.
    random_state
        Seed of weights, batches and noise.

    Attributes
    ----------
    losses_
        Mean loss of each epoch.
    moved_
        Norm of the change of the weights, relative to their initial norm: 0 if nothing was learned.
    """

    threshold_: float | None = None
    #: Longer windows are averaged to at most this many points.
    points = 100

    def __init__(
        self, *, epochs: int = 30, batch_size: int = 128, lr: float = 1e-3, random_state: int = 0
    ) -> None:
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.random_state = random_state

    @abstractmethod
    def build(self, channels: int, points: int) -> nn.Module:
        """Build the network for series of this shape."""

    @abstractmethod
    def loss(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        """Compute the loss of a batch (n, channels, points)."""

    @abstractmethod
    def row_scores(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        """Compute one score per row, high for anomalies."""

    def prepare(self, net: Any, x: Tensor) -> None:  # noqa: B027 - most methods need no preparation
        """Called once before training."""

    def fit(self, x: Array32) -> TorchScorer:
        """Train on all rows."""
        if len(x) < 2:
            raise InputError(f"{len(x)} rows are too few for training; at least 2 are needed")
        series = torch.from_numpy(as_series(x, self.points))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            net = self.build(*series.shape[1:])
        generator = torch.Generator().manual_seed(self.random_state)
        self.prepare(net, series)
        first = _weights(net)
        steps = self.epochs * -(-len(series) // self.batch_size)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.lr, total_steps=steps + 1)
        self.losses_: list[float] = []
        net.train()
        for _ in range(self.epochs):
            total = 0.0
            for index in torch.split(torch.randperm(len(series), generator=generator), self.batch_size):
                loss = self.loss(net, series[index], generator)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                optimiser.step()
                schedule.step()
                total += loss.item() * len(index)
            self.losses_.append(total / len(series))
        net.eval()
        self.moved_ = float((_weights(net) - first).norm() / first.norm().clamp_min(1e-12))
        self._net = net
        self._after(x)
        return self

    def score(self, x: Array32) -> FloatArray:
        """Score rows of the same shape as in ``fit``."""
        if not hasattr(self, "_net"):
            raise NotFittedError("this method is not fitted yet; call fit(x) first")
        series = torch.from_numpy(as_series(x, self.points))
        generator = torch.Generator().manual_seed(self.random_state + 1)
        parts = [self.row_scores(self._net, part, generator).detach() for part in torch.split(series, _BLOCK)]
        return np.asarray(torch.cat(parts).double().numpy())

    def _after(self, x: Array32) -> None:  # noqa: B027 - most methods have none
        """Called once after training; sets ``threshold_`` of methods that have one."""


def _weights(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in net.parameters()])
