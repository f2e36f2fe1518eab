"""The settings of a training run, and the snapshot that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coad.learned.objective import Preset

__all__ = ["Augment", "Schedule", "Settings", "Snapshot"]

#: The learning rate over a run; "cosine" rises for a tenth of the steps, then falls as a cosine to 0.
Schedule = Literal["cosine", "constant"]
Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Settings:
    """All settings of a run; a checkpoint can only be resumed with the same ones."""

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
    memory: int | None = 0  #: the correlation length of the rows; None if they are in no order


@dataclass(frozen=True)
class Snapshot:
    """The best epoch of one start for one β: its validation figures and its weights."""

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
