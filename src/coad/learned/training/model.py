"""A trained pair of networks for one β, ready to score: one or several members, with their heads folded in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coad._typing import FloatArray
from coad.core.background import INDEPENDENT, Background
from coad.core.rule import Rule
from coad.exceptions import FileError, InputError
from coad.learned.net_spec import NetSpec
from coad.learned.nets import LoopedNet, NormalisedHead, StackedNet
from coad.learned.scaling import Scaler

__all__ = [
    "Blueprint",
    "Fitted",
    "Scorer",
    "StartReport",
    "absorb",
    "as_arrays",
    "as_source",
    "as_tensors",
    "blueprints_of",
    "fold",
    "with_prefix",
]


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

    def refuse_more_than(self, tensors: dict[str, Tensor], members: int, outputs: int) -> None:
        """Refuse a network of more weights than were stored, before memory is taken for it."""
        stored = sum(tensor.numel() for tensor in tensors.values())
        declared = 0
        if isinstance(self.source, NetSpec):
            declared = members * self.source.n_weights(self.input_shape, outputs)
        if declared > stored:
            raise FileError(
                f"the model declares a network of {declared:,} weights, but holds only {stored:,}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; of a module of the user only the name."""
        if isinstance(self.source, NetSpec):
            return {"kind": "spec", "input_shape": list(self.input_shape), **self.source.to_dict()}
        kind = type(self.source) if isinstance(self.source, nn.Module) else self.source
        name = f"{getattr(kind, '__module__', '?')}.{getattr(kind, '__qualname__', '?')}"
        return {"kind": "module", "input_shape": list(self.input_shape), "name": name}


class Scorer(nn.Module):
    """The network of one input with its head: scaled rows in, confidences (n,) out.

    Several members are averaged by their logits. In a :class:`StackedNet` the head is folded into the last
    layer, and ``gain`` is 1.
    """

    def __init__(self, net: StackedNet | LoopedNet, column: int = 0) -> None:
        super().__init__()
        self.net, self.column = net, column
        # Measured without gradients: convolutions of images and of several members are up to twice as fast with
        # channels last, those of one member's windows slower.
        image = isinstance(net, StackedNet) and len(net.input_shape) == 3
        net.layout = "channels_last" if net.members > 1 or image else "default"
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
    def confidence(self, blocks: Iterable[NDArray[np.float32]]) -> FloatArray:
        """The confidences of blocks of scaled rows."""
        out = [self(torch.from_numpy(block)) for block in blocks]
        return np.asarray(torch.cat(out).numpy() if out else np.zeros(0), dtype=np.float64)

    @torch.inference_mode()
    def latent(self, blocks: Iterable[NDArray[np.float32]]) -> FloatArray:
        """The input of the last layer, (n, width); several members are concatenated."""
        found = [self.net.latent(torch.from_numpy(block)).transpose(0, 1).flatten(1) for block in blocks]
        return np.asarray(torch.cat(found).numpy())


@dataclass(frozen=True)
class StartReport:
    """The result of one start for one β, on validation rows."""

    seed: int
    status: str
    fbeta_hat: float
    precision_hat: float
    recall_hat: float
    mu_s: float
    mu_q: float
    best_epoch: int
    epochs: int


class Fitted:
    """The result of training for one β: scorers, rule, p-value and status."""

    def __init__(
        self,
        beta: float,
        scorer_s: Scorer,
        scorer_q: Scorer,
        *,
        rule: Rule,
        starts: Sequence[StartReport],
        seed: int,
        p_value: float,
        status: str,
        ensemble: Sequence[int] | None = None,
        background: Background = INDEPENDENT,
    ) -> None:
        #: The β that was trained, and the rule in use, which may have another.
        self.beta, self.rule = beta, rule
        self.scorer_s, self.scorer_q = scorer_s, scorer_q
        self.starts, self.seed = list(starts), seed
        self.p_value, self.status = p_value, status
        #: The seeds of the starts that score: the best one, or all of the ensemble.
        self.ensemble = {seed} if ensemble is None else set(ensemble)
        #: How chance is counted, and why.
        self.background = background
        #: Scorers that take unscaled rows (see :func:`absorb`), made at first use.
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
    """The scorer of one input (``side``, s or q) from the weights of some snapshots; ``head`` is one of ``heads``."""
    k = len(members)
    norm = NormalisedHead(k, heads, enabled=normalised)
    norm.load_state_dict(_stacked([with_prefix(weights, f"head_{side}.") for weights in members]))
    a, b = (x[:, head, None] for x in norm.affine())
    states = [with_prefix(weights, f"net_{side}.") for weights in members]
    if isinstance(blueprint.source, NetSpec):
        single = StackedNet(blueprint.source, blueprint.input_shape, [0] * k, 1)
        trained = StackedNet(blueprint.source, blueprint.input_shape, [0] * k, heads, apart=True)
        state = trained.output(_stacked(states), head)
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
            for i, state in enumerate(states)
            for name, v in state.items()
        }
    )
    scorer = Scorer(whole, head)
    scorer.gain.copy_(a.reshape(scorer.gain.shape))
    scorer.offset.copy_(b.reshape(scorer.offset.shape))
    return scorer.eval()


def absorb(scorer: Scorer, scaler: Scaler | None) -> Scorer | None:
    """A scorer that takes unscaled rows, its first layer including the scaling; None if that is not exact.

    It is not exact with padding (its zeros stand for the mean only after scaling), with a scale per context, where
    outliers are clipped, and where the mean is so large that float32 would lose digits.
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


def blueprints_of(described: list[dict[str, Any]], nets: Any) -> tuple[Blueprint, Blueprint]:
    """The networks that a model's facts describe."""
    found = []
    for i, one in enumerate(described):
        shape = tuple(int(x) for x in one["input_shape"])
        if one["kind"] == "spec":
            found.append(Blueprint(NetSpec.from_dict(one), shape))
        elif nets is None:
            raise InputError(
                f"this model uses a network of your own ({one['name']}); "
                "pass it: load(folder, nets=(net_s, net_q))"
            )
        else:
            found.append(Blueprint(as_source(nets[i]), shape))
    return found[0], found[1]


def as_source(net: Any) -> NetSpec | nn.Module | Callable[[], nn.Module]:
    """A description, a module, a function that makes one, or a skorch net, whose module is taken; else an error."""
    if isinstance(net, NetSpec):
        return net
    if hasattr(net, "get_params_for") and hasattr(net, "module"):  # skorch's; its training loop is not used
        if isinstance(net.module, nn.Module):
            return copy.deepcopy(net.module)
        return lambda: net.module(**net.get_params_for("module"))
    if isinstance(net, nn.Module):
        return copy.deepcopy(net)
    if callable(net):
        factory: Callable[[], nn.Module] = net
        return factory
    raise InputError(
        "a network must be a name, a NetSpec, a torch.nn.Module, a function that makes one, a skorch net, or a pair "
        f"of these: one for s and one for q; not {type(net).__name__}"
    )


def as_arrays(tensors: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Tensors as arrays, for a file."""
    return {name: value.detach().contiguous().numpy() for name, value in tensors.items()}


def as_tensors(arrays: dict[str, NDArray[Any]]) -> dict[str, Tensor]:
    """The inverse of :func:`as_arrays`; the tensors have memory of their own."""
    return {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}


def with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names have a prefix, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _stacked(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The states of single members as the state of one stack."""
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}
