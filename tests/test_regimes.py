"""Which column, or which blocks of time, explain a coincidence away."""

import numpy as np
import pytest

from coad.core.assessment import RowScores, assess
from coad.core.rule import Rule
from coad.core.runs import RowOrder
from coad.workflows.regimes import explain_coincidence, hint_regime

N = 4000


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def driven(rng, *levels):
    """Flags of two inputs that follow the levels and nothing else."""
    drive = sum(level / max(level.max(), 1) for level in levels) / len(levels)
    return rng.random(N) < 0.8 * drive, rng.random(N) < 0.8 * drive


def test_the_column_that_drives_both_inputs_comes_first(rng):
    load = rng.integers(0, 5, N)
    s, q = driven(rng, load)
    columns = {"shift": rng.integers(0, 3, N), "load": load, "copy": load % 2, "words": load.astype(str)}
    ranked = explain_coincidence(s, q, columns)
    assert [one.name for one in ranked[:2]] == ["load", "words"]
    assert ranked[0].share > 0.9
    assert abs(ranked[-1].share) < 0.1
    assert ranked[-1].name == "shift"


def test_events_are_explained_by_no_column(rng):
    event = rng.random(N) < 0.03
    s, q = (event & (rng.random(N) < 0.9)) | (rng.random(N) < 0.05), event | (rng.random(N) < 0.05)
    columns = {"shift": rng.integers(0, 3, N), "temperature": rng.normal(size=N)}
    assert max(one.share for one in explain_coincidence(s, q, columns)) < 0.1
    assert hint_regime(s, q, columns, time=np.arange(N) * 1.0) is None


def test_two_columns_are_named_if_it_takes_two(rng):
    material, feed = rng.integers(0, 2, N), rng.integers(0, 3, N)
    s, q = driven(rng, material, feed)
    hint = hint_regime(s, q, {"material": material, "feed": feed, "noise": rng.integers(0, 4, N)})
    assert set(hint.columns) == {"material", "feed"}
    assert hint.share > 0.8
    assert hint.option in ("--context material,feed", "--context feed,material")
    assert hint.command(["fit", "a b.csv"]).startswith("coad fit 'a b.csv' --context ")


def test_what_is_known_already_stays_in_the_command(rng):
    material, feed = rng.integers(0, 2, N), rng.integers(0, 3, N)
    s, q = driven(rng, material, feed)
    hint = hint_regime(s, q, {"feed": feed}, context=material, context_names=("material",))
    assert hint.option == "--context material,feed"


def test_a_number_with_many_values_is_named_but_not_proposed_as_it_is(rng):
    temperature = rng.random(N).round(3)
    s, q = driven(rng, temperature)
    hint = hint_regime(s, q, {"temperature": temperature})
    assert "too many values" in hint.sentence
    assert hint.columns == ("temperature",)


def test_a_slow_drift_is_met_by_blocks_of_time(rng):
    time = np.arange(N) * 60.0
    drift = (1 + np.sin(2 * np.pi * time / (48 * 3600))) / 2
    s, q = driven(rng, drift)
    hint = hint_regime(s, q, {"shift": rng.integers(0, 3, N)}, time=time)
    assert hint.block is not None
    assert hint.option == f"--context-blocks {hint.block}"
    assert hint.share > 0.7
    hint = hint_regime(
        s, q, {}, time=np.datetime64("2024-01-01", "ns") + (time * 1e9).astype("timedelta64[ns]")
    )
    assert hint.block is not None


def test_columns_that_cannot_be_regimes_are_left_out(rng):
    s, q = driven(rng, rng.integers(0, 5, N))
    columns = {
        "constant": np.zeros(N),
        "name of each row": np.arange(N).astype(str),
        "image": np.zeros((N, 3)),
    }
    columns["reading of each row"] = rng.random(N)
    assert explain_coincidence(s, q, columns) == []
    assert explain_coincidence(np.zeros(N, dtype=bool), q, {"a": s}) == []


def test_windows_that_share_samples_are_not_taken_for_a_regime(rng):
    # One event of a single sample shows in the 16 windows that hold it.
    centre = np.flatnonzero(rng.random(N) < 0.004)
    event = np.zeros(N, dtype=bool)
    for offset in range(16):
        event[np.minimum(centre + offset, N - 1)] = True
    p_s, p_q = (np.where(event, rng.uniform(0.6, 1, N), rng.uniform(0, 0.5, N)) for _ in range(2))
    rule, scores = Rule(1.0, 0.1), RowScores(p_s, p_q, p_s * p_q, event)
    assert assess(scores, rule).status == "shared regime suspected"
    assert assess(scores, rule, order=RowOrder(N, overlap=16)).status == "found"
