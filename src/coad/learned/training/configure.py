"""Check the settings of a ``CoAD``, and derive those of its training from them."""

from __future__ import annotations

import itertools
import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from coad.core.background import BackgroundKind
from coad.core.validation import check_alpha, check_betas, check_significance
from coad.exceptions import CoadWarning, InputError
from coad.learned.net_spec import Layout, NetSpec, default_spec, preset
from coad.learned.objective import Preset
from coad.learned.training.device import device_of
from coad.learned.training.model import Blueprint, as_source
from coad.learned.training.settings import Schedule, Settings
from coad.learned.training.split import Split

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = [
    "blueprints_for",
    "check_settings",
    "forced_plan",
    "settings_for",
    "warn_of_small_batches",
]

#: With fewer anomalies than this in a batch, its F̂ is mostly noise.
_FEW_EVENTS = 8
#: Optimiser steps of a run whose number of epochs is not given.
_STEPS = 400
#: Several β are trained this much longer. Digits, 4 random states, error at β = 1: 4.37 % instead of 5.90 %; at β = 0.05:
#: 2.68 % instead of 3.40 %.
_LONGER = 1.08

#: Settings with a fixed set of values.
_CHOICES: dict[str, tuple[Any, ...]] = {
    "schedule": (None, *get_args(Schedule)),
    "split": get_args(Split),
    "background": get_args(BackgroundKind),
    "preset": get_args(Preset),
    "precision": ("auto", "float32", "bfloat16"),
    "memory_format": ("auto", *get_args(Layout)),
}
#: Settings that are numbers: the smallest and the largest value, and whether only whole numbers are allowed.
_RANGES: dict[str, tuple[float, float, bool]] = {
    "n_starts": (1, 10_000, True),
    "epochs": (1, math.inf, True),
    "batch_size": (2, math.inf, True),
    "patience": (1, math.inf, True),
    "epoch_size": (2, math.inf, True),
    "micro_batch": (1, math.inf, True),
    "lr": (1e-12, 1.0, False),
    "lambda_wall": (0, math.inf, False),
    "lambda_mag": (0, math.inf, False),
    "margin": (0, math.inf, False),
    "jitter": (0, math.inf, False),
    "checkpoint_seconds": (0, math.inf, False),
}
#: Numbers that must be given; None for the others stands for a value chosen from the data.
_REQUIRED = ("n_starts", "lambda_mag", "checkpoint_seconds")


def check_settings(model: CoAD) -> tuple[float, ...]:
    """Raise :class:`~coad.exceptions.InputError` for a setting that is out of range; returns the β, ascending."""
    betas = check_betas(model.beta)
    if any(a >= b for a, b in itertools.pairwise(betas)):
        raise InputError(f"beta must ascend without repeats; {model.beta!r} does not")
    check_alpha(model.alpha)
    check_significance(model.significance)
    device_of(model.device)
    for name, allowed in _CHOICES.items():
        if getattr(model, name) not in allowed:
            words = ", ".join(repr(one) for one in allowed if one is not None)
            raise InputError(f"{name} must be one of {words}, not {getattr(model, name)!r}")
    for name, (low, high, whole) in _RANGES.items():
        value = getattr(model, name)
        if value is None and name not in _REQUIRED:
            continue
        kind = numbers.Integral if whole else numbers.Real
        number = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not low <= value <= high:
            most = "" if math.isinf(high) else f" and at most {high:g}"
            raise InputError(
                f"{name} must be a {'whole ' if whole else ''}number of at least {low:g}{most}, not {value!r}"
            )
    if not (isinstance(model.validation, numbers.Real) and 0.0 < float(model.validation) < 1.0):
        raise InputError(f"validation must be a fraction between 0 and 1, not {model.validation!r}")
    return betas


def blueprints_for(
    net: Any, shape_s: tuple[int, ...], shape_q: tuple[int, ...]
) -> tuple[Blueprint, Blueprint]:
    """The networks for s and q: those given, the paper's by name, or chosen from the shapes."""
    if net is None:
        sources: tuple[Any, Any] = default_spec(shape_s), default_spec(shape_q)
    elif isinstance(net, str):
        sources = preset(net)
    elif isinstance(net, (tuple, list)) and len(net) == 2:
        sources = as_source(net[0]), as_source(net[1])
    else:
        sources = as_source(net), as_source(net)
    return Blueprint(sources[0], shape_s), Blueprint(sources[1], shape_q)


def settings_for(
    model: CoAD,
    betas: tuple[float, ...],
    n: int,
    n_held: int,
    seed: int,
    blueprints: tuple[Blueprint, Blueprint],
) -> tuple[Settings, tuple[float, ...]]:
    """The settings of the run, and the β of its heads: with a recall head (β = inf) if α must be estimated."""
    own = all(isinstance(b.source, NetSpec) for b in blueprints)
    heads = betas
    if model.alpha == "auto" and not math.isinf(betas[-1]) and own:
        heads = (*betas, math.inf)
    batch = model.batch_size or min(n, 1024)
    per_epoch = min(n, model.epoch_size or n)
    steps = max(1, round(per_epoch / batch))
    epochs = model.epochs
    if epochs is None:
        epochs = int(np.clip(math.ceil(_STEPS / steps), 40, 400))
        if len(betas) > 1:  # the convolutions serve every β, so all of them together need longer
            epochs = math.ceil(_LONGER * epochs)
    robust, flat = model.preset == "robust", all(len(b.input_shape) == 1 for b in blueprints)
    settings = Settings(
        beta=heads,
        alpha=None if model.alpha == "auto" else float(model.alpha),
        epochs=epochs,
        batch_size=batch,
        # A run with a falling learning rate must reach its end; only one with a constant rate may stop early.
        patience=model.patience or (epochs if robust else max(20, epochs // 3)),
        seed=seed,
        lr=model.lr or (1e-2 if robust else 1e-4),
        schedule=model.schedule or ("cosine" if robust else "constant"),
        head_rate=4.0 if robust else 1.0,
        preset=model.preset,
        lambda_wall=model.lambda_wall,
        lambda_mag=model.lambda_mag,
        epoch_size=model.epoch_size,
        micro_batch=model.micro_batch,
        margin=(4.0 if robust else 0.0) if model.margin is None else model.margin,
        jitter=(0.2 if robust and flat else 0.0) if model.jitter is None else model.jitter,
        evaluate_every=max(1, math.ceil(n_held / (0.6 * per_epoch))),
    )
    return settings, heads


def forced_plan(model: CoAD) -> dict[str, Any]:
    """The fields of the plan that the user has set; the others are measured."""
    forced: dict[str, Any] = {}
    if model.precision != "auto":
        forced["bfloat16"] = model.precision == "bfloat16"
    if model.memory_format != "auto":
        forced["layout"] = model.memory_format
    return forced


def warn_of_small_batches(batch: int, alpha: float) -> None:
    """Warn if a batch has too few anomalies to measure F̂."""
    if batch * alpha < _FEW_EVENTS:
        warnings.warn(
            f"a batch of {batch:,} rows has about {batch * alpha:.1f} anomalies at "
            f"alpha = {alpha:.3g}, too few to measure F̂; "
            f"use batch_size of {math.ceil(_FEW_EVENTS / alpha):,} or more",
            CoadWarning,
            stacklevel=4,
        )
