"""``NetSpec``: a network as plain data, which is saved as JSON and built again from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

from coad.exceptions import InputError

__all__ = ["Conv", "Layout", "NetSpec", "default_spec", "preset"]

#: PyTorch's memory formats for the data of convolutions; which one is faster depends on the network.
Layout = Literal["default", "channels_last"]


@dataclass(frozen=True)
class Conv:
    """One convolution, 1-D or 2-D like the input, followed by a ReLU.

    Parameters
    ----------
    channels, kernel, stride, padding
        As in ``torch.nn.Conv1d`` and ``Conv2d``.
    """

    channels: int
    kernel: int
    stride: int = 1
    padding: int = 0


@dataclass(frozen=True)
class NetSpec:
    """A network: convolutions, then fully-connected layers, each with a ReLU, then one logit.

    Parameters
    ----------
    convs
        The convolutions, in order.
    hidden
        The widths of the fully-connected layers.

    >>> NetSpec(hidden=(16, 8)).sizes((5,))
    [(5,), (16,), (8,)]
    >>> preset("mnist")[0].sizes((1, 25, 25))[-3:]
    [(490,), (8,), (8,)]
    """

    convs: tuple[Conv, ...] = ()
    hidden: tuple[int, ...] = (8, 8)

    def sizes(self, input_shape: Sequence[int]) -> list[tuple[int, ...]]:
        """The input shape of each layer.

        Parameters
        ----------
        input_shape
            The shape of one row.

        Returns
        -------
        list of tuples
        """
        shape = tuple(input_shape)
        if self.convs and len(shape) not in (2, 3):
            raise InputError(
                f"a convolutional network needs (n, channels, time) or (n, channels, height, width) "
                f"input, but a row has shape {shape}"
            )
        sizes = [shape]
        for conv in self.convs:
            space = tuple((x + 2 * conv.padding - conv.kernel) // conv.stride + 1 for x in shape[1:])
            if min(space) < 1:
                raise InputError(
                    f"input {tuple(input_shape)} is too small for this network: a convolution with kernel "
                    f"{conv.kernel} has an input of {shape[1:]}; use a smaller kernel or longer windows"
                )
            shape = (conv.channels, *space)
            sizes.append(shape)
        if len(shape) > 1:
            sizes[-1 if self.convs else 0] = shape = (math.prod(shape),)
        for width in self.hidden:
            sizes.append((width,))
        return sizes

    def n_weights(self, input_shape: Sequence[int], outputs: int = 1) -> int:
        """The number of weights and biases of a network with so many outputs.

        >>> NetSpec(hidden=(16, 8)).n_weights((5,))
        241
        """
        total, channels = 0, input_shape[0]
        for conv in self.convs:
            total += conv.channels * (channels * conv.kernel ** (len(input_shape) - 1) + 1)
            channels = conv.channels
        widths = [*(size[0] for size in self.sizes(input_shape)[len(self.convs) :]), outputs]
        return total + sum((a + 1) * b for a, b in pairwise(widths))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NetSpec:
        """The inverse of :meth:`to_dict`."""
        return cls(tuple(Conv(**conv) for conv in data["convs"]), tuple(int(x) for x in data["hidden"]))


def preset(name: str) -> tuple[NetSpec, NetSpec]:
    """The paper's networks.

    Parameters
    ----------
    name
        ``"mnist"``, ``"milling"`` or ``"rf"``.

    Returns
    -------
    spec_s, spec_q

    >>> spec_s, spec_q = preset("rf")
    >>> spec_s.sizes((1, 50)), spec_q.sizes((14, 1000))[1:3]
    ([(1, 50), (5, 41), (160,), (6,), (6,)], [(15, 197), (540,)])
    """
    if name == "mnist":
        both = NetSpec(tuple(Conv(10, 5, stride, 2) for stride in (1, 1, 2, 2)), (8, 8))
        return both, both
    if name == "milling":
        both = NetSpec((Conv(10, 5, 1, 2), Conv(10, 5, 1, 2)), (8, 8))
        return both, both
    if name == "rf":
        return NetSpec((Conv(5, 10),) * 2, (6, 6)), NetSpec((Conv(15, 20, 5),) * 2, (6, 6))
    raise InputError(f"unknown network {name!r}; the paper's are 'mnist', 'milling' and 'rf'")


def default_spec(input_shape: Sequence[int]) -> NetSpec:
    """The default network for rows of a given shape.

    Parameters
    ----------
    input_shape
        The shape of one row.

    Returns
    -------
    NetSpec

    >>> default_spec((12,))
    NetSpec(convs=(), hidden=(32, 16))
    >>> len(default_spec((3, 200)).convs), len(default_spec((1, 28, 28)).convs)
    (3, 3)
    """
    shape = tuple(input_shape)
    if len(shape) == 1:
        return NetSpec(hidden=(32, 16))
    if len(shape) not in (2, 3):
        raise InputError(
            f"each row has shape {shape}; coad takes (n, features), (n, channels, time) or (n, c, h, w)"
        )
    smallest = min(shape[1:])
    if smallest < 8:
        return NetSpec(hidden=(32, 16))
    if len(shape) == 2:
        # Strides reduce the length to about 32, so that the first fully-connected layer stays small.
        strides = [2 if smallest / 2**i > 32 else 1 for i in range(3)]
        return NetSpec(tuple(Conv(16, 5, stride, 2) for stride in strides), (16, 16))
    return NetSpec(tuple(Conv(12, 5, stride, 2) for stride in (1, 2, 2)), (16, 16))
