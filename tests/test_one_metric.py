"""The metric has one home, coad.core.metric; everything that restates or wraps it is held against it here."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest

from coad.core import metric
from coad.core.grid import ThresholdGrid
from coad.core.inference import fbeta_of_rows
from coad.core.moments import Moments
from coad.core.search import PairSearch, search_rule, stratum_kinds
from coad.core.search_kernels import evaluate
from coad.core.theory import pseudo_target_constants

pytestmark = pytest.mark.filterwarnings("ignore::coad.exceptions.UndefinedMetricWarning")

BETAS = [0.0, 1e-9, 0.05, 1.0, 10.0, 1e9, 1e200, math.inf]
ALPHA = 0.1

#: Rows, rows flagged by s, by q, and by both: nothing flagged, all flagged, agreement, contradiction, a single row.
EDGES = [
    (10, 0, 0, 0),
    (10, 10, 3, 3),
    (10, 10, 10, 10),
    (10, 5, 5, 5),
    (10, 5, 5, 0),
    (10, 5, 2, 1),
    (1, 1, 1, 1),
    (2, 1, 1, 1),
    (10_000_000, 7, 9, 5),
]


def counts():
    """The edge cases, and random 2 × 2 tables."""
    rng = np.random.default_rng(0)
    cases = list(EDGES)
    for _ in range(200):
        n = int(rng.integers(2, 400))
        table = rng.multinomial(n, rng.dirichlet([0.3, 0.5, 0.5, 2.0]))
        cases.append((n, int(table[0] + table[1]), int(table[0] + table[2]), int(table[0])))
    return cases


def flags(n, a, b, joint):
    """0/1 flags with those counts."""
    s, q = np.zeros(n), np.zeros(n)
    s[:a] = 1
    q[:joint] = 1
    q[a : a + b - joint] = 1
    return s, q


def value(moments, beta, naive_rate=False, rho=0.0):
    return float(metric.fbeta_hat(moments, beta=beta, alpha=ALPHA, naive=naive_rate, correlation=rho))


@pytest.mark.parametrize("beta", [beta for beta in BETAS if beta < 1e100 or math.isinf(beta)])
def test_the_metric_is_the_slow_reference(beta):
    for n, a, b, joint in counts():
        if n > 1000:
            continue
        s, q = flags(n, a, b, joint)
        slow = naive.fbeta(s, q, beta=beta, alpha=ALPHA)
        assert value(Moments(n, a, b, joint), beta) == pytest.approx(slow, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_counts_and_fractions_give_the_same(beta):
    for n, a, b, joint in counts():
        chance = metric.chance_of(n, a, b, joint)
        assert chance / n == pytest.approx(metric.chance_of(1.0, a / n, b / n, joint / n), abs=1e-14)
        of_rows = metric.fbeta_of(joint - chance, joint, beta, n * ALPHA)
        assert of_rows == pytest.approx(value(Moments(n, a, b, joint), beta), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("naive_rate", [False, True])
@pytest.mark.parametrize("beta", BETAS)
def test_the_compiled_kernel_is_the_metric(beta, naive_rate):
    cases = counts()
    for start in range(0, len(cases), 3):
        for group in (cases[start : start + 1], cases[start : start + 3]):
            # As in a search, strata of a single row are put together as the last one, which is all chance.
            group = [one for one in group if one[0] > 1] or [cases[3]]
            n, a, b, joint = (np.array([one[i] for one in group]) for i in range(4))
            rule = search_rule(n, stratum_kinds(n, False), beta=beta, alpha=ALPHA, naive=naive_rate)
            found, rows = evaluate(joint[None, None].astype(np.int32), 0, 0, a[None], b[None], *rule)
            names = None if len(group) == 1 else tuple(range(len(group)))
            sums = [x.astype(float) for x in (n, a, b, joint)]
            moments = Moments(*(sums if names else (float(x[0]) for x in sums)), names)
            assert rows == joint.sum()
            if rows == 0:
                assert found == -math.inf  # never the best pair
            else:
                assert found == pytest.approx(value(moments, beta, naive_rate), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rho", [0.05, 0.5, 0.9])
def test_the_compiled_kernel_is_the_metric_of_a_correlated_background(rho):
    cases = [one for one in counts() if one[0] > 1]
    for start in range(0, len(cases), 3):
        for group in (cases[start : start + 1], cases[start : start + 3]):
            n, a, b, joint = (np.array([one[i] for one in group]) for i in range(4))
            rule = search_rule(n, stratum_kinds(n, False), beta=1.0, alpha=ALPHA, correlation=rho)
            found, rows = evaluate(joint[None, None].astype(np.int32), 0, 0, a[None], b[None], *rule)
            names = None if len(group) == 1 else tuple(range(len(group)))
            sums = [x.astype(float) for x in (n, a, b, joint)]
            moments = Moments(*(sums if names else (float(x[0]) for x in sums)), names)
            if rows > 0:
                wanted = float(metric.fbeta_hat(moments, beta=1.0, alpha=ALPHA, correlation=rho))
                assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.4])
@pytest.mark.parametrize("strata", [1, 3, 40])
@pytest.mark.parametrize("beta", BETAS)
def test_the_grid_is_the_metric_at_every_node(beta, strata, rho):
    rng = np.random.default_rng(strata)
    s, q = rng.normal(size=(2, 60)).round(1)
    code = None if strata == 1 else rng.integers(0, strata, 60)
    if code is not None:
        code = np.unique(code, return_inverse=True)[1]
    search = PairSearch(s, q, code)
    grid = ThresholdGrid(search, rho)
    joint, chance = grid.totals(grid.cells)
    found = fbeta_of_rows(joint, chance, grid.n, beta, ALPHA)
    for i, j in np.ndindex(*grid.shape):
        flag_s = s >= search.s.thresholds[grid.groups_s[i] - 1]
        flag_q = q >= search.q.thresholds[grid.groups_q[j] - 1]
        wanted = value(Moments.of(flag_s, flag_q, code), beta, rho=rho) if (flag_s & flag_q).any() else 0.0
        assert found[i, j] == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_the_search_reports_the_metric_of_its_pair():
    rng = np.random.default_rng(1)
    s, q = rng.normal(size=(2, 300))
    search = PairSearch(s, q)
    for beta in BETAS:
        best = search.maximise(beta=beta, alpha=ALPHA)
        moments = Moments.of(search.s.of_row <= best.groups_s, search.q.of_row <= best.groups_q)
        assert best.fbeta_hat == pytest.approx(value(moments, beta), rel=1e-9)


@pytest.mark.parametrize("strata", [None, 4])
def test_the_loss_of_the_networks_is_the_metric(strata):
    torch = pytest.importorskip("torch")
    from coad.learned.objective import soft_fbeta, sum_moments

    rng = np.random.default_rng(2)
    p_s, p_q = rng.random((2, 90)) ** 3
    context = None if strata is None else rng.integers(0, strata, 90)
    columns = [torch.from_numpy(p).reshape(1, -1, 1).expand(1, -1, len(BETAS)) for p in (p_s, p_q)]
    moments = sum_moments(*columns, None if context is None else torch.from_numpy(context))
    found = soft_fbeta(moments, BETAS, ALPHA)[0].tolist()
    assert found == pytest.approx([value(Moments.of(p_s, p_q, context), beta) for beta in BETAS], rel=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_the_pseudo_targets_are_the_slopes_of_the_metric(beta):
    point = np.array([0.2, 0.3, 0.12])
    found = pseudo_target_constants(Moments(1.0, *point), beta=beta, alpha=ALPHA)
    step = 1e-6
    slopes = [
        (
            value(Moments(1.0, *(point + step * axis)), beta)
            - value(Moments(1.0, *(point - step * axis)), beta)
        )
        / (2 * step)
        for axis in np.eye(3)
    ]
    assert (-found.c2_s, -found.c2_q, found.c1) == pytest.approx(slopes, rel=1e-5)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_figures_of_many_draws_are_those_of_each(given, rho):
    from coad.core.figures import figures, figures_of_draws
    from coad.core.rule import Rule

    rng = np.random.default_rng(0)
    rule = Rule(0.5, 0.05, given, correlation=rho)
    joint = rng.integers(0, 30, 40).astype(float)
    s, q = (joint + rng.integers(0, 100, 40) for _ in range(2))
    n = np.full(40, 1000.0)
    each = [figures(Moments(*map(float, one)), rule) for one in zip(n, s, q, joint, strict=True)]
    assert np.allclose(figures_of_draws(Moments(n, s, q, joint), rule), each, rtol=1e-12, atol=1e-15)
