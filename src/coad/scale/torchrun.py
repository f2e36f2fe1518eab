"""``torchrun -m -- coad fit``: the process group of a command that was started several times at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from coad.exceptions import InputError

__all__ = ["process_group"]


@contextmanager
def process_group(*, refuse: str = "") -> Iterator[int | None]:
    """The rank of this process under ``torchrun``, in a process group of gloo; None without it.

    Parameters
    ----------
    refuse
        What cannot be done by several processes at once, if it was asked for.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield None
        return
    if refuse:
        raise InputError(
            f"{refuse} does not work under torchrun, which trains one model on several processes"
        )
    import torch

    torch.distributed.init_process_group("gloo")
    try:
        yield torch.distributed.get_rank()
    finally:
        torch.distributed.destroy_process_group()
