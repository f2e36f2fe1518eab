"""F1 after a few looks of a person: what labels say of findings, and of the peers beside them."""

from __future__ import annotations

import numpy as np
import pytest
from makers import FakeFindings, event_rows

from coad.core.label_efficiency import label_efficiency
from coad.core.labels import f1
from coad.data.pairs import Pairs
from coad.exceptions import InputError
from coad.research.baselines.few_labels import few_label_peers, uncertainty_sampling


def numbered_rows(counts):
    """One column that names the finding of each row; number 0 is in no finding."""
    return np.repeat(np.arange(len(counts)), counts).astype(float)[:, None]


@pytest.fixture
def case():
    """Seven findings of four rows after 100 ordinary rows: number 3 and 7 are the event, 1 and 2 are flagged."""
    s = numbered_rows([100, *[4] * 7])
    label = np.isin(s[:, 0], (3, 7))
    return FakeFindings(s, [True, True, *[False] * 5]), s, label


def test_each_look_takes_the_next_finding_and_the_labels_answer(case):
    found, s, label = case
    result = label_efficiency(found, label, s, s, label, looks=(1, 3, 5, 10))
    assert result.n_findings == 7
    assert result.looks_to_event == 3
    assert result.f1_fit[0] == 0  # findings 1 and 2 are flagged, and neither is the event
    assert result.f1_fit[1] == 0
    assert result.f1_fit[3] == result.f1_fit[5] == pytest.approx(2 / 3)  # one of two
    assert result.f1_fit[10] == 1  # more looks than findings are all of them
    assert result.f1_test == result.f1_fit


def test_findings_that_nobody_looked_at_keep_their_default():
    s = numbered_rows([20, 5, 5, 5])
    found = FakeFindings(s, [False, False, True])
    label = s[:, 0] == 1
    result = label_efficiency(found, label, looks=[1, 3])
    assert result.f1_fit[1] == f1(label, np.isin(s[:, 0], (1, 3)))
    assert result.f1_fit[3] == 1
    assert result.f1_test == {}


def test_decisions_of_the_caller_are_never_changed(case):
    found, s, label = case
    found.decide(2, "ignore")
    before = {k: found[k].flagged for k in range(1, 8)}
    label_efficiency(found, label, s, s, label)
    assert found.decisions == {2: "ignore"}
    assert {k: found[k].flagged for k in range(1, 8)} == before


def test_half_of_a_finding_is_not_most_of_it():
    s = numbered_rows([10, 4, 3])
    label = np.zeros(17, dtype=bool)
    label[[10, 11, 14, 15]] = True  # two of four, two of three
    assert label_efficiency(FakeFindings(s, [True, False]), label).looks_to_event == 2


def test_without_findings_nothing_is_flagged_and_there_is_no_event_to_reach():
    result = label_efficiency(FakeFindings(np.zeros((5, 1)), []), [0, 1, 0, 0, 0])
    assert result.looks_to_event is None
    assert result.f1_fit == {0: 0.0, 5: 0.0, 10: 0.0}
    assert "none of the 0 findings" in result.in_words()


def test_an_empty_finding_is_not_the_event():
    assert label_efficiency(FakeFindings(np.zeros((5, 1)), [True]), [0, 1, 0, 0, 0]).looks_to_event is None


def test_test_rows_may_be_pairs(case):
    found, s, label = case
    result = label_efficiency(found, label, Pairs(s, s), None, label, looks=[3])
    assert result.f1_test == result.f1_fit


def test_words_tell_the_test_rows_where_there_are_some(case):
    found, s, label = case
    words = label_efficiency(found, label, s[:104], s[:104], np.arange(104) > 99, looks=[1]).in_words()
    assert words == "F1 by labels: 1.000 by default, 0.000 after 1 look; the event is finding 3 of 7"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1],), "holds row .* of the fit"),
        ((np.full(128, 2),), "True and False"),
        ((0,), "one entry per row"),
        ((np.zeros(128), np.zeros((3, 1))), "label_test is missing"),
        ((np.zeros(128), None, None, [0, 1]), "s_test is missing"),
        ((np.zeros(128), np.zeros((3, 1)), np.zeros((3, 1)), [0, 1]), "one entry per row"),
    ],
)
def test_labels_that_do_not_fit_are_refused(case, arguments, message):
    with pytest.raises(InputError, match=message):
        label_efficiency(case[0], *arguments)


@pytest.mark.parametrize("looks", [[0], [2.5], [-1]])
def test_looks_are_whole_numbers_from_one(case, looks):
    with pytest.raises(InputError, match="whole numbers"):
        label_efficiency(case[0], case[2], looks=looks)


def test_flags_of_another_length_are_refused(case, monkeypatch):
    found, s, label = case
    monkeypatch.setattr(FakeFindings, "predict", lambda self, s, q=None: np.zeros(3, dtype=bool))
    with pytest.raises(InputError, match="rows were flagged or not"):
        label_efficiency(found, label, s, s, label)


# The peers.


def test_the_forest_asks_for_the_most_and_the_least_odd_row_and_then_for_doubtful_ones():
    s, q, event = event_rows(400, (2,), rate=0.1, shift=(6, 6))
    x = np.column_stack([s, q])
    oddness = np.abs(x).sum(axis=1)
    asked = uncertainty_sampling(x, event, oddness, 10)
    assert asked[0] == oddness.argmax()
    assert asked[1] == oddness.argmin()
    assert len(set(asked.tolist())) == 10
    assert uncertainty_sampling(x, event, oddness, 5).tolist() == asked[:5].tolist()


def test_while_one_class_is_seen_the_forest_asks_for_the_next_most_odd_row():
    x = np.arange(8.0)[:, None]
    label = np.arange(8) == 3
    assert uncertainty_sampling(x, label, x[:, 0], 6).tolist() == [7, 0, 6, 5, 4, 3]
    assert len(uncertainty_sampling(x, label, x[:, 0], 100)) == 8


def test_labels_of_rows_that_were_not_asked_for_change_nothing():
    s, q, event = event_rows(300, (2,), rate=0.1, shift=(6, 6))
    x = np.column_stack([s, q])
    oddness = np.abs(x).sum(axis=1)
    asked = uncertainty_sampling(x, event, oddness, 8)
    other = ~event
    other[asked] = event[asked]
    assert uncertainty_sampling(x, other, oddness, 8).tolist() == asked.tolist()


def test_peers_are_judged_on_the_test_rows_and_windows_are_laid_flat():
    s, q, event = event_rows(500, (2, 3), rate=0.1, shift=(4, 4))
    fit, test = slice(0, 350), slice(350, None)
    sides = (s[fit], q[fit], event[fit], s[test], q[test], event[test])
    peers = few_label_peers(*sides)
    assert peers.own <= peers.best
    assert peers.supervised > 0.9
    assert set(peers.few) == {5, 10}
    assert few_label_peers(*sides) == peers


def test_a_forest_that_saw_one_class_flags_nothing():
    s, q, _ = event_rows(200, (2,))
    label = np.zeros(200, dtype=bool)
    peers = few_label_peers(s, q, label, s, q, label)
    assert (peers.own, peers.best, peers.supervised) == (0, 0, 0)
    assert set(peers.few.values()) == {0}


def test_inputs_of_unequal_length_are_refused():
    with pytest.raises(InputError, match="must match"):
        few_label_peers(
            np.zeros((3, 1)), np.zeros((2, 1)), [0, 0, 1], np.zeros((1, 1)), np.zeros((1, 1)), [0]
        )
