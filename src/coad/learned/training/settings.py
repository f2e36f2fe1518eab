"""What a training run is, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coad.learned.objective import Preset

__all__ = ["Augment", "Schedule", "Settings", "Snapshot"]

#: The learning rate over a run: rising for a tenth of the steps, then falling as a cosine to 0.
Schedule = Literal["cosine", "constant"]
Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Settings:
    """What a run is; a checkpoint belongs to exactly one of them."""

    beta: tuple[float, ...]
    alpha: float | None
    epochs: int
    batch_size: int
    patience: int
    seed: int
    lr: float = 1e-3
    preset: Preset = "robust"
    lambda_wall: float | None = None
    lambda_mag: float = 0.0
    epoch_size: int | None = None
    micro_batch: int | None = None
    evaluate_every: int = 1
    permutations: int = 199
    margin: float = 0.0
    jitter: float = 0.0
    schedule: Schedule = "constant"
    head_rate: float = 1.0


@dataclass(frozen=True)
class Snapshot:
    """The best moment of one member for one β: its validation figures and its weights."""

    seed: int
    beta: float
    epoch: int
    epochs: int
    true_positives: float
    joint: float
    mu_s: float
    mu_q: float
    correlation: float
    null_maxima: tuple[float, ...]
    alpha: float
    weights: dict[str, Tensor]
