"""``coad watch`` is killed at random moments and started again: what it keeps is compared with a watch that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._results import record, table

KILLS = 50
ROWS = 80_000

#: Imports everything once; each line starts ``coad watch`` in a process of its own, and its exit code is said at its end.
_STARTER = """
import os, sys
import coad.live.watcher, coad.thresholds.detector
from coad.__main__ import main
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            sys.argv = ["coad", "watch", *line.rstrip("\\n").split("\\t")]
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            main()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def run() -> None:
    if not hasattr(os, "fork"):
        sys.exit("the benchmark live_kills needs a system that can fork: Linux or macOS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder)
        _watch(folder, folder / "undisturbed", kills=0)
        killed = _watch(folder, folder / "run", kills=KILLS)
        record(
            "live-kills", "Kills: a watch is killed at a random moment and goes on", _compared(folder, killed)
        )


def _write(folder: Path) -> None:
    """A recording with events, a model of thresholds, and the settings."""
    from live_models import table as rows

    import coad

    for name in ("run", "undisturbed"):
        _, columns = rows(2000, events=40)
        found = coad.CoincidenceThreshold(n_permutations=0, random_state=0)
        found.fit(np.abs(columns["a"]), np.abs(columns["x"])).set_threshold(2.0, 2.0).save(folder / name)
    stamps, columns = rows(ROWS, events=ROWS // 100)
    table_of = {"t": stamps.view("M8[ns]"), **{name: np.abs(one) for name, one in columns.items()}}
    pq.write_table(pa.table(table_of), folder / "day.parquet")


def _watch(folder: Path, model: Path, kills: int) -> int:
    """Watch the recording to its end, killed up to so often; returns how often it was."""
    config = folder / f"{model.name}.toml"
    config.write_text(
        f'[source]\nkind = "replay"\nfile = "{folder / "day.parquet"}"\nrows = 20\n'
        '[model]\ns = ["a"]\nq = ["x"]\ntime = "t"\n[[gate]]\ncolumn = "b"\nabove = 3.2\n[alarms]\nlatch = "5s"\n'
        f'[[output]]\nkind = "jsonl"\npath = "{folder / model.name}.jsonl"\n'
    )
    command = [sys.executable, "-c", _STARTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        moment, codes = random.Random(0), []
        while 0 not in codes:
            before = _position(model)
            starter.stdin.write(f"{model}\t--config\t{config}\n")
            starter.stdin.flush()
            watch = int(starter.stdout.readline())
            if len(codes) < kills:
                limit = time.monotonic() + 120
                while _position(model) == before and time.monotonic() < limit:
                    time.sleep(0.01)
                time.sleep(moment.uniform(0.0, 0.1))
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(watch, signal.SIGKILL)
            codes.append(int(starter.stdout.readline()))
            if codes[-1] not in (0, -signal.SIGKILL):
                raise RuntimeError(f"coad watch ended with {codes[-1]}")
        starter.stdin.close()
    return codes.count(-signal.SIGKILL)


def _position(model: Path) -> object:
    """How far the watch has read, or None before it has begun."""
    try:
        with sqlite3.connect(f"file:{model / 'watch.db'}?mode=ro", uri=True) as db:
            return db.execute("SELECT value FROM facts WHERE name = 'position'").fetchone()
    except sqlite3.Error:
        return None


def _compared(folder: Path, killed: int) -> str:
    """What both have kept and sent."""
    from coad.live import Store

    rows, kept = [], []
    for name in ("undisturbed", "run"):
        store = Store(folder / name / "watch.db")
        journal = {one.key: (one.kind, one.station, one.time, one.body) for one in store.journal(limit=-1)}
        kept.append(
            {
                "events": {one["key"]: one for one in store.events(limit=-1)},
                "alarms": {one["key"]: one for one in store.alarms(limit=-1)},
                "refusals": {json.dumps(one, sort_keys=True): one for one in store.refusals(limit=-1)},
                "lines of the journal": journal,
                "lines that the output got": {
                    json.loads(line)["key"]: json.loads(line) for line in (folder / f"{name}.jsonl").open()
                },
            }
        )
        store.close()
    calm, disturbed = kept
    for what, wanted in calm.items():
        found = disturbed[what]
        lost, new = len(wanted.keys() - found.keys()), len(found.keys() - wanted.keys())
        changed = sum(found[key] != one for key, one in wanted.items() if key in found)
        rows.append((what, f"{len(wanted):,}", lost, new, changed))
    lines = sum(1 for _ in (folder / "run.jsonl").open())
    return (
        table(("", "undisturbed", "lost", "too many", "different"), rows)
        + f"\n\nA recording of {ROWS:,} rows; {killed} kills (SIGKILL up to 0.1 s after the first step of a start), each followed by "
        f"a new start. The output may get a line again after a kill: {lines - len(disturbed['lines that the output got'])} did, "
        "with the same key."
    )
