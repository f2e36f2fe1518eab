"""Which modes are variants of each other, and what follows for their role."""

from __future__ import annotations

import numpy as np
import pytest

from coad import CoincidenceModes
from coad.core.labels import f1
from coad.modes import cataloguing
from coad.modes.density import DensityDips
from coad.modes.roles import assign_roles, roles_by_variant_group
from coad.modes.variants import explained_by, variant_groups

RNG = np.random.default_rng


def explained_slowly(a, b, labels, group, one):
    """Row by row: share the votes of a group that is gone among the others, and ask how far s and q agree."""
    others = [f for f in range(group.max() + 1) if f != one]
    known = labels[labels >= 0]
    size = {f: sum(group[k] == f for k in known) / len(known) for f in others}
    totals, parts = [], np.zeros(len(others))
    for i in np.flatnonzero(labels >= 0):
        if group[labels[i]] != one:
            continue
        votes = [[sum(x[i, k] for k in np.flatnonzero(group == f)) for f in others] for x in (a, b)]
        shares = [np.array(vote) / sum(vote) for vote in votes]
        evidence = np.array([shares[0][j] * shares[1][j] / size[f] for j, f in enumerate(others)])
        totals.append(evidence.sum())
        parts += evidence / max(evidence.sum(), 1.0)
    return others[int(parts.argmax())] if np.median(totals) >= 1 else None


def test_what_explains_a_group_agrees_with_counting_row_by_row():
    rng, answers = RNG(0), []
    for _ in range(60):
        k = int(rng.integers(4, 8))
        labels = rng.integers(k, size=200)
        labels[:10] = -1
        a, b = (rng.dirichlet(np.full(k, 0.3), size=200) + 1e-3 for _ in range(2))
        if rng.random() < 0.5:
            b = 0.5 * a + 0.5 * b
        group = np.unique(rng.integers(k - 1, size=k), return_inverse=True)[1]
        if group.max() < 2:
            continue
        expected = explained_slowly(a, b, labels, group, 0)
        assert explained_by(a, b, labels, group, 0) == expected
        answers.append(expected)
    assert None in answers
    assert len(set(answers)) > 2


def votes(modes, second_s, second_q, rows):
    """Each row is sure of its mode; what it would be otherwise is ``second_s`` to s and ``second_q`` to q."""
    labels = np.repeat(np.arange(modes), rows)
    both = []
    for second in (second_s, second_q):
        x = np.full((len(labels), modes), 1e-6)
        x[np.arange(len(labels)), labels] = 1.0
        x[np.arange(len(labels)), np.array(second)[labels]] += 0.01
        both.append(x)
    return both[0], both[1], labels


def test_a_small_mode_joins_what_explains_it_in_both_inputs_and_else_stays_alone():
    # Mode 3 looks like mode 0 to both inputs; mode 4 like mode 1 to s and like mode 2 to q.
    a, b, labels = votes(5, [1, 2, 0, 0, 1], [2, 0, 1, 0, 2], [300, 300, 300, 30, 30])
    assert variant_groups(a, b, labels, None, 0.1).tolist() == [0, 1, 2, 0, 3]
    assert variant_groups(a, b, labels, None, 0.01).tolist() == [0, 1, 2, 3, 4]  # none is that small
    adjacent = np.zeros((5, 5), dtype=bool)
    adjacent[4, 2] = adjacent[2, 4] = True
    assert variant_groups(a, b, labels, adjacent, 0.1).tolist() == [0, 1, 2, 0, 2]


def test_rows_without_a_mode_and_two_modes_alone_are_handled():
    a, b, labels = votes(4, [1, 0, 0, 1], [2, 2, 1, 2], [300, 300, 300, 30])
    with_none = np.append(labels, [-1] * 50)
    more = np.full((50, 4), 0.25)
    found = variant_groups(np.append(a, more, 0), np.append(b, more, 0), with_none, None, 0.1)
    assert found.tolist() == variant_groups(a, b, labels, None, 0.1).tolist()
    a, b, labels = votes(2, [1, 0], [1, 0], [300, 20])
    assert variant_groups(a, b, labels, np.ones((2, 2), dtype=bool), 0.1).tolist() == [0, 1]


SIZE = np.array([0.28, 0.02, 0.28, 0.02, 0.28, 0.02, 0.1])
GROUP = np.array([0, 0, 1, 1, 2, 2, 3])


def named(roles):
    return "".join(role[1] for role, _ in roles)  # "e" of regime, "a" of rare


def test_variants_are_not_rare_where_most_groups_have_one_and_another_kind_is_separate():
    roles = assign_roles(SIZE, 0.1)
    found = roles_by_variant_group(roles, SIZE, GROUP, 0.1)
    assert named(roles) == "eaeaeae"
    assert named(found) == "eeeeeea"
    assert "a variant of mode 0" in found[1][1]
    again = roles_by_variant_group(roles, SIZE, GROUP, 0.1, number=10 * np.arange(7))
    assert "a variant of mode 20" in again[3][1]
    assert "3 of 3 groups" in found[1][1]
    assert "unlike all others" in found[6][1]


def test_the_largest_of_a_group_of_variants_is_no_variant_of_itself():
    size = np.array([0.78, 0.06, 0.05, 0.05, 0.03])
    roles = assign_roles(size, 0.1)
    assert named(roles) == "eaaaa"
    found = roles_by_variant_group(roles, size, np.array([0, 1, 1, 1, 2]), 0.1, rows=5000, common=0)
    assert named(found) == "eeeea"
    assert found[1][1].startswith("with its variants 16.0% of the rows")
    assert found[2][1].startswith("a variant of mode 1")


@pytest.mark.parametrize(
    ("group", "max_rare"),
    [
        ([0, 0, 1, 1, 2, 2, 2], 0.1),  # nothing is apart
        ([0, 0, 1, 0, 2, 2, 3], 0.1),  # two groups have variants
        ([0, 0, 1, 1, 2, 2, 3], 0.05),  # what is apart is too large to be rare
    ],
)
def test_otherwise_roles_stay(group, max_rare):
    roles = assign_roles(SIZE, max_rare)
    assert roles_by_variant_group(roles, SIZE, np.array(group), max_rare) == roles


def test_what_is_rare_for_another_reason_stays_rare():
    roles = assign_roles(SIZE, 0.1)
    far = np.array([0, 0.9, 0, 0, 0, 0, 0])
    more = np.append(SIZE, 0.02)
    group = np.append(GROUP, 0)
    dispersion = np.append(far, 0)
    found = roles_by_variant_group(assign_roles(more, 0.1), more, group, 0.1, dispersion=dispersion)
    assert named(found) == "eaeeeeae"
    found = roles_by_variant_group(assign_roles(more, 0.1), more, group, 0.1, isolation=dispersion)
    assert named(found) == "eaeeeeae"
    assert roles_by_variant_group(roles, SIZE, GROUP, 0.1, dispersion=far) == roles  # two groups are left


def ways_of_doing_it(seed, rows=3000, kinds=6):
    """Kinds that each have a small way of their own (2 %), and a rare kind (3 %) that is like none of them."""
    rng = RNG([5, seed])
    way = rng.random(rows) < 0.02 * kinds
    kind = rng.integers(kinds, size=rows)
    rare = rng.random(rows) < 0.03
    inputs = []
    for width in (12, 10):
        centre = 3.0 * rng.normal(size=(kinds + 1, width))
        turn = rng.normal(size=(kinds, width))
        turn *= 5.0 / np.linalg.norm(turn, axis=1, keepdims=True)
        x = centre[np.where(rare, kinds, kind)]
        x = x + np.where((way & ~rare)[:, None], turn[kind], 0.0)
        inputs.append(x + rng.normal(size=(rows, width)))
    return inputs[0], inputs[1], rare


@pytest.mark.slow
def test_a_rare_kind_is_called_and_the_rare_ways_of_common_ones_are_not(monkeypatch):
    s, q, rare = ways_of_doing_it(0)
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert f1(rare, det.predict(s, q)) > 0.95
    assert sum("variant" in mode.reason for mode in det.modes_) >= 3
    monkeypatch.setattr(cataloguing, "roles_by_variant_group", lambda roles, *_, **__: list(roles))
    assert f1(rare, CoincidenceModes(random_state=0).fit(s, q).predict(s, q)) < 0.6


def test_modes_without_a_clear_dip_are_adjacent():
    rng = RNG(0)
    x = np.append(rng.normal(size=900), rng.normal(9, 1, 300))[:, None]
    labels = np.where(x[:, 0] > 4.5, 2, np.where(x[:, 0] > 0.5, 1, 0))
    found = DensityDips.of(x, np.arange(1200), rng).adjacent(labels, 4)
    assert (
        found.tolist() == (np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]) == 1).tolist()
    )


def pieces(seed=0, kinds=6, rows=3000, rate=0.07):
    """Kinds of rows, each wide in a direction that both inputs see, and a rare kind of nearly half their size."""
    rng = RNG([6, seed])
    kind = np.where(rng.random(rows) < rate, kinds, rng.integers(kinds, size=rows))
    size = np.clip(rng.normal(size=rows), -2.5, 2.5)
    inputs = []
    for width in (10, 8):
        centre = 6.0 * rng.normal(size=(kinds + 1, width))
        wide = 1.6 * rng.normal(size=width)
        x = centre[kind] + np.outer(size * (kind < kinds), wide)
        inputs.append(x + 0.7 * rng.normal(size=(rows, width)))
    return inputs[0], inputs[1], kind


def test_small_modes_join_the_mode_that_no_dip_separates_them_from():
    s, q, kind = pieces()
    rows = np.concatenate([s, q], axis=1)
    place = rows[:, 0]
    labels = kind.copy()
    middle = {k: np.median(place[kind == k]) for k in range(3)}
    for k in range(3):  # three of the kinds are cut in two
        labels[(kind == k) & (place > middle[k])] = 7 + k
    found = DensityDips.of(rows, np.arange(len(rows)), RNG(0)).variant_groups(labels, 10, 0.1)
    assert [found[k] == found[7 + k] for k in range(3)] == [True] * 3
    assert len(np.unique(found)) == 7
    again = DensityDips.of(rows, np.arange(len(rows)), RNG(0)).variant_groups(labels, 10, 0.01)
    assert len(np.unique(again)) == 10, "none is small: none joins"


def test_roles_follow_the_sizes_of_groups_where_one_gap_stands_out():
    size = np.array([0.17, 0.17, 0.18, 0.06, 0.06, 0.17, 0.155, 0.045])
    group = np.array([0, 1, 2, 3, 3, 4, 5, 6])
    before = assign_roles(size, 0.1, rows=3000)
    assert named(before) == "eeeaaeea"  # pieces of a group lie below the gap, as the small group does
    found = roles_by_variant_group(before, size, group, 0.1, rows=3000, common=0)
    assert named(found) == "eeeeeeea"
    assert "unlike all others" in found[-1][1]
    alike = np.array([0.17, 0.17, 0.18, 0.06, 0.06, 0.17, 0.155, 0.1])
    assert (
        roles_by_variant_group(before, alike, group, 0.1, rows=3000, common=0) == before
    )  # no gap stands out
    size[3:5] = 0.11, 0.02  # a piece that is smaller than the rare kind
    hidden = assign_roles(size, 0.1, rows=3000)
    assert named(hidden) == "eeeeaeea"
    assert named(roles_by_variant_group(hidden, size, group, 0.1, rows=3000, common=0)) == "eeeeeeea"


def test_what_many_rows_have_is_not_rare_where_one_group_is_large():
    """Simulated after textures: seven kinds of a tenth of the rows, and a small one that no gap parts from a large one."""
    size = np.array([0.095, 0.095, 0.097, 0.097, 0.098, 0.098, 0.099, 0.026, 0.295])
    group = np.array([0, 1, 2, 3, 4, 5, 6, 7, 7])
    before = assign_roles(size, 0.1, rows=5000)
    assert named(before) == "eeeeeeeae"
    assert roles_by_variant_group(before, size, group, 0.1, rows=5000, common=0) == before


@pytest.mark.slow
@pytest.mark.parametrize("windows", [False, True])
def test_pieces_of_kinds_do_not_hide_or_share_the_role_of_a_rare_one(windows):
    s, q, kind = pieces()
    if windows:
        ramp = np.linspace(-1, 1, 24)
        s, q = (
            np.stack([x[:, i : i + 1] + x[:, i + 1 : i + 2] * ramp for i in range(0, 8, 2)], axis=1).astype(
                np.float32
            )
            for x in (s, q)
        )
    det = CoincidenceModes(random_state=0).fit(s, q)
    assert f1(kind == 6, det.predict(s, q)) > 0.95
