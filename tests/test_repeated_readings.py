"""Readings that are repeated in several rows are no new evidence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from makers import assert_counts_what_score_tells, rows_around_centres

pytest.importorskip("torch")

from coad import CoAD, CoincidenceModes
from coad.core.labels import f1
from coad.exceptions import CoadWarning, InputError
from coad.learned.training.split import hold_out, new_rows

RNG = np.random.default_rng


def new_slowly(s, q):
    """Row by row."""
    return [i == 0 or (s[i] != s[i - 1]).any() or (q[i] != q[i - 1]).any() for i in range(len(s))]


@pytest.mark.parametrize("shape", [(3,), (2, 5)])
@pytest.mark.parametrize("some_values", [200, 4_000_000])
def test_rows_that_repeat_the_one_before_in_both_inputs_are_not_new(shape, some_values, monkeypatch):
    monkeypatch.setattr("coad.learned.training.split._SOME_VALUES", some_values)
    rng = RNG(0)
    times = rng.integers(1, 5, size=60)
    s, q = (rng.normal(size=(60, *shape)).repeat(times, axis=0).astype(np.float32) for _ in range(2))
    s[7] += 1  # a new reading of one input is new
    np.testing.assert_array_equal(new_rows(s, q), new_slowly(s, q))
    assert new_rows(s, rng.normal(size=q.shape)) is None  # the other input goes on
    s[:, ..., -1] += rng.normal(size=s[:, ..., -1].shape)  # the first value alone is repeated
    assert new_rows(s, q) is None


def test_rows_that_repeat_each_other_in_any_order_count():
    rng = RNG(1)
    codes = rng.integers(2, size=(2, 500, 1))
    assert new_rows(*codes) is None
    quiet = np.where(rng.random((2, 500, 1)) < 0.05, rng.normal(size=(2, 500, 1)), 0.0)  # mostly zeros
    assert new_rows(*quiet) is None
    states = np.sort(codes, axis=1)  # two states, one after the other: 499 of 500 rows are as the one before
    assert new_rows(*states) is not None


@pytest.mark.parametrize("how", ["random", "group", "time"])
def test_only_some_rows_take_part(how):
    among = np.arange(0, 90, 3)
    labels = {"random": None, "group": np.arange(90) // 9, "time": np.arange(90)[::-1]}[how]
    train, held = hold_out(90, 0.2, how, labels, RNG(0), among)
    assert sorted([*train, *held]) == among.tolist()
    if how == "time":
        assert held.max() < train.min()
    if how == "group":
        assert not set(train // 9) & set(held // 9)


@pytest.mark.parametrize("times", [2, 3, 9])
def test_repeated_noise_shows_no_coincidence(times):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CoadWarning)
        for seed in range(3):
            s, q = RNG([times, seed]).normal(size=(2, 900 // times, 4)).repeat(times, axis=1)
            model = CoAD(random_state=seed, n_starts=2, epochs=40).fit(s, q)
            assert model.status_ == "no coincidence"
            assert set(np.diff(np.sort(model.validation_rows_)) % times) == {0}
    assert any("of the rows repeat the row before in both inputs" in str(one.message) for one in said)


@pytest.mark.slow
def test_kinds_are_found_in_repeated_readings():
    s, q, kind = rows_around_centres([0.5, 0.3, 0.15, 0.05], 400, (4,), spread=3, seed=5)
    s, q, rare = s.repeat(9, axis=0), q.repeat(9, axis=0), np.repeat(kind == 3, 9)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CoadWarning)
        modes = CoincidenceModes(random_state=0).fit(s, q)
    assert "89% of the rows repeat" in str(said[0].message)
    assert f1(rare, modes.predict(s, q)) > 0.9
    assert_counts_what_score_tells(modes, s, q)


@pytest.mark.parametrize("model", [CoAD(), CoincidenceModes()])
def test_too_few_readings_are_refused(model):
    s, q = RNG(0).normal(size=(2, 40, 3)).repeat(10, axis=1)
    with pytest.raises(InputError, match=r"90% of the rows repeat .* there are 40"):
        model.fit(s, q)
