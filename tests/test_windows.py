"""Windows hold rows that belong together, and scores find their way back to the rows."""

from __future__ import annotations

import naive_io
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coad.data import Layout
from coad.data.segments import segment_starts
from coad.data.triggers import event_windows, find_events, relative_change, robust_z
from coad.data.windows import in_samples, make_windows
from coad.exceptions import InputError


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(0, 60),
    length=st.integers(1, 9),
    stride=st.integers(1, 12),
    breaks=st.lists(st.integers(0, 59), max_size=6),
    gaps=st.lists(st.integers(0, 59), max_size=6),
    seed=st.integers(0, 1000),
)
def test_windows_equal_a_walk_over_the_rows(n, length, stride, breaks, gaps, seed):
    rng = np.random.default_rng(seed)
    group = np.cumsum(np.isin(np.arange(n), breaks))
    time = np.cumsum(1.0 + 10.0 * np.isin(np.arange(n), gaps))
    windows = make_windows(n, length, stride, time=time, group=group, max_gap="3s")
    expected = naive_io.window_starts(n, length, stride, time, [group], 3.0)
    assert windows.start.tolist() == expected
    values = rng.normal(size=(n, 2))
    assert windows.take(values).tolist() == naive_io.windows_of(values.tolist(), expected, length)
    scores = rng.normal(size=len(expected))
    for how in ("max", "mean"):
        np.testing.assert_allclose(
            windows.to_rows(scores, how=how, fill=-9.0),
            naive_io.row_scores(n, expected, length, scores, how, -9.0),
        )
    flags = rng.random(n) < 0.2
    assert windows.any(flags).tolist() == [bool(flags[a : a + length].any()) for a in expected]


def test_resampled_windows_give_scores_to_their_rows():
    windows = make_windows(6, 2, 2)[[0, 2, 0]]
    np.testing.assert_allclose(windows.to_rows([0.1, 0.5, 0.9]), [0.9, 0.9, 0, 0, 0.5, 0.5])
    np.testing.assert_allclose(windows.to_rows([0.1, 0.5, 0.9], how="mean"), [0.5, 0.5, 0, 0, 0.5, 0.5])


def test_lengths_in_time_become_samples_of_the_clock():
    time = np.datetime64("2024-01-01", "ns") + np.arange(100) * np.timedelta64(10, "ms")
    windows = make_windows(100, "250ms", "100ms", time=time)
    assert windows.length == 25
    assert np.diff(windows.start).tolist() == [10] * 7


def test_a_step_of_five_median_steps_is_no_gap_and_a_longer_one_is():
    time = np.array([0.0, 1, 2, 3, 8, 9, 10, 15.5, 16.5])
    assert segment_starts(9, time=time).tolist() == [0, 7]


def test_the_step_between_groups_does_not_count_as_a_step_of_the_clock():
    group = np.repeat([0, 1, 2, 3], 2)
    time = np.array([0.0, 1, 0, 1, 0, 1, 0, 1])
    assert in_samples("3s", time, group) == 3
    assert segment_starts(8, time=time, group=group).tolist() == [0, 2, 4, 6]


def test_time_that_goes_back_is_refused_with_the_row():
    with pytest.raises(InputError, match=r"not sorted: it goes back by 2s at row 3 \(1 such row\)"):
        make_windows(4, 2, time=np.array([0.0, 1, 3, 1]))


def test_repeated_time_is_refused_with_the_row():
    with pytest.raises(InputError, match=r"repeats 1\.0 at row 2 \(2 such rows\)"):
        make_windows(4, 2, time=np.array([0.0, 1, 1, 1]))


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "at least 1 row"),
        (2.5, "whole number of rows"),
        ("1ms", "shorter than one time step"),
        ("5 parsecs", "not a duration"),
    ],
)
def test_impossible_lengths_are_refused(length, message):
    with pytest.raises(InputError, match=message):
        make_windows(10, length, time=np.arange(10.0))


def test_a_length_in_time_without_a_clock_is_refused():
    with pytest.raises(InputError, match="no time column"):
        make_windows(10, "1s")


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.sampled_from([0.0, 1.0, 1.004, 1.006, -1.0, 200.0]), min_size=1, max_size=30))
def test_relative_change_equals_the_slow_one(values):
    assert relative_change(values).tolist() == naive_io.relative_changes(values, 0.005)


@settings(max_examples=100, deadline=None)
@given(flags=st.lists(st.booleans(), max_size=40), quiet=st.integers(1, 6))
def test_events_equal_a_walk_over_the_flags(flags, quiet):
    found = find_events(flags, quiet=quiet)
    assert [[int(a), int(b)] for a, b in zip(found.first, found.last, strict=True)] == naive_io.events(
        flags, quiet
    )


def test_robust_z_sees_a_spike_among_equal_values_and_nothing_in_a_constant():
    assert robust_z([5.0] * 50).sum() == 0
    assert np.flatnonzero(robust_z([5.0] * 50 + [9.0])).tolist() == [50]


def test_events_of_the_accelerator_get_one_window_on_each_clock():
    # As in the paper: s every 5 s, q at 120 Hz, the window ends with the event.
    slow = np.arange(0, 600, 5.0)
    fast = np.arange(0, 600, 1 / 120)
    signal = np.ones(len(slow))
    signal[60:63] = 1.02
    found = find_events(relative_change(signal), quiet=5)
    assert len(found) == 1
    at = slow[found.last]
    windows_s, kept_s = event_windows(at, 50, time=slow)
    windows_q, kept_q = event_windows(at, 960, time=fast)
    assert kept_s.tolist() == kept_q.tolist() == [0]
    assert slow[windows_s.last[0]] == at[0]
    assert fast[windows_q.last[0]] == pytest.approx(at[0], abs=1 / 120)
    assert windows_q.take(fast).shape == (1, 960)


def test_events_near_the_edge_or_a_gap_get_no_window():
    time = np.concatenate([np.arange(10.0), np.arange(100.0, 110.0)])
    windows, kept = event_windows([1.0, 5.0, 101.0, 105.0, 109.0], 4, time=time, after=1)
    assert kept.tolist() == [1, 3]
    assert windows.start.tolist() == [3, 13]


def test_an_event_in_the_middle_of_a_gap_is_too_old_for_its_tolerance():
    time = np.concatenate([np.arange(10.0), np.arange(100.0, 110.0)])
    _, kept = event_windows([9.5, 50.0], 4, time=time, tolerance="1s")
    assert kept.tolist() == [0]


def test_hop_is_another_word_for_stride():
    assert make_windows(10, 4, hop=3).start.tolist() == make_windows(10, 4, 3).start.tolist()
    layout = Layout(s="a", q="b", window=4, hop="250ms")
    assert layout.stride == "250ms"
    assert layout == Layout.from_dict(layout.to_dict())
    with pytest.raises(InputError, match="mean the same"):
        Layout(s="a", q="b", window=4, stride=2, hop=3)
