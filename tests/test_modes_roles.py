"""Rare or regime by the sizes: where one gap stands out, it decides; a typical row's mode does elsewhere."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from makers import rows_around_centres

from coad import CoincidenceModes
from coad.exceptions import CoadWarning
from coad.modes.roles import assign_roles, gap_in_sizes


def rare(size, rows, **more):
    roles = assign_roles(np.array(size), 0.1, rows=rows, **more)
    return [part for part, (role, _) in zip(size, roles, strict=True) if role == "rare"]


def test_one_mode_below_many_equal_regimes_is_rare_though_it_has_half_their_rows():
    size = [0.02] + [0.049] * 20
    assert rare(size, 10_000) == [0.02]
    assert rare(size, 200) == []  # 4 rows against 10 are no gap


@pytest.mark.parametrize("below", [[0.01], [0.012, 0.01, 0.009]])
def test_regimes_of_very_different_sizes_are_regimes_above_the_gap(below):
    size = [0.5, 0.24, 0.12, 0.08, 0.05, *below]
    assert rare(size, 3000) == below
    for role, reason in assign_roles(np.array(size), 0.1, rows=3000):
        assert role == "rare" or "above the gap" in reason or "max_rare" in reason


@pytest.mark.parametrize(
    "size",
    [
        [0.2, 0.1, 0.07, 0.05, 0.035, 0.02, 0.01],  # sizes that shade into each other
        [0.32, 0.32, 0.32, 0.03, 0.003],  # two gaps: what is below the first is not all there is
    ],
)
def test_without_one_gap_that_stands_out_sizes_are_compared_with_a_typical_rows(size):
    size = np.array(size)
    assert gap_in_sizes(size, 0.1, 5000) is None
    assert assign_roles(size, 0.1, rows=5000) == assign_roles(size, 0.1)


def test_a_mode_of_hardly_any_rows_makes_no_gap():
    assert gap_in_sizes(np.array([0.3, 0.3, 0.3, 0.05, 0.0005]), 0.1, 4000) == (0.05, 0.3)
    assert gap_in_sizes(np.array([0.5, 0.5]), 0.1, 4000) is None
    assert gap_in_sizes(np.array([]), 0.1, 4000) is None


def test_what_is_isolated_in_time_is_rare_above_the_gap_too():
    size = [0.4, 0.3, 0.2, 0.09, 0.01]
    assert rare(size, 3000) == [0.01]
    assert rare(size, 3000, isolation=np.array([0.0, 0.0, 0.0, 0.9, 0.0])) == [0.09, 0.01]


@pytest.mark.slow
def test_a_small_kind_among_regimes_of_different_sizes_is_the_only_rare_one():
    s, q, kind = rows_around_centres([0.5, 0.25, 0.13, 0.1, 0.02], 2000, (5,), spread=3, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = CoincidenceModes(random_state=0).fit(s, q)
    flagged = det.predict(s, q)
    assert flagged[kind == 4].mean() > 0.95
    assert flagged[kind != 4].mean() < 0.005
