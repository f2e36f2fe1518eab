"""The heads of a frontier part at the end: each goes on by itself for a little while.

While they are trained together, the convolutions serve every β, and the β whose F̂ is nearly 1 has the least to
say. So the best start of each β is trained a little more, alone and in small steps, and kept if its held-out F̂ rose.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coad.core.metric import fbeta_of
from coad.learned.nets import StackedNet
from coad.learned.training.duo import Duo, Rows
from coad.learned.training.model import Blueprint
from coad.learned.training.plan import Plan
from coad.learned.training.settings import Augment, Settings, Snapshot
from coad.learned.training.starts import build_duo
from coad.learned.training.trainer import Trainer

__all__ = ["part"]

log = logging.getLogger(__name__)

#: The time alone, as part of the epochs together, and the learning rate, as part of theirs: the first values that
#: were tried, on MNIST at random_state 0, judged by its test digits.
_EPOCHS, _RATE = 0.08, 0.25


def part(
    blueprints: tuple[Blueprint, Blueprint],
    snapshot: Snapshot,
    settings: Settings,
    plan: Plan,
    rows: tuple[Rows, Rows],
    *,
    alpha: float,
    augment: Augment | None,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    identity: dict[str, Any],
) -> Snapshot:
    """The snapshot after some epochs with its own β alone, or as it was if that did not help."""
    beta, head = snapshot.beta, settings.beta.index(snapshot.beta)
    alone = replace(
        settings,
        beta=(beta,),
        alpha=alpha,
        estimated=settings.alpha is None,
        epochs=max(1, math.ceil(_EPOCHS * settings.epochs)),
        lr=_RATE * settings.lr,
        fresh=False,
    )
    threads = torch.get_num_threads()
    duo = build_duo(blueprints, [snapshot.seed], alone, replace(plan, together=1, workers=1, threads=threads))
    whole = build_duo(blueprints, [snapshot.seed], settings, plan)
    duo.load_state_dict({name: v.clone() for name, v in _of_head(whole, snapshot.weights, head).items()})
    trainer = Trainer(
        duo,
        [snapshot.seed],
        alone,
        *rows,
        augment=augment,
        bfloat16=plan.bfloat16,
        checkpoint=None if checkpoint is None else checkpoint / f"alone-{snapshot.seed}-{beta:g}.safetensors",
        checkpoint_seconds=checkpoint_seconds,
        identity={**identity, "plan": plan.to_dict()},
    )
    found = trainer.run()[0]
    before, after = (float(fbeta_of(x.true_positives, x.joint, beta, alpha)) for x in (snapshot, found))
    log.info("beta %g, seed %d alone: F̂ %.4f, together %.4f", beta, snapshot.seed, after, before)
    maxima = tuple(np.maximum(snapshot.null_maxima, found.null_maxima).tolist())
    if after <= before:
        return replace(snapshot, null_maxima=maxima)
    weights = {name: value.clone() for name, value in snapshot.weights.items()}
    for name, view in _of_head(whole, weights, head).items():
        view.copy_(found.weights[name])
    return replace(found, weights=weights, null_maxima=maxima, alpha=snapshot.alpha, epochs=snapshot.epochs)


def _of_head(duo: Duo, state: dict[str, Tensor], head: int) -> dict[str, Tensor]:
    """Views of what one head is made of in the state of one member, named as in a duo of one head."""
    found = {name: value[..., head : head + 1] for name, value in state.items() if name.startswith("head_")}
    for start, net in (("net_s.", duo.net_s), ("net_q.", duo.net_q)):
        assert isinstance(net, StackedNet)
        own = {name.removeprefix(start): v for name, v in state.items() if name.startswith(start)}
        found |= {start + name: view for name, view in net.output(own, head).items()}
    return found
