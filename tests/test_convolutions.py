"""The stack of convolutions against PyTorch's own, and the thinned gradient against its expectation."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from coad._convolutions import convolve, thinned

CASES = {
    "image": ((2, 9, 11), 1, False),
    "image-channels-last": ((1, 9, 11), 1, True),
    "image-strided": ((3, 12, 12), 2, True),
    "wave": ((2, 30), 1, False),
    "wave-strided": ((1, 30), 3, False),
}


def make(name: str, members: int) -> tuple[Tensor, list[Tensor], list[Tensor], list]:
    shape, stride, channels_last = CASES[name]
    axes = len(shape) - 1
    generator = torch.Generator().manual_seed(3)

    def draw(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    weights = [draw(4 * members, shape[0], *(5,) * axes), draw(6 * members, 4, *(3,) * axes)]
    biases = [draw(4 * members), draw(6 * members)]
    steps = [((stride,) * axes, (2,) * axes, 1), ((1,) * axes, (0,) * axes, members)]
    x = draw(7, *shape)
    if channels_last:
        x, *weights = (v.contiguous(memory_format=torch.channels_last) for v in (x, *weights))
    return x, weights, biases, steps


def plain(x: Tensor, weights: list[Tensor], biases: list[Tensor], steps: list) -> Tensor:
    convolution = F.conv1d if x.ndim == 3 else F.conv2d
    for weight, bias, (stride, padding, groups) in zip(weights, biases, steps, strict=True):
        x = F.relu(convolution(x, weight, bias, stride, padding, groups=groups))
    return x


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("rows", ["all", "some", "none"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_plain_convolutions(name: str, rows: str, members: int) -> None:
    x, weights, biases, steps = make(name, members)
    wanted = [*weights, *biases]
    for value in wanted:
        value.requires_grad_()
    expected = plain(x, weights, biases, steps)
    gradient = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    kept = {"all": range(7), "some": (1, 4), "none": ()}[rows]
    gradient *= torch.tensor([float(i in kept) for i in range(7)]).reshape(7, *(1,) * (x.ndim - 1))
    found = convolve(x, weights, biases, steps)
    assert torch.allclose(found, expected, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad(found, wanted, gradient),
        torch.autograd.grad(expected, wanted, gradient),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_reaches_the_input_where_it_is_asked_for(name: str) -> None:
    x, weights, biases, steps = make(name, 1)
    x.requires_grad_()
    gradient = torch.zeros_like(plain(x, weights, biases, steps))
    gradient[2] = 1.0
    (found,) = torch.autograd.grad(convolve(x, weights, biases, steps), x, gradient)
    (expected,) = torch.autograd.grad(plain(x, weights, biases, steps), x, gradient)
    assert torch.allclose(found, expected, atol=1e-10)
    assert found[2].abs().sum() > 0


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
