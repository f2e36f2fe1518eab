"""Convolutions of few channels, compiled, with the rows of a batch side by side in memory.

PyTorch's kernels are made for hundreds of channels; the networks here have five to fifteen, and
use half of each vector instruction or less. In this layout the innermost axis holds the same
pixel of 16 rows, so that every instruction is full whatever the number of channels, and what
the rows of a block compute does not depend on their neighbours.

An image's channel is a *plane*: its padded rows, each row split by ``stride`` into *phases*
(the columns 0, s, 2s, ..., then 1, s + 1, ...), so that a strided convolution reads neighbours
too. One output row is then a weighted sum of stretches of the input at fixed offsets, and all
three parts of a layer are loops over such offsets: its output (``outputs``), the gradient
of its input (``input_gradient``: the same sum over the output's gradient) and that of its
weights (``weight_gradient``: inner products of the same stretches).
Windows (channels, time) are images of height 1.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coad.learned import batch_last_kernels as kernels
from coad.learned.batch_last_kernels import GROUP, LANES

__all__ = ["LANES", "ConvolutionStack", "convolve"]

#: Bytes of the inputs of all layers, for the rows that pass through them together.
_AT_ONCE = 2_000_000

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
#: Places without a sign: compiled code need not ask whether one counts from the end.
Places = NDArray[np.uint64]


@dataclass(frozen=True)
class _Layer:
    """The geometry of one convolution; ``taps`` and ``turned`` are its offsets, forward and back."""

    inputs: int
    outputs: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @cached_property
    def rows(self) -> int:
        return self.size[0] + 2 * self.padding[0]

    @cached_property
    def phase(self) -> int:
        """Columns of one phase of a padded row."""
        return math.ceil((self.size[1] + 2 * self.padding[1]) / self.stride[1])

    @cached_property
    def row(self) -> int:
        return self.stride[1] * self.phase * LANES

    @cached_property
    def columns(self) -> Places:
        """Where each column of the input lies in a padded row."""
        place = np.arange(self.size[1]) + self.padding[1]
        return ((place % self.stride[1] * self.phase + place // self.stride[1]) * LANES).astype(np.uint64)

    @cached_property
    def out(self) -> tuple[int, int]:
        high, wide = (
            (size + 2 * padding - kernel) // stride + 1
            for size, padding, kernel, stride in zip(
                self.size, self.padding, self.kernel, self.stride, strict=True
            )
        )
        return high, wide

    @cached_property
    def border(self) -> tuple[int, int]:
        """Zeros around the output's gradient, so that every offset stays inside."""
        return math.ceil(self.kernel[0] / self.stride[0]) - 1, math.ceil(self.kernel[1] / self.stride[1]) - 1

    @cached_property
    def framed(self) -> tuple[int, int]:
        """Rows and columns of the output's gradient with that border."""
        high, wide = self.out
        below, beside = self.border
        rows = max(high + below, math.ceil(self.rows / self.stride[0])) + below
        return rows, max(wide + beside, self.phase) + beside

    @cached_property
    def inner(self) -> Places:
        """Where each column of the output lies in a row of its framed gradient."""
        return ((np.arange(self.out[1]) + self.border[1]) * LANES).astype(np.uint64)

    def taps(self) -> Ints:
        """Where the value that each weight (input, y, x) multiplies lies, from the output row's own place."""
        i, y, x = np.meshgrid(*map(np.arange, (self.inputs, *self.kernel)), indexing="ij")
        step = self.stride[1]
        return _padded(
            i * self.rows * self.row + y * self.row + ((x % step) * self.phase + x // step) * LANES
        )

    def turned(self) -> list[tuple[Ints, Ints, Ints]]:
        """For each class of input places (row and column modulo the stride): ky, kx and the offsets."""
        (below, beside), (high, wide) = self.border, self.framed
        found = []
        for r in range(self.stride[0]):
            for c in range(self.stride[1]):
                ky = np.arange(r, self.kernel[0], self.stride[0])
                kx = np.arange(c, self.kernel[1], self.stride[1])
                o, y, x = np.meshgrid(np.arange(self.outputs), ky, kx, indexing="ij")
                up, left = below - (y - r) // self.stride[0], beside - (x - c) // self.stride[1]
                found.append((ky, kx, _padded(((o * high + up) * wide + left) * LANES)))
        return found


class ConvolutionStack:
    """Convolutions, each with a ReLU, of several members that share the input."""

    def __init__(self, convs: Sequence[Any], input_shape: Sequence[int], members: int) -> None:
        flat = len(input_shape) == 2
        channels, high, wide = (input_shape[0], 1, input_shape[1]) if flat else tuple(input_shape)
        self.members, self.layers = members, []
        for conv in convs:
            layer = _Layer(
                channels,
                conv.channels,
                (high, wide),
                (1 if flat else conv.kernel, conv.kernel),
                (1 if flat else conv.stride, conv.stride),
                (0 if flat else conv.padding, conv.padding),
            )
            self.layers.append(layer)
            channels, (high, wide) = conv.channels, layer.out
        self.features = channels * high * wide
        self._taps = [layer.taps() for layer in self.layers]
        self._turned = [layer.turned() for layer in self.layers]
        block = 4 * members * sum(layer.inputs * layer.rows * layer.row for layer in self.layers)
        self._chunk = LANES * max(2, min(64, _AT_ONCE // block))
        self._spare: dict[tuple[str, int], list[Floats]] = {}

    def forward(
        self, x: Floats, weights: Sequence[Floats], biases: Sequence[Floats], keep: list[Any] | None = None
    ) -> Floats:
        """Features (n, members · features); ``keep`` collects what :meth:`backward` needs."""
        out = np.empty((len(x), self.members * self.features), np.float32)
        prepared = [
            (_tiled(w.reshape(self.members, -1, math.prod(w.shape[1:]))), _tiled_biases(b, self.members))
            for w, b in zip(weights, biases, strict=True)
        ]
        starts = range(0, len(x), self._chunk)
        kept: list[Any] = [None] * len(starts)

        def one(number: int) -> None:
            rows = slice(starts[number], starts[number] + self._chunk)
            planes = self._chunk_forward(x[rows], prepared, out[rows])
            if keep is not None:
                kept[number] = planes
            else:
                self._give_planes(planes)

        _in_threads(one, len(starts))
        if keep is not None:
            keep.extend(kept)
        return out

    def backward(
        self, gradient: Floats, out: Floats, kept: Sequence[list[Floats]], weights: Sequence[Floats]
    ) -> tuple[list[Floats], list[Floats]]:
        """Gradients of the weights and the biases, given that of the features ``out``."""
        turned = [self._turned_weights(i, w) for i, w in enumerate(weights)]
        found: list[Any] = [None] * len(kept)

        def one(number: int) -> None:
            rows = slice(number * self._chunk, (number + 1) * self._chunk)
            found[number] = self._chunk_backward(gradient[rows], out[rows], kept[number], turned)
            self._give_planes(kept[number])

        _in_threads(one, len(kept))
        of_weights, of_biases = [], []
        for i, weight in enumerate(weights):
            layer = self.layers[i]
            total = np.sum([part[0][i] for part in found], axis=0)
            used = layer.inputs * math.prod(layer.kernel)  # the offsets that fill up are left out
            of_weights.append(np.ascontiguousarray(total[..., :used]).reshape(weight.shape))
            of_biases.append(np.sum([part[1][i] for part in found], axis=0).reshape(-1))
        return of_weights, of_biases

    def _chunk_forward(
        self, x: Floats, prepared: Sequence[tuple[Floats, Floats]], out: Floats
    ) -> list[Floats]:
        blocks, first = math.ceil(len(x) / LANES), self.layers[0]
        planes = self._take("in", 0, (blocks, 1, first.inputs, first.rows, first.row))
        kernels.spread(x.reshape(len(x), first.inputs, *first.size), planes, first.padding[0], first.columns)
        kept = []
        for i, layer in enumerate(self.layers):
            kept.append(planes)
            high, wide = layer.out
            rows = self._take("out", i, (blocks, self.members, _whole(layer.outputs), high, wide * LANES))
            source = planes.reshape(blocks, planes.shape[1], -1)
            kernels.outputs(source, *prepared[i], self._taps[i], layer.stride[0] * layer.row, rows)
            if i + 1 < len(self.layers):
                after = self.layers[i + 1]
                shape = (blocks, self.members, after.inputs, after.rows, after.row)
                planes = self._take("in", i + 1, shape)
                kernels.place(rows[:, :, : layer.outputs], planes, after.padding[0], after.columns)
            else:
                kernels.gather(
                    rows[:, :, : layer.outputs], out.reshape(len(x), self.members, layer.outputs, -1)
                )
            self._give("out", i, rows)
        return kept

    def _chunk_backward(
        self, gradient: Floats, out: Floats, kept: Sequence[Floats], turned: Sequence[Any]
    ) -> tuple[list[Floats], list[Floats]]:
        blocks, k = len(kept[0]), self.members
        of_weights: list[Any] = [None] * len(self.layers)
        of_biases: list[Any] = [None] * len(self.layers)
        last = self.layers[-1]
        shape: tuple[int, ...] = (blocks, k, last.outputs, last.out[0], last.out[1] * LANES)
        rows = self._take("gradient", len(kept) - 1, shape)
        kernels.scatter_alive(gradient, out, rows.reshape(blocks, -1, LANES))
        for i in range(len(self.layers) - 1, -1, -1):
            layer, planes = self.layers[i], kept[i]
            of_weights[i] = np.zeros((k, layer.outputs, len(self._taps[i])), np.float32)
            of_biases[i] = np.zeros((k, layer.outputs), np.float32)
            source = planes.reshape(blocks, planes.shape[1], -1)
            step = layer.stride[0] * layer.row
            kernels.weight_gradient(source, rows, self._taps[i], step, of_weights[i], of_biases[i])
            if i == 0:
                break
            shape = (blocks, k, layer.outputs, layer.framed[0], layer.framed[1] * LANES)
            framed = self._take("framed", i, shape)
            kernels.place(rows, framed, layer.border[0], layer.inner)
            back = self._take("back", i, (blocks, k, _whole(layer.inputs), layer.rows, layer.row))
            for n, (_, _, offsets) in enumerate(self._turned[i]):
                weight = turned[i][n]
                kernels.input_gradient(framed.reshape(blocks, k, -1), weight, offsets, layer.framed[1] * LANES,
                                n // layer.stride[1], n % layer.stride[1], layer.stride[0], layer.phase * LANES,
                                layer.padding[0], layer.size[0], back)  # fmt: skip
            self._give("gradient", i, rows)
            shape = (blocks, k, layer.inputs, layer.size[0], layer.size[1] * LANES)
            rows = self._take("gradient", i - 1, shape)
            kernels.take_alive(back, planes, rows, layer.padding[0], layer.columns)
            self._give("framed", i, framed)
            self._give("back", i, back)
        self._give("gradient", 0, rows)
        return of_weights, of_biases

    def _take(self, name: str, i: int, shape: tuple[int, ...]) -> Floats:
        """An array for layer i whose border is 0: one that was given back, or a new one.

        Fresh memory costs as much as the arithmetic; what lies inside the border is always overwritten.
        Each has room for a whole chunk, so that there are no more of them than chunks at a time.
        """
        spare = self._spare.setdefault((name, i), [])
        try:
            whole = spare.pop()
        except IndexError:
            whole = np.zeros((self._chunk // LANES, *shape[1:]), np.float32)
        return whole[: shape[0]]

    def _give_planes(self, kept: Sequence[Floats]) -> None:
        for i, planes in enumerate(kept):
            self._give("in", i, planes)

    def _give(self, name: str, i: int, array: Floats) -> None:
        whole = array.base
        assert isinstance(whole, np.ndarray)
        self._spare[name, i].append(whole)

    def _turned_weights(self, i: int, weight: Floats) -> list[Floats]:
        layer = self.layers[i]
        if i == 0:
            return []
        whole = weight.reshape(self.members, layer.outputs, layer.inputs, *layer.kernel)
        found = []
        for ky, kx, _ in self._turned[i]:
            some = whole[:, :, :, ky][..., kx].transpose(0, 2, 1, 3, 4)
            found.append(_tiled(some.reshape(self.members, layer.inputs, -1)))
        return found


def convolve(
    stack: ConvolutionStack, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """The features of a batch, (n, members · features), differentiable by the weights and biases."""
    out: Tensor = _Convolve.apply(stack, x, *weights, *biases)  # type: ignore[no-untyped-call]
    return out


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stack: ConvolutionStack, x: Tensor, *parameters: Tensor) -> Tensor:
        arrays = [p.detach().contiguous().numpy() for p in parameters]
        weights, biases = arrays[: len(stack.layers)], arrays[len(stack.layers) :]
        keep: list[Any] | None = [] if any(ctx.needs_input_grad[2:]) else None
        out = stack.forward(x.detach().contiguous().numpy(), weights, biases, keep)
        ctx.save_for_backward(*parameters[: len(weights)])  # torch then notices a step in between
        ctx.stack, ctx.kept, ctx.out = stack, keep, out
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        weights = [weight.detach().contiguous().numpy() for weight in ctx.saved_tensors]
        if ctx.kept is None:
            raise RuntimeError("compiled convolutions go backward once; use layout='default' for more")
        kept, ctx.kept = ctx.kept, None
        gradient = gradients[0].contiguous().numpy()
        of_weights, of_biases = ctx.stack.backward(gradient, ctx.out, kept, weights)
        return (None, None, *(torch.from_numpy(g) for g in (*of_weights, *of_biases)))


def _in_threads(work: Any, parts: int) -> None:
    """``work(0)``, ..., on as many threads as torch may use; compiled code holds no lock."""
    threads = min(torch.get_num_threads(), parts)
    if threads <= 1:
        for i in range(parts):
            work(i)
        return
    for _ in _pool(threads).map(work, range(parts)):
        pass


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _padded(offsets: Ints) -> Ints:
    """Flat, in whole groups and at least one: the offsets that fill up have the weight 0."""
    flat = offsets.ravel().astype(np.int64)
    return np.concatenate([flat, np.zeros(_groups(len(flat)) - len(flat), np.int64)])


def _groups(taps: int) -> int:
    return max(1, math.ceil(taps / GROUP)) * GROUP


def _block_size(channels: int) -> int:
    """How many channels a tile computes: 4, 5 or 6, with the fewest to spare.

    >>> [_block_size(channels) for channels in (1, 5, 10, 12, 14, 16)]
    [4, 5, 5, 6, 5, 4]
    """
    return min((6, 5, 4), key=lambda size: -channels % size)


def _whole(channels: int) -> int:
    """Channels filled up to whole tiles."""
    return channels + -channels % _block_size(channels)


def _tiled(weight: Floats) -> Floats:
    """Weights (members, channels, offsets) as the tiles read them: (members, tiles, offsets, channels)."""
    k, channels, taps = weight.shape
    size = _block_size(channels)
    full = np.zeros((k, _whole(channels), _groups(taps)), np.float32)
    full[:, :channels, :taps] = weight
    return np.ascontiguousarray(full.reshape(k, -1, size, full.shape[2]).swapaxes(2, 3))


def _tiled_biases(bias: Floats, members: int) -> Floats:
    """Biases as the tiles read them: (members, tiles, channels)."""
    return np.ascontiguousarray(_tiled(bias.reshape(members, -1, 1))[:, :, 0])
