"""Canonical coordinates, and the density dips between modes in them."""

from __future__ import annotations

import naive_modes
import numpy as np
import pytest
from scipy.linalg import eigh

import coad
from coad import CoincidenceModes
from coad.core.labels import f1
from coad.modes import canonical, density, merging
from coad.modes.canonical import canonical_maps
from coad.modes.coordinates import Coordinates, MappedRows
from coad.modes.density import DensityDips, dip_ratio
from coad.modes.pipeline import find_modes
from coad.modes.plan import Task

RNG = np.random.default_rng


def plant(seed=0, n=1500, rate=0.04):
    """A simulated plant: two regimes and a drifting load, which both inputs see, factors of their own, and a fault."""
    rng = np.random.default_rng([seed, 9])
    regime, load, fault = rng.integers(2, size=n), rng.normal(size=n), rng.random(n) < rate
    both = np.column_stack([2 * regime, 2 * load, 1.5 * fault])
    inputs = []
    for width in (12, 9):
        own = np.column_stack([both, 2 * rng.normal(size=(n, 3))])
        x = own @ (rng.normal(size=(6, width)) * (rng.random((6, width)) < 0.6)) + 0.2 * rng.normal(
            size=(n, width)
        )
        inputs.append(x * np.exp(2 * rng.normal(size=width)))  # every column in units of its own
    return inputs[0], inputs[1], fault


def scaled(x):
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)


def test_canonical_directions_solve_the_eigenproblem_that_defines_them(monkeypatch):
    monkeypatch.setattr(canonical, "_CLUSTERS", 0)  # directions alone
    s, q = (scaled(x) for x in plant()[:2])
    held = np.arange(len(s)) % 3 == 0
    map_s, map_q = canonical_maps(s, q, held)
    near_s, near_q = s[~held].astype(float), q[~held].astype(float)
    c = np.cov(near_s.T, near_q.T, bias=True)
    a, b, ab = c[:12, :12] + 0.01 * np.eye(12), c[12:, 12:] + 0.01 * np.eye(9), c[:12, 12:]
    values = eigh(ab @ np.linalg.solve(b, ab.T), a, eigvals_only=True)[::-1][: map_s.shape[1]]
    direction = map_s.astype(float)
    found = np.diag(direction.T @ ab @ np.linalg.solve(b, ab.T) @ direction) / np.diag(
        direction.T @ a @ direction
    )
    np.testing.assert_allclose(found, values, rtol=1e-3)
    far = [x[held] @ m for x, m in ((s, map_s), (q, map_q))]
    r = np.array([np.corrcoef(u, v)[0, 1] for u, v in zip(far[0].T, far[1].T, strict=True)])
    assert np.all(r > 0.29)
    widths = np.sqrt(np.diag(direction.T @ a @ direction))
    np.testing.assert_allclose(widths, r / np.sqrt(np.square(r).mean()), rtol=1e-3)


def test_a_direction_that_predicts_a_cluster_amid_the_other_input_is_kept():
    rng = np.random.default_rng(0)
    kind = np.where(rng.random(3000) < 0.04, 4, rng.integers(4, size=3000))
    corner = 5 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]])
    s = rng.normal(size=(3000, 40))
    s[:, :2] += corner[kind] / 2
    s[:, 2] += 5 * (kind == 4)
    q = corner[kind] + rng.normal(size=(3000, 2))
    map_s, map_q = canonical_maps(scaled(s), scaled(q), np.arange(3000) % 3 == 0)
    assert map_q.shape == (2, 2)
    assert map_s.shape == (40, 3)
    assert np.abs(map_s[:, 2]).argmax() == 2, "the rare kind is in the middle of q: no line of it tells"


def test_inputs_that_share_nothing_have_no_such_coordinates():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 400, 60)).astype(np.float32)  # in-sample the best direction has 0.6
    assert canonical_maps(s, q, np.arange(400) % 3 == 0) is None
    assert canonical_maps(s, q, np.zeros(400, dtype=bool)) is None


def test_constant_and_repeated_columns_do_no_harm():
    s, q = (scaled(x) for x in plant()[:2])
    held = np.arange(len(s)) % 3 == 0
    more = np.column_stack([s, np.zeros(len(s)), s[:, :2]]).astype(np.float32)
    plain, wide = (x @ canonical_maps(x, q, held)[0] for x in (s, more))
    r = np.abs(np.corrcoef(plain[:, :2].T, wide[:, :2].T)[:2, 2:].diagonal())
    assert np.all(np.isfinite(wide))
    assert np.all(r > 0.95)


def test_wide_inputs_are_left_as_they_are(monkeypatch):
    s, q = (scaled(x) for x in plant()[:2])
    monkeypatch.setattr(canonical, "_MAX_COLUMNS", 10)
    assert canonical_maps(s, q, np.arange(len(s)) % 3 == 0) is None


@pytest.mark.slow
def test_a_fault_that_is_drowned_in_the_columns_is_found_and_kept_on_disk(tmp_path):
    s, q, fault = plant()
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert det.coordinates_[0].factors.ndim == 2  # canonical, chosen without labels
    mode = det.predict_mode(s, q)
    pure = [k for k in np.unique(mode[mode >= 0]) if fault[mode == k].mean() > 0.5]
    hit = np.isin(mode, pure)
    assert 2 * (hit & fault).sum() / (hit.sum() + fault.sum()) > 0.9
    det.save(tmp_path / "model")
    again = coad.load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(s, q), det.score_samples(s, q))


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_projected_on_discriminants_fitted_without_them(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [40, 30, 20]))
    rows = rng.normal(size=(90, 4)) + 3 * np.eye(4)[labels]
    fold = rng.permutation(90) % density._FOLDS
    seen = []
    monkeypatch.setattr(density, "dip_ratio", lambda upper, lower: seen.append((upper, lower)) or 0.0)
    DensityDips(rows, np.arange(90), fold).dip_ratios(labels, 3)
    slow = [
        naive_modes.projected(rows, labels.tolist(), fold, i, j, 0.05) for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert len(seen) == 3
    for (upper, lower), (slow_upper, slow_lower) in zip(seen, slow, strict=True):
        np.testing.assert_allclose(upper, slow_upper, rtol=1e-8)
        np.testing.assert_allclose(lower, slow_lower, rtol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_a_split_cluster_is_merged_and_a_dip_is_kept(seed):
    rng = np.random.default_rng(seed)
    cluster = rng.normal(size=(900, 6))
    kind = rng.normal(size=(40, 6))
    kind[:, 1] += 7
    rows = np.concatenate([cluster, kind])
    labels = np.where(np.arange(940) >= 900, 3, np.digitize(rows[:, 0], [-1.3, 1.3]))
    labels[::50] = -1
    asked = DensityDips.of(rows, np.arange(940), rng)
    joined = asked.merge_without_dip(labels)
    assert joined.max() == 1
    assert asked.between(joined, 0, 1) == "dip"
    between = asked.cached_between(labels)
    assert between(np.array([0, 1, 2]), np.array([3])) == "dip"
    assert between(np.array([0]), np.array([1, 2])) == "no dip"
    assert np.all(joined[900:][labels[900:] >= 0] == joined[901])
    assert np.all(joined[::50] == -1)


def test_modes_that_no_line_separates_stay_apart_by_their_neighbours():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 300)
    ring = 6 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.3 * rng.normal(size=(300, 2))
    rows, labels = np.concatenate([rng.normal(size=(600, 2)), ring]), np.repeat([0, 1], [600, 300])
    asked = DensityDips.of(rows, np.arange(900), rng)
    assert np.array_equal(asked.merge_without_dip(labels), labels)
    assert np.isnan(asked.dip_ratios(labels, 2)[0, 1])
    assert asked.between(labels, 0, 1) == "dip"


def test_the_dip_ratio_of_one_cluster_is_high_and_that_of_two_is_low():
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=400)
        assert dip_ratio(x[x > 1.2], x[x <= 1.2]) > density._NO_DIP
        assert dip_ratio(x[:40] + 7, x[40:]) < 0.4
    assert dip_ratio(np.zeros(5), np.zeros(5)) == 1.0  # all in one place


def test_modes_that_overlap_are_merged_unless_a_dip_keeps_them_apart():
    sure = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.4, 0.6], [0.6, 0.4, 0]])
    assert merging.merge_overlapping(sure, 0.04).tolist() == [0, 0, 0]

    def limit(one, other):
        return np.inf if 0 in one and 1 in other else 0.04

    assert merging.merge_overlapping(sure, 0.04, limit).tolist() == [0, 1, 1]


def test_a_mode_that_the_sample_missed_is_left_alone():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=(500, 1)), rng.normal(20, 1, (5, 1)), axis=0)
    labels = np.where(np.arange(505) >= 500, 2, (x[:, 0] > 1).astype(int))
    asked = DensityDips.of(x[:500], np.arange(500), rng)
    assert asked.between(labels, 0, 2) == "unclear"
    assert asked.between(labels, 0, 3) == "unclear"  # a mode without rows
    joined = asked.merge_without_dip(labels)
    assert np.bincount(joined).tolist() == [500, 5]


def options(seed=0, rows=1200):
    """The same rows three times: a load that both inputs see, four kinds, and two inputs that share nothing."""
    rng = RNG([9, seed])
    kind = np.where(rng.random(rows) < 0.05, 3, rng.integers(3, size=rows))
    load = rng.normal(size=(rows, 1))
    pairs = {"load": [], "kinds": [], "nothing": []}
    for _ in range(2):
        noise = rng.normal(size=(3, rows, 6))
        pairs["load"].append(load @ rng.normal(size=(1, 6)) + 0.3 * noise[0])
        pairs["kinds"].append(4.0 * rng.normal(size=(4, 6))[kind] + noise[1])
        pairs["nothing"].append(noise[2])
    made = {}
    for name, pair in pairs.items():
        arrays = tuple(x.astype(np.float32) for x in pair)
        made[name] = MappedRows(arrays, [Coordinates.fit(x, None) for x in arrays], None)
    return made, kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("load", "kinds"), 1),  # a continuum holds no modes: other coordinates are asked
        (("kinds", "load"), 0),
        (("load", "load"), 0),  # no more of kinds there
        (("nothing", "kinds"), 0),  # where nothing is shared no second chance is given
    ],
)
def test_other_coordinates_are_asked_where_a_continuum_is_all_that_modes_would_cut(names, chosen):
    made, kind = options()
    model = CoincidenceModes(random_state=0)
    number, found = find_modes(Task(model, 40, 1200), [made[name] for name in names], RNG(0))
    assert number == chosen
    if names[chosen] == "kinds":
        rare = [mode.mode for mode in found.table if mode.role == "rare"]
        assert f1(kind == 3, np.isin(found.labels, rare)) > 0.95
    else:
        assert len(found.table) == 0


def test_of_a_few_directions_none_is_left_out_but_for_noise():
    rng = np.random.default_rng(0)
    cycle = np.sin(0.05 * np.arange(3000))[:, None]
    s, q = (np.hstack([cycle, rng.normal(size=(3000, 1))]).astype(np.float32) for _ in range(2))
    s += 0.1 * rng.normal(size=s.shape).astype(np.float32)
    held = np.arange(3000) % 3 == 0
    maps = canonical_maps(s, q, held)
    assert maps is not None
    assert [m.shape for m in maps] == [(2, 2), (2, 2)]
    assert canonical_maps(s[:, 1:], q[:, 1:], held) is None
