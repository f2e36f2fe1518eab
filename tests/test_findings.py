"""Findings: what is rare, odd and coincident, in one order, and what a person decides."""

from __future__ import annotations

import naive_findings
import numpy as np
import pytest

import coad
from coad.core.oddness import ODD, Oddness
from coad.exceptions import FileError, InputError, NotFittedError
from coad.findings.clusters import _margins
from coad.findings.correlated import _SHARES, _joint, _levels, joint_tail_p_value
from coad.findings.features import InputFeatures
from coad.findings.finding import FindingTable
from coad.findings.judging import holm
from coad.findings.learning import _answers, _examples, values_of
from coad.findings.order import score_of
from coad.findings.tails import PANEL, TailLens, _best_thresholds, _Choice

FAST = ["clusters", "tails"]


def plant_rows(n=900, seed=0, width=4):
    """(s, q, kind): three regimes that both inputs see, one-sided faults (-1, -2), and two kinds of event (1, 2)."""
    rng = np.random.default_rng(seed)
    regime = rng.integers(3, size=n)
    centres = 0.8 * rng.normal(size=(2, 3, width))
    s, q = (centres[i][regime] + rng.normal(size=(n, width)) for i in range(2))
    kind = np.zeros(n, dtype=int)
    for number, (shift_s, shift_q) in {1: (9, 9), 2: (-9, 9), -1: (9, 0), -2: (0, 9)}.items():
        rows = rng.choice(np.flatnonzero(kind == 0), 25, replace=False)
        kind[rows] = number
        s[rows, 0] += shift_s
        q[rows, 1] += shift_q
    return s, q, kind


@pytest.fixture(scope="module")
def plant():
    s, q, kind = plant_rows()
    return s, q, kind, coad.find(s, q, ordered=False, lenses=FAST)


# What is found.


def test_both_kinds_of_event_come_first_and_are_flagged(plant):
    s, q, kind, found = plant
    for event in (1, 2):
        number = next(one.number for one in found if (kind[one.rows] == event).mean() > 0.9)
        assert number <= 3
        assert found[number].flagged
    flags = found.predict(s, q)
    assert flags[kind > 0].mean() > 0.8


def test_one_sided_faults_and_regimes_are_not_flagged(plant):
    s, q, kind, found = plant
    flags = found.predict(s, q)
    assert flags[kind < 0].mean() < 0.2
    assert flags[kind == 0].mean() < 0.03


def test_every_finding_that_is_not_flagged_says_why(plant):
    *_, found = plant
    quiet = [one for one in found if not one.flagged]
    assert quiet
    for one in quiet:
        assert one.reason in ("common", "not odd", "chance", "all chance", "correlated")
        assert one.verdict.startswith("no: ")
        assert len(one.verdict) > 6


def test_new_rows_are_flagged_by_the_same_rule(plant):
    *_, found = plant
    s, q, _ = plant_rows(seed=0)
    again = found.score_rows(s[:100], q[:100])
    whole = found.score_rows(s, q)
    assert np.array_equal(again.flag, whole.flag[:100])
    assert np.allclose(again.score, whole.score[:100])
    assert (whole.score[whole.flag] >= 0.5).all()
    assert (whole.score[~whole.flag] <= 0.5).all()


def test_rows_of_a_finding_are_those_that_votes_tell_of_the_rows_of_the_fit(plant):
    s, q, _, found = plant
    rows = found._rows(s, q, None)
    for one in found:
        votes = found.lenses_[one.lens[0]].votes(rows)
        assert np.array_equal(np.flatnonzero(votes.member[:, one.candidate]), one.rows)


def test_same_random_state_same_findings(plant):
    s, q, _, found = plant
    again = coad.find(s, q, ordered=False, lenses=FAST)
    assert str(again.table) == str(found.table)


def test_why_names_the_column_that_was_moved(plant):
    _, _, kind, found = plant
    event = next(one for one in found if set(kind[one.rows]) == {1})
    assert event.why.s[0].name == "column 0"
    assert event.why.s[0].deviation > 0
    assert event.why.q[0].name == "column 1"
    assert all(
        abs(one.deviation) >= abs(own[0].deviation) / 2 for own in (event.why.s, event.why.q) for one in own
    )
    assert set(event.exemplars) <= set(event.rows.tolist())


def test_windows_say_in_which_stretch_they_differ():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 300, 2, 32))
    s[:15, 1, 10:16] += 6
    q[:15, 0, 20:24] += 6
    found = coad.find(s, q, ordered=False, lenses=["clusters"])
    event = next(one for one in found if set(one.rows.tolist()) <= set(range(15)))
    column = event.why.s[0]
    assert column.name == "column 1"
    assert column.stretch is not None
    assert 8 <= column.stretch[0] <= 12
    assert 13 <= column.stretch[1] <= 17


def test_images_are_taken():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 200, 1, 6, 6))
    s[:10], q[:10] = s[:10] + 5, q[:10] + 5
    found = coad.find(s, q, ordered=False, lenses=["clusters"])
    assert set(found[1].rows.tolist()) == set(range(10))


def test_a_context_that_explains_a_shift_takes_the_finding_away():
    rng = np.random.default_rng(0)
    regime = (np.arange(800) % 20 == 0).astype(int)
    s, q = rng.normal(size=(2, 800, 3))
    s[regime == 1] += 6
    q[regime == 1] += 6
    without = coad.find(s, q, ordered=False, lenses=FAST)
    within = coad.find(s, q, context=regime, ordered=False, lenses=FAST)
    assert without.predict(s, q)[regime == 1].mean() > 0.9
    assert within.predict(s, q, regime).mean() < 0.02
    with pytest.raises(InputError, match="fitted with a context"):
        within.predict(s, q)


# Noise.


@pytest.mark.parametrize(("n", "width"), [(150, 30), (300, 20), (600, 5)])
def test_noise_is_seldom_flagged(n, width):
    flagged = 0
    for seed in range(8):
        s, q = np.random.default_rng(seed).normal(size=(2, n, width))
        flagged += any(one.flagged for one in coad.find(s, q, ordered=False, lenses=FAST, random_state=seed))
    assert flagged <= 2


def test_noise_ends_with_a_list_all_the_same():
    s, q = np.random.default_rng(3).normal(size=(2, 200, 5))
    found = coad.find(s, q, ordered=False, lenses=FAST)
    assert "chance explains" in found.headline
    odd = np.minimum(*(percentiles for percentiles in found.oddest_percentiles_.T))
    assert len(found.oddest_) == 20
    assert (np.diff(odd) <= 1e-12).all()


def test_correlated_noise_is_listed_but_not_flagged():
    """Counted as if inputs were independent, these sets all had findings that were flagged."""
    flagged = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        common, s, q = rng.normal(size=(3, 600, 2))
        found = coad.find(0.8 * common + 0.6 * s, 0.8 * common + 0.6 * q, ordered=False, lenses=["clusters"])
        flagged += any(one.flagged for one in found)
        if found.p_value_ <= 0.05:
            assert found.correlated_p_value_ > 0.05 or any(one.flagged for one in found)
    assert any(one.reason == "correlated" for one in found)
    assert "as correlated as these" in found.headline
    assert flagged <= 1


def test_events_that_meet_beyond_the_correlation_are_told_from_it_within_contexts_too():
    rng = np.random.default_rng(0)
    place = np.arange(1200) % 3
    load = rng.normal(size=(1200, 2)) * (1 + place[:, None])
    s, q = load + rng.normal(size=(1200, 2)), -load + rng.normal(size=(1200, 2))
    assert joint_tail_p_value(s, q, place, rng=np.random.default_rng(1)) > 0.05
    s[:15, 0] += 14
    q[:15, 1] += 14
    assert joint_tail_p_value(s, q, place, rng=np.random.default_rng(1)) <= 0.025


def test_joint_tails_are_counted_as_the_slow_version_does():
    rng = np.random.default_rng(0)
    for n in (1, 7, 60):
        far_s, far_q = rng.normal(size=(2, n))
        fast = _joint(_levels(far_s), _levels(far_q))
        assert np.array_equal(fast, naive_findings.joint(far_s, far_q, _SHARES))


def test_the_end_of_a_common_load_carries_a_caution_and_an_event_does_not():
    rng = np.random.default_rng(0)
    load = rng.normal(size=(1500, 1))
    s, q = (load * [1.0, 0.8, 1.2] + 0.9 * rng.normal(size=(1500, 3)) for _ in range(2))
    s[:20, 0] += 8
    q[:20, 1] -= 8
    found = coad.find(s, q, ordered=False, lenses=["clusters"])
    event = next(one for one in found if set(one.rows.tolist()) <= set(range(20)))
    assert event.flagged
    assert not event.only_correlated
    assert event.verdict == "yes"
    ends = [one for one in found if one.flagged and one.rows.min() >= 20]
    assert ends
    assert all(one.only_correlated for one in ends)
    assert "correlated inputs show as much" in ends[0].verdict


# Decisions.


def test_an_event_adds_rows_and_only_a_flagged_finding_called_normal_takes_any_away(plant):
    *_, fitted = plant
    found = fitted.copy()
    before = found.flags_of_fit()
    assert found[2].flagged
    assert not found[len(found)].flagged
    assert all(one.like_events is None for one in found)
    found.decide(1, "event")
    assert all(one.like_events is not None for one in found)
    assert not (before & ~found.flags_of_fit()).any()
    found.decide(len(found), "normal")
    assert not (before & ~found.flags_of_fit())[found[2].rows].any()
    found.decide(2, "normal")
    assert found.flags_of_fit()[found[1].rows].all()
    assert (before & ~found.flags_of_fit())[found[2].rows].any()
    for one in found:
        assert one.n_flagged == found.flags_of_fit()[one.rows].sum()
        if one.decision is None:
            assert one.flagged == (2 * one.n_flagged > one.n_rows)
    for number in range(1, len(found) + 1):
        found.decide(number, None)
    assert np.array_equal(found.flags_of_fit(), before)
    assert [one.verdict for one in found] == [one.verdict for one in fitted]


def test_what_is_learned_is_the_optimum_of_a_logistic_regression_on_the_decided_rows(plant):
    *_, fitted = plant
    found = fitted.copy()
    rng = np.random.default_rng(0)
    for _ in range(3):
        for number in range(1, len(found) + 1):
            found.decide(number, [None, "event", "normal", "ignore"][rng.integers(4)])
        told = naive_findings.examples(list(found), found.n_rows_, ODD)
        rows, event = _examples(found, _answers(found), found.n_rows_, found.random_state_)
        assert event.tolist() == [told[row] for row in rows]
        wanted = {one.number: sum(1 for r in one.rows if r in told) for one in found}
        assert len(set(rows)) == len(rows) <= sum(min(n, 100) for n in wanted.values())
        values = found.values_.astype(np.float64)
        centre, width = values.mean(0), values.std(0)
        scaled = (values[rows] - centre) / width
        for weights, columns in zip(
            found.learned_.weights,
            (slice(0, found.values_of_s_), slice(found.values_of_s_, None), slice(0, None)),
            strict=True,
        ):
            own = np.zeros(values.shape[1])
            own[columns] = (weights[:-1] * width)[columns]
            assert np.array_equal(own != 0, weights[:-1] != 0)
            gradient, of_offset = naive_findings.logistic_gradient(
                scaled, event, own, weights[-1] + weights[:-1] @ centre, 0.1
            )
            assert np.abs(gradient[columns]).max() < 1e-2
            assert abs(of_offset) < 1e-2


def test_a_kind_that_lies_in_several_findings_is_flagged_in_all_after_one_look():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 2000, 4))
    event = np.arange(2000) < 120
    s[event] += np.array([6, 0, 0, 0]) + 3 * rng.normal(size=(120, 1)) * [
        0,
        1,
        0,
        0,
    ]  # a long streak: several clusters
    q[event] += np.array([0, 6, 0, 0]) + 3 * rng.normal(size=(120, 1)) * [1, 0, 0, 0]
    noise = np.arange(2000) >= 1900  # odd in both, elsewhere
    s[noise, 2] -= 7
    q[noise, 3] -= 7
    found = coad.find(s, q, ordered=False, lenses=["clusters"])
    pieces = [one.number for one in found if event[one.rows].mean() > 0.5]
    other = [one.number for one in found if noise[one.rows].mean() > 0.5]
    assert len(pieces) > 1
    found.decide(pieces[0], "event").decide(other[0], "normal")
    flagged = found.predict(s, q)
    assert flagged[event].mean() > 0.9
    assert flagged[~event].mean() < 0.02
    assert all(found[number].verdict.startswith("yes") for number in pieces)


def test_what_is_learned_from_decisions_is_saved(plant, tmp_path):
    s, q, _, fitted = plant
    found = fitted.copy().decide(2, "event").decide(1, "normal")
    assert found.learned_ is not None
    found.save(tmp_path / "run")
    again = coad.load(tmp_path / "run")
    assert [one.verdict for one in again] == [one.verdict for one in found]
    assert np.array_equal(again.predict(s, q), found.predict(s, q))
    assert np.array_equal(again.flags_of_fit(), found.predict(s, q))
    assert [one.verdict for one in again.decide(3, "event")] == [
        one.verdict for one in found.decide(3, "event")
    ]


def test_what_a_person_decides_comes_before_what_is_learned_and_the_smaller_finding_first(plant):
    s, q, _, fitted = plant
    found = fitted.copy()
    rows = found._rows(s, q, None)
    member = np.stack(
        [found.lenses_[one.lens[0]].votes(rows).member[:, one.candidate] for one in found], axis=1
    )
    rng = np.random.default_rng(0)
    for _ in range(5):
        for number in range(1, len(found) + 1):
            found.decide(number, [None, "event", "normal", "ignore"][rng.integers(4)])
        leans = None if found.learned_ is None else found.learned_(values_of(rows)).both > 0
        assert np.array_equal(found.predict(s, q), naive_findings.decided(member, list(found), leans))
    assert [one.decision for one in fitted] == [None] * len(fitted)


def test_a_decision_can_be_taken_back_and_numbers_stay(plant):
    s, q, _, fitted = plant
    found = fitted.copy()
    before = found.predict(s, q)
    found.decide(1, "normal")
    assert found[1].decision == "normal"
    assert found.table[-1].number == 1
    assert found.rule_.findings[1] == "normal"
    found.decide(1, None)
    assert np.array_equal(found.predict(s, q), before)


def test_ignored_rows_are_left_out_of_the_figures(plant):
    s, q, _, fitted = plant
    found = fitted.copy().decide(1, "ignore")
    assert found.evaluate(s, q).n_rows == len(s) - int(found.score_rows(s, q).dismissed.sum())


def test_evaluate_counts_what_predict_flags(plant):
    s, q, _, found = plant
    evaluation = found.evaluate(s, q)
    assert evaluation.flagged == found.predict(s, q).sum()
    assert evaluation.status == "found"
    assert evaluation.precision_hat > 0.7


# Wrong input.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, q: (s[:40], q[:40]), "40 rows are too few"),
        (lambda s, q: (np.ones_like(s), q), "s is constant"),
        (lambda s, q: (s, s), "s and q are equal"),
        (
            lambda s, q: (s, np.column_stack([q, s[:, 2]])),
            "column 2 of s and column 4 of q hold the same values",
        ),
        (lambda s, q: (s, q[:-1]), "row i of both"),
    ],
)
def test_wrong_input_is_one_line(change, words):
    s, q, _ = plant_rows(200)
    with pytest.raises(InputError, match=words):
        coad.find(*change(s, q), lenses=FAST)


@pytest.mark.parametrize("number", [0, 99, "1", True, 1.5])
def test_a_finding_that_does_not_exist_is_one_line(plant, number):
    with pytest.raises(InputError, match="there is no finding"):
        plant[3].copy().decide(number, "event")


def test_wrong_settings_are_one_line(plant):
    s, q, _, found = plant
    with pytest.raises(InputError, match="a decision is"):
        found.copy().decide(1, "perhaps")
    with pytest.raises(InputError, match="no lens 'glasses'"):
        coad.find(s, q, lenses=["glasses"])
    with pytest.raises(InputError, match="max_rare"):
        coad.find(s, q, max_rare=0.9)
    with pytest.raises(NotFittedError):
        coad.Findings().predict(s, q)


# Folders and tables.


def test_a_folder_keeps_findings_and_decisions(plant, tmp_path):
    s, q, _, fitted = plant
    found = fitted.copy().decide(2, "normal")
    found.save(tmp_path / "run")
    again = coad.load(tmp_path / "run")
    assert isinstance(again, coad.Findings)
    assert str(again.table) == str(found.table)
    assert again.headline == found.headline
    assert [one.why for one in again] == [one.why for one in found]
    for one, other in zip(again.score_rows(s, q), found.score_rows(s, q), strict=True):
        assert np.array_equal(one, other)
    assert again.evaluate(s, q) == found.evaluate(s, q)


def test_a_scorer_that_gives_other_scores_is_refused():
    s, q, _ = plant_rows(300)
    found = coad.find(s, q, ordered=False, lenses=["tails"])
    facts, arrays = found.lenses_["tails"].to_facts()
    arrays["ladder_s"] = arrays["ladder_s"] * 1.1
    with pytest.raises(FileError, match="gives other scores"):
        TailLens.from_facts(facts, arrays)


def test_detectors_of_pyod_join_the_panel_and_are_kept_with_the_model(tmp_path):
    pytest.importorskip("pyod")
    s, q, event = _tails_that_only_hbos_sees()
    found = coad.find(s, q, ordered=False, lenses=["tails"], scorers=["pyod:HBOS"])
    choice = found.lenses_["tails"].choice
    assert "pyod:HBOS" in (choice.scorer_s, choice.scorer_q)
    assert found[1].flagged
    assert event[found[1].rows].mean() > 0.5
    found.save(tmp_path / "run")
    again = coad.load(tmp_path / "run")
    assert again.scorers == ["pyod:HBOS"]
    assert np.array_equal(again.predict(s, q), found.predict(s, q))
    assert not list((tmp_path / "run").rglob("*.pkl"))


def _tails_that_only_hbos_sees():
    """Events at an empty place between two columns of rows."""
    rng = np.random.default_rng(0)
    s, q = (np.sign(rng.normal(size=(1500, 1))) * rng.uniform(2, 3, size=(1500, 1)) for _ in range(2))
    s[:40], q[:40] = rng.normal(0, 0.1, size=(2, 40, 1))
    return s, q, np.arange(1500) < 40


@pytest.mark.parametrize(
    ("scorers", "lenses", "message"),
    [
        (["pyod:NoSuch"], ["tails"], "PyOD has no detector 'NoSuch'"),
        (["pyod:os"], ["tails"], "PyOD has no detector 'os'"),
        (["forest"], ["tails"], "there is no scorer 'forest'"),
        ([object()], ["tails"], "there is no scorer"),
        (["pyod:ECOD"], ["clusters"], "tried by the lens 'tails'"),
    ],
)
def test_a_scorer_that_cannot_be_is_refused(scorers, lenses, message):
    pytest.importorskip("pyod")
    s, q, _ = plant_rows(100)
    with pytest.raises(InputError, match=message):
        coad.find(s, q, ordered=False, lenses=lenses, scorers=scorers)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda x: np.full(len(x), np.nan), "that are no numbers"),
        (lambda x: x[:, 99], "could not be fitted"),
    ],
)
def test_a_detector_that_fails_on_the_features_ends_in_one_line(score, message):
    s, q, _ = plant_rows(100)
    lens = TailLens()
    lens.references = [np.asarray(x, dtype=np.float32) for x in (s, q)]
    lens.makers["pyod:Made"] = lambda x, seed: score
    with pytest.raises(InputError, match=message):
        lens._fitted(0, "pyod:Made")


def test_a_detector_that_gives_other_scores_at_each_fit_cannot_be_saved():
    s, q, _ = plant_rows(100)
    lens = TailLens()
    lens.references = [np.asarray(x, dtype=np.float32) for x in (s, q)]
    rng = np.random.default_rng(0)
    lens.makers["pyod:Made"] = lambda x, seed: lambda rows: rng.random(len(rows))
    lens.choice = _Choice(1.0, "pyod:Made", "neighbours", 0.9, 0.9)
    with pytest.raises(InputError, match="cannot be saved; find without it"):
        lens.to_facts()


def test_the_table_prints_and_converts(plant):
    *_, found = plant
    text = str(found.table)
    assert text.splitlines()[0].split()[:3] == ["#", "rows", "share"]
    assert "first seen" not in text
    assert len(text.splitlines()) == len(found) + 1
    frame, arrow = found.table.to_pandas(), found.table.to_arrow()
    assert len(frame) == arrow.num_rows == len(found.table)
    assert list(frame.index) == arrow["number"].to_pylist() == [one.number for one in found.table]
    assert str(FindingTable([])) == "no findings"


# The parts, against slow and obvious versions.


def test_oddness_is_the_percentile_of_the_distance_to_the_kth_neighbour():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, size=(60, 2)).astype(np.float32)  # ties and twins
    odd = Oddness.fit(x, rare=0.1, rng=rng)
    rows = np.concatenate([x[:10], rng.normal(size=(5, 2)).astype(np.float32)])
    assert np.allclose(odd(rows), naive_findings.oddness(odd.reference.astype(float), odd.neighbours, rows))


def test_margins_compare_with_the_nearest_other_cluster():
    rng = np.random.default_rng(0)
    distance = rng.integers(0, 6, size=(40, 5)).astype(float)
    home = np.array([0, 1, 1, 3, 3])
    assert np.array_equal(_margins(distance, home, 4), naive_findings.margins(distance, home, 4))


def test_holm_is_holm():
    p = np.random.default_rng(0).random(20) ** 3
    assert np.allclose(holm(p), naive_findings.holm(p.tolist()))


def test_features_do_not_depend_on_units_and_are_scaled_within_a_context():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    context = np.arange(300) % 2
    plain = InputFeatures.fit(rows)(rows)
    assert np.allclose(plain, InputFeatures.fit(rows * 1000)(rows * 1000), atol=1e-4)
    moved = rows + 50 * context[:, None].astype(np.float32)
    made = InputFeatures.fit(moved, context)(moved, context)
    assert np.abs(made[context == 0].mean(0) - made[context == 1].mean(0)).max() < 0.2


def test_one_wild_value_does_not_outweigh_all_others():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    before = InputFeatures.fit(rows)(rows)
    rows[0, 0] = -9999
    after = InputFeatures.fit(rows)(rows)
    assert abs(after[1:].std() / before[1:].std() - 1) < 0.1


def test_score_rises_with_oddness_evidence_and_stability_and_falls_with_size():
    base = score_of(0.05, 0.8, 0.5, 0.5)
    assert score_of(0.05, 0.9, 0.5, 0.5) > base < score_of(0.05, 0.8, 0.9, 0.5)
    assert score_of(0.05, 0.8, 0.5, 0.9) > base > score_of(0.3, 0.8, 0.5, 0.5)
    assert 0 <= score_of(1.0, 0.0, -3.0, 0.0) <= score_of(0.0, 1.0, 1.0, 1.0) <= 1


@pytest.mark.parametrize("name", PANEL)
def test_every_scorer_puts_far_rows_above_the_bulk(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    score = PANEL[name](x, 0)
    far = score(np.full((1, 3), 6.0, dtype=np.float32))[0]
    assert far > np.quantile(score(x), 0.99)


def test_tail_thresholds_flag_at_most_the_rare_share():
    rng = np.random.default_rng(0)
    rank = rng.random(2000)
    choice = _best_thresholds("a", "b", rank, np.clip(rank + 0.01 * rng.normal(size=2000), 0, 1), 0.05)
    assert choice is not None
    assert ((rank >= choice.threshold_s) & (rank >= choice.threshold_q)).mean() <= 0.05
