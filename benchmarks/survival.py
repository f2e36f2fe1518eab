"""What a kill in the middle of a save leaves, and what commands make of files that are damaged."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
from scipy.io import savemat

from benchmarks._results import record, table

KILLS = 100
CASES = 100

#: Saves two rules in turn over the same folder, until it is killed.
_SAVING = """
import sys, coad
first, second = coad.load(sys.argv[1]), coad.load(sys.argv[1])
first.decide(1, "event")
second.decide(1, "ignore")
print("ready", flush=True)
while True:
    second.save(sys.argv[1])
    first.save(sys.argv[1])
"""
#: Which rule holds a decision.
_ORDER = {"event": "first", "ignore": "second"}


def run() -> None:
    from makers import plant

    import coad

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = plant(400)
        s = np.column_stack([values for key, values in numbers.items() if key.startswith("motor")])
        q = np.column_stack([values for key, values in numbers.items() if key.startswith("vib")])
        found = coad.find(s, q, random_state=0)
        found.decide(1, "event")
        found.save(folder / "model")
        _kills(folder / "model")
        _damaged(folder, numbers)


def _kills(model: Path) -> None:
    """Kill a process that saves a model, at random moments; each time the folder must load, as one of the two."""
    import coad

    moment = random.Random(0)
    outcomes = Counter[str]()
    for _ in range(KILLS):
        child = subprocess.Popen([sys.executable, "-c", _SAVING, str(model)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(moment.uniform(0.0, 0.3))
        child.kill()
        child.wait(60)
        child.stdout.close()
        try:
            outcomes[f"the model loads, with the {_ORDER[coad.load(model)[1].decision]} rule"] += 1
        except Exception as error:
            outcomes[f"the model does not load: {type(error).__name__}"] += 1
    rows = [
        ("kills during a save", KILLS),
        *((name, n) for name, n in sorted(outcomes.items())),
    ]
    record(
        "kills",
        "Kills: a process that saves a model is killed at a random moment",
        table(("", "measured"), rows)
        + "\n\nSIGKILL up to 0.3 s after the first save; what loads must be one of the two rules, whole.",
    )


def _damaged(folder: Path, numbers: dict[str, np.ndarray]) -> None:
    """Damage files in a random way; each command must give a result, or one line and exit code 2."""
    from test_fuzz import mutated

    _write_tables(folder, numbers)
    rows = []
    columns = ("--s", "motor_a", "--q", "vib_x", "--permutations", "0")
    for name in ("x.csv", "x.csv.gz", "x.parquet", "x.arrow", "x.npz", "x.h5", "x.mat"):
        whole, rng, path = (folder / name).read_bytes(), np.random.default_rng(0), folder / f"damaged-{name}"
        outcomes = Counter[str]()
        for _ in range(CASES):
            path.write_bytes(mutated(whole, rng))
            outcomes[_outcome("thresholds", str(path), *columns)] += 1
        rows.append((f"`coad thresholds`, {name[1:]}", CASES, *map(outcomes.__getitem__, _OUTCOMES)))
    for name in ("model.json", "layout.json", "model.safetensors"):
        rng, outcomes = np.random.default_rng(0), Counter[str]()
        model = folder / f"damaged-{name}"
        for _ in range(CASES):
            shutil.copytree(folder / "found", model, dirs_exist_ok=True)
            (model / name).write_bytes(mutated((folder / "found" / name).read_bytes(), rng))
            outcomes[
                _outcome("score", str(model), str(folder / "x.csv"), "--out", str(folder / "s.csv"))
            ] += 1
        rows.append((f"`coad score`, {name}", CASES, *map(outcomes.__getitem__, _OUTCOMES)))
    record(
        "malformed",
        "Malformed inputs: damaged files",
        table(("command and file", "tried", *_OUTCOMES), rows)
        + "\n\nEach file is truncated, or has bytes changed, zeroed, repeated, left out or overwritten. Damage that leaves a "
        "readable table gives a result.",
    )


#: What may come of a command, the last of which must not happen.
_OUTCOMES = ("a result", "one clear line", "anything else")


def _outcome(*arguments: str) -> str:
    from coad.__main__ import main

    before, errors = sys.argv, io.StringIO()
    sys.argv = ["coad", *arguments]
    code: object = 0
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as stop:
        code = stop.code or 0
    except Exception:
        return "anything else"
    finally:
        sys.argv = before
    lines = [line for line in errors.getvalue().splitlines() if not line.startswith("note: ")]
    if code == 0 and not lines:
        return "a result"
    return "one clear line" if code == 2 and len(lines) == 1 else "anything else"


def _write_tables(folder: Path, numbers: dict[str, np.ndarray]) -> None:
    """The same table in every format, and a model that ``coad find`` made of it."""
    columns = pa.table(numbers)
    pacsv.write_csv(columns, folder / "x.csv")
    (folder / "x.csv.gz").write_bytes(gzip.compress((folder / "x.csv").read_bytes()))
    pq.write_table(columns, folder / "x.parquet", row_group_size=50)
    feather.write_feather(columns, folder / "x.arrow")
    np.savez(folder / "x.npz", **numbers)
    savemat(folder / "x.mat", numbers)
    with h5py.File(folder / "x.h5", "w") as file:
        for name, values in numbers.items():
            file.create_dataset(name, data=values, chunks=(40,), compression="gzip")
    made = _outcome(
        "find",
        str(folder / "x.csv"),
        "--s",
        "motor_*",
        "--q",
        "vib_*",
        "--no-report",
        "--out",
        str(folder / "found"),
    )
    if made != "a result":
        raise RuntimeError(f"coad find gave {made}")
