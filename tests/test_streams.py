"""``coad stream``: what is found on several workers, killed at any moment, is what one ``coad watch`` finds."""

from __future__ import annotations

import itertools
import json
import logging
import random
import re
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_models import SECOND, START, pieces, table
from makers import write_parquet
from safetensors.numpy import save as save_tensors

import coad
from coad.exceptions import InputError
from coad.live.engine import Engine
from coad.live.protocols import Wanted
from coad.live.sources.replay import Replay
from coad.live.store import Store
from coad.live.values import Chunk
from coad.streams import operator as operator_module
from coad.streams.config import StreamConfig
from coad.streams.merge import Merge
from coad.streams.messages import read_message, write_message
from coad.streams.operator import Operator, Pieces
from coad.streams.publish import seconds

STATIONS = ("K01", "K02", "K03", "K04", "K05")
WANTED = Wanted({"K01": ("a",)}, "t", text=frozenset({"mode"}))


def plant(folder, n=600, events=12, seed=0):
    """Five stations and one witness with events of one, of some and of all stations; a model; its settings."""
    rng = np.random.default_rng(seed)
    stamps = START + np.arange(n) * SECOND // 10
    clock = START + np.arange(3 * n) * SECOND // 30
    witness = np.abs(rng.normal(0, 0.3, 3 * n))
    columns = {name: np.abs(rng.normal(0, 0.3, n)) for name in STATIONS}
    # One at once, before it is known which partition has which stations.
    for start in [5, *rng.integers(5, n - 20, events).tolist()]:
        length = int(rng.integers(2, 15))
        witness[3 * start : 3 * (start + length)] += 3
        for name in rng.permutation(STATIONS)[: int(rng.integers(1, 6))]:
            late = int(rng.integers(0, 4))
            columns[name][start + late : start + late + length] += 3 + rng.normal()
    rows = {
        "t": np.repeat(stamps, len(STATIONS)).view("M8[ns]"),
        "station": np.tile(STATIONS, n),
        "a": np.stack([columns[name] for name in STATIONS], axis=1).reshape(-1),
    }
    write_parquet(folder / "s.parquet", rows)
    write_parquet(folder / "q.parquet", {"t": clock.view("M8[ns]"), "x": witness})
    scores = table(2000, events=40)[1]
    found = coad.CoincidenceThreshold(n_permutations=0, random_state=0)
    found.fit(np.abs(scores["a"]), np.abs(scores["x"])).set_threshold(2.0, 2.0).save(folder / "run")
    config = folder / "watch.toml"
    config.write_text(
        f'[source]\nkind = "replay"\ns_file = "{folder / "s.parquet"}"\nq_file = "{folder / "q.parquet"}"\n'
        'station = "station"\nrows = 500\n[model]\ns = ["a"]\nq = ["x"]\ntime = "t"\n'
        f"[stations]\nnames = {json.dumps(STATIONS)}\nsystem_above = 3\n"
        '[time]\ntolerance = "50ms"\n[[gate]]\ncolumn = "a"\nabove = 5.5\n',
        encoding="utf-8",
    )
    return config


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A plant, and all that a single ``coad watch`` of it keeps."""
    from coad.live.config import WatchConfig
    from coad.live.watcher import Watcher

    folder = tmp_path_factory.mktemp("plant")
    config = plant(folder)
    Watcher(folder / "run", WatchConfig.read(config)).run()
    expected = everything(folder / "run" / "watch.db")
    assert len(expected[0]) > 5
    assert {one["station"] for one in expected[0]} & {"system", "unclear"}
    assert expected[1]
    return folder, config, expected


def everything(path):
    """Events, refusals, counts, and which events are in an alarm.

    Which alarm depends on how much comes at once, also in a watch: whom an event that goes on is blamed on may change.
    """
    store = Store(path)
    events, refusals = store.events(-(2**62), -1), store.refusals(-(2**62), -1)
    alarmed = {key for one in store.alarms(limit=-1) for key in one["events"]}
    counts = {name: store.counters()[name] for name in ("pairs", "flagged")}
    store.close()
    return events, refusals, alarmed, counts


def messages(config, partitions):
    """What the publisher sends to each partition."""
    source = Replay(config.watch.source[1], config.engine().wanted())
    sent = [[] for _ in range(partitions)]
    place = {name: k % partitions for k, name in enumerate(STATIONS[::2] + STATIONS[1::2])}
    for chunk in seconds(source.chunks(), list(source.connected()), config.stream.chunk, wait=None):
        for k in range(partitions) if chunk.stream == "witness" else [place[chunk.stream]]:
            sent[k].append(write_message(chunk))
    return [[*one, write_message(None)] for one in sent]


def collected(config, results, partitions, path):
    """What a collector keeps of results."""
    store, merge = Store(path, config.watch.alarms), Merge(config, partitions)
    for result in results:
        step = merge.add(json.loads(json.dumps(result)))
        store.commit(step, b"", counts=merge.counts(), snapshot=merge.state())
        merge = Merge(config, partitions).restore(store.restart(config.run)[0] or merge.state())
    store.close()
    return everything(path), merge


@pytest.mark.parametrize("order", ["far apart", "in step", "in step, the last first"])
@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_partitions_in_any_order_give_what_one_watch_gives(partitions, order, watched, tmp_path):
    folder, path, expected = watched
    config = StreamConfig.read(folder / "run", path)
    waiting = [list(enumerate(one)) for one in messages(config, partitions)]
    states = [Pieces() for _ in waiting]
    operator, results, chance = Operator(config), [], random.Random(partitions)
    turns = itertools.cycle(range(partitions) if order == "in step" else reversed(range(partitions)))
    while any(waiting):
        partition = chance.randrange(partitions) if order == "far apart" else next(turns)
        for _ in range(chance.randrange(1, 60) if order == "far apart" else 1):
            if waiting[partition]:
                offset, data = waiting[partition].pop(0)
                results.append(operator.step(data, states[partition], partition=partition, offset=offset))
    found, merge = collected(config, [one for one in results if one], partitions, tmp_path / "stream.db")
    assert found == expected
    assert merge.done


def test_a_partition_that_nobody_works_on_is_named(watched):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    operator, merge, state = Operator(config), Merge(config, 3), Pieces()
    for offset, data in enumerate(messages(config, 3)[1][:-1]):
        result = operator.step(data, state, partition=1, offset=offset)
        assert not result or not merge.add(result).events
    assert merge.behind(30 * SECOND) == [0, 2]
    assert merge.behind(30 * SECOND) == merge.restore(merge.state()).behind(30 * SECOND)


def test_workers_that_die_cost_nothing_and_count_nothing_twice(watched, tmp_path):
    folder, path, expected = watched
    config = StreamConfig.read(folder / "run", path)
    sent = messages(config, 2)
    chance, results = random.Random(0), []
    for partition, waiting in enumerate(sent):
        committed, state, deaths = 0, Pieces(), 0
        while committed < len(waiting):
            worker, held = (
                Operator(config),
                Pieces.from_bytes(state.to_bytes()),
            )  # another one, with what the changelog has
            n = chance.randrange(1, 40)
            for offset in range(committed, min(committed + n, len(waiting))):
                results.append(worker.step(waiting[offset], held, partition=partition, offset=offset))
            if chance.random() < 0.5:
                deaths += 1
                continue  # it dies before it commits, and its results are out
            committed, state = min(committed + n, len(waiting)), held
        assert deaths > 2
    found, merge = collected(config, [one for one in results if one], 2, tmp_path / "stream.db")
    assert found == expected
    assert merge.counts()["results that came again"] > 5


def test_a_state_that_is_too_long_for_a_message_is_cut(watched, monkeypatch):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    (sent,) = messages(config, 1)
    whole, state = Operator(config), Pieces()
    expected = [whole.step(one, state, partition=0, offset=k) for k, one in enumerate(sent)]
    monkeypatch.setattr(operator_module, "_PIECE", 300)
    state = Pieces()
    found = [Operator(config).step(one, state, partition=0, offset=k) for k, one in enumerate(sent[:80])]
    assert found == expected[:80]
    assert max(len(one) for name, one in state.items() if name != "meta") <= 300
    assert sum(name.startswith("station:K01/") for name in state) > 1


def test_the_state_keeps_only_what_stations_may_need_of_the_witness(watched):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    (sent,) = messages(config, 1)
    operator, state, sizes = Operator(config), Pieces(), []
    for offset, data in enumerate(sent[:-1]):
        operator.step(data, state, partition=0, offset=offset)
        sizes.append(sum(map(len, state.values())))
    assert sizes[-1] < 1.5 * sizes[len(sizes) // 2]


def test_silence_ends_an_event_when_the_clock_says_so(watched):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    stamps = START + np.arange(20) * SECOND // 10
    both = [Chunk("witness", stamps, {"x": np.full(20, 3.0)}), Chunk("K01", stamps, {"a": np.full(20, 3.0)})]
    operator, merge, state, events = Operator(config), Merge(config, 1), Pieces(), []
    later = int(stamps[-1]) + 60 * SECOND
    for offset, what in enumerate([*both, int(stamps[-1]), later]):
        result = operator.step(write_message(what), state, partition=0, offset=offset)
        if result:
            events += merge.add(result).events
    assert [one.state for one in events][-1] == "closed"
    assert events[-1].station == "K01"


def test_after_the_end_of_a_recording_another_may_come(watched):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    (sent,) = messages(config, 1)
    operator, merge, state = Operator(config), Merge(config, 1), Pieces()
    counts = []
    for offset, data in enumerate([*sent, *sent]):
        result = operator.step(data, state, partition=0, offset=offset)
        if result:
            merge.add(result)
        if result and result["ended"]:
            assert merge.done
            counts.append(merge.counts()["pairs"])
    assert counts[1] == 2 * counts[0] > 0


def test_a_message_that_does_not_parse_is_said_counted_and_left_out(watched, caplog):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    operator, state = Operator(config), Pieces()
    caplog.set_level(logging.WARNING)
    good = write_message(Chunk("K01", np.array([START]), {"a": np.array([1.0])}))
    bad = [None, b"", b"x", b"{half", b"[1]", good[:-3], good[:40], save_tensors({"time": np.arange(3)}),
           b'{"stream": "K77", "time": [1.0], "a": [2.0]}',
           save_tensors({}, metadata={"coad": "2", "kind": "samples"})]  # fmt: skip
    for offset, data in enumerate([*bad, good, write_message(None)]):
        result = operator.step(data, state, partition=0, offset=offset)
    assert result["counts"]["malformed"] == len(bad)
    assert result["counts"]["samples"] == 1
    lines = caplog.messages
    assert len(lines) == len(bad)
    assert all(f"offset {k} is left out: " in line and "\n" not in line for k, line in enumerate(lines))
    assert "the message has format 2, and this coad reads 1" in lines[-1]


def test_the_state_of_another_model_is_refused(watched, tmp_path):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    (sent,) = messages(config, 1)
    state = Pieces()
    Operator(config).step(sent[0], state, partition=0, offset=0)
    (tmp_path / "watch.toml").write_text(path.read_text().replace("50ms", "40ms"))
    other = StreamConfig.read(folder / "run", tmp_path / "watch.toml")
    with pytest.raises(InputError, match=f"belongs to {config.run}.*is {other.run}; name another group"):
        Operator(other).step(sent[1], state, partition=0, offset=1)
    result = Operator(other).step(write_message(None), Pieces(), partition=0, offset=0)
    merge = Merge(config, 1)
    merge.add(result)
    assert merge.counts() == {"results of another model": 1}


@settings(max_examples=500)
@given(
    place=st.integers(0, 400), bits=st.integers(1, 255), cut=st.integers(0, 400), noise=st.binary(max_size=30)
)
def test_a_damaged_message_is_read_or_refused_in_a_line(place, bits, cut, noise):
    chunk = Chunk("K01", np.array([1, 2]), {"a": np.array([1.0, 2.0]), "mode": np.array(["x", "y"])})
    data = bytearray(write_message(chunk))
    data[place % len(data)] ^= bits
    for one in (bytes(data), bytes(data[: cut % len(data)]) + noise, bytes(data[:8]) + noise, noise):
        try:
            message = read_message(one, WANTED)
        except InputError as error:
            lines = str(error).splitlines()
        else:
            lines = [""]
            assert all(len(values) == len(c) for c in message.chunks for values in c.columns.values())
        assert len(lines) == 1


def test_json_is_read_as_a_watch_reads_it():
    data = json.dumps({"stream": "K01", "t": [1.5, 2.5], "a": [3, "bad"]}).encode()
    (chunk,) = read_message(data, WANTED).chunks
    assert (chunk.stream, chunk.time.tolist()) == ("K01", [1_500_000_000, 2_500_000_000])
    np.testing.assert_array_equal(chunk.columns["a"], [3, np.nan])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?"])
def test_samples_arrive_as_they_were_sent(dtype):
    sent = Chunk(
        "K01", np.array([3, 1], np.int64), {"a": np.array([1, 0], dtype), "mode": np.array(["ä", ""])}
    )
    (got,) = read_message(write_message(sent), WANTED).chunks
    assert (got.stream, got.time.tolist()) == ("K01", [3, 1])
    assert got.columns["a"].dtype == np.float64
    np.testing.assert_array_equal(got.columns["a"], sent.columns["a"].astype(float))
    assert got.columns["mode"].tolist() == ["ä", ""]


def test_pieces_of_a_second_hold_all_samples_in_order_and_their_positions_are_safe():
    stamps, columns = table(300)
    cuts = {"witness": [200], "K01": [50, 100, 220], "K02": [150]}
    waiting = [pieces(stamps, columns, edges, stream) for stream, edges in cuts.items()]
    chunks, chance = [], random.Random(0)
    while any(waiting):
        one = chance.choice([left for left in waiting if left]).pop(0)
        chunks.append(Chunk(one.stream, one.time, one.columns, len(chunks)))
    found = list(seconds(iter(chunks), ["witness", "K01", "K02"], SECOND, wait=None))
    for stream in ("witness", "K01", "K02"):
        mine = [one for one in found if one.stream == stream]
        np.testing.assert_array_equal(np.sort(np.concatenate([one.time for one in mine])), stamps)
        assert len(mine) == 30
    numbers = [one.time[0] // SECOND for one in found]
    assert numbers == sorted(numbers)
    assert found[-1].position == len(chunks) - 1
    for k, piece in enumerate(found):  # what came up to a position is out when the position is
        if piece.position is not None:
            out = {(one.stream, time) for one in found[: k + 1] for time in one.time.tolist()}
            read = chunks[: piece.position + 1]
            assert out >= {(one.stream, time) for one in read for time in one.time.tolist()}


def test_a_silent_stream_is_waited_for_only_so_long():
    one = Chunk("K01", np.array([START, START + 5 * SECOND]), {"a": np.zeros(2)})
    found = seconds(itertools.chain([one], itertools.repeat(None)), ["K01", "K02"], SECOND, wait=0.0)
    assert [len(piece) for piece in itertools.islice(found, 2)] == [1, 1]


def test_an_engine_of_a_shard_does_not_group(watched):
    folder, path, _ = watched
    config = StreamConfig.read(folder / "run", path)
    assert config.engine().grouping is None
    assert Engine(config.models, config.settings).grouping is not None


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[stream]\nbroker = "x"\n', "no key 'broker'; did you mean 'brokers'"),
        ('[stream]\nchunk = "0s"\n', "chunk under .stream. must be more than 0"),
        ('[stream]\ntopic = "a"\nresults = "a"\n', "must be two topics"),
        ('[stream]\nguarantee = "twice"\n', "must be one of 'at-least-once', 'exactly-once'"),
        ("[drift]\nevery = 100\n", "does not look for drift"),
        ('[stream]\nclient = { "no.such" = "1" }\n', 'No such configuration property: "no.such"'),
        ('[stream]\nbrokers = "127.0.0.1:1"\n', "no broker answers at 127.0.0.1:1"),
    ],
)
@pytest.mark.parametrize("command", ["publish", "collect"])
def test_what_is_wrong_is_said_in_a_line(section, words, command, watched, tmp_path, run_coad, monkeypatch):
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'coad[kafka]'")
    monkeypatch.setattr("coad.streams.brokers.PATIENCE", 0.5)
    folder, path, _ = watched
    config = tmp_path / "watch.toml"
    config.write_text(path.read_text(encoding="utf-8") + section, encoding="utf-8")
    done = run_coad("stream", command, folder / "run", "--config", config)
    assert done.code == 2
    assert done.err.count("\n") == 1, done.err
    assert re.search(words, done.err), done.err
    assert not (folder / "run" / "stream.db").exists()


def test_a_publisher_needs_a_source(watched, tmp_path, run_coad):
    folder, _, _ = watched
    (tmp_path / "watch.toml").write_text('[model]\ns = ["a"]\nq = ["x"]\n')
    done = run_coad("stream", "publish", folder / "run", "--config", tmp_path / "watch.toml")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "[source] is missing" in done.err


def test_without_quix_streams_a_worker_says_what_to_install(watched, run_coad):
    folder, path, _ = watched
    try:
        import quixstreams  # noqa: F401
    except ModuleNotFoundError:
        done = run_coad("stream", "work", folder / "run", "--config", path)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert done.err.rstrip().endswith("pip install 'coad[stream]'")
    else:
        pytest.skip("Quix Streams is installed")


def test_a_live_source_is_published_once_with_the_time_and_goes_on_after_a_stop(watched, brokers, tmp_path):
    import confluent_kafka as kafka

    from coad.streams.publish import publish

    folder = watched[0]
    log = tmp_path / "log.csv"
    config = tmp_path / "watch.toml"
    config.write_text(
        f'[source]\nkind = "files"\npath = "{log}"\npoll_s = 0.1\n[model]\ns = ["a"]\nq = ["x"]\ntime = "t"\n'
        f'[stream]\nbrokers = "{brokers}"\nmake_topics = "broker"\nstate = "{tmp_path / "state"}"\n'
    )
    config = StreamConfig.read(folder / "run", config, sourceless=False)
    reader = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "test", "log_level": 0})
    operator, states, merge, offsets, events = Operator(config), {}, Merge(config, 4), {}, []
    samples, clocks = [], 0

    def read(until):
        nonlocal clocks
        end = time.monotonic() + 60
        while not until():
            assert time.monotonic() < end
            for message in reader.consume(100, 0.1):
                assert not message.error(), message.error()
                assert message.key() is not None
                said = read_message(message.value(), operator.wanted)
                clocks += said.kind == "clock"
                samples.extend(one for chunk in said.chunks for one in chunk.time.tolist())
                place, offsets[message.partition()] = message.partition(), message.offset()
                result = operator.step(
                    message.value(),
                    states.setdefault(place, Pieces()),
                    partition=place,
                    offset=message.offset(),
                )
                events.extend(merge.add(result).events if result else ())

    rows = [f"{1_750_000_000 + k / 10:.1f},{3 * (15 <= k < 45)},{3 * (15 <= k < 45)}\n" for k in range(100)]
    log.write_text("t,a,x\n" + "".join(rows[:50]))
    for part in (rows[50:], []):
        stop = threading.Event()
        worker = threading.Thread(target=publish, args=(config, stop))
        worker.start()
        try:
            if not offsets:
                end = time.monotonic() + 60
                while reader.list_topics("coad-samples", timeout=10).topics["coad-samples"].error:
                    assert time.monotonic() < end
                reader.assign([kafka.TopicPartition("coad-samples", k, 0) for k in range(4)])
            n, before = 100 - len(part), clocks
            read(lambda n=n, before=before: len(samples) >= n and clocks > before)
        finally:
            stop.set()
            worker.join(60)
        assert sorted(samples) == sorted(set(samples)), "what was published before the stop came again"
        with log.open("a") as file:
            file.write("".join(part))
    assert len(samples) == 100
    assert clocks
    assert [(one.n_pairs, one.state) for one in events if one.state == "closed"] == [(30, "closed")]
    reader.close()
