"""From votes to one labelling: tables of votes, groups of rows, and which modes are one."""

from __future__ import annotations

import naive_modes
import numpy as np
import pytest

from coad.modes import consensus, evidence, merging, pipeline


@pytest.mark.parametrize("seed", range(3))
def test_agreement_is_cohens_kappa_within_each_pair(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, size=300)
    second = np.where(rng.random(300) < 0.6, first, rng.integers(0, 4, size=300))
    found = merging.pairwise_kappa(consensus.joint_counts(first, second, 4))
    votes = list(zip(first.tolist(), second.tolist(), strict=True))
    for k in range(4):
        for m in range(k):
            assert found[k, m] == pytest.approx(naive_modes.kappa(votes, k, m))


def test_modes_that_the_inputs_confuse_at_random_are_merged_and_others_are_not():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, size=2000)
    # Kind 1 is cut in two by each input for itself: 1 and 2 are one mode.
    first = np.where(kind == 1, rng.integers(1, 3, size=2000), 0)
    second = np.where(kind == 1, rng.integers(1, 3, size=2000), 0)
    group = merging.merge_independent(consensus.joint_counts(first, second, 3), 0.8)
    assert group[1] == group[2] != group[0]


def test_a_mode_that_the_inputs_never_agree_on_goes_to_the_one_it_is_taken_for():
    # Where one input votes for mode 2, the other votes for 1, but for one stray row. κ is 0 between 2 and 0.
    counts = np.array([[40, 0, 1], [0, 300, 6], [0, 7, 0]])
    assert merging.pairwise_kappa(counts)[[0, 1], [2, 2]].max() <= 0.0
    assert merging.merge_independent(counts, 0.15).tolist() == [0, 1, 1]
    never = np.array([[40, 0, 0], [0, 300, 0], [0, 0, 0]])
    assert merging.merge_independent(never, 0.15).tolist() == [0, 1, 2]
    assert merging.merge_independent(counts, 0.15, lambda one, other: True).tolist() == [0, 1, 2]


def test_columns_of_q_are_matched_to_those_of_s():
    a = np.eye(4)[np.random.default_rng(0).integers(0, 4, size=100)][None]
    assert np.array_equal(consensus.match_outputs(a, a[:, :, [2, 0, 3, 1]]), a)


def test_a_little_overlap_with_each_of_many_pieces_is_none():
    """A centre shares 1 % of its rows with each of eight arcs; these overlap and are a ring."""
    arcs = np.eye(9)[np.repeat(np.arange(8), 100)]
    arcs[:, :8] = 0.8 * arcs[:, :8] + 0.2 * np.roll(arcs[:, :8], 1, axis=1)
    centre = np.full((100, 9), 0.01)
    centre[:, 8] = 0.92
    sure = np.concatenate([arcs, centre])
    assert merging.merge_overlapping(sure, 0.04).tolist() == [0] * 8 + [1]
    centre[:, 0], centre[:, 1:8] = 0.08, 0.0
    assert merging.merge_overlapping(np.concatenate([arcs, centre]), 0.04).tolist() == [0] * 9


@pytest.mark.parametrize("seed", range(8))
def test_likeness_and_merging_agree_with_loops(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.full(4, 0.3), size=(2, 3, 12))
    np.testing.assert_allclose(
        consensus.coassociation(a, b), naive_modes.coassociation(a.tolist(), b.tolist()), atol=1e-6
    )
    sure = rng.dirichlet(np.full(5, 0.05), size=60)
    group = merging.merge_overlapping(sure, 0.06)
    found = [np.flatnonzero(group == g).tolist() for g in range(group.max() + 1)]
    assert sorted(found) == naive_modes.merged(sure.tolist(), 0.06)


def test_rows_that_are_alike_in_one_input_only_are_not_grouped():
    kind = np.repeat([0, 1, 2], 40)
    a = np.eye(3)[np.minimum(kind, 1)][None]  # s cannot tell 1 from 2
    b = np.eye(3)[kind][None]
    label = consensus.linkage_groups(consensus.coassociation(a, b), 3, 5)
    assert [len(np.unique(label[kind == k])) for k in range(3)] == [1, 1, 1]
    assert len(np.unique(label)) == 3
    assert (consensus.linkage_groups(consensus.coassociation(a, b), 3, 41) == -1).all()


def test_a_mode_that_a_member_cut_in_pieces_is_still_stable():
    truth = np.repeat([0, 1, 2], 50)
    cut = truth.copy()
    cut[:25] = 3
    whole = np.minimum(truth, 0)
    assert consensus.stability_of(truth, 0, [(truth, truth), (cut, cut), (cut, truth)]) == 1.0
    assert consensus.stability_of(truth, 0, [(truth, truth), (whole, whole)]) == 0.5


def test_regimes_that_come_and_go_do_not_survive_a_shift():
    rng = np.random.default_rng(0)
    votes = rng.integers(3, size=100).repeat(10)
    assert evidence.shift_p_value([(votes, votes)], 3, [None]) == 0.01, "the least that 99 shifts can give"
    assert evidence.shift_p_value([(votes, votes)], 3, [None], memory=100) > 0.05, (
        "few stretches prove nothing"
    )


def test_what_a_union_loses_agrees_with_the_difference_of_two_tables():
    counts = np.random.default_rng(0).integers(0, 30, size=(5, 5))
    counts[0, 3] = 0
    loss = merging.information_loss(counts)
    assert loss == pytest.approx(loss.T)
    for k in range(5):
        for m in range(k):
            assert loss[k, m] == pytest.approx(naive_modes.information_loss(counts.tolist(), k, m))


def test_pieces_of_one_mode_are_joined_before_what_is_often_taken_for_them():
    # Digits 0 and 3: in a third of the pairs one image shows a 0 and the other a 3, and both inputs cut the zeros into
    # ten pieces, each for itself. A piece has few rows to itself, and is mostly confused with the threes.
    counts = np.full((11, 11), 40)
    counts[0, 1:] = counts[1:, 0] = 120
    counts[0, 0] = 660
    assert merging.pairwise_kappa(counts)[0, 1:].max() < 3 / np.sqrt(660 + 2 * 120 + 40)
    assert merging.pairwise_kappa(np.array([[660, 1200], [1200, 4000]]))[0, 1] > 0.1
    group = merging.merge_independent(counts, 0.15, least=0.05)
    assert group.tolist() == [0] + 10 * [1]


def test_a_row_is_as_near_to_a_group_as_its_rows_are_in_the_mean():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(4), size=(2, 3, 30))
    labels = np.arange(30) % 4 - 1
    near = consensus.group_similarity(a, b, labels)
    fold = np.arange(30) % 4  # rows of the fold 3 were seen by all members
    honest = consensus.group_similarity(a, b, labels, fold)
    for votes, found, own in zip((a, b), near, honest, strict=True):
        for i in range(30):
            each = [naive_modes.group_similarity(votes[m].tolist(), labels.tolist(), i, 3) for m in range(3)]
            assert found[i] == pytest.approx(np.mean(each, axis=0))
            assert own[i] == pytest.approx(np.zeros(3) if fold[i] == 3 else each[fold[i]])


def test_corners_where_two_kinds_meet_by_chance_are_no_candidates():
    # Each input shows a 3 in a fifth of the rows; both do in more rows than chance has it, but a 3 beside a 0 is common.
    rng = np.random.default_rng(0)
    n, members = 6000, 3
    both = rng.random(n) < 0.04
    s, q = (both | (rng.random(n) < 0.2) for _ in range(2))
    a, b = (np.tile(np.eye(2)[x.astype(int)], (members, 1, 1)) for x in (s, q))
    near_s, near_q = consensus.group_similarity(a, b, 2 * s + q)
    assert evidence.coincident_groups(near_s, near_q).tolist() == [True, False, False, True]
    labels = pipeline._candidate_groups(
        a, b, consensus.log_coincidence_ratio(a, b), 4, np.arange(n) % members, None, rng
    )
    assert set(labels[s != q]) == {-1}
    assert len(set(labels[s & q])) == len(set(labels[~s & ~q])) == 1


def test_coincidence_of_groups_is_counted_within_the_context():
    rng = np.random.default_rng(0)
    regime = rng.integers(2, size=4000)
    s, q = (np.where(regime == 1, rng.random(4000) < 0.8, rng.random(4000) < 0.1) for _ in range(2))
    near = s[:, None].astype(float), q[:, None].astype(float)
    assert evidence.coincident_groups(*near).tolist() == [True]
    assert evidence.coincident_groups(*near, regime).tolist() == [False]


def test_modes_that_are_surely_independent_are_one_whatever_lies_between_them():
    many, some, few = (np.full((2, 2), rows) for rows in (500, 20, 2))

    def apart(one, other):
        return True

    assert merging.merge_independent(many, 0.15, apart).tolist() == [0, 0]
    assert merging.merge_independent(some, 0.15, apart).tolist() == [0, 0]
    assert merging.merge_independent(few, 0.15, apart).tolist() == [0, 1], "so few rows prove nothing"
    alike = np.array([[700, 300], [300, 700]])
    assert merging.merge_independent(alike, 0.15, apart).tolist() == [0, 1]
    never = np.array([[500, 30], [6, 0]])  # κ is 0, but by chance there would be no vote either
    assert merging.merge_independent(never, 0.15, apart).tolist() == [0, 1]
