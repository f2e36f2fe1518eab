"""The simulated plant: how often things happen in it, and which input sees them."""

from __future__ import annotations

import numpy as np
import pytest

from coad.data import Layout
from coad.data.read import read_pairs
from coad.exceptions import FileError, InputError
from coad.research.datasets.plant import (
    BEARING,
    DROPOUT,
    JAM,
    KINDS,
    LOOSE,
    PRODUCTS,
    Q_COLUMNS,
    S_COLUMNS,
    simulated_plant,
    write_plant,
)


@pytest.fixture(scope="module")
def plant():
    return simulated_plant(random_state=0)


def departures(values, plant):
    """How far each row is from the normal rows of its product (Mahalanobis: what the load moves together is usual)."""
    far = np.zeros(len(values))
    for product in PRODUCTS:
        here = plant.product == product
        normal = values[here & (plant.kind == 0)]
        apart = values[here] - normal.mean(axis=0)
        far[here] = np.sqrt(np.einsum("ij,jk,ik->i", apart, np.linalg.inv(np.cov(normal.T)), apart))
    return far


def test_rates_are_those_that_the_docstring_states(plant):
    share = [np.mean(plant.kind == number) for number in range(len(KINDS))]
    assert share[BEARING] == pytest.approx(0.015)
    assert share[JAM] == pytest.approx(0.010)
    assert share[DROPOUT] == pytest.approx(0.012)
    assert share[LOOSE] == pytest.approx(0.012)
    assert np.array_equal(plant.pairs.label, np.isin(plant.kind, (BEARING, JAM)))


def test_rows_are_in_time_order_with_names_and_units(plant):
    pairs = plant.pairs
    assert len(pairs) == 4000
    assert set(np.diff(pairs.time)) == {np.timedelta64(15 * 60 * 10**9, "ns")}
    assert pairs.s_names == S_COLUMNS
    assert pairs.q_names == Q_COLUMNS
    assert pairs.context is None  # a user has to name it
    normal = plant.kind == 0
    assert (pairs.s[normal] > 0).all()
    assert (pairs.q[normal] > 0).all()
    assert 380 < pairs.s[:, S_COLUMNS.index("motor_voltage")].mean() < 420


def test_products_run_in_stretches_and_both_inputs_see_them(plant):
    changes = int((plant.product[1:] != plant.product[:-1]).sum())
    assert 10 < changes < 40
    assert set(plant.product) == set(PRODUCTS)
    for values in (plant.pairs.s, plant.pairs.q):
        means = np.array([values[plant.product == name].mean(axis=0) for name in PRODUCTS])
        assert (np.ptp(means, axis=0) / values.std(axis=0)).max() > 1.5


def test_both_inputs_see_the_load_and_its_noise_is_correlated(plant):
    here = (plant.product == PRODUCTS[0]) & (plant.kind == 0)
    s, q = plant.pairs.s[here], plant.pairs.q[here]
    power, loudness = s[:, S_COLUMNS.index("motor_power")], q[:, Q_COLUMNS.index("noise_level")]
    assert np.corrcoef(power, loudness)[0, 1] > 0.5
    assert np.corrcoef(s.T)[0, 5] > 0.5


@pytest.mark.parametrize(("fault", "seen_by", "hidden_from"), [(DROPOUT, "s", "q"), (LOOSE, "q", "s")])
def test_a_fault_of_one_sensor_is_seen_by_its_input_alone(plant, fault, seen_by, hidden_from):
    rows, normal = plant.kind == fault, plant.kind == 0
    seen = departures(getattr(plant.pairs, seen_by), plant)
    hidden = departures(getattr(plant.pairs, hidden_from), plant)
    limit = np.quantile(seen[normal], 0.99)
    assert (seen[rows] > limit).mean() > 0.9
    # In the other input these rows are like all others: few are beyond the normal 99 %.
    assert (hidden[rows] > np.quantile(hidden[normal], 0.99)).mean() < 0.1
    assert abs(np.median(hidden[rows]) - np.median(hidden[normal])) < 0.5


@pytest.mark.parametrize("event", [BEARING, JAM])
def test_an_event_is_seen_by_both_inputs(plant, event):
    rows, normal = plant.kind == event, plant.kind == 0
    for values in (plant.pairs.s, plant.pairs.q):
        far = departures(values, plant)
        assert (far[rows] > np.quantile(far[normal], 0.99)).mean() > 0.9


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    first, again, other = (simulated_plant(600, random_state=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.pairs.s, again.pairs.s)
    assert np.array_equal(first.pairs.q, again.pairs.q)
    assert np.array_equal(first.kind, again.kind)
    assert not np.array_equal(first.pairs.s, other.pairs.s)


def test_events_start_and_end_with_normal_rows_between(plant):
    changes = plant.kind[1:] != plant.kind[:-1]
    assert ((plant.kind[1:] == 0) | (plant.kind[:-1] == 0))[changes].all()


@pytest.mark.parametrize("name", ["plant.csv", "plant.parquet"])
def test_the_written_table_is_read_back_by_the_product(tmp_path, name):
    path = write_plant(tmp_path / name, 600, random_state=1)
    plant = simulated_plant(600, random_state=1)
    pairs = read_pairs(
        path, Layout(s="motor_*", q=("vib_*", "noise_*"), time="time", label="event", context="product")
    )
    assert np.allclose(pairs.s, plant.pairs.s, atol=1e-4)
    assert np.allclose(pairs.q, plant.pairs.q, atol=1e-4)
    assert np.array_equal(pairs.time, plant.pairs.time)
    assert np.array_equal(np.asarray(pairs.label, dtype=bool), plant.pairs.label)
    assert np.array_equal(pairs.context, plant.product)


@pytest.mark.parametrize("n", [0, 499, 1000.5])
def test_too_few_rows_are_refused(n):
    with pytest.raises(InputError, match="at least 500"):
        simulated_plant(n)


def test_other_kinds_of_file_and_missing_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.parquet or \.csv"):
        write_plant(tmp_path / "plant.txt", 500)
    with pytest.raises(FileError, match="no folder"):
        write_plant(tmp_path / "no" / "plant.csv", 500)
