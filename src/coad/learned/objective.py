"""The loss: −F̂β plus a penalty (the wall) that keeps mu_s and mu_q below one half.

:class:`CoincidenceLoss` can be used in any training loop. It takes logits, because confidences of exactly 0 or 1
have no gradient, and sums in float64.

The loss depends on the data only through the moments. So a batch that is too large for memory, or spread over
processes, has an exact gradient in two passes: the first adds up :meth:`CoincidenceLoss.moments` without gradient, the
second calls :meth:`CoincidenceLoss.partial` on each chunk with the moments of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from coad.core.metric import fbeta_of, true_positive_fraction
from coad.core.moments import Moments
from coad.core.validation import check_betas, check_rate
from coad.exceptions import InputError

__all__ = ["CoincidenceLoss", "Gate", "gated", "soft_fbeta", "sum_moments"]

Preset = Literal["robust", "paper"]
#: What the confidences of s and of q are multiplied by, in [0, 1], one number per row and input.
Gate = tuple[Tensor, Tensor]

#: Beyond this a float64 sigmoid is exactly 1; the clamp also avoids denormal products.
_LOGIT_LIMIT = 50.0
_WALL_TEMPERATURE = 50.0
_WALL_START = 0.45


class CoincidenceLoss(nn.Module):
    """−F̂β of a batch, plus the wall and the magnitude term.

    Parameters
    ----------
    beta
        One β, or several: then the logits have one column per β and the losses are summed.
    alpha
        The anomaly rate.
    preset
        "robust": a hinge wall that is 0 while mu_s and mu_q are below 0.45, and TP capped at α, so that flagging
        more than α does not lower the loss. "paper": the paper's sigmoid wall (temperature 50), no cap.
    lambda_wall
        Weight of the wall, 4/α (robust) or 1/α (paper) if not given.
    lambda_mag
        Weight of the mean squared logits.
    cap
        Whether TP is capped at α, if other than the preset's.
    margin
        c/√n subtracts c standard deviations of a chance coincidence among n rows from TP, against overfitting
        of small data sets.

    >>> import torch
    >>> loss = CoincidenceLoss(beta=1.0, alpha=0.25)
    >>> agree = torch.tensor([9.0, -9.0, -9.0, -9.0])
    >>> round(float(loss(agree, agree)), 2)
    -1.0
    >>> round(float(loss(agree, agree.flip(0))), 2)
    0.89
    """

    def __init__(
        self,
        beta: float | Sequence[float] = 1.0,
        alpha: float | Tensor = 0.1,
        *,
        preset: Preset = "robust",
        lambda_wall: float | None = None,
        lambda_mag: float = 0.0,
        cap: bool | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__()
        if preset not in ("robust", "paper"):
            raise InputError(f"preset must be 'robust' or 'paper', not {preset!r}")
        if lambda_mag < 0 or (lambda_wall is not None and lambda_wall < 0):
            raise InputError("lambda_wall and lambda_mag must be 0 or more")
        self.beta = check_betas(beta)
        self.preset: Preset = preset
        self.lambda_wall = lambda_wall
        self.lambda_mag = float(lambda_mag)
        self.margin = float(margin)
        self.cap = preset == "robust" if cap is None else bool(cap)
        self.alpha: Tensor
        self.register_buffer("alpha", torch.as_tensor(0.1, dtype=torch.float64), persistent=False)
        self.set_alpha(alpha)

    def set_alpha(self, alpha: float | Tensor, ceiling: float | Tensor | None = None) -> None:
        """Change the anomaly rate.

        Parameters
        ----------
        alpha
            A number, or a tensor with one rate per model.
        ceiling
            What TP is capped at, α if not given.
        """
        value = torch.as_tensor(alpha, dtype=torch.float64)
        for rate in value.flatten().tolist():
            check_rate(rate)
        where = self.alpha.device
        self.alpha = value.to(where)
        self.ceiling = (
            self.alpha if ceiling is None else torch.as_tensor(ceiling, dtype=torch.float64).to(where)
        )

    def forward(
        self, logit_s: Tensor, logit_q: Tensor, context: Any = None, gate: Gate | None = None
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        logit_s, logit_q
            Shape (n,), (n, 1), (n, number of β), or (models, n, number of β) for several models, whose losses are
            summed.
        context
            The stratum of each row.
        gate
            What p_s and p_q of each row are multiplied by, two tensors of shape (n,).

        Returns
        -------
        Tensor
            A scalar.
        """
        return self.of_moments(self.moments(logit_s, logit_q, context, gate)).sum() + self._magnitude(
            logit_s, logit_q, _rows(logit_s)
        )

    def moments(
        self, logit_s: Tensor, logit_q: Tensor, context: Any = None, gate: Gate | None = None
    ) -> Moments:
        """The moments of a batch or a chunk of one; chunks are added with ``+``.

        Parameters
        ----------
        logit_s, logit_q, context, gate
            As in :meth:`forward`.

        Returns
        -------
        Moments
        """
        p_s, p_q = _confidence(logit_s, len(self.beta)), _confidence(logit_q, len(self.beta))
        if p_s.shape != p_q.shape:
            raise InputError(
                f"the logits of s have shape {tuple(logit_s.shape)} and those of q "
                f"{tuple(logit_q.shape)}; they must match"
            )
        return sum_moments(*gated(p_s, p_q, gate), context)

    def of_moments(self, moments: Moments) -> Tensor:
        """−F̂β plus the wall for each model and β; the magnitude term does not depend on the moments.

        Parameters
        ----------
        moments
            Of a whole batch.

        Returns
        -------
        Tensor
            Shape (models, number of β).
        """
        value = soft_fbeta(
            moments, self.beta, self.alpha, cap=self.ceiling if self.cap else None, margin=self.margin
        )
        return self._wall(moments) - value

    def partial(
        self,
        logit_s: Tensor,
        logit_q: Tensor,
        whole: Moments,
        context: Any = None,
        gate: Gate | None = None,
    ) -> Tensor:
        """A scalar whose gradient, summed over the chunks of a batch, is that of the loss of the batch.

        The gradient is Σ ∂L/∂(sum)·∂(sum), the paper's pseudo-target c1·p_q − c2. The value has no meaning.

        Parameters
        ----------
        logit_s, logit_q, context, gate
            One chunk, as in :meth:`forward`.
        whole
            The moments of the whole batch, computed without gradient.

        Returns
        -------
        Tensor
            A scalar.
        """
        sums = [x.detach().clone().requires_grad_(True) for x in (whole.sum_s, whole.sum_q, whole.sum_sq)]
        loss = self.of_moments(Moments(whole.n, sums[0], sums[1], sums[2], whole.strata)).sum()
        weights = torch.autograd.grad(loss, sums)
        own = self.moments(logit_s, logit_q, context, gate)
        if whole.strata is not None:
            zero = torch.zeros_like(sums[0])
            own = Moments(torch.zeros_like(whole.n), zero, zero, zero, whole.strata) + own
        linear = sum(
            ((w * x).sum() for w, x in zip(weights, (own.sum_s, own.sum_q, own.sum_sq), strict=True)),
            torch.zeros((), dtype=torch.float64),
        )
        return linear + self._magnitude(logit_s, logit_q, float(whole.pooled().n))

    def _wall(self, moments: Moments) -> Tensor:
        strength: Any = self.lambda_wall
        if strength is None:
            strength = (1.0 if self.preset == "paper" else 4.0) / self.ceiling
        wall: Any = 0.0
        for mu in (moments.mu_s, moments.mu_q):
            if self.preset == "paper":
                wall = wall + mu * torch.sigmoid(_WALL_TEMPERATURE * (mu - 0.5))
            else:
                wall = wall + torch.relu(mu - _WALL_START)
        out: Tensor = strength * wall
        return out

    def _magnitude(self, logit_s: Tensor, logit_q: Tensor, n: float) -> Tensor:
        if self.lambda_mag == 0.0:
            return torch.zeros((), dtype=torch.float64)
        squares = [x.double().clamp(-1e6, 1e6).square().sum() for x in (logit_s, logit_q)]
        return self.lambda_mag * (squares[0] + squares[1]) / max(n, 1.0)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, preset={self.preset!r}, cap={self.cap}"


def soft_fbeta(
    moments: Moments,
    beta: Sequence[float],
    alpha: float | Tensor,
    *,
    cap: float | Tensor | None = None,
    margin: float = 0.0,
) -> Tensor:
    """F̂β of torch moments whose last axis is β.

    Parameters
    ----------
    moments
        Sums of shape (models, number of β).
    beta, alpha
        One β per column; one α, or one per model and β.
    cap, margin
        ``margin``·√(var_s·var_q) is subtracted from TP, which is then capped at ``cap``.

    Returns
    -------
    Tensor
        Shape (models, number of β).

    >>> import torch
    >>> p = torch.tensor([1.0, 0, 0, 0]).reshape(1, 4, 1).expand(1, 4, 2)
    >>> soft_fbeta(sum_moments(p, p), (0.0, float("inf")), 0.5).tolist()
    [[1.0, 0.5]]
    """
    true_positives: Tensor = true_positive_fraction(moments)
    if margin > 0:
        mu_s, mu_q = moments.mu_s, moments.mu_q
        spread = mu_s * (1.0 - mu_s) * mu_q * (1.0 - mu_q)
        true_positives = true_positives - margin * spread.clamp(min=1e-30).sqrt()
    if cap is not None:
        true_positives = torch.minimum(true_positives, torch.as_tensor(cap, dtype=torch.float64))
    value: Tensor = fbeta_of(
        true_positives, moments.mu_sq, tuple(beta), torch.as_tensor(alpha, dtype=torch.float64)
    )
    return value


def gated(p_s: Tensor, p_q: Tensor, gate: Gate | None) -> tuple[Tensor, Tensor]:
    """Confidences of shape (models, n, β), each input's multiplied by its own gate.

    >>> p = torch.full((1, 2, 1), 0.5)
    >>> gated(p, p, (torch.tensor([1.0, 0.0]), torch.ones(2)))[0].flatten().tolist()
    [0.5, 0.0]
    """
    if gate is None:
        return p_s, p_q
    return p_s * gate[0][:, None], p_q * gate[1][:, None]


def sum_moments(p_s: Tensor, p_q: Tensor, context: Any = None) -> Moments:
    """Moments of confidences of shape (models, n, β), summed over n; strata are the last axis."""
    p_s, p_q = p_s.double(), p_q.double()
    if context is None:
        return Moments(float(p_s.shape[1]), p_s.sum(1), p_q.sum(1), (p_s * p_q).sum(1))
    labels = torch.as_tensor(context)
    if labels.shape != (p_s.shape[1],):
        raise InputError(f"context has shape {tuple(labels.shape)}, but there are {p_s.shape[1]:,} rows")
    strata, code = torch.unique(labels, return_inverse=True)
    member = torch.nn.functional.one_hot(code, len(strata)).double()
    one = torch.ones(1, p_s.shape[1], 1, dtype=torch.float64, device=p_s.device)
    n, sum_s, sum_q, sum_sq = (torch.einsum("knh,nc->khc", x, member) for x in (one, p_s, p_q, p_s * p_q))
    return Moments(n, sum_s, sum_q, sum_sq, tuple(strata.tolist()))


def _confidence(logit: Tensor, columns: int) -> Tensor:
    """Sigmoid in float64, of shape (models, n, β)."""
    shaped = logit
    if logit.ndim == 1 and columns == 1:
        shaped = logit.reshape(1, -1, 1)
    elif logit.ndim == 2:
        shaped = logit.unsqueeze(0)
    if shaped.ndim != 3 or shaped.shape[-1] != columns:
        wanted = "(n,) or (n, 1)" if columns == 1 else f"(n, {columns}): one logit per beta"
        raise InputError(f"the logits have shape {tuple(logit.shape)}; expected {wanted}")
    return shaped.double().clamp(-_LOGIT_LIMIT, _LOGIT_LIMIT).sigmoid()


def _rows(logit: Tensor) -> float:
    return float(logit.shape[0] if logit.ndim < 3 else logit.shape[1])
