"""The networks: several copies (*members*, one per start) of one description, trained at the same time.

:class:`StackedNet` stacks the parameters of its members, so that a step of all of them is a few large operations
instead of many small ones. :class:`LoopedNet` runs modules that the user wrote, one after the other.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coad.exceptions import InputError
from coad.learned.net_spec import Layout, NetSpec

__all__ = ["LoopedNet", "NormalisedHead", "StackedNet"]


class StackedNet(nn.Module):
    """Several members of one :class:`~coad.NetSpec`; the output has shape (members, n, outputs).

    Parameters
    ----------
    spec, input_shape
        The layers, and the shape of one row.
    seeds
        The seed of the random weights of each member.
    outputs
        Logits per row, one per β.
    apart
        Give each output its own fully-connected layers (``branches`` counts them), so that the outputs share
        only the convolutions: these layers are narrow, and the outputs would compete for them.

    >>> net = StackedNet(NetSpec(hidden=(4,)), (3,), seeds=[0, 1])
    >>> net(torch.zeros(5, 3)).shape
    torch.Size([2, 5, 1])
    """

    def __init__(
        self,
        spec: NetSpec,
        input_shape: Sequence[int],
        seeds: Sequence[int],
        outputs: int = 1,
        *,
        apart: bool = False,
    ):
        super().__init__()
        self.spec = spec
        self.input_shape = tuple(input_shape)
        self.members = len(seeds)
        self.outputs = outputs
        self.branches = outputs if apart and spec.convs and spec.hidden else 1
        self._layout: Layout = "default"
        sizes = spec.sizes(input_shape)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.conv_weight, self.conv_bias = nn.ParameterList(), nn.ParameterList()
        channels = self.input_shape[0]
        for conv in spec.convs:
            kernel = (conv.kernel,) * (len(self.input_shape) - 1)
            fan_in = channels * math.prod(kernel)
            weight, bias = _initial(generators, (conv.channels, channels, *kernel), (conv.channels,), fan_in)
            self.conv_weight.append(nn.Parameter(weight.detach().flatten(0, 1)))
            self.conv_bias.append(nn.Parameter(bias.detach().flatten(0, 1)))
            channels = conv.channels
        self.weight, self.bias = nn.ParameterList(), nn.ParameterList()
        widths = [size[0] for size in sizes[len(spec.convs) :]] + [outputs // self.branches]
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
            # The first layers of the branches are one wide layer; the others are stacked.
            wide, deep = (self.branches, 1) if i == 0 else (1, self.branches)
            shape = (deep, fan_in, wide * fan_out), (deep, 1, wide * fan_out)
            weight, bias = _initial(generators, *shape, fan_in)
            self.weight.append(nn.Parameter(weight.detach().flatten(0, 1)))
            self.bias.append(nn.Parameter(bias.detach().flatten(0, 1)))

    @property
    def layout(self) -> Layout:
        """The memory format of the convolutions; results differ by rounding only."""
        return self._layout

    @layout.setter
    def layout(self, value: Layout) -> None:
        if value == self._layout:
            return
        # The weights are converted once: if every step converted them, their gradients would be in the slow format.
        self._layout = value
        layout = torch.channels_last if value == "channels_last" else torch.contiguous_format
        for weight in self.conv_weight:
            image = weight.data.unsqueeze(2) if weight.ndim == 3 else weight.data
            image = image.contiguous(memory_format=layout)
            weight.data = image.squeeze(2) if weight.ndim == 3 else image

    def forward(self, x: Tensor) -> Tensor:
        logit = torch.baddbmm(self.bias[-1], self.latent(x), self.weight[-1])
        if self.branches > 1:
            logit = logit.reshape(self.members, self.branches, len(x)).transpose(1, 2)
        return logit

    def latent(self, x: Tensor) -> Tensor:
        """The input of the last layer: (members × branches, n, width)."""
        k = self.members
        if self.spec.convs:
            h = self._convolve(x).reshape(x.shape[0], k, -1).transpose(0, 1)
        else:
            h = x.flatten(1).unsqueeze(0).expand(k, -1, -1)
        # A slice of a ParameterList would make a new module, which takes longer than the layer.
        for i, (weight, bias) in enumerate(list(zip(self.weight, self.bias, strict=True))[:-1]):
            h = F.relu_(_affine(h, weight, bias))
            if i == 0 and self.branches > 1:
                h = h.transpose(1, 2).reshape(k * self.branches, -1, len(x)).transpose(1, 2)
        return h

    def _convolve(self, x: Tensor) -> Tensor:
        """The output of the convolutions, the members' channels one after the other."""
        members = self.members
        if x.ndim == 4 and members > 1:
            # PyTorch's grouped convolutions of images take 1.5 to 3 times as long as single ones (CPU, measured).
            weights = zip(*(p.chunk(members) for p in self.conv_weight), strict=True)
            biases = zip(*(p.chunk(members) for p in self.conv_bias), strict=True)
            return torch.cat([self._layers(x, w, b) for w, b in zip(weights, biases, strict=True)], dim=1)
        return self._layers(x, list(self.conv_weight), list(self.conv_bias), members)

    def _layers(
        self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], members: int = 1
    ) -> Tensor:
        channels_last = self.layout == "channels_last"
        # As images of height 1: PyTorch's channels-last kernels exist for images only.
        as_images = x.ndim == 3 and channels_last
        if as_images:
            x = x.unsqueeze(2)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        convolution = F.conv1d if x.ndim == 3 else F.conv2d
        for i, (conv, weight, bias) in enumerate(zip(self.spec.convs, weights, biases, strict=True)):
            stride, padding = (conv.stride,) * (weight.ndim - 2), (conv.padding,) * (weight.ndim - 2)
            if as_images:
                weight, stride, padding = weight.unsqueeze(2), (1, *stride), (0, *padding)
            # The members have the same input, so their first convolutions are one wide convolution.
            x = F.relu_(convolution(x, weight, bias, stride, padding, groups=members if i else 1))
        return x

    def member(self, state: dict[str, Tensor], index: int) -> dict[str, Tensor]:
        """Views of one member's weights in ``state``, named and shaped as in a stack of one."""
        return {name: member_slice(value, index, self.members) for name, value in state.items()}

    def output(self, state: dict[str, Tensor], index: int) -> dict[str, Tensor]:
        """Views of the weights of one output in ``state``, named and shaped as in a stack with one output."""
        last = len(self.weight) - 1
        found = {}
        for name, value in state.items():
            kind, _, layer = name.partition(".")
            if kind in ("weight", "bias"):
                if self.branches > 1 and layer != "0":
                    value = value[index :: self.branches]
                elif self.branches > 1 or int(layer) == last:
                    width = value.shape[-1] // self.outputs
                    value = value[..., index * width : (index + 1) * width]
            found[name] = value
        return found


class LoopedNet(nn.Module):
    """The user's own modules, one per member, run one after the other.

    Parameters
    ----------
    factory
        A module, whose copies get new random weights, or a function that makes one. It must return one logit per
        row and β: shape (n,), (n, 1) or (n, number of β).
    seeds, outputs
        As in :class:`StackedNet`.
    """

    def __init__(self, factory: nn.Module | Callable[[], nn.Module], seeds: Sequence[int], outputs: int = 1):
        super().__init__()
        self.outputs = outputs
        self.members = len(seeds)
        self.layout: Layout = "default"
        modules = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                if isinstance(factory, nn.Module):
                    module = copy.deepcopy(factory)
                    for part in module.modules():
                        reset = getattr(part, "reset_parameters", None)
                        if callable(reset):
                            reset()
                else:
                    module = factory()
            if not isinstance(module, nn.Module):
                raise InputError(f"the network must be a torch.nn.Module, not {type(module).__name__}")
            modules.append(module)
        self.each = nn.ModuleList(modules)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self._checked(module(x), len(x)) for module in self.each])

    def latent(self, x: Tensor) -> Tensor:
        """The input of each module's last ``nn.Linear``: (members, n, width)."""
        caught: list[Tensor] = []
        for module in self.each:
            linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
            if not linear:
                raise InputError("this network has no nn.Linear layer, so it has no known latent space")
            handle = linear[-1].register_forward_pre_hook(lambda _, args: caught.append(args[0]))
            try:
                module(x)
            finally:
                handle.remove()
        return torch.stack(caught)

    def member(self, state: dict[str, Tensor], index: int) -> dict[str, Tensor]:
        """Views of one member's weights in ``state``, named as in a stack of one."""
        start = f"each.{index}."
        return {"each.0." + k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}

    def _checked(self, out: Any, n: int) -> Tensor:
        if isinstance(out, Tensor) and out.shape == (n,) and self.outputs == 1:
            return out.unsqueeze(1)
        if isinstance(out, Tensor) and out.shape == (n, self.outputs):
            return out
        got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        wanted = "(n,) or (n, 1)" if self.outputs == 1 else f"(n, {self.outputs}), one logit per beta"
        raise InputError(f"the network must return one logit per row, {wanted}; for {n} rows it gave {got}")


class NormalisedHead(nn.Module):
    """Batch normalisation of the logit of every member and β, with initial scale 2 and shift −1.

    Without it, the confidences of an untrained network are nearly equal and the gradient nearly vanishes.

    Parameters
    ----------
    members, outputs
        Shape of the logits: (members, n, outputs).
    enabled
        False returns the logits unchanged (the paper's head).
    momentum
        Weight of a batch in the running mean and variance.

    >>> head = NormalisedHead(members=1, outputs=1)
    >>> z = head(torch.randn(1, 500, 1) * 9 + 3)
    >>> round(z.mean().item(), 3), round(z.std().item(), 2)
    (-1.0, 2.0)
    """

    def __init__(self, members: int, outputs: int, *, enabled: bool = True, momentum: float = 0.1):
        super().__init__()
        self.enabled, self.momentum, self.eps = enabled, momentum, 1e-5
        shape = (members, 1, outputs)
        self.scale = nn.Parameter(torch.full(shape, 2.0), requires_grad=enabled)
        self.shift = nn.Parameter(torch.full(shape, -1.0), requires_grad=enabled)
        self.mean: Tensor
        self.var: Tensor
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))

    def forward(self, z: Tensor) -> Tensor:
        if not self.enabled:
            return z
        mean, var = self.mean, self.var
        if self.training:
            var, mean = torch.var_mean(z, dim=1, keepdim=True, correction=0)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.var.lerp_(var, self.momentum)
        return (z - mean) * (self.scale * torch.rsqrt(var + self.eps)) + self.shift

    def affine(self) -> tuple[Tensor, Tensor]:
        """(a, b) with head(z) = a·z + b at inference; shape (members, outputs)."""
        if not self.enabled:
            return torch.ones_like(self.mean)[:, 0], torch.zeros_like(self.mean)[:, 0]
        a = (self.scale * torch.rsqrt(self.var + self.eps)).detach()
        return a[:, 0], (self.shift - self.mean * a).detach()[:, 0]


def _initial(
    generators: Sequence[torch.Generator], weight: tuple[int, ...], bias: tuple[int, ...], fan_in: int
) -> tuple[nn.Parameter, nn.Parameter]:
    """PyTorch's default, U(−1/√fan_in, 1/√fan_in), drawn from the generator of each member."""
    bound = 1.0 / math.sqrt(fan_in)

    def draw(shape: tuple[int, ...]) -> Tensor:
        return torch.stack([torch.empty(shape).uniform_(-bound, bound, generator=g) for g in generators])

    return nn.Parameter(draw(weight)), nn.Parameter(draw(bias))


def _affine(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``h @ weight + bias`` for every member.

    For many inputs and few outputs, the transposed product is two to three times as fast.
    """
    if weight.shape[1] < 16 * weight.shape[2]:
        return torch.baddbmm(bias, h, weight)
    turned = torch.baddbmm(bias.transpose(1, 2), weight.transpose(1, 2), h.transpose(1, 2))
    return turned.transpose(1, 2)


def member_slice(value: Tensor, index: int, members: int) -> Tensor:
    """The slice of a stacked tensor for one member."""
    size = value.shape[0] // members
    return value[index * size : (index + 1) * size]
