"""The catalogue of coincident modes: what it finds, what it refuses, and that it stays the same on disk."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import naive_modes
import numpy as np
import pytest
import torch
from makers import assert_counts_what_score_tells, rows_around_axes
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_validate

import coad
from coad import CoAD, CoincidenceModes
from coad.exceptions import CoadWarning, FileError, InputError, NoCoincidenceWarning, NotFittedError
from coad.learned.net_spec import NetSpec
from coad.learned.training.model import Blueprint
from coad.modes.folds import FOLDS
from coad.modes.objective import chance_table, joint_table, mutual_information, table_loss
from coad.modes.training import backward, build


def random_votes(seed, n=40, k=3, members=1):
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.ones(k), size=(2, members, n))
    return torch.from_numpy(a), torch.from_numpy(b), rng


@pytest.mark.parametrize("seed", range(3))
def test_tables_and_their_values_agree_with_loops(seed):
    a, b, rng = random_votes(seed)
    context = rng.integers(0, 3, size=a.shape[1])
    weight = torch.ones(a.shape[:2], dtype=a.dtype)
    p = joint_table(a, b, weight)
    e = chance_table(a, b, weight, torch.from_numpy(context))
    slow_p, slow_e = (
        naive_modes.table(a[0].tolist(), b[0].tolist()),
        naive_modes.chance(a[0].tolist(), b[0].tolist(), context.tolist()),
    )
    np.testing.assert_allclose(p[0], slow_p)
    np.testing.assert_allclose(e[0], slow_e)
    assert mutual_information(p, e).item() == pytest.approx(naive_modes.information(slow_p, slow_e))


def test_weak_coincidence_of_two_modes_has_the_information_that_the_objective_states():
    mu_s, mu_q, c = 0.3, 0.1, 1e-3
    joint = mu_s * mu_q + c
    p = torch.tensor([[[joint, mu_s - joint], [mu_q - joint, 1 - mu_s - mu_q + joint]]], dtype=torch.float64)
    e = p.sum(2)[:, :, None] * p.sum(1)[:, None, :]
    expected = c**2 / (2 * mu_s * (1 - mu_s) * mu_q * (1 - mu_q))
    assert mutual_information(p, e).item() == pytest.approx(expected, rel=0.02)


def test_micro_batches_give_the_gradient_of_the_whole_batch():
    blueprint = Blueprint(NetSpec(hidden=(6,)), (3,))
    s, q = torch.randn(2, 64, 3, generator=torch.Generator().manual_seed(0))
    weight = torch.ones(2, 64)
    found = []
    for micro in (None, 10):
        duo = build((blueprint, blueprint), [0, 1], 4).train()

        def loss(z_s, z_q, index):
            return table_loss(z_s.softmax(-1), z_q.softmax(-1), weight[:, index], None)

        backward(duo, s, q, torch.arange(64), loss, micro)
        found.append([p.grad.clone() for p in duo.parameters() if p.grad is not None])
    assert len(found[0]) == len(found[1]) == 6
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_regimes_and_the_rare_kind_are_found_without_labels(fitted_modes):
    det, s, q, kind = fitted_modes
    label = det.predict_mode(s, q)
    for k in range(3):
        values, counts = np.unique(label[kind == k], return_counts=True)
        assert counts.max() > 0.9 * (kind == k).sum()
        assert values[counts.argmax()] >= 0
    assert [mode.role for mode in det.modes_] == ["rare", "regime", "regime"]
    rare = det.modes_[0]
    assert rare.precision_hat > 0.8
    assert rare.p_value < 1e-6
    assert rare.stability > 0.8
    assert rare.reason == "odd in both inputs"
    assert (kind[list(rare.exemplars)] == 2).all()
    flagged = det.predict(s, q)
    assert flagged[kind == 2].mean() > 0.9
    assert flagged[kind < 2].mean() < 0.02
    score = det.score_samples(s, q)
    assert score[kind == 2].min() > np.median(score[kind < 2])
    assert 0 <= score.min() <= score.max() <= 1


def test_held_out_confidences_are_those_of_networks_that_did_not_see_the_row(fitted_modes):
    det, s, q, kind = fitted_modes
    held = det.held_out_confidences_
    assert [x.shape for x in held] == [(len(s), len(det.sizes_))] * 2
    arrays = s.astype(np.float32), q.astype(np.float32)
    each = []
    for nets in det.layer_.nets:
        one = replace(det.layer_, nets=[nets])
        each.append(one.pooled(one.groups(arrays, None)))
    each = np.stack(each)  # (folds, sides, n, modes)
    assert len(each) == FOLDS
    same = np.isclose(each, np.stack(held)[None], atol=1e-6).all((1, 3))
    assert same.any(0).all(), "each row has the confidences of one fold's networks"
    np.testing.assert_allclose(det.mode_confidences(s, q), each.mean(0), atol=1e-6)
    vote = held[0].argmax(1)
    best = max((vote[kind == 2] == mode.mode).mean() for mode in det.modes_)
    assert best > 0.9


def test_the_table_counts_the_rows_that_score_tells(fitted_modes):
    assert_counts_what_score_tells(*fitted_modes[:3])


def test_a_mode_is_rare_up_to_the_size_that_is_asked_for(fitted_modes):
    det, s, q, _ = fitted_modes
    assert all(mode.role == ("rare" if mode.size <= det.max_rare else "regime") for mode in det.modes_)
    every = CoincidenceModes(steps=40, n_starts=2, max_rare=0.5, random_state=0).fit(s, q)
    assert len(every.modes_.rare) >= 2


def test_rows_whose_inputs_disagree_have_no_mode(fitted_modes):
    det, s, q, kind = fitted_modes
    a, b = s[kind == 0][:100], q[kind == 1][:100]
    assert (det.predict_mode(a, b) == -1).mean() > 0.9
    assert not det.predict(a, b).any()


def test_another_seed_and_more_threads_give_the_same_catalogue(fitted_modes, two_threads):
    det, s, q, _ = fitted_modes
    other = CoincidenceModes(steps=80, random_state=7).fit(s, q)
    assert len(other.modes_) == len(det.modes_)
    for one, two in zip(det.modes_, other.modes_, strict=True):
        assert one.size == pytest.approx(two.size, abs=0.01)


def test_the_same_seed_gives_the_same_numbers(fitted_modes):
    det, s, q, _ = fitted_modes
    again = clone(det).fit(s, q)
    assert again.modes_ == det.modes_
    np.testing.assert_array_equal(again.score_samples(s, q), det.score_samples(s, q))


def test_a_person_may_overrule_the_role(fitted_modes):
    shared, s, q, _ = fitted_modes
    det = copy.deepcopy(shared)
    number = det.modes_[0].mode
    det.set_role(number, "ignore")
    assert not det.predict(s, q).any()
    assert det.modes_[0].reason == "set by hand"
    assert det.score_samples(s, q).max() == 0
    with pytest.raises(InputError, match="there is no mode 99"):
        det.set_role(99, "rare")
    with pytest.raises(InputError, match="role must be"):
        det.set_role(number, "odd")


def test_a_saved_catalogue_says_the_same(fitted_modes, tmp_path):
    det, s, q, _ = fitted_modes
    det.save(tmp_path / "model")
    back = coad.load(tmp_path / "model")
    assert isinstance(back, CoincidenceModes)
    assert back.modes_ == det.modes_
    np.testing.assert_allclose(back.score_samples(s, q), det.score_samples(s, q), atol=1e-6)
    facts = json.loads((tmp_path / "model" / "model.json").read_text())
    facts["sizes"][0] = 0.5
    (tmp_path / "model" / "model.json").write_text(json.dumps(facts))
    with pytest.raises(FileError, match="changed"):
        coad.load(tmp_path / "model")


def test_discovered_regimes_serve_as_context_of_the_binary_method(fitted_modes, tmp_path):
    det, s, q, kind = fitted_modes
    s, q = s[kind < 2], q[kind < 2]  # the rare kind itself would be the stronger event
    rng = np.random.default_rng(3)
    event = rng.random(len(s)) < 0.06
    s, q = s + 2.5 * event[:, None] * [0, 0, 0, 1], q - 2.5 * event[:, None] * [0, 0, 0, 1]
    model = CoAD(context=det, epochs=60, n_starts=2, random_state=0).fit(s, q)
    assert set(model.contexts_) == {mode.mode for mode in det.modes_ if mode.role == "regime"}
    flagged = model.predict(s, q)
    assert flagged[event].mean() > 0.7
    assert flagged[~event].mean() < 0.1
    assert model.evaluate(s, q).precision_hat > 0.5
    model.save(tmp_path / "model")
    np.testing.assert_allclose(
        coad.load(tmp_path / "model").score_samples(s, q), model.score_samples(s, q), atol=1e-6
    )
    with pytest.raises(InputError, match="takes a CoincidenceModes"):
        CoAD(context="regime").fit(s, q)


@pytest.mark.parametrize("seed", range(3))
def test_independent_noise_has_an_empty_catalogue(seed):
    s, q = np.random.default_rng(seed).normal(size=(2, 500, 3))
    with pytest.warns(NoCoincidenceWarning, match="no coincident modes"):
        det = CoincidenceModes(steps=40, n_starts=2, random_state=seed).fit(s, q)
    assert len(det.modes_) == 0
    assert (det.predict_mode(s, q) == -1).all()
    assert not det.predict(s, q).any()
    assert not det.score_samples(s, q).any()
    assert repr(det.modes_) == "no coincident modes"


@pytest.mark.slow
def test_slow_inputs_that_share_nothing_have_no_modes():
    walks = np.random.default_rng(0).normal(size=(2, 1200, 4)).cumsum(axis=1)
    with pytest.warns(NoCoincidenceWarning, match="shifted in time may do as well"):
        CoincidenceModes(steps=80, n_starts=3, random_state=0).fit(*walks)


def test_waveforms_and_a_known_context_are_accepted():
    rng = np.random.default_rng(0)
    kind = rng.random(400) < 0.3
    wave = np.sin(np.arange(32))
    s, q = (rng.normal(size=(400, 1, 32)) + 3 * kind[:, None, None] * wave for _ in range(2))
    det = CoincidenceModes(steps=60, n_starts=3, random_state=0, n_modes=4)
    context = np.arange(400) % 2
    det.fit(coad.Pairs(s, q, context=context))
    label = det.predict_mode(s, q, context)
    assert len(det.modes_) >= 2
    best = max((label == mode.mode)[kind].mean() for mode in det.modes_)
    assert best > 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_modes": 1}, "at least 2 modes"),
        ({"n_modes": 100}, "too few for 100 modes"),
        ({"max_rare": 0.0}, "max_rare"),
        ({"n_starts": 0}, "n_starts"),
    ],
    ids=["one mode", "too many modes", "max_rare", "no seeds"],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    s, q, _ = rows_around_axes()
    with pytest.raises(InputError, match=message):
        CoincidenceModes(**settings).fit(s, q)


def test_data_that_cannot_work_are_refused():
    s, q, _ = rows_around_axes()
    with pytest.raises(InputError, match="same"):
        CoincidenceModes().fit(s, s)
    with pytest.warns(CoadWarning) as caught:
        CoincidenceModes(steps=2, n_starts=2, batch_size=100, random_state=0).fit(s, s[:, :2] - 2 * s[:, 2:])
    text = " ".join(str(one.message) for one in caught)
    assert "s determines q exactly" in text
    assert "use batch_size of 800 or more" in text
    with pytest.raises(InputError, match="constant"):
        CoincidenceModes().fit(np.zeros_like(s), q)
    with pytest.raises(InputError, match="few values"):
        CoincidenceModes().fit(s, q, context=np.arange(len(s)))
    with pytest.raises(InputError, match="at least 100"):
        CoincidenceModes().fit(s[:50], q[:50])
    with pytest.raises(NotFittedError):
        CoincidenceModes().predict(s, q)
    copied = np.column_stack([s, s[:, 0], np.ones(len(s))])
    with pytest.warns(CoadWarning) as caught:
        CoincidenceModes(steps=2, n_starts=2, random_state=0).fit(copied, q)
    text = " ".join(str(one.message) for one in caught)
    assert "repeat another" in text
    assert "1 constant column " in text


def test_the_score_is_fbeta_hat_and_serves_model_selection(fitted_modes):
    det, s, q, _ = fitted_modes
    assert det.score(s, q) == det.evaluate(s, q).fbeta_hat > 0.5
    assert clone(det).set_params(n_modes=2).get_params()["n_modes"] == 2
    with config_context(enable_metadata_routing=True):
        one = CoincidenceModes(steps=40, n_starts=2, random_state=0)
        one.set_fit_request(q=True).set_score_request(q=True)
        found = cross_validate(one, s, cv=2, params={"q": q}, error_score="raise")
    assert found["test_score"].shape == (2,)
    assert (found["test_score"] > 0.3).all()
