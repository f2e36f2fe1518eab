"""``coad watch`` under load: share of a core, speed of a replay, latency to the journal, memory over a day.

The engine, the database and the steps between are those of the command; samples come from memory, so that what is
measured is ours and not a broker's. Processor time is compared with that of ``score_rows`` alone on the same pairs.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks._results import record, table
from coad import CoAD
from coad.data.layout import Layout
from coad.exceptions import CoadWarning
from coad.live import watcher
from coad.live.engine import Engine, EngineSettings
from coad.live.model import LiveModel
from coad.live.packing import chunk_to_plain, to_bytes
from coad.live.store import Store
from coad.live.values import Chunk
from coad.workflows.recipe import Clocks, Recipe

SECOND = 1_000_000_000
START = 1_750_000_000 * SECOND
S, Q = ("amplitude", "phase"), tuple(f"bpm{k}" for k in range(8))


def run() -> None:
    model = _model()
    rows = [
        _load("81 stations × 120 Hz, in pieces of 1 s", model, 81, 120, 1.0, 60),
        _load("81 stations × 120 Hz, in pieces of 0.1 s", model, 81, 120, 0.1, 20),
        _load("81 stations × 120 Hz, in pieces of 10 s (a replay)", model, 81, 120, 10.0, 120),
        _load("1,000 stations × 10 Hz, in pieces of 1 s", model, 1000, 10, 1.0, 30),
    ]
    heads = (
        "load", "share of a core", "of it score_rows alone", "times real time", "step: processor time", "median", "99 %", "events",
    )  # fmt: skip
    day = _day(model)
    body = f"""CoAD on windows of 64 rows, a new one every 32; s of {len(S)} channels for each station, q of {len(Q)} for all.

{table(heads, rows)}

A *step* takes in one piece of every station, scores what it completes and commits it: the time from the last sample of
a window to the journal. *Share of a core*: processor time by simulated time. Times of a busy machine are longer than its
processor times; only a quiet one tells the latency.

{day}"""
    record("live", "Watching: load, latency, memory", body)


def _model() -> LiveModel:
    """Networks for windows; how well they detect does not matter here."""
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(600, len(S), 64)), rng.normal(size=(600, len(Q), 64))
    s[:40] += 3
    q[:40] += 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        found = CoAD(n_starts=1, epochs=4, random_state=0).fit(s, q).set_threshold(p_s=0.5, p_q=0.5)
    layout = Layout(S, Q, time="t", window=64, stride=32, max_gap="10s")
    return LiveModel(found, Recipe(layout, Clocks("nearest", "200ms")), "benchmark")


class _Watch:
    """What the watcher's loop does with each step, and the processor time of it and of the model alone."""

    def __init__(self, model: LiveModel, n: int, folder: Path) -> None:
        self.names = tuple(f"K{k:04d}" for k in range(n))
        self.engine = Engine(dict.fromkeys(self.names, model), EngineSettings(self.names, most=5))
        self.store = Store(folder / "watch.db")
        self.took: list[float] = []
        self.cpu: list[float] = []
        self.scoring = 0.0
        detector = model.detector

        def timed(s: np.ndarray, q: np.ndarray, context: object = None) -> object:
            start = time.process_time()
            found = type(detector).score_rows(detector, s, q, context)
            self.scoring += time.process_time() - start
            return found

        detector.score_rows = timed
        self._bytes = self._kept = 0

    def take(self, chunks: list[Chunk]) -> None:
        """One step, as in coad.live.watcher."""
        wall, start = time.perf_counter(), time.process_time()
        step = self.engine.push(chunks)
        entry = to_bytes(
            {"op": "push", "overloaded": False, "chunks": [chunk_to_plain(one) for one in chunks]}
        )
        self._bytes += len(entry)
        state = None
        if self._bytes > max(watcher.SNAPSHOT_BYTES, 2 * self._kept):
            state = self.engine.state()
            self._bytes, self._kept = 0, len(to_bytes(state))
        self.store.commit(step, entry, counts=dict(self.engine.counts), snapshot=state)
        self.cpu.append(time.process_time() - start)
        self.took.append(time.perf_counter() - wall)


def _load(name: str, model: LiveModel, n: int, rate: int, piece: float, seconds: int) -> tuple[str, ...]:
    """One line: so many stations for so long."""
    with tempfile.TemporaryDirectory() as folder:
        watch = _Watch(model, n, Path(folder))
        for chunks in _pieces(watch.names, rate, piece, seconds):
            watch.take(chunks)
        events = len(watch.store.events(0, -1))
        watch.store.close()
    took, cpu = 1e3 * np.array(watch.took), 1e3 * np.array(watch.cpu)
    return (
        name, f"{cpu.sum() / 1e3 / seconds:.0%}", f"{watch.scoring / seconds:.0%}", f"{1e3 * seconds / took.sum():,.0f}",
        f"{np.median(cpu):.0f} ms", f"{np.median(took):.0f} ms", f"{np.quantile(took, 0.99):.0f} ms", f"{events}",
    )  # fmt: skip


def _pieces(names: tuple[str, ...], rate: int, piece: float, seconds: float) -> Iterator[list[Chunk]]:
    """The witness and all stations, piece by piece; every ten seconds one of them is odd for a second, and so is q."""
    rng = np.random.default_rng(1)
    rows = max(1, round(rate * piece))
    for first in range(0, round(rate * seconds), rows):
        time_ns = START + (first + np.arange(rows)) * SECOND // rate
        odd = 3.0 * ((time_ns - START) // SECOND % 10 == 5)
        place = (time_ns[0] - START) // (10 * SECOND) % len(names)
        noise = rng.normal(size=(len(Q) + len(S), rows + len(names)))
        chunks = [Chunk("witness", time_ns, {name: noise[k, :rows] + odd for k, name in enumerate(Q)})]
        for k, name in enumerate(names):
            values = {one: noise[len(Q) + i, k : k + rows] + odd * (k == place) for i, one in enumerate(S)}
            chunks.append(Chunk(name, time_ns, values))
        yield chunks


def _day(model: LiveModel) -> str:
    """Memory over 24 simulated hours of four stations at 2 Hz."""
    with tempfile.TemporaryDirectory() as folder:
        watch = _Watch(model, 4, Path(folder))
        peak = []
        for _, chunks in enumerate(_pieces(watch.names, 2, 10.0, 24 * 3600)):
            watch.take(chunks)
            if len(watch.took) % 360 == 0:
                peak.append(_memory())
        watch.store.close()
    growth = peak[-1] / peak[0] - 1
    return (
        f"24 simulated hours (4 stations at 2 Hz, {len(watch.took):,} steps): {peak[0]:,.0f} MB after the first hour, "
        f"{peak[-1]:,.0f} MB at the end, {growth:+.1%}."
    )


def _memory() -> float:
    """The memory of this process now, in MB."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
