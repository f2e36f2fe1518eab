"""Long tables (time, tag, value) and times in other formats, through every command that reads files."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from makers import plant, write_csv

from coad.data import Layout, iter_pairs, parse_time, read_pairs
from coad.data.long import wide_source
from coad.exceptions import CoadWarning, InputError


def long_lines(columns, names, stamp=str):
    """The lines of a long table, in random order."""
    lines = [f"{stamp(t)};{name};{columns[name][i]}" for i, t in enumerate(columns["t"]) for name in names]
    return ["Timestamp;Tag;Value", *np.random.default_rng(0).permutation(lines)]


def as_day(t):
    return str(np.datetime64("2020-03-09T10:00:00") + np.timedelta64(round(t * 10), "s")).replace("T", " ")


def as_text(t):
    day, clock = as_day(t).split(" ")
    return ".".join(reversed(day.split("-"))) + " " + clock


def test_a_long_table_gives_the_pairs_of_the_wide_one(tmp_path):
    columns = plant(60)
    path = tmp_path / "long.csv"
    path.write_text("\n".join(long_lines(columns, ["motor_a", "vib_x"])))
    layout = Layout(s="motor_a", q="vib_x", time="Timestamp", long="Timestamp,Tag,Value", window=4)
    wide = read_pairs(columns, Layout(s="motor_a", q="vib_x", time="t", window=4))
    for pairs in (read_pairs(path, layout), next(iter_pairs(path, layout)).pairs):
        np.testing.assert_allclose(pairs.s, wide.s)
        np.testing.assert_allclose(pairs.q, wide.q)
        np.testing.assert_allclose(pairs.time, wide.time)


def test_files_of_single_tags_are_joined_and_absent_readings_are_missing(tmp_path):
    (tmp_path / "a.csv").write_text("t,tag,value\n0,a,1\n1,a,Bad Input\n2,a,3\n")
    (tmp_path / "b.csv").write_text("t,tag,value\n0,b,5\n2,b,6\n2,b,7\n")
    layout = Layout(s="a", q="b", long="auto")
    with pytest.warns(CoadWarning, match="1 rows repeat"):
        table = pq.read_table(wide_source(tmp_path, layout))
    assert table.column_names == ["t", "a", "b"]
    np.testing.assert_array_equal(table["a"].to_numpy(), [1, np.nan, 3])
    np.testing.assert_array_equal(table["b"].to_numpy(), [5, np.nan, 7])


@pytest.mark.parametrize(
    ("header", "named", "message"),
    [
        ("x,y,z", "auto", "not clear from 'x', 'y', 'z'; name them: --long time,tag,value"),
        ("time,tag,value", "time,tag", "names three columns"),
        ("time,tag,value", "time,tag,valu", "did you mean 'value'"),
        ("time,tag,value", "tag,time,value", "'tag' has a time that cannot be read"),
    ],
)
def test_a_long_table_that_is_not_understood_is_refused(tmp_path, header, named, message):
    (tmp_path / "a.csv").write_text(f"{header}\n0,a,1\n1,b,2\n")
    with pytest.raises(InputError, match=message):
        wide_source(tmp_path / "a.csv", Layout(s="a", q="b", long=named))


def test_a_wide_table_larger_than_memory_is_refused_before_it_is_made(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("t,tag,value\n" + "".join(f"{i},tag{i},1\n" for i in range(200)))
    monkeypatch.setattr("coad.data.memory.free_memory", lambda: 100_000.0)
    with pytest.raises(InputError, match="a wide table of 200 tags needs"):
        wide_source(tmp_path / "a.csv", Layout(s="a", q="b", long="auto"))


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("09.03.2020 10:14:33", "%d.%m.%Y %H:%M:%S"),
        ("03/09/20 10:14:33 AM", "%m/%d/%y %I:%M:%S %p"),
        ("9-Mar-2020 10:14:33.000", "%d-%b-%Y %H:%M:%S.%f"),
        ("20200309 11:14:33 +0100", "%Y%m%d %H:%M:%S %z"),
    ],
)
def test_times_are_read_by_their_format(text, format):
    found = parse_time([text, ""], format=format)
    assert found[0] == np.datetime64("2020-03-09T10:14:33", "ns")
    assert np.isnat(found[1])
    assert found.dtype == "M8[ns]"


def test_a_time_that_does_not_have_the_format_is_named(tmp_path):
    with pytest.raises(InputError, match=r"column 'time', row 1: .*'soon' does not match"):
        parse_time(["09.03.2020", "soon"], format="%d.%m.%Y")
    with pytest.raises(InputError, match="see --time-format"):
        parse_time(["09.03.2020"], format="%Q")
    path = tmp_path / "day.csv"
    path.write_text("t,a,b\n10:14:33,1,2\n10:14:34,2,3\n")
    pairs = read_pairs(path, Layout(s="a", q="b", time="t", time_format="%H:%M:%S"))
    assert pairs.time[1] - pairs.time[0] == np.timedelta64(1, "s")


@pytest.mark.parametrize("long", [True, False])
def test_every_command_reads_long_tables_and_other_times(run_coad, tmp_path, monkeypatch, long):
    pytest.importorskip("torch")
    monkeypatch.setattr("coad.app.serve.serve", lambda explorer, *rest, **more: None)
    columns = plant(240)
    names = ["motor_a", "motor_b", "vib_x", "vib_y"]
    path = tmp_path / "plant.csv"
    if long:
        path.write_text("\n".join(long_lines(columns, names, as_text)))
        how = ("--long", "auto", "--time-format", "%d.%m.%Y %H:%M:%S")
    else:
        write_csv(
            path, {"when": [as_text(t) for t in columns["t"]]} | {name: columns[name] for name in names}
        )
        how = ("--time", "when", "--time-format", "%d.%m.%Y %H:%M:%S")
    model, inputs = tmp_path / "model", ("--s", "motor_*", "--q", "vib_*", *how)
    for command, more in (("modes", ("--starts", 2)), ("fit", ("--epochs", 2, "--starts", 1))):
        code, text, errors = run_coad(command, path, *inputs, "--window", "2s", *more, "--out", model)
        assert code == 0, errors
        assert "120 windows of 2" in text
    layout = json.loads((model / "layout.json").read_text())["layout"]
    assert layout["time_format"] == "%d.%m.%Y %H:%M:%S"
    assert layout.get("long") == ("Timestamp,Tag,Value" if long else None)
    for command, *more in (
        ("score", "--out", tmp_path / "s.parquet"),
        ("evaluate",),
        ("report", "--out", tmp_path / "r.html"),
        ("explore", "--no-browser"),
    ):
        code, _, errors = run_coad(command, model, path, *more)
        assert code == 0, errors
    scores = pq.read_table(tmp_path / "s.parquet")
    assert [str(t) for t in scores["time"].to_pylist()][:2] == ["2020-03-09 10:00:01", "2020-03-09 10:00:03"]
    if long:
        code, text, errors = run_coad("thresholds", path, "--s", "motor_a", "--q", "vib_y", *how)
        assert code == 0, errors
