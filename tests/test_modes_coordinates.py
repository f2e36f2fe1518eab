"""Scales and canonical coordinates: what they keep, and that they are fitted and chosen on rows of other folds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

import coad
from coad import CoincidenceModes
from coad.exceptions import InputError
from coad.modes.coordinates import Front, MappedRows, Recipe, canonical_maps, nearest_neighbours
from coad.modes.folds import make_folds
from coad.modes.selection import simplest_within_error

RNG = np.random.default_rng
PLAIN = Recipe(((), ()), "columns")


def plant(seed=0, n=1500, rate=0.04):
    """A simulated plant: two regimes and a drifting load, which both inputs see, factors of their own, and a fault."""
    rng = RNG([seed, 9])
    regime, load, fault = rng.integers(2, size=n), rng.normal(size=n), rng.random(n) < rate
    both = np.column_stack([2 * regime, 2 * load, 1.5 * fault])
    inputs = []
    for width in (12, 9):
        own = np.column_stack([both, 2 * rng.normal(size=(n, 3))])
        x = own @ (rng.normal(size=(6, width)) * (rng.random((6, width)) < 0.6)) + 0.2 * rng.normal(
            size=(n, width)
        )
        inputs.append(x * np.exp(2 * rng.normal(size=width)))  # every column in units of its own
    return inputs[0].astype(np.float32), inputs[1].astype(np.float32), fault


def scaled(x):
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)


def test_canonical_directions_solve_the_eigenproblem_that_defines_them():
    s, q = (scaled(x) for x in plant()[:2])
    held = np.arange(len(s)) % 3 == 0
    map_s, map_q = canonical_maps(s, q)
    c = np.cov(s[~held].T.astype(float), q[~held].T.astype(float), bias=True)
    a, b, ab = c[:12, :12] + 0.01 * np.eye(12), c[12:, 12:] + 0.01 * np.eye(9), c[:12, 12:]
    correlated = np.flatnonzero(np.abs(map_s).sum(0))[:3]  # the others have the width 0
    values = eigh(ab @ np.linalg.solve(b, ab.T), a, eigvals_only=True)[::-1][correlated]
    direction = map_s[:, correlated].astype(float)
    found = np.diag(direction.T @ ab @ np.linalg.solve(b, ab.T) @ direction) / np.diag(
        direction.T @ a @ direction
    )
    np.testing.assert_allclose(found, values, rtol=1e-3)
    # The width of a coordinate is its correlation on the other rows.
    x, y = s[held] @ map_s, q[held] @ map_q
    r = [np.corrcoef(x[:, i], y[:, i])[0, 1] for i in correlated]
    wide = np.linalg.norm(x[:, correlated], axis=0)
    np.testing.assert_allclose(wide / wide[0], np.array(r) / r[0], rtol=0.2)


def test_constant_and_repeated_columns_do_no_harm():
    s, q = (scaled(x) for x in plant()[:2])
    more = np.column_stack([s, np.zeros(len(s)), s[:, :2]]).astype(np.float32)
    plain, wide = (x @ canonical_maps(x, q)[0] for x in (s, more))
    r = np.abs(np.corrcoef(plain[:, :2].T, wide[:, :2].T)[:2, 2:].diagonal())
    assert np.all(np.isfinite(wide))
    assert np.all(r > 0.95)


def test_one_factor_keeps_the_widths_of_columns_in_proportion():
    x = RNG(0).normal(size=(500, 2)).astype(np.float32) * np.float32([1.0, 10.0])
    rows = np.arange(500)
    wide = Front.fit(Recipe(((), ()), "one factor"), (x, x), None, rows).map(0, x, None).std(axis=0)
    assert wide[1] / wide[0] == pytest.approx(10.0, rel=0.1)
    assert Front.fit(PLAIN, (x, x), None, rows).map(0, x, None).std(axis=0) == pytest.approx([1, 1], rel=1e-4)


@pytest.mark.parametrize("scale", ["columns", "one factor", "canonical"])
def test_rows_that_are_held_out_change_nothing_that_is_fitted(scale):
    s, q, _ = plant(n=600)
    used = np.arange(600) % 5 > 0
    other_s, other_q = s.copy(), q.copy()
    other_s[~used] *= 100
    other_q[~used] += 7
    fronts = [
        Front.fit(Recipe((("logs", "codes"),) * 2, scale), pair, None, np.flatnonzero(used))
        for pair in ((s, q), (other_s, other_q))
    ]
    for side, rows in enumerate((s, q)):
        np.testing.assert_array_equal(fronts[0].map(side, rows, None), fronts[1].map(side, rows, None))


def test_neighbours_are_the_nearest_other_rows_that_may_be_used():
    x = RNG(0).normal(size=(200, 3)).astype(np.float32)
    rows = MappedRows((x, -x), Front.fit(PLAIN, (x, -x), None, np.arange(200)), None)
    used = np.flatnonzero(np.arange(200) % 4 > 0)
    found = nearest_neighbours(rows, used, 2, RNG(0))
    mapped = rows.side(0, np.arange(200)).numpy()
    distance = np.linalg.norm(mapped[:, None] - mapped[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    distance[:, ::4] = np.inf
    expected = np.argsort(distance, axis=1)[:, :2]
    assert np.array_equal(found[0][used], expected[used])
    assert np.array_equal(found[1][used], expected[used])


def test_rows_that_are_kept_in_memory_are_the_mapped_rows(monkeypatch):
    s, q, _ = plant(n=200)
    context = np.arange(200) % 2
    front = Front.fit(Recipe(((), ()), "canonical"), (s, q), context, np.arange(200))
    kept = MappedRows((s, q), front, context)
    monkeypatch.setattr("coad.modes.coordinates._MAX_KEPT", 0)
    mapped = MappedRows((s, q), front, context)
    assert kept.kept is not None
    assert mapped.kept is None
    for one, other in zip(kept.take(np.array([3, 1])), mapped.take(np.array([3, 1])), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_groups_and_stretches_of_slow_rows_are_held_out_whole():
    rng = RNG(0)
    s, q = rng.normal(size=(2, 1000, 2)).astype(np.float32)
    group = np.arange(1000) // 100
    folds = make_folds((s, q), None, group, None, True, rng)
    assert all(len(np.unique(folds.fold[group == g])) == 1 for g in range(10))
    assert folds.memory == 0
    assert all((folds.fold[used] != k).all() for k, used in enumerate(folds.used))
    slow = (np.repeat(s[:50], 20, axis=0) + 0.01 * s, np.repeat(q[:50], 20, axis=0) + 0.01 * q)
    folds = make_folds(slow, None, None, None, True, rng)
    assert folds.memory > 0
    assert np.count_nonzero(np.diff(folds.fold)) < 30
    for k, used in enumerate(folds.used):  # with a gap to the rows that are alike
        assert np.abs(used[:, None] - np.flatnonzero(folds.fold == k)[None]).min() > 1
    assert len(make_folds((s, q), None, group // 5, None, True, rng).used) == 2
    with pytest.raises(InputError, match="one group"):
        make_folds((s, q), None, np.zeros(1000), None, True, rng)


def test_the_simplest_candidate_within_one_standard_error_is_chosen():
    noise = RNG(0).normal(size=900)
    assert simplest_within_error([noise, noise + 0.02]) == 0
    assert simplest_within_error([noise, noise + 0.2]) == 1
    assert simplest_within_error([noise + 0.2, noise]) == 0


@pytest.mark.slow
def test_a_fault_that_is_drowned_in_the_columns_is_found_and_kept_on_disk(tmp_path):
    s, q, fault = plant()
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert det.layer_.nets[0].front.factors[0].ndim == 2  # canonical, chosen without labels
    mode = det.predict_mode(s, q)
    pure = [k for k in np.unique(mode[mode >= 0]) if fault[mode == k].mean() > 0.5]
    hit = np.isin(mode, pure)
    assert 2 * (hit & fault).sum() / (hit.sum() + fault.sum()) > 0.8
    det.save(tmp_path / "model")
    again = coad.load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(s, q), det.score_samples(s, q))
