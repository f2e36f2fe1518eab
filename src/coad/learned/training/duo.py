"""``Duo``: the two networks with their heads; the rows that they are trained on; how their heads are oriented."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coad._typing import FloatArray
from coad.learned.nets import LoopedNet, NormalisedHead, StackedNet, member_slice
from coad.learned.objective import CoincidenceLoss, Gate, gated
from coad.learned.scaling import Scaler
from coad.learned.training.device import placed

__all__ = ["SHIFTS", "Duo", "Rows", "StoredRows", "confidences", "fingerprint", "orient", "settle"]

#: Shifts of the heads that :func:`orient` tries early in training; None is the present shift.
SHIFTS: tuple[float | None, ...] = (None, -1.0, -2.5, -4.0)


class Duo(nn.Module):
    """The network of s and the network of q with their heads, for all members; gives logits (members, n, heads)."""

    def __init__(
        self, net_s: StackedNet | LoopedNet, net_q: StackedNet | LoopedNet, *, normalised: bool
    ) -> None:
        super().__init__()
        self.net_s, self.net_q = net_s, net_q
        self.head_s = NormalisedHead(net_s.members, net_s.outputs, enabled=normalised)
        self.head_q = NormalisedHead(net_q.members, net_q.outputs, enabled=normalised)
        for net in (net_s, net_q):
            if normalised and isinstance(net, StackedNet):
                # The head subtracts this bias again, so its gradient is rounding error, which Adam would amplify.
                net.bias[-1].requires_grad_(False)

    @property
    def members(self) -> int:
        return self.net_s.members

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head_s.mean.device

    def forward(self, s: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        return self.head_s(self.net_s(s)), self.head_q(self.net_q(q))

    def member(self, state: dict[str, Tensor], index: int) -> dict[str, Tensor]:
        """Views of one member's weights in ``state``, named as in a duo of one member."""
        heads = {name: value for name, value in state.items() if name.startswith("head_")}
        found = {name: member_slice(value, index, self.members) for name, value in heads.items()}
        for name, net in (("net_s.", self.net_s), ("net_q.", self.net_q)):
            own = {k.removeprefix(name): v for k, v in state.items() if k.startswith(name)}
            found |= {name + k: v for k, v in net.member(own, index).items()}
        return found


@dataclass(frozen=True)
class Rows:
    """Scaled pairs as tensors; ``context`` holds stratum numbers, ``gate`` what the confidences are multiplied by."""

    s: Tensor
    q: Tensor
    context: Tensor | None = None
    gate: Gate | None = None

    def __len__(self) -> int:
        return len(self.s)

    def take(self, index: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The pairs of some rows."""
        rows = torch.from_numpy(index)
        return self.s[rows], self.q[rows]

    def conditions(
        self, index: NDArray[np.int64] | slice, device: torch.device
    ) -> tuple[Tensor | None, Gate | None]:
        """The context and the gate of some rows, on a device."""
        rows = index if isinstance(index, slice) else torch.from_numpy(index)
        context = None if self.context is None else placed(self.context[rows], device)
        if self.gate is None:
            return context, None
        return context, (placed(self.gate[0][rows], device), placed(self.gate[1][rows], device))

    def blocks(self, size: int = 1024, limit: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """All rows in order (or the first ``limit``), a block at a time."""
        end = len(self) if limit is None else min(limit, len(self))
        for start in range(0, end, size):
            yield self.take(np.arange(start, min(start + size, end)))


class StoredRows(Rows):
    """Pairs that stay in their arrays, also on disk; rows are scaled when a batch takes them."""

    def __init__(
        self,
        arrays: tuple[NDArray[np.float32], NDArray[np.float32]],
        scalers: tuple[Scaler | None, Scaler | None],
        index: NDArray[np.int64],
        labels: NDArray[Any] | None,
        codes: NDArray[np.int64] | None,
        gate: tuple[FloatArray, FloatArray] | None = None,
    ) -> None:
        object.__setattr__(self, "arrays", arrays)
        object.__setattr__(self, "scalers", scalers)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "context", None if codes is None else torch.from_numpy(codes[index]))
        own = None if gate is None else (torch.from_numpy(gate[0][index]), torch.from_numpy(gate[1][index]))
        object.__setattr__(self, "gate", own)

    arrays: tuple[NDArray[np.float32], NDArray[np.float32]]
    scalers: tuple[Scaler | None, Scaler | None]
    index: NDArray[np.int64]
    labels: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        own = self.index[index]
        labels = None if self.labels is None else self.labels[own]
        found = []
        for array, scaler in zip(self.arrays, self.scalers, strict=True):
            rows = array[own]
            found.append(torch.from_numpy(rows if scaler is None else scaler.transform(rows, labels)))
        return found[0], found[1]


@torch.no_grad()
def confidences(duo: Duo, rows: Rows, chunk: int = 1024) -> tuple[Tensor, Tensor]:
    """p_s and p_q of all rows, times the gates, (members, n, heads), float64, on the processor."""
    duo.eval()
    blocks = [duo(placed(s, duo.device), placed(q, duo.device)) for s, q in rows.blocks(chunk)]
    logit_s, logit_q = (torch.cat([block[i] for block in blocks], dim=1).double().cpu() for i in (0, 1))
    return gated(logit_s.sigmoid(), logit_q.sigmoid(), rows.gate)


@torch.no_grad()
def settle(duo: Duo, rows: Rows, limit: int) -> list[Tensor]:
    """Set the mean and variance of the heads to those of the first rows; returns the logits before the heads."""
    duo.eval()
    blocks = [
        (duo.net_s(placed(s, duo.device)), duo.net_q(placed(q, duo.device)))
        for s, q in rows.blocks(limit=limit)
    ]
    z = [torch.cat([block[i] for block in blocks], dim=1) for i in (0, 1)]
    for head, values in zip((duo.head_s, duo.head_q), z, strict=True):
        var, mean = torch.var_mean(values, dim=1, keepdim=True, correction=0)
        head.mean.copy_(mean)
        head.var.copy_(var)
    return z


@torch.no_grad()
def orient(
    duo: Duo,
    rows: Rows,
    objective: CoincidenceLoss,
    shifts: Sequence[float | None] = (None,),
    *,
    limit: int = 4096,
    least_gain: float = 0.03,
) -> int:
    """Flip the sign of heads that mark normal rows instead of anomalies; returns how many were changed.

    The networks coincide as well if both mark some of the *normal* rows and no anomalies, a worse optimum that
    gradient descent does not leave. For every member and β, the four combinations of signs are compared by
    their loss on training rows, each with several shifts: rare anomalies stand out from chance only if few rows
    are marked.
    """
    z = settle(duo, rows, limit)
    conditions = rows.conditions(slice(limit), duo.device)
    heads = (duo.head_s, duo.head_q)
    options = [
        (sign_s, sign_q, shift)
        for shift in shifts
        for sign_s, sign_q in ((1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0))
    ]
    losses = []
    for sign_s, sign_q, shift in options:
        logits = [
            (head.shift if shift is None else shift) + sign * (head(values) - head.shift)
            for head, values, sign in zip(heads, z, (sign_s, sign_q), strict=True)
        ]
        losses.append(objective.of_moments(objective.moments(logits[0], logits[1], *conditions)))
    stacked = torch.nan_to_num(torch.stack(losses), nan=math.inf)
    # Only if some coincidence is found: on noise, the lowest loss is that of marking nothing.
    found = (stacked.min(0).values < -least_gain) & (stacked[0] - stacked.min(0).values > least_gain)
    choice = torch.where(found, stacked.argmin(0), 0)
    for k, h in np.ndindex(choice.shape):
        *signs, shift = options[choice[k, h]]
        for head, sign in zip(heads, signs, strict=True):
            head.scale[k, 0, h] *= sign
            if shift is not None:
                head.shift[k, 0, h] = shift
    return int((choice != 0).sum())


def fingerprint(*sets: Rows) -> str:
    """A checksum of the rows, so that a checkpoint is only resumed with the same data."""
    digest = hashlib.sha256()
    for rows in sets:
        for s, q in rows.blocks(4096):
            for x in (s, q):
                digest.update(str(tuple(x.shape)).encode())
                digest.update(x.contiguous().numpy().tobytes())
        if rows.context is not None:
            digest.update(rows.context.numpy().tobytes())
        for one in rows.gate or ():
            digest.update(one.numpy().tobytes())
    return digest.hexdigest()
