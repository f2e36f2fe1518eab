"""The paper's theorems, as properties, and theory.py against slow and obvious references."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from coad.core.metric import (
    false_positive_fraction,
    fbeta_hat,
    naive_false_positive_fraction,
    precision_hat,
    recall_hat,
)
from coad.core.moments import Moments
from coad.core.theory import (
    MNIST_B,
    MNIST_W,
    OverlappingSets,
    best_mnist_labels,
    best_response,
    best_set_labels,
    critical_beta,
    mnist_observation_model,
    mnist_pair_distribution,
    pseudo_target_constants,
    simplified_mnist,
)
from coad.exceptions import InputError, UndefinedMetricWarning

BETAS = (0.0, 0.05, 0.3, 1.0, 10.0, math.inf)
betas = st.sampled_from(BETAS)
alphas = st.floats(0.001, 0.5)
unit = st.floats(0.0, 1.0)
checked = settings(deadline=None, max_examples=100)


def _value(mu_s: float, mu_q: float, joint: float, beta: float, alpha: float) -> float:
    """F̂β straight from the paper's formula, for reference."""
    tp = (joint - mu_s * mu_q) * (1 - joint) / ((1 - mu_s) * (1 - mu_q))
    return tp / alpha if math.isinf(beta) else (1 + beta**2) * tp / (joint + alpha * beta**2)


# --- the lower bound ---------------------------------------------------------


@st.composite
def conditionally_independent(draw: st.DrawFn) -> tuple[float, Moments, float]:
    """α, the moments and the true FP fraction of two models no worse than random."""
    alpha = draw(alphas)
    normal_s, normal_q = draw(st.floats(0.0, 0.99)), draw(st.floats(0.0, 0.99))
    anomalous_s, anomalous_q = draw(st.floats(normal_s, 1.0)), draw(st.floats(normal_q, 1.0))
    joint = alpha * anomalous_s * anomalous_q + (1 - alpha) * normal_s * normal_q
    assume(joint > 1e-9)
    mu_s = alpha * anomalous_s + (1 - alpha) * normal_s
    mu_q = alpha * anomalous_q + (1 - alpha) * normal_q
    return alpha, Moments(1.0, mu_s, mu_q, joint), (1 - alpha) * normal_s * normal_q


@checked
@given(conditionally_independent(), betas)
def test_metric_is_a_lower_bound_of_its_supervised_counterpart(case, beta):
    alpha, m, false_positives = case
    true_positives = m.mu_sq - false_positives
    assert false_positive_fraction(m) >= false_positives - 1e-12
    supervised = (
        true_positives / alpha
        if math.isinf(beta)
        else (1 + beta**2) * true_positives / (m.mu_sq + alpha * beta**2)
    )
    slack = 1e-12 / min(alpha, m.mu_sq)
    assert fbeta_hat(m, beta=beta, alpha=alpha) <= supervised + slack
    assert precision_hat(m) <= true_positives / m.mu_sq + slack
    assert recall_hat(m, alpha=alpha) <= true_positives / alpha + slack


@checked
@given(conditionally_independent())
def test_estimated_false_positives_never_exceed_the_naive_estimate(case):
    _, m, _ = case
    assert false_positive_fraction(m) <= naive_false_positive_fraction(m) + 1e-12


def test_lower_bound_needs_conditional_independence():
    # A shared regime within the normal class: the bound must break, or the tests above test nothing.
    m = Moments(1.0, 0.3, 0.3, 0.05 + 0.25)  # 5 % anomalies, and normal rows that agree in 25 %
    assert fbeta_hat(m, beta=1, alpha=0.05) > 2 * 0.05 / (0.3 + 0.05)


@st.composite
def confidences(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(2, 12))
    flags = draw(st.booleans())
    value = st.sampled_from([0.0, 1.0]) if flags else st.floats(0.0, 1.0)
    pick = st.lists(value, min_size=n, max_size=n).map(np.array)
    return draw(pick), draw(pick)


@checked
@given(confidences(), alphas)
def test_recall_hat_is_at_least_the_covariance_over_alpha(p, alpha):
    p_s, p_q = p
    covariance = float(np.mean(p_s * p_q) - p_s.mean() * p_q.mean())
    # The paper leaves out that the covariance must not be negative; then the inequality turns round.
    assume(covariance >= 0 and p_s.mean() < 0.999 and p_q.mean() < 0.999)
    assert recall_hat(Moments.of(p_s, p_q), alpha=alpha) >= covariance / alpha - 1e-9


# --- monotonicity ------------------------------------------------------------


@st.composite
def domain_points(draw: st.DrawFn) -> tuple[float, float, float]:
    """(mu_s, mu_q, J) with 0 < J ≤ mu_s, mu_q ≤ 0.5, covariance of either sign."""
    mu_s, mu_q = draw(st.floats(0.001, 0.5)), draw(st.floats(0.001, 0.5))
    return mu_s, mu_q, draw(st.floats(0.01, 1.0)) * min(mu_s, mu_q)


@checked
@given(domain_points(), unit, betas, alphas)
def test_fbeta_hat_grows_with_the_joint_fraction(point, step, beta, alpha):
    mu_s, mu_q, joint = point
    more = joint + step * (min(mu_s, mu_q) - joint)
    before = fbeta_hat(Moments(1.0, mu_s, mu_q, joint), beta=beta, alpha=alpha)
    after = fbeta_hat(Moments(1.0, mu_s, mu_q, more), beta=beta, alpha=alpha)
    assert after >= before - 1e-9 * (1 + abs(before))


@checked
@given(domain_points(), unit, st.booleans(), betas, alphas)
def test_fbeta_hat_falls_as_a_marginal_grows(point, step, of_s, beta, alpha):
    mu_s, mu_q, joint = point
    more_s = mu_s + step * (0.5 - mu_s) if of_s else mu_s
    more_q = mu_q if of_s else mu_q + step * (0.5 - mu_q)
    before = fbeta_hat(Moments(1.0, mu_s, mu_q, joint), beta=beta, alpha=alpha)
    after = fbeta_hat(Moments(1.0, more_s, more_q, joint), beta=beta, alpha=alpha)
    assert after <= before + 1e-9 * (1 + abs(before))


# --- best response -----------------------------------------------------------


@st.composite
def responses(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """w(q) with ties and its probabilities, with mean in (0, 0.5]."""
    size = draw(st.integers(1, 6))
    w = np.array(draw(st.lists(st.sampled_from(np.linspace(0, 1, 8).tolist()), min_size=size, max_size=size)))
    mass = np.array(draw(st.lists(st.integers(1, 20), min_size=size, max_size=size)), dtype=float)
    weight = mass / mass.sum()
    assume(0.01 < w @ weight <= 0.5)
    return w, weight


@checked
@given(responses(), betas, alphas)
def test_best_response_reports_what_its_labels_give(case, beta, alpha):
    w, weight = case
    best = best_response(w, float(w @ weight), beta=beta, alpha=alpha, weight=weight)
    mu_q, joint = float(best.p_q @ weight), float((best.p_q * w) @ weight)
    assert mu_q <= 0.5 + 1e-12
    assert best.moments.mu_q == pytest.approx(mu_q, abs=1e-12)
    assert best.moments.mu_sq == pytest.approx(joint, abs=1e-12)
    assert best.moments.mu_s == pytest.approx(float(w @ weight), abs=1e-12)
    assert best.fbeta_hat == pytest.approx(_value(float(w @ weight), mu_q, joint, beta, alpha), abs=1e-9)
    expected = np.where(w > best.tau, 1.0, np.where(w == best.tau, best.rho, 0.0))
    assert np.array_equal(best.p_q, expected)
    if 0 < best.rho < 1:
        assert mu_q == pytest.approx(0.5, abs=1e-12)


@checked
@given(responses(), betas, alphas, st.integers(0, 2**32 - 1))
def test_no_random_response_beats_the_best_one(case, beta, alpha, seed):
    w, weight = case
    best = best_response(w, beta=beta, alpha=alpha, weight=weight).fbeta_hat
    rng = np.random.default_rng(seed)
    tries = np.concatenate(
        [rng.random((100, len(w))), rng.beta(0.1, 0.1, (100, len(w))), rng.integers(0, 2, (100, len(w)))]
    )
    scale = np.minimum(1.0, 0.5 / np.maximum(tries @ weight, 1e-12))  # back into mu_q ≤ 0.5
    for p_q in tries * scale[:, None]:
        joint = float((p_q * w) @ weight)
        if joint > 1e-9:
            assert _value(float(w @ weight), float(p_q @ weight), joint, beta, alpha) <= best + 1e-9 * (
                1 + best
            )


def test_best_response_equals_an_exhaustive_grid():
    rng = np.random.default_rng(7)
    grid = np.array(list(itertools.product(np.linspace(0, 1, 9), repeat=4)))
    reached = 0
    for case in range(120):
        # eighths, so that the grid holds every vertex and the tight solutions too
        weight = np.array([0.25] * 4) if case % 2 else np.array([0.5, 0.25, 0.125, 0.125])
        w = rng.integers(0, 9, 4) / 8
        mu_s = float(w @ weight)
        if not 0 < mu_s <= 0.5:
            continue
        beta, alpha = float(rng.choice(BETAS)), float(rng.uniform(0.01, 0.5))
        mu_q, joint = grid @ weight, grid @ (w * weight)
        allowed = (mu_q <= 0.5) & (joint > 0)
        values = [_value(mu_s, a, b, beta, alpha) for a, b in zip(mu_q[allowed], joint[allowed], strict=True)]
        best = best_response(w, beta=beta, alpha=alpha, weight=weight)
        assert max(values) <= best.fbeta_hat + 1e-12
        reached += max(values) >= best.fbeta_hat - 1e-12
    assert reached >= 40


def test_best_response_equals_a_numerical_optimiser():
    rng = np.random.default_rng(11)
    gaps = []
    for _ in range(25):
        w, weight = rng.random(4) * 0.7, rng.dirichlet(np.ones(4))
        mu_s, beta, alpha = (
            float(w @ weight),
            float(rng.choice([0.05, 1.0, 10.0])),
            float(rng.uniform(0.02, 0.5)),
        )
        if mu_s > 0.5:
            continue

        def loss(p, w=w, weight=weight, mu_s=mu_s, beta=beta, alpha=alpha):
            return -_value(mu_s, float(p @ weight), float((p * w) @ weight), beta, alpha)

        limit = {"type": "ineq", "fun": lambda p, weight=weight: 0.5 - p @ weight}
        starts = [*np.eye(4) * 0.4, *rng.random((4, 4)) * 0.5]
        found = [
            minimize(loss, start, bounds=[(0, 1)] * 4, constraints=[limit], method="SLSQP")
            for start in starts
        ]
        feasible = [-r.fun for r in found if r.x @ weight <= 0.5 + 1e-9]
        best = best_response(w, beta=beta, alpha=alpha, weight=weight).fbeta_hat
        assert max(feasible) <= best + 1e-6
        gaps.append(best - max(feasible))
    assert np.median(gaps) < 1e-5  # the optimiser does get there, so the bound above is a test


def test_stopping_inside_a_tie_is_never_better_than_at_its_ends():
    """Also below mu_s, where the paper's convexity argument does not reach."""
    rng = np.random.default_rng(3)
    below = 0
    for _ in range(3000):
        weight, w = rng.dirichlet(np.ones(3)), -np.sort(-rng.beta(0.5, 1.0, 3))
        mu_s = float(w @ weight)
        if not 1e-3 < mu_s <= 0.5:
            continue
        alpha, beta = 0.1, float(rng.choice(BETAS))
        ends = np.concatenate(([0.0], np.cumsum(weight)))
        for k in range(3):
            if ends[k] >= 0.5:
                break
            gamma = np.linspace(max(ends[k], 1e-6), min(ends[k + 1], 0.5), 21)
            joint = float(w[:k] @ weight[:k]) + w[k] * (gamma - ends[k])
            values = np.asarray(
                fbeta_hat(Moments(1.0, np.full(21, mu_s), gamma, joint), beta=beta, alpha=alpha)
            )
            assert values.max() <= max(values[0], values[-1]) + 1e-12
            below += bool(w[k] < mu_s)
    assert below > 500


@checked
@given(responses(), st.floats(0.05, 5.0), alphas, st.floats(0.2, 1.0))
def test_only_alpha_beta_squared_matters_for_the_optimum(case, beta, alpha, factor):
    w, weight = case
    one = best_response(w, beta=beta, alpha=alpha, weight=weight)
    other_beta = beta / math.sqrt(factor)
    other = best_response(w, beta=other_beta, alpha=alpha * factor, weight=weight)
    # Values agree up to the constant 1 + β²; labels do unless two candidates tie to rounding.
    ratio = (1 + other_beta**2) / (1 + beta**2)
    assert other.fbeta_hat == pytest.approx(one.fbeta_hat * ratio, rel=1e-9, abs=1e-12)
    cross = fbeta_hat(other.moments, beta=beta, alpha=alpha)
    assert cross == pytest.approx(one.fbeta_hat, rel=1e-9, abs=1e-12)


@checked
@given(responses(), st.sampled_from([0.0, math.inf]), alphas, alphas)
def test_optima_of_precision_and_recall_do_not_depend_on_alpha(case, beta, alpha, other):
    w, weight = case
    one = best_response(w, beta=beta, alpha=alpha, weight=weight)
    two = best_response(w, beta=beta, alpha=other, weight=weight)
    assert fbeta_hat(two.moments, beta=beta, alpha=alpha) == pytest.approx(one.fbeta_hat, rel=1e-9, abs=1e-12)


def test_alpha_matters_for_the_optimum_between_precision_and_recall():
    w = [1.0, 0.6, 0.1, 0.1, 0.1, 0.1]
    assert best_response(w, beta=1, alpha=0.001).tau == 1.0
    assert best_response(w, beta=1, alpha=0.5).tau == 0.6


def test_a_tie_across_one_half_is_shared_evenly():
    best = best_response([0.6, 0.6, 0.6, 0.0], beta=1, alpha=0.4)
    assert best.rho == pytest.approx(2 / 3)
    assert best.p_q == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0.0])
    assert best.moments.mu_q == pytest.approx(0.5)


def test_values_of_q_without_probability_decide_nothing():
    best = best_response([1.0, 0.5, 0.1], beta=0, weight=[0.0, 0.3, 0.7])
    assert best.tau == 0.5
    assert best.p_q.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"w": [0.9, 0.8]}, "mean of p_s"),
        ({"w": [0.0, 0.0]}, "mean of p_s"),
        ({"w": [0.1, 1.2]}, "must lie in"),
        ({"w": [0.1, math.nan]}, "must lie in"),
        ({"w": []}, "one value per q"),
        ({"w": [0.1, 0.2], "mu_s": 0.4}, "mean of w is 0.15"),
        ({"w": [0.1, 0.2], "mu_s": math.nan}, "mean of w is 0.15"),
        ({"w": [0.1, 0.2], "weight": [1.0]}, "shape"),
        ({"w": [0.1, 0.2], "weight": [0.7, 0.7]}, "sum to 1"),
        ({"w": [0.1, 0.2], "alpha": 0.6}, "alpha"),
        ({"w": [0.1, 0.2], "beta": -1.0}, "beta"),
    ],
)
def test_best_response_says_what_is_wrong_with_its_input(arguments, message):
    with pytest.raises(InputError, match=message):
        best_response(**{"beta": 1.0, "alpha": 0.1, **arguments})


# --- overlapping sets --------------------------------------------------------


@st.composite
def overlaps(draw: st.DrawFn, switching: bool = False) -> OverlappingSets:
    """Any scenario the theorem covers; with ``switching``, one with a finite critical β above 0."""
    alpha = draw(st.floats(0.01, 0.4))
    room = (0.5 - alpha) / (1 - alpha)
    none = st.nothing() if switching else st.just(0.0)
    noise = none | st.floats(0.02, room * 0.999)
    b_normal, c_normal = draw(noise), draw(noise)
    least = b_normal * c_normal + 0.01 if switching else 0.001
    b_anomalous = draw(none | st.floats(least, 0.9))
    c_anomalous = draw(st.just(b_anomalous) | st.floats(max(b_anomalous, 0.001), 0.95))
    return OverlappingSets(alpha, b_anomalous, b_normal, c_anomalous, c_normal)


def _global_optimum(sets: OverlappingSets, beta: float) -> float:
    """Exact: every nearly categorical p_s, in any order of the three pieces, with its best response."""
    piece = np.array([sets.alpha * (1 - sets.b_anomalous), 0.0, (1 - sets.alpha) * (1 - sets.b_normal)])
    piece[1] = 1 - piece.sum()
    candidates = set()
    for order in itertools.permutations(range(3)):
        labels, room = [0.0, 0.0, 0.0], 0.5
        for k in order:
            labels[k] = 1.0 if piece[k] <= room else room / piece[k]
            room -= labels[k] * piece[k]
            candidates.add(tuple(labels))
            if room <= 1e-12:
                break
    return max(_against(sets, labels, beta) for labels in candidates)


def _against(sets: OverlappingSets, labels_s: tuple[float, ...], beta: float) -> float:
    anomalous, noisy, normal = labels_s
    within = (1 - sets.b_anomalous) * anomalous + sets.b_anomalous * noisy
    outside = (1 - sets.b_normal) * normal + sets.b_normal * noisy
    mass = np.array([sets.alpha, 1 - sets.alpha])
    clear = mass * [1 - sets.c_anomalous, 1 - sets.c_normal]
    mixed = mass * [sets.c_anomalous, sets.c_normal]
    mixed_w = (mixed @ [within, outside]) / mixed.sum() if mixed.sum() > 0 else 0.0
    w, weight = np.array([within, mixed_w, outside]), np.array([clear[0], mixed.sum(), clear[1]])
    if not 1e-12 < w @ weight <= 0.5 + 1e-12:
        return 0.0
    return best_response(np.clip(w, 0, 1), beta=beta, alpha=sets.alpha, weight=weight).fbeta_hat


@checked
@given(overlaps(), betas)
def test_set_labels_of_the_theorem_are_the_global_optimum(sets, beta):
    # P(B | A) < P(B | Aᶜ) is drawn too: the paper's last condition is not needed for this.
    m = sets.moments(*best_set_labels(sets, beta))
    value = fbeta_hat(m, beta=beta, alpha=sets.alpha)
    assert value == pytest.approx(_global_optimum(sets, beta), rel=1e-9, abs=1e-9)


@checked
@given(overlaps(), betas)
def test_no_categorical_labelling_of_the_sets_is_better(sets, beta):
    value = fbeta_hat(sets.moments(*best_set_labels(sets, beta)), beta=beta, alpha=sets.alpha)
    for labels in itertools.product((0.0, 1.0), repeat=6):
        m = sets.moments(labels[:3], labels[3:])
        if m.mu_sq > 1e-12 and m.mu_s <= 0.5 and m.mu_q <= 0.5:
            assert _value(m.mu_s, m.mu_q, m.mu_sq, beta, sets.alpha) <= value + 1e-9


@checked
@given(overlaps(switching=True))
def test_noisy_set_is_flagged_just_above_the_critical_beta_and_not_just_below(sets):
    switch = critical_beta(sets)
    assert 0 < switch < math.inf

    def flagged_minus_not(beta: float) -> float:
        flagged, clear = sets.moments((1, 1, 0), (1, 1, 0)), sets.moments((1, 0, 0), (1, 1, 0))
        return fbeta_hat(flagged, beta=beta, alpha=sets.alpha) - fbeta_hat(clear, beta=beta, alpha=sets.alpha)

    assert flagged_minus_not(switch * 1.01) > 0 > flagged_minus_not(switch * 0.99)
    assert flagged_minus_not(switch) == pytest.approx(0.0, abs=1e-9)  # unlike the paper's lemma has it
    assert best_set_labels(sets, switch * 1.01)[0] == (1.0, 1.0, 0.0)
    assert best_set_labels(sets, switch * 0.99)[0] == (1.0, 0.0, 0.0)


@checked
@given(overlaps(switching=True))
def test_critical_beta_agrees_with_the_formula_as_the_paper_prints_it(sets):
    a, b1, b0, c0 = sets.alpha, sets.b_anomalous, sets.b_normal, sets.c_normal
    normal = 1 - a
    p = {
        "A-B": a * (1 - b1),
        "A&B": a * b1,
        "Ac&B&C": normal * b0 * c0,
        "(Ac-B)&C": normal * (1 - b0) * c0,
        "Ac-B": normal * (1 - b0),
        "(Ac-C)&B": normal * (1 - c0) * b0,
        "Ac-C": normal * (1 - c0),
    }
    chance = p["(Ac-B)&C"] / p["Ac-B"] * p["(Ac-C)&B"] / p["Ac-C"]
    z = p["A&B"] + p["Ac&B&C"] - chance
    assert critical_beta(sets) ** 2 == pytest.approx(p["A-B"] / a * chance / z, rel=1e-9)


def test_noise_that_is_mostly_normal_is_never_flagged_even_for_recall():
    sets = OverlappingSets(alpha=0.1, b_anomalous=0.01, b_normal=0.3, c_anomalous=0.1, c_normal=0.3)
    assert critical_beta(sets) == math.inf
    assert best_set_labels(sets, math.inf)[0] == (1.0, 0.0, 0.0)


def test_an_empty_overlap_leaves_nothing_to_decide():
    sets = OverlappingSets(alpha=0.1, b_anomalous=0.0, b_normal=0.0, c_anomalous=0.2, c_normal=0.2)
    assert critical_beta(sets) == 0.0
    values = {fbeta_hat(sets.moments((1, b, 0), (1, 1, 0)), beta=1, alpha=0.1) for b in (0, 1)}
    assert len(values) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"alpha": 0.6}, "alpha, the anomaly rate"),
        ({"alpha": math.nan}, "alpha is a probability"),
        ({"b_normal": 0.6}, "P\\(A ∪ B\\)"),
        ({"c_normal": 0.6}, "P\\(A ∪ C\\)"),
        ({"c_anomalous": 1.0}, "clear in both"),
        ({"b_anomalous": 0.4}, "exchange the two inputs"),
        ({"c_normal": -0.1}, "c_normal is a probability"),
    ],
)
def test_overlapping_sets_check_the_conditions_of_the_theorem(changed, message):
    good = {"alpha": 0.1, "b_anomalous": 0.2, "b_normal": 0.1, "c_anomalous": 0.3, "c_normal": 0.2}
    with pytest.raises(InputError, match=message):
        OverlappingSets(**{**good, **changed})


def test_set_labels_and_beta_are_checked():
    sets = OverlappingSets(0.1, 0.2, 0.1, 0.3, 0.2)
    with pytest.raises(InputError, match="three numbers"):
        sets.moments((1, 0), (1, 1, 0))
    with pytest.raises(InputError, match="three numbers"):
        sets.moments((1, 2, 0), (1, 1, 0))
    with pytest.raises(InputError, match="beta"):
        best_set_labels(sets, -1.0)


# --- simplified MNIST --------------------------------------------------------


def test_simplified_mnist_labels_are_those_of_the_paper():
    assert best_mnist_labels(0.05, alpha=0.15) == (0, 1, 0, 0)
    assert best_mnist_labels(1.0, alpha=0.15) == (0, 1, 1, 0)
    assert best_mnist_labels(math.inf, alpha=0.15) == (0, 1, 1, 1)
    switches = [(0.135, (0, 1, 0, 0)), (0.136, (0, 1, 1, 0)), (1.545, (0, 1, 1, 0)), (1.546, (0, 1, 1, 1))]
    for beta, labels in switches:
        assert best_mnist_labels(beta, alpha=0.15) == labels


def test_equal_blurred_masses_would_not_give_the_labels_of_the_paper():
    """The other reading of "symmetrically": same order of labels, but not at the β of the paper's table."""
    w, b = np.array(MNIST_W), np.array(MNIST_B)
    channel = mnist_observation_model(MNIST_B)
    channel[0, 1:] = b * w[1:] / w[0]
    channel[0, 0] = 1 - channel[0, 1:].sum()
    table = channel.T @ (w[:, None] * channel)
    assert table.sum(0) == pytest.approx(w)  # its charm: the frequencies stay

    def value(y: tuple[int, ...], beta: float) -> float:
        labels = np.array(y, dtype=float)
        return _value(labels @ table.sum(1), labels @ table.sum(0), labels @ table @ labels, beta, 0.15)

    labellings = [y for y in itertools.product((0, 1), repeat=4) if 0 < table.sum(0) @ y <= 0.5]
    assert max(labellings, key=lambda y: value(y, 0.05)) == (0, 1, 1, 0)
    assert max(labellings, key=lambda y: value(y, 1.0)) == (0, 1, 1, 1)


def test_mnist_pair_distribution_matches_blurring_pair_by_pair():
    rng = np.random.default_rng(5)
    n = 400_000
    digit = rng.choice(4, n, p=MNIST_W)

    def blur(digits: np.ndarray) -> np.ndarray:
        u, shown = rng.random(n), digits.copy()
        for i, chance in enumerate(MNIST_B, start=1):
            shown[(digits == i) & (u < chance)] = 0
        edges = np.cumsum(MNIST_B)
        for i, (low, high) in enumerate(zip([0.0, *edges[:-1]], edges, strict=True), start=1):
            shown[(digits == 0) & (low <= u) & (u < high)] = i
        return shown

    counts = np.zeros((4, 4))
    np.add.at(counts, (blur(digit), blur(digit)), 1)
    table = mnist_pair_distribution()
    assert table.sum() == pytest.approx(1.0)
    assert np.abs(counts / n - table).max() < 5 * math.sqrt(0.25 / n)


@checked
@given(st.lists(unit, min_size=3, max_size=3), st.lists(unit, min_size=4, max_size=4), betas, alphas)
def test_closed_form_of_simplified_mnist_agrees_with_the_pair_table(b, labels, beta, alpha):
    b = [value / 3 for value in b]
    y = np.array(labels)
    table = mnist_pair_distribution(MNIST_W, b)
    mu, joint = float(y @ table.sum(1)), float(y @ table @ y)
    assume(joint > 1e-6 and mu < 0.999)
    value = simplified_mnist(labels, beta=beta, alpha=alpha, b=b)
    assert value == pytest.approx(_value(mu, mu, joint, beta, alpha), rel=1e-7, abs=1e-9)


def test_a_digit_that_never_shows_is_not_flagged():
    assert best_mnist_labels(1.0, w=(0.9, 0.1, 0.0, 0.0), b=(0.1, 0.0, 0.0)) == (0, 1, 0, 0)


def test_mnist_alpha_is_by_default_the_share_of_anomalous_pairs():
    assert simplified_mnist([0, 1, 1, 1], beta=1) == pytest.approx(
        simplified_mnist([0, 1, 1, 1], beta=1, alpha=0.15), rel=1e-12
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0, 1]}, "one per digit"),
        ({"labels": [0, 1, 2, 0]}, "one per digit"),
        ({"w": (0.5, 0.5)}, "4 frequencies"),
        ({"w": (0.9, 0.1, 0.1, 0.1)}, "sum to 1"),
        ({"b": (0.5, 0.5, 0.5)}, "more than always"),
        ({"b": (0.5, -0.5, 0.5)}, "one probability per"),
    ],
)
def test_simplified_mnist_says_what_is_wrong_with_its_input(arguments, message):
    with pytest.raises(InputError, match=message):
        simplified_mnist(**{"labels": [0, 1, 1, 1], "beta": 1.0, **arguments})


# --- gradients ---------------------------------------------------------------


@checked
@given(domain_points(), betas, alphas)
def test_pseudo_target_constants_match_finite_differences(point, beta, alpha):
    mu_s, mu_q, joint = point
    c = pseudo_target_constants(Moments(1.0, mu_s, mu_q, joint), beta=beta, alpha=alpha)

    def slope(index: int) -> float:
        step = 1e-5 * joint
        up, down = list(point), list(point)
        up[index] += step
        down[index] -= step
        return (_value(*up, beta, alpha) - _value(*down, beta, alpha)) / (2 * step)

    assert c.c2_s == pytest.approx(-slope(0), rel=1e-4, abs=1e-4 * (1 + c.c1))
    assert c.c2_q == pytest.approx(-slope(1), rel=1e-4, abs=1e-4 * (1 + c.c1))
    assert c.c1 == pytest.approx(slope(2), rel=1e-4, abs=1e-4 * (1 + c.c2_s + c.c2_q))
    assert min(c.c1, c.c2_s, c.c2_q) >= 0


@checked
@given(domain_points(), betas, alphas)
def test_pseudo_target_constants_match_the_formulas_of_the_paper(point, beta, alpha):
    mu_s, mu_q, joint = point
    covariance = joint - mu_s * mu_q
    assume(covariance > 1e-3 * mu_s * mu_q and not math.isinf(beta))
    c = pseudo_target_constants(Moments(1.0, mu_s, mu_q, joint), beta=beta, alpha=alpha)
    value = _value(mu_s, mu_q, joint, beta, alpha)
    bracket = 1 / covariance - 1 / (1 - joint) - 1 / (joint + alpha * beta**2)
    assert c.c1 == pytest.approx(value * bracket, rel=1e-6, abs=1e-6 * value / joint)
    assert c.c2_s == pytest.approx(value * (mu_q - joint) / (covariance * (1 - mu_s)), rel=1e-6, abs=1e-9)
    assert c.c2_q == pytest.approx(value * (mu_s - joint) / (covariance * (1 - mu_q)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_pseudo_targets_are_the_gradient_that_autograd_finds(beta):
    torch = pytest.importorskip("torch", reason="torch is not installed: gradients are not compared")
    generator = torch.Generator().manual_seed(2)
    n, width, alpha = 40, 3, 0.2
    z_s, z_q = (torch.randn(n, width, generator=generator, dtype=torch.float64) for _ in range(2))
    w_s, w_q = (torch.randn(width, generator=generator, dtype=torch.float64) for _ in range(2))
    leaves = [z_s, w_s, z_q, w_q]
    for leaf in leaves:
        leaf.requires_grad_(True)
    p_s, p_q = torch.sigmoid(z_s @ w_s - 1), torch.sigmoid(z_q @ w_q - 1)
    moments = Moments.of(p_s, p_q)
    grads = torch.autograd.grad(fbeta_hat(moments, beta=beta, alpha=alpha), [*leaves, p_s, p_q])

    plain = Moments.of(p_s.detach().numpy(), p_q.detach().numpy())
    c = pseudo_target_constants(plain, beta=beta, alpha=alpha)
    for own, other, z, w, c2, got in (
        (p_s, p_q, z_s, w_s, c.c2_s, (grads[0], grads[1], grads[4])),
        (p_q, p_s, z_q, w_q, c.c2_q, (grads[2], grads[3], grads[5])),
    ):
        target = c.c1 * other - c2
        pull = target * own * (1 - own)
        torch.testing.assert_close(got[2], target / n)
        torch.testing.assert_close(got[1], (pull[:, None] * z).mean(0))
        torch.testing.assert_close(got[0], pull[:, None] * w / n)


def test_pseudo_targets_without_a_gradient_are_zero_and_announced():
    with pytest.warns(UndefinedMetricWarning, match="no gradient"):
        no_joint = pseudo_target_constants(Moments(4.0, 1.0, 1.0, 0.0), beta=0)
    with pytest.warns(UndefinedMetricWarning, match="no gradient"):
        all_flagged = pseudo_target_constants(Moments(4.0, 4.0, 1.0, 1.0), beta=1, alpha=0.1)
    for c in (no_joint, all_flagged):
        assert (c.c1, c.c2_s, c.c2_q) == (0.0, 0.0, 0.0)


def test_pseudo_targets_refuse_strata_and_bad_settings():
    with pytest.raises(InputError, match="strata"):
        pseudo_target_constants(Moments.of([1, 0], [1, 0], context=["a", "b"]), beta=1, alpha=0.1)
    m = Moments.of([1, 0, 0], [1, 0, 0])
    with pytest.raises(InputError, match="alpha"):
        pseudo_target_constants(m, beta=1)
    with pytest.raises(InputError, match="beta"):
        pseudo_target_constants(m, beta=-1, alpha=0.1)
