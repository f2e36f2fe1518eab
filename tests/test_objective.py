from __future__ import annotations

import math

import pytest
import torch
from naive_learn import naive_loss

from coad.core.metric import fbeta_hat
from coad.core.moments import Moments
from coad.exceptions import InputError
from coad.learned.objective import CoincidenceLoss, soft_fbeta, sum_moments


def logits(n: int = 200, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(n, generator=generator)
    s = common + torch.randn(n, generator=generator) - 1
    q = common + torch.randn(n, generator=generator) - 1
    return s.double(), q.double()


@pytest.mark.parametrize("preset", ["paper", "robust"])
@pytest.mark.parametrize("beta", [0.0, 0.05, 1.0, math.inf])
@pytest.mark.parametrize("alpha", [0.02, 0.3])
def test_loss_and_gradient_are_those_of_the_formula(preset, beta, alpha):
    s, q = (x.requires_grad_(True) for x in logits())
    loss = CoincidenceLoss(beta, alpha, preset=preset, lambda_wall=3.0, lambda_mag=0.01)
    expected = naive_loss(s, q, beta, alpha, preset=preset, wall=3.0, mag=0.01)
    value = loss(s, q)
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    for got, want in zip(
        torch.autograd.grad(value, (s, q)), torch.autograd.grad(expected, (s, q)), strict=True
    ):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-9)


def test_default_wall_is_zero_below_its_start_and_the_papers_is_not():
    s, q = logits()
    for preset, free in (("robust", True), ("paper", False)):
        with_wall = CoincidenceLoss(1.0, 0.3, preset=preset)(s, q)
        without = CoincidenceLoss(1.0, 0.3, preset=preset, lambda_wall=0.0)(s, q)
        assert (with_wall == without).item() is free


@pytest.mark.parametrize("beta", [0.0, 0.5, math.inf])
def test_soft_fbeta_agrees_with_the_metric(beta):
    p_s, p_q = (torch.sigmoid(x) for x in logits())
    got = soft_fbeta(sum_moments(p_s.reshape(1, -1, 1), p_q.reshape(1, -1, 1)), (beta,), 0.1)
    assert got.item() == pytest.approx(
        float(fbeta_hat(Moments.of(p_s, p_q), beta=beta, alpha=0.1)), abs=1e-12
    )


def test_strata_give_the_metrics_value_within_contexts():
    p_s, p_q = (torch.sigmoid(x) for x in logits())
    context = torch.arange(200) % 3
    got = soft_fbeta(sum_moments(p_s.reshape(1, -1, 1), p_q.reshape(1, -1, 1), context), (1.0,), 0.1)
    want = fbeta_hat(Moments.of(p_s.numpy(), p_q.numpy(), context.numpy()), beta=1.0, alpha=0.1)
    assert got.item() == pytest.approx(float(want), abs=1e-12)


@pytest.mark.parametrize("strata", [1, 4])
def test_gradient_of_parts_is_that_of_the_whole_batch(strata):
    s, q = (x.float().requires_grad_(True) for x in logits(1000))
    # Sorted by context, so that a part misses strata that the whole has.
    context = torch.sort(torch.arange(1000) % strata).values if strata > 1 else None
    loss = CoincidenceLoss(1.0, 0.1, lambda_mag=0.01)
    whole = torch.autograd.grad(loss(s, q, context), (s, q))
    parts = [slice(i, i + 130) for i in range(0, 1000, 130)]

    def labels(part):
        return None if context is None else context[part]

    with torch.no_grad():
        moments = None
        for part in parts:
            own = loss.moments(s[part], q[part], labels(part))
            moments = own if moments is None else moments + own
    total = sum(loss.partial(s[part], q[part], moments, labels(part)) for part in parts)
    for got, want in zip(torch.autograd.grad(total, (s, q)), whole, strict=True):
        torch.testing.assert_close(got, want, atol=1e-6 * float(want.abs().max()), rtol=0)


@pytest.mark.parametrize("preset", ["paper", "robust"])
@pytest.mark.parametrize("beta", [0.0, 0.05, 1.0, math.inf])
@pytest.mark.parametrize(
    ("s", "q"),
    [
        ([math.inf] * 4, [math.inf] * 4),
        ([-math.inf] * 4, [-math.inf] * 4),
        ([-200.0] * 4, [-200.0] * 4),
        ([200.0, -200.0, -200.0, -200.0], [-200.0, 200.0, -200.0, -200.0]),
        ([200.0, -200.0, 0.0, -3.0], [200.0, -200.0, -200.0, 1e30]),
        ([0.0], [0.0]),
    ],
)
def test_gradient_is_finite_at_certainty_and_without_joint_events(preset, beta, s, q):
    s, q = (torch.tensor(x, requires_grad=True) for x in (s, q))
    loss = CoincidenceLoss(beta, 0.1, preset=preset, margin=0.1, lambda_mag=1e-4)(s, q)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(s.grad).all()
    assert torch.isfinite(q.grad).all()


def test_margin_takes_chance_off_the_value():
    s, q = logits()
    assert CoincidenceLoss(1.0, 0.3, margin=0.1)(s, q) > CoincidenceLoss(1.0, 0.3)(s, q)


def test_several_beta_are_summed_column_by_column():
    s, q = logits()
    both = CoincidenceLoss([0.5, math.inf], 0.2)(torch.stack([s, q], 1), torch.stack([q, q], 1))
    alone = CoincidenceLoss(0.5, 0.2)(s, q) + CoincidenceLoss(math.inf, 0.2)(q, q)
    assert both.item() == pytest.approx(alone.item())


def test_bad_settings_and_shapes_are_refused():
    for bad in (
        {"beta": -1.0},
        {"beta": []},
        {"alpha": 0.0},
        {"alpha": 0.7},
        {"preset": "x"},
        {"lambda_mag": -1},
    ):
        with pytest.raises(InputError):
            CoincidenceLoss(**bad)
    with pytest.raises(InputError, match=r"one logit|expected"):
        CoincidenceLoss()(torch.zeros(5, 2), torch.zeros(5, 2))
    with pytest.raises(InputError, match="match"):
        CoincidenceLoss()(torch.zeros(5), torch.zeros(4))
    with pytest.raises(InputError, match="context"):
        CoincidenceLoss()(torch.zeros(5), torch.zeros(5), torch.zeros(4))
