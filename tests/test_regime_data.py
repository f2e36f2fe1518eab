"""SKAB and the hydraulic rig: read as they are published, scaled within regimes, one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coad.data.pairs import Pairs
from coad.exceptions import FileError, InputError
from coad.research.datasets.hydraulic import Q_SENSORS, S_SENSORS, load_hydraulic
from coad.research.datasets.skab import Q_CHANNELS, RUNS, S_CHANNELS, load_skab
from coad.research.experiments.regimes import (
    RegimeRow,
    RegimesRun,
    run_regimes,
    scaled_within,
)
from coad.research.figures.regimes import write_regimes_page


def write_run(folder: Path, run: str, rows: int = 60, anomaly: range = range(20, 40)) -> None:
    path = folder / f"{run}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("Accelerometer1RMS", "Accelerometer2RMS", "Current", "Pressure", "Temperature")
    lines = [
        ";".join(
            ("datetime", *names, "Thermocouple", "Voltage", "Volume Flow RateRMS", "anomaly", "changepoint")
        )
    ]
    for t in range(rows):
        values = ";".join(str(100 * column + t) for column in range(8))
        lines.append(f"2020-03-09 10:{t // 60:02d}:{t % 60:02d};{values};{float(t in anomaly)};0.0")
    path.write_text("\n".join(lines) + "\n")


def write_rig(path: Path, cycles: int = 240) -> Path:
    """Four regimes in turn, leakage set for twenty cycles at a time; it shifts every sensor within a regime."""
    rng = np.random.default_rng(0)
    cooler = np.array([3, 100])[np.arange(cycles) // (cycles // 2)]
    valve = np.array([73, 100])[np.arange(cycles) // (cycles // 4) % 2]
    leakage = np.where(np.arange(cycles) // 20 % 3 == 2, 2, 0)
    base = cooler + 3.0 * valve + 10.0 * leakage
    sensors = {
        name: (base[:, None] + rng.normal(0, 1, (cycles, 60))).astype(np.float32)
        for name in (*S_SENSORS, *Q_SENSORS, "CE", "CP", "SE")
    }
    zero = np.zeros(cycles)
    profile = np.column_stack([cooler, valve, leakage, zero + 130, zero]).astype(np.int16)
    np.savez(path, **sensors, profile=profile)
    return path


# SKAB.


def test_skab_windows_stay_within_their_run_and_keep_order(tmp_path: Path) -> None:
    for run in ("valve1/0", "other/2"):
        write_run(tmp_path, run)
    data = load_skab(tmp_path, window=20, stride=10, runs=("valve1/0", "other/2"))
    assert data.pairs.group.tolist() == ["valve1/0"] * 5 + ["other/2"] * 5
    np.testing.assert_allclose(data.seconds, [19, 29, 39, 49, 59] * 2)
    # Channels are found by name: in the file, Voltage is column 6 and Pressure column 3.
    voltage = data.pairs.s[:, data.pairs.s_names.index("Voltage mean")]
    pressure = data.pairs.q[:, data.pairs.q_names.index("Pressure mean")]
    np.testing.assert_allclose(voltage[:5], 600 + np.arange(5) * 10 + 9.5)
    np.testing.assert_allclose(pressure[:5], 300 + np.arange(5) * 10 + 9.5)
    assert data.means_s[:, S_CHANNELS.index("Voltage")].tolist() == voltage.tolist()


def test_a_window_is_an_anomaly_if_most_of_it_is(tmp_path: Path) -> None:
    write_run(tmp_path, "valve2/3")
    data = load_skab(tmp_path, window=20, stride=5, runs=("valve2/3",))
    assert data.pairs.label.tolist() == [5 * k + 20 > 30 and 5 * k < 30 for k in range(9)]


def test_a_channel_that_stands_still_gives_finite_features(tmp_path: Path) -> None:
    write_run(tmp_path, "valve1/1")
    path = tmp_path / "valve1/1.csv"
    rows = [line.split(";") for line in path.read_text().splitlines()]
    path.write_text(
        "\n".join(";".join([*row[:8], row[8] if i == 0 else "32", *row[9:]]) for i, row in enumerate(rows))
    )
    data = load_skab(tmp_path, runs=("valve1/1",))
    assert np.isfinite(data.pairs.q).all()


def test_unknown_runs_and_missing_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="valve9/1"):
        load_skab(tmp_path, runs=("valve9/1",))
    with pytest.raises(FileError, match="skab"):
        load_skab(tmp_path)


def test_the_published_runs_are_all_read(shared_data) -> None:
    data = load_skab(shared_data("skab"))
    assert tuple(dict.fromkeys(data.pairs.group.tolist())) == RUNS
    assert len(RUNS) == 34
    assert 0.33 < data.pairs.label.mean() < 0.37
    assert data.means_q.shape == (len(data.pairs), len(Q_CHANNELS))


# The hydraulic rig.


def test_the_rig_leaves_out_virtual_sensors_and_names_the_regime(tmp_path: Path) -> None:
    data = load_hydraulic(write_rig(tmp_path / "rig.npz"))
    assert not [name for name in (*data.pairs.s_names, *data.pairs.q_names) if name[:2] in ("CE", "CP", "SE")]
    assert len(np.unique(data.pairs.context)) == 4
    assert data.pairs.context[0] == "cooler 3, valve 73, accumulator 130"
    np.testing.assert_array_equal(data.pairs.label, data.leakage == 2)
    # A group is a stretch of cycles with one setting of all components.
    assert all(
        len(np.unique(data.leakage[data.pairs.group == group])) == 1 for group in np.unique(data.pairs.group)
    )


def test_the_published_rig_is_read(shared_data) -> None:
    root = shared_data("hydraulic")
    severe, whichever = load_hydraulic(root), load_hydraulic(root, fault="any")
    assert len(severe.pairs) == 2205
    assert severe.pairs.label.sum() == 492
    assert whichever.pairs.label.sum() == 984
    assert len(np.unique(severe.pairs.context)) == 48
    assert severe.unstable.sum() == 756


# Regimes.


def test_scaling_within_regimes_takes_the_regime_out_and_leaves_the_event() -> None:
    rng = np.random.default_rng(0)
    level = np.repeat([0.0, 50.0, 500.0], 40)
    event = np.tile(np.arange(40) == 7, 3)
    x = level + rng.normal(0, 1, 120) + 6 * event
    pairs = Pairs(x, -x, context=level)
    s, q, far_s, far_q = scaled_within(pairs, pairs, regimes=True)
    assert abs(np.corrcoef(s[:, 0], level)[0, 1]) < 0.1
    assert s[event, 0].min() > 1.5 * np.abs(s[~event, 0]).max()
    np.testing.assert_array_equal(s, far_s)
    np.testing.assert_allclose(q, -s, atol=1e-9)
    np.testing.assert_array_equal(q, far_q)
    plain = scaled_within(pairs, pairs, regimes=False)[0]
    assert np.corrcoef(plain[:, 0], level)[0, 1] > 0.9


def test_scaling_learns_from_the_training_rows_only() -> None:
    rng = np.random.default_rng(1)
    train = Pairs(rng.normal(size=50), rng.normal(size=50), context=["a"] * 50)
    far = Pairs(np.array([1000.0, 0.0]), np.array([0.0, 0.0]), context=["a", "unseen"])
    s, _, far_s, _ = scaled_within(train, far, regimes=True)
    np.testing.assert_array_equal(s, scaled_within(train, train, regimes=True)[0])
    assert far_s[0, 0] == 8  # clipped
    assert abs(far_s[1, 0]) < 1


def test_the_leak_is_found_within_regimes_of_a_made_rig(tmp_path: Path) -> None:
    write_rig(tmp_path / "hydraulic_1hz_17sensors.npz", cycles=480)
    run = run_regimes(["hydraulic"], data=tmp_path, splits=1, n_starts=2, epochs=60)
    by = {row.method: row for row in run.rows}
    assert by["regimes"].f1 > 0.9
    assert run.hydraulic_flags is not None
    assert run.hydraulic_flags["regimes"].shape == (1, 480)
    write_regimes_page(run, tmp_path / "page.html")
    assert "severe pump leakage" in (tmp_path / "page.html").read_text()


def test_the_table_has_a_line_for_each_method_and_counts_statuses() -> None:
    rows = [
        RegimeRow("SKAB", method, split, f1, 0.5, 0.5, 0.47, 0.2, 0.1, 0.8, status, 1.0)
        for split, status in enumerate(("found", "found", "no coincidence"))
        for method, f1 in (("plain", 0.1), ("regimes", 0.3 + split / 10))
    ]
    plain, regimes = RegimesRun(rows, {}).table()
    assert (plain.method, regimes.method) == ("plain", "regimes")
    assert regimes.f1 == pytest.approx(0.4)
    assert regimes.deviation == pytest.approx(0.1)
    assert regimes.lowest == pytest.approx(0.3)
    assert regimes.status == "found (2 of 3), no coincidence (1 of 3)"


def test_unknown_data_sets_are_refused() -> None:
    with pytest.raises(InputError, match="turbine"):
        run_regimes(["turbine"])
