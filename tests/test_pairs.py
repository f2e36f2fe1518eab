"""Pairs keep the rows of everything together, in slices and in splits."""

from __future__ import annotations

import numpy as np
import pytest

from coad.data import Layout, pairs_from_frame
from coad.data.pairs import Pairs
from coad.data.windows import make_windows
from coad.exceptions import InputError


def made(n=100, **more):
    row = np.arange(n, dtype=float)
    return Pairs(
        np.stack([row, row], 1),
        row,
        context=np.arange(n) % 3,
        time=row,
        id=np.arange(n),
        label=np.arange(n) % 2,
        **more,
    )


@pytest.mark.parametrize(
    "index", [slice(3, 9), slice(None, None, -2), np.array([5, 1, 1]), np.arange(100) > 95, [7, 8], 4, -1, []]
)
def test_every_field_is_sliced_alike(index):
    pairs = made()[index]
    rows = pairs.id
    assert len(pairs) == len(rows)
    assert pairs.s[:, 0].tolist() == pairs.q[:, 0].tolist() == pairs.time.tolist() == rows.tolist()
    assert pairs.context.tolist() == (rows % 3).tolist()
    assert pairs.label.tolist() == (rows % 2).tolist()


def test_a_row_that_is_not_there_is_an_index_error():
    with pytest.raises(IndexError):
        made()[100]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": [1.0, 2.0]}, "s has 3 rows and q has 2"),
        ({"context": ["a"]}, "s has 3 rows and context has 1"),
        ({"s": [1.0, np.nan, np.inf]}, r"s has missing or infinite values in 2 rows \(first at row 1\)"),
        ({"s": ["a", "b", "c"]}, "s must be numbers"),
        ({"group": [1.0, np.nan, 2.0]}, "group has 1 missing"),
        ({"label": np.zeros((3, 2))}, "label must have one value per row"),
    ],
)
def test_bad_fields_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Pairs(**({"s": [1.0, 2.0, 3.0], "q": [1.0, 2.0, 3.0]} | change))


def test_huge_values_whose_sum_overflows_are_not_taken_for_infinite():
    assert len(Pairs([1e308, 1e308, 1e308], [0.0, 1.0, 2.0])) == 3


def test_no_field_is_an_object_array():
    pairs = Pairs(
        [1, 2], [3, 4], context=np.array(["a", 1], dtype=object), id=np.array([None, "b"], dtype=object)
    )
    assert pairs.context.dtype.kind == pairs.id.dtype.kind == "U"


def test_small_integers_become_float32_and_large_ones_float64():
    assert Pairs(np.zeros((2, 4), np.uint8), np.zeros((2, 4), np.int64)).s.dtype == np.float32
    assert Pairs(np.zeros((2, 4), np.uint8), np.zeros((2, 4), np.int64)).q.dtype == np.float64


@pytest.mark.parametrize("by", ["random", "time", "group"])
def test_a_split_uses_every_row_once_and_repeats_with_its_seed(by):
    pairs = made(group=np.arange(100) // 7)
    train, test = pairs.split(0.3, by=by, random_state=3)
    assert sorted([*train.id, *test.id]) == list(range(100))
    assert 15 <= len(test) <= 45
    again = pairs.split(0.3, by=by, random_state=3)[1]
    other = pairs.split(0.3, by=by, random_state=4)[1]
    assert test.id.tolist() == again.id.tolist() != other.id.tolist()


def test_a_split_does_not_touch_the_global_generator():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    made().split(random_state=None)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_groups_are_never_torn_apart():
    pairs = made(group=np.arange(100) % 9)
    folds = list(pairs.folds(4, by="group", random_state=0))
    assert len(folds) == 4
    for train, test in folds:
        assert not set(train.group) & set(test.group)


def test_blocks_in_time_are_contiguous_even_if_the_rows_are_not():
    pairs = made()[np.random.default_rng(0).permutation(100)]
    _, test = pairs.split(0.2, by="time", n_blocks=10, random_state=0)
    assert len(test) == 20
    assert len(np.unique(test.time // 10)) == 2


@pytest.mark.parametrize("by", ["random", "time", "group"])
def test_folds_test_every_row_exactly_once(by):
    pairs = made(group=np.arange(100) // 7)
    tested = [test.id for _, test in pairs.folds(5, by=by, random_state=1)]
    assert sorted(np.concatenate(tested)) == list(range(100))


def test_training_windows_share_no_row_with_test_windows():
    windows = make_windows(200, 10, 2)
    n = len(windows)
    pairs = Pairs(np.zeros(n), np.zeros(n), time=np.arange(float(n)), windows=windows)
    train, test = pairs.split(0.25, by="time", n_blocks=8, random_state=0)
    assert min(len(train), len(test)) > 0
    assert not (train.windows.covered & test.windows.covered).any()
    assert len(train) + len(test) < n


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": "group"}, "needs the group"),
        ({"by": "moon"}, "'group', 'time' or 'random'"),
        ({"test_size": 1.0}, "between 0 and 1"),
        ({"by": "time", "n_blocks": 1}, "at least 2 blocks"),
    ],
)
def test_impossible_splits_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        made().split(**settings)


def test_one_group_cannot_be_split():
    with pytest.raises(InputError, match="at least two groups, and there is 1"):
        made(group=np.zeros(100)).split(by="group")


LAYOUT = Layout(s="motor_*", q="vib", context="run", time="t", label="bad")
TABLE = {
    "t": ["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2024-01-01 00:00:02"],
    "motor_a": [1, 2, 3],
    "motor_b": [1.5, 2.5, 3.5],
    "vib": [True, False, True],
    "run": ["x", "x", "y"],
    "bad": [0, 0, 1],
}


def check_frame(pairs):
    assert pairs.s.tolist() == [[1, 1.5], [2, 2.5], [3, 3.5]]
    assert pairs.q.tolist() == [[1], [0], [1]]
    assert pairs.context.tolist() == ["x", "x", "y"]
    assert pairs.label.tolist() == [0, 0, 1]
    assert pairs.time[2] == np.datetime64("2024-01-01T00:00:02")


def test_a_mapping_of_lists_becomes_pairs():
    check_frame(pairs_from_frame(TABLE, LAYOUT))


def test_a_pandas_frame_becomes_pairs():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    check_frame(pairs_from_frame(frame, LAYOUT))
    frame["t"] = pandas.to_datetime(frame["t"]).dt.tz_localize("UTC")
    frame["run"] = frame["run"].astype("category")
    frame["motor_a"] = frame["motor_a"].astype("Int64")
    check_frame(pairs_from_frame(frame[::-1][::-1].set_index("bad", drop=False), LAYOUT))


def test_a_polars_frame_becomes_pairs():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(TABLE)
    check_frame(pairs_from_frame(frame, LAYOUT))
    frame = frame.with_columns(polars.col("t").str.to_datetime(), polars.col("run").cast(polars.Categorical))
    check_frame(pairs_from_frame(frame, LAYOUT))


def test_mixed_types_in_a_frame_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE | {"vib": pandas.Series([1, "high", 2], dtype=object)})
    with pytest.raises(InputError, match="'vib'"):
        pairs_from_frame(frame, LAYOUT)


def test_missing_values_in_a_frame_are_counted():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE | {"motor_b": [1.5, None, None]})
    with pytest.raises(
        InputError, match=r"'motor_b' has 2 missing values \(first at row 1\); pass --missing drop"
    ):
        pairs_from_frame(frame, LAYOUT)
