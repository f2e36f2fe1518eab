"""Rows that the backward pass may leave out.

Most of a training step is the backward pass, and in coincident learning most rows have next
to nothing to say in it: their confidences are settled. :func:`thinned` keeps a part of the
rows, drawn so that the gradient stays right in expectation.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["thinned"]


@torch.no_grad()
def thinned(gradient: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """``gradient`` (members, n, heads) with the rows that add little to it set to 0, at random.

    A row is kept with a probability proportional to the size of its gradient (1 at most) and
    divided by it, so the expectation is the gradient that was given. As many are kept as are
    needed for the draw to add no more than ``noise`` times the variance that the batch, itself
    a draw of rows, has already. The draw is systematic: one uniform number, equal steps along
    the cumulated probabilities.

    >>> g = torch.tensor([[[3.0], [0.1], [0.1], [0.1], [0.1]]])
    >>> [round(x, 3) for x in thinned(g, 0.01, torch.Generator().manual_seed(2)).flatten().tolist()]
    [3.0, 0.326, 0.0, 0.0, 0.326]
    """
    size = gradient.double().square().sum((0, 2)).sqrt()
    bearable = noise * size.square().sum()
    if not bool(torch.isfinite(size).all()) or bearable <= 0:
        return gradient
    # Added variance: Σ size² (1/chance − 1); it falls as the probabilities grow.
    low, high = 0.0, 1.0 / float(size[size > 0].min())
    for _ in range(30):
        rate = 0.5 * (low + high)
        chance = (rate * size).clamp(1e-300, 1.0)
        if (size.square() * (1.0 / chance - 1.0)).sum() > bearable:
            low = rate
        else:
            high = rate
    chance = (high * size).clamp(max=1.0)
    ends = chance.cumsum(0) + torch.rand((), generator=generator, dtype=torch.float64)
    kept = (ends.floor() > (ends - chance).floor()) | (chance >= 1.0)
    weight = torch.where(kept, 1.0 / chance.clamp_min(1e-300), 0.0).to(gradient.dtype)
    return gradient * weight[None, :, None]
