"""Drift of the inputs and of what is flagged, and a second model in the shadow of the first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from live_models import SECOND, START, layout, means_model

from coad.core.rule import Rule
from coad.exceptions import InputError
from coad.live.alarms import AlarmSettings
from coad.live.drift import Drift, DriftSettings, population_stability
from coad.live.engine import Engine, EngineSettings
from coad.live.packing import from_bytes, to_bytes
from coad.live.store import Store
from coad.live.values import Chunk

SETTINGS = DriftSettings(every=500, window=1000, reference=2000)


def naive_stability(reference, recent, bins=10):
    """The population stability index, bin by bin."""
    edges = [-np.inf, *np.unique([np.quantile(reference, k / bins) for k in range(1, bins)]), np.inf]
    total = 0.0
    for low, high in itertools.pairwise(edges):
        r, p = (
            (sum(low <= one < high for one in x) + 0.5) / (len(x) + 0.5 * (len(edges) - 1))
            for x in (recent, reference)
        )
        total += (r - p) * np.log(r / p)
    return total


@pytest.mark.parametrize("shift", [0.0, 0.3, 5.0])
def test_the_stability_index_is_the_sum_over_bins(shift):
    rng = np.random.default_rng(0)
    reference, recent = np.round(rng.normal(size=300), 1), np.round(rng.normal(shift, 1, 200), 1)
    np.testing.assert_allclose(
        population_stability(reference, recent), naive_stability(reference, recent), rtol=1e-9
    )


def rows(n, shift, seed, context=0):
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(0, 0.2, n) for name in "abx"}
    columns["a"] += shift
    columns["load"] = np.full(n, context)
    return columns


def lines_of(parts, edges=1000, settings=SETTINGS, store=None, model=None):
    model = model or means_model(layout(context=("load",)))
    model.detector.contexts_ = [0, 1]
    engine, drift, found, start = Engine(model, EngineSettings(with_inputs=True)), Drift(settings), [], 0
    for columns in parts:
        n = len(columns["a"])
        for k in range(0, n, edges):
            piece = {name: one[k : k + edges] for name, one in columns.items()}
            time = START + (start + k + np.arange(len(piece["a"]))) * SECOND
            step = engine.push([Chunk("", time, piece)])
            lines = drift.add(step)
            found += lines
            if store is not None:
                store.commit(step, b"", drift=lines)
        start += n
    return found


def test_rows_as_at_the_start_do_not_drift():
    whole = [one for one in lines_of([rows(8000, 0.0, 1)]) if one["name"] == ""]
    assert len(whole) == 6  # 6,000 pairs after the reference of 2,000, in pieces of 1,000
    assert {one["state"] for one in whole} == {"steady"}


def test_a_column_that_moves_is_named_and_a_new_fit_recommended():
    last = [one for one in lines_of([rows(4000, 0.0, 1), rows(2000, 0.5, 2)]) if one["name"] == ""][-1]
    assert last["state"] == "drifting"
    assert last["text"].startswith("fit again on new data: a: stability index")
    assert "b:" not in last["text"].split(";")[0]


def test_each_context_is_compared_with_itself():
    parts = [rows(3000, 0.0, 1, 0), rows(3000, 2.0, 2, 1), rows(3000, 0.0, 3, 0), rows(3000, 2.0, 4, 1)]
    whole = [one for one in lines_of(parts) if one["name"] == ""]
    assert {one["context"] for one in whole} == {"0", "1"}
    assert {one["state"] for one in whole} == {"steady"}


def test_it_does_not_matter_in_which_pieces_the_rows_come():
    parts = [rows(3000, 0.0, 1), rows(2000, 0.5, 2)]
    assert lines_of(parts, 500)[-7:] == lines_of(parts, 250)[-7:]


def test_more_flagged_pairs_than_at_first_are_drift():
    model = means_model(layout(context=("load",)))
    more = rows(2000, 0.0, 2)
    for name in "abx":
        more[name][::20] = 5.0
    last = [one for one in lines_of([rows(4000, 0.0, 1), more], model=model) if one["name"] == ""][-1]
    assert "5.00% are flagged, in the first pairs it were 0.00%" in last["text"]


def test_a_watch_that_starts_after_the_drift_is_compared_with_the_training():
    model = means_model(layout(context=("load",)))
    model.detector.contexts_ = [0, 1]
    trained = Drift(DriftSettings(every=500, window=1000, reference=2000, training="named"))
    engine = Engine(model, EngineSettings(with_inputs=True))
    times = [START + k * 3000 * SECOND + np.arange(3000) * SECOND for k in range(2)]
    trained.learn(engine.push([Chunk("", time, rows(3000, 0.0, k))]) for k, time in enumerate(times))
    untrained, later = Drift(SETTINGS), Engine(model, EngineSettings(with_inputs=True))
    step = later.push([Chunk("", times[0], rows(3000, 0.5, 5))])
    assert {one["state"] for one in untrained.add(step)} == {"steady"}
    whole = [one for one in trained.add(step) if not one["name"]][-1]
    assert whole["state"] == "drifting"
    assert "outside the range of the training" in whole["text"]
    # A context that the training did not have is compared with its first pairs.
    step = later.push([Chunk("", times[1], rows(3000, 2.0, 6, context=1))])
    lines = [one for one in trained.add(step) if one["context"] == "1"]
    assert lines
    assert {one["state"] for one in lines} == {"steady"}


def test_drift_raises_one_alarm_of_its_own_kind_that_ends_with_it(tmp_path):
    store = Store(tmp_path / "watch.db", AlarmSettings(latch=10**6 * SECOND))
    lines_of([rows(4000, 0.0, 1), rows(2000, 0.5, 2), rows(4000, 0.0, 3)], store=store)
    (alarm,) = [one for one in store.alarms() if one["kind"] == "drift"]
    assert (alarm["state"], alarm["active"]) == ("latched", False)
    assert "fit again" in alarm["text"]
    assert {one["name"] for one in store.drift()} == {"", "a", "b", "x", "p_s", "p_q"}
    changes = [
        one.body["state"]
        for one in store.journal(limit=10**4)
        if one.kind == "drift" and not one.body["name"]
    ]
    assert changes == ["steady", "drifting", "steady"]


def test_drift_goes_on_after_a_restart():
    parts = [rows(2500, 0.0, 1), rows(2500, 0.5, 2)]
    engine = Engine(means_model(layout()), EngineSettings(with_inputs=True))
    whole, drift = Drift(SETTINGS), Drift(SETTINGS)
    for k, columns in enumerate(parts):
        time = START + (2500 * k + np.arange(2500)) * SECOND
        step = engine.push([Chunk("", time, columns)])
        again = Drift(SETTINGS)
        again.restore(from_bytes(to_bytes(drift.state())))
        drift = again
        assert drift.add(step) == whole.add(step)


def test_a_shadow_is_counted_and_its_differences_are_listed(tmp_path):
    columns = rows(300, 0.0, 1)
    for k, (s, q) in enumerate([(5, 5), (5, 0.3), (0.3, 5)]):
        for name in "ab":
            columns[name][10 * k] = s
        columns["x"][10 * k] = q
    model, shadow = means_model(layout()), means_model(layout(), digest="other")
    shadow.detector.rule_ = Rule(1.0, 0.1, thresholds=(0.9, 0.2))
    engine, store = Engine(model, None, shadow), Store(tmp_path / "watch.db")
    store.commit(engine.push([Chunk("", START + np.arange(300) * SECOND, columns)]), b"")
    counts = {name.partition(": ")[2]: n for name, n in engine.counts.items() if name.startswith("shadow")}
    assert counts == {
        "both flag": 1,
        "only the shadow flags": 1,
        "only the model flags": 0,
        "neither flags": 298,
    }
    (difference,) = store.differences()
    assert (difference["flagged_by"], difference["time"]) == ("shadow", START + 10 * SECOND)


def test_a_shadow_with_other_columns_is_refused():
    with pytest.raises(InputError, match="the shadow model must have"):
        Engine(means_model(layout()), None, means_model(layout(window=4, stride=4)))
