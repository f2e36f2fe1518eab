"""Kinds that occur in several regimes: found in the deviations from their centres, predicted, and saved."""

from __future__ import annotations

import numpy as np
import pytest
from makers import assert_counts_what_score_tells

import coad
from coad import CoincidenceModes
from coad.core.labels import f1
from coad.modes.coordinates import Front, Recipe
from coad.modes.deviations import Centres
from coad.modes.fitting import _Fit
from coad.research.experiments.modes import majority_modes

RNG = np.random.default_rng


def many_regimes(seed, rows=1200, rate=0.08, shift=1.6):
    """Simulated sensors: 5 × 4 regimes far apart, a load, and a shift that comes with every one of them."""
    plant, rng = RNG(5), RNG([seed, 5])
    states = [4.0 * np.eye(k)[rng.integers(k, size=rows)] for k in (5, 4)]
    faulty = rng.random(rows) < rate
    both = np.concatenate([*states, rng.normal(size=(rows, 1)), shift * faulty[:, None]], axis=1)
    s, q = (
        both @ plant.normal(size=(both.shape[1], 12)) + 0.15 * rng.normal(size=(rows, 12)) for _ in range(2)
    )
    return s, q, faulty


@pytest.fixture(scope="module")
def shifted():
    s, q, faulty = many_regimes(0)
    return CoincidenceModes(random_state=0).fit(s, q), s, q, faulty


def test_deviations_are_scaled_rows_less_the_centre_of_their_mode():
    rng = RNG(0)
    arrays = tuple(rng.normal(size=(300, width)).astype(np.float32) for width in (3, 2))
    mode = rng.integers(3, size=300)
    front = Front.fit(Recipe(((), ()), "columns"), arrays, None, np.arange(300))
    centres = tuple(rng.normal(size=(3, width)).astype(np.float32) for width in (3, 2))
    rows = Centres(front, centres, np.ones(3) / 3).deviations(arrays, mode)
    for side, x in enumerate(arrays):
        scaled = (x - x.mean(0)) / x.std(0)
        slow = [scaled[i] - centres[side][mode[i]] for i in range(300)]
        np.testing.assert_allclose(rows[side], slow, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_shift_that_occurs_in_every_regime_is_found_as_kinds(shifted, monkeypatch):
    det, s, q, faulty = shifted
    label = det.predict_mode(s, q)
    assert det.deviations_ is not None
    rare = [m.mode for m in det.modes_.rare]
    assert 1 <= len(rare) <= 2
    assert f1(faulty, np.isin(label, rare)) > 0.85
    new_s, new_q, new = many_regimes(1)
    assert f1(new, det.predict(new_s, new_q)) > 0.8
    assert sum(m.rows for m in det.modes_) <= len(s)
    # Without deviations there is no such mode: it is a small part of each of many.
    monkeypatch.setattr(_Fit, "_kinds", lambda *given: None)
    plain = CoincidenceModes(random_state=0).fit(s, q)
    label = plain.predict_mode(s, q)
    assert f1(faulty, np.isin(label, majority_modes(label, faulty))) < 0.5


@pytest.mark.slow
def test_the_table_counts_the_rows_that_score_tells(shifted):
    assert_counts_what_score_tells(*shifted[:3])


@pytest.mark.slow
def test_a_catalogue_with_kinds_in_several_modes_predicts_the_same_from_disk(shifted, tmp_path):
    det, s, q, _ = shifted
    det.save(tmp_path / "model")
    again = coad.load(tmp_path / "model")
    assert again.deviations_ is not None
    np.testing.assert_allclose(again.score_samples(s, q), det.score_samples(s, q), atol=1e-6)
    assert np.array_equal(again.predict_mode(s, q), det.predict_mode(s, q))
    assert again.modes_ == det.modes_


@pytest.mark.slow
def test_rows_of_such_a_kind_have_a_regime_as_context(shifted):
    det, s, q, faulty = shifted
    regimes = {m.mode for m in det.modes_ if m.role == "regime"}
    assert set(np.unique(det.regimes(s, q)[faulty])) <= regimes
