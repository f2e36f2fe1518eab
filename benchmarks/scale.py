"""Thresholds in passes against reading the columns, and many sources against one after the other.

``COAD_BENCH_ROWS`` sets the rows of the table (5 million), ``COAD_BENCH_SOURCES`` the sources (20).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._results import record, table
from benchmarks.streaming import _PEAK, _make_scores

_THRESHOLDS = """
import json, sys, time
import pyarrow.parquet as pq
PEAK
from coad.scale.thresholds import files_thresholds
from coad.data.tables import read_columns
from coad.thresholds.selection import select_thresholds
start = time.perf_counter()
for _ in pq.ParquetFile(sys.argv[1]).iter_batches(262_144, columns=["s", "q"]):
    pass
read, start = time.perf_counter() - start, time.perf_counter()
passes = 1
if sys.argv[2] == "memory":
    columns = read_columns(sys.argv[1], ["s", "q"])
    found = select_thresholds(columns["s"], columns["q"])
else:
    found, _, passes = files_thresholds(sys.argv[1], "s", "q", cluster="auto" if sys.argv[2] == "Dask" else None)
took = time.perf_counter() - start
print(json.dumps([read, took, peak(), passes, found.threshold_s, found.threshold_q, found.n_joint]))
""".replace("PEAK", _PEAK)


def run() -> None:
    rows = int(float(os.environ.get("COAD_BENCH_ROWS", "5e6")))
    sources = int(os.environ.get("COAD_BENCH_SOURCES", "20"))
    with tempfile.TemporaryDirectory(prefix="coad-bench-") as name:
        folder = Path(name)
        record("scale", "Beyond one machine", _thresholds(folder, rows) + "\n\n" + _sources(folder, sources))


def _thresholds(folder: Path, rows: int) -> str:
    path = folder / "scores.parquet"
    _make_scores(path, rows)
    lines, first = [], None
    for how in ("memory", "passes", "Dask"):
        command = [sys.executable, "-c", _THRESHOLDS, path, how]
        read, took, peak, passes, *found = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        first = first or found
        same = "the same pair" if found == first else f"ANOTHER PAIR: {found}"
        memory = f"{peak / 1e9:.2f} GB"
        lines.append((f"{rows:,}", how, f"{took:.1f} s", f"{took / read:.1f}", f"{passes}", memory, same))
    return table(("rows", "search", "time", "× reading once", "passes", "peak memory", ""), lines)


def _sources(folder: Path, sources: int) -> str:
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    for number in range(sources):
        event = 4 * (rng.random(3000) < 0.03)
        columns = {name: rng.standard_normal(3000) + event for name in ("s0", "s1", "q0", "q1")}
        pq.write_table(pa.table(columns), folder / "data" / f"{number}.parquet")
    fit = [sys.executable, "-m", "coad", "fit", "--s", "s*", "--q", "q*", "--starts", "2", "--epochs", "20"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    for number in range(sources):
        out = ["--out", folder / "alone" / str(number)]
        command = [*fit, folder / "data" / f"{number}.parquet", *out]
        subprocess.run(command, capture_output=True, check=True, env=environment)
    alone, start = time.perf_counter() - start, time.perf_counter()
    out = ["--each", "folder", "--processes", "2", "--out", folder / "each"]
    subprocess.run([*fit, folder / "data", *out], capture_output=True, check=True, env=environment)
    each = time.perf_counter() - start
    head = ("sources", "shell loop over coad fit", "--each, two processes", "times as fast")
    return table(head, [(f"{sources}", f"{alone:.0f} s", f"{each:.0f} s", f"{alone / each:.1f}")])
