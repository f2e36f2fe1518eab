"""Kinds that are hard to see: rare ones in a background that shares nothing, tiny ones, and kinds that no line separates."""

from __future__ import annotations

import numpy as np
import pytest
from makers import rows_around_centres

from coad import CoincidenceModes
from coad.core.labels import f1
from coad.research.experiments.modes import majority_modes

RNG = np.random.default_rng


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [1, 2])
def test_rare_kinds_are_found_in_a_background_whose_inputs_are_independent(kinds):
    rng = RNG(0)
    kind = rng.choice(kinds + 1, size=1500, p=[1 - 0.03 * kinds] + [0.03] * kinds)
    s, q = (
        np.concatenate([np.zeros((1, 6)), 4 * rng.normal(size=(kinds, 6))])[kind] + rng.normal(size=(1500, 6))
        for _ in range(2)
    )
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert [mode.role for mode in det.modes_] == ["rare"] * kinds + ["regime"]
    flagged = det.predict(s, q)
    assert flagged[kind > 0].mean() > 0.95
    assert flagged[kind == 0].mean() < 0.01


@pytest.mark.slow
def test_a_kind_of_one_per_cent_is_found_beside_regimes_of_a_third():
    s, q, kind = rows_around_centres([0.33, 0.33, 0.33, 0.01], 3000, (6,), spread=2.8, seed=2)
    flagged = CoincidenceModes(random_state=2).fit(s, q).predict(s, q)
    assert flagged[kind == 3].mean() > 0.9
    assert flagged[kind != 3].mean() < 0.003


@pytest.mark.slow
def test_a_small_centre_inside_two_rings_is_one_mode():
    rng = RNG(3)
    kind = rng.choice(3, 2500, p=[0.5, 0.46, 0.04])
    inputs = []
    for _ in range(2):
        angle, radius = rng.uniform(0, 2 * np.pi, 2500), np.array([4.0, 8.0, 0.0])[kind]
        circle = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        inputs.append(circle + 0.5 * rng.normal(size=(2500, 2)))
    label = CoincidenceModes(random_state=0).fit(*inputs).predict_mode(*inputs)
    assert f1(kind == 2, np.isin(label, majority_modes(label, kind == 2))) > 0.9
