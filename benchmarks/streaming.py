"""Scoring a Parquet folder that is larger than memory should be: peak memory, and speed against its parts.

``COAD_BENCH_GB`` sets the size of the folder (5); the folder is made in the temporary directory
(``TMPDIR``) and removed afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._results import record, table
from coad.exceptions import CoadWarning

CHANNELS, WINDOW, ROWS_A_FILE = 8, 64, 1_500_000

#: Runs in a process of its own, so that its peak memory is that of the scoring.
_SCORE = """
import json, re, resource, sys, time
from pathlib import Path
def peak():
    # ru_maxrss of a child starts at what its parent held; the kernel's own high-water mark does not.
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text()).group(1))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
from coad.recipe import load_model
from coad.scoring import Source, score_files
model, recipe = load_model(Path(sys.argv[1]))
before = peak()
start = time.perf_counter()
done = score_files(model, recipe, Source(sys.argv[2]), Path(sys.argv[3]))
took = time.perf_counter() - start
print(json.dumps([took, before, peak(), done.n_pairs, done.n_rows, len(done.bad_files)]))
"""


def run() -> None:
    gigabytes = float(os.environ.get("COAD_BENCH_GB", "5"))
    with tempfile.TemporaryDirectory(prefix="coad-bench-") as name:
        folder = Path(name)
        rows, size = _make(folder / "data", gigabytes)
        _fit(folder)
        record("streaming", "Scoring a Parquet folder as a stream", _measure(folder, rows, size))


def _make(folder: Path, gigabytes: float) -> tuple[int, int]:
    """Files of the same content: the reader cannot know, and random numbers take long to make."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    columns = {"t": np.arange(ROWS_A_FILE) * 0.001}
    event = np.repeat(rng.random(ROWS_A_FILE // WINDOW + 1) < 0.03, WINDOW)[:ROWS_A_FILE]
    for side in "sq":
        for channel in range(CHANNELS):
            values = rng.standard_normal(ROWS_A_FILE, dtype=np.float32)
            columns[f"{side}_{channel}"] = values * np.where(event, np.float32(2), np.float32(1))
    first = folder / "part-0.parquet"
    pq.write_table(pa.table(columns), first, row_group_size=262_144, compression="zstd", compression_level=1)
    files = max(1, round(gigabytes * 1e9 / first.stat().st_size))
    for number in range(1, files):
        shutil.copyfile(first, folder / f"part-{number}.parquet")
    os.sync()
    return files * ROWS_A_FILE, files * first.stat().st_size


def _fit(folder: Path) -> None:
    from coad.fitting import Training, fit_files
    from coad.io import Layout
    from coad.scoring import Source

    sample = folder / "sample.parquet"
    pq.write_table(pq.read_table(folder / "data" / "part-0.parquet").slice(0, 3000 * WINDOW), sample)
    layout = Layout(s="s_*", q="q_*", time="t", window=WINDOW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        fit_files(Source(sample), layout, folder / "model", training=Training(seeds=1, epochs=3))


def _measure(folder: Path, rows: int, size: int) -> str:
    names = [f"{side}_{channel}" for side in "sq" for channel in range(CHANNELS)]
    reading = _timed(lambda: _read_alone(folder / "data", ["t", *names]))
    forward = _forward_alone(folder / "model") * (rows // ROWS_A_FILE) * (ROWS_A_FILE // WINDOW)
    out = subprocess.run(
        [sys.executable, "-c", _SCORE, folder / "model", folder / "data", folder / "scores.parquet"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    took, before, peak, pairs, scored, bad = json.loads(out)
    assert scored == rows
    assert bad == 0
    ratio = (reading + forward) / took
    lines = [
        ("the folder", f"{size / 1e9:.2f} GB, {rows:,} rows, {pairs:,} windows of {WINDOW} × {2 * CHANNELS}"),
        ("reading alone", f"{reading:.1f} s"),
        ("bare forward pass of both networks", f"{forward:.1f} s"),
        ("`coad score`", f"{took:.1f} s, {size / took / 1e6:,.0f} MB/s, {pairs / took:,.0f} windows/s"),
        ("throughput, of reading plus forward", f"{ratio:.2f} (asked for: at least 0.5)"),
        (
            "peak memory",
            f"{peak / 1e9:.2f} GB, of which {before / 1e9:.2f} GB before the first row",
        ),
    ]
    return (
        table(("", "measured"), lines)
        + "\n\nAsked for: a peak under 1.5 GB. The forward pass is timed on windows in memory, scaled already, and "
        "multiplied up."
    )


def _read_alone(folder: Path, names: list[str]) -> None:
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(65_536, columns=names):
                for column in batch.columns:
                    column.to_numpy(zero_copy_only=False)


def _forward_alone(folder: Path, count: int = 8192) -> float:
    """Seconds a window."""
    import torch

    from coad.recipe import load_model

    model, _ = load_model(folder)
    own = next(iter(model.fitted_.values()))
    windows = np.random.default_rng(1).standard_normal((2, count, CHANNELS, WINDOW), dtype=np.float32)

    @torch.inference_mode()
    def forward() -> None:
        for scorer, rows in zip((own.scorer_s, own.scorer_q), windows, strict=True):
            for part in torch.split(torch.from_numpy(rows), 1024):
                scorer(part)

    forward()
    return min(_timed(forward) for _ in range(3)) / count


def _timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
