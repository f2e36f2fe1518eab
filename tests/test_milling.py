"""Milling: the original file's structure, the stable part, wear, splits by cut, and the reading of halves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from coad.core.labels import label_scores
from coad.data.pairs import Pairs
from coad.exceptions import FileError, InputError
from coad.research.datasets.milling import (
    FIELDS,
    MillingData,
    interpolated_wear,
    load_mill_mat,
    load_milling_features,
    stable_part,
    tool_class_of,
)
from coad.research.experiments.milling import (
    MillingRow,
    MillingRun,
    held_out_cuts,
    motor_power,
    run_milling,
)
from coad.research.figures.milling import fit_sigmoid, wear_figure, write_milling_page

SENSORS = FIELDS[7:]


def write_mill(path: Path, cuts: int = 167, samples: int = 9000, fields: tuple[str, ...] = FIELDS) -> Path:
    """A file of the original's structure; sample t of cut c holds c + t/10000 in every sensor."""
    records = np.empty((1, cuts), dtype=[(name, object) for name in fields])
    ramp = np.arange(samples)[:, None] / 1e4
    for cut in range(cuts):
        plain = {
            "case": np.uint8(cut // 10 + 1),
            "run": np.uint8(cut % 10 + 1),
            "VB": np.nan if cut % 10 == 1 else 0.1 * (cut % 10),
            "time": np.uint8(cut % 10 + 1),
            "DOC": (0.75, 1.5)[cut // 10 % 2],
            "feed": (0.25, 0.5)[cut // 20 % 2],
            "material": np.uint8(cut // 40 % 2 + 1),
        }
        for name in fields:
            records[0, cut][name] = plain.get(name, cut + ramp)
    savemat(path, {"mill": records}, do_compression=True)
    return path


def write_table(path: Path, cuts: int = 167, start: int = 100, end: int = 420) -> Path:
    lines = ["case,run,VB,time,DOC,feed,material,cut_no,tool_class,window_start,window_end"]
    lines += [
        f"{c // 10 + 1},{c % 10 + 1},,1,1.5,0.5,1,{c},{int(c % 10 >= 2)},{start},{end}" for c in range(cuts)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


# The original file.


def test_a_file_of_the_full_structure_gives_the_windows_of_its_table(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "mill.mat", samples=600)
    data = load_mill_mat(file, table=write_table(tmp_path / "table.csv"))
    pairs = data.pairs
    assert pairs.s.shape == (165 * 5, 2, 64)
    assert pairs.q.shape == (165 * 5, 4, 64)
    assert not set(np.unique(pairs.group)) & {17, 94}
    # Window k of cut c starts at sample 100 + 64 k, in all sensors alike.
    at = np.flatnonzero(pairs.group == 20)[2]
    expected = 20 + (100 + 2 * 64 + np.arange(64)) / 1e4
    np.testing.assert_allclose(pairs.s[at], np.tile(expected, (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(pairs.q[at], np.tile(expected, (4, 1)), rtol=1e-6)
    assert pairs.id[at] == "20_228"
    assert pairs.label[pairs.group == 22].all()
    assert not pairs.label[pairs.group == 21].any()
    assert len(np.unique(pairs.context)) == 8
    assert pairs.context[at] == "cast iron, 0.75 mm deep, 0.5 mm/rev"
    assert np.isnan(data.wear[pairs.group == 21]).all()
    assert (data.case[pairs.group == 25] == 3).all()
    assert (data.run[pairs.group == 25] == 6).all()


def test_a_table_beside_the_file_is_found(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "mill.mat", cuts=3, samples=600)
    write_table(tmp_path / "labels_with_tool_class.csv", cuts=3)
    assert "table of stable parts" in load_mill_mat(file).source


def test_without_a_table_class_and_stable_part_follow_the_rules(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "mill.mat", cuts=5, samples=2000)
    data = load_mill_mat(file)
    start, end = stable_part(4 + np.arange(2000) / 1e4)
    assert data.pairs.id[0] == f"0_{start}"
    assert (data.pairs.group == 0).sum() == (end - start) // 64
    assert [int(data.tool_class[data.pairs.group == cut][0]) for cut in range(5)] == [0, 0, 1, 1, 1]


def test_a_single_cut_and_overlapping_windows_are_read(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "mill.mat", cuts=1, samples=600)
    data = load_mill_mat(file, table=write_table(tmp_path / "t.csv", cuts=1), stride=32)
    assert data.pairs.s.shape == (9, 2, 64)


def test_another_file_is_refused_by_name_of_the_missing_field(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "other.mat", cuts=2, samples=100, fields=FIELDS[:-1])
    with pytest.raises(FileError, match="AE_spindle"):
        load_mill_mat(file)
    with pytest.raises(FileError, match="no file"):
        load_mill_mat(tmp_path / "nowhere.mat")


def test_windows_longer_than_every_stable_part_are_refused(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "mill.mat", cuts=2, samples=600)
    with pytest.raises(InputError, match="no window of 500"):
        load_mill_mat(file, table=write_table(tmp_path / "t.csv", cuts=2), window=500)


def test_the_published_two_cuts_are_read(shared_data) -> None:
    folder = shared_data("milling")
    data = load_mill_mat(folder / "mill_first_two_cuts.mat")
    assert data.pairs.s.shape == (140, 2, 64)  # (6976 - 2496) / 64 windows of each cut
    assert data.pairs.q.shape == (140, 4, 64)
    assert set(data.pairs.context) == {"cast iron, 1.5 mm deep, 0.5 mm/rev"}
    assert not data.pairs.label.any()
    assert data.pairs.id[0] == "0_2496"


def test_the_rule_for_the_stable_part_lies_within_the_cut(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    idle, load = rng.normal(1, 0.3, 2500), rng.normal(8, 1.0, 4500)
    start, end = stable_part(np.concatenate([idle, load, idle[:2000]]))
    assert 2500 <= start < end <= 7000
    assert end - start > 3000
    assert stable_part(np.ones(500)) == (0, 0)


def test_wear_between_measurements_gives_the_published_classes(shared_data) -> None:
    from coad.data.tables import read_columns

    table = read_columns(
        shared_data("milling") / "labels_with_tool_class.csv", ["VB", "case", "run", "tool_class"]
    )
    assert np.isnan(table["VB"]).sum() == 21
    classes = tool_class_of(interpolated_wear(table["VB"], table["case"], table["run"]))
    np.testing.assert_array_equal(classes, table["tool_class"])


# The table of features.


def test_the_feature_table_keeps_regime_cut_label_and_wear(shared_data) -> None:
    data = load_milling_features(shared_data("milling"))
    pairs = data.pairs
    assert len(pairs) == 9095
    assert pairs.s.shape[1] == 6
    assert pairs.q.shape[1] == 12
    assert not set(pairs.s_names) & set(pairs.q_names)
    assert len(np.unique(pairs.context)) == 8
    assert len(np.unique(pairs.group)) == 165
    np.testing.assert_array_equal(pairs.label, data.tool_class >= 1)
    assert abs(pairs.label.mean() - 0.636) < 0.001
    measured = ~np.isnan(data.wear)
    np.testing.assert_array_equal(tool_class_of(data.wear[measured]), data.tool_class[measured])


def test_thinning_keeps_every_cut(shared_data) -> None:
    data = load_milling_features(shared_data("milling"), every=8)
    assert len(np.unique(data.pairs.group)) == 165
    assert len(data) < 9095 / 7
    with pytest.raises(InputError, match="every"):
        load_milling_features(shared_data("milling"), every=0)


# The experiment.


def made_data(path: Path, *, cuts: int = 48, windows: int = 16, flip: bool = False) -> Path:
    """A feature table in which wear raises motor current and sound in each of four regimes."""
    rng = np.random.default_rng(3)
    features = ("abs_energy", "absolute_sum_of_changes", "kurtosis")
    names = [f"{sensor.lower()}__{feature}" for sensor in SENSORS for feature in features]
    lines = [",".join([*names, "cut_no,case,run,VB,DOC,feed,material,tool_class,window"])]
    for cut in range(cuts):
        case, run = cut // 12, cut % 12
        wear = 0.02 * run if run < 5 else 0.3 + 0.04 * run
        for window in range(windows):
            log = 3 * case + rng.normal(0, 0.1, len(names)) + (6 if not flip else -6) * wear
            known = (
                f"{cut},{case + 1},{run + 1},{wear:.3f},{(0.75, 1.5)[case % 2]},{(0.25, 0.5)[case // 2]},1"
            )
            lines.append(",".join(f"{np.exp(x):.6g}" for x in log) + f",{known},{int(wear >= 0.2)},{window}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_no_cut_is_on_both_sides_and_every_regime_is_on_both() -> None:
    cuts = np.repeat(np.arange(40), 5)
    pairs = Pairs(cuts, cuts, context=np.where(cuts < 8, "a", "b"), group=cuts)
    for seed in range(5):
        test = held_out_cuts(pairs, 0.3, np.random.default_rng(seed))
        assert not set(cuts[test]) & set(cuts[~test])
        assert len(np.unique(cuts[test & (cuts < 8)])) == 2
        assert len(np.unique(cuts[test & (cuts >= 8)])) == 10


def test_motor_power_is_told_within_the_regime() -> None:
    s = np.array([[1.0], [2.0], [101.0], [102.0]])
    power = motor_power(Pairs(s, s), ["a", "a", "b", "b"])
    np.testing.assert_allclose(power, [-1, 1, -1, 1])
    loud = np.stack([np.full((2, 64), 2.0), np.full((2, 64), 1.0)])
    assert np.diff(motor_power(Pairs(loud, loud)))[0] < 0


def test_f1_of_nothing_called_is_zero() -> None:
    assert label_scores(np.zeros(2), [True, False]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_sharp_tools_are_read_as_healthy_whichever_half_was_learned(tmp_path: Path, seed: int) -> None:
    file = made_data(tmp_path / "made.csv")
    run = run_milling(1, data=file, n_starts=2, epochs=120, every=4, methods=["regimes"], random_state=seed)
    assert run.rows[0].f1 > 0.8  # all anomalous: 0.74
    assert run.anomaly[run.judged.wear > 0.4].mean() > run.anomaly[run.judged.wear < 0.1].mean() + 0.1


def test_where_sharp_tools_draw_more_current_the_reading_is_wrong(tmp_path: Path) -> None:
    """The reading rests on motor current alone, not on labels: turn the physics over and it fails."""
    file = made_data(tmp_path / "made.csv", flip=True)
    run = run_milling(1, data=file, n_starts=2, epochs=120, every=4, methods=["regimes"])
    assert run.rows[0].f1 < 0.5


def test_labels_do_not_change_what_is_called_anomalous(tmp_path: Path) -> None:
    file = made_data(tmp_path / "made.csv")
    lines = file.read_text().splitlines()
    swapped = [line.rsplit(",", 2) for line in lines[1:]]
    other = tmp_path / "other.csv"
    other.write_text("\n".join([lines[0], *(f"{a},{1 - int(b)},{c}" for a, b, c in swapped)]) + "\n")
    one, two = (run_milling(1, data=path, n_starts=1, epochs=20, every=4) for path in (file, other))
    np.testing.assert_array_equal(one.anomaly, two.anomaly)
    assert [row.flagged for row in one.rows] == [row.flagged for row in two.rows]


def test_the_original_file_runs_through_the_same_experiment(tmp_path: Path) -> None:
    file = write_mill(tmp_path / "mill.mat", cuts=40, samples=600)
    write_table(tmp_path / "labels_with_tool_class.csv", cuts=40)
    run = run_milling(1, data=file, n_starts=1, epochs=2, methods=["regimes"])
    assert run.judged.pairs.s.shape[1:] == (2, 64)
    assert "raw windows of 64 samples from 39 cuts" in run.source
    assert np.isfinite(run.anomaly).all()


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InputError, match="plain, regimes"):
        run_milling(1, methods=["best"])


def a_run() -> MillingRun:
    rng = np.random.default_rng(0)
    cuts = np.repeat(np.arange(16), 10)
    wear = cuts % 8 / 10.0
    pairs = Pairs(
        wear, wear, context=np.where(cuts < 8, "iron", "steel"), group=cuts, label=tool_class_of(wear) >= 1
    )
    judged = MillingData(pairs, wear, tool_class_of(wear), cuts, cuts, "made")
    rows = [
        MillingRow(i, m, f1, 0.9, 0.8, 0.5, 0.7, True, 0.4, 0.4, 0.99, 0.98, "found", 1.0)
        for i in range(3)
        for m, f1 in (("plain", 0.6 + i / 10), ("regimes", 0.8 + i / 20))
    ]
    anomaly = np.clip(wear + rng.normal(0, 0.02, len(wear)), 0, 1)
    return MillingRun(rows, judged, anomaly, "made data", 1.0, 0.78)


def test_the_summary_counts_splits_below_their_own_trivial_score() -> None:
    plain, regimes = (a_run().summary(method) for method in ("plain", "regimes"))
    assert plain.below_trivial == 1  # 0.6; 0.7 is not below 0.7
    assert regimes.below_trivial == 0
    assert regimes.mean == pytest.approx(0.85)
    assert regimes.deviation == pytest.approx(0.05)
    with pytest.raises(InputError, match="plain, regimes"):
        a_run().summary("best")


def test_the_page_says_which_data_and_what_was_added(tmp_path: Path) -> None:
    write_milling_page(a_run(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "made data" in text
    assert "draws less motor current" in text
    assert "0.86" in text


def test_a_panel_per_regime_with_a_fitted_line() -> None:
    run = a_run()
    figure = wear_figure(run.anomaly, run.judged.wear, run.judged.pairs.context, run.judged.pairs.group)
    assert len(figure.data) == 4
    assert len(figure.data[0].x) == 8


def test_too_few_points_get_no_sigmoid() -> None:
    assert fit_sigmoid([0.1, 0.2, 0.3], [0, 0, 1]) is None
