"""Kinds that occur in several regimes: found in residuals, added to the catalogue, predicted, and saved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coad
from coad import CoincidenceModes
from coad.learned.net_spec import NetSpec
from coad.learned.training.model import Blueprint
from coad.modes import estimator, residuals
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.cataloguing import FitResult
from coad.modes.coordinates import Coordinates, MappedRows
from coad.modes.residuals import ResidualModel, ResidualRows
from coad.modes.training import build

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


def pieces(seed=0, rows=300, modes=3):
    """Rows, the regime of each, and the centres and maps of their residuals."""
    rng = RNG(seed)
    arrays = tuple(rng.normal(size=(rows, width)).astype(np.float32) for width in (3, 2))
    data = MappedRows(arrays, [Coordinates.fit(x, None) for x in arrays], None)
    regime = rng.integers(modes, size=rows)
    centres = tuple(rng.normal(size=(modes, width)).astype(np.float32) for width in (3, 2))
    maps = tuple(rng.normal(size=(width, 2)).astype(np.float32) for width in (3, 2))
    return data, regime, centres, maps


def test_residuals_are_rows_less_the_centre_of_their_regime(monkeypatch):
    data, regime, centres, maps = pieces()
    monkeypatch.setattr(residuals, "_SAMPLE", 128)  # several blocks
    rows = ResidualRows(data, regime, centres, maps)
    assert rows.shapes == [(2,), (2,)]
    for which in (0, 1):
        scaled = data.side(which, np.arange(300)).numpy()
        slow = [(scaled[i] - centres[which][regime[i]]) @ maps[which] for i in range(300)]
        np.testing.assert_allclose(rows.side(which, np.arange(300)).numpy(), slow, rtol=1e-4, atol=1e-5)


def test_precomputed_rows_are_the_mapped_rows():
    data, *_ = pieces()
    ready = data.precomputed()
    index = RNG(1).permutation(300)[:50]
    assert ready is not data
    assert ready.precomputed() is ready
    assert ready.shapes == data.shapes
    for one, other in zip(ready.take(index), data.take(index), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_row_of_a_rare_mode_has_its_best_regime():
    a = np.array([[0.6, 0.1, 0.3], [0.1, 0.0, 0.9], [1e-40, 1e-42, 1.0]])
    regimes = np.array([True, True, False])
    own, regime = residuals._best_modes(a, a, np.arange(3), np.array([0.4, 0.4, 0.2]), regimes)
    assert own.tolist() == [0, 2, 2]
    assert regime.tolist() == [0, 0, 0]
    listed = np.array([2, 1])  # numbers are among the modes that are listed, here 2 (rare) and 1
    own, regime = residuals._best_modes(a, a, listed, np.array([0.2, 0.4]), np.array([False, True]))
    assert own.tolist() == [0, 0, 0]
    assert regime.tolist() == [1, 1, 1]


def test_residuals_are_not_modelled_where_only_rows_of_a_known_kind_share_a_direction():
    rng = RNG(0)
    arrays = [rng.normal(size=(1200, 4)).astype(np.float32) for _ in range(2)]
    rare = np.arange(1200) % 10 == 0
    for x in arrays:
        x[rare, 0] += 6.0  # a kind that has a mode of its own already
    data = MappedRows(tuple(arrays), [Coordinates.fit(x, None) for x in arrays], None)
    regime, some = np.zeros(1200, dtype=np.int64), np.arange(1200)
    held = rng.random(1200) < 1 / 3
    assert residuals._residual_coordinates(data, regime, 1, some, held, ~rare)[1] is None
    assert (
        residuals._residual_coordinates(data, regime, 1, some, held, np.ones(1200, dtype=bool))[1] is not None
    )


def test_evidence_for_a_kind_is_conditional_on_the_mode():
    """By Bayes' rule for two independent questions: which mode, and does the row deviate."""
    rng = RNG(0)
    a, b = rng.dirichlet(np.ones(3), size=(2, 40))
    d_a, d_b = rng.random((2, 40, 1)) * 0.9
    sizes = np.array([0.5, 0.3, 0.2])
    rate = 0.05
    combined = np.append(sizes * (1 - rate), rate)
    votes = [np.concatenate([x * (1 - d), d], axis=1) for x, d in ((a, d_a), (b, d_b))]
    evidence = votes[0] * votes[1] / combined
    blueprint = Blueprint(NetSpec(hidden=(4,)), (2,))
    _, _, centres, maps = pieces()
    duo = build((blueprint, blueprint), [0], 2)
    own = ResidualModel(
        np.arange(3), sizes, np.ones(3, dtype=bool), centres, maps, duo, (blueprint, blueprint), (1,)
    )
    found = own.weigh(evidence, *votes)
    for i in range(40):
        which = [a[i, k] * b[i, k] / sizes[k] for k in range(3)]
        deviates, not_ = d_a[i, 0] * d_b[i, 0] / rate, (1 - d_a[i, 0]) * (1 - d_b[i, 0]) / (1 - rate)
        np.testing.assert_allclose(found[i], [*(x * not_ for x in which), sum(which) * deviates], rtol=1e-9)
    evidence[:, 2] = 0.0  # this mode is no longer listed: its rows are still of the kind
    np.testing.assert_allclose(own.weigh(evidence, *votes)[:, 3], found[:, 3])


def test_rows_of_a_kind_leave_their_mode():
    labels = np.repeat([0, 1, 2], [40, 30, 6])
    table = ModeTable(
        Mode(k, n / 76, n, 0.9, 0.1, 1e-9, 0.9, "regime", "large", (0, 40, 70))
        for k, n in enumerate((40, 30, 6))
    )
    blueprint = Blueprint(NetSpec(hidden=(4,)), (2,))
    found = FitResult(None, (blueprint, blueprint), table, np.array([0.5, 0.4, 0.1]), labels, 0.01)
    deviating = np.full(76, -1)
    deviating[[1, 2, 3, 41, 42, 70, 71]] = 5
    kind = Mode(5, 0.1, 9, 0.95, 0.1, 1e-9, 0.9, "rare", "small", (1, 41, 60))
    out = residuals._with_kinds(found, [kind], deviating, [3.0])
    # Four of the six rows of mode 2 are left, which is too few to be listed; the kind has number 3.
    assert {m.mode: m.rows for m in out.table} == {3: 7, 1: 28, 0: 37}
    assert [m.mode for m in out.table] == [3, 1, 0]
    larger = residuals._with_kinds(found, [replace(kind, exemplars=())], np.where(labels < 2, 5, -1), [2.0])
    assert [(m.mode, m.rows) for m in larger.table] == [
        (3, 70),
        (2, 6),
    ]  # rare ones first, whatever their size
    assert np.array_equal(np.flatnonzero(out.labels == 3), [1, 2, 3, 41, 42, 70, 71])
    assert out.table[0].exemplars == (1, 41)
    assert "3 regimes" in out.table[0].reason
    assert out.sizes.sum() == pytest.approx(1.0)


@pytest.fixture(scope="module")
def shifted():
    s, q, faulty = many_regimes(0)
    return CoincidenceModes(random_state=0).fit(s, q), s, q, faulty


@pytest.mark.slow
def test_a_shift_that_occurs_in_every_regime_is_one_rare_mode(shifted, monkeypatch):
    det, s, q, faulty = shifted
    label = det.predict_mode(s, q)
    assert det.residuals_ is not None
    kind = max((label[faulty] == m.mode).sum() for m in det.modes_.rare)
    assert kind > 0.8 * faulty.sum()
    new_s, new_q, new = many_regimes(1)
    assert det.predict(new_s, new_q)[new].mean() > 0.8
    assert sum(m.rows for m in det.modes_) <= len(s)
    a, b = det.mode_confidences(s, q)
    for votes in (a, b):
        np.testing.assert_allclose(votes.sum(1), 1.0, atol=1e-5)
    # Without residuals there is no such mode: it is a small part of each of many.
    monkeypatch.setattr(estimator, "add_residual_kinds", lambda task, found, *rest: (found, None))
    plain = CoincidenceModes(random_state=0).fit(s, q)
    label = plain.predict_mode(s, q)
    assert max((label[faulty] == m.mode).sum() for m in plain.modes_) < 0.5 * faulty.sum()


@pytest.mark.slow
@pytest.mark.slow
def test_the_table_counts_the_rows_that_score_tells(shifted):
    det, s, q = shifted[:3]
    told = det.predict_mode(s, q)
    np.testing.assert_array_equal(det.labels_, told)
    assert {mode.mode: mode.rows for mode in det.modes_} == {
        mode.mode: int((told == mode.mode).sum()) for mode in det.modes_
    }
    assert det.alpha_ == pytest.approx(det.predict(s, q).mean())
    for mode in det.modes_:
        assert (told[list(mode.exemplars)] == mode.mode).all()


def test_a_catalogue_with_residual_kinds_predicts_the_same_from_disk(shifted, tmp_path):
    det, s, q, _ = shifted
    det.save(tmp_path / "model")
    again = coad.load(tmp_path / "model")
    assert again.residuals_ is not None
    np.testing.assert_allclose(again.score_samples(s, q), det.score_samples(s, q), atol=1e-6)
    assert np.array_equal(again.predict_mode(s, q), det.predict_mode(s, q))
    assert again.modes_ == det.modes_


@pytest.mark.slow
def test_rows_of_a_residual_kind_have_a_regime_as_context(shifted):
    det, s, q, faulty = shifted
    regimes = {m.mode for m in det.modes_ if m.role == "regime"}
    assert set(np.unique(det.regimes(s, q)[faulty])) <= regimes
