"""Training on several processes: each takes a part of every batch, or some of the starts.

**Rows.** All processes make the same step. The loss and the normalised heads depend on the networks through one logit per row and head. So the ranks exchange
their logits, every rank differentiates the loss of the whole batch by all of them, and propagates the derivatives of
its own rows; the gradients of the weights are added up. The step is that of one process with the whole batch, but for
the order of additions. (The moments alone would do for the loss, but not for the statistics of the heads.)

**Starts.** Starts know nothing of each other but when to stop: a stack of them trains until none improves any more. A
process trains its part of a stack until its own do not, and on to the epoch at which the last of the others stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from coad.exceptions import InputError

__all__ = ["ALONE", "Distribution", "Ranks", "process_ranks"]

#: What is spread over processes: nothing, the rows of each batch (True: the same), or the starts.
Distribution = bool | Literal["rows", "starts"]
T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """The number of this process, how many there are, and what is spread over them.

    >>> Ranks(1, 3).own(8)
    slice(3, 6, None)
    """

    number: int = 0
    count: int = 1
    spread: Literal["rows", "starts"] = "rows"

    @property
    def of_starts(self) -> bool:
        """Whether starts are spread."""
        return self.count > 1 and self.spread == "starts"

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

    def agreed(self, value: dict[str, Any], source: int = 0) -> dict[str, Any]:
        """What the first process (or another one) says; plain data, sent as JSON."""
        if self.count == 1:
            return value
        text = json.dumps(value).encode()
        size = torch.tensor([len(text)])
        torch.distributed.broadcast(size, source)
        content = torch.zeros(int(size), dtype=torch.uint8)
        if self.number == source:
            content = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        torch.distributed.broadcast(content, source)
        found: dict[str, Any] = json.loads(content.numpy().tobytes())
        return found

    def parts(self, stacks: Sequence[Sequence[T]]) -> list[tuple[int, list[T]]]:
        """The stacks, or the parts of stacks, that this process trains: number of the stack, and what is taken of it.

        Where there are as many stacks as processes, they stay whole. A part may be empty.

        >>> Ranks(1, 2).parts([[1], [2], [3], [4]]), Ranks(1, 2).parts([[1, 2, 3]])
        ([(1, [2]), (3, [4])], [(0, [3])])
        """
        if len(stacks) >= self.count:
            return [(number, list(stacks[number])) for number in range(self.number, len(stacks), self.count)]
        return [(number, list(stack[self.own(len(stack))])) for number, stack in enumerate(stacks)]

    def furthest(self, epoch: int) -> tuple[int, bool]:
        """The last epoch that any process has reached, and whether all have."""
        if self.count == 1:
            return epoch, True
        both = torch.tensor([epoch, -epoch])
        torch.distributed.all_reduce(both, torch.distributed.ReduceOp.MAX)
        return int(both[0]), bool(both[0] == -both[1])

    def shared(self, value: Any, tensors: Sequence[Tensor]) -> list[tuple[Any, list[Tensor]]]:
        """What each process gives: plain data, sent as JSON, and tensors."""
        everything = []
        for source in range(self.count):
            mine = source == self.number
            shapes = [[str(one.dtype).removeprefix("torch."), list(one.shape)] for one in tensors]
            facts = self.agreed({"value": value, "shapes": shapes} if mine else {}, source)
            content = (
                [one.detach().contiguous() for one in tensors]
                if mine
                else [torch.empty(shape, dtype=getattr(torch, kind)) for kind, shape in facts["shapes"]]
            )
            for one in content:
                torch.distributed.broadcast(one, source)
            everything.append((facts["value"], content))
        return everything

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            torch.distributed.barrier()


#: One process.
ALONE = Ranks()


def process_ranks(distributed: Distribution) -> Ranks:
    """The ranks of the process group, if training is to be distributed."""
    if distributed not in (False, True, "rows", "starts"):
        raise InputError(f"distributed must be False, True, 'rows' or 'starts', not {distributed!r}")
    if not distributed:
        return ALONE
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise InputError(
            f"distributed={distributed!r} needs a process group: start the script with torchrun and call "
            "torch.distributed.init_process_group('gloo') first, or use torchrun -m -- coad fit"
        )
    spread: Literal["rows", "starts"] = "starts" if distributed == "starts" else "rows"
    return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size(), spread)
