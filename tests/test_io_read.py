"""From files to pairs: times, missing values, contexts, windows, whole or streamed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coad.data import (
    Layout,
    context_blocks,
    iter_pairs,
    load,
    parse_duration,
    parse_time,
    read_pairs,
    spool_pairs,
)
from coad.data.times import format_duration
from coad.exceptions import FileError, InputError

INSTANT = np.datetime64("2020-03-09T10:14:33.250", "ns")


@pytest.mark.parametrize(
    "values",
    [
        ["2020-03-09 10:14:33.250"],
        ["2020-03-09T10:14:33.250"],
        ["2020-03-09T10:14:33.250Z"],
        ["2020-03-09T11:14:33.250+01:00"],
        ["1583748873.25"],
        [1583748873.25],
        [1583748873250],
        [1583748873250000],
        np.array([1583748873250000000]),
        np.array(["2020-03-09T10:14:33.250"], dtype="datetime64[ms]"),
    ],
)
def test_one_instant_in_any_usual_form(values):
    assert parse_time(values).tolist() == np.array([INSTANT]).tolist()


def test_nanoseconds_survive_and_plain_numbers_stay_numbers():
    stamps = np.array([1583748873250000001, 1583748873250000002])
    assert np.diff(parse_time(stamps)).astype(int).tolist() == [1]
    assert parse_time([0, 1, 5000]).tolist() == [0, 1, 5000]
    assert parse_time([1583748873], unit="number").tolist() == [1583748873]
    assert parse_time([5], unit="ms")[0] == np.datetime64("1970-01-01T00:00:00.005")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2020-03-09 10:00:00", "09.03.2020 10:00"], "'09.03.2020 10:00' at row 1"),
        (["2020-03-09T10:00:00Z", "2020-03-09T10:00:00"], "all with or all without a time zone"),
        ([True], "bool values, which are not times"),
        (["soon"], "'soon' at row 0"),
    ],
)
def test_times_that_cannot_be_read_are_named(values, message):
    with pytest.raises(InputError, match=message):
        parse_time(values)


@given(st.integers(1, 10**6), st.sampled_from(["ns", "us", "ms", "s", "min", "h", "d"]))
def test_durations_survive_writing_and_reading(number, unit):
    if unit == "d" and number > 100_000:
        with pytest.raises(InputError, match="292 years"):
            parse_duration(f"{number * 10}{unit}")
        return
    duration = parse_duration(f"{number}{unit}")
    again = parse_duration(format_duration(duration))
    assert abs(int(again.astype(int)) / int(duration.astype(int)) - 1) < 1e-3


def test_context_blocks_do_not_depend_on_the_other_rows():
    time = np.datetime64("2024-01-01T00:09", "ns") + np.arange(5) * np.timedelta64(60, "s")
    blocks = context_blocks(time, "10min")
    assert (np.diff(blocks) != 0).tolist() == [True, False, False, False]
    assert context_blocks(time[2:], "10min").tolist() == blocks[2:].tolist()
    assert context_blocks([1.0, 1.0], "10s", group=["a", "b"]).tolist() == ["a @ 0", "b @ 0"]


def csv(folder, name="plant.csv", **columns):
    path = folder / name
    rows = zip(*columns.values(), strict=True)
    path.write_text(",".join(columns) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


GAPPY = {"t": [0, 1, 2, 3, 4, 5], "a": [1, "", 3, 4, "", 8], "b": [1, 2, 3, 4, 5, ""]}


def test_missing_values_are_refused_by_default_with_count_and_place(tmp_path):
    message = (
        r"column 'a' has 2 missing values \(first at row 1\), and 1 other column has some too; "
        r"pass --missing drop or --missing mean"
    )
    with pytest.raises(InputError, match=message):
        read_pairs(csv(tmp_path, **GAPPY), Layout(s="a", q="b"))


@pytest.mark.parametrize(
    ("policy", "a", "b"),
    [
        ("drop", [1, 3, 4], [1, 3, 4]),
        ("mean", [1, 4, 3, 4, 4, 8], [1, 2, 3, 4, 5, 3]),
        ("interpolate", [1, 2, 3, 4, 6, 8], [1, 2, 3, 4, 5, 5]),
    ],
)
def test_missing_values_follow_the_stated_policy(tmp_path, policy, a, b):
    pairs = read_pairs(csv(tmp_path, **GAPPY), Layout(s="a", q="b", time="t", missing=policy))
    assert (pairs.s[:, 0].tolist(), pairs.q[:, 0].tolist()) == (a, b)


def test_the_means_of_a_model_fill_new_data(tmp_path):
    layout = Layout(s="a", q="b", missing="mean")
    loaded = load(csv(tmp_path, **GAPPY), layout, means={"a": 100.0, "b": 200.0})
    assert loaded.pairs.s[1, 0] == 100
    assert loaded.pairs.q[5, 0] == 200


def test_nothing_is_interpolated_across_a_gap_or_a_group(tmp_path):
    columns = {"t": [0, 1, 2, 100, 101, 102], "a": [0, 1, "", "", 50, 51], "b": range(6), "g": list("xxxyyy")}
    path = csv(tmp_path, **columns)
    for more in ({"group": "g"}, {"max_gap": "10s"}):
        pairs = read_pairs(path, Layout(s="a", q="b", time="t", missing="interpolate", **more))
        assert pairs.s[:, 0].tolist() == [0, 1, 1, 50, 50, 51]


def test_a_row_without_context_is_refused_or_dropped_but_never_filled(tmp_path):
    path = csv(tmp_path, a=[1, 2, 3], b=[1, 2, 3], c=[1, "", 2])
    for policy in ("error", "mean"):
        with pytest.raises(InputError, match=r"column 'c' has 1 missing value .*pass --missing drop$"):
            read_pairs(path, Layout(s="a", q="b", context="c", missing=policy))
    assert len(read_pairs(path, Layout(s="a", q="b", context="c", missing="drop"))) == 2


def test_a_table_without_a_complete_row_is_refused_with_the_worst_column(tmp_path):
    for columns in ({"b": ["NaN", "---"], "c": [1, 2]}, {"b": [1, 2], "c": ["", ""]}):
        path = csv(tmp_path, a=[1, 2], **columns)
        with pytest.raises(InputError, match=r"every row has a missing value|has no values"):
            read_pairs(path, Layout(s="a", q="b", context="c", missing="drop"))


def test_no_window_holds_both_sides_of_a_dropped_row(tmp_path):
    values = [1.0, 2, "", 4, 5, 6, 7]
    layout = Layout(s="a", q="b", window=2, stride=1, missing="drop")
    pairs = read_pairs(csv(tmp_path, a=values, b=range(7)), layout)
    assert pairs.windows.start.tolist() == [0, 3, 4, 5]
    assert pairs.s[:, 0].tolist() == [[1, 2], [4, 5], [5, 6], [6, 7]]
    assert pairs.windows.to_rows([1, 2, 3, 4]).tolist() == [1, 1, 0, 2, 3, 4, 4]


def test_windows_take_context_and_time_of_their_end_and_the_worst_label(tmp_path):
    path = csv(tmp_path, t=range(8), a=range(8), b=range(8), c=list("xxxxyyyy"), y=[0, 2, 0, 0, 0, 0, 0, 1])
    pairs = read_pairs(path, Layout(s="a", q="b", time="t", context="c", label="y", window=2, stride=2))
    assert pairs.context.tolist() == ["x", "x", "y", "y"]
    assert pairs.time.tolist() == [1, 3, 5, 7]
    assert pairs.label.tolist() == [2, 0, 0, 1]


def test_no_window_that_fits_is_explained(tmp_path):
    path = csv(tmp_path, a=range(6), b=range(6), g=[0, 1, 0, 1, 0, 1])
    with pytest.raises(InputError, match=r"6 segments, the longest of 1 rows; .*sort the rows by group"):
        read_pairs(path, Layout(s="a", q="b", group="g", window=2))


def test_contexts_are_the_same_whether_stored_as_whole_numbers_or_not(tmp_path):
    one = read_pairs(csv(tmp_path, a=[1], b=[1], m=[1], f=["0.50"]), Layout(s="a", q="b", context="m,f"))
    two = read_pairs(csv(tmp_path, a=[1], b=[1], m=["1.0"], f=["0.5"]), Layout(s="a", q="b", context="m,f"))
    assert one.context.tolist() == two.context.tolist() == ["m=1, f=0.5"]


def test_the_file_of_a_row_can_be_its_context_and_no_window_crosses_files(tmp_path):
    for name in ("r1.csv", "r2.csv"):
        csv(tmp_path, name, a=range(5), b=range(5))
    pairs = read_pairs(tmp_path, Layout(s="a", q="b", context="file", window=3, stride=1))
    assert pairs.context.tolist() == ["r1"] * 3 + ["r2"] * 3
    assert pairs.windows.start.tolist() == [0, 1, 2, 5, 6, 7]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"s": "a*", "q": "ab"}, "column 'ab' is in both s and q"),
        ({"s": "a*", "q": "a*"}, "2 columns are in both s and q \\('aa', 'ab'\\)"),
        ({"s": "aa", "q": "b", "label": "b"}, "'b' is the label and also an input"),
        ({"s": "aa", "q": "b", "time": "tim"}, "no column 'tim' in .*; did you mean 'time'"),
        ({"s": "aa", "q": "c*"}, "no column of q matches 'c\\*'"),
    ],
)
def test_layouts_that_cannot_be_are_refused(tmp_path, layout, message):
    with pytest.raises(InputError, match=message):
        read_pairs(csv(tmp_path, time=[1], aa=[1], ab=[2], b=[3]), Layout(**layout))


def test_a_layout_survives_json_and_says_what_new_data_lack(tmp_path):
    time = ["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2024-01-01 00:00:02"]
    layout = load(
        csv(tmp_path, t=time, aa=range(3), b=range(3)), Layout(s="a*", q="b", time="t", window="2s")
    ).layout
    assert (layout.s, layout.window, layout.max_gap) == (("aa",), 2, "5000000000ns")
    again = Layout.from_dict(json.loads(json.dumps(layout.to_dict())))
    assert again == layout
    with pytest.raises(InputError, match="lacks 2 of the model's 3 columns: 'aa', 't'"):
        again.check_same(["b", "c"])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 8),
    stride=st.integers(1, 14),
    batch_rows=st.integers(1, 40),
    holes=st.booleans(),
)
def test_streamed_windows_equal_those_read_at_once(tmp_path_factory, seed, length, stride, batch_rows, holes):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("stream")
    sizes = []
    for number in range(2):
        n = int(rng.integers(1, 60))
        sizes.append(n)
        a = rng.normal(size=n)
        if holes:
            a[rng.random(n) < 0.1] = np.nan
            a[0] = 0.5
        steps = 1.0 + 100.0 * (rng.random(n) < 0.05)
        columns = {
            "a": a,
            "b": rng.normal(size=n),
            "t": np.cumsum(steps),
            "g": np.cumsum(rng.random(n) < 0.1),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    layout = Layout(
        s="a", q="b", time="t", group="g", window=length, stride=stride, max_gap="10s", missing="drop"
    )
    parts = list(iter_pairs(folder, layout, batch_rows=batch_rows))
    try:
        whole = read_pairs(folder, layout)
    except InputError:
        assert not parts
        return
    first = [row + (0 if part.path.name == "0.parquet" else sizes[0]) for part in parts for row in part.first]
    assert first == whole.windows.start.tolist()
    np.testing.assert_array_equal(np.concatenate([part.pairs.s for part in parts]), whole.s)
    np.testing.assert_array_equal(np.concatenate([part.pairs.time for part in parts]), whole.time)


def folder_of_parts(folder, n=4):
    rng = np.random.default_rng(0)
    for number in range(n):
        columns = {
            "a": rng.normal(size=50).astype(np.float32),
            "b": rng.normal(size=50),
            "c": [f"c{number}"] * 50,
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


def test_a_bad_file_in_a_stream_is_reported_and_the_rest_is_read(tmp_path):
    folder_of_parts(tmp_path)
    whole = (tmp_path / "0.parquet").read_bytes()
    (tmp_path / "0.parquet").write_bytes(whole[: len(whole) // 2])
    bad = []
    layout = Layout(s="a", q="b")
    found = list(
        iter_pairs(tmp_path, layout, on_bad_file=lambda path, error: bad.append((path.name, str(error))))
    )
    assert [batch.path.name for batch in found] == ["1.parquet", "2.parquet", "3.parquet"]
    assert bad[0][0] == "0.parquet"
    assert "truncated" in bad[0][1]
    with pytest.raises(FileError, match=r"0\.parquet"):
        list(iter_pairs(tmp_path, layout))
    loaded = load(tmp_path, layout, on_bad_file=lambda path, error: None)
    assert (len(loaded.pairs), len(loaded.bad_files)) == (150, 1)


def test_a_file_with_other_columns_in_a_stream_is_refused(tmp_path):
    folder_of_parts(tmp_path, 2)
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "9.parquet")
    with pytest.raises(InputError, match=r"9\.parquet' lacks 1 of the model's 2 columns: 'b'"):
        list(iter_pairs(tmp_path, Layout(s="a", q="b")))


@pytest.mark.parametrize("policy", ["mean", "interpolate"])
def test_a_stream_refuses_what_needs_the_whole_column(tmp_path, policy):
    folder_of_parts(tmp_path, 1)
    with pytest.raises(InputError, match="batch by batch"):
        list(iter_pairs(tmp_path, Layout(s="a", q="b", missing=policy)))


def test_spooled_pairs_equal_those_in_memory_and_stay_on_disk(tmp_path):
    (tmp_path / "in").mkdir()
    folder_of_parts(tmp_path / "in")
    layout = Layout(s="a", q="b", context="c", group="file", window=8, stride=4)
    whole = read_pairs(tmp_path / "in", layout)
    spooled, settled = spool_pairs(tmp_path / "in", layout, tmp_path / "out", batch_rows=13)
    np.testing.assert_array_equal(spooled.s, whole.s)
    np.testing.assert_array_equal(spooled.q, whole.q.astype(np.float32))
    assert spooled.context.tolist() == whole.context.tolist()
    assert spooled.group.tolist() == whole.group.tolist()
    assert spooled.windows.start.tolist() == whole.windows.start.tolist()
    assert settled.window == 8
    assert isinstance(spooled.s.base, np.memmap) or isinstance(spooled.s, np.memmap)
    assert len(spooled[[3, 1]]) == 2
    assert spooled.windows.n_rows == whole.windows.n_rows == 200


def test_skab_opens_as_34_runs(shared_data):
    folder = shared_data("skab")
    layout = Layout(
        s="Acc*,Current,Voltage",
        q="Pressure,Temp*,Thermo*,Volume*",
        time="datetime",
        context="file",
        label="anomaly",
    )
    pairs = read_pairs([folder / name for name in ("valve1", "valve2", "other")], layout)
    assert len(np.unique(pairs.context)) == 34
    assert pairs.s.shape[1:] == pairs.q.shape[1:] == (4,)
    assert set(pairs.label) == {0.0, 1.0}
    assert pairs.time.dtype.kind == "M"


def test_hydraulic_opens_with_its_regimes(shared_data):
    layout = Layout(
        s="PS*,EPS1", q="TS*,VS1,FS*", context="profile[0],profile[1],profile[3]", label="profile[2]"
    )
    pairs = read_pairs(shared_data("hydraulic") / "hydraulic_1hz_17sensors.npz", layout)
    assert pairs.s.shape == pairs.q.shape == (2205, 7, 60)
    assert set(pairs.label) == {0, 1, 2}


def test_milling_opens_from_csv_matlab_and_hdf5(shared_data):
    folder = shared_data("milling")
    layout = Layout(s="smc*", q="vib_*,ae_*", context="material,DOC,feed", group="cut_no", label="tool_class")
    features = read_pairs(folder / "window_features.csv", layout)
    assert (len(features), features.s.shape[1], features.q.shape[1]) == (9095, 6, 12)
    assert len(np.unique(features.context)) == 8
    assert len(np.unique(features.group)) == 165
    cuts = read_pairs(
        folder / "mill_first_two_cuts.mat", Layout(s="smc*", q="vib_*,AE_*", context="material,DOC,feed")
    )
    assert (cuts.s.shape, cuts.q.shape) == ((2, 2, 9000), (2, 4, 9000))
    raw = read_pairs(folder / "healthy_windows_64x6.hdf5", Layout(s="X_val_slim[0:2]", q="X_val_slim[2:6]"))
    assert (raw.s.shape, raw.q.shape) == ((697, 64, 2), (697, 64, 4))
