"""Transforms: window features, logarithms of columns that span decades, one-hot codes."""

from __future__ import annotations

import warnings

import naive_modes
import numpy as np
import pytest
from makers import rows_around_centres

import coad
from coad import CoincidenceModes
from coad.learned.net_spec import Conv, NetSpec
from coad.modes.column_transforms import LogColumns, OneHotColumns
from coad.modes.transforms import NO_TRANSFORMS, candidate_steps, describe_transforms, fit_steps
from coad.modes.window_features import WindowFeatures, band_edges
from coad.research.baselines.strategies import f1


def rings(seed=0, n=1200, points=64, rate=0.05):
    """Two speeds, and a ring of random phase and place in s that comes with a tone of random phase in q."""
    rng = np.random.default_rng([seed, 7])
    speed, fault, time = rng.integers(2, size=(n, 1)), rng.random(n) < rate, np.arange(points)
    inputs = []
    for _ in range(2):
        x = (1 + speed) * np.sin(time / np.array([8.0, 5.0])[speed] + rng.uniform(0, 6, (n, 1)))
        since = time - rng.integers(0, points // 2, (n, 1))
        ring = np.where(since >= 0, np.exp(-np.maximum(since, 0) / 12) * np.sin(2 * since), 0)
        x = x + 1.5 * fault[:, None] * ring + 0.2 * rng.normal(size=(n, points))
        inputs.append(x[:, None].astype(np.float32))
    return inputs[0], inputs[1], fault


@pytest.mark.parametrize(("channels", "points", "shape"), [(1, 40, False), (3, 25, True), (2, 5, True)])
def test_window_features_agree_with_a_slow_sum(channels, points, shape):
    rng = np.random.default_rng(points)
    rows = np.cumsum(rng.normal(size=(30, channels, points)), axis=2).astype(np.float32)
    features = WindowFeatures.fit(rows).with_shape(shape)
    np.testing.assert_allclose(features.width, rows.std(axis=(0, 2)), rtol=1e-5)
    np.testing.assert_allclose(features.within, np.median(rows.std(axis=2), axis=0), rtol=1e-5)
    edges = band_edges(points // 2, 20)
    segments = min(points, 100 // channels) if shape else None
    for row, found in zip(rows[:4], features(rows[:4]), strict=True):
        want = naive_modes.window_features(row.tolist(), features.width, features.within, edges, segments)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_constant_channels_have_finite_features():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3, 50)).astype(np.float32)
    rows[:, 1] = 7.0
    rows[5] = 0.0
    assert np.isfinite(WindowFeatures.fit(rows)(rows)).all()
    assert np.isfinite(WindowFeatures.fit(rows)(1e6 * rows)).all()
    assert WindowFeatures.fit(rows)(rows[:, :, :3]).shape == (40, 15)  # no band of frequency in three points


@pytest.mark.slow
def test_neither_units_nor_a_wild_value_break_a_digest():
    s, q, _ = rings()
    features = WindowFeatures.fit(s)
    for unit in (1e-30, 1e-15, 1e13, 1e30):
        same = np.float32(unit) * s
        np.testing.assert_allclose(WindowFeatures.fit(same)(same), features(s), atol=1e-3)
    det = CoincidenceModes(random_state=0, steps=60).fit(s, q)
    wild = s.copy()
    wild[:4, 0, 5] = 1e13, -1e20, 1e30, 3e38
    assert np.isfinite(features(wild)).all()
    assert np.isfinite(det.score_samples(wild, q)).all()
    np.testing.assert_array_equal(det.predict_mode(wild[4:], q[4:]), det.predict_mode(s[4:], q[4:]))
    CoincidenceModes(random_state=0, steps=20, n_starts=2).fit(wild, q)


@pytest.mark.parametrize(("bins", "most"), [(1, 4), (7, 20), (21, 20), (500, 20), (5000, 4)])
def test_bands_cover_every_frequency_once(bins, most):
    edges = band_edges(bins, most)
    assert edges[0] == 0
    assert edges[-1] == bins
    assert len(edges) <= most + 1
    width = np.diff(edges)
    assert (width > 0).all()
    assert (np.diff(width) >= 0).all()


@pytest.mark.slow
def test_what_comes_at_any_place_and_phase_is_found_in_windows():
    s, q, fault = rings()
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert f1(fault, det.predict(s, q)) > 0.9
    new_s, new_q, new_fault = rings(1)
    assert f1(new_fault, det.predict(new_s, new_q)) > 0.9
    # The same as flat rows.
    flat = s[:, 0], q[:, 0]
    det = CoincidenceModes(random_state=0).fit(*flat)
    assert f1(fault, det.predict(*flat)) > 0.9
    assert "s to rows as signals, level" in describe_transforms(det.transforms_)
    # Windows beside features that somebody took from the other ones already.
    q = WindowFeatures.fit(q)(q)
    assert f1(fault, CoincidenceModes(random_state=0).fit(s, q).predict(s, q)) > 0.9


@pytest.mark.slow
def test_a_shape_that_always_comes_at_one_place_is_found_too(tmp_path):
    rng = np.random.default_rng(4)
    kind = rng.choice(6, 1500, p=[0.25, 0.2, 0.2, 0.15, 0.15, 0.05])
    inputs = []
    for _ in range(2):
        # The same values in another order: level, deviation, skewness and reach are all the same.
        step = np.stack([rng.permutation(np.linspace(-1, 1, 12)) for _ in range(6)]).repeat(5, axis=1)
        inputs.append((step[kind] + rng.normal(size=(1500, 60)))[:, None].astype(np.float32))
    s, q = inputs
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert det.transforms_[0][0].shape
    assert f1(kind == 5, det.predict(s, q)) > 0.95
    det.save(tmp_path / "model")
    again = coad.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_mode(s, q), det.predict_mode(s, q))
    np.testing.assert_allclose(again.score_samples(s[:9], q[:9]), det.score_samples(s[:9], q[:9]), atol=1e-6)


def test_windows_of_noise_have_no_modes_and_networks_of_ones_own_see_every_point():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 400, 2, 32)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", coad.exceptions.CoadWarning)
        det = CoincidenceModes(random_state=0, steps=60).fit(s, q)
        assert len(det.modes_) == 0
        assert det.transforms_ == NO_TRANSFORMS  # every point was used, too
        assert (det.predict_mode(s, q) == -1).all()
        s[:200] += 3 * np.sin(np.arange(32) / 3).astype(np.float32)
        q[:200] -= 3
        own = NetSpec((Conv(4, 5, 2, 2),), (16,))
        det = CoincidenceModes(net=own, ordered=False, random_state=0, steps=60).fit(s, q)
    assert len(det.modes_) >= 2
    assert det.transforms_ == NO_TRANSFORMS
    assert det.layer_.nets[0].blueprints[0].source == own
    assert det.layer_.nets[0].blueprints[0].input_shape == (2, 32)


def decades(seed, n=1500):
    rng = np.random.default_rng(seed)
    kind = rng.choice(5, n, p=[0.25, 0.25, 0.25, 0.2, 0.05])
    s, q = (np.exp(2.5 * rng.normal(size=(5, 5))[kind] + 0.6 * rng.normal(size=(n, 5))) for _ in range(2))
    return s, q, kind == 4


@pytest.mark.slow
def test_kinds_that_differ_by_a_factor_are_found_in_columns_that_span_decades(tmp_path):
    s, q, rare = decades(1)
    s = np.column_stack([s, np.random.default_rng(0).normal(size=len(s))])  # this one stays as it is
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert np.isnan(det.transforms_[0][0].floor)[-1]
    assert f1(rare, det.predict(s, q)) > 0.95
    s[:3] *= -1  # below 0, where no row of the fit was
    assert np.isfinite(det.score_samples(s, q)).all()
    det.save(tmp_path / "model")
    np.testing.assert_array_equal(coad.load(tmp_path / "model").predict(s, q), det.predict(s, q))


@pytest.mark.slow
def test_a_single_column_that_spans_decades_is_transformed_by_its_logarithm():
    rng = np.random.default_rng(0)
    kind = rng.choice(4, 1500, p=[0.4, 0.3, 0.25, 0.05])
    s, q = (
        10.0 ** (order[kind] + 0.15 * rng.normal(size=1500))
        for order in np.array([[0, 1, 2, 3], [2, 3, 0, 1]])
    )
    det = CoincidenceModes(random_state=0).fit(s[:, None], q[:, None])
    assert all(isinstance(step, LogColumns) for steps in det.transforms_ for step in steps)
    assert f1(kind == 3, det.predict(s[:, None], q[:, None])) > 0.95


def test_a_speck_of_dust_among_zeros_hardly_moves_the_others():
    rng = np.random.default_rng(0)
    rows = np.exp(2 * rng.normal(size=(1000, 1))).astype(np.float32)
    rows[rng.random(1000) < 0.2] = 0
    dusty = rows.copy()
    dusty[7] = 1e-20
    np.testing.assert_allclose(LogColumns.fit(dusty)(dusty)[8:], LogColumns.fit(rows)(rows)[8:], atol=0.2)


def test_logarithms_are_asked_for_where_a_column_spans_decades_only():
    rng = np.random.default_rng(0)
    wide = np.exp(2 * rng.normal(size=1000))
    rows = np.column_stack(
        [wide, np.where(wide < 0.3, 0, wide), rng.exponential(size=1000), rng.normal(size=1000), wide - 0.1]
    ).astype(np.float32)
    logs = LogColumns.fit(rows)
    assert np.isnan(logs.floor).tolist() == [False, False, True, True, True]
    np.testing.assert_allclose(logs(rows)[:, 0], np.log(rows[:, 0] + rows[:, 0].min() / 2), atol=1e-5)
    np.testing.assert_array_equal(logs(rows)[:, 2:], rows[:, 2:])
    assert np.isfinite(logs(rows)).all()
    assert LogColumns.fit(rows[:, 2:]) is None


@pytest.mark.slow
def test_codes_whose_order_means_nothing_tell_kinds_apart(tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.choice(5, 1500, p=[0.25, 0.25, 0.25, 0.2, 0.05])
    inputs = []
    for _ in range(2):
        # Each kind likes one of six codes in each column: 1 to 6 for some kinds are 6 to 1, or anything, for others.
        liked = rng.integers(1, 7, size=(5, 8))
        any_code = rng.integers(1, 7, (1500, 8))
        inputs.append(np.where(rng.random((1500, 8)) < 0.75, liked[kind], any_code).astype(float))
    s, q = inputs
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert [type(step) for step in det.transforms_[0]] == [OneHotColumns]
    assert f1(kind == 4, det.predict(s, q)) > 0.95
    det.save(tmp_path / "model")
    np.testing.assert_array_equal(coad.load(tmp_path / "model").predict(s, q), det.predict(s, q))
    s[0] = 99  # a code that the fit did not know
    assert np.isfinite(det.score_samples(s, q)).all()


def test_codes_are_few_whole_numbers_of_which_none_is_nearly_all():
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [
            rng.integers(5, size=900),
            rng.integers(5, size=900) + 0.5,  # no whole numbers
            rng.integers(2, size=900),  # yes and no are one column already
            np.where(rng.random(900) < 0.95, 0, rng.integers(5, size=900)),
            rng.integers(30, size=900),
            np.append(rng.integers(4, size=897), [8, 8, 9]),  # thins out
        ]
    ).astype(np.float32)
    assert [len(own) for own in OneHotColumns.fit(rows).values] == [5, 0, 0, 0, 0, 0]
    assert OneHotColumns.fit(rows)(rows).shape == (900, 10)
    assert OneHotColumns.fit(rows[:, 1:]) is None
    assert OneHotColumns.fit(np.tile(rows[:, :1], 100)) is None  # 500 columns would be too many
    assert (
        OneHotColumns.fit(np.column_stack([rows, np.tile(rows[:, 1:2], 500)])) is not None
    )  # others do not count


def test_many_columns_are_a_signal_if_neighbours_are_correlated():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(300, 90)).astype(np.float32)
    for rows, many in ((noise, 1), (noise.cumsum(axis=1), 2), (noise.cumsum(axis=1)[:, :60], 1)):
        (candidates,) = candidate_steps(rows, noise, None)
        assert len({names[0][:2] for names in candidates if "logs" not in names[0] + names[1]}) >= many
        assert any("signal" in names[0] for names in candidates) == (many == 2)


@pytest.mark.slow
def test_small_images_are_lists_of_pixels_and_large_ones_go_to_convolutions(tmp_path):
    rng = np.random.default_rng(0)
    s, q, kind = rows_around_centres([0.4, 0.3, 0.25, 0.05], 900, (1, 6, 5), spread=2, seed=0)
    s, q = s.astype(np.float32), q.astype(np.float32)
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert f1(kind == 3, det.predict(s, q)) > 0.95
    assert len(det.layer_.nets[0].blueprints[0].input_shape) == 1
    det.save(tmp_path / "model")
    np.testing.assert_array_equal(coad.load(tmp_path / "model").predict_mode(s, q), det.predict_mode(s, q))
    large = np.zeros((9, 1, 17, 16), dtype=np.float32)
    assert candidate_steps(large, s[:9], None) == [[((), ())]]
    # Small images beside windows: both become flat, or none does.
    windows = rng.normal(size=(900, 2, 30)).astype(np.float32)
    first, last = candidate_steps(s, windows, None)
    steps = [fit_steps(names, x)[0] for names, x in zip(first[0], (s, windows), strict=True)]
    assert [type(step).__name__ for step in steps] == ["Pixels", "WindowFeatures"]
    assert [step(x).ndim for step, x in zip(steps, (s, windows), strict=True)] == [2, 2]
    assert last == [((), ())]


def test_the_picture_of_a_mode_shows_the_power_of_windows_too():
    from coad.modes.catalogue import Mode
    from coad.report.modes_figures import exemplars_figure

    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(200, 2, 32)), rng.normal(size=(200, 3))
    s[:5, 0] += 9 * np.sin(2 * np.pi * 4 * np.arange(32) / 32 + rng.uniform(0, 6, (5, 1)))
    facts = dict.fromkeys(("size", "precision_hat", "support", "p_value", "stability"), 0.5)
    mode = Mode(mode=0, rows=5, role="rare", reason="", exemplars=(0, 1, 2, 3, 4), **facts)
    figure = exemplars_figure(mode, s, q, (("a", "b"), ("x", "y", "z")))
    usual, own = (trace for trace in figure.data if trace.yaxis == "y2")
    assert own.x[np.argmax(own.y)] == 4
    assert max(own.y) > 100 * max(usual.y)
    assert len(exemplars_figure(mode, q, q, ((), ())).data) == 2  # features have no power


def test_names_of_one_input_never_lie_over_the_bars_of_the_other():
    from coad.modes.catalogue import Mode
    from coad.report.modes_figures import exemplars_figure

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    facts = dict.fromkeys(("size", "precision_hat", "support", "p_value", "stability"), 0.5)
    mode = Mode(mode=0, rows=5, role="rare", reason="", exemplars=(0, 1, 2), **facts)
    names = ("hydraulic_pressure_of_the_first_pump", "hydraulic_pressure_of_the_first_cylinder", "x")
    layout = exemplars_figure(mode, x, x, (names, names)).layout
    assert layout.xaxis.domain == layout.xaxis2.domain
    assert layout.yaxis.domain[0] > layout.yaxis2.domain[1]
    for axis in (layout.yaxis, layout.yaxis2):
        assert axis.automargin
        assert max(map(len, axis.ticktext)) <= 26
        assert sorted(axis.tickvals) == [0, 1, 2]
    image = rng.normal(size=(200, 1, 4, 4))
    assert [one.type for one in exemplars_figure(mode, image, x, (names, names)).data] == ["heatmap"] * 3 + [
        "bar"
    ]
