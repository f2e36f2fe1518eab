"""Kinds inside other kinds, and small ones beside large: what was learned before modes were merged is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from makers import rows_around_centres

import coad
from coad import CoincidenceModes
from coad.learned.net_spec import NetSpec
from coad.learned.training.model import Blueprint
from coad.modes import pipeline
from coad.modes.canonical import canonical_maps
from coad.modes.density import DensityDips
from coad.modes.training import PooledDuo, build


def rings(seed=1, n=3000, rate=0.03):
    """Simulated: two rings around a small centre, in both inputs; where on its ring a row is, is its own."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=[0.5 - rate / 2, 0.5 - rate / 2, rate])
    inputs = []
    for _ in range(2):
        radius = np.array([4.0, 8.0, 1.0])[kind] + 0.4 * rng.normal(size=n)
        angle = rng.uniform(0, 2 * np.pi, n)
        inputs.append(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]))
    return inputs[0], inputs[1], kind


@pytest.fixture(scope="module")
def nested():
    s, q, kind = rings()
    return s, q, kind, CoincidenceModes(random_state=1).fit(s, q)


@pytest.mark.slow
def test_a_small_centre_inside_two_rings_is_one_rare_mode(nested):
    s, q, kind, det = nested
    assert len(det.modes_) == 3
    assert len(det.modes_.rare) == 1
    assert (det.predict(s, q) == (kind == 2)).mean() > 0.995


@pytest.mark.slow
def test_a_catalogue_with_pooled_outputs_predicts_the_same_from_disk(nested, tmp_path):
    s, q, _, det = nested
    assert isinstance(det.duo_, PooledDuo)
    det.save(tmp_path / "model")
    again = coad.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_mode(s, q), det.predict_mode(s, q))
    np.testing.assert_allclose(again.score_samples(s, q), det.score_samples(s, q), atol=1e-6)


@pytest.mark.slow
def test_trained_anew_the_centre_would_be_lost(monkeypatch):
    monkeypatch.setattr(pipeline, "_LOST", 0.0)
    s, q, kind = rings()
    assert not CoincidenceModes(random_state=1).fit(s, q).predict(s, q)[kind == 2].any()


def test_outputs_of_one_mode_are_pooled():
    both = tuple(Blueprint(NetSpec(hidden=(4,)), (3,)) for _ in range(2))
    mode = np.array([0, 1, 0, -1])
    pooled = build(both, [5, 6], 4, mode=mode)
    plain = build(both, [5, 6], 4)
    plain.load_state_dict({k: v for k, v in pooled.state_dict().items() if k != "mode"})
    s, q = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))
    for z, whole in zip(pooled(s, q), plain(s, q), strict=True):
        votes = whole.softmax(-1)
        wanted = torch.stack([votes[..., 0] + votes[..., 2], votes[..., 1]], -1)
        torch.testing.assert_close(z.softmax(-1), wanted / wanted.sum(-1, keepdim=True))


def test_neighbours_tell_a_centre_from_its_ring_and_not_the_halves_of_a_cluster():
    rng = np.random.default_rng(0)
    s, q, kind = rings(0, 1200)
    rows = np.concatenate([s, q], axis=1)
    gaps = DensityDips.of(rows, np.arange(len(rows)), rng)
    assert gaps.between(kind, 0, 2) == "dip"
    assert gaps.between(kind, 0, 1) == "dip"
    cluster = rng.normal(size=(600, 2))
    inner = (np.linalg.norm(cluster, axis=1) < 1).astype(np.int64)  # no gap around it
    assert DensityDips.of(cluster, np.arange(600), rng).between(inner, 0, 1) == "unclear"


def few_rows(rate, wild=0, n=3000):
    """Two regimes that both inputs see in one column, and another column in which few rows are far out in both."""
    rng = np.random.default_rng(4)
    regime, few = rng.integers(2, size=n), rng.random(n) < rate
    s, q = rng.normal(size=(2, n, 4))
    for x in (s, q):
        x[:, 0] += 4 * regime
        x[:, 1] += 4 * few
        x[:wild, 1] += 25
    return [((x - x.mean(0)) / x.std(0)).astype(np.float32) for x in (s, q)]


@pytest.mark.parametrize(("rate", "wild", "kept"), [(0.02, 0, 2), (0.0, 0, 1), (0.0, 2, 1)])
def test_a_direction_that_a_kind_of_few_rows_makes_is_kept_and_one_of_wild_rows_is_not(rate, wild, kept):
    s, q = few_rows(rate, wild)
    held = np.zeros(len(s), dtype=bool)
    held[::3] = True
    held[:wild] = True  # the wild ones are among those that tell how much is shared
    maps = canonical_maps(s, q, held)
    assert maps is not None
    assert [m.shape[1] for m in maps] == [kept, kept]
    if rate:
        assert all(np.abs(m[:, 1]).argmax() == 1 for m in maps)


@pytest.mark.slow
def test_a_kind_of_one_per_cent_is_found_beside_regimes_of_a_third():
    s, q, kind = rows_around_centres([0.33, 0.33, 0.33, 0.01], 3000, (6,), spread=2.8, seed=2)
    flagged = CoincidenceModes(random_state=2).fit(s, q).predict(s, q)
    assert flagged[kind == 3].mean() > 0.9
    assert flagged[kind != 3].mean() < 0.003


def test_an_arc_of_a_ring_is_not_joined_with_the_centre():
    rng = np.random.default_rng(2)
    angle = rng.uniform(0, 3.1, 600)
    arc = 5 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.3 * rng.normal(size=(600, 2))
    rows = np.concatenate([arc, 0.5 * rng.normal(size=(60, 2))])
    labels = np.repeat([0, 1], [600, 60])
    asked = DensityDips.of(rows, np.arange(660), rng)
    assert asked.dip_ratios(labels, 2)[0, 1] > 0.9  # on the line there is no gap
    np.testing.assert_array_equal(asked.merge_without_dip(labels), labels)


@pytest.mark.slow
def test_a_kind_across_the_cluster_that_no_line_separates_is_kept():
    rng = np.random.default_rng(0)
    rare = rng.random(3000) < 0.06
    inputs = []
    for _ in range(2):  # columns that go along go apart in the rare kind; means and widths stay
        x, f = rng.normal(size=(3000, 8)), rng.normal(size=(3000, 4))
        x[:, ::2] = 0.95 * f + 0.3 * x[:, ::2]
        x[:, 1::2] = np.where(rare, -1, 1)[:, None] * 0.95 * f + 0.3 * x[:, 1::2]
        inputs.append(x)
    flagged = CoincidenceModes(random_state=0).fit(*inputs).predict(*inputs)
    assert flagged[rare].mean() > 0.9
    assert flagged[~rare].mean() < 0.01
