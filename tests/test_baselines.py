"""Every peer learns: losses fall, weights move, and planted anomalies rank above normal rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from coad.core.labels import best_f1, f1
from coad.data.pairs import Pairs
from coad.exceptions import InputError, NotFittedError
from coad.research.baselines.base import OneInput, TwoInputs, as_series, stacked
from coad.research.baselines.registry import METHODS, chosen_methods
from coad.research.baselines.rows import Rows, Sides
from coad.research.baselines.strategies import judge_pair, run_one_input, run_two_inputs

ONE = [name for name, method in METHODS.items() if method.kind == "one input"]
DEEP_ONE = ["vae", "svdd", "dghl", "omnianomaly"]
PAIRED = ["dcca", "dmca", "snn"]


def series(n: int = 400, planted: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two channels that are a sine of random phase; planted rows are flat noise of the same size."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, (n, 1, 1))
    time = np.linspace(0, 4 * np.pi, 24)[None, None, :]
    x = np.sin(time + phase + np.array([0.0, 1.0])[None, :, None]) + 0.1 * rng.normal(size=(n, 2, 24))
    odd = np.arange(n) < planted
    x[odd] = 2.0 * rng.normal(size=(planted, 2, 24))
    return x.astype(np.float32), odd


def coincident(n: int = 600, rate: float = 0.15, seed: int = 0, scattered: bool = False) -> Pairs:
    """Flat rows: an event moves three columns of each input, or scatters rows so far that no density fits them."""
    rng = np.random.default_rng(seed)
    s, q = rng.normal(size=(2, n, 5)).astype(np.float32)
    if scattered:
        label = rng.random(n) < rate / 3  # rare, or a component of a mixture is spent on them
        s[label] *= 6
        q[label] *= 6
        return Pairs(s, q, label=label)
    label = rng.random(n) < rate
    s[label, :3] += 3
    q[label, :3] -= 3
    return Pairs(s, q, label=label)


def auc(score: np.ndarray, odd: np.ndarray) -> float:
    return float((score[odd][:, None] > score[~odd][None, :]).mean())


@pytest.mark.parametrize("name", ONE)
def test_planted_anomalies_rank_above_normal_rows(name):
    x, odd = series()
    method = METHODS[name].make(0, True, {})
    if hasattr(method, "epochs"):
        method.epochs, method.batch_size = 8, 64
    method.fit(x[~odd] if name == "vae-healthy" else x)
    assert isinstance(method, OneInput)
    score = method.score(x)
    assert score.shape == (len(x),)
    assert np.isfinite(score).all()
    assert auc(score, odd) > 0.9


@pytest.mark.parametrize("name", DEEP_ONE)
def test_the_loss_falls_and_the_weights_move(name):
    x, _ = series(200, 0)
    method = METHODS[name].make(0, True, {})
    method.epochs = 8
    method.batch_size = 32
    method.fit(x)
    assert method.losses_[-1] < method.losses_[0] - 0.02 * abs(method.losses_[0])
    assert method.moved_ > 0.02


@pytest.mark.parametrize("name", DEEP_ONE)
def test_the_same_seed_gives_the_same_scores(name):
    x, _ = series(80, 0)
    first, second = (METHODS[name].make(3, True, {}).fit(x).score(x) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", PAIRED)
def test_two_networks_learn_what_both_inputs_share(name):
    pairs = coincident()
    method = METHODS[name].make(0, True, {})
    method.epochs, method.least_steps = 25, 0
    assert isinstance(method, TwoInputs)
    method.fit(pairs.s, pairs.q, pairs.label if name == "snn" else None)
    assert np.mean(method.losses_[-3:]) < np.mean(method.losses_[:2])
    assert method.moved_ > 0.02
    new = coincident(seed=1)
    for score in method.scores(new.s, new.q):
        assert auc(score, new.label) > 0.9


def test_few_rows_are_seen_more_often_so_that_probabilities_are_learned():
    """Stopped after a few steps, the supervised networks rank well but call next to nothing anomalous."""
    pairs, new = coincident(300, rate=0.6), coincident(600, rate=0.6, seed=1)
    enough, few = (METHODS["snn"].make(0, False, {}) for _ in range(2))
    few.least_steps = 0
    found = [
        f1(new.label, one.fit(pairs.s, pairs.q, pairs.label).predict(new.s, new.q)) for one in (enough, few)
    ]
    assert found[0] > 0.95
    assert found[1] < 0.8


def test_joint_scores_of_pyod_rank_planted_anomalies():
    pairs = coincident()
    method = METHODS["multimodal"].make(0, True, {}).fit(pairs.s, pairs.q)
    assert auc(method.scores(pairs.s, pairs.q)[0], pairs.label) > 0.9
    assert 0.1 < method.predict(pairs.s, pairs.q).mean() < 0.25  # the contamination that it was told


def test_the_expert_rule_finds_simulated_events_and_refuses_other_data():
    from coad.research.datasets.rf_station import simulate

    data = simulate(500, 1).pairs
    rows = Sides(data[:350], data[350:]).scaled
    (judged,) = run_two_inputs(METHODS["expert"].make(0, True, {}), rows, labels=True)
    assert judged.own is not None
    assert judged.own > 0.75
    flat = coincident()
    with pytest.raises(InputError, match="RF windows"):
        METHODS["expert"].make(0, True, {}).fit(flat.s, flat.q, flat.label)


@pytest.mark.parametrize("name", ["iforest", "vae", "multimodal", "dcca", "expert"])
def test_a_method_that_is_not_fitted_says_so(name):
    method = METHODS[name].make(0, True, {})
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(NotFittedError):
        method.scores(x, x) if hasattr(method, "scores") else method.score(x)


def test_supervised_networks_refuse_data_without_labels():
    pairs = coincident(100)
    with pytest.raises(InputError, match="labels"):
        METHODS["snn"].make(0, True, {}).fit(pairs.s, pairs.q)


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_best_f1_over_pairs_equals_trying_all_pairs(ties):
    rng = np.random.default_rng(4)
    s, q = rng.normal(size=(2, 60))
    if ties:
        s, q = np.round(s), np.round(q)
    truth = rng.random(60) < 0.6  # a majority: the best pair flags more than half
    slow = max(f1(truth, (s >= a) & (q >= b)) for a, b in itertools.product(s, q))
    assert best_f1(truth, s, q) == pytest.approx(slow)
    others = max(f1(truth, ~((s >= a) & (q >= b))) for a in s for b in q)
    assert best_f1(truth, s, q, rest=True) == pytest.approx(others)
    assert best_f1(truth, s) == pytest.approx(max(f1(truth, s >= a) for a in s))


def test_stacking_keeps_every_number_and_stretches_the_shorter_series():
    s, q = np.arange(6.0).reshape(2, 1, 3), np.arange(24.0).reshape(2, 2, 6)
    both = stacked(s, q)
    assert both[0].tolist() == [[0, 0, 1, 1, 2, 2], *q[0].tolist()]
    with pytest.raises(InputError, match="row by row"):
        stacked(s, q[:1])


def test_long_series_are_averaged_and_keep_their_end():
    x = np.arange(10.0).reshape(1, 1, 10)
    assert as_series(x, 4).tolist() == [[[2.0, 5.0, 8.0]]]


def test_a_gaussian_mixture_ranks_rows_between_its_clusters_above_all_others():
    """One Gaussian has its largest density there: only a mixture that was really fitted can rank them high."""
    from sklearn.mixture import GaussianMixture

    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3)).astype(np.float32)
    odd = np.arange(600) < 12
    x[:, 0] += np.where(rng.random(600) < 0.5, 8.0, -8.0)
    x[odd] = 0.3 * rng.normal(size=(12, 3))
    score = METHODS["gmm"].make(0, True, {}).fit(x[~odd]).score(x)
    assert auc(score, odd) > 0.99
    # The loss, −log-likelihood of a normal row, is below that of the one Gaussian from which nothing was learned.
    single = -GaussianMixture(1).fit(x[~odd]).score_samples(x)
    assert score[~odd].mean() < single[~odd].mean() - 0.5
    assert auc(single, odd) < 0.2


def test_one_input_methods_give_both_strategies_and_all_columns():
    pairs = coincident(scattered=True)
    rows = Sides(pairs[:400], pairs[400:]).scaled
    first, second = run_one_input(lambda: METHODS["gmm"].make(0, True, {}), rows)
    assert (first.strategy, second.strategy) == ("Score & Stack", "Stack & Score")
    for judged in (first, second):
        assert judged.own is not None
        assert judged.best is not None
        assert judged.own <= judged.best
        assert judged.average_precision > 0.9
    assert first.ours is not None
    assert first.ours <= first.best
    assert second.ours is None  # one score has no pair of thresholds


def test_labels_of_test_rows_do_not_move_the_threshold_without_labels():
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 1000))
    label = np.arange(1000) < 150
    s[label] += 5
    q[label] += 5
    assert judge_pair((s, q), (s, q), label, own=None).ours > 0.9
    # The same flags judged by the opposite labels: had labels chosen them, F1 would be high again.
    assert judge_pair((s, q), (s, q), ~label, own=None).ours < 0.1
    assert judge_pair((s, q), (s, q), None, own=None).best is None


def test_a_method_without_a_sign_is_judged_by_the_better_side_where_labels_judge():
    rng = np.random.default_rng(0)
    label = rng.random(400) < 0.1
    s, q = (rng.normal(size=(400, 2)) - 6 * label[:, None] for _ in range(2))  # events are low
    pairs = Pairs(s.astype(np.float32), q.astype(np.float32), label=label)

    class Projection:
        sign_is_free = False

        def fit(self, s, q, label=None, group=None):
            return self

        def scores(self, s, q):
            return s[:, 0].astype(float), q[:, 0].astype(float)

        def predict(self, s, q):
            return None

    (signed,) = run_two_inputs(Projection(), Rows(pairs, pairs), labels=False)
    Projection.sign_is_free = True
    (free,) = run_two_inputs(Projection(), Rows(pairs, pairs), labels=False)
    assert signed.best < 0.4
    assert free.best > 0.95
    assert free.ours == signed.ours  # without labels nothing may turn it


def test_an_unknown_method_is_answered_with_the_nearest_names():
    with pytest.raises(InputError, match="nearest is omnianomaly"):
        chosen_methods(["omnianomly"], "rf", regimes=False, labelled=True)
    with pytest.raises(InputError, match="there are all, coad"):
        chosen_methods(["zzzzzz"], "rf", regimes=False, labelled=True)


def test_all_leaves_out_what_the_data_cannot_have():
    names = {m.name for m in chosen_methods(["all"], "digits", regimes=False, labelled=False)}
    assert names.isdisjoint({"expert", "snn", "vae-healthy", "coad-plain"})
    assert {"coad", "modes", "ocsvm", "dghl"} <= names
    assert "modes" not in {m.name for m in chosen_methods(["all"], "rf", regimes=False, labelled=True)}
    assert [m.name for m in chosen_methods(["modes"], "rf", regimes=False, labelled=True)] == ["modes"]
    assert [m.name for m in chosen_methods(["snn"], "digits", regimes=False, labelled=False)] == ["snn"]


def test_principal_components_are_found_once_a_split_and_change_nothing(monkeypatch):
    from coad.research.baselines import rows as module

    rng = np.random.default_rng(0)
    pairs = Pairs(*rng.normal(size=(2, 300, 3, 50)).astype(np.float32), label=rng.random(300) < 0.1)
    alone = [METHODS[name].make(0, True, {}) for name in ("iforest", "gmm")]
    sides = Sides(pairs[:200], pairs[200:])
    train, test = sides.scaled.train, sides.scaled.test
    own = [method.fit(train.q).score(test.q) for method in alone]

    calls = []
    real = module.principal
    monkeypatch.setattr(module, "principal", lambda x, seed: calls.append(x.shape) or real(x, seed))
    together = [METHODS[name].make(0, True, {}) for name in ("iforest", "gmm")]
    shared = [method.fit(sides.reduced.train.q).score(sides.reduced.test.q) for method in together]
    assert calls == [(200, 150), (200, 150), (200, 300)]
    np.testing.assert_allclose(shared, own)


def test_two_networks_hold_a_group_out_as_a_whole():
    group = np.repeat(np.arange(10), 20)
    method = METHODS["dmca"].make(0, True, {})
    train, held = method._held_out(200, group)
    assert set(group[train]).isdisjoint(group[held])
    assert len(held) == 40
    train, held = method._held_out(200, np.zeros(200))  # one group cannot be held out
    assert len(held) == 40
