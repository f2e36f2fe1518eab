from __future__ import annotations

import logging
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from makers import event_rows
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.validation import check_is_fitted
from torch import nn

from coad.core.assessment import RowScores, assess
from coad.core.rule import Rule
from coad.core.validation import check_betas
from coad.events.explain import explain
from coad.exceptions import (
    CoadWarning,
    InputError,
    NoCoincidenceWarning,
    NotFittedError,
    UnseenContextWarning,
)
from coad.learned.estimator import CoAD
from coad.learned.net_spec import Conv, NetSpec, preset
from coad.learned.scaling import MIN_ROWS, Scaler
from coad.learned.training.configure import blueprints_for, settings_for
from coad.learned.training.duo import Duo
from coad.learned.training.heads import near_best
from coad.learned.training.model import Blueprint, StartReport, fold
from coad.thresholds.selection import select_thresholds
from coad.workflows.model_folder import load


def quick(**changes) -> CoAD:
    return CoAD(**{"n_starts": 2, "epochs": 60, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def fitted() -> CoAD:
    s, q, _ = event_rows()
    return quick().fit(s, q)


def test_defaults_find_the_events(fitted):
    s, q, event = event_rows(seed=1)
    flag = fitted.predict(s, q)
    assert flag.dtype == bool
    assert flag[event].mean() > 0.9
    assert flag[~event].mean() < 0.02
    assert fitted.status_ == "found"
    assert 0.05 < fitted.alpha_ < 0.15
    assert "recall head" in fitted.alpha_how_
    assert {r.status for r in fitted.starts_} <= {"ok", "worse optimum", "collapsed"}
    assert any(r.status == "ok" for r in fitted.starts_)


def test_score_is_the_product_and_thresholds_can_be_set_and_tuned(fitted):
    s, q, event = event_rows(seed=1)
    view = fitted.at(1.0)
    p_s, p_q = view.confidences(s, q)
    assert np.array_equal(view.score_samples(s, q), p_s * p_q)
    assert np.array_equal(view.predict(s, q), (p_s >= 0.5) & (p_q >= 0.5))
    assert np.array_equal(view.set_threshold(0.2).predict(s, q), p_s * p_q > 0.2)
    assert np.array_equal(view.set_threshold(p_s=0.3, p_q=0.6).predict(s, q), (p_s > 0.3) & (p_q > 0.6))
    flag = view.tune(s, q, beta=1.0).predict(s, q)
    assert flag[event].mean() > 0.9
    assert flag[~event].mean() < 0.02
    assert np.array_equal(fitted.predict(s, q), (p_s >= 0.5) & (p_q >= 0.5)), (
        "a view must not change its parent"
    )
    with pytest.raises(InputError, match="either product"):
        view.set_threshold(p_s=0.3)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        view.set_threshold(1.5)


def test_evaluation_carries_intervals_and_a_p_value(fitted):
    s, q, event = event_rows(seed=1)
    result = fitted.evaluate(s, q)
    assert result.status == "found"
    assert result.p_value < 0.01
    low, high = result.intervals.joint_fraction
    assert low < result.joint_fraction < high
    assert low < event.mean() * 1.5
    assert result.interval[0] <= result.fbeta_hat <= result.interval[1]
    nothing = fitted.evaluate(s, np.random.default_rng(0).permutation(q))
    assert nothing.status == "no coincidence"


def test_no_more_than_all_events_are_found_where_there_are_more_than_in_training(fitted):
    s, q, event = event_rows(seed=1)
    often = np.concatenate([np.flatnonzero(event)] * 3 + [np.flatnonzero(~event)])
    result = fitted.evaluate(s[often], q[often])
    assert result.alpha > fitted.alpha_
    assert result.recall_hat == 1
    assert max(result.intervals.recall_hat[1], result.interval[1]) <= 1
    given = fitted.at(1.0)  # with a given α, R̂ above 1 shows that there are more events than α
    given.rule_ = replace(given.rule_, alpha_given=True)
    known = given.evaluate(s[often], q[often])
    assert known.alpha == fitted.alpha_
    assert known.recall_hat > 1
    assert known.precision_hat == result.precision_hat


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_independent_inputs_are_said_to_be_so_and_nothing_is_flagged(beta):
    s, q, _ = event_rows(400, rate=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        with pytest.warns(NoCoincidenceWarning, match="nothing will be flagged"):
            model = quick(beta=beta).fit(s, q)
    assert model.status_ == "no coincidence"
    assert not model.predict(s * 10, q * 10).any()


def test_a_list_of_beta_gives_a_detector_for_each():
    s, q, event = event_rows()
    model = quick(beta=[0.3, 1, math.inf]).fit(s, q)
    for beta in (0.3, 1, math.inf):
        flag = model.at(beta).predict(s, q)
        assert flag[event].mean() > 0.9
        assert flag[~event].mean() < 0.05
    with pytest.raises(InputError, match="several beta"):
        model.predict(s, q)
    with pytest.raises(InputError, match="was not trained"):
        model.at(7)


def test_several_beta_are_trained_longer_unless_the_epochs_are_given():
    both = blueprints_for(None, (4,), (4,))

    def epochs(**settings) -> int:
        model = CoAD(**settings)
        return settings_for(model, check_betas(model.beta), 5000, 1000, 0, both)[0].epochs

    assert (epochs(beta=1), epochs(beta=[0.5, 1])) == (80, 87)
    assert epochs(beta=[0.5, 1], epochs=12) == 12


@pytest.mark.parametrize("shape", [(3, 40), (1, 12, 12)])
def test_series_and_images_are_taken_as_they_are(shape, two_threads):
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 300, *shape)).astype(np.float32)
    s[:45] += 1.5
    q[:45] -= 1.5
    model = quick(epochs=50, ordered=False).fit(torch.from_numpy(s), q)
    flag = model.predict(s, q)
    assert flag[:45].mean() > 0.9
    assert flag[45:].mean() < 0.05
    z_s, _ = model.latent(s, q)
    assert z_s.shape[0] == 300


@pytest.mark.parametrize(("shape", "net"), [((4,), None), ((3, 4), NetSpec(hidden=(5,))), ((2, 30), "rf")])
def test_scaling_inside_the_first_layer_changes_no_score(shape, net):
    rng = np.random.default_rng(0)
    s = rng.normal(5, [[3]] if len(shape) == 2 else 3, (200, *shape)).astype(np.float32)
    q = rng.normal(-2, 7, (200, *shape)).astype(np.float32)
    net = (preset("rf")[0], preset("rf")[0]) if net == "rf" else net
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        model = quick(epochs=2, net=net).fit(s, q)
    p_s, p_q = model.confidences(s, q)
    own = model.fitted_[1.0]
    assert None not in own.direct
    assert np.allclose(p_s, own.scorer_s.confidence([model.scaler_s_.transform(s)]), atol=1e-5)
    assert np.allclose(p_q, own.scorer_q.confidence([model.scaler_q_.transform(q)]), atol=1e-5)


def test_frames_and_tensors_give_what_arrays_give(fitted):
    s, q, _ = event_rows(seed=2)
    frame = pd.DataFrame(s, columns=list("abcd"))
    want = fitted.score_samples(s, q)
    assert np.array_equal(fitted.score_samples(frame, torch.from_numpy(q)), want)


def test_users_own_modules_are_trained_and_alpha_is_found_by_a_pilot():
    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))

    s, q, event = event_rows()
    model = quick(net=(net(), net)).fit(s, q)
    assert "first run" in model.alpha_how_
    assert model.predict(s, q)[event].mean() > 0.9


def test_context_is_measured_within_and_unseen_ones_are_scaled_by_the_pool():
    rng = np.random.default_rng(0)
    s, q, event = event_rows(900)
    regime = rng.integers(0, 2, 900)
    # The regime moves both inputs at once: without context it is the strongest coincidence.
    s[:, 0] += 8 * regime
    q[:, 0] += 8 * regime
    model = quick().fit(s, q, context=regime)
    flag = model.predict(s, q, context=regime)
    assert flag[event].mean() > 0.9
    assert flag[~event].mean() < 0.05
    with pytest.warns(UnseenContextWarning, match="900 of 900 rows"):
        assert np.isfinite(model.score_samples(s, q, context=np.full(900, 7))).all()
    with pytest.raises(InputError, match="context"):
        model.predict(s, q)
    assert model.evaluate(s, q, context=regime).status == "found"


def test_scaler_rules():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (200, 2, 5)).astype(np.float32)
    x[:, 1] = 4.0
    scaled = Scaler.fit(x).transform(x)
    assert abs(scaled[:, 0].mean()) < 1e-5
    assert scaled[:, 0].std() == pytest.approx(1, abs=1e-4)
    assert np.abs(scaled[:, 1]).max() < 1e-5
    context = np.array(["a"] * 150 + ["b"] * (50 - MIN_ROWS + 1) + ["c"] * (MIN_ROWS - 1))
    scaler = Scaler.fit(x, context)
    assert scaler.contexts == ("a", "b")
    pooled = Scaler.fit(x).transform(x)
    assert np.allclose(scaler.transform(x, context)[context == "c"], pooled[context == "c"])
    again = Scaler.from_dict(scaler.to_dict())
    assert np.array_equal(again.transform(x, context), scaler.transform(x, context))


def test_same_seed_same_scores_and_the_global_generators_are_untouched():
    s, q, _ = event_rows(200)
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = (quick(epochs=30, batch_size=160).fit(s, q).score_samples(s, q) for _ in range(2))
    assert np.array_equal(one, two)
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_constructor_stores_and_clone_works():
    model = CoAD(beta=[1, 2], net=NetSpec(hidden=(4,)), n_starts=7)
    assert clone(model).get_params() == model.get_params()
    assert CoAD(beta=-5).beta == -5
    with pytest.raises(NotFittedError, match="call fit"):
        model.predict(np.zeros((3, 1)), np.zeros((3, 1)))


def test_fit_goes_on_from_its_checkpoint(tmp_path, caplog):
    s, q, _ = event_rows(200)
    first = quick(epochs=30, checkpoint=tmp_path, batch_size=160).fit(s, q)
    with caplog.at_level(logging.INFO, "coad.learned.training"):
        second = quick(epochs=30, checkpoint=tmp_path, batch_size=160).fit(s, q)
    assert "resumed" in caplog.text
    assert np.array_equal(first.score_samples(s, q), second.score_samples(s, q))
    with pytest.raises(InputError, match="another run"):
        quick(epochs=30, checkpoint=tmp_path, batch_size=160).fit(s + 1, q)


BAD = [
    ("rows", lambda s, q: (s[:-1], q), {}),
    ("too few", lambda s, q: (s[:49], q[:49]), {}),
    ("constant", lambda s, q: (np.ones_like(s), q), {}),
    (r"missing.*row 7", lambda s, q: (np.where(np.arange(len(s))[:, None] == 7, np.nan, s), q), {}),
    ("infinite", lambda s, q: (s, np.where(q > 2, np.inf, q)), {}),
    ("numbers", lambda s, q: (s.astype(str), q), {}),
    ("numbers", lambda s, q: (s.astype(object), q), {}),
    ("shape", lambda s, q: (s[:, :, None, None, None], q), {}),
    ("empty list", lambda s, q: (s, q), {"beta": []}),
    ("ascend", lambda s, q: (s, q), {"beta": [1, 0.5]}),
    ("0 or more", lambda s, q: (s, q), {"beta": math.nan}),
    ("alpha", lambda s, q: (s, q), {"alpha": 0.9}),
    ("one logit", lambda s, q: (s, q), {"net": (nn.Linear(4, 3), nn.Linear(4, 1))}),
    ("pair", lambda s, q: (s, q), {"net": 3}),
    ("group", lambda s, q: (s, q), {"split": "group"}),
]


@pytest.mark.parametrize(("words", "change", "settings"), BAD)
def test_bad_input_is_a_clear_error(words, change, settings):
    s, q, _ = event_rows(200)
    with pytest.raises(InputError, match=words):
        quick(**settings).fit(*change(s, q))


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("epochs", 0, "a whole number of at least 1"), ("epochs", 2.5, "a whole number"),
        ("n_starts", 0, "at least 1"), ("n_starts", 10**30, "at most"), ("n_starts", True, "a whole number"), ("batch_size", 1, "at least 2"),
        ("patience", -1, "at least 1"), ("epoch_size", 0, "at least 2"), ("micro_batch", 0, "at least 1"),
        ("lr", 0, "a number of at least"), ("lr", 5.0, "at most 1"), ("lr", math.nan, "a number"),
        ("lr", "fast", "a number"), ("validation", 1.5, "a fraction between 0 and 1"), ("validation", 0, "a fraction"),
        ("significance", 0, "between 0 and 1"), ("significance", 2, "between 0 and 1"), ("jitter", -1, "at least 0"),
        ("margin", -1, "at least 0"), ("jitter", math.inf, "a number"), ("lambda_mag", None, "a number"), ("schedule", "linear", "one of 'cosine', 'constant'"),
        ("split", "rows", "one of 'random', 'group', 'time'"), ("preset", "fast", "one of 'robust', 'paper'"),
        ("memory_format", "nchw", "one of 'auto', 'default'"), ("precision", "float16", "one of 'auto', 'float32'"),
    ],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_name_at_fit(setting, value, words):
    model = quick(**{setting: value})
    with pytest.raises(InputError, match=f"^{setting} must .*{words}.*, not "):
        model.fit(*event_rows(200)[:2])


def test_score_is_the_f_hat_of_an_evaluation(fitted):
    s, q, _ = event_rows(seed=1)
    assert fitted.score(s, q) == fitted.evaluate(s, q).fbeta_hat > 0.7
    with_context = fitted.evaluate_scores(fitted.score_rows(s, q), np.arange(len(s)) % 2)
    assert fitted.score(s, q, context=np.arange(len(s)) % 2) == with_context.fbeta_hat
    quiet = fitted.at(1.0)
    quiet.confidences = lambda *_, **__: (np.zeros(5), np.zeros(5))
    assert quiet.score(s[:5], q[:5]) == 0.0


def test_model_selection_of_scikit_learn_takes_s_as_x_and_q_as_y():
    s, q, _ = event_rows(450)
    found = cross_val_score(quick(epochs=25, alpha=0.1), s, q, cv=3)
    assert found.shape == (3,)
    assert (found > 0.5).all()
    search = GridSearchCV(quick(epochs=25, alpha=0.1), {"lr": [1e-6, 1e-2]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)  # the small learning rate learns nothing
        search.fit(s, q)
    assert search.best_params_ == {"lr": 1e-2}
    assert search.score(s, q) > 0.5


def test_a_model_that_is_not_fitted_is_one_for_scikit_learn_too(fitted):
    model = CoAD()
    with pytest.raises(InputError):
        model.fit(np.zeros((3, 2)), np.zeros((3, 2)))
    for use in (check_is_fitted, lambda one: one.predict([[0.0]], [[0.0]])):
        with pytest.raises(SklearnNotFittedError):
            use(model)
    check_is_fitted(fitted)


def test_integers_and_small_batches_are_warned_of():
    s, q, _ = event_rows(300)
    with pytest.warns(CoadWarning, match="int64 numbers"):
        quick(epochs=30).fit((s * 100).astype(np.int64), q)
    with pytest.warns(CoadWarning, match=r"has about 1\.\d anomalies"):
        quick(epochs=20, batch_size=16, alpha=0.1).fit(s, q)


def test_new_rows_of_another_shape_are_refused(fitted):
    s, q, _ = event_rows(100)
    with pytest.raises(InputError, match="fitted on"):
        fitted.predict(s[:, :3], q)


def test_a_factor_shared_by_a_third_of_the_rows_is_called_a_regime_and_not_an_anomaly() -> None:
    rng = np.random.default_rng(0)
    regime = rng.random(900) < 0.4
    s, q = rng.normal(size=(2, 900, 3)) + 4 * regime[:, None]
    det = CoAD(epochs=30, n_starts=1, random_state=0).fit(s, q)
    assert det.status_ == "shared regime suspected"
    assert det.evaluate(s, q).status == "shared regime suspected"


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        (NetSpec(hidden=(5,)), (4,)),
        (NetSpec((Conv(3, 3, 2),), (4,)), (2, 16)),
        (NetSpec((Conv(3, 3), Conv(4, 3, 2, 1)), (4,)), (1, 9, 9)),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), (4,)),
    ],
)
def test_members_folded_together_give_the_mean_logit_of_each(source, shape):
    blueprint = Blueprint(source, shape)
    members = []
    for seed in range(3):
        nets = [blueprint.build([number], 2, apart=True) for number in (seed, seed + 9)]
        duo = Duo(*nets, normalised=True)
        duo(*torch.randn(2, 40, *shape))  # running statistics of its own
        members.append({name: value.clone() for name, value in duo.state_dict().items()})
    x = torch.randn(7, *shape)
    for side in "sq":
        settings = {"side": side, "head": 1, "heads": 2, "normalised": True}
        each = [fold(blueprint, [one], **settings).logit(x) for one in members]
        together = fold(blueprint, members, **settings)
        assert torch.allclose(together.logit(x), torch.stack(each).mean(0), atol=1e-5)
        assert not torch.allclose(each[0], each[1], atol=1e-3)
        assert together.latent([x.numpy()]).shape[0] == 7


def test_an_ensemble_includes_only_starts_near_the_best():
    def report(seed, status, f):
        return StartReport(seed, status, f, 1.0, 1.0, 0.1, 0.1, 1, 1)

    table = [report(0, "ok", 0.9), report(1, "worse optimum", 0.82), report(2, "worse optimum", 0.7)]
    assert near_best([*table, report(3, "collapsed", 0.89)], 0) == {0, 1}
    assert near_best([report(4, "collapsed", 0.0)], 4) == {4}


def test_an_ensemble_keeps_every_good_start_and_is_saved_with_them(tmp_path):
    s, q, event = event_rows()
    det = quick(n_starts=3, ensemble=True).fit(s, q)
    good = sum(report.status == "ok" for report in det.starts_)
    own = det.fitted_[1.0]
    assert own.scorer_s.net.members == own.scorer_q.net.members == good > 1
    assert det.predict(s, q)[event].mean() > 0.9
    best = select_thresholds(*det.confidences(s, q), n_permutations=0, background="independent")
    assert own.rule.thresholds == pytest.approx((best.threshold_s, best.threshold_q))
    det.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.ensemble is True
    assert again.fitted_[1.0].ensemble == own.ensemble
    assert len(own.ensemble) == good
    assert np.array_equal(again.score_samples(s, q), det.score_samples(s, q))
    assert np.array_equal(again.latent(s, q)[0], det.latent(s, q)[0])
    found = explain(det, s[:3], q[:3])
    assert np.isfinite(found.s.values).all()


def test_an_evaluation_survives_a_coincidence_of_more_than_half_of_the_rows():
    p = (np.arange(400) % 100 < 53).astype(float)
    found = assess(RowScores(p, p, p, p > 0.5), Rule(1.0, 0.3), significance=0.01, ordered=False)
    assert found.status == "shared regime suspected"
    assert (found.alpha, found.recall_hat, found.interval[1]) == (0.5, 1.0, pytest.approx(1.0))
