"""Curves over β: three versions, each what it says."""

import math

import numpy as np
import pytest

from coad.exceptions import InputError
from coad.research.datasets.synthetic import independent_noise, synthetic_outliers
from coad.research.experiments.synthetic import run_synthetic
from coad.thresholds.curves import beta_scan


@pytest.fixture(scope="module")
def data():
    return synthetic_outliers(5000, random_state=2)


def test_judged_values_are_those_of_the_labels(data):
    (point,) = beta_scan(data.s, data.q, betas=[1], label=data.label)
    flags = (data.s >= point.threshold_s) & (data.q >= point.threshold_q)
    precision, recall = data.label[flags].mean(), flags[data.label].mean()
    assert point.precision == pytest.approx(precision)
    assert point.recall == pytest.approx(recall)
    assert point.fbeta == pytest.approx(2 * precision * recall / (precision + recall))


def test_labels_never_move_an_unsupervised_point(data):
    with_labels = beta_scan(data.s, data.q, betas=[0.3, 3], label=data.label)
    without = beta_scan(data.s, data.q, betas=[0.3, 3])
    assert [p.threshold_s for p in with_labels] == [p.threshold_s for p in without]
    assert without[0].precision is None


def test_no_thresholds_beat_the_supervised_ones(data):
    for beta in (0, 0.2, 1, 5, math.inf):
        (ours,) = beta_scan(data.s, data.q, betas=[beta], label=data.label)
        (best,) = beta_scan(data.s, data.q, betas=[beta], label=data.label, supervised=True)
        assert best.fbeta >= ours.fbeta - 1e-12


def test_the_papers_statements_about_figure_3_hold():
    run = run_synthetic(random_state=1, betas=(0.05, 0.3, 1, 3, 30))
    for ours, rough, best in zip(run.ours, run.naive, run.supervised, strict=True):
        assert best.fbeta - ours.fbeta < 0.1
        assert rough.fbeta_hat < ours.fbeta_hat
        assert ours.precision_hat < ours.precision + 0.06  # lower bounds, up to one draw's noise
        assert ours.recall_hat < ours.recall + 0.08
    gap = max(best.fbeta - ours.fbeta for ours, best in zip(run.ours, run.supervised, strict=True))
    assert f"F within {gap:.3f} for every β" in run.claims()[0]


def test_recall_grows_with_beta(data):
    recalls = [p.recall_hat for p in beta_scan(data.s, data.q)]
    assert (np.diff(recalls) >= -1e-9).all()


def test_scans_refuse_what_they_cannot_do(data):
    with pytest.raises(InputError, match="needs label"):
        beta_scan(data.s, data.q, supervised=True)
    with pytest.raises(InputError, match="two rows of each class"):
        beta_scan(data.s, data.q, label=np.zeros(len(data.s)), supervised=True)
    with pytest.raises(InputError, match="one entry per row"):
        beta_scan(data.s, data.q, label=[1])


def test_scans_of_noise_and_of_nothing_do_not_fail():
    assert beta_scan(*independent_noise(200, random_state=0))
    assert beta_scan(np.arange(20.0), -np.arange(20.0)) == []
