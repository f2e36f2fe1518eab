"""Beyond one machine: what a cluster finds is what one process finds, and a worker that dies costs its part again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from makers import event_rows

from coad.exceptions import FileError

pytest.importorskip("distributed")

N_FILES, ROWS = 6, 600


@pytest.fixture(scope="module")
def cluster():
    """A scheduler with two worker processes, and its address."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        host="127.0.0.1",
        silence_logs=50,
        memory_limit=0,
    ) as local:
        yield local


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A folder of files, and the folder of a model of them."""
    from coad.data.layout import Layout
    from coad.workflows.finding import find_in_files
    from coad.workflows.fitting import Training
    from coad.workflows.scoring import Source

    home = tmp_path_factory.mktemp("plant")
    (home / "data").mkdir()
    s, q, label = event_rows(N_FILES * ROWS, (2,), rate=0.03, shift=(5, 5))
    for number in range(N_FILES):
        part = slice(number * ROWS, (number + 1) * ROWS)
        columns = {f"{side}{i}": x[part, i] for side, x in (("s", s), ("q", q)) for i in range(2)}
        pq.write_table(pa.table(columns | {"y": label[part]}), home / "data" / f"file-{number}.parquet")
    layout = Layout(s="s*", q="q*")
    find_in_files(Source(home / "data"), layout, home / "model", training=Training(), lenses=("tails",))
    return home


def rows_of(*paths):
    return pa.concat_tables(pq.read_table(path) for path in paths).to_pydict()


def test_scores_on_a_cluster_are_those_of_one_process(run_coad, plant, cluster, tmp_path):
    here = run_coad("score", plant / "model", plant / "data", "--out", tmp_path / "here.parquet")
    there = run_coad(
        "score",
        plant / "model",
        plant / "data",
        "--out",
        tmp_path / "there",
        "--cluster",
        cluster.scheduler_address,
    )
    assert (here.code, there.code) == (0, 0), there.err
    assert "6 of 6 parts scored" in there.out
    assert here.out.splitlines()[:2] == there.out.splitlines()[1:3]
    parts = sorted((tmp_path / "there").glob("*.parquet"))
    assert rows_of(*parts) == rows_of(tmp_path / "here.parquet")


def test_a_second_run_does_only_what_is_missing_changed_or_damaged(run_coad, plant, cluster, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for path in sorted((plant / "data").iterdir())[:4]:
        (data / path.name).write_bytes(path.read_bytes())
    arguments = [
        "score",
        plant / "model",
        data,
        "--out",
        tmp_path / "out",
        "--cluster",
        cluster.scheduler_address,
    ]
    assert run_coad(*arguments).code == 0
    first = rows_of(*sorted((tmp_path / "out").glob("*.parquet")))
    assert "0 of 4 parts scored, 4 were there" in run_coad(*arguments).out
    (tmp_path / "out" / "part-00001.parquet").unlink()
    (tmp_path / "out" / "part-00002.parquet").write_bytes(b"PAR1 cut off")
    os.utime(data / "file-3.parquet", (1, 1))
    again = run_coad(*arguments)
    assert "3 of 4 parts scored, 1 were there" in again.out
    assert rows_of(*sorted((tmp_path / "out").glob("*.parquet"))) == first


def test_a_corrupted_part_is_named_and_the_others_are_scored(run_coad, plant, cluster, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for path in sorted((plant / "data").iterdir())[:3]:
        (data / path.name).write_bytes(path.read_bytes())
    broken = bytearray((data / "file-1.parquet").read_bytes())
    broken[200:2000] = b"x" * 1800
    (data / "file-1.parquet").write_bytes(broken)
    pq.write_table(pq.read_table(data / "file-2.parquet").slice(0, 0), data / "file-3.parquet")
    ran = run_coad(
        "score", plant / "model", data, "--out", tmp_path / "out", "--cluster", cluster.scheduler_address
    )
    assert ran.code == 1
    assert "file-1.parquet" in ran.err
    assert "file-3.parquet" in ran.err
    left = {path.name for path in (tmp_path / "out").glob("*.parquet")}
    assert (
        left
        == {"part-00000.parquet", "part-00002.parquet"}
        == set(json.loads((tmp_path / "out" / "manifest.json").read_text())["parts"])
    )


def test_the_evaluation_on_a_cluster_is_that_of_one_process(run_coad, plant, cluster):
    here = run_coad("evaluate", plant / "model", plant / "data")
    there = run_coad("evaluate", plant / "model", plant / "data", "--cluster", cluster.scheduler_address)
    assert (here.code, there.code) == (0, 0), there.err
    assert there.out == here.out


def test_thresholds_on_threads_are_the_same_to_the_digit(tmp_path, monkeypatch):
    monkeypatch.setattr("coad.thresholds.out_of_core.SAMPLE", 5000)
    monkeypatch.setattr("coad.scale.thresholds._MANY_ROWS", 10)
    from coad.scale.thresholds import files_thresholds

    rng = np.random.default_rng(3)
    n = 2_200_000
    event = 4 * (rng.random(n) < 0.01)
    columns = {name: np.round(rng.standard_normal(n) + event, 2) for name in "sq"}
    table = pa.table(columns | {"run": (np.arange(n) // 1000 % 2)})
    for number, start in enumerate(range(0, n, 700_000)):
        pq.write_table(table.slice(start, 700_000), tmp_path / f"{number}.parquet", row_group_size=90_000)
    found, seen = [], []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        said = []
        result, rows, passes = files_thresholds(
            tmp_path, "s", "q", context=["run"], max_rows=100_000, n_permutations=19, progress=said.append
        )
        found.append((repr(result), rows, passes))
        seen.append((said == sorted(said), said[-1]))
    assert found[0] == found[1]
    assert found[0][1:] == (n, 3)
    assert seen == [(True, 3 * n)] * 2
    # A file that is cut off after its rows were counted is named.
    whole = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(whole[:4] + b"?" * 5000 + whole[5004:])
    with pytest.raises(FileError, match=r"2\.parquet"):
        files_thresholds(tmp_path, "s", "q", n_permutations=0)


def test_thresholds_on_a_cluster_are_the_same_to_the_digit(run_coad, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("coad.thresholds.out_of_core.SAMPLE", 5000)
    rng = np.random.default_rng(0)
    n = 2_200_000
    event = 4 * (rng.random(n) < 0.01)
    columns = {name: np.round(rng.standard_normal(n) + event, 2) for name in "sq"}
    table = pa.table(columns | {"run": (np.arange(n) // 1000 % 2)})
    for number, start in enumerate(range(0, n, 700_000)):
        pq.write_table(table.slice(start, 700_000), tmp_path / f"{number}.parquet", row_group_size=90_000)
    files = sorted(tmp_path.glob("*.parquet"))
    found = [
        run_coad(
            *(
                "thresholds",
                *files,
                "--s",
                "s",
                "--q",
                "q",
                "--context",
                "run",
                "--permutations",
                "39",
                "--json",
            ),
            *more,
        )
        for more in (("--max-rows", "100000"), ("--cluster", cluster.scheduler_address))
    ]
    assert [one.code for one in found] == [0, 0], found[1].err
    here, there = (json.loads(one.out) for one in found)
    assert here["status"] == "found"
    assert (here["passes"], here["n_rows"]) == (3, n)
    assert there == here


@pytest.mark.slow
def test_a_worker_killed_while_it_scores_costs_its_part_and_nothing_else(plant, cluster, tmp_path):
    from coad.scale import score

    data = tmp_path / "data"
    data.mkdir()
    whole = pq.read_table(plant / "data" / "file-0.parquet")
    for number in range(6):
        pq.write_table(pa.concat_tables([whole] * 8), data / f"{number}.parquet")
    found = []
    work = threading.Thread(
        target=lambda: found.append(
            score(plant / "model", data, tmp_path / "out", cluster=cluster.scheduler_address)
        )
    )
    work.start()
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").glob("part-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    victim = next(iter(cluster.workers.values()))
    os.kill(victim.pid, signal.SIGKILL)
    work.join(300)
    assert found
    assert (found[0].n_parts, found[0].n_done, found[0].bad_files) == (6, 6, [])
    score(plant / "model", data, tmp_path / "again", cluster=cluster.scheduler_address)
    for path in (tmp_path / "out").glob("part-*"):
        assert rows_of(path) == rows_of(tmp_path / "again" / path.name)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_with_what_is_missing(plant, cluster, tmp_path):
    from coad.scale import score

    data = tmp_path / "data"
    data.mkdir()
    whole = pq.read_table(plant / "data" / "file-0.parquet")
    for number in range(10):
        pq.write_table(pa.concat_tables([whole] * 8), data / f"{number}.parquet")
    code = "import sys; from coad.scale import score; score(*sys.argv[1:4], cluster=sys.argv[4])"
    names = plant / "model", data, tmp_path / "out"
    child = subprocess.Popen([sys.executable, "-c", code, *map(str, names), cluster.scheduler_address])
    manifest = tmp_path / "out" / "manifest.json"
    while child.poll() is None and not manifest.exists():
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait(60)
    kept = len(json.loads(manifest.read_text())["parts"])
    done = score(*names, cluster=cluster.scheduler_address)
    assert kept >= 1
    assert done.n_done == 10 - kept
    assert len(done.parts) == 10


@pytest.mark.parametrize(
    ("address", "said"),
    [("tcp://127.0.0.1:9", "no Dask scheduler answers"), ("nowhere", "must be auto, an address")],
)
def test_a_cluster_that_is_not_there_is_one_line(run_coad, plant, tmp_path, address, said, monkeypatch):
    monkeypatch.setattr("coad.scale.cluster._PATIENCE", 1)
    ran = run_coad("score", plant / "model", plant / "data", "--out", tmp_path / "out", "--cluster", address)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_workers_with_another_version_are_refused_with_both(run_coad, plant, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("coad.scale.cluster.__version__", "99.0")
    ran = run_coad(
        "score",
        plant / "model",
        plant / "data",
        "--out",
        tmp_path / "out",
        "--cluster",
        cluster.scheduler_address,
    )
    import coad

    assert ran.code == 2
    assert f"runs coad {coad.__version__}, and this is coad 99.0" in ran.err


def test_files_with_other_columns_or_types_are_refused_before_anything_is_written(
    run_coad, plant, cluster, tmp_path
):
    pq.write_table(pa.table({"s0": [1.0]}), tmp_path / "other.parquet")
    address = cluster.scheduler_address
    ran = run_coad(
        "score", plant / "model", tmp_path / "other.parquet", "--out", tmp_path / "out", "--cluster", address
    )
    assert ran.code == 2
    assert "other.parquet" in ran.err
    assert not (tmp_path / "out").exists()
    for name, kind in (("a", pa.float64()), ("b", pa.int32())):
        pq.write_table(pa.table({"s": pa.array([1, 2], kind), "q": [0.5, 1.0]}), tmp_path / f"{name}.parquet")
    ran = run_coad(
        *(
            "thresholds",
            tmp_path / "a.parquet",
            tmp_path / "b.parquet",
            "--s",
            "s",
            "--q",
            "q",
            "--cluster",
            address,
        )
    )
    assert ran.code == 2
    assert "column 's' holds int32" in ran.err


def test_a_folder_that_is_not_shared_is_refused(cluster, tmp_path, monkeypatch):
    from distributed import Client

    from coad.exceptions import FileError
    from coad.scale import cluster as ours

    monkeypatch.setattr(ours, "_sees", lambda probe: False)
    with Client(cluster) as client, pytest.raises(FileError, match="name a folder that all workers share"):
        ours.shared_folder(client, tmp_path)
    assert list(tmp_path.iterdir()) == []
