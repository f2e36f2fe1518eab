"""The correlated background: D with a Gaussian copula, ρ of the bulk, the null drawn from the copula."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from makers import correlated_noise

from coad.core.background import (
    Background,
    bulk_correlation,
    choose_background,
    correlated_chance,
    dependence_p_value,
    excess_test,
    joint_draws,
    rule_test,
)
from coad.core.bulk import ranks_within
from coad.core.copula import LARGEST, LEAST_LOG, STEP, joint_exceedance, lift_table
from coad.core.copula_null import CopulaNull
from coad.core.grid import ThresholdGrid
from coad.core.metric import chance_of
from coad.core.search import PairSearch
from coad.exceptions import InputError

RHOS = [0.02, 0.1, 0.3, 0.6, 0.9]


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.05, 0.3, 0.6, 0.9])
def test_the_joint_exceedance_is_that_of_scipy(rho):
    rng = np.random.default_rng(0)
    m_s, m_q = 10 ** rng.uniform(-4, -0.01, (2, 30))
    wanted = [naive.joint_exceedance(x, y, rho) for x, y in zip(m_s, m_q, strict=True)]
    assert joint_exceedance(m_s, m_q, rho) == pytest.approx(np.array(wanted), rel=1e-5, abs=1e-10)


@pytest.mark.parametrize("rho", RHOS)
def test_chance_is_that_of_the_slow_reference_within_its_tolerance(rho):
    rng = np.random.default_rng(1)
    for _ in range(8):
        m_s, m_q = 10 ** rng.uniform(-3, -0.4, 2)
        both = naive.joint_exceedance(m_s, m_q, rho)
        events = rng.uniform(0, 0.1)
        n, joint = 1.0, (1 - events) * both + events
        a, b = (1 - events) * m_s + events, (1 - events) * m_q + events
        slow = naive.correlated_chance_fraction(a, b, joint, rho)
        assert correlated_chance(n, a, b, joint, rho) == pytest.approx(slow, rel=0.015, abs=1e-9)


@pytest.mark.parametrize("rho", [*RHOS, 0.45, 0.75])
def test_the_table_of_chance_grows_along_both_axes(rho):
    log_a = LEAST_LOG + STEP * np.arange(len(lift_table(rho)))
    log_chance = lift_table(rho) + log_a[:, None] + log_a
    assert np.isfinite(log_chance).all()
    assert min(np.diff(log_chance, axis=0).min(), np.diff(log_chance, axis=1).min()) >= 0
    assert lift_table(rho).min() > -1e-9, "a positive correlation never has less chance than independence"
    np.testing.assert_allclose(log_chance, log_chance.T, rtol=1e-6)


def test_without_correlation_chance_is_the_papers():
    rng = np.random.default_rng(2)
    n = 1000.0
    joint = rng.integers(0, 50, 100).astype(float)
    a, b = joint + rng.integers(0, 400, 100), joint + rng.integers(0, 400, 100)
    for rho in (0.0, -0.3):
        np.testing.assert_array_equal(correlated_chance(n, a, b, joint, rho), chance_of(n, a, b, joint))


#: The copula of the normal class, its margins, and events: their share, and how they fall among both, s alone, q alone.
rates = st.floats(1e-4, 0.45)
worlds = st.tuples(
    st.sampled_from([0.0, *RHOS]),
    rates,
    rates,
    st.floats(0.0, 0.3),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
)


@settings(deadline=None)
@given(worlds)
def test_chance_is_an_upper_bound_of_the_false_positives_if_an_input_sees_each_event(world):
    rho, m_s, m_q, share, falls = world
    assume(sum(falls) > 0)
    both_events, s_events, q_events = np.array(falls) / sum(falls) * share
    both = float(joint_exceedance(m_s, m_q, rho))
    joint = (1 - share) * both + both_events
    a = (1 - share) * m_s + both_events + s_events
    b = (1 - share) * m_q + both_events + q_events
    chance = float(correlated_chance(1.0, a, b, joint, rho))
    assert chance >= (1 - share) * both * (1 - 5e-4)  # the table reads 0.03 % too little at most
    if share == 0:
        assert chance == pytest.approx(both, rel=0.015)


@settings(deadline=None)
@given(worlds, st.floats(0.0, 1.0), st.booleans())
def test_chance_grows_with_rows_that_one_input_alone_flags(world, more, of_s):
    """What the bound of the exact search builds on, for the D in use (its table and its reading)."""
    rho, alone_s, alone_q, joint, _ = world
    grown = (
        (alone_s + more * (0.5 - alone_s), alone_q) if of_s else (alone_s, alone_q + more * (0.5 - alone_q))
    )
    joint = min(joint, 0.04)
    before, after = (
        float(correlated_chance(1.0, s + joint, q + joint, joint, rho))
        for s, q in ((alone_s, alone_q), grown)
    )
    assert after >= before * (1 - 1e-12)


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.1, 0.3, 0.6])
def test_the_correlation_of_the_bulk_is_found_within_its_error(rho):
    fits = [choose_background(*correlated_noise(3000, rho, seed), kind="correlated") for seed in range(20)]
    found = [bulk_correlation(*correlated_noise(3000, rho, seed)) for seed in range(20)]
    assert abs(np.mean(found) - rho) < 4 * fits[0].error / math.sqrt(20)
    assert np.std(found) == pytest.approx(fits[0].error, rel=0.5)


def test_events_in_the_corner_do_not_enter_the_correlation():
    s, q = correlated_noise(20_000, 0.3, 0)
    s[:1000] += 6
    q[:1000] += 6
    assert bulk_correlation(s, q) == pytest.approx(0.3, abs=0.04)
    assert np.corrcoef(s, q)[0, 1] > 0.6


def test_ranks_are_taken_within_contexts():
    s, q = correlated_noise(6000, 0.0, 1)
    code = np.arange(6000) % 3
    assert bulk_correlation(s + 5 * code, q + 5 * code, code) == bulk_correlation(s, q, code)
    assert bulk_correlation(s + 5 * code, q + 5 * code) > 0.5
    for stratum in range(3):
        rows = code == stratum
        np.testing.assert_allclose(ranks_within(s, code)[rows], ranks_within(s[rows]))


@pytest.mark.parametrize(
    ("s", "q"),
    [
        (np.zeros(100), np.arange(100.0)),
        (np.arange(12.0), np.arange(12.0)),
        (np.repeat([0.0, 1.0], [97, 3]), np.arange(100.0)),
        (np.zeros(100), np.zeros(100)),
    ],
    ids=["constant", "tiny", "nearly constant", "both constant"],
)
def test_a_bulk_that_says_nothing_gives_the_independent_background_and_says_so(s, q):
    assert bulk_correlation(s, q) == 0.0
    assert dependence_p_value(s, q) == 1.0
    chosen = choose_background(s, q)
    assert (chosen.kind, chosen.rho) == ("independent", 0.0)
    assert "no correlation can be measured" in chosen.why
    assert choose_background(s, q, kind="correlated").rho == 0.0


def test_ties_leave_the_correlation_near_its_value():
    s, q = correlated_noise(20_000, 0.4, 3)
    coarse = np.floor(2 * s), np.floor(2 * q)
    assert bulk_correlation(*coarse) == pytest.approx(0.4, abs=0.06)


def test_the_background_says_why():
    s, q = correlated_noise(5000, 0.5, 0)
    assert choose_background(s, q).why.startswith("the bulk has ρ = 0.5")
    assert "not positive" in choose_background(s, -q).why
    assert choose_background(s, q, kind="independent").kind == "independent"
    with pytest.raises(InputError, match="'auto', 'independent' or 'correlated'"):
        choose_background(s, q, kind="gaussian")
    with pytest.raises(InputError, match="cannot have ρ"):
        Background("independent", 0.2)
    with pytest.raises(InputError, match="cannot have ρ"):
        Background("correlated", LARGEST + 0.01)


def test_draws_keep_the_margins_and_have_the_copula():
    s, q = (np.round(x, 1) for x in correlated_noise(4000, 0.5, 0))
    code = np.arange(4000) % 2
    grid = ThresholdGrid(PairSearch(s, q, code))
    null = CopulaNull(grid, s, q)
    rng = np.random.default_rng(0)
    fast, slow = [], []
    for _ in range(20):
        rows_s, rows_q = null.draw(0.5, rng)
        cells = grid.paired(rows_s, rows_q)
        np.testing.assert_array_equal(cells.sum(1), grid.cells.sum(1))
        np.testing.assert_array_equal(cells.sum(2), grid.cells.sum(2))
        np.testing.assert_array_equal(np.sort(rows_s), np.sort(rows_q))
        fast.append(np.count_nonzero((s[rows_s] > 1) & (q[rows_q] > 1)))
        drawn = naive.drawn_null(s, q, 0.5, rng)
        slow.append(np.count_nonzero((drawn[0] > 1) & (drawn[1] > 1)))
    assert np.mean(fast) == pytest.approx(np.mean(slow), rel=0.05)


def test_correlated_noise_is_no_excess_and_events_are():
    rng = np.random.default_rng(0)
    s, q = correlated_noise(2000, 0.4, 5)
    assert excess_test(s, q, choose_background(s, q), n_draws=99, rng=rng).p_value > 0.05
    assert excess_test(s, q, Background(), n_draws=99, rng=rng).p_value == 0.01
    s[::50] += 4
    q[::50] += 4
    found = excess_test(s, q, choose_background(s, q), ordered=True, n_draws=99, rng=rng)
    assert found.p_value == 0.01
    assert found.shift_p_value is not None
    code = np.arange(2000) % 4
    assert excess_test(s, q, choose_background(s, q, code), code, n_draws=99, rng=rng).p_value == 0.01


def test_a_fixed_rule_is_judged_by_the_copula():
    rng = np.random.default_rng(0)
    few = []
    for seed in range(60):
        s, q = correlated_noise(1000, 0.3, seed)
        few.append(rule_test(s > 1.2, q > 1.2, s, q, choose_background(s, q), rng=rng) <= 0.05)
        if seed < 3:
            assert rule_test(s > 1.2, q > 1.2, None, None, Background(), rng=rng) <= 0.05
    assert sum(few) <= 8  # 3 expected; 1 % of such tests pass 8
    s[:40] += 4
    q[:40] += 4
    assert rule_test(s > 2, q > 2, s, q, choose_background(s, q), rng=rng) == 0.001


def test_draws_of_a_rule_agree_with_drawn_rows():
    s, q = correlated_noise(3000, 0.5, 0)
    rng = np.random.default_rng(0)
    fast = joint_draws(s > 1, q > 1.5, Background("correlated", 0.5), n_draws=900, rng=rng)
    slow = []
    for _ in range(200):
        drawn = naive.drawn_null(s, q, 0.5, rng)
        slow.append(np.count_nonzero((drawn[0] > 1) & (drawn[1] > 1.5)))
    assert fast.mean() == pytest.approx(np.mean(slow), rel=0.03)
    assert fast.std() == pytest.approx(np.std(slow), rel=0.2)


def test_a_rule_that_flags_nothing_or_all_proves_nothing():
    s, q = correlated_noise(200, 0.5, 0)
    background = choose_background(s, q)
    nothing, everything = np.zeros(200, dtype=bool), np.ones(200, dtype=bool)
    for flags in ((nothing, everything), (everything, q > 0), (everything, everything), (nothing, nothing)):
        assert rule_test(*flags, s, q, background) == 1.0
