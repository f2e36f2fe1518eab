"""Networks also learn what is merely correlated: their background, and a rule's correlation in the one engine."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from makers import correlated_noise, write_parquet

pytest.importorskip("torch")

import coad
from coad import CoAD
from coad.core.assessment import RowScores, assess
from coad.core.copula import joint_exceedance
from coad.core.rule import Rule
from coad.exceptions import InputError, NoCoincidenceWarning
from coad.learned.background import FitScores, judge_background


def columns(n, rho, seed):
    """Three columns an input; the first ones are correlated."""
    s, q = np.random.default_rng(seed).normal(size=(2, n, 3))
    s[:, 0], q[:, 0] = correlated_noise(n, rho, seed)
    return s, q


def quick(**settings):
    return CoAD(
        **(
            {"n_starts": 2, "epochs": 40, "ordered": False, "random_state": 0, "background": "auto"}
            | settings
        )
    )


@pytest.fixture(scope="module")
def noise():
    return columns(1500, 0.6, 0)


def test_correlated_noise_is_no_coincidence_unless_inputs_are_taken_for_independent(noise, tmp_path):
    s, q = noise
    believed = quick(background="independent").fit(s, q)
    assert believed.status_ != "no coincidence"
    assert believed.background_.why == "asked for"
    with pytest.warns(NoCoincidenceWarning, match="correlated inputs do as well .* the bulk has ρ = 0.5"):
        det = quick().fit(s, q)
    assert (det.status_, det.background_.kind) == ("no coincidence", "correlated")
    assert det.p_value_ > det.significance
    assert not det.predict(s, q).any()
    det.save(tmp_path / "m")
    again = coad.load(tmp_path / "m")
    assert again.background_ == det.background_
    assert (again.background, again.rule_) == ("auto", det.rule_)


def test_events_are_found_beside_the_correlation_that_is_measured():
    s, q = columns(1500, 0.0, 1)
    s[:90, 1:] += 3
    q[:90, 1:] -= 3
    det, plain = (quick(background=kind).fit(s, q) for kind in ("auto", "independent"))
    assert det.status_ == plain.status_ == "found"
    assert det.background_.rho < 0.15
    assert np.array_equal(det.predict(s, q), plain.predict(s, q)), (
        "the networks and the thresholds are the same"
    )
    assert det.evaluate(s, q).precision_hat <= plain.evaluate(s, q).precision_hat
    before = det.rule_
    det.tune(s, q, beta=0.5)
    assert det.rule_.correlation == pytest.approx(before.correlation, abs=1e-9)
    assert det.rule_.correlation_uncertainty == before.correlation_uncertainty


def test_the_command_fits_with_the_background_that_is_asked_for(noise, tmp_path, run_coad):
    named = {f"{side}{i}": x[:, i] for side, x in zip("sq", noise, strict=True) for i in range(3)}
    write_parquet(tmp_path / "x.parquet", named)
    fit = (
        "fit",
        tmp_path / "x.parquet",
        "--s",
        "s*",
        "--q",
        "q*",
        "--starts",
        1,
        "--epochs",
        30,
        "--unordered",
    )
    code, text, errors = run_coad(*fit, "--background", "auto", "--out", tmp_path / "m")
    assert code == 0, errors
    assert "background: correlated (the bulk has ρ = 0.5" in text
    code, text, errors = run_coad(*fit, "--out", tmp_path / "plain")
    assert code == 0, errors
    assert "background:" not in text
    assert coad.load(tmp_path / "plain").background == "independent"


def test_a_background_that_is_none_is_refused_at_the_fit():
    with pytest.raises(InputError, match="background must be one of 'auto', 'independent', 'correlated'"):
        quick(background="gaussian").fit(*columns(100, 0.0, 0))


def scores(p_s, p_q, held):
    return FitScores(p_s, p_q, None, held)


def fitted():
    return SimpleNamespace(rule=Rule(1.0, 0.1), status="found", p_value=0.005, background=None)


def test_confidences_without_a_bulk_are_judged_as_independent_and_say_so():
    flags = np.arange(400) < 30
    own = fitted()
    p = np.where(flags, 0.99, 0.01)  # two values: nothing to rank among the quiet rows
    judge_background(own, scores(p, p, np.arange(400) % 5 == 0), "auto", 0.01, 0)
    assert own.background.kind == "independent"
    assert "no correlation can be measured" in own.background.why
    assert (own.status, own.rule.correlation, own.p_value) == ("found", 0.0, 0.005)


def test_contexts_are_ranked_apart():
    code = np.repeat([0, 1], 2000)
    p_s, p_q = (1 / (1 + np.exp(3 - x)) for x in correlated_noise(4000, 0.0, 3) + 2.0 * code)
    held = np.arange(4000) % 5 == 0
    pooled, apart = fitted(), fitted()
    judge_background(pooled, FitScores(p_s, p_q, None, held), "auto", 0.01, 0)
    judge_background(apart, FitScores(p_s, p_q, code, held), "auto", 0.01, 0)
    assert pooled.background.rho > 0.3
    assert apart.background.rho < 0.1


def product_of(rho, seed, n=3000):
    s, q = correlated_noise(n, rho, seed)
    p_s, p_q = (1 / (1 + np.exp(4 - 2 * x)) for x in (s, q))
    return RowScores(p_s, p_q, p_s * p_q, p_s * p_q >= 0.25)


def test_a_threshold_of_the_product_is_judged_with_the_correlation_of_the_rule():
    rule = Rule(1.0, 0.05, product=0.25)
    with_rho = replace(rule, correlation=0.5, correlation_uncertainty=0.02)
    few = [assess(product_of(0.5, seed), with_rho, ordered=False).p_value <= 0.05 for seed in range(10)]
    assert sum(few) <= 3
    assert assess(product_of(0.5, 0), rule, ordered=False).p_value < 0.01
    far = product_of(0.5, 1)
    both = np.arange(3000) < 60
    p = np.where(both, 0.95, far.p_s), np.where(both, 0.95, far.p_q)
    found = assess(RowScores(*p, p[0] * p[1], p[0] * p[1] >= 0.25), with_rho, ordered=False)
    assert found.p_value < 0.01


def test_numbers_that_are_flags_have_the_null_of_flags():
    s, q = correlated_noise(4000, 0.4, 0)
    flags = (s > 1.2).astype(float), (q > 1.0).astype(float)
    rule = Rule(1.0, 0.05, product=0.5, correlation=0.4)
    judged = assess(RowScores(*flags, flags[0] * flags[1], flags[0] * flags[1] > 0), rule, ordered=False)
    expected = 4000 * joint_exceedance(flags[0].mean(), flags[1].mean(), 0.4)
    assert judged.null_joint.mean() == pytest.approx(float(expected), rel=0.03)


def test_an_uncertain_correlation_of_the_rule_widens_its_intervals():
    s, q = correlated_noise(3000, 0.3, 0)
    s[:100] += 3
    q[:100] += 3
    rule = Rule(1.0, 0.03, thresholds=(1.5, 1.5), correlation=0.3)
    rows = RowScores(s, q, s, (s >= 1.5) & (q >= 1.5))
    sure, unsure = (
        assess(rows, replace(rule, correlation_uncertainty=error), ordered=False).intervals.precision_hat
        for error in (0.0, 0.2)
    )
    assert unsure[0] < sure[0]
    assert unsure[1] > sure[1]


def test_a_scan_counts_chance_as_the_thresholds_do():
    s, q = correlated_noise(2000, 0.5, 0)
    s[:60] += 3
    q[:60] += 3
    (point,) = coad.beta_scan(s, q, betas=[1.0])
    result = coad.select_thresholds(s, q, n_permutations=0)
    assert (point.threshold_s, point.threshold_q) == (result.threshold_s, result.threshold_q)
    assert point.fbeta_hat == pytest.approx(result.fbeta_hat)
    (plain,) = coad.beta_scan(s, q, betas=[1.0], background="independent")
    assert plain.n_joint > 2 * point.n_joint, "without it, correlated rows pass for events"
    assert coad.beta_scan(s, q, betas=[1.0], naive=True)[0].n_joint
    with pytest.raises(InputError, match="D_naive takes the inputs for independent"):
        coad.beta_scan(s, q, naive=True, background="correlated")


def test_a_model_from_before_keeps_the_independent_background():
    det = coad.load(Path(__file__).parent / "models" / "format_2" / "dismissed")
    assert det.background == "independent"
    assert det.background_.kind == "independent"
    assert "saved the model" in det.background_.why
    assert det.rule_.correlation == 0
