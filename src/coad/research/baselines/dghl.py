"""DGHL (Challu et al. 2022): a top-down generator with hierarchical latent factors, and no encoder.

A window is split into 1, 2 and 4 parts; each part of each level has its own latent vector, and those
of a level are shared by the parts below it. Latents are found by Langevin dynamics for every
batch (alternating back-propagation); the score is the remaining reconstruction error.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coad.research.baselines._torch import TorchScorer

__all__ = ["DGHL"]


class DGHL(TorchScorer):
    """Hierarchical latents, a convolutional generator, inference by short Langevin runs."""

    latent, width, points = 8, 32, 64
    langevin_steps, step_size, precision = 15, 0.15, 400.0
    #: Weight of the Langevin noise, below 1: at full weight the noise dominates and training does not start.
    noise_weight = 0.3
    #: Gradients are clipped to this value, so that a Langevin run cannot diverge.
    max_gradient = 30.0

    def build(self, channels: int, points: int) -> nn.Module:
        return _Generator(channels, points, self.latent, self.width)

    def loss(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        z = self._infer(net, x, generator)
        return torch.as_tensor((net(z) - x).square().mean())

    def row_scores(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        z = self._infer(net, x, generator, final=True)
        with torch.no_grad():
            return torch.as_tensor((net(z) - x).square().mean(dim=(1, 2)))

    def _infer(self, net: Any, x: Tensor, generator: torch.Generator, *, final: bool = False) -> list[Tensor]:
        """z ~ p(z | x): noisy descent of ½|z|² + ½ precision · mean (x − G(z))²."""
        # For scores the run starts at 0, is twice as long and has no noise, so scores are deterministic.
        steps, noise = (2 * self.langevin_steps, 0.0) if final else (self.langevin_steps, self.noise_weight)
        z = [noise * torch.randn((len(x), *shape), generator=generator) for shape in net.latent_shapes]
        half = 0.5 * self.step_size**2
        for _ in range(steps):
            z = [part.detach().requires_grad_() for part in z]
            misfit = (net(z) - x).square().flatten(1).mean(1).sum()
            energy = 0.5 * self.precision * misfit + 0.5 * sum(p.square().sum() for p in z)
            slopes = torch.autograd.grad(energy, z)
            z = [
                part
                - half * slope.clamp(-self.max_gradient, self.max_gradient)
                + noise * self.step_size * torch.randn(part.shape, generator=generator)
                for part, slope in zip(z, slopes, strict=True)
            ]
        return [part.detach() for part in z]


class _Generator(nn.Module):
    def __init__(self, channels: int, points: int, latent: int, width: int) -> None:
        super().__init__()
        self.points, self.start = points, min(4, points)
        levels = [parts for parts in (1, 2, 4) if parts <= self.start]
        self.latent_shapes = [(latent, parts) for parts in levels]
        self.first = nn.Conv1d(latent * len(levels), width, 1)
        doublings, length = 0, self.start
        while length < points:
            doublings, length = doublings + 1, 2 * length
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(doublings))
        self.last = nn.Conv1d(width, channels, 1)

    def forward(self, z: list[Tensor]) -> Tensor:
        spread = [
            part.repeat_interleave(-(-self.start // part.shape[2]), 2)[:, :, : self.start] for part in z
        ]
        h = F.leaky_relu(self.first(torch.cat(spread, dim=1)), 0.2)
        for layer in self.layers:
            h = F.leaky_relu(layer(F.interpolate(h, scale_factor=2.0)), 0.2)
        return torch.as_tensor(self.last(h)[:, :, : self.points])
