"""What a ``CoAD`` was asked for, checked, and what follows from it for the training."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from coad.core.validation import check_alpha, check_betas
from coad.exceptions import CoadWarning, InputError
from coad.learned.net_spec import Layout, NetSpec, default_spec, preset
from coad.learned.training.model import Blueprint, as_source
from coad.learned.training.settings import Settings

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = [
    "blueprints_for",
    "checked_betas",
    "forced_plan",
    "seed_of",
    "settings_for",
    "warn_of_small_batches",
]

#: Fewer expected joint events than this in a batch make its F̂ mostly noise.
_FEW_EVENTS = 8
#: Steps of the optimiser that a run has room for, unless told otherwise.
_STEPS = 400
#: Several β are trained this much longer. Digits, 4 seeds, error at β = 1: 4.37 % instead of 5.90 %; at β = 0.05:
#: 2.68 % instead of 3.40 %.
_LONGER = 1.08


def checked_betas(model: CoAD) -> tuple[float, ...]:
    """The β asked for, ascending; α and the number of seeds are checked with them."""
    betas = check_betas(model.beta)
    if any(a >= b for a, b in itertools.pairwise(betas)):
        raise InputError(f"beta must ascend without repeats; {model.beta!r} does not")
    check_alpha(model.alpha)
    if int(model.n_starts) < 1:
        raise InputError(f"n_starts must be at least 1, not {model.n_starts!r}")
    return betas


def blueprints_for(
    net: Any, shape_s: tuple[int, ...], shape_q: tuple[int, ...]
) -> tuple[Blueprint, Blueprint]:
    """The networks for s and q: those given, the paper\'s by name, or chosen from the shapes."""
    if net is None:
        sources: tuple[Any, Any] = default_spec(shape_s), default_spec(shape_q)
    elif isinstance(net, str):
        sources = preset(net)
    elif isinstance(net, (tuple, list)) and len(net) == 2:
        sources = as_source(net[0]), as_source(net[1])
    elif isinstance(net, NetSpec):
        sources = net, net
    else:
        raise InputError("net must be a name, a NetSpec, or a pair: one network for s and one for q")
    return Blueprint(sources[0], shape_s), Blueprint(sources[1], shape_q)


def settings_for(
    model: CoAD,
    betas: tuple[float, ...],
    n: int,
    n_held: int,
    seed: int,
    blueprints: tuple[Blueprint, Blueprint],
) -> tuple[Settings, tuple[float, ...]]:
    """The settings of the run and the β of its heads: a recall head more if α must be found."""
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
        # The falling learning rate needs its whole course; only a constant one may stop early.
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
    """What the user did not leave to measurement."""
    forced: dict[str, Any] = {}
    for name, value, known in (
        ("precision", model.precision, ("auto", "float32", "bfloat16")),
        ("memory_format", model.memory_format, ("auto", *get_args(Layout))),
    ):
        if value not in known:
            raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")
    if model.precision != "auto":
        forced["bfloat16"] = model.precision == "bfloat16"
    if model.memory_format != "auto":
        forced["layout"] = model.memory_format
    return forced


def warn_of_small_batches(batch: int, alpha: float) -> None:
    """Warn, with the number, if a batch holds too few anomalies."""
    if batch * alpha < _FEW_EVENTS:
        warnings.warn(
            f"a batch of {batch:,} rows holds about {batch * alpha:.1f} anomalies at "
            f"alpha = {alpha:.3g}, too few to measure F̂; "
            f"use batch_size of {math.ceil(_FEW_EVENTS / alpha):,} or more",
            CoadWarning,
            stacklevel=4,
        )


def seed_of(random_state: Any) -> int:
    """One number from which everything random is derived."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise InputError(
        f"random_state must be None, an integer of 0 or more, or a Generator, not {random_state!r}"
    )
