"""Mutated files, model folders and settings: every outcome is a result, or one clear line with exit code 2."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
import shutil
import sys
import traceback
from contextlib import contextmanager

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from makers import plant
from scipy.io import savemat

pytest.importorskip("torch")

from coad.__main__ import main
from coad.data.model_files import _checksum

#: A longer search: COAD_FUZZ=20 tries twenty times as many cases.
TIMES = int(os.environ.get("COAD_FUZZ", "1"))
INPUTS = ("--s", "motor_*", "--q", "vib_*")
QUICK = ("--starts", 1, "--epochs", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table in every format, a model ``fit`` and a catalogue ``modes``."""
    folder = tmp_path_factory.mktemp("fuzz")
    numbers = plant(160)
    columns = numbers | {"run": np.repeat(["a", "b"], 80)}
    pacsv.write_csv(pa.table(columns), folder / "x.csv")
    (folder / "x.csv.gz").write_bytes(gzip.compress((folder / "x.csv").read_bytes()))
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=50)
    coded = {"run": pa.array(columns["run"]).dictionary_encode()}
    feather.write_feather(pa.table(columns | coded), folder / "x.arrow")
    np.savez(folder / "x.npz", **numbers)
    np.save(folder / "x.npy", columns["motor_a"])
    savemat(folder / "x.mat", numbers)
    with h5py.File(folder / "x.h5", "w") as file:
        for name, values in numbers.items():
            file.create_dataset(name, data=values, chunks=(40,), compression="gzip")
    with pytest.MonkeyPatch.context() as patch:
        for command, more in (
            ("fit", (*QUICK, "--context", "run", "--time", "t")),
            ("modes", ("--starts", 2)),
        ):
            arguments = ("coad", command, folder / "x.csv", *INPUTS, "--out", folder / command, *more)
            patch.setattr(sys, "argv", list(map(str, arguments)))
            with pytest.raises(SystemExit) as stop:
                main()
            assert not stop.value.code
    return folder


@pytest.fixture
def cases(run_coad, tmp_path, monkeypatch):
    """Runs commands; at its end it names all cases that gave neither a result nor one line and exit code 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("coad.app.serve.serve", lambda *_, **__: None)

    @contextmanager
    def collecting():
        unclear = []

        def run(case, command, *arguments):
            try:
                code, _, errors = run_coad(command, *arguments)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                unclear.append(f"{command}, {case}: {error!r:.300} at {place.filename}:{place.lineno}")
                return
            lines = [line for line in errors.splitlines() if not line.startswith("note: ")]
            if (code, len(lines)) not in ((0, 0), (2, 1)) and not (
                code == 2 and errors.startswith("Usage: ")
            ):
                unclear.append(f"{command}, {case}: code {code}, {errors}")

        yield run
        assert not unclear, "\n".join(unclear)

    return collecting


#: Numbers that are written where a count or an offset may be.
LARGE = (2**31 - 1, 2**40, 2**63 - 1, 2**64 - 1)


def mutated(content: bytes, rng) -> bytes:
    """The content, truncated, with some bytes changed, or with a stretch repeated, zeroed or left out."""
    data = bytearray(content)
    a, b = sorted(rng.integers(0, len(data) + 1, 2))
    kind = rng.choice(["cut", "bytes", "zero", "leave out", "repeat", "noise", "number"])
    if kind == "cut":
        del data[b:]
    elif kind == "bytes":
        for place in rng.integers(0, len(data), rng.integers(1, 9)):
            data[place] = rng.integers(256)
    elif kind == "zero":
        data[a : min(b, a + 64)] = bytes(min(b, a + 64) - a)
    elif kind == "leave out":
        del data[a : min(b, a + 200)]
    elif kind == "repeat":
        data[a:a] = data[a:b]
    elif kind == "noise":
        data[a : a + 16] = rng.bytes(16)
    else:
        place = int(rng.integers(0, max(len(data) - 8, 1)))
        data[place : place + 8] = LARGE[rng.integers(len(LARGE))].to_bytes(8, "little")
    return bytes(data)


@pytest.mark.parametrize(
    "name", ["x.csv", "x.csv.gz", "x.parquet", "x.arrow", "x.npz", "x.npy", "x.h5", "x.mat", "x.xlsx"]
)
def test_mutated_files(cases, home, tmp_path, name):
    if name == "x.xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for line in (home / "x.csv").read_text().splitlines():
            book.active.append(line.replace('"', "").split(","))
        book.save(home / name)
    rng = np.random.default_rng(1)
    whole = (home / name).read_bytes()
    path = tmp_path / name
    quick = ("--s", "motor_a", "--q", "vib_x", "--permutations", 0)
    with cases() as run:
        for case in range(TIMES * (4 if name == "x.mat" else 16)):
            path.write_bytes(mutated(whole, rng))
            run(case, "thresholds", path, *quick)
            if case % 4 == 0:
                run(case, "score", home / "fit", path, "--out", "s.csv")
            elif case % 4 == 1:
                run(case, "fit", path, "--s", "motor_a", "--q", "auto", "--out", "m", *QUICK)


@pytest.mark.parametrize("kind", ["fit", "modes"])
@pytest.mark.parametrize("name", ["model.json", "layout.json", "model.safetensors"])
def test_mutated_files_of_a_model(cases, home, tmp_path, kind, name):
    rng = np.random.default_rng(2)
    model = shutil.copytree(home / kind, tmp_path / "model")
    whole = (model / name).read_bytes()
    with cases() as run:
        for case in range(TIMES * 12):
            (model / name).write_bytes(mutated(whole, rng))
            if case % 2:
                seal(model)
            run(f"{kind} {name} {case}", "score", model, home / "x.csv", "--out", "s.csv")


#: What a value of a model's JSON is replaced by.
ODD = (None, True, -1, 0, 10**30, 1e308, 1e999, "", "x", "inf", "\ud800", [], {}, [[]], [None], {"a": 1}, 2.5)


@pytest.mark.parametrize("kind", ["fit", "modes"])
@pytest.mark.parametrize("name", ["model.json", "layout.json"])
def test_values_of_the_wrong_type_in_a_model(cases, home, tmp_path, kind, name):
    rng = np.random.default_rng(3)
    model = shutil.copytree(home / kind, tmp_path / "model")
    whole = json.loads((model / name).read_text())
    with cases() as run:
        for case in range(TIMES * 30):
            facts = copy.deepcopy(whole)
            where = spoiled(facts, rng)
            (model / name).write_text(json.dumps(facts))
            seal(model)
            command, *out = OUTPUTS[0 if case % 5 else case // 5 % len(OUTPUTS)]
            run(f"{kind} {name} {where}", command, model, home / "x.csv", *out)


OUTPUTS = (("score", "--out", "s.csv"), ("evaluate",), ("report", "--out", "r.html"), ("explore",))


@pytest.mark.parametrize("depth", [900, 200_000])
@pytest.mark.parametrize("name", ["model.json", "layout.json"])
def test_deep_json_in_a_model(cases, home, tmp_path, name, depth):
    model = shutil.copytree(home / "fit", tmp_path / "model")
    text = (model / name).read_text().rstrip().removesuffix("}")
    with cases() as run:
        for deep in ("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            (model / name).write_text(f'{text}, "deep": {deep}}}')
            seal(model)
            run(deep[:6], "score", model, home / "x.csv", "--out", "s.csv")


def spoiled(facts, rng) -> str:
    """Replace a value somewhere in nested lists and dicts, and say where."""
    where, value = "", facts
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[rng.integers(len(keys))]
        where += f"[{key!r}]"
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.15:
            value[key] = ODD[rng.integers(len(ODD))]
            return f"{where} = {value[key]!r}"
        value = inner


def seal(model) -> None:
    """Make the checksums fit again, as one who tampers with a model would."""
    try:
        facts = json.loads((model / "model.json").read_bytes())
        facts.pop("checksum", None)
        for name, file in (("weights", "model.safetensors"), ("layout", "layout.json")):
            facts[f"{name}_sha256"] = hashlib.sha256((model / file).read_bytes()).hexdigest()
        facts["checksum"] = _checksum(facts)
        (model / "model.json").write_text(json.dumps(facts))
    except (ValueError, AttributeError, TypeError, RecursionError):
        pass  # it is no JSON any more, and is refused whatever its checksum


NONSENSE = (
    "",
    "x",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "1e-400",
    "9" * 30,
    "٣",
    "../..",
    "a,b",
    "*",
    "/(/",
    "%",
)
SETTINGS = {
    "fit": "s q time time-unit time-format long window stride max-gap context context-blocks group label missing "
    "seed out-of-core split beta alpha starts align tolerance",
    "modes": "n-modes max-rare starts seed window context",
    "thresholds": "s q beta alpha context permutations seed missing long time-format max-rows out",
    "score": "missing out",
    "evaluate": "label missing",
    "report": "label out",
    "explore": "label port marks missing",
}


@pytest.mark.parametrize("command", SETTINGS)
def test_nonsense_in_settings(cases, home, command):
    rng = np.random.default_rng(4)
    usual = {
        "fit": (home / "x.csv", *INPUTS, *QUICK, "--time", "t", "--window", 4, "--out", "m"),
        "modes": (home / "x.csv", *INPUTS, "--starts", 2, "--out", "m"),
        "thresholds": (home / "x.csv", "--s", "motor_a", "--q", "vib_x", "--permutations", 0),
        "score": (home / "fit", home / "x.csv", "--out", "s.csv"),
        "report": (home / "fit", home / "x.csv", "--out", "r.html"),
    }.get(command, (home / "fit", home / "x.csv"))
    with cases() as run:
        for option in SETTINGS[command].split():
            for value in rng.choice(NONSENSE, TIMES * (2 if command == "modes" else 3)):
                run(f"--{option} {value!r}", command, *usual, f"--{option}", value)
