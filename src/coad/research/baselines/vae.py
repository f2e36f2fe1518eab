"""A variational autoencoder (as in Hahn and Mechefske 2021): a high reconstruction error is anomalous."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from coad.research.baselines._torch import TorchScorer

__all__ = ["VAE"]


class VAE(TorchScorer):
    """Encoder, Gaussian latent, decoder; the score is the negative evidence lower bound of a row.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    >>> vae = VAE(epochs=3).fit(x)
    >>> vae.losses_[-1] < vae.losses_[0], vae.score(x).shape
    (True, (200,))
    """

    width, latent = 128, 8

    def build(self, channels: int, points: int) -> nn.Module:
        return _Autoencoder(channels * points, self.width, self.latent)

    def loss(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        mean, log_var = net.encode(x)
        noise = torch.randn(mean.shape, generator=generator)
        bound: Tensor = net.bound(x, mean + noise * torch.exp(0.5 * log_var), mean, log_var)
        return bound.mean()

    def row_scores(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            mean, log_var = net.encode(x)
            return torch.as_tensor(net.bound(x, mean, mean, log_var))


class _Autoencoder(nn.Module):
    def __init__(self, size: int, width: int, latent: int) -> None:
        super().__init__()
        half = max(width // 2, latent)
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(size, width), nn.ELU(), nn.Linear(width, half), nn.ELU()
        )
        self.moments = nn.Linear(half, 2 * latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, half), nn.ELU(), nn.Linear(half, width), nn.ELU(), nn.Linear(width, size)
        )
        self.size = size

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_var = self.moments(self.encoder(x)).chunk(2, dim=1)
        return mean, log_var.clamp(-8.0, 4.0)

    def bound(self, x: Tensor, z: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
        """Negative bound divided by the size of a row, so that the learning rate does not depend on it."""
        rebuilt = 0.5 * (self.decoder(z) - x.flatten(1)).square().sum(1)
        divergence = 0.5 * (mean.square() + log_var.exp() - 1.0 - log_var).sum(1)
        return torch.as_tensor((rebuilt + divergence) / self.size)
