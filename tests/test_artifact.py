from __future__ import annotations

import ast
import copy
import hashlib
import json
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from makers import event_rows
from torch import nn

import coad
from coad.data import Layout, read_pairs
from coad.data import model_files as model_folder
from coad.data.model_formats import FORMAT_VERSION
from coad.exceptions import CoadError, FileError, InputError, NotFittedError
from coad.learned.estimator import CoAD
from coad.workflows.model_folder import load, load_model, save_model
from coad.workflows.recipe import Recipe


def data() -> tuple[np.ndarray, np.ndarray]:
    s, q, _ = event_rows(300, (3,), rate=0.13, shift=(4, -4))
    return s, q


@pytest.fixture(scope="module")
def model() -> CoAD:
    return CoAD([0.5, math.inf], n_starts=2, epochs=40, random_state=0, batch_size=240).fit(*data())


def test_loaded_model_scores_decides_and_tells_the_same(model, tmp_path):
    model.at(0.5)
    before = model.fitted_[0.5].rule
    model.fitted_[0.5].rule = replace(before, thresholds=(0.4, math.inf), beta=0.1)
    model.save(tmp_path / "m")
    model.fitted_[0.5].rule = before
    again = load(tmp_path / "m")
    s, q = data()
    for beta in (0.5, math.inf):
        assert np.array_equal(model.at(beta).score_samples(s, q), again.at(beta).score_samples(s, q))
        assert again.at(beta).starts_ == model.at(beta).starts_
    assert again.fitted_[0.5].rule == replace(before, thresholds=(0.4, math.inf), beta=0.1)
    assert again.alpha_ == model.alpha_
    assert again.get_params()["beta"] == [0.5, math.inf]
    facts = json.loads((tmp_path / "m" / "model.json").read_text())
    assert {"versions", "schema", "scaling", "metric", "alpha", "format_version"} <= facts.keys()


def test_saving_twice_replaces_and_a_foreign_folder_is_left_alone(model, tmp_path):
    model.save(tmp_path / "m")
    model.save(tmp_path / "m")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("x")
    with pytest.raises(FileError, match="not a saved model"):
        model.save(other)
    assert (other / "chapter.tex").exists()


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_folder_is_a_clear_error(model, tmp_path, name, keep):
    model.save(tmp_path / "m")
    path = tmp_path / "m" / name
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(FileError, match=r"truncated|checksum"):
        load(tmp_path / "m")


def test_edited_weights_and_edited_facts_are_noticed(model, tmp_path):
    model.save(tmp_path / "m")
    weights, facts = tmp_path / "m" / "model.safetensors", tmp_path / "m" / "model.json"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(FileError, match="checksum"):
        load(tmp_path / "m")
    weights.write_bytes(good)
    edited = json.loads(facts.read_text())
    edited["fitted"][0]["threshold"] = 0.01
    facts.write_text(json.dumps(edited))
    with pytest.raises(FileError, match="changed"):
        load(tmp_path / "m")


def test_newer_format_asks_for_a_newer_coad(model, tmp_path):
    model.save(tmp_path / "m")
    facts = tmp_path / "m" / "model.json"
    newer = json.loads(facts.read_text())
    newer["format_version"] = FORMAT_VERSION + 1
    facts.write_text(json.dumps(newer))
    with pytest.raises(FileError, match="newer coad"):
        load(tmp_path / "m")


def test_missing_folder_and_unfitted_model_are_clear(tmp_path):
    with pytest.raises(FileError, match="not a saved model"):
        load(tmp_path / "nothing")
    with pytest.raises(NotFittedError):
        CoAD().save(tmp_path / "m")


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("exploded"),))


@pytest.fixture
def hostile(model, tmp_path, monkeypatch):
    """A saved model, and what writes other facts into it with a checksum that fits."""
    monkeypatch.chdir(tmp_path)
    model.save(tmp_path / "m")
    facts = json.loads((tmp_path / "m" / "model.json").read_text())

    def write(change) -> Path:
        changed = {**facts, **change}
        changed.pop("checksum")
        changed["checksum"] = model_folder._checksum(changed)
        (tmp_path / "m" / "model.json").write_text(json.dumps(changed))
        return tmp_path / "m"

    return write


def test_pickled_weights_run_nothing(hostile):
    bomb = pickle.dumps(Bomb())
    for change in ({}, {"weights_sha256": hashlib.sha256(bomb).hexdigest()}):
        folder = hostile(change)
        (folder / "model.safetensors").write_bytes(bomb)
        with pytest.raises(CoadError):
            load(folder)
    for junk in (b"[" * 100_000, b"null", b"\xff\xfe", bomb):
        (folder / "model.json").write_bytes(junk)
        with pytest.raises(CoadError):
            load(folder)
    assert not Path("exploded").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"nets": [{"kind": "module", "name": "os.system", "input_shape": [3]}] * 2},
        {"fitted": "x"},
        {"settings": None},
        {"schema": None},
        {"scaling": 3},
    ],
    ids=["nets", "fitted", "settings", "schema", "scaling"],
)
def test_facts_of_another_kind_are_a_clear_error(hostile, change):
    """The weights are good here, so that the facts are really read."""
    with pytest.raises(CoadError):
        load(hostile(change))


@pytest.mark.parametrize(
    "net",
    [
        {"hidden": [30_000, 30_000]},
        {"input_shape": [10**9]},
        {"convs": [{"channels": 10**6, "kernel": 3}], "input_shape": [3, 10**6]},
        {"convs": [{"channels": 1, "kernel": 3, "stride": 0}], "input_shape": [3, 10]},
    ],
    ids=["hidden", "input", "convolution", "stride"],
)
def test_a_network_larger_than_its_weights_is_refused_before_memory_is_taken(hostile, monkeypatch, net):
    def build(*_):
        raise AssertionError("the network was built")

    monkeypatch.setattr("coad.learned.training.model.StackedNet", build)
    spec = {"kind": "spec", "input_shape": [3], "convs": [], "hidden": [8, 8]} | net
    with pytest.raises(FileError, match=r"declares a network of .* weights|ZeroDivision"):
        load(hostile({"nets": [spec] * 2}))


def test_columns_that_the_model_was_not_trained_with_are_refused(tmp_path):
    s, q = (
        {f"{side}{i}": column for i, column in enumerate(rows.T)}
        for side, rows in zip("sq", data(), strict=True)
    )
    layout = Layout(s=tuple(s), q=tuple(q))
    pairs = read_pairs(s | q, layout)
    model = CoAD(alpha=0.1, n_starts=1, epochs=2, random_state=0).fit(pairs)
    save_model(model, Recipe(layout), tmp_path / "m")
    assert load_model(tmp_path / "m")[1].layout == layout
    save_model(model, Recipe(Layout(s=layout.s[::-1], q=layout.q)), tmp_path / "m")
    with pytest.raises(FileError, match="names other columns than the model was trained with"):
        load_model(tmp_path / "m")


def test_own_module_is_named_and_must_be_handed_in(tmp_path):
    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))

    s, q = data()
    model = CoAD(net=(net, net), alpha=0.1, n_starts=2, epochs=60, random_state=0, batch_size=240).fit(s, q)
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match="of your own"):
        load(tmp_path / "m")
    again = load(tmp_path / "m", nets=(net(), net()))
    assert np.array_equal(model.score_samples(s, q), again.score_samples(s, q))


def test_full_disk_keeps_the_old_model_and_the_one_in_memory(model, tmp_path, monkeypatch):
    model.save(tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coad.data.atomic.os.fsync", full)
    with pytest.raises(FileError, match=r"No space left.*still in memory"):
        model.save(tmp_path / "m")
    monkeypatch.undo()
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert len(load(tmp_path / "m").fitted_) == 2


#: Saves a model over itself, and is gone at one of the renames, as after ``kill -9``.
KILLED = """
import os, sys
import coad
folder, moment = sys.argv[1], int(sys.argv[2])
model, rename, calls = coad.load(folder), os.replace, []
def killed(source, target):
    calls.append(source)
    if len(calls) == moment:
        os._exit(9)
    return rename(source, target)
os.replace = killed
model.save(folder)
"""


@pytest.mark.parametrize("moment", [1, 2])
def test_a_kill_between_the_renames_of_a_save_leaves_a_model(model, tmp_path, moment):
    model.save(tmp_path / "m")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "m"), str(moment)], timeout=120)
    assert done.returncode == 9
    assert (tmp_path / "m").exists() == (moment == 1)
    assert len(load(tmp_path / "m").fitted_) == 2
    model.save(tmp_path / "m")
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupt_or_error_between_the_renames_of_a_save_keeps_the_old_model(
    model, tmp_path, monkeypatch, error
):
    model.save(tmp_path / "m")
    before = (tmp_path / "m" / "model.json").read_bytes()
    rename = os.replace

    def failing(source, target):
        if ".draft." in Path(source).name:
            raise error
        return rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("coad.data.atomic.os.replace", failing)
        with pytest.raises((KeyboardInterrupt, FileError)):
            model.save(tmp_path / "m")
    assert (tmp_path / "m" / "model.json").read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_what_a_dead_process_left_is_removed_and_what_a_live_one_writes_is_not(model, tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for number in (dead.pid, os.getppid()):
        (tmp_path / f".m.draft.{number}").mkdir()
    model.save(tmp_path / "m")
    assert sorted(one.name for one in tmp_path.iterdir()) == [f".m.draft.{os.getppid()}", "m"]


def test_a_model_folder_follows_the_umask(model, tmp_path):
    before = os.umask(0o027)
    try:
        model.save(tmp_path / "m")
    finally:
        os.umask(before)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "m" / "model.json").stat().st_mode & 0o777 == 0o640


def test_a_layout_that_was_changed_is_noticed(model, tmp_path):
    model = copy.copy(model)
    model.layout_ = '{"format": "coad layout", "layout": {"s": ["a", "b"], "q": ["c"]}}'
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").layout_ == model.layout_
    path = tmp_path / "m" / "layout.json"
    path.write_text(model.layout_.replace('["a", "b"]', '["b", "a"]'))
    with pytest.raises(FileError, match=r"layout.json is missing or was changed"):
        load(tmp_path / "m")
    path.unlink()
    with pytest.raises(FileError, match=r"layout.json is missing or was changed"):
        load(tmp_path / "m")


def test_no_pickle_anywhere_in_the_package():
    forbidden = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
    sources = list(Path(coad.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    for path in sources:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not forbidden & {name.name.split(".")[0] for name in node.names}, path
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert (node.module or "").split(".")[0] not in forbidden, path
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("torch", "load"), ("torch", "save")}, path
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path


def test_on_windows_no_folder_is_opened_and_no_process_is_asked(tmp_path, monkeypatch):
    """Windows opens no folders, and os.kill there ends or interrupts a process instead of asking for it."""
    from coad.data import atomic

    monkeypatch.setattr(atomic, "_WINDOWS", True)
    opened, open_ = [], os.open
    monkeypatch.setattr(
        atomic.os, "open", lambda path, *rest: opened.append(Path(path)) or open_(path, *rest)
    )
    monkeypatch.setattr(atomic.os, "kill", lambda *_: pytest.fail("a process was signalled"))
    left = tmp_path / ".model.draft.999999999"
    left.mkdir()
    for text in ("old", "new"):
        with atomic.written_folder(tmp_path / "model") as draft:
            (draft / "a.txt").write_text(text)
    atomic.write_durably(tmp_path / "b.txt", b"whole")
    assert opened
    assert all(path.suffix == ".txt" for path in opened)
    assert (tmp_path / "model" / "a.txt").read_text() == "new"
    assert left.is_dir()  # its process may be alive
