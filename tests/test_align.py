"""Two clocks: the right partner, within the tolerance, and a report of what was dropped."""

from __future__ import annotations

import warnings

import naive_io
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coad.data import Layout, align, read_two_clocks
from coad.exceptions import InputError

CLOCK = st.lists(st.integers(0, 60), min_size=1, max_size=25, unique=True).map(sorted)


@settings(max_examples=200, deadline=None)
@given(time_s=CLOCK, time_q=CLOCK, tolerance=st.integers(1, 15), dates=st.booleans())
@pytest.mark.parametrize("how", ["nearest", "hold", "interpolate"])
def test_alignment_equals_a_search_through_all_rows(how, time_s, time_q, tolerance, dates):
    values = np.random.default_rng(0).normal(size=len(time_q))
    expected = naive_io.aligned(time_s, time_q, values, how, tolerance)
    start = np.datetime64("2024-05-01", "ns")
    clock = [
        start + np.array(t) * np.timedelta64(1, "s") if dates else np.array(t, float)
        for t in (time_s, time_q)
    ]
    if not expected:
        with pytest.raises(InputError, match="no row of s has a row of q"):
            align(*clock, how, tolerance=f"{tolerance}s")
        return
    found = align(*clock, how, tolerance=f"{tolerance}s")
    assert found.rows_s.tolist() == [row for row, _ in expected]
    np.testing.assert_allclose(found.take_q(values), [value for _, value in expected], atol=1e-12)
    assert found.dropped_s == len(time_s) - len(expected)


def test_the_report_counts_what_was_dropped_and_what_was_not_used():
    found = align([0.0, 1.0, 2.0], [0.1, 1.2, 5.0], tolerance="500ms")
    assert (found.dropped_s, found.unused_q) == (1, 1)
    assert "2 of 3 rows of s paired; 1 dropped" in str(found)


def test_interpolation_uses_both_neighbours_and_counts_both_as_used():
    found = align([0.5], [0.0, 1.0], "interpolate", tolerance="1s")
    assert found.unused_q == 0
    np.testing.assert_allclose(found.take_q(np.array([[0.0, 10], [2, 30]])), [[1.0, 20]])
    assert found.take_nearest_q(np.array(["a", "b"])).tolist() == ["a"]


def test_clocks_that_do_not_overlap_are_told_apart():
    with pytest.raises(
        InputError, match=r"the closest are 90s apart; s runs from .* are the clocks the same\?"
    ):
        align(np.arange(11.0), np.arange(100.0, 110.0), tolerance="1s")


def test_a_tolerance_that_drops_everything_says_how_close_the_closest_are():
    with pytest.raises(
        InputError, match=r"within 50ms .* the closest are 400ms apart; pass a larger tolerance"
    ):
        align([0.0, 1.0, 2.0], [0.4, 1.4], tolerance="50ms")


@pytest.mark.parametrize(
    ("time_q", "message"),
    [
        ([0.0, 2.0, 1.0], "'time of q' is not sorted: it goes back by 1s at row 2"),
        ([0.0, 1.0, 1.0], "'time of q' repeats 1.0 at row 2"),
        ([0.0, np.nan, 1.0], "'time of q' has 1 missing times"),
        (["2024-01-01", "2024-01-02"], "times of s are numbers and those of q are dates"),
        ([], "q has no rows"),
    ],
)
def test_bad_clocks_are_refused_by_name(time_q, message):
    with pytest.raises(InputError, match=message):
        align([0.0, 1.0], time_q)


def test_unknown_methods_are_refused():
    with pytest.raises(InputError, match="nearest, interpolate, hold"):
        align([0.0], [0.0], "closest")


def two_files(folder, gap=False):
    fast = np.round(np.arange(0, 20, 0.1), 6)
    if gap:
        # Two rows of s lose their partner: too few for a gap in time.
        fast = fast[(fast < 8) | (fast > 9.5)]
    slow = np.arange(0.0, 20.0)
    (folder / "rf.csv").write_text(
        "t,amp,run\n" + "".join(f"{t},{t * 2},{'ab'[int(t >= 10)]}\n" for t in slow)
    )
    (folder / "bpm.csv").write_text("t,amp,extra\n" + "".join(f"{t},{t * 3},{t}\n" for t in fast))
    return folder / "rf.csv", folder / "bpm.csv"


def test_two_files_become_pairs_at_the_times_of_s(tmp_path):
    s, q = two_files(tmp_path)
    found = read_two_clocks(s, q, Layout(s="amp", q="*", time="t", context="run"), tolerance="50ms")
    assert found.pairs.q_names == ("amp", "extra")
    np.testing.assert_allclose(found.pairs.s[:, 0], found.pairs.time * 2)
    np.testing.assert_allclose(found.pairs.q[:, 0], found.pairs.time * 3)
    assert found.pairs.context.tolist() == ["a"] * 10 + ["b"] * 10
    assert found.layout.s == ("amp",)
    assert found.layout.q == ("amp", "extra")


def test_windows_over_two_clocks_do_not_cross_rows_without_a_partner(tmp_path):
    s, q = two_files(tmp_path, gap=True)
    found = read_two_clocks(s, q, Layout(s="amp", q="amp", time="t", window=3, stride=1), tolerance="50ms")
    assert found.alignment.dropped_s == 2
    assert found.first.tolist() == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17]
    assert found.last.tolist() == [2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19]


def test_one_file_for_both_inputs_still_refuses_an_overlap(tmp_path):
    s, _ = two_files(tmp_path)
    with pytest.raises(InputError, match="'amp' is in both s and q"):
        read_two_clocks(s, s, Layout(s="amp", q="amp", time="t"))


def test_a_clock_missing_from_one_file_is_named(tmp_path):
    s, q = two_files(tmp_path)
    with pytest.raises(InputError, match=r"no column 'tt' in .*bpm"):
        read_two_clocks(s, q, Layout(s="amp", q="amp", time="t"), time_q="tt")


def test_gaps_on_two_clocks_are_filled_with_the_means_of_the_training_rows(tmp_path):
    def write(name, values):
        (tmp_path / name).write_text("t,amp\n" + "".join(f"{t},{v}\n" for t, v in enumerate(values)))
        return tmp_path / name

    layout = Layout(s="amp", q="amp", time="t", missing="mean")
    trained = read_two_clocks(write("s.csv", [1, 2, 3, ""]), write("q.csv", [10, "", 30, 80]), layout)
    assert trained.means == {"s:amp": 2.0, "q:amp": 40.0}
    new = write("s2.csv", [100, "", 300]), write("q2.csv", ["", 700, 800])
    found = read_two_clocks(*new, layout, means=trained.means)
    assert found.pairs.s.ravel().tolist() == [100, 2, 300]
    assert found.pairs.q.ravel().tolist() == [40, 700, 800]


def test_a_model_of_two_clocks_keeps_the_means_of_its_training_rows(tmp_path):
    import json

    from coad.exceptions import CoadWarning
    from coad.workflows.fitting import Training, fit_files
    from coad.workflows.model_folder import load_model
    from coad.workflows.recipe import Clocks
    from coad.workflows.scoring import Source, iter_confidences

    rng = np.random.default_rng(0)
    for name in ("s", "q"):
        lines = [f"{t},{v}" for t, v in enumerate(rng.standard_normal(400) + 5)]
        lines[7] = "7,"
        (tmp_path / f"{name}.csv").write_text("\n".join(["t,x", *lines]))
        (tmp_path / f"{name}_new.csv").write_text("t,x\n0,100\n1,\n2,200\n")
    layout = Layout(s="x", q="x", time="t", missing="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        fit_files(
            Source(s=tmp_path / "s.csv", q=tmp_path / "q.csv"),
            layout,
            tmp_path / "model",
            clocks=Clocks(),
            training=Training(n_starts=1, epochs=1),
        )
    model, recipe = load_model(tmp_path / "model")
    assert set(json.loads((tmp_path / "model" / "layout.json").read_text())["means"]) == {"s:x", "q:x"}
    new = Source(s=tmp_path / "s_new.csv", q=tmp_path / "q_new.csv")
    [part] = iter_confidences(model, recipe, new)
    for side, values in (("s", part.pairs.s), ("q", part.pairs.q)):
        assert values.ravel().tolist() == pytest.approx([100, recipe.means[f"{side}:x"], 200])
        assert 4 < recipe.means[f"{side}:x"] < 6
