"""Slow, obvious references for the learned mode."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def naive_loss(
    logit_s: Tensor, logit_q: Tensor, beta: float, alpha: float, *, preset: str, wall: float, mag: float
) -> Tensor:
    """The paper's loss, term by term, for one batch of float64 logits."""
    p_s, p_q = torch.sigmoid(logit_s), torch.sigmoid(logit_q)
    mu_s, mu_q, joint = p_s.mean(), p_q.mean(), (p_s * p_q).mean()
    chance = (mu_s - joint) * (mu_q - joint) / ((1 - mu_q) * (1 - mu_s))
    true = joint - chance
    if preset == "robust":
        true = torch.minimum(true, torch.tensor(alpha, dtype=true.dtype))
    value = true / alpha if math.isinf(beta) else (1 + beta**2) * true / (joint + alpha * beta**2)
    if preset == "paper":
        penalty = mu_s * torch.sigmoid(50 * (mu_s - 0.5)) + mu_q * torch.sigmoid(50 * (mu_q - 0.5))
    else:
        penalty = torch.clamp(mu_s - 0.45, min=0) + torch.clamp(mu_q - 0.45, min=0)
    magnitude = (logit_s**2 + logit_q**2).mean()
    return -value + wall * penalty + mag * magnitude


def plain_mnist() -> nn.Sequential:
    """The paper's MNIST network, layer by layer."""
    layers: list[nn.Module] = []
    channels = 1
    for stride in (1, 1, 2, 2):
        layers += [nn.Conv2d(channels, 10, 5, stride=stride, padding=2), nn.ReLU()]
        channels = 10
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(490, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
    )


def plain_series(
    channels: int, out: int, kernel: int, stride: int, padding: int, flat: int, width: int
) -> nn.Sequential:
    """A network of two 1-D convolutions and three full layers (milling, RF station)."""
    return nn.Sequential(
        nn.Conv1d(channels, out, kernel, stride=stride, padding=padding),
        nn.ReLU(),
        nn.Conv1d(out, out, kernel, stride=stride, padding=padding),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(flat, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 1),
    )
