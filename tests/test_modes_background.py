"""Rare kinds in a background that shares nothing, and networks that start from others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coad import CoincidenceModes
from coad.learned.net_spec import NetSpec
from coad.learned.training.model import Blueprint
from coad.modes import pipeline
from coad.modes.consensus import drop_unclear
from coad.modes.training import build, train_members
from coad.research.datasets.digits import digits_pairs

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
def test_ways_of_writing_that_come_independently_of_each_other_are_not_called_rare():
    """Zeros paired with any other zeros: ways of writing are separated by density dips, but they do not coincide."""
    drawn = digits_pairs(4000, RNG(3), split="train")
    s, q = (x[:, x.std(0) > 0] for x in (drawn.s.reshape(4000, -1), drawn.q.reshape(4000, -1)))
    det = CoincidenceModes(random_state=0).fit(s, q)
    event, flagged, label = drawn.digit > 0, det.predict(s, q), det.predict_mode(s, q)
    assert flagged[event].mean() > 0.35
    assert event[flagged].mean() > 0.7
    assert all(event[label == mode.mode].mean() > 0.3 for mode in det.modes_.rare)


def votes_of(kinds, cuts, rng):
    """Votes for 10 outputs: 0 and 1 for rows of these kinds, any other one for rows of kind -1."""
    return np.stack(
        [np.eye(10)[np.where(kinds < 0, rng.integers(2, 10, len(kinds)), kinds)] for _ in range(cuts)]
    )


def test_the_background_is_unlike_every_group_in_both_inputs():
    rng = RNG(0)
    seen_s, seen_q = np.full(200, -1), np.full(200, -1)
    seen_s[:20] = seen_q[:20] = 0
    seen_s[20:40] = seen_q[20:40] = 1
    seen_s[40:50], seen_q[40:50] = 0, 1  # one kind in s and another in q
    seen_s[50:60] = 0  # and one that q does not see
    a, b = votes_of(seen_s, 6, rng), votes_of(seen_q, 6, rng)
    labels = np.repeat([0, 1, -1], [20, 20, 160])
    found = pipeline._with_background(a, b, labels)
    assert found.tolist() == [0] * 20 + [1] * 20 + [-1] * 20 + [2] * 140
    # There is a background only if most rows are in it, and if there is another group.
    few = pipeline._with_background(a[:, :110], b[:, :110], labels[:110])
    assert few.tolist() == labels[:110].tolist()
    assert (pipeline._with_background(a, b, np.full(200, -1)) == -1).all()


def test_a_mode_that_is_not_clear_keeps_its_rows():
    clarity = np.array([2.0, 2.0, 0.1, -0.1, -0.2, -3.0])
    assert drop_unclear(clarity, np.array([0, 0, 0, 1, 1, 1]), 0.5).tolist() == [0, 0, -1, 1, 1, 1]


def test_networks_start_from_others_up_to_the_last_layer():
    plans = Blueprint(NetSpec(hidden=(6,)), (3,)), Blueprint(NetSpec(hidden=(6,)), (2,))
    first = build(plans, [1, 2, 3], 5)
    seen = torch.ones(3, 10)
    for workers in (1, 2):
        after = train_members(
            lambda duo, part, tick: None, plans, [1, 2, 3], 4, seen, workers=workers, like=first
        )
        for side in ("s", "q"):
            one, other = (getattr(duo, f"net_{side}").state_dict() for duo in (first, after))
            torch.testing.assert_close(one["weight.0"], other["weight.0"])
            torch.testing.assert_close(one["bias.0"], other["bias.0"])
            assert other["weight.1"].shape == (3, 6, 4)
    fresh = train_members(lambda duo, part, tick: None, plans, [7, 8, 9], 4, seen)
    assert not torch.equal(fresh.state_dict()["net_s.weight.0"], first.state_dict()["net_s.weight.0"])
