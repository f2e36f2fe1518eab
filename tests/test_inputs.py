"""What estimators take and what they refuse: widths that float32 cannot hold, tables in another order, odd settings."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from makers import rows_around_axes
from scipy.sparse import csr_matrix

pytest.importorskip("torch")

import coad
from coad import CoAD, CoincidenceModes
from coad.exceptions import CoadWarning, InputError, NotFittedError, UnseenContextWarning
from coad.learned.training.inputs import as_pair, as_times


def inputs(offset=0.0, factor=1.0):
    s, q, _ = rows_around_axes((300, 250, 30), width=3)
    return factor * s + offset, q


@pytest.mark.parametrize(("offset", "factor"), [(1e8, 1.0), (1e9, 1.0), (0.0, 1e-200), (-1e12, 1e3)])
@pytest.mark.parametrize("model", [CoincidenceModes(), CoAD()])
def test_a_column_that_float32_cannot_hold_is_refused_with_its_number(model, offset, factor):
    with pytest.raises(
        InputError, match=r"column \d of s goes from .* float32 cannot hold; subtract its mean"
    ):
        model.fit(*inputs(offset, factor))


def test_offsets_that_float32_can_hold_pass_and_so_do_constants_and_a_single_row():
    s, q = inputs(1e5)
    s = np.column_stack([s, np.full(len(s), 0.1 + 1e9)])
    assert as_pair(s, q, least=100)[0].shape == s.shape
    assert as_pair(s[:1] + 1e9, q[:1])[0].shape == (1, 4)


def test_sparse_and_masked_inputs_are_refused():
    s, q = inputs()
    with pytest.raises(InputError, match=r"s\.toarray\(\)"):
        CoincidenceModes().fit(csr_matrix(s), q)
    with pytest.raises(InputError, match="q has masked values"):
        CoincidenceModes().fit(s, np.ma.masked_less(q, 0))


@pytest.mark.parametrize(
    "model", [CoincidenceModes(steps=40, random_state=0), CoAD(epochs=3, n_starts=1, random_state=0)]
)
def test_a_table_must_have_the_columns_of_the_fit_in_their_order_also_after_loading(model, tmp_path):
    s, q = (pd.DataFrame(x, columns=list("abc")) for x in inputs())
    model.fit(s, q)
    assert len(model.predict(s, q)) == len(s)
    assert len(model.predict(s.to_numpy(), q)) == len(s)
    model.save(tmp_path / "model")
    for one in (model, coad.load(tmp_path / "model")):
        with pytest.raises(InputError, match="column 0 of s is 'c', but the model was fitted with 'a' there"):
            one.predict(s[["c", "b", "a"]], q)
    with pytest.raises(InputError, match="column 2 of q is 'nothing'"):
        model.predict(s, q[["a", "b"]])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("steps", -5), ("steps", 2.5), ("steps", 0), ("micro_batch", 0), ("batch_size", -1), ("lr", 0), ("lr", -1.0),
        ("lr", np.nan), ("lr", 1e6), ("jitter", -1), ("jitter", 5), ("significance", 0), ("significance", 2),
        ("max_rare", "a"), ("max_rare", None), ("max_rare", 0), ("n_modes", "x"), ("n_modes", 2.7), ("n_starts", 0),
        ("n_starts", True),
    ],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused_by_name(setting, value):
    with pytest.raises(InputError, match=setting):
        CoincidenceModes(**{setting: value}).fit(*inputs())


def test_time_must_have_a_value_for_each_row():
    s, q = inputs()
    with pytest.raises(InputError, match="time has shape"):
        CoincidenceModes().fit(s, q, time=np.arange(5))
    with pytest.raises(InputError, match="time has missing values"):
        CoincidenceModes().fit(s, q, time=np.full(len(s), np.nan))


def test_nothing_is_said_before_the_fit():
    for name in ("status_", "alpha_"):
        with pytest.raises(NotFittedError):
            getattr(CoincidenceModes(), name)


def test_no_rows_at_all_are_refused_in_words_that_fit():
    s, q = inputs()
    model = CoincidenceModes(steps=40, random_state=0).fit(s, q)
    with pytest.raises(InputError, match="0 rows hold nothing"):
        model.predict(s[:0], q[:0])


def test_text_is_no_number_as_context_and_dates_can_be_saved(tmp_path):
    s, q = inputs()
    days = np.datetime64("2026-01-01") + np.arange(len(s)) % 2
    det = CoincidenceModes(steps=40, n_starts=2, random_state=0).fit(s, q, context=days)
    det.save(tmp_path / "m")
    assert coad.load(tmp_path / "m").contexts_ == ["2026-01-01", "2026-01-02"]
    with pytest.raises(InputError, match="context holds numbers"):
        det.predict(s, q, np.arange(len(s)) % 2)


@pytest.mark.parametrize("model", [CoincidenceModes, CoAD])
def test_missing_groups_and_times_of_text_are_refused(model):
    by = (lambda how: {}) if model is CoincidenceModes else (lambda how: {"split": how})
    s, q = np.random.default_rng(0).normal(size=(2, 200, 2))
    with pytest.raises(InputError, match="group has 100 missing values"):
        model(**by("group")).fit(s, q, group=np.array(["a"] * 100 + [None] * 100, dtype=object))
    for when in (np.arange(200).astype(str), np.array([None] * 200, dtype=object)):
        with pytest.raises(InputError, match="time holds text"):
            model(**by("time")).fit(s, q, time=when)


def test_times_may_be_python_dates():
    when = [datetime(2026, 1, 1 + i // 24, i % 24) for i in range(48)]
    np.testing.assert_array_equal(np.diff(as_times(when, 48)), np.timedelta64(1, "h"))


@pytest.mark.parametrize("function", [lambda s: s**3, lambda s: np.exp(s / 3), lambda s: 2 - s])
@pytest.mark.parametrize("columns", [2, 60])
def test_an_input_that_determines_the_other_is_named_whatever_the_function_and_the_width(function, columns):
    from coad.modes.checks import warn_of_copies

    s = np.random.default_rng(0).normal(size=(200, columns)).astype(np.float32)
    with pytest.warns(CoadWarning, match="determines"):
        warn_of_copies(s, function(s))


def test_regimes_are_not_taken_from_columns_in_another_order():
    rng = np.random.default_rng(0)
    kind = rng.permutation(np.repeat([0, 1], 200))
    s = pd.DataFrame({"a": 6.0 * kind + rng.normal(size=400), "b": rng.normal(size=400)})
    q = pd.DataFrame({"c": 6.0 * kind + rng.normal(size=400), "d": rng.normal(size=400)})
    det = CoincidenceModes(steps=40, n_starts=2, random_state=0).fit(s, q)
    with pytest.raises(InputError, match="column 0 of s"):
        CoAD(context=det, epochs=2, n_starts=1, random_state=0).fit(s[["b", "a"]], q)


@pytest.mark.parametrize(
    "model", [CoincidenceModes(steps=40, random_state=0), CoAD(epochs=3, n_starts=1, random_state=0)]
)
def test_rows_in_contexts_that_training_did_not_see_are_counted_in_a_warning(model, recwarn):
    s, q = inputs()
    context = np.where(np.arange(len(s)) % 2, "day", "night")
    model.fit(s, q, context=context)
    model.predict(s, q, context=context)
    assert not [one for one in recwarn if issubclass(one.category, UnseenContextWarning)]
    context[:7] = "noon"
    with pytest.warns(UnseenContextWarning, match=r"7 of 580 rows .* training did not see \('noon'\)"):
        model.predict(s, q, context=context)
