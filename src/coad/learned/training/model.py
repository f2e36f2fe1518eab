"""A trained pair of networks for one β, ready to score: one member or some, their heads folded in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coad._typing import BoolArray, FloatArray
from coad.exceptions import InputError
from coad.learned.net_spec import NetSpec
from coad.learned.nets import LoopedNet, NormalisedHead, StackedNet
from coad.learned.scaling import Scaler

__all__ = ["Blueprint", "Fitted", "Scorer", "StartReport", "absorb", "as_source", "fold"]


@dataclass(frozen=True)
class Blueprint:
    """How to build the network of one input: a description, or the user's module or factory."""

    source: NetSpec | nn.Module | Callable[[], nn.Module]
    input_shape: tuple[int, ...]

    def build(self, seeds: Sequence[int], outputs: int, *, apart: bool = False) -> StackedNet | LoopedNet:
        """Fresh members, one per seed; ``apart`` as in :class:`StackedNet`."""
        if isinstance(self.source, NetSpec):
            return StackedNet(self.source, self.input_shape, seeds, outputs, apart=apart)
        net = LoopedNet(self.source, seeds, outputs)
        with torch.no_grad():
            net.eval()(torch.zeros(2, *self.input_shape))
        return net.train()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a module of the user's is only named."""
        if isinstance(self.source, NetSpec):
            return {"kind": "spec", "input_shape": list(self.input_shape), **self.source.to_dict()}
        kind = type(self.source) if isinstance(self.source, nn.Module) else self.source
        name = f"{getattr(kind, '__module__', '?')}.{getattr(kind, '__qualname__', '?')}"
        return {"kind": "module", "input_shape": list(self.input_shape), "name": name}


class Scorer(nn.Module):
    """The networks of one input with their heads: rows in, confidences (n,) out, from the mean of their logits.

    For our own networks the head is folded into the last layer, and ``gain`` is 1.
    """

    def __init__(self, net: StackedNet | LoopedNet, column: int = 0) -> None:
        super().__init__()
        self.net, self.column = net, column
        # Measured without gradients: grouped convolutions are up to twice as fast with channels last, others slower.
        net.layout = "default" if net.members == 1 else "channels_last"
        self.gain: Tensor
        self.offset: Tensor
        shape = () if net.members == 1 else (net.members, 1)
        self.register_buffer("gain", torch.ones(shape))
        self.register_buffer("offset", torch.zeros(shape))

    def logit(self, x: Tensor) -> Tensor:
        """The logit of each row, the mean over members."""
        logit: Tensor = self.net(x)[:, :, self.column]
        if isinstance(self.net, LoopedNet):
            logit = logit * self.gain + self.offset
        return (logit[0] if len(logit) == 1 else logit.mean(0)).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.logit(x).sigmoid()

    @torch.inference_mode()
    def confidence(self, parts: Iterable[NDArray[np.float32]]) -> FloatArray:
        """p of scaled rows that come in blocks."""
        out = [self(torch.from_numpy(part)) for part in parts]
        return np.asarray(torch.cat(out).numpy() if out else np.zeros(0), dtype=np.float64)

    @torch.inference_mode()
    def latent(self, parts: Iterable[NDArray[np.float32]]) -> FloatArray:
        """What the last layer is given, (n, width); of several members, side by side."""
        found = [self.net.latent(torch.from_numpy(part)).transpose(0, 1).flatten(1) for part in parts]
        return np.asarray(torch.cat(found).numpy())


@dataclass(frozen=True)
class StartReport:
    """How one seed ended for one β, on validation data."""

    seed: int
    status: str
    fbeta_hat: float
    precision_hat: float
    recall_hat: float
    mu_s: float
    mu_q: float
    best_epoch: int
    epochs: int


def reaches(p_s: FloatArray, p_q: FloatArray, product: float, each: tuple[float, float] | None) -> BoolArray:
    """Where the confidences reach the threshold ``each`` of their own or, without these, that of their product.

    >>> reaches(np.array([0.9, 0.8]), np.array([0.9, 0.5]), 0.5, None)
    array([ True, False])
    """
    if each is not None:
        return np.asarray((p_s >= each[0]) & (p_q >= each[1]))
    return np.asarray(p_s * p_q >= product)


class Fitted:
    """What training found for one β."""

    def __init__(
        self,
        beta: float,
        scorer_s: Scorer,
        scorer_q: Scorer,
        *,
        starts: Sequence[StartReport],
        seed: int,
        p_value: float,
        status: str,
        threshold: float = 0.5,
        thresholds: tuple[float, float] | None = None,
        ensemble: Sequence[int] | None = None,
    ) -> None:
        self.beta = beta
        self.scorer_s, self.scorer_q = scorer_s, scorer_q
        self.starts, self.seed = list(starts), seed
        self.p_value, self.status = p_value, status
        self.threshold, self.thresholds = threshold, thresholds
        #: The seeds that have a say: the best, or in an ensemble all that found the same.
        self.ensemble = {seed} if ensemble is None else set(ensemble)
        #: The scorers for unscaled rows, made when first used.
        self.direct: tuple[Scorer | None, Scorer | None] | None = None


def fold(
    blueprint: Blueprint,
    members: Sequence[dict[str, Tensor]],
    side: str,
    head: int,
    heads: int,
    *,
    normalised: bool,
) -> Scorer:
    """The scorer of one input from the weights of some snapshots: head number ``head`` of ``heads``."""
    k = len(members)
    norm = NormalisedHead(k, heads, enabled=normalised)
    norm.load_state_dict(_stacked([_part(weights, f"head_{side}.") for weights in members]))
    a, b = (x[:, head, None] for x in norm.affine())
    parts = [_part(weights, f"net_{side}.") for weights in members]
    if isinstance(blueprint.source, NetSpec):
        single = StackedNet(blueprint.source, blueprint.input_shape, [0] * k, 1)
        trained = StackedNet(blueprint.source, blueprint.input_shape, [0] * k, heads, apart=True)
        state = trained.output(_stacked(parts), head)
        last = len(single.weight) - 1
        state[f"weight.{last}"] = state[f"weight.{last}"] * a[:, None]
        state[f"bias.{last}"] = state[f"bias.{last}"] * a[:, None] + b[:, None]
        single.load_state_dict(state)
        return Scorer(single).eval()
    whole = blueprint.build([0] * k, heads)
    first = "each.0."
    whole.load_state_dict(
        {
            f"each.{i}.{name.removeprefix(first)}": v
            for i, part in enumerate(parts)
            for name, v in part.items()
        }
    )
    scorer = Scorer(whole, head)
    scorer.gain.copy_(a.reshape(scorer.gain.shape))
    scorer.offset.copy_(b.reshape(scorer.offset.shape))
    return scorer.eval()


def absorb(scorer: Scorer, scaler: Scaler | None) -> Scorer | None:
    """The scorer for unscaled rows, if the scaling goes into its first layer without loss; else None.

    Not with padding, whose zeros mean "average" only after scaling; not per context; not where wild values are
    tamed; not where the mean is so far from 0 that float32 would feel it.
    """
    net = scorer.net
    if scaler is None:
        return scorer
    if not isinstance(net, StackedNet) or scaler.contexts or scaler.limits is not None:
        return None
    if net.spec.convs and net.spec.convs[0].padding:
        return None
    mean, std = (torch.from_numpy(x[0]) for x in (scaler.mean, scaler.std))
    if bool((mean.abs() > 100.0 * std).any()):
        return None
    direct = copy.deepcopy(scorer)
    own = direct.net
    assert isinstance(own, StackedNet)
    with torch.no_grad():
        if net.spec.convs:
            weight, bias = own.conv_weight[0], own.conv_bias[0]
            scaled = weight.double() / std.reshape(-1, *[1] * (weight.ndim - 2))
            bias.sub_(torch.einsum("oc...,c->o", scaled, mean))
        else:
            weight, bias = own.weight[0], own.bias[0]
            each = weight.shape[1] // len(mean)
            scaled = weight.double() / std.repeat_interleave(each)[:, None]
            bias.sub_(torch.einsum("kio,i->ko", scaled, mean.repeat_interleave(each))[:, None])
        weight.copy_(scaled)
    return direct


def as_source(net: Any) -> NetSpec | nn.Module | Callable[[], nn.Module]:
    """A description, a module or a factory, or a clear error."""
    if isinstance(net, NetSpec):
        return net
    if isinstance(net, nn.Module):
        return copy.deepcopy(net)
    if callable(net):
        factory: Callable[[], nn.Module] = net
        return factory
    raise InputError(
        "a network must be a NetSpec, a torch.nn.Module or a function that makes one, "
        f"not {type(net).__name__}"
    )


def _part(weights: dict[str, Tensor], start: str) -> dict[str, Tensor]:
    return {name.removeprefix(start): value for name, value in weights.items() if name.startswith(start)}


def _stacked(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The states of single members as that of a stack of them."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
