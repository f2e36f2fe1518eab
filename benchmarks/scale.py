"""Beyond one machine: thresholds in passes, scores on Dask, many sources, starts on several processes.

Each part has a section of its own in the results, with the load of the machine while it ran; all ratios are of one run.
``COAD_BENCH_PARTS`` names the parts (thresholds, scores, sources, training), ``COAD_BENCH_ROWS`` the rows of the tables
("1e6,5e6"), ``COAD_BENCH_GB`` the folder (0.5), ``COAD_BENCH_SOURCES`` the sources (20).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._results import record, table
from benchmarks.streaming import _PEAK, _fit, _make, _make_scores

#: Larger tables are not searched in memory, and on Dask, for comparison.
_IN_MEMORY = 10_000_000
_THRESHOLDS = """
import json, os, sys, time
import numpy as np
import pyarrow.parquet as pq
PEAK
from coad.scale.thresholds import files_thresholds
from coad.data.tables import read_columns
from coad.thresholds.out_of_core import stream_thresholds
from coad.thresholds.selection import select_thresholds
few = np.random.default_rng(0).random((2, 1000))
few[:, :50] += 1
select_thresholds(*few), stream_thresholds(lambda: [(*few, None)], max_rows=50)  # compiled before the clock starts
start = time.perf_counter()
for _ in pq.ParquetFile(sys.argv[1]).iter_batches(262_144, columns=["s", "q"]):
    pass
read, start, used = time.perf_counter() - start, time.perf_counter(), time.process_time()
passes = 1
if sys.argv[2] == "memory":
    columns = read_columns(sys.argv[1], ["s", "q"])
    found = select_thresholds(columns["s"], columns["q"])
else:
    found, _, passes = files_thresholds(sys.argv[1], "s", "q", cluster="auto" if sys.argv[2] == "Dask" else None)
took, used = time.perf_counter() - start, time.process_time() - used
print(json.dumps([read, took, used, peak(), passes, found.threshold_s, found.threshold_q, found.n_joint]))
""".replace("PEAK", _PEAK)
#: Scores of a folder by one process, or on so many workers that run already.
_SCORES = """
import json, sys, time
from pathlib import Path
from coad.workflows.model_folder import load_model
from coad.workflows.scoring import Source, score_files
folder, workers = Path(sys.argv[1]), int(sys.argv[2])
model, recipe = load_model(folder / "model")
if __name__ == "__main__" and not workers:
    start = time.perf_counter()
    done = score_files(model, recipe, Source(folder / "data"), folder / "one.parquet")
    print(json.dumps([time.perf_counter() - start, done.n_pairs]))
elif __name__ == "__main__":
    from distributed import Client, LocalCluster
    from coad.scale import score
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", silence_logs=50,
                      env={"OMP_NUM_THREADS": "1"}) as local, Client(local) as client:
        client.run(__import__, "coad.workflows.scored")
        client.run(__import__, "coad.learned.estimator")
        start = time.perf_counter()
        done = score(folder / "model", folder / "data", folder / f"parts-{workers}", cluster=local.scheduler_address)
        print(json.dumps([time.perf_counter() - start, done.n_pairs]))
"""


def run() -> None:
    parts: dict[str, tuple[str, Callable[[Path], str]]] = {
        "thresholds": ("Beyond one machine: thresholds in passes", _thresholds),
        "scores": ("Beyond one machine: scores on Dask", _scores),
        "sources": ("Beyond one machine: many sources", _sources),
        "training": ("Beyond one machine: starts on several processes", _training),
    }
    for name in os.environ.get("COAD_BENCH_PARTS", ",".join(parts)).split(","):
        with tempfile.TemporaryDirectory(prefix="coad-bench-") as folder:
            before = os.getloadavg()[0]
            body = parts[name][1](Path(folder))
            load = f"Load average: {before:.1f} before, {os.getloadavg()[0]:.1f} after."
            record(f"scale-{name}", parts[name][0], f"{body}\n\n{load}")


def _output(command: list[Any], **environment: str) -> Any:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def _thresholds(folder: Path) -> str:
    path = folder / "scores.parquet"
    lines = []
    for rows in [int(float(one)) for one in os.environ.get("COAD_BENCH_ROWS", "1e6,5e6").split(",")]:
        _make_scores(path, rows)
        ways = ["passes", "passes, 2 threads"]
        if rows <= _IN_MEMORY:
            ways = ["memory", *ways, "Dask"]
        first: list[Any] = []
        base = 0.0
        for way in ways:
            threads = "2" if "threads" in way else "1"
            command = [sys.executable, "-c", _THRESHOLDS, path, way.partition(",")[0]]
            read, took, used, peak, passes, *found = _output(command, OMP_NUM_THREADS=threads)
            first, base = first or found, base or (took if way == "memory" else 0.0)
            same = "the same pair" if found == first else f"ANOTHER PAIR: {found}"
            beside = f"{took / base:.2f}" if base else ""
            lines.append(
                (
                    f"{rows:,}",
                    way,
                    f"{took:.1f} s",
                    f"{used:.1f} s",
                    beside,
                    f"{took / read:.0f}",
                    f"{passes}",
                    f"{peak / 1000000000.0:.2f} GB",
                    same,
                )
            )
        path.unlink()
    head = (
        "rows",
        "search",
        "time",
        "of a processor",
        "× in memory",
        "× reading once",
        "passes",
        "peak memory",
        "",
    )
    return (
        table(head, lines)
        + "\n\nReading once: both columns with pyarrow, from the page cache, without conversion."
    )


def _scores(folder: Path) -> str:
    gigabytes = float(os.environ.get("COAD_BENCH_GB", "0.5"))
    rows, size = _make(folder / "data", gigabytes)
    _fit(folder)
    script = folder / "scores.py"
    script.write_text(_SCORES)
    alone, pairs = _output([sys.executable, script, folder, "0"])
    what = f"{size / 1e9:.2f} GB, {rows:,} rows, {pairs:,} windows"
    lines = [("one process", f"{alone:.1f} s", "1.0")]
    for workers in (1, 2, 4):
        took, scored = _output([sys.executable, script, folder, str(workers)])
        assert scored == pairs
        lines.append((f"Dask, {workers} worker{'s'[: workers - 1]}", f"{took:.1f} s", f"{alone / took:.2f}"))
    command = [sys.executable, "-m", "coad", "score", folder / "model", folder / "data", "--out"]
    plain = _seconds([*command, folder / "plain.parquet"])
    cluster = _seconds([*command, folder / "auto", "--cluster", "auto"])
    lines.append(("the command, start included", f"{plain:.1f} s", "1.0"))
    lines.append(("with --cluster auto", f"{cluster:.1f} s", f"{plain / cluster:.2f}"))
    return what + "\n\n" + table(("scores", "time", "times as fast"), lines)


def _sources(folder: Path) -> str:
    sources = int(os.environ.get("COAD_BENCH_SOURCES", "20"))
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    for number in range(sources):
        event = 4 * (rng.random(3000) < 0.03)
        columns = {name: rng.standard_normal(3000) + event for name in ("s0", "s1", "q0", "q1")}
        pq.write_table(pa.table(columns), folder / "data" / f"{number}.parquet")
    fit = [sys.executable, "-m", "coad", "fit", "--s", "s*", "--q", "q*", "--starts", "2", "--epochs", "20"]
    alone = sum(
        _seconds([*fit, folder / "data" / f"{number}.parquet", "--out", folder / "alone" / str(number)])
        for number in range(sources)
    )
    lines = [(f"{sources}", "shell loop over coad fit", f"{alone:.0f} s", "1.0")]
    for processes in (1, 2, 4):
        out = ["--each", "folder", "--processes", str(processes), "--out", folder / f"each-{processes}"]
        took = _seconds([*fit, folder / "data", *out])
        lines.append((f"{sources}", f"--each, {processes} processes", f"{took:.0f} s", f"{alone / took:.1f}"))
    return table(("sources of 3,000 rows", "how", "time", "times as fast"), lines)


def _training(folder: Path) -> str:
    """Four starts on one, two and four processes, and as a function of columns."""
    rng = np.random.default_rng(0)
    lines = []
    for columns in (4, 64):
        event = 3 * (rng.random(40_000) < 0.03)
        values = {f"{side}{i}": rng.standard_normal(40_000) + event for side in "sq" for i in range(columns)}
        path = folder / f"{columns}.parquet"
        pq.write_table(pa.table(values), path)
        alone = 0.0
        for processes in (1, 2, 4):
            start = [sys.executable, "-m"]
            if processes > 1:
                start += ["torch.distributed.run", "--nproc-per-node", str(processes), "-m", "--"]
            fit = [*start, "coad", "fit", path, "--s", "s*", "--q", "q*", "--epochs", "60"]
            spread = ["--spread", "starts"] if processes > 1 else []
            took = _seconds([*fit, *spread, "--out", folder / f"model-{columns}-{processes}"])
            alone = alone or took
            lines.append((f"{columns}", f"{processes}", f"{took:.1f} s", f"{alone / took:.2f}"))
    return table(("columns an input", "processes", "coad fit, start included", "times as fast"), lines) + (
        "\n\n40,000 rows, four starts, 60 epochs."
    )


def _seconds(command: list[Any]) -> float:
    start = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return time.perf_counter() - start
