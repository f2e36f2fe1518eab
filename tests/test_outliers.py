"""Outliers (a code for "missing", a spike of the readout) must not make all other values equal after scaling."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from makers import rows_around_centres

pytest.importorskip("torch")

import coad
from coad import CoAD, CoincidenceModes
from coad.core.labels import f1
from coad.exceptions import CoadWarning
from coad.learned.scaling import Scaler

RNG = np.random.default_rng


def clipped_slowly(values):
    """One feature, value by value."""
    low, high = np.quantile(values, [0.05, 0.95])
    room = high - low
    out = []
    for value in values:
        if value > high + 2 * room:
            over = value - (high + 2 * room)
            value = high + 2 * room + over / (1 + over / room)
        elif value < low - 2 * room:
            over = low - 2 * room - value
            value = low - 2 * room - over / (1 + over / room)
        out.append(value)
    return np.array(out)


def spoiled(rows, value, part, rng):
    """The rows with some values of each column replaced."""
    return np.where(rng.random(rows.shape) < part, value, rows)


def kinds(seed=0, rows=1500):
    """Three regimes and a rare kind in four columns of either input."""
    s, q, kind = rows_around_centres([0.5, 0.3, 0.15, 0.05], rows, (4,), spread=4, seed=[3, seed])
    return [s, q], kind == 3


def events(seed=0, rows=1500):
    """Events of 6 % that both inputs see."""
    rng = RNG([4, seed])
    event = rng.random(rows) < 0.06
    return [rng.normal(size=(rows, 3)) + event[:, None] * [4, -4, 0] for _ in range(2)], event


@pytest.mark.parametrize(("value", "part"), [(-9999.0, 0.03), (1e6, 0.002), (3e30, 0.001)])
def test_outliers_are_clipped_and_the_other_values_keep_their_scale(value, part):
    rows = RNG(0).normal(size=(4000, 3))
    rows[:, 2] = rows[:, 2] * 1e-3 + 5
    spiky = rows.copy()
    spiky[:, :2] = spoiled(rows[:, :2], value, part, RNG(1))
    scaler = Scaler.fit(spiky.astype(np.float32))
    assert np.isfinite(scaler.limits).tolist() == [[True, True, False]] * 2
    scaled = scaler.transform(spiky.astype(np.float32))
    for column in range(2):
        expected = clipped_slowly(spiky[:, column])
        expected = (expected - expected.mean()) / expected.std()
        np.testing.assert_allclose(scaled[:, column], expected, atol=1e-4)
        usual = spiky[:, column] == rows[:, column]
        assert 0.3 < scaled[usual, column].std() < 1.1
        assert abs(scaled[~usual, column]).min() > 2 * abs(scaled[usual, column]).max()
    alone = Scaler.fit(spiky[:, 2:].astype(np.float32))
    np.testing.assert_array_equal(scaled[:, 2:], alone.transform(spiky[:, 2:].astype(np.float32)))
    again = Scaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    np.testing.assert_array_equal(again.transform(spiky.astype(np.float32)), scaled)
    far = np.float32([[value, 2 * value, 5]])
    order = scaler.transform(np.concatenate([spiky[:1], far, 1.01 * far]).astype(np.float32))
    assert np.isfinite(order).all()


def test_clipping_keeps_the_order_of_outliers():
    rows = RNG(0).normal(size=(3000, 1)).astype(np.float32)
    rows[:6, 0] = 300, 400, 1e3, -300, -400, -1e4
    scaled = Scaler.fit(rows).transform(rows)[:, 0]
    np.testing.assert_array_equal(np.argsort(scaled, kind="stable"), np.argsort(rows[:, 0], kind="stable"))


@pytest.mark.parametrize(
    "rows",
    [
        RNG(0).normal(size=(2000, 2)),
        RNG(0).standard_t(3, size=(2000, 2)),
        RNG(0).exponential(size=(2000, 2)) ** 2,
        np.where(RNG(0).random((2000, 2)) < 0.03, 1.0, 0.0),  # nearly always 0: no width to compare with
        np.where(RNG(0).random((2000, 2)) < 0.2, RNG(1).pareto(1.0, size=(2000, 2)), 0.0),  # mostly 0
        np.where(RNG(0).random((2000, 2)) < 0.08, 500.0, RNG(1).normal(size=(2000, 2))),  # a regime
    ],
)
def test_heavy_tails_and_regimes_are_not_clipped(rows):
    assert Scaler.fit(rows.astype(np.float32)).limits is None


def test_a_short_pulse_in_every_window_is_no_outlier_but_a_spike_in_one_window_is():
    windows = RNG(0).normal(size=(800, 2, 400)).astype(np.float32)
    windows[:, :, 200:202] += 1000 + 100 * RNG(1).normal(size=(800, 2, 1))
    assert Scaler.fit(windows).limits is None
    windows[7, 1, 30] = 1e7
    scaler = Scaler.fit(windows)
    assert np.isfinite(scaler.limits[0]).tolist() == [False, True]
    assert abs(scaler.transform(windows)).max() < 200


def test_outliers_are_clipped_within_contexts_too():
    rows, label = RNG(0).normal(size=(2000, 1)), np.repeat(["a", "b"], 1000)
    rows[label == "b"] += 3
    rows[[5, 1005]] = -1e5
    scaler = Scaler.fit(rows.astype(np.float32), label)
    scaled = scaler.transform(rows.astype(np.float32), label)[:, 0]
    assert [0.5 < scaled[label == one].std() < 1.5 for one in "ab"] == [True, True]
    assert 0.5 < np.delete(scaled, [5, 1005]).std() < 1.5


@pytest.mark.slow
@pytest.mark.parametrize(("value", "part"), [(-9999.0, 0.02), (1e6, 0.002)])
def test_both_methods_find_what_they_would_find_without_outliers(value, part, tmp_path):
    (s, q), rare = kinds()
    (u, v), event = events()
    rng = RNG(5)
    s, q, u, v = (spoiled(x, value, part, rng) for x in (s, q, u, v))
    s[0] = u[0] = value
    s = pd.DataFrame(s, columns=list("abcd"))
    modes, binary = CoincidenceModes(random_state=0), CoAD(random_state=0, epochs=40, n_starts=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CoadWarning)
        modes.fit(s, q)
        binary.fit(u, v)
    words = [str(one.message) for one in said if "outliers" in str(one.message)]
    assert [one[0] for one in words] == ["s", "q"] * 2
    count = int((s["a"] == value).sum())
    assert words[0].startswith(
        f"s: {count:,} outliers in column 'a' (largest {value:,.6g}), and outliers in 3 others were clipped before scaling."
    )
    assert "outliers in column 0 (largest" in words[2]
    assert "and outliers in 2 others" in words[2]
    assert f1(rare, modes.predict(s, q)) > 0.9
    assert f1(event, binary.predict(u, v)) > 0.9
    for model, inputs in ((modes, (s, q)), (binary, (u, v))):
        model.save(tmp_path / type(model).__name__)
        again = coad.load(tmp_path / type(model).__name__)
        np.testing.assert_array_equal(again.score_samples(*inputs), model.score_samples(*inputs))
