"""The correlated background: D with a Gaussian copula, ρ of the bulk, the null drawn from the copula."""

from __future__ import annotations

import json
import math

import naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from makers import correlated_noise, write_parquet

import coad
from coad import CoincidenceThreshold, ThresholdResult
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
from coad.core.heavy_tails import EDGES, fit_freedom, t_cells
from coad.core.metric import chance_of, fbeta_hat, ignore_undefined
from coad.core.moments import Moments
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
    assume(
        min((a - joint) / (1 - b), (b - joint) / (1 - a)) >= 1e-8
    )  # the table ends: below a row in a hundred million
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


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 5.0, math.inf])
@pytest.mark.parametrize("strata", [1, 3])
@pytest.mark.parametrize("rho", [0.05, 0.3, 0.9])
def test_the_search_with_a_correlated_background_is_exact(rho, strata, beta):
    for seed in range(4):
        s, q = correlated_noise(70 + seed, rho, seed)
        s[::9] += 2
        q[::9] += 2
        if seed % 2:
            s, q = np.round(s, 1), np.round(q)
        code = None if strata == 1 else np.arange(len(s)) % strata
        best = -math.inf
        for t_s in np.unique(s):
            for t_q in np.unique(q):
                flag_s, flag_q = s >= t_s, q >= t_q
                if max(flag_s.mean(), flag_q.mean()) <= 0.5 and (flag_s & flag_q).any():
                    moments = Moments.of(flag_s, flag_q, code)
                    with ignore_undefined():
                        value = fbeta_hat(moments, beta=beta, alpha=0.1, correlation=rho)
                    best = max(best, float(value))
        found = PairSearch(s, q, code).maximise(beta=beta, alpha=0.1, correlation=rho)
        assert found.fbeta_hat == pytest.approx(best, rel=1e-9, abs=1e-12)


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


def test_rows_that_are_alone_in_their_context_do_not_enter_the_correlation():
    s, q = correlated_noise(600, 0.3, 0)
    code = np.r_[np.zeros(300, dtype=int), np.arange(1, 301)]
    s[300:], q[300:] = np.arange(300.0), np.arange(300.0)
    assert bulk_correlation(s, q, code) == bulk_correlation(s[:300], q[:300])
    null = CopulaNull(ThresholdGrid(PairSearch(s, q, code)), s, q)
    assert null.bulk.rho == bulk_correlation(s, q, code)


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


def test_heavy_tails_are_told_from_events_by_the_other_corners():
    heavy = correlated_noise(10_000, 0.3, 0, freedom=8)
    assert 5 <= fit_freedom(*map(ranks_within, heavy), 0.3) <= 13
    s, q = correlated_noise(5000, 0.3, 0)
    s[:150] += 4
    q[:150] += 4
    assert fit_freedom(*map(ranks_within, (s, q)), 0.3) > 13
    rng = np.random.default_rng(0)
    tails = excess_test(*heavy, choose_background(*heavy), n_draws=99, rng=rng)
    events = excess_test(s, q, choose_background(s, q), n_draws=99, rng=rng)
    assert tails.p_value <= 0.05 < tails.tail_p_value
    assert (events.p_value, events.tail_p_value) == (0.01, 0.01)


@pytest.mark.parametrize("freedom", [3.0, 10.0])
def test_the_cells_of_a_t_copula_are_those_of_drawn_rows(freedom):
    s, q = correlated_noise(400_000, 0.4, 1, freedom=freedom)
    place = [np.searchsorted(EDGES, ranks_within(x)) for x in (s, q)]
    drawn = np.zeros((len(EDGES) + 1,) * 2)
    np.add.at(drawn, tuple(place), 1 / len(s))
    cells = t_cells(0.4, freedom)
    off = (drawn - cells) / np.sqrt(cells / len(s))
    assert np.abs(off).max() < 5
    assert np.std(off) < 1.2


def test_thresholds_say_which_background_they_used_and_keep_it(tmp_path):
    s, q = correlated_noise(3000, 0.3, 0)
    event = np.random.default_rng(0).random(3000) < 0.03
    s[event] += 4
    q[event] += 4
    det = CoincidenceThreshold(n_permutations=40).fit(s, q)
    found = det.result_
    assert (found.status, found.background.kind) == ("found", "correlated")
    assert found.correlation == bulk_correlation(s, q) == det.rule_.correlation
    assert "chance counted for correlated scores (the bulk has ρ = 0.3" in found.message
    assert ThresholdResult.from_dict(json.loads(json.dumps(found.to_dict()))).background == found.background
    det.save(tmp_path / "t")
    again = coad.load(tmp_path / "t")
    assert again.rule_ == det.rule_
    assert again.evaluate(s, q) == det.evaluate(s, q)
    assert det.score(s, q) == det.evaluate(s, q).fbeta_hat == pytest.approx(found.fbeta_hat)
    independent = CoincidenceThreshold(n_permutations=40, background="independent").fit(s, q)
    assert independent.result_.background.why == "asked for"
    assert independent.rule_.correlation == 0
    assert independent.result_.joint_fraction > found.joint_fraction
    assert det.rule_.changes(independent.rule_).endswith("; ρ 0.318 → 0")
    with pytest.raises(InputError, match="background must be"):
        CoincidenceThreshold(background="gaussian").fit(s, q)


def test_a_rule_is_judged_on_new_rows_by_its_background():
    event = np.random.default_rng(0).random(20_000) < 0.03
    s, q = correlated_noise(3000, 0.4, 0)
    s[event[:3000]] += 4
    q[event[:3000]] += 4
    det = CoincidenceThreshold(n_permutations=40).fit(s, q)
    noise = correlated_noise(20_000, 0.4, 1)
    det.set_threshold(1.0, 1.0)
    judged = det.evaluate(*noise)
    assert judged.status == "no coincidence"
    assert [one.code for one in judged.suspicions] == ["only_correlated_here"]
    noise[0][event] += 4
    noise[1][event] += 4
    assert det.evaluate(*noise).status == "found"


def test_correlated_noise_is_not_found_by_default():
    statuses = [
        coad.select_thresholds(*correlated_noise(500, rho, seed), n_permutations=40).status
        for rho in (0.1, 0.3, 0.6, -0.3)
        for seed in range(25)
    ]
    assert statuses.count("found") <= 12  # 5 expected; 0.4 % of such tests pass 12


@pytest.mark.parametrize("background", ["auto", "correlated"])
@pytest.mark.parametrize(
    "scores",
    [
        np.zeros((2, 50)),
        np.arange(20.0).reshape(2, 10),
        np.array([np.arange(10.0), -np.arange(10.0)]),
        np.repeat([[0.0, 1.0], [1.0, 0.0]], 30, axis=1),
        np.tile([0.0, 0.0, 0.0, 5.0], (2, 10)),
        np.repeat(np.arange(100.0)[None], 2, axis=0),
    ],
    ids=["constant", "tiny", "opposed", "two values", "nearly constant", "equal"],
)
def test_degenerate_scores_have_a_named_outcome(scores, background):
    for context in (None, np.arange(scores.shape[1]) % 2, np.arange(scores.shape[1])):
        found = coad.select_thresholds(*scores, background=background, context=context, n_permutations=40)
        assert found.status in ("found", "no coincidence", "shared regime suspected")
        assert found.background.why
        assert np.isfinite([found.fbeta_hat, found.precision_hat, found.recall_hat, found.alpha]).all()


def test_the_command_takes_a_background_and_says_which_it_used(run_coad, tmp_path):
    s, q = correlated_noise(1000, 0.5, 0)
    path = write_parquet(tmp_path / "scores.parquet", {"s": s, "q": q})
    said = run_coad("thresholds", path, "--s", "s", "--q", "q").out
    assert "no coincidence" in said
    assert "background: correlated (the bulk has ρ = 0.5" in " ".join(said.split())
    said = run_coad("thresholds", path, "--s", "s", "--q", "q", "--background", "independent").out
    assert "background: independent (asked for)" in " ".join(said.split())
    wrong = run_coad("thresholds", path, "--s", "s", "--q", "q", "--background", "gaussian")
    assert wrong.code == 2
