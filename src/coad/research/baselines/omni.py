"""OmniAnomaly (Su et al. 2019): a recurrent variational model of a series.

The recognition network is a GRU over the window; each latent z_t depends on its state and on z_{t−1},
and passes planar flows. The prior is a linear Gaussian state-space model, z_t = A z_{t−1} + noise. The
generator is a GRU over the latents that gives mean and deviation of each x_t. The score is
−log p(x | z); the method's own threshold is set by extreme value theory (peaks over threshold).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import genpareto
from torch import Tensor, nn

from coad._typing import FloatArray
from coad.research.baselines._torch import TorchScorer
from coad.research.baselines.base import Array32

__all__ = ["OmniAnomaly", "peaks_over_threshold"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class OmniAnomaly(TorchScorer):
    """GRU, stochastic latents with planar flows, linear Gaussian transition."""

    width, latent, flows, points = 32, 4, 4, 50

    def build(self, channels: int, points: int) -> nn.Module:
        return _Omni(channels, self.width, self.latent, self.flows)

    def loss(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        rebuilt, divergence = net(x.transpose(1, 2), generator)
        return torch.as_tensor((rebuilt + divergence).mean())

    def row_scores(self, net: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(net(x.transpose(1, 2), None)[0])

    def _after(self, x: Array32) -> None:
        self.threshold_ = peaks_over_threshold(self.score(x))


def peaks_over_threshold(score: FloatArray, level: float = 0.98, risk: float = 1e-3) -> float:
    """The score that a generalised Pareto tail exceeds with probability ``risk`` (Siffer et al. 2017).

    >>> x = np.random.default_rng(0).normal(size=20_000)
    >>> bool(abs(peaks_over_threshold(x) - 3.09) < 0.2)
    True
    """
    start = float(np.quantile(score, level))
    excess = score[score > start] - start
    if len(excess) < 10 or excess.max() <= 0:
        return float(score.max())
    shape, _, scale = genpareto.fit(excess, floc=0.0)
    return start + float(genpareto.isf(min(1.0, risk * len(score) / len(excess)), shape, scale=scale))


class _Omni(nn.Module):
    def __init__(self, channels: int, width: int, latent: int, flows: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.GRU(channels, width, batch_first=True)
        self.hidden = nn.Linear(width + latent, width)
        self.moments = nn.Linear(width, 2 * latent)
        self.flow_u = nn.Parameter(0.1 * torch.randn(flows, latent))
        self.flow_w = nn.Parameter(0.1 * torch.randn(flows, latent))
        self.flow_b = nn.Parameter(torch.zeros(flows))
        self.transition = nn.Parameter(torch.eye(latent))
        self.log_noise = nn.Parameter(torch.zeros(latent))
        self.decoder = nn.GRU(latent, width, batch_first=True)
        self.output = nn.Linear(width, 2 * channels)

    def forward(self, x: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """−log p(x | z) and the divergence of each row, both divided by the size of the window."""
        state, _ = self.encoder(x)
        flows = self._flows()
        z = x.new_zeros(len(x), self.latent)
        latents, log_q, before = [], x.new_zeros(len(x)), []
        for t in range(x.shape[1]):
            mean, log_dev = self.moments(torch.tanh(self.hidden(torch.cat([state[:, t], z], dim=1)))).chunk(
                2, dim=1
            )
            log_dev = log_dev.clamp(-5.0, 2.0)
            noise = torch.zeros_like(mean)
            if generator is not None:
                noise = torch.randn(mean.shape, generator=generator)
            before.append(z)
            log_q = log_q - (0.5 * noise.square() + log_dev + _HALF_LOG_2PI).sum(1)
            z, log_det = _flown(flows, mean + noise * log_dev.exp())
            log_q = log_q - log_det
            latents.append(z)
        path, last = torch.stack(latents, 1), torch.stack(before, 1)
        step = (path - last @ self.transition.T) * torch.exp(-self.log_noise)
        log_prior = -(0.5 * step.square() + self.log_noise + _HALF_LOG_2PI).sum(dim=(1, 2))
        mean, log_dev = self.output(self.decoder(path)[0]).chunk(2, dim=2)
        log_dev = log_dev.clamp(-3.0, 3.0)
        miss = 0.5 * ((x - mean) * torch.exp(-log_dev)).square() + log_dev + _HALF_LOG_2PI
        size = x.shape[1] * x.shape[2]
        return miss.sum(dim=(1, 2)) / size, (log_q - log_prior) / size

    def _flows(self) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """u, w, b and u·w of each planar flow, kept invertible by bounding u·w from below."""
        found = []
        for u, w, b in zip(self.flow_u, self.flow_w, self.flow_b, strict=True):
            uw = u @ w
            u = u + (F.softplus(uw) - 1.0 - uw) * w / w.square().sum().clamp_min(1e-8)
            found.append((u, w, b, u @ w))
        return found


def _flown(flows: list[tuple[Tensor, Tensor, Tensor, Tensor]], z: Tensor) -> tuple[Tensor, Tensor]:
    """z after all flows, and the log determinant of their Jacobian."""
    log_det = z.new_zeros(len(z))
    for u, w, b, uw in flows:
        h = torch.tanh(z @ w + b)
        log_det = log_det + torch.log1p((1 - h.square()) * uw)
        z = z + h[:, None] * u
    return z, log_det
