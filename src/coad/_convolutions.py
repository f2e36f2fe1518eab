"""A stack of convolutions with ReLUs whose backward pass visits only the rows that have a gradient.

Most of a training step is the backward pass of the convolutions, and in coincident learning
most rows have next to nothing to say in it: their confidences are settled. :func:`thinned`
keeps a part of the rows, drawn so that the gradient stays right in expectation, and
:func:`convolve` spends no time on the others. Rows with a gradient of exactly 0 are the only
ones it leaves out, so it is exact for whatever gradient it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["convolve", "thinned"]

#: Copying rows costs something too; above this part of the batch, all of it is used.
_WORTH_IT = 0.9

#: (stride, padding, groups) of one convolution, along each spatial axis.
Step = tuple[tuple[int, ...], tuple[int, ...], int]


def convolve(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], steps: Sequence[Step]) -> Tensor:
    """Each convolution followed by a ReLU.

    >>> weight, bias = torch.ones(1, 1, 3, requires_grad=True), torch.zeros(1)
    >>> convolve(torch.ones(1, 1, 4), [weight], [bias], [((1,), (0,), 1)]).detach()
    tensor([[[3., 3.]]])
    """
    if torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu"):
        out: Tensor = _Convolutions.apply(x, tuple(steps), *weights, *biases)  # type: ignore[no-untyped-call]
        return out
    for weight, bias, step in zip(weights, biases, steps, strict=True):
        x = F.relu_(_convolution(x, weight, bias, step))
    return x


@torch.no_grad()
def thinned(gradient: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """``gradient`` (members, n, heads) with the rows that add little to it set to 0, at random.

    A row is kept with a probability proportional to the size of its gradient (1 at most) and
    divided by it, so the expectation is the gradient that was given. As many are kept as are
    needed for the draw to add no more than ``noise`` times the variance that the batch, itself
    a draw of rows, has already. The draw is systematic: one uniform number, equal steps along
    the cumulated probabilities.

    >>> g = torch.tensor([[[3.0], [0.1], [0.1], [0.1], [0.1]]])
    >>> [round(x, 3) for x in thinned(g, 0.01, torch.Generator().manual_seed(2)).flatten().tolist()]
    [3.0, 0.326, 0.0, 0.0, 0.326]
    """
    size = gradient.double().square().sum((0, 2)).sqrt()
    bearable = noise * size.square().sum()
    if not bool(torch.isfinite(size).all()) or bearable <= 0:
        return gradient
    # Added variance: Σ size² (1/chance − 1); it falls as the probabilities grow.
    low, high = 0.0, 1.0 / float(size[size > 0].min())
    for _ in range(30):
        rate = 0.5 * (low + high)
        chance = (rate * size).clamp(1e-300, 1.0)
        if (size.square() * (1.0 / chance - 1.0)).sum() > bearable:
            low = rate
        else:
            high = rate
    chance = (high * size).clamp(max=1.0)
    ends = chance.cumsum(0) + torch.rand((), generator=generator, dtype=torch.float64)
    kept = (ends.floor() > (ends - chance).floor()) | (chance >= 1.0)
    weight = torch.where(kept, 1.0 / chance.clamp_min(1e-300), 0.0).to(gradient.dtype)
    return gradient * weight[None, :, None]


class _Convolutions(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: tuple[Step, ...], *parameters: Tensor) -> Tensor:
        weights, biases = parameters[: len(steps)], parameters[len(steps) :]
        values = [x]
        for weight, bias, step in zip(weights, biases, steps, strict=True):
            x = F.relu_(_convolution(x, weight, bias, step))
            values.append(x)
        ctx.steps = steps
        ctx.save_for_backward(*values, *weights)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        steps: tuple[Step, ...] = ctx.steps
        saved: tuple[Tensor, ...] = ctx.saved_tensors
        values, weights = saved[: len(steps) + 1], saved[len(steps) + 1 :]
        rows = gradient.flatten(1).ne(0).any(1).nonzero().squeeze(1)
        if len(rows) == 0:  # kernels for an empty batch are not to be relied on
            rows = torch.zeros(1, dtype=torch.int64)
        whole = len(rows) > _WORTH_IT * len(gradient)
        values = values if whole else tuple(_take(value, rows) for value in values)
        g = gradient if whole else gradient[rows]
        of_weights: list[Tensor | None] = [None] * len(steps)
        of_biases: list[Tensor | None] = [None] * len(steps)
        for i in reversed(range(len(steps))):
            x, out = values[i], values[i + 1]
            if _is_channels_last(out):
                g = g.contiguous(memory_format=torch.channels_last)
            g = torch.ops.aten.threshold_backward(g, out, 0)
            wanted = i > 0 or ctx.needs_input_grad[0]
            if not wanted and x.ndim == 4 and x.shape[1] <= 3 and min(x.shape[2:]) > 1:
                of_weights[i], of_biases[i] = _of_few_channels(g, x, weights[i], steps[i])
                break
            stride, padding, groups = steps[i]
            zero, one = [0] * len(stride), [1] * len(stride)
            g, of_weights[i], of_biases[i] = torch.ops.aten.convolution_backward(
                g, x, weights[i], [len(weights[i])], stride, padding, one, False, zero, groups,
                [wanted, True, True],
            )  # fmt: skip
        of_input = None
        if ctx.needs_input_grad[0]:
            of_input = g if whole else torch.zeros_like(saved[0]).index_copy_(0, rows, g.to(saved[0].dtype))
        return (of_input, None, *of_weights, *of_biases)


def _convolution(x: Tensor, weight: Tensor, bias: Tensor, step: Step) -> Tensor:
    stride, padding, groups = step
    if x.ndim == 3:
        return F.conv1d(x, weight, bias, stride, padding, groups=groups)
    return F.conv2d(x, weight, bias, stride, padding, groups=groups)


def _of_few_channels(g: Tensor, x: Tensor, weight: Tensor, step: Step) -> tuple[Tensor, Tensor]:
    """The gradient of a first layer's weights: itself a convolution, of the images by the gradients.

    The library's own kernel for this case takes about twice as long.
    """
    stride, (pad_y, pad_x), _ = step
    images = F.pad(x, (pad_x, pad_x, pad_y, pad_y)).transpose(0, 1)
    found = F.conv2d(images, g.transpose(0, 1), dilation=stride).transpose(0, 1)
    height, width = weight.shape[2:]
    return found[:, :, :height, :width].contiguous(), g.sum((0, 2, 3))


def _is_channels_last(x: Tensor) -> bool:
    return x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _take(x: Tensor, rows: Tensor) -> Tensor:
    if _is_channels_last(x):  # rows of the memory as it lies
        return x.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)
    return x.index_select(0, rows)
