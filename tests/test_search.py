"""The exact search: equal to brute force, ties never split, strata and labels included."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coad.core.search import PairSearch
from coad.core.search_kernels import ALL_CHANCE, ALL_TRUE
from coad.research.datasets.synthetic import synthetic_outliers

BETAS = [0, 0.05, 1, 10, math.inf]


def random_case(rng):
    """Scores with and without coincidence, rounded to make ties in a third of the cases."""
    n = int(rng.integers(10, 301))
    s, q = rng.normal(size=(2, n))
    coincident = int(rng.integers(0, n // 3 + 1))
    s[:coincident] += rng.exponential(2)
    q[:coincident] += rng.exponential(2)
    if rng.random() < 1 / 3:
        s, q = s.round(int(rng.integers(0, 2))), q.round(int(rng.integers(0, 2)))
    return s, q, float(rng.uniform(0.005, 0.5))


@pytest.mark.parametrize("block", range(3))
def test_search_equals_brute_force_on_many_random_cases(block):
    """Six hundred cases here, two thousand more in benchmarks/search.py."""
    rng = np.random.default_rng(block)
    for _ in range(200):
        s, q, alpha = random_case(rng)
        search = PairSearch(s, q)
        for beta in BETAS:
            slow = naive.best_value_by_table(s, q, beta=beta, alpha=alpha)
            fast = search.maximise(beta=beta, alpha=alpha)
            assert (slow is None) == (fast.joint == 0)
            assert slow is None or fast.fbeta_hat == pytest.approx(slow, abs=1e-12, rel=1e-12)


def test_search_with_the_naive_rate_equals_brute_force():
    rng = np.random.default_rng(10)
    for _ in range(150):
        s, q, alpha = random_case(rng)
        search = PairSearch(s, q)
        for beta in BETAS:
            slow = naive.best_value_by_table(s, q, beta=beta, alpha=alpha, naive=True)
            fast = search.maximise(beta=beta, alpha=alpha, naive=True)
            assert (slow is None) == (fast.joint == 0)
            assert slow is None or fast.fbeta_hat == pytest.approx(slow, abs=1e-12, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_search_with_strata_equals_brute_force(seed, strata):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 36))
    s, q = rng.normal(size=(2, n)).round(int(rng.integers(0, 3)))
    s[:7] += rng.exponential(2)
    q[:7] += rng.exponential(2)
    code = np.unique(rng.integers(0, strata, n), return_inverse=True)[1]
    search = PairSearch(s, q, code)
    for beta in BETAS:
        slow = naive.best_thresholds(s, q, beta=beta, alpha=0.1, context=code)
        fast = search.maximise(beta=beta, alpha=0.1)
        assert (slow is None) == (fast.joint == 0)
        assert slow is None or fast.fbeta_hat == pytest.approx(slow[0], abs=1e-12, rel=1e-12)


def test_search_with_strata_survives_grids_coarser_than_the_data():
    """More rows than the first grid has steps, so that boxes are really cut."""
    rng = np.random.default_rng(3)
    data = synthetic_outliers(3000, random_state=3)
    code = rng.integers(0, 3, len(data.s))
    best = PairSearch(data.s, data.q, code).maximise(beta=1, alpha=0.05)
    every = np.quantile(data.s, np.linspace(0.5, 1, 60)), np.quantile(data.q, np.linspace(0.5, 1, 60))
    sampled = max(
        naive.fbeta(data.s >= a, data.q >= b, beta=1, alpha=0.05, context=code)
        for a in every[0]
        for b in every[1]
    )
    assert best.fbeta_hat >= sampled
    i, j = best.groups_s, best.groups_q
    search = PairSearch(data.s, data.q, code)
    here = naive.fbeta(
        data.s >= search.s.thresholds[i - 1],
        data.q >= search.q.thresholds[j - 1],
        beta=1,
        alpha=0.05,
        context=code,
    )
    assert best.fbeta_hat == pytest.approx(here, abs=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_search_equals_all_pairs_on_the_synthetic_set(beta):
    data = synthetic_outliers(random_state=0)
    search = PairSearch(data.s, data.q)
    fast = search.maximise(beta=beta, alpha=0.05)
    assert fast.fbeta_hat == pytest.approx(all_pairs(search, beta, 0.05), abs=1e-12)


def all_pairs(search, beta, alpha):
    """Every pair of thresholds, one threshold of s at a time: slow, and blind to no pair."""
    n, best = search.n, -math.inf
    mu_q = np.arange(1, len(search.q.ends)) / n
    group_q = search.q.of_row[search.s.rows]
    joint = np.zeros(len(mu_q))
    for i, g in enumerate(group_q):
        if g <= len(joint):
            joint[g - 1 :] += 1 / n
        mu_s = (i + 1) / n
        true = joint - (mu_s - joint) * (mu_q - joint) / ((1 - mu_s) * (1 - mu_q))
        if math.isinf(beta):
            value = true / alpha
        else:
            value = (1 + beta**2) * true / np.maximum(joint + alpha * beta**2, 1e-300)
        best = max(best, np.where(joint > 0.5 / n, value, -math.inf).max())
    return best


def test_the_supervised_search_finds_the_best_f_score_that_labels_can_buy():
    rng = np.random.default_rng(5)
    for _ in range(30):
        n = int(rng.integers(20, 120))
        s, q = rng.normal(size=(2, n)).round(1)
        label = rng.random(n) < 0.3
        label[:2] = True, False
        s[label] += 1
        q[label] += 1
        search = PairSearch(s, q, label.astype(np.int64))
        best = search.maximise(beta=1, alpha=label.mean(), kinds=np.array([ALL_CHANCE, ALL_TRUE]))
        slow = -math.inf
        for a in np.unique(s):
            for b in np.unique(q):
                flag = (s >= a) & (q >= b)
                if flag.any() and (s >= a).mean() <= 0.5 and (q >= b).mean() <= 0.5:
                    slow = max(slow, 2 * (flag & label).sum() / (flag.sum() + label.sum()))
        assert best.fbeta_hat == pytest.approx(slow, abs=1e-12)


def test_tied_scores_are_never_split():
    s = np.repeat([3.0, 2.0, 1.0, 0.0], [4, 5, 6, 25])
    q = s.copy()
    for beta in BETAS:
        best = PairSearch(s, q).maximise(beta=beta, alpha=0.1)
        assert best.joint in (4, 9, 15)


def test_equal_values_go_to_the_pair_with_more_joint_rows():
    s = np.arange(20.0)  # nested flags: P̂ = 1 everywhere
    assert PairSearch(s, s).maximise(beta=0, alpha=0.1).joint == 10


def test_no_pair_at_all_is_told_apart():
    constant = np.ones(30)
    assert PairSearch(constant, np.arange(30.0)).maximise(beta=1, alpha=0.1).joint == 0
    opposite = PairSearch(np.arange(30.0), -np.arange(30.0)).maximise(beta=1, alpha=0.1)
    assert opposite.joint == 0
