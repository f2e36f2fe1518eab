"""Scoring a Parquet folder, and picking thresholds for a table, that are larger than memory should be.

Peak memory, and speed against the parts. ``COAD_BENCH_GB`` sets the size of the folder (5),
``COAD_BENCH_ROWS`` the rows of the table (50 million; 0 leaves that part out); both are made in the
temporary directory (``TMPDIR``) and removed afterwards. ``python -m benchmarks streaming_thresholds``
runs the second part alone.
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

_PEAK = """
import re, resource
from pathlib import Path
def peak():
    # ru_maxrss of a child starts at what its parent held; the kernel's own high-water mark does not.
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text()).group(1))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
"""

#: Runs in a process of its own, so that its peak memory is that of the scoring.
_SCORE = """
import json, sys, time
PEAK
from coad.workflows.model_folder import load_model
from coad.workflows.scoring import Source, score_files
model, recipe = load_model(Path(sys.argv[1]))
before = peak()
start = time.perf_counter()
done = score_files(model, recipe, Source(sys.argv[2]), Path(sys.argv[3]))
took = time.perf_counter() - start
print(json.dumps([took, before, peak(), done.n_pairs, done.n_rows, len(done.bad_files)]))
""".replace("PEAK", _PEAK)


def run() -> None:
    gigabytes = float(os.environ.get("COAD_BENCH_GB", "5"))
    with tempfile.TemporaryDirectory(prefix="coad-bench-") as name:
        folder = Path(name)
        rows, size = _make(folder / "data", gigabytes)
        _fit(folder)
        record("streaming", "Scoring a Parquet folder as a stream", _measure(folder, rows, size))
    thresholds()


#: The search in passes, or in memory, in a process of its own.
_THRESHOLDS = """
import json, sys, time
from coad.data.tables import iter_columns, read_columns
PEAK
passes = 0
def batches():
    global passes
    passes += 1
    for batch in iter_columns(sys.argv[1], ["s", "q"], 262_144):
        yield batch["s"], batch["q"], None
settings = {"beta": float(sys.argv[3])}
from coad.thresholds.selection import select_thresholds
from coad.thresholds.out_of_core import stream_thresholds
few = __import__("numpy").random.default_rng(0).random((2, 1000))
select_thresholds(*few), stream_thresholds(lambda: [(*few, None)], max_rows=50)  # compiled before the clock starts
before = peak()
passes = 0
start = time.perf_counter()
if sys.argv[2] == "memory":
    columns = read_columns(sys.argv[1], ["s", "q"])
    found = select_thresholds(columns["s"], columns["q"], **settings)
else:
    found = stream_thresholds(batches, **settings)
took = time.perf_counter() - start
print(json.dumps([took, before, peak(), passes, found.threshold_s, found.threshold_q, found.n_joint, found.status]))
""".replace("PEAK", _PEAK)


def thresholds() -> None:
    """Thresholds in passes: memory for many rows, and agreement with the search in memory on fewer."""
    rows = int(float(os.environ.get("COAD_BENCH_ROWS", "50e6")))
    if not rows:
        return
    with tempfile.TemporaryDirectory(prefix="coad-bench-") as name:
        lines, small, large = [], Path(name) / "small.parquet", Path(name) / "large.parquet"
        _make_scores(small, rows // 10)
        for beta in ("1", "0", "inf"):
            memory, passes = (_thresholds(small, how, beta) for how in ("memory", "passes"))
            lines.append(_threshold_line(rows // 10, beta, "in memory", memory))
            same = (
                "the same pair" if memory[4:7] == passes[4:7] else f"ANOTHER PAIR, {passes[6]:,} joint rows"
            )
            lines.append((*_threshold_line(rows // 10, beta, "in passes", passes)[:-1], same))
        _make_scores(large, rows)
        lines.append(_threshold_line(rows, "1", "in passes", _thresholds(large, "passes", "1")))
        record(
            "streaming-thresholds",
            "Thresholds for a Parquet table in passes",
            table(("rows", "β", "search", "time", "passes", "peak memory", "beyond the start", ""), lines)
            + "\n\nSimulated scores: Gaussian, 1 % of the rows higher by 3 in both.",
        )


def _threshold_line(rows: int, beta: str, how: str, found: list) -> tuple[str, ...]:
    took, before, peak, passes = found[:4]
    memory = f"{peak / 1e9:.2f} GB", f"{(peak - before) / 1e9:.2f} GB"
    return (f"{rows:,}", beta, how, f"{took:.0f} s", f"{passes or 1}", *memory, f"{found[6]:,} joint rows")


def _thresholds(path: Path, how: str, beta: str) -> list:
    command = [sys.executable, "-c", _THRESHOLDS, path, how, beta]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _make_scores(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("s", pa.float64()), ("q", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 20):
            size = min(1 << 20, rows - start)
            event = 3.0 * (rng.random(size) < 0.01)
            columns = {name: rng.standard_normal(size) + event for name in "sq"}
            writer.write_table(pa.table(columns, schema=schema))


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
    from coad.data import Layout
    from coad.workflows.fitting import Training, fit_files
    from coad.workflows.scoring import Source

    sample = folder / "sample.parquet"
    pq.write_table(pq.read_table(folder / "data" / "part-0.parquet").slice(0, 3000 * WINDOW), sample)
    layout = Layout(s="s_*", q="q_*", time="t", window=WINDOW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        fit_files(Source(sample), layout, folder / "model", training=Training(n_starts=1, epochs=3))


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

    from coad.workflows.model_folder import load_model

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
