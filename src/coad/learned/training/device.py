"""Where networks are trained: on the processor, or on a GPU.

Rows stay in the memory of the machine, where they are taken, scaled, augmented and jittered with the same random numbers
for every device; batches are moved. What is learned is moved back, so models are saved, loaded and used as ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from coad.exceptions import InputError

__all__ = ["PROCESSOR", "Device", "device_of", "half", "has_bfloat16", "placed"]

PROCESSOR = torch.device("cpu")
#: "auto": a GPU if there is one.
Device = Literal["auto", "cpu", "cuda"]


def device_of(
    wanted: str,
    *,
    available: Callable[[], bool] = torch.cuda.is_available,
    count: Callable[[], int] = torch.cuda.device_count,
) -> torch.device:
    """The device of a setting; processes that torchrun started take one GPU each, in turn.

    Parameters
    ----------
    wanted
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    available, count
        Whether there are GPUs, and how many.

    Returns
    -------
    torch.device

    >>> device_of("auto", available=lambda: False), device_of("auto", available=lambda: True, count=lambda: 1)
    (device(type='cpu'), device(type='cuda', index=0))
    """
    if wanted not in get_args(Device):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', not {wanted!r}")
    if wanted == "cpu" or (wanted == "auto" and not available()):
        return PROCESSOR
    if not available():
        raise InputError(
            "device='cuda' needs a GPU and a build of torch that uses it, and torch sees none; leave it out, or say 'auto'"
        )
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % count())


def placed(x: Tensor, device: torch.device) -> Tensor:
    """Some rows on a device. A GPU copies them from pinned memory, while this process goes on.

    >>> x = torch.zeros(2)
    >>> placed(x, torch.device("cpu")) is x
    True
    """
    if device.type == "cuda" and x.device.type == "cpu":
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


def half(device: torch.device, enabled: bool) -> torch.autocast:
    """Mixed precision: networks in bfloat16, which needs no scaling of the loss; weights and moments stay as they are.

    >>> with half(torch.device("cpu"), True):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a GPU has bfloat16 instructions."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
