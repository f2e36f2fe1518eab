"""Messages and growing files become chunks; what cannot be read is counted and never stops the reading."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coad.exceptions import InputError
from coad.live.config import WatchConfig
from coad.live.protocols import Wanted
from coad.live.sources.files import GrowingFiles, GrowingFilesSettings
from coad.live.sources.messages import read_message
from coad.live.values import Chunk

STATIONS = Wanted({"K01": ("amplitude", "phase"), "witness": ("x", "load")}, text=frozenset({"load"}))


def read(payload, wanted=STATIONS, **topic):
    counts = Counter()
    return read_message(payload, wanted, counts, arrived=10**18, **topic), counts


def test_a_plain_number_is_a_sample_of_the_column_that_the_topic_names():
    (chunk,), counts = read(b" 99.5 ", stream="K01", column="amplitude")
    assert (chunk.stream, chunk.time.tolist(), chunk.columns["amplitude"].tolist()) == (
        "K01",
        [10**18],
        [99.5],
    )
    assert counts == {"received": 1}


@pytest.mark.parametrize(
    "stamp",
    [1773050400, 1773050400000, 1773050400000000, 1773050400000000000, "2026-03-09T10:00:00Z", 1773050400.0],
    ids=repr,
)
def test_times_may_be_epoch_times_of_any_unit_or_text(stamp):
    (chunk,), _ = read(json.dumps({"time": stamp, "amplitude": 1}), stream="K01")
    assert chunk.time.tolist() == [1773050400 * 10**9]


def test_an_object_may_hold_many_samples_of_several_streams():
    said = {"time": [1, 2, 3], "amplitude": [1, None, "bad input"], "x": [4, 5, 6], "load": ["a", "b", None]}
    chunks, counts = read(json.dumps(said))
    station, witness = chunks
    np.testing.assert_array_equal(station.columns["amplitude"], [1, np.nan, np.nan])
    assert witness.columns["load"].tolist() == ["a", "b", ""]
    assert witness.time.tolist() == [10**9, 2 * 10**9, 3 * 10**9]
    assert counts == {"received": 1}


def test_one_bad_time_costs_one_sample():
    said = {
        "stream": "K01",
        "time": ["2026-03-09T10:00:00", "noon", "2026-03-09T10:00:02"],
        "phase": [1, 2, 3],
    }
    (chunk,), counts = read(json.dumps(said))
    assert chunk.columns["phase"].tolist() == [1, 3]
    assert counts["malformed"] == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        None,
        b"99.5",
        b"{",
        b"[1, 2]",
        b'"text"',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"amplitude": [1, 2]}',
        b'{"time": [1, 2], "amplitude": [1]}',
        b'{"time": {}, "amplitude": 1}',
        b'{"time": null, "amplitude": 1}',
        b'{"time": 1e300, "amplitude": 1}',
        b'{"time": NaN, "amplitude": 1}',
        b'{"amplitude": {"deep": 1}}',
        b'{"amplitude": "high"}',
        b'{"stream": 5, "amplitude": 1}',
        b"9" * 5000,
    ],
    ids=lambda payload: repr(payload)[:40],
)
def test_what_cannot_be_read_is_counted(payload):
    chunks, counts = read(payload)
    assert counts["malformed"] == 1
    assert all(np.isnan(values).all() for chunk in chunks for values in chunk.columns.values())


def test_a_stream_or_a_column_that_the_model_does_not_know_is_counted():
    assert read(b'{"stream": "K99", "amplitude": 1}') == ([], {"received": 1, "unknown": 1})
    assert read(b'{"stream": "K01", "colour": 1}') == ([], {"received": 1, "unknown": 1})


def test_a_column_of_many_stations_needs_a_stream():
    wanted = Wanted({"K01": ("amplitude",), "K02": ("amplitude",)})
    assert read(b'{"amplitude": 1}', wanted) == ([], {"received": 1, "unknown": 1})


def test_ten_thousand_mutated_messages_never_raise():
    rng = random.Random(0)
    good = [
        json.dumps({"time": 1773050400.25, "stream": "K01", "amplitude": 99.5, "phase": -3}).encode(),
        json.dumps({"time": [1, 2], "x": [0.5, None], "load": ["low", "high"]}).encode(),
        b"99.5",
        json.dumps({"time": "2026-03-09T10:00:00.5Z", "stream": "witness", "x": 1e-3}).encode(),
    ]
    words = [
        b"null",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"[[]]",
        b"{}",
        b'"\\ud800"',
        b"true",
        b"0" * 400,
        b"\x00",
    ]
    counts: Counter[str] = Counter()
    kept = 0
    for number in range(10_000):
        payload = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(payload) + 1)
            what = rng.randrange(4)
            if what == 0:
                payload[place:place] = rng.choice(words)
            elif what == 1:
                payload[place : place + rng.randint(1, 9)] = b""
            elif what == 2:
                payload[place : place + 1] = bytes([rng.randrange(256)])
            else:
                payload[place : place + 4] = rng.choice(words)
        stream, column = rng.choice([(None, None), ("K01", "amplitude"), ("witness", None)])
        chunks = read_message(bytes(payload), STATIONS, counts, arrived=number, stream=stream, column=column)
        for chunk in chunks:
            check(chunk)
            kept += len(chunk)
    assert counts["received"] == 10_000
    assert counts["malformed"] > 1000
    assert kept > 300


def check(chunk: Chunk) -> None:
    """A chunk keeps its promises: known columns of one length, times, finite or missing numbers."""
    assert chunk.stream in STATIONS.columns
    assert chunk.time.dtype == np.int64
    assert len(chunk) > 0
    for name, values in chunk.columns.items():
        assert name in STATIONS.columns[chunk.stream]
        assert values.shape == chunk.time.shape
        assert values.dtype.kind == ("U" if name in STATIONS.text else "f")
        if values.dtype.kind == "f":
            assert not np.isinf(values).any()


TABLE = Wanted({"": ("a", "b")}, time="t")


def follow(path, wanted=TABLE, position=None):
    return GrowingFiles(GrowingFilesSettings(str(path), poll_s=0.01), wanted).chunks(position)


def drain(reading):
    """Everything until the source has nothing more."""
    found = []
    for chunk in reading:
        if chunk is None:
            return found
        found.append(chunk)
    raise AssertionError("a growing file has no end")


def test_a_line_counts_once_it_ends(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("t,a,b\n1,10,20\n2,11,2")
    reading = follow(path)
    (chunk,) = drain(reading)
    assert chunk.columns["a"].tolist() == [10]
    with path.open("a") as file:
        file.write("1\n3,12,22\n4,13")
    (chunk,) = drain(reading)
    assert chunk.columns["b"].tolist() == [21, 22]
    assert drain(reading) == []


def test_reading_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("t,a,b\n1,10,20\n")
    (first,) = drain(follow(path))
    with path.open("a") as file:
        file.write("2,11,21\n")
    (second,) = drain(follow(path, position=json.loads(json.dumps(first.position))))
    assert second.time.tolist() == [2 * 10**9]


def test_bad_lines_are_counted_and_the_others_kept(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"t,a,b\n1,10,20\n2,11\n\n3,x,\xff\n4,n/a,23\nlate,1,2\n5,14,24\n")
    reader = GrowingFiles(GrowingFilesSettings(str(path), poll_s=0.01), TABLE)
    (chunk,) = drain(reader.chunks())
    np.testing.assert_array_equal(chunk.columns["a"], [10, np.nan, np.nan, 14])
    assert reader.counters() == {"received": 6, "malformed": 4}


def test_a_file_that_became_shorter_is_read_from_its_start(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("t,a,b\n1,10,20\n2,11,21\n")
    reading = follow(path)
    drain(reading)
    path.write_text("t,b,a\n9,1,2\n")
    (chunk,) = drain(reading)
    assert chunk.columns["a"].tolist() == [2]


def test_a_file_for_each_stream_is_known_by_its_name(tmp_path):
    for stream, text in (("K01", "time,amplitude\n1,5\n"), ("witness", "time,x\n1,6\n"), ("other", "z\n")):
        (tmp_path / f"{stream}.csv").write_text(text)
    chunks = drain(follow(tmp_path / "{stream}.csv", STATIONS))
    assert sorted(chunk.stream for chunk in chunks) == ["K01", "witness"]
    source = GrowingFiles(
        GrowingFilesSettings(str(tmp_path / "{stream}.csv")), Wanted({"K01": ("a",), "K02": ("a",)})
    )
    assert source.connected() == {"K01": True, "K02": False}


def test_parquet_files_are_read_once_each_and_a_half_written_one_waits(tmp_path):
    table = pa.table({"t": [1.0, 2.0], "a": [10, None], "b": [20.0, 21.0]})
    pq.write_table(table, tmp_path / "part-1.parquet")
    whole = (tmp_path / "part-1.parquet").read_bytes()
    (tmp_path / "part-2.parquet").write_bytes(whole[:-20])
    reading = follow(tmp_path / "*.parquet")
    (chunk,) = drain(reading)
    np.testing.assert_array_equal(chunk.columns["a"], [10, np.nan])
    assert drain(reading) == []
    (tmp_path / "part-2.parquet").write_bytes(whole)
    (second,) = drain(reading)
    assert drain(follow(tmp_path / "*.parquet", position=second.position)) == []
    assert [len(one) for one in drain(follow(tmp_path / "*.parquet", position=chunk.position))] == [2]


def test_no_position_is_ahead_of_the_samples_that_were_handed_over(tmp_path):
    """Stopping after any chunk and going on from its position brings every sample."""
    for name in ("part-1", "part-2"):
        times = np.arange(3.0) + 10 * int(name[-1])
        pq.write_table(
            pa.table({"time": times, "amplitude": times, "x": times}), tmp_path / f"{name}.parquet"
        )
    every = drain(follow(tmp_path / "*.parquet", STATIONS))
    whole = {(chunk.stream, int(t)) for chunk in every for t in chunk.time}
    assert len(whole) == 12
    for stop in range(1, len(every)):
        first = every[:stop]
        rest = drain(follow(tmp_path / "*.parquet", STATIONS, position=first[-1].position))
        assert {(chunk.stream, int(t)) for chunk in [*first, *rest] for t in chunk.time} == whole


def test_a_path_with_two_streams_is_refused(tmp_path):
    with pytest.raises(InputError, match="at most once"):
        follow("{stream}/{stream}.csv").__next__()


def test_the_source_in_the_docs_runs_in_a_watch(tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "docs" / "live-sources.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_source.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    config = tmp_path / "watch.toml"
    config.write_text('[source]\nkind = "my_source:Waves"\npause_s = 0.001\n')
    source = WatchConfig.read(config).open_source(TABLE)
    chunks = list(itertools.islice(source.chunks(), 3))
    source.close()
    assert [sorted(chunk.columns) for chunk in chunks] == [["a", "b"]] * 3
    assert source.connected() == {"": True}


def test_the_settings_in_the_docs_are_right(tmp_path):
    """Every block of TOML on the pages of a watch can be read."""
    docs = Path(__file__).parent.parent / "docs"
    blocks = [
        block
        for name in ("live-sources.md", "live-page.md")
        for block in re.findall(r"```toml\n(.*?)```", (docs / name).read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert len(blocks) == 6
    config = tmp_path / "watch.toml"
    for block in blocks:
        config.write_text(block if "[source]" in block else f'[source]\nkind = "files"\npath = "x"\n{block}')
        WatchConfig.read(config)
