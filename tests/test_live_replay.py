"""Recordings as a source: the rows of the files, in an order in which nobody has to wait, from any position on."""

from __future__ import annotations

import numpy as np
import pytest
from live_models import SECOND, START, collected, layout, means_model, table
from makers import write_csv, write_parquet

from coad.exceptions import InputError
from coad.live.engine import Engine, EngineSettings
from coad.live.protocols import Wanted
from coad.live.sources.replay import Replay
from coad.workflows.recipe import Clocks
from coad.workflows.scoring import Source, iter_confidences


def stations(tmp_path, n=900):
    """Three stations in one table and a faster witness in another."""
    s = {"t": [], "station": [], "a": [], "b": []}
    parts = []
    for k, name in enumerate(("K01", "K02", "K03")):
        time, columns = table(n, seed=k)
        parts.append((time, np.full(n, name), columns["a"], columns["b"]))
    order = np.argsort(np.concatenate([one[0] for one in parts]), kind="stable")
    for name, column in zip(s, zip(*parts, strict=True), strict=True):
        s[name] = np.concatenate(column)[order]
    s["t"] = s["t"].view("M8[ns]")
    time_q = START + np.arange(3 * n) * SECOND // 30
    q = {"t": time_q.view("M8[ns]"), "x": np.abs(np.random.default_rng(9).normal(size=3 * n)) * 2}
    write_parquet(tmp_path / "s.parquet", s)
    write_parquet(tmp_path / "q.parquet", q)
    for name in ("K01", "K02", "K03"):
        mine = s["station"] == name
        write_parquet(tmp_path / f"{name}.parquet", {k: v[mine] for k, v in s.items() if k != "station"})
    names = ("K01", "K02", "K03")
    model = means_model(layout(window=8, stride=4, max_gap="1s"), Clocks("nearest", "50ms"))
    return Engine(dict.fromkeys(names, model), EngineSettings(names)), model


def replayed(engine, tmp_path, rows, position=None):
    settings = Replay.Settings(
        s_file=str(tmp_path / "s.parquet"), q_file=str(tmp_path / "q.parquet"), station="station", rows=rows
    )
    return list(Replay(settings, engine.wanted()).chunks(position))


@pytest.mark.parametrize("rows", [50, 4096])
def test_stations_and_their_witness_give_what_each_gives_from_two_files(rows, tmp_path):
    engine, model = stations(tmp_path)
    found = collected([*(engine.push([one]) for one in replayed(engine, tmp_path, rows)), engine.close()])
    assert not found.refusals
    for name, rows_found in found.rows.items():
        source = Source(s=tmp_path / f"{name}.parquet", q=tmp_path / "q.parquet")
        parts = list(iter_confidences(model.detector, model.recipe, source))
        for part in ("p_s", "p_q", "flag"):
            expected = np.concatenate([getattr(one.scores, part) for one in parts])
            np.testing.assert_array_equal(getattr(rows_found, part), expected)
        np.testing.assert_array_equal(rows_found.first, np.concatenate([one.first for one in parts]))
    assert set(found.rows) == {"K01", "K02", "K03"}


def test_reading_goes_on_from_every_position(tmp_path):
    engine, _ = stations(tmp_path, 300)
    whole = replayed(engine, tmp_path, 70)
    for place, chunk in enumerate(whole):
        if chunk.position is not None:
            rest = replayed(engine, tmp_path, 70, chunk.position)
            for stream in engine.wanted().columns:
                expected, got = (
                    np.concatenate([np.empty(0, np.int64), *(c.time for c in some if c.stream == stream)])
                    for some in (whole[place + 1 :], rest)
                )
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_times_of_all_kinds_and_none(write, tmp_path):
    path = write(
        tmp_path / ("rows.csv" if write is write_csv else "rows.parquet"),
        {"t": np.arange(4) / 4, "a": np.arange(4.0)},
    )
    for clock, expected in (
        ("t", [0, 250_000_000, 500_000_000, 750_000_000]),
        (None, [0, SECOND, 2 * SECOND, 3 * SECOND]),
    ):
        wanted = Wanted({"": ("a",)}, clock, "number" if clock else None)
        (chunk,) = Replay(Replay.Settings(file=str(path)), wanted).chunks()
        assert chunk.time.tolist() == expected
        assert chunk.columns["a"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "columns", "words"),
    [
        ({}, ("",), "either file"),
        ({"file": "a", "s_file": "b", "q_file": "c"}, ("",), "either file"),
        ({"s_file": "b"}, ("s", "witness"), "either file"),
        ({"file": "a"}, ("s", "witness"), "are two tables"),
        ({"s_file": "b", "q_file": "c"}, ("",), "fitted on one table"),
        ({"file": "a", "rows": 0}, ("",), "at least 1"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(settings, columns, words):
    with pytest.raises(InputError, match=words):
        Replay(Replay.Settings(**settings), Wanted(dict.fromkeys(columns, ("a",))))


def test_a_replay_keeps_the_pace_that_was_asked_for(tmp_path):
    import time

    path = write_parquet(tmp_path / "rows.parquet", {"t": np.arange(60) / 10, "a": np.zeros(60)})
    start = time.monotonic()
    settings = Replay.Settings(file=str(path), speed=20.0, rows=10)
    chunks = list(Replay(settings, Wanted({"": ("a",)}, "t", "number")).chunks())
    assert time.monotonic() - start >= 5.9 / 20
    assert None in chunks
