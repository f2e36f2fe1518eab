"""Deep SVDD (Ruff et al. 2018): rows are mapped close to a centre; those that stay far are anomalous."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from coad.research.baselines._torch import TorchScorer

__all__ = ["DeepSVDD"]


class DeepSVDD(TorchScorer):
    """One-class deep SVDD; without biases and bounded activations, which allow a constant solution."""

    width, latent, decay = 64, 16, 1e-4

    def build(self, channels: int, points: int) -> nn.Module:
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * points, self.width, bias=False),
            nn.LeakyReLU(0.1),
            nn.Linear(self.width, self.latent, bias=False),
        )

    def prepare(self, net: Any, x: Tensor) -> None:
        with torch.no_grad():
            centre = net(x).mean(0)
        # A coordinate at 0 could be reached with zero weights; as in the paper it is moved away from 0.
        near = centre.abs() < 0.1
        self._centre = torch.where(near, torch.where(centre < 0, -0.1, 0.1), centre)

    def loss(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        weights = sum((p.square().sum() for p in net.parameters()), torch.zeros(()))
        return self._distance(net, x).mean() + 0.5 * self.decay * weights

    def row_scores(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            return self._distance(net, x)

    def _distance(self, net: Any, x: Tensor) -> Tensor:
        return torch.as_tensor((net(x) - self._centre).square().sum(1))
