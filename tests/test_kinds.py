"""Kinds of events: found, told again on new rows, dismissed."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from coad.data.pairs import Pairs
from coad.events.kinds import KindModel, find_kinds, fit_kinds
from coad.exceptions import InputError
from coad.learned.estimator import CoAD
from coad.workflows.model_folder import load

N = 900


def made(seed=0):
    """Two kinds of events, 60 rows of the one and 30 of the other, in different channels."""
    rng = np.random.default_rng(seed)
    s, q = rng.normal(size=(2, N, 5)).astype(np.float32)
    kind = np.full(N, -1)
    kind[:60], kind[60:90] = 0, 1
    s[kind == 0, 0] += 6
    q[kind == 0, 1] -= 6
    s[kind == 1, 3] -= 6
    q[kind == 1, 4] += 6
    return s, q, kind


@pytest.fixture(scope="module")
def fitted():
    s, q, kind = made()
    det = CoAD(n_starts=2, epochs=60, random_state=0, ordered=False).fit(s, q)
    return det.set_threshold(0.5), s, q, kind  # p_s·p_q: few accidents among the events


def test_kinds_are_those_that_were_made(fitted):
    det, s, q, kind = fitted
    found = find_kinds(det, s, q)
    true = kind[found.rows]
    assert (true >= 0).mean() > 0.9
    assert found.n_kinds == 2
    assert adjusted_rand_score(true[true >= 0], found.label[true >= 0]) > 0.9
    assert found.stability > 0.7
    assert found.sizes[0] >= found.sizes[1]
    assert found.of_row(N).shape == (N,)


def test_new_events_are_told_by_the_same_kinds(fitted):
    det, s, q, _ = fitted
    found = find_kinds(det, s, q, n_resamples=0)
    from coad.events.kind_features import event_features

    new_s, new_q, new_kind = made(seed=1)
    rows = np.flatnonzero(det.predict(new_s, new_q) & (new_kind >= 0))
    again = found.model.assign(event_features(det, new_s[rows], new_q[rows]))
    assert adjusted_rand_score(new_kind[rows], again) > 0.8
    back = KindModel.from_dict(found.model.to_dict())
    np.testing.assert_array_equal(back.assign(event_features(det, new_s[rows], new_q[rows])), again)


def both(features):
    """Numbers of s and of q, by turns."""
    return features[:, ::2], features[:, 1::2]


def test_one_cloud_is_one_kind_and_what_is_far_away_is_noise():
    rng = np.random.default_rng(0)
    features = both(rng.normal(size=(300, 6)))
    model, agreement = fit_kinds(features, 6, 0)
    assert len(model.means) == 1
    assert set(agreement) == {1, 2, 3, 4, 5, 6}
    assert (model.assign(features) == 0).mean() > 0.97
    assert (model.assign(both(np.full((3, 6), 9.0))) == -1).all()


@pytest.mark.parametrize("spread", ["normal", "uniform"])
def test_a_size_that_both_inputs_see_does_not_cut_one_kind_in_parts(spread):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 6))
    features[:, :2] += 6 * (rng.normal(size=(400, 1)) if spread == "normal" else rng.random((400, 1)))
    model, _ = fit_kinds(both(features), 6, 0)
    assert len(model.means) == 1


def test_what_both_inputs_agree_on_makes_the_kinds_and_not_what_is_louder():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 400)
    features = rng.normal(size=(400, 40))
    features[:, :4] += 4 * rng.normal(size=(3, 4))[true]
    # Louder, and in each input by itself.
    features[:, 10:20:2] += 9 * rng.integers(0, 2, (400, 1))
    features[:, 11:20:2] += 9 * rng.integers(0, 2, (400, 1))
    model, _ = fit_kinds(both(features), 8, 0)
    assert adjusted_rand_score(true, model.assign(both(features))) > 0.9


def test_kinds_that_differ_in_one_input_alone_are_found_where_nothing_is_shared():
    rng = np.random.default_rng(0)
    true = np.arange(200) % 2
    features = rng.normal(size=(200, 6))
    features[:, [0, 2]] += 9 * true[:, None]
    model, _ = fit_kinds(both(features), 6, 0)
    assert adjusted_rand_score(true, model.assign(both(features))) > 0.95


@pytest.mark.parametrize("n", [2, 3, 20])
def test_few_events_are_one_kind(n):
    features = both(np.random.default_rng(n).normal(size=(n, 30)))
    model, _ = fit_kinds(features, 10, 0)
    assert len(model.means) == 1
    assert np.isfinite(model.project(features)).all()


def test_events_that_are_all_alike_are_one_kind():
    features = both(np.ones((100, 8)))
    model, _ = fit_kinds(features, 10, 0)
    assert len(model.means) == 1
    assert (model.assign(features) == 0).all()


@pytest.mark.parametrize("n_kinds", [2, 3, 4])
def test_the_number_of_kinds_comes_from_the_data(n_kinds):
    rng = np.random.default_rng(n_kinds)
    true = np.repeat(np.arange(n_kinds), 80)
    features = rng.normal(size=(len(true), 5)) + 9 * rng.normal(size=(n_kinds, 5))[true]
    model, _ = fit_kinds(both(features), 8, 0)
    assert adjusted_rand_score(true, model.assign(both(features))) > 0.95


def test_a_dismissed_kind_is_no_longer_flagged_and_the_other_stays(fitted, tmp_path):
    det, s, q, kind = fitted
    det = det.at(1.0)
    found = find_kinds(det, s, q, n_resamples=0)
    first = int(np.bincount(found.of_row(N)[kind == 0] + 1).argmax()) - 1
    alpha, before = det.rule_.alpha, det.predict(s, q)
    det.dismiss(first, s, q)
    gone = before & (found.of_row(N) == first)
    assert 50 < gone.sum() < 75
    share = (before & ~gone).sum() / before.sum()
    assert det.rule_.alpha == pytest.approx(alpha * share * N / (~gone).sum())
    flags = det.predict(s, q)
    assert flags[kind == 0].mean() < 0.1
    assert flags[kind == 1].mean() > 0.8
    new_s, new_q, new_kind = made(seed=2)
    assert det.predict(new_s, new_q)[new_kind == 0].mean() < 0.15
    det.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(new_s, new_q), det.predict(new_s, new_q))


def test_refitting_without_a_dismissed_kind_finds_the_next(fitted):
    det, s, q, kind = fitted
    det = det.at(1.0)
    found = find_kinds(det, s, q, n_resamples=0)
    det.dismiss(int(np.bincount(found.of_row(N)[kind == 0] + 1).argmax()) - 1)
    new = det.refit(s, q)
    assert new.rule_.dismissed == ()
    assert new.predict(s, q)[kind == 1].mean() > 0.8


@pytest.mark.filterwarnings("ignore::coad.exceptions.NoCoincidenceWarning")  # a short training
@pytest.mark.parametrize("form", ["pandas", "polars", "pairs", "lists"])
def test_kinds_are_found_and_dismissed_in_any_form_of_input(form):
    s, q, _ = made()
    expected = CoAD(n_starts=1, epochs=20, random_state=0, ordered=False).fit(s, q)
    det = copy.deepcopy(expected)
    if form in ("pandas", "polars"):
        frame = pytest.importorskip(form).DataFrame
        names = [f"c{i}" for i in range(5)]
        given = tuple(frame(dict(zip(names, x.T, strict=True))) for x in (s, q))
        if form == "pandas":  # an index that is not the row number
            given = tuple(x.set_index(np.arange(N)[::-1]) for x in given)
    else:
        given = (Pairs(s, q),) if form == "pairs" else (s.tolist(), q.tolist())
    kinds, reference = (find_kinds(one, *x, n_resamples=0) for one, x in ((det, given), (expected, (s, q))))
    np.testing.assert_array_equal(kinds.label, reference.label)
    det.dismiss(0, *given)
    expected.dismiss(0, s, q)
    np.testing.assert_array_equal(det.predict(*given), expected.predict(s, q))
    np.testing.assert_array_equal(det.is_dismissed(*given), expected.is_dismissed(s, q))
    assert det.refit(*given).alpha_ == expected.refit(s, q).alpha_


def test_dismissing_what_is_not_there_is_refused(fitted):
    det, s, q, _ = fitted
    det = det.at(1.0)
    det.kinds_ = None
    with pytest.raises(InputError, match="no kind was dismissed"):
        det.refit(s, q)
    with pytest.raises(InputError, match="find_kinds"):
        det.dismiss(0)
    find_kinds(det, s, q, n_resamples=0)
    with pytest.raises(InputError, match="no kind 9"):
        det.dismiss(9)


def test_a_handful_of_odd_events_is_noise_and_no_kind():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(154, 4))
    features[:50] += 20
    features[150:] -= 40
    model, _ = fit_kinds(both(features), 6, 0)
    assert len(model.means) == 2
    assert (model.assign(both(features[150:])) == -1).all()


def test_nothing_flagged_cannot_be_sorted(fitted):
    det, s, q, _ = fitted
    with pytest.raises(InputError, match="at least 2 flagged rows"):
        find_kinds(det, s, q, flags=np.zeros(N, bool))


@pytest.mark.parametrize("shape", [(3, 40), (1, 12, 12)], ids=["windows", "images"])
def test_one_shape_in_windows_or_images_is_one_kind(shape):
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 400, *shape)).astype(np.float32)
    s[:60, 0, 2:9] += 4
    q[:60, 0, 2:9] += 4
    det = CoAD(n_starts=1, epochs=15, random_state=0, ordered=False).fit(s, q)
    found = find_kinds(det, s, q, flags=np.arange(400) < 60, n_resamples=2)
    assert found.n_kinds == 1
    assert found.label.tolist() == [0] * 60
