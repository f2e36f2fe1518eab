"""The thinned gradient against its expectation."""

import pytest
import torch

from coad.learned.training.thinning import thinned


def test_a_thinned_gradient_is_right_in_expectation() -> None:
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(2, 60, 3, generator=generator)
    gradient *= torch.rand(60, generator=generator)[None, :, None] ** 4
    size = gradient.square().sum((0, 2))
    draws = torch.stack([thinned(gradient, 0.5, generator) for _ in range(4000)])
    kept = draws.ne(0).any(3).any(1).double().mean(1)
    assert 0.05 < kept.mean() < 0.6
    # The added variance is what was allowed, and the mean is off by no more than it explains.
    variance = float((draws - gradient).square().sum((1, 2, 3)).mean())
    assert variance == pytest.approx(0.5 * float(size.sum()), rel=0.1)
    assert float((draws.mean(0) - gradient).square().sum()) < 2 * variance / 4000


def test_a_gradient_of_nothing_stays_nothing() -> None:
    assert not thinned(torch.zeros(1, 10, 1), 0.5, torch.Generator().manual_seed(0)).any()
