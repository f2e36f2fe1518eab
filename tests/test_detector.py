"""CoincidenceThreshold: scikit-learn manners, both sign conventions, re-tuning without refitting."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coad import CoincidenceThreshold, Pairs
from coad.exceptions import InputError, NotFittedError


@pytest.fixture(scope="module")
def data():
    """Two inputs of four features; 4 % of the rows are far out in both."""
    rng = np.random.default_rng(0)
    label = rng.random(1500) < 0.04
    s, q = rng.normal(size=(2, 1500, 4))
    s[label] += rng.choice([-4, 4], size=(label.sum(), 4))
    q[label] += rng.choice([-4, 4], size=(label.sum(), 4))
    return s, q, label


@pytest.mark.parametrize(
    "scorer",
    [
        IsolationForest(random_state=0),
        GaussianMixture(2, random_state=0),
        KernelDensity(),
        LocalOutlierFactor(novelty=True),
        lambda x: np.abs(x).sum(1),
    ],
    ids=lambda scorer: type(scorer).__name__,
)
def test_scorers_of_either_sign_find_the_coincident_rows(data, scorer):
    s, q, label = data
    det = CoincidenceThreshold(scorer, scorer).fit(s, q)
    flags = det.predict(s, q)
    assert det.status_ == "found"
    assert label[flags].mean() > 0.6
    assert flags[label].mean() > 0.5
    score = det.score_samples(s, q)
    assert score[label].mean() > 2 * score[~label].mean()
    assert score.min() >= 0
    assert score.max() <= 1


def test_pyod_detectors_are_taken_as_high_is_anomalous(data):
    pyod = pytest.importorskip("pyod.models.hbos")
    s, q, label = data
    det = CoincidenceThreshold(pyod.HBOS(), IsolationForest(random_state=0)).fit(s, q)
    assert label[det.predict(s, q)].mean() > 0.6


@pytest.mark.parametrize("name", ["knn.KNN", "ecod.ECOD", "gmm.GMM", "kde.KDE"])
def test_unfitted_pyod_detectors_of_many_kinds_are_fitted(data, name):
    module, kind = name.split(".")
    models = pytest.importorskip(f"pyod.models.{module}")
    s, q, label = data
    det = CoincidenceThreshold(getattr(models, kind)(), IsolationForest(random_state=0)).fit(s, q)
    assert label[det.predict(s, q)].mean() > 0.5


def test_a_pipeline_is_judged_by_its_last_step(data):
    s, q, label = data
    pipe = make_pipeline(StandardScaler(), IsolationForest(random_state=0))
    det = CoincidenceThreshold(pipe, pipe).fit(100 * s, q)
    assert label[det.predict(100 * s, q)].mean() > 0.6


def test_orientation_does_not_turn_a_detector_that_is_known(data):
    s, q, label = data
    det = CoincidenceThreshold(
        lambda x: -np.abs(x).sum(1), IsolationForest(random_state=0), orientation="low"
    )
    assert label[det.fit(s, q).predict(s, q)].mean() > 0.6


def test_a_failed_first_fit_leaves_the_detector_unfitted():
    det = CoincidenceThreshold()
    with pytest.raises(InputError, match="only 9"):
        det.fit(np.arange(9.0), np.arange(9.0))
    with pytest.raises(NotFittedError):
        det.predict(np.arange(9.0), np.arange(9.0))


def test_a_failed_fit_leaves_the_old_thresholds(data):
    s, q, label = data
    scores = np.abs(s).sum(1), np.abs(q).sum(1)
    det = CoincidenceThreshold().fit(*scores)
    before = det.predict(*scores)
    assert label[before].mean() > 0.6
    with pytest.raises(InputError, match="only 9"):
        det.fit(np.arange(9.0), np.arange(9.0))
    assert det.status_ == "found"
    np.testing.assert_array_equal(det.predict(*scores), before)


def test_fitted_scorers_are_used_as_they_are_and_unfitted_ones_are_cloned(data):
    s, q, _ = data
    fitted, fresh = IsolationForest(random_state=0).fit(s[:200]), IsolationForest(random_state=0)
    det = CoincidenceThreshold(fitted, fresh).fit(s, q)
    assert det.scorer_s_ is fitted
    assert det.scorer_q_ is not fresh
    assert not hasattr(fresh, "estimators_")


def test_it_clones_and_reports_its_parameters():
    det = CoincidenceThreshold(IsolationForest(), None, beta=3.0, alpha=0.1)
    copy = clone(det)
    assert copy.get_params()["beta"] == 3.0
    assert copy.set_params(beta=2.0).beta == 2.0


def test_tune_moves_the_thresholds_without_refitting(data):
    s, q, _ = data
    det = CoincidenceThreshold(IsolationForest(random_state=0), IsolationForest(random_state=1)).fit(s, q)
    scorer, few = det.scorer_s_, det.tune(beta=0.1).predict(s, q).sum()
    many = det.tune(beta=10).predict(s, q).sum()
    assert few < many
    assert det.scorer_s_ is scorer
    assert det.result_.beta == 10


def test_thresholds_can_be_set_by_hand(data):
    s, q, _ = data
    det = CoincidenceThreshold(lambda x: x[:, 0], lambda x: x[:, 0]).fit(s, q).set_threshold(0.0, 0.5)
    assert (det.predict(s, q) == ((s[:, 0] >= 0) & (q[:, 0] >= 0.5))).all()
    assert not det.set_threshold(np.inf, 0).predict(s, q).any()
    with pytest.raises(InputError, match="must be a number"):
        det.set_threshold(float("nan"), 0)


def test_orientation_can_be_said_and_must_be_where_it_is_unknown(data):
    s, q, _ = data

    class Odd:
        def fit(self, x):
            self.mean_ = x.mean(0)
            return self

        def decision_function(self, x):
            return -np.abs(x - self.mean_).sum(1)

    with pytest.raises(InputError, match="which end of Odd's score"):
        CoincidenceThreshold(Odd().fit(s), Odd().fit(q)).fit(s, q)
    det = CoincidenceThreshold(Odd().fit(s), Odd().fit(q), orientation="low").fit(s, q)
    assert det.status_ == "found"


def test_misuse_is_answered_clearly(data):
    s, q, _ = data
    with pytest.raises(NotFittedError, match="call fit"):
        CoincidenceThreshold().predict(s[:, 0], q[:, 0])
    with pytest.raises(InputError, match="s has 1,500 rows and q has 1,499"):
        CoincidenceThreshold().fit(s[:, 0], q[:-1, 0])
    with pytest.raises(InputError, match="one score per row"):
        CoincidenceThreshold().fit(s, q)
    with pytest.raises(InputError, match="novelty=True"):
        CoincidenceThreshold(LocalOutlierFactor().fit(s), LocalOutlierFactor().fit(q)).fit(s, q)
    with pytest.raises(InputError, match="orientation must be"):
        CoincidenceThreshold(orientation="up").fit(s[:, 0], q[:, 0])
    with pytest.raises(InputError, match="detector with fit"):
        CoincidenceThreshold(scorer_s=3).fit(s[:, 0], q[:, 0])


def test_a_failed_refit_keeps_the_old_scorers_too(data):
    s, q, _ = data
    det = CoincidenceThreshold(IsolationForest(random_state=0), IsolationForest(random_state=0)).fit(s, q)
    before, flags = det.scorer_s_, det.predict(s, q)
    with pytest.raises(InputError, match="rows"):
        det.fit(s, q[:-1])
    assert det.scorer_s_ is before
    np.testing.assert_array_equal(det.predict(s, q), flags)


def test_pairs_stand_in_for_two_inputs_and_score_is_the_value_of_the_thresholds(data):
    s, q, _ = data
    pairs = Pairs(s, q)
    det = CoincidenceThreshold(KernelDensity(), KernelDensity()).fit(pairs)
    np.testing.assert_array_equal(det.predict(pairs), det.predict(s, q))
    assert det.score(pairs) == det.score(s, q) == pytest.approx(det.result_.fbeta_hat)
