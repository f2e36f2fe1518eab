"""Dispersion of modes over regimes, and what follows for their role."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from coad import CoincidenceModes
from coad.modes import dispersion
from coad.modes.consensus import log_pair_evidence
from coad.modes.dispersion import effective_count, mode_dispersion, relative_dispersion
from coad.modes.roles import assign_roles

RNG = np.random.default_rng


def test_rows_at_random_are_in_all_regimes_and_those_of_two_regimes_are_not():
    home = RNG(0).integers(20, size=2000)
    assert effective_count(home) == pytest.approx(20, rel=0.02)
    assert effective_count(np.zeros(0, dtype=np.int64)) == 0.0
    assert relative_dispersion(home[:80], home, RNG(1)) == pytest.approx(1.0, abs=0.1)
    assert relative_dispersion(np.repeat([0, 1], 40), home, RNG(1)) == pytest.approx(0.1, abs=0.03)
    assert relative_dispersion(home[:0], home, RNG(1)) == 0.0


def test_evidence_that_rules_a_mode_out_can_still_be_compared():
    a = np.array([[1.0, 1e-30, 1e-35]], dtype=np.float32)
    found = log_pair_evidence(a, a, np.array([0.5, 0.25, 0.25]))
    assert np.isfinite(found).all()
    assert found[0].argsort().tolist() == [2, 1, 0]
    np.testing.assert_allclose(found[0, 0], np.log(2.0))


def rows_of_regimes_and_a_fault(rows=3000, regimes=12, rate=0.1):
    """Evidence: each row prefers its regime, then the next one; faults prefer mode ``regimes``, then their regime."""
    rng = RNG(0)
    home = rng.integers(regimes, size=rows)
    fit = rng.normal(size=(rows, regimes + 1))
    fit[np.arange(rows), home] += 20.0
    fit[np.arange(rows), (home + 1) % regimes] += 10.0
    faulty = rng.random(rows) < rate
    fit[faulty, regimes] += 40.0
    return fit, faulty


def dispersion_slowly(fit, group):
    """Take some modes away, and count where their rows go."""
    best = fit.argmax(1)
    rest = [k for k in range(fit.shape[1]) if k not in group]
    own = np.isin(best, group)
    goes = np.array([rest[int(np.argmax(row[rest]))] for row in fit[own]])
    return effective_count(goes) / effective_count(best[~own])


def found_in(fit, most, *, q_is_off=False, raw=False):
    """The dispersion by votes of s and q that make up the evidence ``fit``; q may take modes for their neighbours."""
    votes = softmax(fit / 2.0, axis=1)
    sizes = np.bincount(fit.argmax(1), minlength=fit.shape[1]) / len(fit)
    other = votes
    if q_is_off:
        faulty = fit.argmax(1) >= 12
        other = np.where(
            faulty[:, None], RNG(3).permuted(votes[:, :12], axis=1) @ np.eye(12, fit.shape[1]), votes
        )
        other[faulty, 12:] = votes[faulty, 12:]
    return mode_dispersion(votes, other, sizes, most, RNG(1))[0 if raw else 1]


def test_what_s_and_q_take_for_different_modes_comes_with_none_of_them():
    fit, _ = rows_of_regimes_and_a_fault()
    assert found_in(fit, 0.12)[-1] > 0.9
    assert found_in(fit, 0.12, q_is_off=True)[-1] == 0.0
    assert found_in(fit, 0.12, q_is_off=True, raw=True)[-1] > 0.9


def test_a_mode_that_occurs_in_every_regime_is_dispersed_and_a_regime_is_not(monkeypatch):
    fit, _ = rows_of_regimes_and_a_fault()
    found = found_in(fit, 0.12)  # room for one regime or the fault, not for two
    for mode in range(fit.shape[1]):
        assert found[mode] == pytest.approx(dispersion_slowly(fit, [mode]), rel=0.1)
    assert found[-1] > 0.9
    assert found[:-1].max() < 0.4
    monkeypatch.setattr(dispersion, "_MAX_ROWS", 1000)
    np.testing.assert_allclose(found_in(fit, 0.12), found, atol=0.15)


def test_a_fault_in_several_modes_is_dispersed_as_one():
    fit, faulty = rows_of_regimes_and_a_fault()
    pieces = np.full((len(fit), 2), -50.0)
    fit = np.concatenate([fit, pieces], axis=1)
    rows = np.flatnonzero(faulty)
    for number, some in enumerate(np.array_split(rows, 3)):
        # Each third of the fault prefers a mode of its own; the other two come next.
        fit[some, 12:] = 30.0
        fit[some, 12 + number] = 60.0
    found = found_in(fit, 0.12)
    assert dispersion_slowly(fit, [12]) < 0.3
    np.testing.assert_allclose(found[12:], dispersion_slowly(fit, [12, 13, 14]), rtol=0.1)
    assert found[12:].min() > 0.9
    assert found[:12].max() < 0.4
    assert (found_in(fit, 0.01) == 0).all()  # every mode is larger than that


def test_a_mode_that_occurs_in_every_regime_is_rare_though_it_is_no_smaller():
    size, far = np.full(13, 1 / 13), np.array([0.1] * 12 + [0.9])
    roles = assign_roles(size, 0.1, None, far)
    assert [role for role, _ in roles] == ["regime"] * 12 + ["rare"]
    assert "in every regime" in roles[-1][1]
    assert all(
        role == "regime" for role, _ in assign_roles(size, 0.05, None, far)
    )  # max_rare has the last word


@pytest.mark.slow
def test_a_fault_larger_than_each_of_many_regimes_is_called_rare():
    """Simulated: 5 × 4 regimes of 5 % and a large shift in 8 % of the rows of each."""
    plant, rng = RNG(5), RNG(7)
    rows = 1500
    states = [4.0 * np.eye(k)[rng.integers(k, size=rows)] for k in (5, 4)]
    faulty = rng.random(rows) < 0.08
    both = np.concatenate([*states, 8.0 * faulty[:, None]], axis=1)
    s, q = (
        both @ plant.normal(size=(both.shape[1], 12)) + 0.2 * rng.normal(size=(rows, 12)) for _ in range(2)
    )
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert det.predict(s, q)[faulty].mean() > 0.9
    assert det.predict(s, q)[~faulty].mean() < 0.05
