"""From votes to one labelling: outputs that are one, groups of rows, and their tests."""

from __future__ import annotations

import naive_modes
import numpy as np
import pytest
from scipy.stats import hypergeom

from coad.modes import consensus, evidence
from coad.modes.merging import excess_loss, merge_modes


@pytest.mark.parametrize("seed", range(8))
def test_coassociation_agrees_with_loops(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.full(4, 0.3), size=(2, 3, 12))
    np.testing.assert_allclose(
        consensus.coassociation(a, b), naive_modes.coassociation(a.tolist(), b.tolist()), atol=1e-6
    )


def test_rows_that_are_alike_in_one_input_only_are_not_grouped():
    kind = np.repeat([0, 1, 2], 40)
    a = np.eye(3)[np.minimum(kind, 1)][None]  # s cannot tell 1 from 2
    b = np.eye(3)[kind][None]
    label = consensus.group_rows(a, b, np.random.default_rng(0))
    assert [len(np.unique(label[kind == k])) for k in range(3)] == [1, 1, 1]
    assert len(np.unique(label)) == 3


def test_rows_that_the_members_disagree_on_are_one_group(monkeypatch):
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, -1], [30, 20, 350])

    def votes():
        return np.stack([np.eye(12)[np.where(kind < 0, rng.integers(2, 12, 400), kind)] for _ in range(10)])

    a, b = votes(), votes()
    label = consensus.group_rows(a, b, rng, 0.5)
    assert [len(np.unique(label[kind == k])) for k in (0, 1)] == [1, 1]
    assert (label[kind < 0] == label.max()).mean() > 0.95
    # The same if most rows join the groups of a sample.
    monkeypatch.setattr(consensus, "_COASSOCIATED", 300)
    again = consensus.group_rows(a, b, rng, 0.5)
    assert (again[kind < 0] == again.max()).mean() > 0.95
    assert len(np.unique(again[kind == 0])) == 1


@pytest.mark.parametrize("seed", range(6))
def test_what_merging_loses_agrees_with_tables_before_and_after(seed):
    rng = np.random.default_rng(seed)
    s = rng.integers(5, size=150)
    q = np.where(rng.random(150) < 0.6, s, rng.integers(5, size=150))
    s[s == 4] = q[q == 4] = seed % 5  # some without a vote
    found = excess_loss(evidence.joint_counts(s, q, 5))
    for one in range(5):
        for other in range(5):
            assert found[one, other] == pytest.approx(naive_modes.excess_loss(s, q, 5, one, other), rel=1e-9)


def test_pieces_of_one_cluster_are_merged_and_a_small_kind_is_not():
    """Pairs that lose the least come first, so that the last ones lose more than pairs at random."""
    kept = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        kind = rng.choice(3, size=400, p=[0.6, 0.37, 0.03])
        piece = rng.integers(4, size=(2, 400))  # each input cuts kind 0 in four, by chance
        s, q = (np.where(kind == 0, own + 2, kind - 1) for own in piece)
        mode = merge_modes(s, q, 6)
        assert len({mode[0], mode[1], mode[2]}) == 3
        kept.append(int(mode.max()) + 1)
    assert np.mean(np.array(kept) == 3) >= 0.75


@pytest.mark.parametrize("seed", range(3))
def test_the_information_of_a_row_comes_from_the_tables_of_other_folds(seed):
    rng = np.random.default_rng(seed)
    s, fold = rng.integers(3, size=90), np.arange(90) % 3
    q = np.where(rng.random(90) < 0.7, s, rng.integers(3, size=90))
    value = evidence.cross_information(s, q, fold, 3)
    for i in (0, 1, 2, 50):
        assert value[i] == pytest.approx(naive_modes.cross_information(s, q, fold, i))


def test_noise_has_no_cross_fitted_information():
    rng = np.random.default_rng(0)
    s, q = rng.integers(20, size=(2, 2000))
    assert evidence.cross_information(s, q, np.arange(2000) % 5, 20).mean() < 0
    own = evidence.table_information(evidence.joint_counts(s, q, 20))
    assert own > 0.05, "a table that is judged by itself has some"


def test_a_mode_that_a_member_cut_in_pieces_is_still_stable():
    truth = np.repeat([0, 1, 2], 50)
    cut = truth.copy()
    cut[:25] = 3
    whole = np.minimum(truth, 0)
    own = truth == 0
    assert consensus.stability_of(own, [(truth, truth), (cut, cut), (cut, truth)]) == 1.0
    assert consensus.stability_of(own, [(truth, truth), (whole, whole)]) == 0.5


def test_evidence_that_is_not_a_number_gives_no_mode():
    assert consensus.mode_of_rows(np.array([[np.nan, np.nan], [0.0, 9.0], [0.2, 0.2]])).tolist() == [
        -1,
        1,
        -1,
    ]


def test_regimes_that_come_and_go_do_not_survive_a_shift():
    votes = np.random.default_rng(0).integers(3, size=100).repeat(10)[None]
    assert evidence.shift_p_value([(votes, votes, None)], 3) == 0.01, "the least that 99 shifts can give"
    assert evidence.shift_p_value([(votes, votes, None)], 3, memory=100) > 0.05, "few stretches prove nothing"


def test_members_of_a_fold_are_shuffled_together():
    """Many copies of one member are no more evidence than one."""
    rng = np.random.default_rng(1)
    p_values = []
    for seed in range(40):
        s, q = np.random.default_rng(seed).integers(3, size=(2, 1, 60))
        copies = [(np.repeat(s, 20, axis=0), np.repeat(q, 20, axis=0), None)]
        p_values.append(evidence.global_p_value(copies, 3, rng, permutations=39))
    assert 0.25 < np.median(p_values) < 0.75
    assert np.mean(np.array(p_values) <= 0.1) < 0.25


def test_the_test_of_a_mode_is_within_the_context():
    rng = np.random.default_rng(0)
    regime = rng.integers(2, size=4000)
    s, q = (
        np.where(regime == 1, rng.random(4000) < 0.8, rng.random(4000) < 0.1).astype(int) for _ in range(2)
    )
    plain, within = evidence.mode_p_values(s, q, 2), evidence.mode_p_values(s, q, 2, regime)
    assert plain.max() < 1e-6
    assert within.min() > 1e-3
    # The approximation is near the exact p-value, for many votes and for few.
    for rate in (0.5, 0.01):
        s = (rng.random(4000) < rate).astype(int)
        q = np.where(rng.random(4000) < 0.03, s, rng.permutation(s))
        joint = int(((s == 1) & (q == 1)).sum())
        exact = hypergeom.sf(joint - 1, 4000, s.sum(), q.sum())
        assert np.log(evidence.mode_p_values(s, q, 2)[1]) == pytest.approx(np.log(exact), abs=0.3)
