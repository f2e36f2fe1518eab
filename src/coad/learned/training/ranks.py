"""Training on several processes: each takes a part of every batch, and all make the same step.

The loss and the normalised heads depend on the networks through one logit per row and head. So the ranks exchange
their logits, every rank differentiates the loss of the whole batch by all of them, and propagates the derivatives of
its own rows; the gradients of the weights are added up. The step is that of one process with the whole batch, but for
the order of additions. (The moments alone would do for the loss, but not for the statistics of the heads.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coad.exceptions import InputError

__all__ = ["ALONE", "Ranks", "process_ranks"]


@dataclass(frozen=True)
class Ranks:
    """The number of this process and how many there are.

    >>> Ranks(1, 3).own(8)
    slice(3, 6, None)
    """

    number: int = 0
    count: int = 1

    def own(self, rows: int) -> slice:
        """The rows of a batch that this process takes; the first ones take one more where they do not divide."""
        size, more = divmod(rows, self.count)
        start = self.number * size + min(self.number, more)
        return slice(start, start + size + (self.number < more))

    def gathered(self, logits: Tensor, rows: int) -> Tensor:
        """The logits (members, rows, heads) of a whole batch from those of each process."""
        if self.count == 1:
            return logits
        whole = logits.new_zeros((logits.shape[0], rows, *logits.shape[2:]))
        whole[:, self.own(rows)] = logits
        torch.distributed.all_reduce(whole)
        return whole

    def add_up(self, parameters: Iterable[Tensor]) -> None:
        """Replace the gradient of each parameter by its sum over the processes, in one message."""
        if self.count == 1:
            return
        gradients = [one.grad for one in parameters if one.grad is not None]
        flat = torch.cat([one.reshape(-1) for one in gradients])
        torch.distributed.all_reduce(flat)
        totals = torch.split(flat, [one.numel() for one in gradients])
        for one, total in zip(gradients, totals, strict=True):
            one.copy_(total.view_as(one))

    def agreed(self, value: dict[str, Any]) -> dict[str, Any]:
        """What the first process says; plain data, sent as JSON."""
        if self.count == 1:
            return value
        text = json.dumps(value).encode()
        size = torch.tensor([len(text)])
        torch.distributed.broadcast(size, 0)
        content = torch.zeros(int(size), dtype=torch.uint8)
        if self.number == 0:
            content = torch.tensor(list(text), dtype=torch.uint8)
        torch.distributed.broadcast(content, 0)
        found: dict[str, Any] = json.loads(bytes(content.tolist()))
        return found

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            torch.distributed.barrier()


#: One process.
ALONE = Ranks()


def process_ranks(distributed: bool) -> Ranks:
    """The ranks of the process group, if training is to be distributed."""
    if not distributed:
        return ALONE
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise InputError(
            "distributed=True needs a process group: start the script with torchrun and call "
            "torch.distributed.init_process_group('gloo') first, or use torchrun -m coad fit"
        )
    return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
