"""Explanations add up, point at the right place, and survive the deletion test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coad import Pairs
from coad.events.attribution import part_numbers
from coad.events.explain import deletion_test, explain, healthy_baseline
from coad.exceptions import InputError
from coad.learned.estimator import CoAD

N, EVENTS = 500, 50


def made(shape):
    """Noise, with an event at a known place: channel 1, and there points 8 to 12 (or a patch)."""
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, N, *shape)).astype(np.float32)
    place = (slice(0, EVENTS), 1, *[slice(8, 13)] * (len(shape) - 1))
    s[place] += 3
    q[place] -= 3
    return s, q


SHAPES = {"table": (4,), "windows": (3, 24), "images": (2, 16, 16)}


@pytest.fixture(scope="module", params=SHAPES, ids=list(SHAPES))
def fitted(request):
    s, q = made(SHAPES[request.param])
    det = CoAD(n_starts=2, epochs=30, random_state=0).fit(s, q)
    flags = det.predict(s, q)
    assert flags[:EVENTS].mean() > 0.8  # or there is nothing to explain
    return det, s, q, np.flatnonzero(flags[:EVENTS])


@pytest.mark.parametrize("method", ["gradients", "shapley"])
def test_shares_add_up_to_the_logit(fitted, method):
    det, s, q, events = fitted
    rows = events[:8]
    why = explain(det, s[rows], q[rows], method=method, samples=2, segments=4)
    p_s, p_q = det.confidences(s[rows], q[rows])
    for side, p in ((why.s, p_s), (why.q, p_q)):
        np.testing.assert_allclose(1 / (1 + np.exp(-side.logit)), p, atol=1e-5)
        moved = np.abs(side.logit - side.baseline_logit)
        assert (side.error <= 0.02 * np.maximum(moved, 0.01) + 1e-4).all()
        assert side.values.shape == s[rows].shape


@pytest.mark.parametrize("method", ["gradients", "shapley"])
def test_the_place_of_the_event_is_named(fitted, method):
    det, s, q, events = fitted
    why = explain(det, s[events], q[events], method=method, samples=4, segments=16)
    for side in (why.s, why.q):
        assert side.channel_importance.argmax() == 1
        assert (side.per_time is None) == (s.ndim == 2)  # a table has no time
        if side.per_time is not None:
            mean = side.per_time.mean(0)
            inside = mean[(slice(8, 13),) * mean.ndim].sum()
            assert inside > 0.5 * mean.sum()


def test_deleting_what_is_named_lowers_p_more_than_chance(fitted):
    det, s, q, events = fitted
    test = deletion_test(det, s[events], q[events], fraction=0.25, segments=16)
    assert test.share >= 0.9
    assert test.random_drop.shape == (len(events), 20)


def test_a_wrong_explanation_fails_the_deletion_test(fitted):
    det, s, q, events = fitted
    why = explain(det, s[events], q[events])
    wrong = replace(why, s=replace(why.s, values=-why.s.values), q=replace(why.q, values=-why.q.values))
    assert deletion_test(det, s[events], q[events], explanation=wrong, segments=16).share < 0.3


def test_contexts_and_names_are_used():
    s, q = made((4,))
    context = np.arange(N) % 2
    s = s + 50 * context[:, None].astype(np.float32)  # the regime's level is no reason
    det = CoAD(n_starts=2, epochs=60, random_state=0).fit(s, q, context=context)
    names = tuple("abcd")
    pairs = Pairs(s, q, context=context, s_names=names, q_names=names)
    why = explain(det, pairs[:EVENTS])
    assert np.mean([why.s.top_channels(row, 1)[0][0] == "b" for row in range(EVENTS)]) > 0.8
    assert why.s.channel_importance[1] > 2 * np.delete(why.s.channel_importance, 1).max()


def test_pairs_and_tables_are_explained_like_arrays_and_name_their_columns():
    pandas = pytest.importorskip("pandas")
    s, q = made((4,))
    det = CoAD(n_starts=1, epochs=40, random_state=0).fit(s, q)
    s, q, names = s[:5], q[:5], tuple("abcd")
    expected, test = explain(det, s, q), deletion_test(det, s, q)
    tables = [pandas.DataFrame(x, columns=list(names)) for x in (s, q)]
    for given in (tables, [Pairs(s, q, s_names=names, q_names=names)]):
        why = explain(det, *given)
        np.testing.assert_array_equal(why.s.values, expected.s.values)
        assert why.s.names == why.q.names == names
        np.testing.assert_array_equal(deletion_test(det, *given).drop, test.drop)


def test_the_median_of_healthy_rows_is_a_baseline(fitted):
    det, s, q, events = fitted
    base = healthy_baseline(det, s, q)
    why = explain(det, s[events], q[events], baseline=base)
    np.testing.assert_allclose(why.baseline[0], base[0], rtol=1e-6)
    assert np.abs(base[0]).max() < 0.5


def test_parts_cover_each_point_once_and_are_of_about_equal_size():
    for shape, segments in (((5,), 20), ((3, 50), 20), ((2, 12, 10), 9), ((1, 7), 20)):
        parts = part_numbers(shape, segments)
        sizes = np.bincount(parts.ravel())
        assert parts.shape == shape
        assert sizes.min() > 0
        assert sizes.max() <= 2 * sizes.min()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lime"}, "gradients"),
        ({"baseline": (np.zeros(2), np.zeros(9))}, "shape"),
        ({"steps": 0}, "steps"),
    ],
    ids=["method", "baseline", "steps"],
)
def test_bad_options_are_refused(fitted, options, message):
    det, s, q, _ = fitted
    with pytest.raises(InputError, match=message):
        explain(det, s[:3], q[:3], **options)
