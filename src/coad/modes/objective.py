"""The objective of two K-way networks: the mutual information of their joint table.

``P_kl = E[a_k(s) b_l(q)]`` is a table of moments, additive like those of the binary method. Its mutual information
``Σ P ln(P / E)``, where E is the table expected by chance, grows with every factor that both inputs share; a split that
only one input can see adds nothing. No term asks for modes of equal size.

Relation to F̂: each mode has its own J, mu_s and mu_q, and with c = J - mu_s mu_q

    TP = c (1 - J) / ((1 - mu_s)(1 - mu_q))         (the numerator of F̂ for every β)
    I  = c² / (2 mu_s (1 - mu_s) mu_q (1 - mu_q))   (K = 2, to second order in c)

so both are 0 exactly if the inputs are independent, and largest, for a given size, if J = mu_s = mu_q: then TP = J,
P̂ = 1, I is the entropy of the mode, and F̂ = 1 for α = J and every β.
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["chance_table", "joint_table", "mutual_information", "table_loss"]


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
    """E_kl of each member: P if the inputs were independent within each context stratum."""
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
    p, e = table.clamp_min(1e-12), chance.clamp_min(1e-12)
    return (p * (p.log() - e.log())).sum((-2, -1))


def table_loss(a: Tensor, b: Tensor, weight: Tensor, context: Tensor | None) -> Tensor:
    """Minus the sum of the mutual information over members."""
    return -mutual_information(joint_table(a, b, weight), chance_table(a, b, weight, context)).sum()
