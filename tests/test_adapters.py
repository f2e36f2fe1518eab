"""coad among scikit-learn's tools, PyOD's detectors, and tables of pandas, Polars and Arrow."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from makers import event_rows
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

import coad
from coad.adapters import PyODDetector
from coad.exceptions import CoadWarning, InputError, NotFittedError

NAMES = ["motor_a", "motor_b", "vib_x", "vib_y"]


def forests(**settings):
    """Thresholds over a forest for each input."""
    forest = IsolationForest(n_estimators=20, random_state=0)
    return coad.CoincidenceThreshold(forest, forest, **{"n_permutations": 20, "ordered": False} | settings)


def columns(detector=None, **more):
    return coad.ColumnDetector(detector or forests(), **{"s": "motor_*", "q": "vib_*"} | more)


@pytest.fixture(scope="module")
def plant():
    """(table with an index of times, which rows are events)."""
    s, q, event = event_rows(600, (2,), rate=0.08, shift=(4, 4))
    index = pd.date_range("2025-01-01", periods=600, freq="min", name="t")
    return pd.DataFrame(np.column_stack([s, q]), columns=NAMES, index=index), event


@pytest.fixture(scope="module")
def detectors(plant, two_column_model):
    """A fitted detector of each kind, and one of several β."""
    table, _ = plant
    s, q = table[NAMES[:2]].to_numpy(), table[NAMES[2:]].to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        return (
            s,
            q,
            [
                forests().fit(s, q),
                two_column_model,
                coad.CoAD(beta=[0.5, 2], n_starts=1, epochs=3, random_state=0).fit(s, q).at(2),
                coad.find(s, q, ordered=False, lenses=["clusters"]),
                coad.CoincidenceModes(steps=20, n_starts=2, random_state=0).fit(s, q),
            ],
        )


def test_the_detector_of_one_table_passes_scikit_learns_checks():
    from sklearn.utils.estimator_checks import check_estimator

    forest = IsolationForest(n_estimators=5, random_state=0)
    thresholds = coad.CoincidenceThreshold(forest, forest, n_permutations=0, ordered=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(coad.ColumnDetector(thresholds, s=[0]), on_fail=None)
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed
    assert sum(one["status"] == "passed" for one in found) >= 45


@pytest.mark.parametrize("kind", [coad.CoAD, coad.CoincidenceModes, coad.CoincidenceThreshold, coad.Findings])
def test_constructors_only_store_and_parameters_can_be_set(kind):
    det = kind()
    values = det.get_params(deep=False)
    for name, value in values.items():
        sentinel = object()
        assert getattr(kind(**{name: sentinel}), name) is sentinel
        assert det.set_params(**{name: value}) is det
    assert clone(det).get_params(deep=False) == values
    assert set(vars(kind())) == set(values)
    with pytest.raises(ValueError, match="Invalid parameter 'contamination'"):
        det.set_params(contamination=0.1)


def test_fitted_detectors_survive_the_users_pickle(detectors):
    s, q, fitted = detectors
    for det in fitted:
        again = pickle.loads(pickle.dumps(det))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)
            before, after = det.score_rows(s, q), again.score_rows(s, q)
        assert np.array_equal(before.score, after.score)
        assert np.array_equal(before.flag, after.flag)
        assert again.rule_.to_dict() == det.rule_.to_dict()


def test_a_clone_of_a_fitted_detector_is_not_fitted(detectors):
    s, q, fitted = detectors
    for det in fitted:
        with pytest.raises(NotFittedError):
            clone(det).predict(s, q)


def test_both_inputs_are_routed_as_metadata(plant):
    table, _ = plant
    s, q = table[NAMES[:2]].to_numpy(), table[NAMES[2:]].to_numpy()
    load = np.arange(600) % 2
    order = np.random.default_rng(0).permutation(600)
    with sklearn.config_context(enable_metadata_routing=True):
        det = forests().set_fit_request(q=True, context=True).set_score_request(q=True, context=True)
        found = cross_validate(det, s[order], params={"q": q[order], "context": load[order]}, cv=3)
        search = GridSearchCV(det, {"beta": [0.5, 1.0]}, cv=2).fit(s[order], q=q[order], context=load[order])
    assert found["test_score"].min() > 0.5
    assert search.best_params_["beta"] in (0.5, 1.0)


def test_one_table_works_in_pipelines_and_model_selection(plant):
    table, event = plant
    shuffled = table.sample(frac=1, random_state=0)
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), columns())
    assert cross_val_score(pipe, shuffled, cv=3).min() > 0.5
    search = GridSearchCV(columns(), {"detector__beta": [0.1, 1.0], "q": ["vib_*", "vib_x"]}, cv=2).fit(
        shuffled
    )
    assert search.best_score_ > 0.5
    assert search.best_estimator_.detector_.beta == search.best_params_["detector__beta"]
    assert roc_auc_score(event, pipe.fit(table).score_samples(table)) > 0.95


def test_set_output_keeps_the_index_and_joins_other_features(plant):
    table, event = plant
    union = FeatureUnion([("scaled", StandardScaler()), ("odd", columns())]).set_output(transform="pandas")
    out = union.fit_transform(table)
    assert out.index.equals(table.index)
    assert out.columns[-4:].tolist() == ["odd__p_s", "odd__p_q", "odd__score", "odd__flagged"]
    assert out.loc[event, "odd__flagged"].mean() > 0.8
    polars = columns().set_output(transform="polars").fit(table).transform(pl.from_pandas(table))
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == ["p_s", "p_q", "score", "flagged"]


def test_tables_of_every_kind_give_the_same_and_keep_their_kind(plant):
    table, event = plant
    det = columns().fit(table)
    expected = det.score_table(table)
    assert list(det.feature_names_in_) == NAMES
    assert expected.index.equals(table.index)
    assert expected.loc[event, "flagged"].mean() > 0.8
    assert expected["flagged"].dtype == bool
    for other in (pl.from_pandas(table), pa.Table.from_pandas(table, preserve_index=False)):
        out = det.score_table(other)
        assert type(out) is type(other)
        assert np.array_equal(np.asarray(out["score"]), expected["score"])
        again = columns().fit(other)
        assert np.array_equal(again.score_samples(other), expected["score"])
    with pytest.raises(InputError, match="score_table takes a table, not a ndarray"):
        coad.ColumnDetector(forests(), s=[0, 1]).fit(table.to_numpy()).score_table(table.to_numpy())


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_detectors_of_two_inputs_take_two_tables_of_any_kind(plant, kind):
    table, _ = plant
    make = {"pandas": lambda x: x, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}[kind]
    s, q = make(table[NAMES[:2]].reset_index(drop=True)), make(table[NAMES[2:]].reset_index(drop=True))
    arrays = table[NAMES[:2]].to_numpy(), table[NAMES[2:]].to_numpy()
    found = coad.find(s, q, ordered=False, lenses=["clusters"])
    assert found.names_s_ == ("motor_a", "motor_b")
    assert np.array_equal(found.score_samples(s, q), found.score_samples(*arrays))
    with pytest.raises(InputError, match="column 0 of s is 'vib_x'"):
        found.predict(q, s)


def test_context_comes_from_a_column_and_the_rest_is_q(plant):
    table, _ = plant
    mixed = table.assign(load=np.where(np.arange(600) % 2, "high", "low"))
    det = coad.ColumnDetector(
        coad.Findings(ordered=False, lenses=["clusters"]), s="motor_*", context="load"
    ).fit(mixed)
    assert det.detector_.contexts_ == ["high", "low"]
    assert det.detector_.names_q_ == ("vib_x", "vib_y")
    s, q = mixed[NAMES[:2]], mixed[NAMES[2:4]]
    assert np.array_equal(det.predict(mixed), det.detector_.predict(s, q, mixed["load"]))
    assert det.evaluate(mixed).n_rows == 600
    assert det.score(mixed) == det.evaluate(mixed).fbeta_hat


def test_wrong_columns_are_refused_in_a_line(plant):
    table, _ = plant
    with pytest.raises(InputError, match="did you mean 'motor_"):
        columns(s="moter_*").fit(table)
    with pytest.raises(InputError, match="in both s and q"):
        columns(q="*").fit(table)
    with pytest.raises(InputError, match="no column is left for q"):
        columns(s="*", q=None).fit(table)
    with pytest.raises(ValueError, match="feature names should match"):
        columns().fit(table).predict(table.rename(columns={"vib_x": "other"}))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        columns().predict(table)


def test_pyods_detectors_score_and_coad_is_one_of_them(plant):
    from pyod.models.ecod import ECOD

    table, event = plant
    X = table.to_numpy()
    det = PyODDetector(coad.CoincidenceThreshold(ECOD(), ECOD(), ordered=False), s=[0, 1]).fit(X)
    inner = det.columns_.detector_
    assert np.array_equal(det.labels_, inner.predict(X[:, :2], X[:, 2:]).astype(int))
    assert np.array_equal(det.predict(X), det.labels_)
    assert np.array_equal(det.labels_ == 1, det.decision_scores_ >= det.threshold_)
    assert det.labels_[event].mean() > 0.7
    assert roc_auc_score(event, det.decision_function(X)) > 0.95
    assert det.predict_proba(X).shape == (600, 2)
    _, confidence = det.predict(X, return_confidence=True)
    assert np.isfinite(confidence).all()
    assert clone(det).get_params()["s"] == [0, 1]


def test_a_pyod_detector_of_any_kind_flags_what_the_detector_flags(detectors):
    s, q, fitted = detectors
    X = np.column_stack([s, q])
    for inner in (coad.Findings(ordered=False, lenses=["clusters"]), fitted[1].at(1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)
            det = PyODDetector(inner, s=[0, 1]).fit(X)
            assert det.labels_.sum() > 0
            assert np.array_equal(det.labels_ == 1, det.columns_.predict(X))


def test_a_pyod_detector_that_finds_nothing_flags_nothing():
    X = np.random.default_rng(0).normal(size=(500, 2))
    det = PyODDetector(coad.CoincidenceThreshold()).fit(X)
    assert det.columns_.status_ == "no coincidence"
    assert det.labels_.sum() == 0
    assert np.isfinite(det.decision_scores_).all()


@pytest.mark.parametrize("kind", [coad.CoAD, coad.CoincidenceModes, coad.CoincidenceThreshold, coad.Findings])
def test_every_detector_of_two_inputs_routes_what_its_methods_take(kind):
    from sklearn.utils.metadata_routing import get_routing_for_object

    more = {} if kind is coad.CoincidenceThreshold else {"group": True}  # it holds no rows out
    with sklearn.config_context(enable_metadata_routing=True):
        det = kind().set_fit_request(q=True, context=True, **more).set_score_request(q=True, context=True)
        routed = get_routing_for_object(det)
        assert routed.consumes("fit", ["q", "context", "group", "weight"]) == {"q", "context", *more}
        assert routed.consumes("score", ["q", "context"]) == {"q", "context"}
        with pytest.raises(TypeError, match="sample_weight"):
            det.set_fit_request(sample_weight=True)


def test_fitted_adapters_survive_the_users_pickle(plant):
    table, event = plant
    X = table.to_numpy()
    for det, rows in ((columns().fit(table), table), (PyODDetector(forests(), s=[0, 1]).fit(X), X)):
        again = pickle.loads(pickle.dumps(det))
        assert np.array_equal(again.predict(rows), det.predict(rows))
        assert again.predict(rows)[event].mean() > 0.7


@pytest.mark.parametrize("index", ["repeated", "levels", "shuffled"])
def test_any_index_of_a_table_is_kept(plant, index):
    table, _ = plant
    other = {
        "repeated": pd.Index(np.arange(600) // 3, name="shift"),
        "levels": pd.MultiIndex.from_arrays(
            [np.arange(600) // 100, np.arange(600) % 100], names=["day", "n"]
        ),
        "shuffled": pd.Index(np.random.default_rng(0).permutation(600)),
    }[index]
    det = columns().fit(table)
    out = det.score_table(table.set_axis(other))
    assert out.index.equals(other)
    assert out.index.names == other.names
    assert np.array_equal(out["score"], det.score_table(table)["score"])


def plain_module():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def skorch_net():
    skorch = pytest.importorskip("skorch")
    import torch

    class Narrow(torch.nn.Module):
        def __init__(self, width=3):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(2, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
            )

        def forward(self, x):
            return self.layers(x).squeeze(-1)

    return skorch.NeuralNet(Narrow, criterion=torch.nn.MSELoss, module__width=8)


@pytest.mark.parametrize(
    "make", [lambda: plain_module(), lambda: plain_module, skorch_net, lambda: (plain_module(), skorch_net())]
)  # fmt: skip
def test_modules_of_the_user_and_skorch_nets_learn_what_coincides(plant, make):
    table, event = plant
    s, q = table[NAMES[:2]].to_numpy(), table[NAMES[2:]].to_numpy()
    net = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = coad.CoAD(net=net, n_starts=2, epochs=40, random_state=0, ordered=False).fit(s, q)
    assert roc_auc_score(event, det.score_samples(s, q)) > 0.9
    assert clone(det).net is not None
