"""The metric: formulas, merging, strata, and a defined value for every degenerate case."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coad.core import metric
from coad.core.moments import Moments
from coad.exceptions import InputError, UndefinedMetricWarning

flags = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2)), min_size=2, max_size=60)
BETAS = [0, 0.05, 1, 10, math.inf]


def quiet(function, *args, **kwargs):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return function(*args, **kwargs)


@given(flags, st.sampled_from(BETAS), st.floats(0.01, 0.5), st.booleans(), st.booleans())
def test_fbeta_hat_agrees_with_the_slow_reference(rows, beta, alpha, naive_rate, stratified):
    s, q, c = (np.array(column) for column in zip(*rows, strict=True))
    context = c if stratified else None
    ours = quiet(metric.fbeta_hat, quiet(Moments.of, s, q, context), beta=beta, alpha=alpha, naive=naive_rate)
    slow = naive.fbeta(s, q, beta=beta, alpha=alpha, context=context, naive=naive_rate)
    assert ours == pytest.approx(slow, abs=1e-12)


@given(flags, st.integers(1, 59))
def test_moments_of_parts_add_up_to_those_of_the_whole(rows, cut):
    s, q, c = (np.array(column) for column in zip(*rows, strict=True))
    whole = Moments.of(s, q, c)
    parts = Moments.of(s[:cut], q[:cut], c[:cut]) + Moments.of(s[cut:], q[cut:], c[cut:])
    for stratum, label in enumerate(whole.strata):
        place = parts.strata.index(label)
        for name in ("n", "sum_s", "sum_q", "sum_sq"):
            assert getattr(whole, name)[stratum] == getattr(parts, name)[place]


def test_one_stratum_is_the_papers_method():
    rng = np.random.default_rng(0)
    s, q = rng.random((2, 50)) < 0.3
    plain = metric.fbeta_hat(Moments.of(s, q), beta=1, alpha=0.1)
    assert metric.fbeta_hat(Moments.of(s, q, np.zeros(50)), beta=1, alpha=0.1) == pytest.approx(plain)


def test_the_paper_formula_holds_for_continuous_confidences():
    rng = np.random.default_rng(1)
    p_s, p_q = rng.random((2, 200)) * 0.8
    m_s, m_q, m = p_s.mean(), p_q.mean(), (p_s * p_q).mean()
    expected = 2 * (m - m_s * m_q) / (m + 0.05) * (1 - m) / ((1 - m_s) * (1 - m_q))
    assert metric.fbeta_hat(Moments.of(p_s, p_q), beta=1, alpha=0.05) == pytest.approx(expected, abs=1e-14)


def test_beta_zero_is_precision_and_beta_inf_is_recall():
    moments = Moments.of([1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0])
    assert metric.precision_hat(moments) == metric.fbeta_hat(moments, beta=0)
    assert metric.recall_hat(moments, alpha=0.2) == metric.fbeta_hat(moments, beta=math.inf, alpha=0.2)
    close = metric.fbeta_hat(moments, beta=1e6, alpha=0.2)
    assert close == pytest.approx(metric.recall_hat(moments, alpha=0.2), rel=1e-9)


def test_the_cap_keeps_recall_at_or_below_one():
    moments = Moments.of([1] * 4 + [0] * 6, [1] * 4 + [0] * 6)
    assert metric.recall_hat(moments, alpha=0.1) > 1
    assert metric.recall_hat(moments, alpha=0.1, cap=True) == 1
    assert metric.fbeta_hat(moments, beta=1, alpha=0.1, cap=True) <= 1


@pytest.mark.parametrize(
    ("s", "q", "context"),
    [
        ([], [], None),
        ([1], [1], None),
        ([0], [0], None),
        ([0, 0, 0], [0, 0, 0], None),
        ([1, 1, 1], [1, 1, 1], None),
        ([1, 1, 1], [0, 1, 0], None),
        ([1, 0, 1], [1, 0, 1], [0, 1, 2]),
        ([1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]),
    ],
)
@pytest.mark.parametrize("beta", BETAS)
def test_degenerate_moments_have_a_value_and_never_nan(s, q, context, beta):
    moments = quiet(Moments.of, s, q, context)
    for value in (
        quiet(metric.fbeta_hat, moments, beta=beta, alpha=0.1),
        quiet(metric.false_positive_fraction, moments),
        quiet(metric.naive_false_positive_fraction, moments),
    ):
        assert np.isfinite(value)


def test_an_input_that_flags_everything_proves_nothing_and_says_so():
    with pytest.warns(UndefinedMetricWarning, match="every row is flagged"):
        assert metric.true_positive_fraction(Moments.of([1, 1, 1], [0, 1, 1])) == 0


def test_no_joint_event_is_announced():
    with pytest.warns(UndefinedMetricWarning, match="no joint event"):
        assert metric.precision_hat(Moments.of([1, 0, 0], [0, 1, 0])) == 0


def test_arrays_of_moments_are_handled_at_once():
    many = Moments(np.array([10.0, 10.0]), np.array([2.0, 4.0]), np.array([3.0, 3.0]), np.array([2.0, 1.0]))
    one_by_one = [Moments(10.0, 2.0, 3.0, 2.0), Moments(10.0, 4.0, 3.0, 1.0)]
    together = metric.fbeta_hat(many, beta=1, alpha=0.1)
    assert together.tolist() == [metric.fbeta_hat(one, beta=1, alpha=0.1) for one in one_by_one]


@pytest.mark.parametrize("context", [None, [0, 0, 0, 1, 1, 1]])
def test_torch_tensors_give_the_same_value_and_a_finite_gradient(context):
    torch = pytest.importorskip("torch")
    p_s, p_q = [0.9, 0.1, 0.0, 0.8, 0.2, 1.0], [0.7, 0.2, 0.1, 1.0, 0.0, 0.6]
    tensor = torch.tensor(p_s, requires_grad=True)
    value = metric.fbeta_hat(Moments.of(tensor, torch.tensor(p_q), context), beta=1, alpha=0.2, cap=True)
    plain = metric.fbeta_hat(Moments.of(p_s, p_q, context), beta=1, alpha=0.2, cap=True)
    assert value.item() == pytest.approx(plain, abs=1e-6)
    value.backward()
    assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Moments.of([0.5, 2.0], [0, 0]), "must lie in"),
        (lambda: Moments.of([0.5, math.nan], [0, 0]), "must lie in"),
        (lambda: Moments.of([0, 1], [1]), "must match row by row"),
        (lambda: Moments.of([[0, 1]], [[0, 1]]), "one-dimensional"),
        (lambda: Moments.of([0, 1], [0, 1], [1]), "context has shape"),
        (lambda: Moments.of([0], [0], [1]) + Moments.of([0], [0]), "with and without"),
        (lambda: metric.fbeta_hat(Moments.of([0, 1], [0, 1]), beta=-1, alpha=0.1), "beta must be"),
        (lambda: metric.fbeta_hat(Moments.of([0, 1], [0, 1]), beta=1), "alpha"),
        (lambda: metric.fbeta_hat(Moments.of([0, 1], [0, 1]), beta=1, alpha=0.6), "alpha"),
    ],
)
def test_bad_input_is_refused_with_a_reason(call, message):
    with pytest.raises(InputError, match=message):
        call()
