"""The engine gives on samples, however they come, what ``coad score`` gives on a file."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_models import SECOND, START, collected, layout, means_model, pieces, table, watched
from makers import event_rows, write_parquet

import coad
from coad.core.runs import RowOrder, seconds
from coad.data.layout import Layout
from coad.events.runs import find_events
from coad.exceptions import CoadWarning
from coad.learned.training.model import Scorer
from coad.live.engine import Engine, EngineSettings
from coad.live.model import LiveModel
from coad.live.packing import from_bytes, to_bytes
from coad.live.selection import Gate, Trigger
from coad.live.values import Chunk
from coad.workflows.recipe import Clocks, Recipe
from coad.workflows.scoring import Numbering, Source, iter_confidences, score_files


def as_dates(time):
    return np.asarray(time).view("M8[ns]")


def scored_by_file(model, folder, columns, q_columns=None):
    """What the commands make of the same rows in a file."""
    recipe = model.recipe
    if q_columns is None:
        source = Source(write_parquet(folder / "rows.parquet", columns))
    else:
        files = [write_parquet(folder / f"{n}.parquet", c) for n, c in (("s", columns), ("q", q_columns))]
        source = Source(s=files[0], q=files[1])
    parts = list(iter_confidences(model.detector, recipe, source))
    if not parts:
        return None, None
    numbers = Numbering()
    columns = {name: [getattr(one, name) for one in parts] for name in ("first", "last")}
    columns |= {
        name: [getattr(one.scores, name) for one in parts] for name in ("p_s", "p_q", "score", "flag")
    }
    columns |= {"time": [one.pairs.time for one in parts], "run": [numbers.of_part(one) for one in parts]}
    scored = SimpleNamespace(**{name: np.concatenate(one) for name, one in columns.items()}, mode=None)
    if parts[0].scores.mode is not None:
        scored.mode = np.concatenate([one.scores.mode for one in parts])
    order = RowOrder(len(scored.flag), seconds(scored.time), scored.run)
    return scored, find_events(scored.flag, scored.score, order.breaks())


def same(found, scored, runs, *, close=False):
    """Whether the engine found the rows, scores and events of the file."""
    np.testing.assert_array_equal(found.first, scored.first)
    np.testing.assert_array_equal(found.last, scored.last)
    np.testing.assert_array_equal(found.flag, scored.flag)
    for name in ("p_s", "p_q", "score"):
        if close:  # torch sums in another order where a batch has another size
            np.testing.assert_allclose(getattr(found, name), getattr(scored, name), rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(getattr(found, name), getattr(scored, name))
    if scored.mode is not None:
        np.testing.assert_array_equal(found.mode, scored.mode)
    if scored.time is not None and scored.time.dtype.kind == "M":
        np.testing.assert_array_equal(found.time, scored.time.astype("M8[ns]").view(np.int64))
    events = sorted(found.events, key=lambda one: one.numbers["first_row"])
    assert [one.numbers["first_row"] for one in events] == scored.first[runs.first].tolist()
    assert [one.numbers["last_row"] for one in events] == scored.last[runs.last].tolist()
    assert [one.n_pairs for one in events] == runs.n_pairs.tolist()
    assert [one.numbers["peak_row"] for one in events] == scored.first[runs.peak].tolist()
    assert all(one.state == "closed" for one in events)


def check(model, folder, time, columns, chunks, *, close=False, **settings):
    scored, runs = scored_by_file(model, folder, {"t": as_dates(time), **columns})
    found = watched(Engine(model, EngineSettings(**settings)), chunks)
    rows = found.rows[""]
    rows.events = found.events
    same(rows, scored, runs, close=close)
    return found


def fitted(kind, two_column_model, fitted_modes):
    """A model of each kind with rows for it."""
    if kind == "modes":
        model, s, q, _ = fitted_modes
    elif kind == "CoAD windows":
        s, q, _ = event_rows(300, (2, 8), rate=0.1, shift=(3, 3))
        with warnings.catch_warnings():  # how well they learn does not matter, and differs with the versions
            warnings.simplefilter("ignore", CoadWarning)
            model = coad.CoAD(n_starts=1, epochs=3, random_state=0).fit(s, q)
        model.set_threshold(p_s=0.5, p_q=0.5)
        s, q, _ = event_rows(800, (2,), rate=0.1, shift=(3, 3), seed=1)
    else:
        s, q, _ = event_rows(500, (2,), rate=0.08, shift=(4, 4))
        model = two_column_model
    names = [f"s{i}" for i in range(s.shape[1])], [f"q{i}" for i in range(q.shape[1])]
    if kind == "thresholds":
        s, q = np.abs(s).max(axis=1, keepdims=True), np.abs(q).max(axis=1, keepdims=True)
        model = coad.CoincidenceThreshold(n_permutations=0, random_state=0).fit(s[:, 0], q[:, 0])
        names = ["s0"], ["q0"]
    if kind == "findings":
        model = coad.find(s, q, random_state=0)
    window = {"window": 8, "stride": 4, "max_gap": "1s"} if kind == "CoAD windows" else {}
    columns = {
        name: one for part, x in zip(names, (s, q), strict=True) for name, one in zip(part, x.T, strict=True)
    }
    return model, Recipe(Layout(tuple(names[0]), tuple(names[1]), time="t", **window)), columns


@pytest.mark.parametrize("kind", ["CoAD", "CoAD windows", "thresholds", "modes", "findings"])
def test_a_replay_gives_the_rows_scores_and_events_of_a_file(kind, tmp_path, two_column_model, fitted_modes):
    detector, recipe, columns = fitted(kind, two_column_model, fitted_modes)
    n = len(columns["s0"])
    time = START + np.arange(n) * SECOND // 10
    rng = np.random.default_rng(1)
    time[n // 2 :] += 60 * SECOND  # a gap
    late = rng.permutation(n)
    late = late[np.argsort(time[late] + rng.integers(0, SECOND, n), kind="stable")]  # up to a second too late
    late = np.insert(late, n // 3, late[n // 3 - 5 : n // 3])  # and some twice
    shuffled = pieces(time[late], {k: v[late] for k, v in columns.items()}, rng.integers(0, n, 25))
    live = LiveModel(detector, recipe, kind)
    found = check(live, tmp_path, time, columns, shuffled, close=True, lateness=SECOND)
    if kind != "thresholds":  # a model that coad score reads too
        source = Source(tmp_path / "rows.parquet")
        assert score_files(detector, recipe, source, tmp_path / "p.parquet").n_events == len(found.events)


@pytest.mark.parametrize("context", ["text", "numbers"])
def test_context_and_group_cut_windows_as_in_a_file(context, tmp_path):
    time, columns = table(400)
    regime = np.repeat(["warm", "cold"] if context == "text" else [1, 2], 200)
    columns = {**columns, "regime": regime, "run": np.arange(400) // 130}
    model = means_model(layout(window=8, stride=3, context=("regime",), group="run"))
    check(model, tmp_path, time, columns, pieces(time, columns, range(7, 400, 7)))


@settings(max_examples=25)
@given(st.data())
def test_pieces_order_repeats_and_gaps_do_not_matter(tmp_path_factory, data):
    n = data.draw(st.integers(30, 150), "rows")
    time, columns = table(n, seed=data.draw(st.integers(0, 99), "seed"))
    for _ in range(data.draw(st.integers(0, 2), "gaps")):
        time = time + np.where(np.arange(n) >= data.draw(st.integers(1, n)), 30 * SECOND, 0)
    holes = data.draw(st.lists(st.integers(0, n - 1), max_size=4), "rows with a missing value")
    columns["a"] = columns["a"].copy()
    columns["a"][holes] = np.nan
    window = data.draw(st.sampled_from([None, (1, 1), (8, 8), (8, 3), (5, 7)]), "window, stride")
    shape = {} if window is None else {"window": window[0], "stride": window[1], "max_gap": "500ms"}
    model = means_model(layout(missing="drop", **shape))
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "order"))
    lateness = data.draw(st.sampled_from([0, SECOND, 5 * SECOND]), "lateness")
    order = np.argsort(time + (rng.integers(0, lateness, n) if lateness else 0), kind="stable")
    order = np.insert(order, data.draw(st.integers(0, n)), order[: data.draw(st.integers(0, 3))])
    edges = data.draw(st.lists(st.integers(0, len(order)), max_size=12), "edges")
    chunks = pieces(time[order], {k: v[order] for k, v in columns.items()}, edges)
    folder = tmp_path_factory.mktemp("rows")
    if scored_by_file(model, folder, {"t": as_dates(time), **columns})[0] is None:  # no window fits
        assert not watched(Engine(model, EngineSettings(lateness=lateness)), chunks).rows
        return
    found = check(model, folder, time, columns, chunks, lateness=lateness)
    refused = [one for one in found.refusals if one.reason == "missing value"]
    assert sum(one.n_pairs for one in refused) == len(set(holes))


@pytest.mark.parametrize("how", ["nearest", "hold", "interpolate"])
@pytest.mark.parametrize("window", [{}, {"window": 6, "stride": 2, "max_gap": "1s"}])
def test_two_clocks_give_the_pairs_of_two_files(how, window, tmp_path):
    time, columns = table(500)
    rng = np.random.default_rng(3)
    time_q = np.sort(START + rng.choice(500 * 1000, 900, replace=False) * (SECOND // 10_000))
    time_q = time_q[
        (time_q < START + 20 * SECOND) | (time_q > START + 24 * SECOND)
    ]  # the witness is gone for 4 s
    x = np.interp(time_q, time, columns.pop("x"))
    model = means_model(layout(**window), Clocks(how, "80ms"))
    scored, runs = scored_by_file(
        model, tmp_path, {"t": as_dates(time), **columns}, {"t": as_dates(time_q), "x": x}
    )
    chunks = [
        *pieces(time, columns, range(0, 500, 23), "s"),
        *pieces(time_q, {"x": x}, range(0, len(x), 31), "witness"),
    ]
    chunks.sort(key=lambda chunk: chunk.time[0])
    found = watched(Engine({"s": model}, EngineSettings(("s",), lateness=5 * SECOND)), chunks)
    rows = found.rows["s"]
    rows.events = found.events
    same(rows, scored, runs)
    stale = [one for one in found.refusals if one.reason == "stale"]
    assert sum(one.n_pairs for one in stale) == 500 - len(scored.first) if not window else stale


@settings(max_examples=15)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 20))
def test_an_engine_that_is_saved_and_restored_goes_on_as_if_nothing_had_been(edges, seed):
    time, columns = table(300, seed=seed)
    model = means_model(layout(window=8, stride=3, max_gap="1s", context=("b",)))
    model = replace(model, recipe=Recipe(layout(window=8, stride=3, max_gap="1s")))
    options = EngineSettings(
        lateness=SECOND,
        gates=(Gate("b", above=2.5),),
        trigger=Trigger("robust deviation", ("a",), 3.0, over=40),
    )
    chunks = pieces(time, columns, edges)
    whole = Engine(model, options)
    expected = [*(whole.push([one]) for one in chunks), whole.close()]
    steps, state = [], None
    for chunk in chunks:
        engine = Engine(model, options)
        if state is not None:
            engine.restore(from_bytes(state))
        steps.append(engine.push([chunk]))
        state = to_bytes(engine.state())
    steps.append(Engine(model, options).restore(from_bytes(state)).close())
    assert [one.events for one in steps] == [one.events for one in expected]
    assert [one.refusals for one in steps] == [one.refusals for one in expected]
    assert [len(one.scored) for one in steps] == [len(one.scored) for one in expected]


def test_a_gate_refuses_pairs_and_says_why():
    time, columns = table(200)
    columns["charge"] = np.where((np.arange(200) >= 50) & (np.arange(200) < 92), 20.0, 50.0)
    columns["charge"][150] = np.nan
    gate = Gate("charge", below=30, unit="pC", hold=SECOND // 2)
    found = watched(
        Engine(means_model(layout()), EngineSettings(gates=(gate,))), pieces(time, columns, [70, 80])
    )
    first, second = found.refusals
    assert (first.reason, first.text, first.n_pairs) == ("gate", "charge below 30 pC for 4.6s", 47)
    assert second.n_pairs == 6
    assert len(found.rows[""].time) == 200 - 47 - 6


def naive_trigger(values, time, limit, holdoff):
    """Rows that trigger: a step from the row before, and none within the hold-off."""
    rows, last = [], None
    for i in range(1, len(values)):
        if abs(values[i] - values[i - 1]) > limit * abs(values[i - 1]) and (
            last is None or time[i] - last >= holdoff
        ):
            rows.append(i)
            last = time[i]
    return rows


def test_a_trigger_chooses_the_windows_that_are_scored():
    time, columns = table(400, seed=4)
    columns["a"] = 100 + columns["a"] * 0.1
    options = EngineSettings(trigger=Trigger("relative change", ("a",), 0.002, holdoff=2 * SECOND))
    model = means_model(layout(window=8, stride=4, max_gap="1s"))
    found = watched(Engine(model, options), pieces(time, columns, range(0, 400, 13))).rows[""]
    rows = naive_trigger(columns["a"], time, 0.002, 2 * SECOND)
    starts = [k for k in range(0, 393, 4) if any(k <= row < k + 8 for row in rows)]
    assert found.first.tolist() == starts
    assert 0 < len(starts) < 80


def naive_deviations(values, limit, over):
    """Rows far from the median of the block before."""
    rows = []
    for i in range(over, len(values)):
        block = values[(i // over - 1) * over : (i // over) * over]
        centre = np.median(block)
        if abs(values[i] - centre) > limit * 1.4826 * np.median(np.abs(block - centre)):
            rows.append(i)
    return rows


@pytest.mark.parametrize("edges", [[], range(0, 400, 7), range(0, 400, 64)])
def test_a_robust_deviation_is_taken_from_the_block_before(edges):
    time, columns = table(400, seed=5)
    options = EngineSettings(trigger=Trigger("robust deviation", ("a",), 6.0, over=50))
    found = watched(Engine(means_model(layout()), options), pieces(time, columns, edges)).rows[""]
    assert found.first.tolist() == naive_deviations(columns["a"], 6.0, 50)


def test_a_reader_that_cannot_keep_up_leaves_out_scoring_but_not_what_a_trigger_asks_for():
    time, columns = table(300, seed=6)
    trigger = Trigger("relative change", ("a",), 20.0)
    for option, expected in ((None, 0), (trigger, None)):
        model = means_model(layout(window=8, stride=4, max_gap="1s"))
        plain = Engine(model, EngineSettings(trigger=option))
        busy = Engine(model, EngineSettings(trigger=option))
        chunks = pieces(time, columns, range(0, 300, 30))
        rested = collected([plain.push([one]) for one in chunks])
        hurried = collected([busy.push([one], overloaded=True) for one in chunks])
        n = len(hurried.rows[""].time) if hurried.rows else 0
        assert n == (len(rested.rows[""].time) if expected is None else expected)
        if option is None:
            overload = [one for one in hurried.refusals if one.reason == "overload"]
            assert sum(one.n_pairs for one in overload) == busy.counts["overload"] == 74


def test_late_samples_are_refused_and_repeated_ones_counted():
    time, columns = table(100)
    chunks = pieces(time, columns, [50])
    again, late = pieces(time[40:45], {k: v[40:45] for k, v in columns.items()}, [])[0], chunks[0]
    late = Chunk("", late.time[:3] - 7 * SECOND // 100, {k: v[:3] for k, v in late.columns.items()})
    engine = Engine(means_model(layout()))
    found = collected([engine.push([one]) for one in (*chunks, again, late)])
    assert engine.counts["duplicate"] == 5
    assert engine.counts["late"] == 3
    (refusal,) = found.refusals
    assert (refusal.reason, refusal.n_pairs) == ("late", 3)
    assert len(found.rows[""].time) == 100


def test_a_single_sample_from_the_future_does_not_stop_the_clock():
    time, columns = table(100)
    chunks = pieces(time, columns, [50])
    odd = Chunk("", np.array([time[60] + 10**6 * SECOND]), {k: v[:1] for k, v in columns.items()})
    engine = Engine(means_model(layout()))
    found = collected([engine.push([one]) for one in (chunks[0], odd, chunks[1])] + [engine.close()])
    assert len(found.rows[""].time) == 100
    assert engine.counts["clock jump"] == 1


def test_a_clock_that_is_set_back_is_believed_at_the_second_chunk():
    time, columns = table(300)
    time[100:] -= 10**5 * SECOND
    engine = Engine(means_model(layout(window=8, stride=8, max_gap="1s")))
    found = watched(engine, pieces(time, columns, [100, 150]))
    assert engine.counts["clock set back"] == 1
    assert engine.counts["late"] == 50
    assert len(found.rows[""].time) == 12 + 18


def test_a_day_without_data_is_a_gap_and_events_end_there():
    time, columns = table(200, events=0)
    for column in columns.values():
        column[95:105] += 5
    time[100:] += 86_400 * SECOND
    found = watched(Engine(means_model(layout())), pieces(time, columns, [100]))
    assert sorted((e.numbers["first_row"], e.numbers["last_row"]) for e in found.events) == [
        (95, 99),
        (100, 104),
    ]
    assert len(found.rows[""].time) == 200


def test_time_that_passes_ends_events_and_stops_waiting_for_the_witness():
    time, columns = table(100)
    x = columns.pop("x")
    model = means_model(layout(), Clocks("nearest", "50ms"))
    engine = Engine({"s": model}, EngineSettings(("s",), stale=2 * SECOND))
    engine.push([Chunk("witness", time[:50], {"x": x[:50]})])
    step = engine.push([Chunk("s", time, columns)])
    assert len(step.scored[0].time) == 50
    (stale,) = step.refusals  # rows more than two seconds behind the newest do not wait any longer
    assert stale.n_pairs == 29
    step = engine.advance(int(time[-1]) + 3 * SECOND)
    (stale,) = step.refusals
    assert (stale.reason, stale.n_pairs) == ("stale", 50)
    assert stale.text == "no row of the witness near for 4.9s"


def stations(n, columns=None):
    return tuple(f"K{i:02d}" for i in range(1, n + 1))


def flagged(names, k, *, score=3.0, until=40):
    """One chunk of each station and the witness, 60 rows each; stations ``names`` and the witness are odd at row k."""
    time = START + np.arange(60) * SECOND
    chunks = []
    for name in ("witness", *stations(6)):
        value = np.zeros(60)
        if name in names or name == "witness":
            value[k] = names.get(name, score) if name != "witness" else 5.0
        chunks.append(Chunk(name, time, {"x": value} if name == "witness" else {"a": value, "b": value}))
    return chunks


@pytest.mark.parametrize(
    ("names", "blamed", "involved"),
    [
        ({"K02": 5.0}, "K02", 1),
        ({"K02": 5.0, "K05": 1.0}, "K02", 2),
        ({"K02": 5.0, "K05": 4.9}, "unclear", 2),
        ({"K01": 5.0, "K02": 5.0, "K03": 5.0, "K04": 5.0}, "system", 4),
    ],
)
def test_the_station_to_blame_is_named_unless_it_is_unclear_or_the_whole_system(names, blamed, involved):
    model = means_model(layout(), Clocks("nearest", "100ms"))
    engine = Engine(dict.fromkeys(stations(6), model), EngineSettings(stations(6), most=3, margin=0.1))
    found = collected([engine.push(flagged(names, 30)), engine.close()])
    (event,) = found.events
    assert event.station == blamed
    assert event.stations == tuple(sorted(names))
    assert len(names) == involved
    assert event.state == "closed"


def test_one_model_scores_all_stations_in_one_call():
    calls = []
    model = means_model(layout(), Clocks("nearest", "100ms"))
    scored = model.detector.score_rows
    model.detector.score_rows = lambda s, q, context=None: calls.append(len(s)) or scored(s, q, context)
    engine = Engine(dict.fromkeys(stations(6), model), EngineSettings(stations(6)))
    engine.push(flagged({}, 3))
    assert calls == [6 * 59]  # the last row waits for a nearer one of the witness


def test_the_witness_that_stations_share_is_scored_once(two_column_model, monkeypatch):
    s, q, _ = event_rows(300, (2,), rate=0.08, shift=(4, 4))
    model = LiveModel(two_column_model, Recipe(layout()), "networks")
    three_s, three_q = np.concatenate([s, s[::-1], s / 2]), np.tile(q, (3, 1))
    apart = model.score(three_s, three_q, None)
    seen = []
    ask = Scorer.confidence

    def counted(scorer, blocks):
        blocks = list(blocks)
        seen.append(sum(map(len, blocks)))
        return ask(scorer, blocks)

    monkeypatch.setattr(Scorer, "confidence", counted)
    together = model.score(three_s, three_q, None, shared=True)
    assert seen == [900, 300]
    for one, other in zip(apart[:3], together[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_malformed_chunks_never_stop_the_engine():
    rng = np.random.default_rng(0)
    time, columns = table(40)
    model = means_model(layout(window=4, stride=2, max_gap="1s"))
    engine = Engine(model, EngineSettings(lateness=SECOND))
    engine.push(pieces(time, columns, []))
    odd = [np.nan, np.inf, -np.inf, 1e308, -0.0, 2**62]
    for k in range(10_000):
        moment = time + (k + 1) * 4 * SECOND
        rows = {name: one.copy() for name, one in columns.items()}
        name = rng.choice(list(rows))
        what = rng.integers(0, 9)
        if what == 0:
            del rows[name]
        elif what == 1:
            rows[name] = rows[name][: rng.integers(0, 40)]
        elif what == 2:
            rows[name] = rows[name].astype(str)
        elif what == 3:
            rows[name] = np.stack([rows[name]] * 2, axis=1)
        elif what == 4:
            rows[name][rng.integers(0, 40, 5)] = rng.choice(odd)
        elif what == 5:
            moment = rng.permutation(moment) - int(rng.integers(0, 10**12))
        elif what == 6:
            moment = moment.astype(rng.choice(["float64", "int32", "U5"]))
        elif what == 7:
            moment, rows = moment[:0], {key: one[:0] for key, one in rows.items()}
        else:
            rows[name] = rows[name].astype(object)
        engine.push([Chunk(rng.choice(["", "", "", "K99"]), moment, rows)])
    after = engine.push(
        pieces(time + 10**6 * SECOND, columns, []) + pieces(time + (10**6 + 4) * SECOND, columns, [])
    )
    assert sum(map(len, after.scored)) > 15
    assert engine.counts["refused missing column"] > 1000
    assert engine.counts["unknown stream"] > 1000


def test_a_model_that_no_watch_can_use_is_refused():
    for layouts, words in (
        (layout(missing="interpolate"), "interpolates"),
        (layout(group="file"), "no files"),
        (layout(long="t,tag,value"), "one column per signal"),
        (layout(window="1s"), "numbers of rows"),
    ):
        with pytest.raises(coad.exceptions.InputError, match=words):
            means_model(layouts)
    with pytest.raises(coad.exceptions.InputError, match="tolerance"):
        Engine(means_model(layout()), EngineSettings(("K01",)))
