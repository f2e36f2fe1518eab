"""select_thresholds: what it promises a user, and how honest it is."""

import json
import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

import coad
from coad.core.grid import ThresholdGrid
from coad.core.inference import optimism, resampled_intervals
from coad.core.moments import Moments
from coad.core.search import PairSearch
from coad.exceptions import InputError
from coad.research.datasets.synthetic import independent_noise, synthetic_outliers


@pytest.fixture(scope="module")
def data():
    return synthetic_outliers(4000, random_state=0)


@pytest.fixture(scope="module")
def result(data):
    return coad.select_thresholds(data.s, data.q, beta=1.0)


def test_every_promised_field_is_there(result):
    assert result.status == "found"
    assert 0 < result.fbeta_hat <= 1
    assert 0 < result.precision_hat <= 1
    assert 0 < result.recall_hat <= 1
    assert result.p_value == pytest.approx(1 / 201)
    low, high = result.interval
    assert low < result.fbeta_hat < high
    assert 0.02 < result.alpha < 0.08


def test_predict_flags_the_joint_rows_and_the_numbers_belong_to_them(data, result):
    flags = result.predict(data.s, data.q)
    expected = (data.s >= result.threshold_s) & (data.q >= result.threshold_q)
    assert flags.dtype == bool
    assert (flags == expected).all()
    assert flags.sum() == result.n_joint
    assert result.joint_fraction == pytest.approx(flags.mean())
    moments = Moments.of(data.s >= result.threshold_s, data.q >= result.threshold_q)
    value = coad.fbeta_hat(moments, beta=1, alpha=result.alpha, correlation=result.correlation)
    assert result.fbeta_hat == pytest.approx(value)
    assert result.precision_hat == pytest.approx(coad.precision_hat(moments, correlation=result.correlation))
    recall = coad.recall_hat(moments, alpha=result.alpha, correlation=result.correlation)
    assert result.recall_hat == pytest.approx(recall)


def test_alpha_is_estimated_below_but_near_the_true_rate(data):
    estimate = coad.select_thresholds(data.s, data.q, n_permutations=0).alpha
    assert 0.6 * data.label.mean() < estimate < 1.2 * data.label.mean()


def test_only_the_order_of_the_scores_matters(data, result):
    other = coad.select_thresholds(np.exp(data.s), 1e6 * data.q - 3, beta=1.0)
    assert (other.n_joint, other.p_value) == (result.n_joint, result.p_value)
    assert other.fbeta_hat == result.fbeta_hat


def test_the_same_seed_gives_the_same_result(data, result):
    assert coad.select_thresholds(data.s, data.q, beta=1.0) == result


def test_beta_trades_precision_for_recall(data):
    low, high = (coad.select_thresholds(data.s, data.q, beta=b, n_permutations=0) for b in (0.1, math.inf))
    assert low.precision_hat > high.precision_hat
    assert low.recall_hat < high.recall_hat


def test_the_test_can_be_switched_off(data):
    result = coad.select_thresholds(data.s, data.q, n_permutations=0)
    assert result.p_value is None
    assert "NOT TESTED" in result.message


def test_results_go_to_json_and_back(result):
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["threshold_s"] == result.threshold_s
    nothing = coad.select_thresholds(*independent_noise(200, random_state=0))
    assert json.loads(json.dumps(nothing.to_dict(), allow_nan=False))["threshold_s"] == "inf"


# --- honesty ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "heavy", "ties"])
@pytest.mark.parametrize("n", [100, 1000])
def test_noise_is_seldom_called_found(kind, n):
    """At the 5 % level; 60 data sets a case, and more than 9 would happen once in 1,500 runs."""
    found = sum(
        coad.select_thresholds(*independent_noise(n, kind, random_state=seed), random_state=seed).status
        != "no coincidence"
        for seed in range(60)
    )
    assert found <= 9


def test_a_thousand_rows_of_the_papers_data_are_enough():
    found = 0
    for seed in range(40):
        data = synthetic_outliers(952, random_state=seed)
        found += coad.select_thresholds(data.s, data.q, random_state=seed).status == "found"
    assert found >= 38


def test_no_coincidence_flags_nothing_ever_and_says_why():
    result = coad.select_thresholds(*independent_noise(300, random_state=3))
    assert result.status == "no coincidence"
    assert result.threshold_s == result.threshold_q == math.inf
    assert not result.predict([1e300] * 3, [1e300] * 3).any()
    assert "p = " in result.message
    assert result.n_joint == 0
    assert result.candidate.n_joint > 0


def test_scores_without_a_usable_threshold_end_in_no_coincidence():
    constant = coad.select_thresholds(np.ones(50), np.arange(50))
    assert constant.status == "no coincidence"
    assert "highest value in 100%" in constant.message
    opposite = coad.select_thresholds(np.arange(50), -np.arange(50))
    assert opposite.status == "no coincidence"


def test_a_context_of_its_own_for_every_row_explains_everything(data):
    result = coad.select_thresholds(data.s, data.q, context=np.arange(len(data.s)))
    assert result.status == "no coincidence"
    assert "context of its own" in result.message


def regime(rng, n=4000, levels=8, dwell=50):
    """Two inputs driven by one slowly changing operating point, otherwise independent."""
    level = np.repeat(rng.integers(0, levels, n // dwell), dwell)
    s, q = level + rng.normal(size=(2, n))
    return s, q, level


def test_a_shared_regime_is_suspected_without_context_and_gone_with_it():
    suspected = believed = found = 0
    for seed in range(15):
        s, q, level = regime(np.random.default_rng(seed))
        independent = coad.select_thresholds(s, q, background="independent")
        suspected += independent.status == "shared regime suspected"
        believed += coad.select_thresholds(s, q).status == "found"
        found += coad.select_thresholds(s, q, context=level).status == "found"
    assert suspected == 15
    assert believed == 0, "a correlated background explains the regime, or leaves it suspected"
    assert found <= 3


def test_a_slow_regime_is_seen_by_the_shift_even_when_it_is_rare():
    rng = np.random.default_rng(0)
    hot = np.repeat(rng.random(200) < 0.08, 50)  # 8 % of the time, 50 rows a stay
    s, q = rng.normal(size=(2, len(hot))) + 4 * hot
    result = coad.select_thresholds(s, q)
    assert result.status == "shared regime suspected"
    assert "survives shifting" in result.message
    assert "context" in result.message


def test_slow_inputs_that_drift_together_by_chance_are_not_called_found():
    rng = np.random.default_rng(0)
    found = shuffled_only = 0
    for seed in range(30):
        s, q = (lfilter([1], [1, -0.98], rng.normal(size=2000)) for _ in range(2))
        result = coad.select_thresholds(s, q, random_state=seed)
        found += result.status == "found"
        shuffled_only += result.p_value <= 0.05
    assert shuffled_only >= 10  # which is why moving one input in time is asked too
    assert found <= 4


@pytest.mark.parametrize("shape", ["bursts", "periodic", "block"])
def test_events_of_any_pattern_in_time_are_found(shape):
    rng = np.random.default_rng(4)
    event = np.zeros(4000, dtype=bool)
    if shape == "bursts":
        for start in rng.integers(0, 3997, 60):
            event[start : start + 3] = True
    elif shape == "periodic":
        event[::40] = True
    else:
        event[1000:1150] = True
    s, q = rng.normal(size=(2, 4000)) + 3 * event
    assert coad.select_thresholds(s, q).status == "found"


def test_moving_in_time_keeps_to_the_strata():
    """Within each stratum, and by the rows' own order, whatever the strata look like."""
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 40))
    code = rng.integers(0, 3, 40)
    grid = ThresholdGrid(PairSearch(s, q, code))
    moved = [grid.shifted(rng) for _ in range(5)]
    for one in moved:
        assert (one.sum(1) == grid.cells.sum(1)).all()
        assert (one.sum(2) == grid.cells.sum(2)).all()
    assert any((one != grid.cells).any() for one in moved)


def test_events_scattered_in_time_are_not_a_regime():
    rng = np.random.default_rng(0)
    event = rng.random(10_000) < 0.08
    s, q = rng.normal(size=(2, len(event))) + 4 * event
    assert coad.select_thresholds(s, q).status == "found"


def test_rows_sorted_by_the_truth_are_one_long_event_not_a_regime():
    """Whoever appends the anomalies at the end still gets an answer."""
    data = synthetic_outliers(2000, random_state=0)
    order = np.argsort(data.label, kind="stable")
    assert coad.select_thresholds(data.s[order], data.q[order]).status == "found"


def test_more_joint_events_than_alpha_allows_is_suspicious():
    rng = np.random.default_rng(0)
    half = rng.random(3000) < 0.3
    s, q = rng.normal(size=(2, 3000)) + 5 * half
    for alpha in (0.01, "auto"):
        result = coad.select_thresholds(s, q, alpha=alpha)
        assert result.status == "shared regime suspected"
    assert coad.select_thresholds(s, q, alpha=0.3).status == "found"


def test_context_finds_the_anomalies_that_the_regime_hides():
    rng = np.random.default_rng(1)
    s, q, level = regime(rng, n=6000)
    anomaly = rng.random(len(s)) < 0.03
    s[anomaly] += 4
    q[anomaly] += 4
    per_level = (
        np.array([s[level == v].mean() for v in range(8)]),
        np.array([q[level == v].mean() for v in range(8)]),
    )
    result = coad.select_thresholds(s - per_level[0][level], q - per_level[1][level], context=level)
    assert result.status == "found"
    flags = result.predict(s - per_level[0][level], q - per_level[1][level])
    assert anomaly[flags].mean() > 0.7


def test_intervals_hold_what_the_chosen_thresholds_are_worth_on_new_rows():
    """The population's F̂ and P̂ at the chosen thresholds, for 40 draws of 500 rows."""
    big = synthetic_outliers(400_000, random_state=99)
    covered = np.zeros(2)
    for seed in range(40):
        data = synthetic_outliers(476, random_state=seed)
        result = coad.select_thresholds(data.s, data.q, alpha=0.0476, n_permutations=0)
        moments = Moments.of(big.s >= result.threshold_s, big.q >= result.threshold_q)
        truths = coad.fbeta_hat(moments, beta=1, alpha=0.0476), coad.precision_hat(moments)
        ends = result.intervals.fbeta_hat, result.intervals.precision_hat
        covered += [low <= truth <= high for truth, (low, high) in zip(truths, ends, strict=True)]
    assert (covered >= 36).all()


@pytest.mark.parametrize("beta", [0.3, 1.0, 5.0])
def test_optimism_is_that_of_a_pair_picked_on_one_half_and_measured_on_the_other(beta):
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 90))
    s[:8] += 2
    q[:8] += 2
    slow = naive.optimism_of_halves(s, q, beta=beta, alpha=0.1, splits=600, rng=rng)
    grid = ThresholdGrid(PairSearch(s, q))  # with 45 thresholds an input the grid has them all
    fast = [optimism(grid, beta=beta, alpha=0.1, alpha_given=True, rng=rng)[:3] for _ in range(6)]
    np.testing.assert_allclose(np.mean(fast, axis=0), slow, rtol=0.15, atol=0.05)


@settings(deadline=None, max_examples=40)
@given(st.integers(20, 300), st.floats(0.0, 10.0), st.sampled_from([None, 0.02, 0.3]), st.integers(1, 4))
def test_optimism_is_never_negative_and_nothing_where_nothing_is_chosen(n, beta, alpha, strata):
    rng = np.random.default_rng(n)
    s, q = rng.normal(size=(2, n))
    code = rng.integers(0, strata, n)
    code = np.unique(code, return_inverse=True)[1] if strata > 1 else None
    given_rate = {"alpha": alpha or 0.1, "alpha_given": alpha is not None, "beta": beta, "rng": rng}
    found = optimism(ThresholdGrid(PairSearch(s, q, code)), **given_rate)
    assert (found >= 0).all()
    assert np.isfinite(found).all()
    assert alpha is None or found[3] == 0
    constant = np.zeros(n)
    assert (optimism(ThresholdGrid(PairSearch(constant, q, code)), **given_rate) == 0).all()


def test_an_uncertain_correlation_widens_the_intervals_downwards():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 1500))
    s[:60] += 3
    q[:60] += 3
    search = PairSearch(s, q)
    best = search.maximise(beta=1.0, alpha=0.04, correlation=0.2)
    options = {"beta": 1.0, "alpha": 0.04, "alpha_given": True}
    narrow, wide = (
        resampled_intervals(
            ThresholdGrid(search, 0.2), best, best, rho_error=error, rng=np.random.default_rng(0), **options
        ).precision_hat
        for error in (0.0, 0.2)
    )
    assert wide[0] < narrow[0]
    assert wide[1] >= narrow[1]


# --- bad input -------------------------------------------------------------------------

GOOD = np.arange(20.0)


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        ((GOOD, GOOD[:-1]), {}, "score_s has 20 rows and score_q has 19"),
        ((GOOD[:9], GOOD[:9]), {}, "only 9 usable rows; at least 10"),
        ((GOOD, GOOD), {"beta": -1}, "beta must be 0 or more"),
        ((GOOD, GOOD), {"beta": math.nan}, "beta must be 0 or more"),
        ((GOOD, GOOD), {"alpha": 0}, "alpha, the anomaly rate, must lie in"),
        ((GOOD, GOOD), {"alpha": 0.51}, "must lie in"),
        ((GOOD, GOOD), {"alpha": "half"}, "'auto'"),
        ((GOOD, GOOD), {"n_permutations": -1}, "n_permutations"),
        ((GOOD, GOOD), {"n_permutations": 10**30}, "n_permutations"),
        ((GOOD, GOOD), {"n_permutations": 5}, "cannot reach a p-value"),
        ((GOOD, GOOD), {"significance": math.nan}, "significance must lie"),
        ((GOOD, GOOD), {"significance": 2}, "significance must lie"),
        ((GOOD, GOOD), {"random_state": -1}, "random_state"),
        ((GOOD, GOOD), {"beta": 10**400}, "beta must be"),
        ((GOOD.astype("M8[s]"), GOOD), {}, "not numeric"),
        ((GOOD + 1j, GOOD), {}, "not numeric"),
        (([[1, 2], [3]], GOOD), {}, "one score per row"),
        ((np.array([math.nan, 1, "x"] + [1] * 17, dtype=object), GOOD), {}, "row 2 holds 'x'"),
        ((GOOD, GOOD), {"context": [None] + ["a"] * 19}, "context has 1 missing"),
        ((GOOD, GOOD), {"context": [math.nan] + [1.0] * 19}, "context has 1 missing"),
        ((GOOD, GOOD), {"context": [1, 2]}, "one entry per row"),
        ((GOOD, GOOD), {"missing": "maybe"}, "missing must be"),
        ((np.zeros((20, 2)), GOOD), {}, "one score per row"),
        ((np.array(["a"] + ["1"] * 19), GOOD), {}, "row 0 holds"),
    ],
)
def test_bad_input_is_refused_with_what_and_where(args, keywords, message):
    with pytest.raises(InputError, match=message):
        coad.select_thresholds(*args, **keywords)


def test_missing_scores_are_counted_located_and_can_be_dropped(data):
    s = data.s.copy()
    s[[7, 12]] = np.nan, np.inf
    with pytest.raises(
        InputError, match=r"2 missing or infinite values \(first at row 7: nan\).*missing='drop'"
    ):
        coad.select_thresholds(s, data.q)
    dropped = coad.select_thresholds(s, data.q, missing="drop", context=np.arange(len(s)) % 2)
    assert dropped.n_rows == len(s) - 2
    with pytest.raises(InputError, match="first at row 7"):
        dropped.predict(s, data.q)


def test_masked_scores_count_as_missing(data):
    masked = np.ma.masked_array(data.s, mask=np.arange(len(data.s)) < 3)
    with pytest.raises(InputError, match="3 missing"):
        coad.select_thresholds(masked, data.q)


def test_a_context_gap_in_a_dropped_row_does_not_matter(data):
    s, context = data.s.copy(), np.where(np.arange(len(data.s)) % 2, "a", "b").astype(object)
    s[5], context[5] = np.nan, None
    assert coad.select_thresholds(s, data.q, context=context, missing="drop").n_strata == 2


def test_huge_and_tiny_beta_are_recall_and_precision(data):
    for huge in (1e154, 1e300, math.inf):
        assert coad.select_thresholds(
            data.s, data.q, beta=huge, n_permutations=0
        ).recall_hat == pytest.approx(1)
    assert coad.select_thresholds(data.s, data.q, beta=1e-300, n_permutations=0).precision_hat == 1


def test_many_small_strata_are_handled():
    rng = np.random.default_rng(0)
    event = rng.random(1500) < 0.05
    s, q = rng.normal(size=(2, 1500)) + 4 * event
    result = coad.select_thresholds(s, q, context=rng.integers(0, 150, 1500))
    assert result.status == "found"
    assert result.interval[1] <= 1
    assert event[result.predict(s, q)].mean() > 0.5  # ten rows a stratum tell little


def test_a_few_long_events_are_not_a_regime():
    rng = np.random.default_rng(1)
    event = np.zeros(3000, dtype=bool)
    event[500:550] = event[2000:2050] = True
    s, q = rng.normal(size=(2, 3000)) + 4 * event
    assert coad.select_thresholds(s, q).status == "found"


def test_strings_that_are_numbers_integers_and_lists_are_welcome(data):
    n = 200
    numbers = (data.s[:n] * 10).astype(int)
    as_text = coad.select_thresholds(numbers.tolist(), numbers.astype(str))
    assert as_text.n_rows == n
    assert as_text == coad.select_thresholds(numbers.astype(float), numbers.astype(float))
