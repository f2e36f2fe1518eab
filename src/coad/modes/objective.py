"""The loss of two K-way networks: how much their joint table holds beyond chance.

``P_kl = E[a_k(s) b_l(q)]`` is a table of moments, additive like those of the binary method. Two
readings of it are used. The mutual information grows with every factor that both inputs share,
from the first step on. The contingency ``Σ P_kl² / E_kl`` (χ² + 1, E the table of chance) counts
modes: one that both inputs tell apart without error adds 1, *whatever its size*, so a rare mode
weighs as much as a common one, and a blurred cut through a continuum weighs little.

How this relates to F̂. Each mode has its own J, mu_s and mu_q, and with c = J - mu_s mu_q

    TP = c (1 - J) / ((1 - mu_s)(1 - mu_q))         (the numerator of F̂ for every β)
    χ² = c² / (mu_s (1 - mu_s) mu_q (1 - mu_q))     (K = 2, votes of 0 or 1)

so both are 0 exactly where the inputs are independent, and both are largest where J = mu_s = mu_q:
then TP = J, P̂ = 1, χ² = 1, and F̂ = 1 for α = J and every β. A mode's own term in the contingency is
``(J / mu_s)(J / mu_q)``, the parts of s's and of q's votes that the other confirms. ``floor`` plays
the part of α in F̂'s denominator: a mode much smaller than it is not worth having, which keeps
single rows from becoming modes.
"""

from __future__ import annotations

from torch import Tensor

#: The part of the run in which the mutual information still has a say.
_LEAD = 0.1

__all__ = ["chance_table", "contingency", "joint_table", "mutual_information", "table_loss"]


def joint_table(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    """P_kl of each member: ``a`` and ``b`` are (members, n, K), ``weight`` is (members, n).

    >>> import torch
    >>> a = torch.eye(2)[[0, 0, 1]][None]
    >>> joint_table(a, a, torch.ones(1, 3))[0].diagonal().tolist()
    [0.6666666865348816, 0.3333333432674408]
    """
    total = weight.sum(1).clamp_min(1.0)[:, None, None]
    return (a * weight[..., None]).transpose(1, 2) @ b / total


def chance_table(a: Tensor, b: Tensor, weight: Tensor, context: Tensor | None = None) -> Tensor:
    """What P would be if the inputs were independent within each context stratum."""
    wa, wb = a * weight[..., None], b * weight[..., None]
    total = weight.sum(1).clamp_min(1.0)[:, None, None]
    if context is None:
        return (wa.sum(1)[:, :, None] / total) * (wb.sum(1)[:, None, :] / total)
    strata = int(context.max()) + 1
    shape = (a.shape[0], strata, a.shape[2])
    sum_a, sum_b = (a.new_zeros(shape).index_add(1, context, x) for x in (wa, wb))
    size = weight.new_zeros(shape[:2]).index_add(1, context, weight).clamp_min(1.0)
    return (sum_a / size[..., None]).transpose(1, 2) @ sum_b / total


def mutual_information(table: Tensor, chance: Tensor) -> Tensor:
    """Σ P ln(P / E) of each member, in nats.

    >>> import torch
    >>> p = torch.tensor([[[0.5, 0.0], [0.0, 0.5]]])
    >>> round(mutual_information(p, torch.full((1, 2, 2), 0.25)).item(), 4)
    0.6931
    """
    p, e = table.clamp_min(1e-9), chance.clamp_min(1e-9)
    return (p * (p.log() - e.log())).sum((-2, -1))


def contingency(table: Tensor, chance: Tensor, floor: float) -> Tensor:
    """Σ P² / E of each member: the number of modes that both inputs tell apart.

    >>> import torch
    >>> p = torch.diag(torch.tensor([0.9, 0.07, 0.03]))[None]
    >>> e = p.sum(2)[:, :, None] * p.sum(1)[:, None, :]
    >>> round(contingency(p, e, 0.0).item(), 3)
    3.0
    """
    rows, columns = table.sum(-1, keepdim=True), table.sum(-2, keepdim=True)
    return (table.square() / (chance + floor * (rows + columns) + floor * floor + 1e-12)).sum((-2, -1))


def table_loss(
    a: Tensor, b: Tensor, weight: Tensor, context: Tensor | None, *, floor: float, done: float
) -> Tensor:
    """Minus what the tables hold; the information leads at the start, the count of modes at the end."""
    table, chance = joint_table(a, b, weight), chance_table(a, b, weight, context)
    lead = max(0.0, 1.0 - done / _LEAD)
    value = (1.0 - lead) * contingency(table, chance, floor)
    if lead > 0.0:
        value = value + lead * mutual_information(table, chance)
    return -value.sum()
