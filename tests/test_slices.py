"""Slices proposed for one table: the natural cut where there is one, and a reason."""

import numpy as np
import pytest

from coad.exceptions import InputError
from coad.workflows.slices import propose_slices


def two_devices(n=3000, seed=0, rate=0.05):
    """Columns that share a factor within each of two devices; events show in both."""
    rng = np.random.default_rng(seed)
    event = rng.random(n) < rate
    table = {}
    for device in ("left", "right"):
        factor = rng.normal(size=n)
        for number in range(4):
            moved = event * rng.choice([-3, 3])
            table[f"{device}{number}"] = factor + 0.7 * rng.normal(size=n) + moved
    return table


@pytest.mark.parametrize("seed", range(3))
def test_the_natural_cut_is_found_without_help_from_names(seed):
    table = two_devices(seed=seed)
    order = np.random.default_rng(seed).permutation(len(table))
    hidden = {f"c{place}x": list(table.values())[column] for place, column in enumerate(order)}
    proposal = propose_slices(hidden)
    devices = {int(order[int(name[1:-1])]) // 4 for name in proposal.s}
    assert len(devices) == 1
    assert len(proposal.s) == len(proposal.q) == 4
    assert proposal.together > 0.08
    assert proposal.predicted < 0.3
    assert "beyond chance" in proposal.reason


def test_views_of_one_sensor_stay_together():
    rng = np.random.default_rng(0)
    table = {}
    for sensor in ("pump", "valve", "tank"):
        x = rng.normal(size=1000)
        table |= {f"{sensor}_mean": x, f"{sensor}_spread": rng.normal(size=1000)}
    proposal = propose_slices(table, trials=0)
    for sensor in ("pump", "valve", "tank"):
        assert (f"{sensor}_mean" in proposal.s) == (f"{sensor}_spread" in proposal.s)


def test_a_regime_that_moves_everything_does_not_hide_the_cut():
    table = two_devices()
    material = np.random.default_rng(1).integers(0, 3, 3000)
    moved = {f"c{i}x": column + 10 * material for i, column in enumerate(table.values())}
    proposal = propose_slices(moved, context=material)
    assert proposal.s == ("c0x", "c1x", "c2x", "c3x")


def test_where_everything_hangs_together_short_trainings_decide(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("coad.workflows.slices._TRIAL_EPOCHS", 3)
    rng = np.random.default_rng(0)
    common = rng.normal(size=600)
    table = {f"c{i}x": common + 0.3 * rng.normal(size=600) for i in range(4)}
    proposal = propose_slices(table, trials=2)
    assert proposal.n_trained == 2
    assert "no cut leaves two independent slices" in proposal.reason
    assert sorted((*proposal.s, *proposal.q)) == list(table)
    assert propose_slices(table, trials=2) == proposal


def test_columns_that_never_change_are_left_out_and_too_few_refused():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 500))
    proposal = propose_slices({"a": a, "still": np.ones(500), "b": b})
    assert (proposal.s, proposal.q) == (("a",), ("b",))
    with pytest.raises(InputError, match="at least two columns"):
        propose_slices({"a": a, "still": np.ones(500)})
    with pytest.raises(InputError, match="'b' has missing values"):
        propose_slices({"a": a, "b": np.where(b > 2, np.nan, b)})
