"""``coad watch``: settings, replay, kill -9, new models, failing outputs, a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from live_models import SECOND, START, table
from makers import write_parquet

import coad
from coad.live.config import WatchConfig
from coad.live.store import Store
from coad.live.values import Chunk
from coad.live.watcher import Watcher

MODEL = '[model]\ns = ["a"]\nq = ["x"]\ntime = "t"\n'


def recording(path, n=2000, **more):
    stamps, columns = table(n, events=n // 100, **more)
    columns = {name: np.abs(one) for name, one in columns.items()}
    return write_parquet(path, {"t": stamps.view("M8[ns]"), **columns})


def model_folder(path, seed=0):
    """A folder with thresholds that were saved from Python: light to load."""
    _, columns = table(2000, events=40, seed=seed)
    found = coad.CoincidenceThreshold(n_permutations=0, random_state=seed)
    found.fit(np.abs(columns["a"]), np.abs(columns["x"])).set_threshold(2.0, 2.0).save(path)
    return path


@pytest.fixture
def run(tmp_path):
    return model_folder(tmp_path / "run")


def settings(folder, text):
    path = folder / "watch.toml"
    path.write_text(text, encoding="utf-8")
    return path


def replay(folder, rows=100, more=""):
    source = f'[source]\nkind = "replay"\nfile = "{folder / "day.parquet"}"\nrows = {rows}\n'
    gate = '[[gate]]\ncolumn = "b"\nabove = 3.2\n'
    return settings(folder, source + MODEL + gate + '[alarms]\nlatch = "5s"\n' + more)


def everything(path):
    """All that a watch has kept, which does not depend on the clock on the wall."""
    store = Store(path)
    lines = [(one.id, one.kind, one.key, one.station, one.time, one.body) for one in store.journal(limit=-1)]
    kept = lines, store.events(limit=-1), store.refusals(limit=-1), store.alarms(limit=-1), store.counters()
    store.close()
    return kept


def test_a_replay_says_what_it_found_and_keeps_it(tmp_path, run, run_coad):
    recording(tmp_path / "day.parquet")
    done = run_coad("watch", run, "--config", replay(tmp_path), "--replay", tmp_path / "day.parquet")
    assert done.code == 0, done.err
    assert "2,000 samples" in done.out
    lines, events, refusals, alarms, counts = everything(run / "replay.db")
    assert f"{counts['flagged']:,} flagged in {len(events)} events" in done.out
    assert len(events) > 5
    assert any(one["reason"] == "gate" and "b above 3.2" in one["text"] for one in refusals)
    assert len({key for _, _, key, *_ in lines}) == len(lines)
    held = {key for alarm in alarms for key in alarm["events"]}
    assert held == {one["key"] for one in events}
    again = run_coad("watch", run, "--config", replay(tmp_path), "--replay", tmp_path / "day.parquet")
    assert again.out == done.out
    assert everything(run / "replay.db") == (lines, events, refusals, alarms, counts)


def test_the_training_that_is_named_is_the_reference_for_drift(tmp_path, run, run_coad):
    recording(tmp_path / "training.parquet", 3000)
    recording(tmp_path / "day.parquet", 2000, seed=3)
    table = pq.read_table(tmp_path / "day.parquet")
    moved = pc.add(table["x"], 0.8)  # from the first row on, so that its own start would hide it
    pq.write_table(table.set_column(table.column_names.index("x"), "x", moved), tmp_path / "day.parquet")
    drift = f'[drift]\nevery = 500\nwindow = 1000\nreference = 1000\ntraining = "{tmp_path / "training.parquet"}"\n'
    config = replay(tmp_path, more=drift)
    done = run_coad("watch", run, "--config", config, "--replay", tmp_path / "day.parquet")
    assert done.code == 0, done.err
    store = Store(run / "replay.db")
    whole = next(one for one in store.drift() if not one["name"])
    store.close()
    assert whole["state"] == "drifting"
    assert "x: stability index" in whole["text"]
    config.write_text(config.read_text(encoding="utf-8").replace("training.parquet", "gone.parquet"))
    done = run_coad("watch", run, "--config", config, "--replay", tmp_path / "day.parquet")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "watch.toml, line" in done.err
    assert "gone.parquet" in done.err


#: Loads everything once; each line on standard input starts ``coad watch`` with it in a process of its own.
STARTER = """
import os, sys
import coad.live.watcher as watcher, coad.thresholds.detector
from coad.__main__ import main
watcher.SNAPSHOT_BYTES = 20_000
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


@pytest.fixture
def starter():
    """A process that starts watches: importing for each of them would take most of the time."""
    one = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield one
    one.stdin.close()
    one.wait(60)


def start(starter, run, config):
    """Start a watch; returns its process id. The next line of the starter is its exit code."""
    starter.stdin.write(f"{run}\t--config\t{config}\n")
    starter.stdin.flush()
    return int(starter.stdout.readline())


def progress(path):
    """The reading position, or None before there is one."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return db.execute("SELECT value FROM facts WHERE name = 'position'").fetchone()
    except sqlite3.Error:
        return None


def kills_change_nothing(starter, tmp_path, run, times, n):
    recording(tmp_path / "day.parquet", n)
    more = f'[[output]]\nkind = "jsonl"\npath = "{tmp_path / "out.jsonl"}"\n'
    config = replay(tmp_path, 20, more)
    undisturbed = shutil.copytree(run, tmp_path / "undisturbed")
    Watcher(undisturbed, WatchConfig.read(config)).run()
    (tmp_path / "out.jsonl").unlink()
    moment, codes = np.random.default_rng(0), []
    while len(codes) < times and 0 not in codes:
        before = progress(run / "watch.db")
        pid = start(starter, run, config)
        until(lambda before=before: progress(run / "watch.db") != before, 120)
        time.sleep(moment.uniform(0, 0.1))
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, signal.SIGKILL)
        codes.append(int(starter.stdout.readline()))
    assert codes.count(-signal.SIGKILL) >= times // 2, f"only {len(codes)} kills: the recording is too short"
    start(starter, run, config)
    assert int(starter.stdout.readline()) == 0
    assert everything(run / "watch.db") == everything(undisturbed / "watch.db")
    sent = [line.partition(",")[0] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(set(sent)) == len(everything(run / "watch.db")[0])


def test_killed_at_any_moment_nothing_is_lost_and_nothing_comes_twice(starter, tmp_path, run):
    kills_change_nothing(starter, tmp_path, run, 8, 12_000)


@pytest.mark.slow
def test_killed_at_fifty_moments_nothing_is_lost_and_nothing_comes_twice(starter, tmp_path, run):
    kills_change_nothing(starter, tmp_path, run, 50, 80_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "watch.toml: a section [source] is missing"),
        ('[source]\nkind = "telex"', "line 2: there is no source 'telex'"),
        ('[source]\nkind = "replay"\nfile = "x"\nsped = 1.0', "line 4: [source] has no key 'sped'; did you mean 'speed'?"),
        ('[source]\nkind = "replay"\nfile = 3', "line 3: file under [source] must be text in quotes, not 3"),
        ('[sorce]\nkind = "replay"', "line 1: there is no section [sorce]; did you mean 'source'?"),
        ('[source]\nkind = "replay"\n[time]\nlateness = "soon"', "line 4: lateness under [time] must be a duration"),
        ('[source]\nkind = "replay"\n[[gate]]\nbelow = 3.0', "line 3: [gate] needs the key 'column'"),
        ('[source]\nkind = "replay"\n[[gate]]\ncolumn="a"\n[[gate]]\ncolumn = 5', "line 6: column under [gate] must be text"),
        ('[source]\nkind = "replay"\n[trigger]\nkind = "big"\ncolumns = ["a"]\nlimit = 1', "line 4: kind under [trigger] must be one of"),
        ('[source]\nkind = "replay"\n[gate]\ncolumn="a"', "line 3: write [[gate]], with two brackets"),
        ('[source]\nkind = "replay"\n[[output]]\nkind = "none"', "line 4: there is no output 'none'"),
        ('[source\nkind = "replay"', "watch.toml is not TOML"),
        ('[source]\nkind = "replay"\n' + MODEL, "line 1: a replay needs either file, or s_file and q_file"),
        ('[source]\nkind = "os:no_such"\n', "has no class 'no_such'"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named_with_their_line(text, words, tmp_path, run, run_coad):
    done = run_coad("watch", run, "--config", settings(tmp_path, text), "--check")
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_check_lists_the_columns_that_are_needed(tmp_path, run, run_coad):
    recording(tmp_path / "day.parquet", 10)
    done = run_coad("watch", run, "--config", replay(tmp_path), "--check")
    assert (done.code, done.out) == (0, "the input: a, x, b\nthe settings are right\n")
    assert not (run / "watch.db").exists()


def test_a_half_written_model_is_refused_at_the_start(tmp_path, run, run_coad):
    recording(tmp_path / "day.parquet", 10)
    weights = run / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-20])
    done = run_coad("watch", run, "--config", replay(tmp_path))
    assert done.code == 2
    assert "truncated or was changed" in done.err


class Fed:
    """A source of the tests: gives the chunks that are put into ``feed``."""

    @dataclass(frozen=True)
    class Settings:
        """No settings."""

    feed: list = []  # noqa: RUF012 (the tests fill it)
    up = True

    def __init__(self, settings, wanted):
        self.given = 0

    def chunks(self, position=None):
        while True:
            yield Fed.feed.pop(0) if Fed.feed else time.sleep(0.01)

    def counters(self):
        return {}

    def connected(self):
        return {"": Fed.up}

    def close(self):
        pass


class Broken:
    """An output of the tests that refuses until it is repaired."""

    @dataclass(frozen=True)
    class Settings:
        """No settings."""

    got: list = []  # noqa: RUF012
    works = False
    name = ""

    def __init__(self, settings):
        pass

    def write(self, records):
        if not Broken.works:
            raise OSError("no connection")
        Broken.got.extend(one for one in records if one.kind != "heartbeat")

    def close(self):
        pass


@pytest.fixture
def watching(tmp_path, run, monkeypatch):
    """A watcher of a fed source in a thread of its own."""
    monkeypatch.setitem(sys.modules, "fed_by_tests", sys.modules[__name__])
    Fed.feed, Fed.up, Broken.got, Broken.works = [], True, [], False
    text = '[source]\nkind = "fed_by_tests:Fed"\n[[output]]\nkind = "fed_by_tests:Broken"\n[time]\nstale = "1s"\n'
    config = WatchConfig.read(settings(tmp_path, text + MODEL))
    started = []

    def start():
        watcher = Watcher(run, config)
        thread = threading.Thread(target=watcher.run)
        thread.start()
        started.append((watcher, thread))
        return watcher

    yield start
    Broken.works = True
    for watcher, thread in started:
        watcher.stop()
        thread.join(30)
        assert not thread.is_alive()


def until(condition, longest=30.0):
    end = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def chunk(first, n=20, *, odd=()):
    value = np.where(np.isin(np.arange(n), odd), 5.0, 0.1)
    return Chunk("", START + (first + np.arange(n)) * SECOND // 10, {"a": value, "x": value})


def test_an_output_that_fails_is_tried_again_and_gets_everything_once(watching):
    watcher = watching()
    Fed.feed += [chunk(0, odd=(5, 6)), chunk(20, odd=(3,))]
    until(lambda: watcher.snapshot()["outputs"]["fed_by_tests:Broken"]["error"] == "no connection")
    until(lambda: len(watcher.store.events()) == 2)
    Broken.works = True
    until(lambda: len(Broken.got) == len(watcher.store.journal()))
    assert [one.id for one in Broken.got] == [one.id for one in watcher.store.journal()]


def test_a_new_model_is_taken_over_and_half_of_one_is_not(watching, run, tmp_path):
    watcher = watching()
    Fed.feed.append(chunk(0, odd=(5,)))
    until(lambda: len(watcher.store.events()) == 1)
    before = watcher.snapshot()["digest"]
    other = model_folder(tmp_path / "other", 1)
    weights = (run / "model.safetensors").read_bytes()
    (run / "model.json").write_bytes((other / "model.json").read_bytes())  # whose weights are still to come
    until(lambda: "the new model cannot be used" in watcher.snapshot()["trouble"])
    Fed.feed.append(chunk(20, odd=(5,)))
    until(lambda: len(watcher.store.events()) == 2)
    assert watcher.snapshot()["digest"] == before
    assert weights == (run / "model.safetensors").read_bytes()
    model_folder(run, 2)
    until(lambda: watcher.snapshot()["digest"] != before)
    assert not watcher.snapshot()["trouble"]
    Fed.feed.append(chunk(40, odd=(5,)))
    until(lambda: len(watcher.store.events()) == 3)
    assert watcher.store.counters()["samples"] == 60


def test_a_full_disk_is_waited_for_and_nothing_is_lost(watching, monkeypatch):
    watcher = watching()
    commit, full = Store.commit, threading.Event()
    full.set()

    def failing(self, *given, **more):
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        commit(self, *given, **more)

    monkeypatch.setattr(Store, "commit", failing)
    Fed.feed += [chunk(0, odd=(5,)), chunk(20, odd=(5,))]
    until(lambda: "disk is full" in watcher.snapshot()["trouble"])
    full.clear()
    until(lambda: len(watcher.store.events()) == 2)
    assert not watcher.snapshot()["trouble"]


def test_a_source_that_is_gone_raises_an_alarm_of_its_own_kind(watching):
    watcher = watching()
    Fed.feed.append(chunk(0))
    until(lambda: watcher.store.counters().get("samples") == 20)
    Fed.up = False
    until(lambda: [one["state"] for one in watcher.store.alarms()] == ["raised"])
    (alarm,) = watcher.store.alarms()
    assert (alarm["kind"], alarm["text"]) == ("source", "the input cannot be reached")
    assert not watcher.store.events()
    Fed.up = True
    until(lambda: watcher.store.alarms()[0]["state"] == "latched")


def test_what_a_watch_shows_of_itself(watching):
    watcher = watching()
    Fed.feed += [chunk(0, odd=(19,))]
    until(lambda: watcher.store.alarms())
    shown = watcher.snapshot([""])
    assert shown["status"] == "running"
    assert shown["stations"][""]["state"] == "alarm"
    assert shown["stations"][""]["score"] > 0.5
    assert shown["waves"][""]["s"]["a"][-1] == 5.0
    assert len(shown["waves"][""]["time"]) == 20


def test_a_watch_that_is_stopped_and_started_goes_on(watching):
    first = watching()
    Fed.feed.append(chunk(0, odd=(18, 19)))
    until(lambda: first.store.events())
    first.stop()
    until(lambda: first.snapshot()["status"] == "stopped")
    second = watching()
    Fed.feed.append(chunk(20, odd=(0, 1)))  # the same event goes on
    until(lambda: second.store.events()[0]["state"] == "closed")
    (event,) = second.store.events()
    assert event["n_pairs"] == 4
    assert len(second.store.alarms()) == 1


def test_ctrl_c_ends_cleanly(starter, tmp_path, run):
    recording(tmp_path / "day.parquet", 5000)
    text = f'[source]\nkind = "replay"\nfile = "{tmp_path / "day.parquet"}"\nrows = 10\nspeed = 5.0\n'
    pid = start(starter, run, settings(tmp_path, text + MODEL))
    until(lambda: progress(run / "watch.db") is not None, 60)
    os.kill(pid, signal.SIGINT)
    assert int(starter.stdout.readline()) == 0
    assert 0 < everything(run / "watch.db")[-1]["samples"] < 5000


def test_a_watch_that_cannot_keep_up_leaves_out_scoring_and_says_how_many(watching, monkeypatch):
    monkeypatch.setattr("coad.live.watcher.BEHIND", 0.05)
    scored, slow = coad.CoincidenceThreshold.score_rows, threading.Event()
    begun = threading.Event()

    def slowly(self, s, q=None, context=None):
        begun.set()
        slow.wait(30)
        return scored(self, s, q, context)

    monkeypatch.setattr(coad.CoincidenceThreshold, "score_rows", slowly)
    watcher = watching()
    Fed.feed.append(chunk(0))
    assert begun.wait(30)
    Fed.feed += [chunk(k, odd=(5,)) for k in range(20, 100, 20)]
    until(lambda: not Fed.feed)
    time.sleep(0.2)  # the others wait while the first is scored
    slow.set()
    until(lambda: watcher.store.counters().get("samples") == 100)
    counts = watcher.store.counters()
    assert counts["overload"] == 80
    assert counts["overload"] + counts["pairs"] == 100
    refused = [one for one in watcher.store.refusals() if one["reason"] == "overload"]
    assert sum(one["n_pairs"] for one in refused) == counts["overload"]


def test_a_changed_configuration_ends_what_was_open_and_keeps_the_alarms(watching, tmp_path, run):
    first = watching()
    Fed.feed.append(chunk(0, odd=(18, 19)))
    until(lambda: [one["state"] for one in first.store.alarms()] == ["raised"])
    first.store.act(first.store.alarms()[0]["key"], "shelve", "Ada", "later", START + 900 * SECOND)
    first.stop()
    until(lambda: first.snapshot()["status"] == "stopped")
    text = '[source]\nkind = "fed_by_tests:Fed"\n[time]\nlateness = "1s"\n'
    second = Watcher(run, WatchConfig.read(settings(tmp_path, text + MODEL)))
    second.source.close()
    (alarm,) = second.store.alarms()
    assert (alarm["state"], alarm["person"], alarm["active"]) == ("shelved", "Ada", False)
    assert second.store.events()[0]["state"] == "closed"
    assert second.store.counters()["samples"] == 20


def test_a_source_that_was_gone_before_a_restart_ends_its_alarm_when_it_returns(watching):
    first = watching()
    Fed.feed.append(chunk(0))
    until(lambda: first.store.counters().get("samples") == 20)
    Fed.up = False
    until(lambda: first.store.alarms())
    first.stop()
    until(lambda: first.snapshot()["status"] == "stopped")
    Fed.up = True
    second = watching()
    until(lambda: not second.store.alarms()[0]["active"])
    assert len(second.store.alarms()) == 1
