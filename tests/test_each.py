"""A model for each of many sources: the same as one by one, whatever dies or fails meanwhile."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from makers import event_rows

from coad.scale.each import folder_name, holm

OPTIONS = ("--s", "s?", "--q", "q?", "--lens", "tails")


@pytest.fixture
def stations(tmp_path):
    """A table of four stations, their rows mixed: two with events, one of noise, one of ten rows."""
    rng = np.random.default_rng(0)
    tables = []
    for number, (name, rows, shift) in enumerate(
        [("a", 700, 5), ("b/2", 600, 5), ("noise", 600, 0), ("few", 10, 5)]
    ):
        s, q, _ = event_rows(rows, (2,), rate=0.05, shift=(shift, shift), seed=number)
        columns = {f"{side}{i}": x[:, i] for side, x in (("s", s), ("q", q)) for i in range(2)}
        tables.append(pa.table(columns | {"station": [name] * rows, "place": np.arange(rows)}))
    table = pa.concat_tables(tables)
    order = np.argsort(
        rng.random(table.num_rows) + np.concatenate([np.arange(len(one)) for one in tables]), kind="stable"
    )
    path = tmp_path / "all.parquet"
    pq.write_table(table.take(order), path, row_group_size=500)
    return path


def lines(folder):
    with (folder / "results.csv").open(encoding="utf-8") as file:
        return {one["source"]: one for one in csv.DictReader(file)}


def without_times(table):
    return [{**one, "seconds": 0} for one in table.values()]


def test_each_source_gets_the_model_that_it_would_get_alone(run_coad, stations, tmp_path):
    ran = run_coad(
        "find", stations, *OPTIONS, "--each", "station", "--out", tmp_path / "out", "--processes", 2
    )
    assert ran.code == 1, "a source of ten rows has no model"
    assert "no model of few: " in ran.out
    table = lines(tmp_path / "out")
    assert [one["error"] != "" for one in table.values()] == [False, False, False, True]
    assert table["a"]["status"] == "found"
    assert float(table["noise"]["p_holm"]) > 0.05 >= float(table["a"]["p_holm"]) > 0
    whole = pq.read_table(stations)
    alone = whole.filter(pa.compute.equal(whole["station"], "b/2"))
    pq.write_table(alone, tmp_path / "alone.parquet")
    run_coad("find", tmp_path / "alone.parquet", *OPTIONS, "--no-report", "--out", tmp_path / "alone")
    for name in (tmp_path / "out" / folder_name("b/2"), tmp_path / "alone"):
        assert run_coad("score", name, tmp_path / "alone.parquet", "--out", name / "x.parquet").code == 0
    both = [
        pq.read_table(name / "x.parquet")
        for name in (tmp_path / "out" / folder_name("b/2"), tmp_path / "alone")
    ]
    assert both[0].equals(both[1])
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.index(">a<") < page.index(">noise<") < page.index(">few<")


@pytest.mark.slow
def test_a_second_run_does_only_what_failed_or_changed(run_coad, stations, tmp_path):
    arguments = ("find", stations, *OPTIONS, "--each", "station", "--out", tmp_path / "out", "--processes", 1)
    assert "4 sources, 4 done now" in run_coad(*arguments).out
    first = lines(tmp_path / "out")
    assert "4 sources, 1 done now, 3 were there" in run_coad(*arguments).out
    (tmp_path / "out" / "a" / "model.json").unlink()
    assert "4 sources, 2 done now, 2 were there" in run_coad(*arguments).out
    again = lines(tmp_path / "out")
    assert without_times(again) == without_times(first)
    assert "4 sources, 4 done now" in run_coad(*arguments, "--max-rare", "0.2").out


@pytest.mark.slow
def test_folders_and_lists_name_sources_too(run_coad, stations, tmp_path):
    whole = pq.read_table(stations).drop_columns("station")
    data = tmp_path / "data"
    for name in ("x", "y"):
        (data / name).mkdir(parents=True)
        pq.write_table(whole, data / name / "rows.parquet")
    (tmp_path / "list.txt").write_text("# two of them\ndata/x\ndata/y/rows.parquet\n")
    for each, file in (("folder", data), ("list", tmp_path / "list.txt")):
        out = tmp_path / each
        assert run_coad("find", file, *OPTIONS, "--each", each, "--out", out, "--processes", 2).code == 0
        index = json.loads((out / "index.json").read_text())
        assert index["format"] == "coad sources"
        assert all((out / one["folder"] / "model.json").is_file() for one in index["sources"])
        assert len(index["sources"]) == 2


@pytest.mark.slow
def test_a_process_that_is_killed_costs_its_source_again_and_nothing_else(stations, tmp_path):
    command = [
        sys.executable,
        "-m",
        "coad",
        "find",
        str(stations),
        *OPTIONS,
        "--each",
        "station",
        "--processes",
        "1",
    ]
    child = subprocess.Popen([*command, "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    victims: list[int] = []
    while not victims and time.monotonic() < deadline:
        time.sleep(0.02)
        victims = [pid for pid in children_of(child.pid) if b"spawn_main" in command_of(pid)]
    os.kill(victims[0], signal.SIGKILL)
    out, _ = child.communicate(timeout=200)
    assert child.returncode == 1
    assert "4 sources, 4 done now" in out
    assert sum(one["error"] == "" for one in lines(tmp_path / "out").values()) == 3


def children_of(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
        except (OSError, ValueError):
            continue
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
def test_a_cluster_trains_the_same_models(run_coad, stations, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=None,
        host="127.0.0.1",
        silence_logs=50,
        memory_limit=0,
    ) as local:
        for name, more in (("here", ("--processes", 1)), ("there", ("--cluster", local.scheduler_address))):
            run_coad("find", stations, *OPTIONS, "--each", "station", "--out", tmp_path / name, *more)
    here, there = (lines(tmp_path / name) for name in ("here", "there"))
    assert [{**one, "seconds": 0} for one in here.values()] == [
        {**one, "seconds": 0} for one in there.values()
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--each", "plant"), "there is no such column"),
        (("--each", "s0"), "name the inputs without it"),
        (("--processes", 2), "say which by --each"),
    ],
)
def test_what_cannot_be_split_is_one_line(run_coad, stations, tmp_path, options, said):
    ran = run_coad("find", stations, *OPTIONS, "--out", tmp_path / "out", *options)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_folder_with_other_things_is_refused(run_coad, stations, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    ran = run_coad("find", stations, *OPTIONS, "--each", "station", "--out", tmp_path / "mine")
    assert (ran.code, len(list((tmp_path / "mine").iterdir()))) == (2, 1)


def test_holm_is_never_below_the_p_value_and_keeps_the_order():
    values = np.random.default_rng(0).random(50) ** 3
    corrected = np.array(holm(values.tolist()))
    assert (corrected >= values).all()
    assert (np.diff(corrected[np.argsort(values)]) >= 0).all()
    assert corrected[values.argmin()] == min(1.0, 50 * values.min())


@pytest.fixture
def witnessed(tmp_path):
    """Three stations with files of their own, and the file of a witness that all of them share."""
    rng = np.random.default_rng(5)
    events = rng.random(900) < 0.06
    times = np.arange(900.0)
    witness = {f"q{i}": rng.normal(size=900) + 5 * events for i in range(2)}
    regime = np.array(["low", "high"])[(np.arange(900) // 90) % 2]
    pq.write_table(pa.table({"t": times + 0.1, **witness, "regime": regime}), tmp_path / "witness.parquet")
    (tmp_path / "data").mkdir()
    for name in "abc":
        columns = {f"s{i}": rng.normal(size=900) + 5 * events for i in range(2)}
        pq.write_table(pa.table({"t": times, **columns}), tmp_path / "data" / f"{name}.parquet")
    return tmp_path


@pytest.mark.slow
def test_a_shared_witness_is_read_once_for_all_sources(witnessed, monkeypatch):
    import coad.data.witness as module
    from coad.data import Layout
    from coad.scale import each
    from coad.workflows.fitting import Training
    from coad.workflows.recipe import Clocks
    from coad.workflows.scoring import Source

    file, reads = witnessed / "witness.parquet", []

    def counted(path, *rest, **more):
        reads.append(path)
        read = read_columns(path, *rest, **more)
        file.rename(file.with_suffix(".gone"))  # whoever reads it again, in any process, fails
        file.touch()
        return read

    read_columns = module.read_columns
    layout = Layout(s=("s0", "s1"), q=("q0", "q1"), time="t", context=("regime",))
    job = each.Job(layout, Training(), Clocks("nearest", "1s"), lenses=("tails",))
    alone = {}
    for name in "abc":
        own = Source(s=witnessed / "data" / f"{name}.parquet", q=file)
        alone[name] = each._one((name, own, witnessed / f"alone-{name}", "", job))
    monkeypatch.setattr(module, "read_columns", counted)
    out = witnessed / "out"
    report = each.fit_each("folder", Source(s=witnessed / "data", q=file), out, job, processes=2)
    assert len(reads) == 1
    assert {one["source"]: one["error"] for one in report.results} == dict.fromkeys("abc", "")
    for one in report.results:
        same = {"status", "rows", "findings", "flagged", "fbeta_hat", "p"}
        assert {name: one[name] for name in same} == {name: alone[one["source"]][name] for name in same}
    assert not list(out.glob(".coad-*")), "the arrays of the witness are removed"


def test_a_witness_gives_what_its_file_gives(witnessed):
    from coad.data import Layout, read_two_clocks
    from coad.data.witness import read_witness

    file, station = witnessed / "witness.parquet", witnessed / "data" / "a.parquet"
    folder = witnessed / "arrays"
    folder.mkdir()
    layout = Layout(s="*", q="q*", time="t", context="regime")
    witness = read_witness(file, layout, "t", folder)
    from_file, mapped = (read_two_clocks(station, q, layout, tolerance="1s") for q in (file, witness))
    for name in ("s", "q", "time", "context"):
        np.testing.assert_array_equal(getattr(mapped.pairs, name), getattr(from_file.pairs, name))
    assert mapped.layout == from_file.layout
    # A column that no one could know of in advance is read from the file.
    assert witness.columns(["t"], [])["t"].tolist() == (np.arange(900.0) + 0.1).tolist()


def test_a_witness_that_cannot_be_read_is_one_line(run_coad, witnessed):
    (witnessed / "witness.parquet").write_bytes(b"PAR1 but not really")
    files = ("--s-file", witnessed / "data", "--q-file", witnessed / "witness.parquet", "--time", "t")
    ran = run_coad("find", *files, *OPTIONS, "--each", "folder", "--out", witnessed / "out")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert "witness.parquet" in ran.err
