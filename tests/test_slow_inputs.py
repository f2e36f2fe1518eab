"""Independent inputs that drift: neighbouring rows are alike, and two drifts agree now and then by chance."""

import warnings

import numpy as np
import pytest
from makers import event_rows, slow_rows, write_parquet

from coad import CoAD, CoincidenceModes, CoincidenceThreshold, load
from coad.core.assessment import RowScores
from coad.core.runs import RowOrder
from coad.exceptions import CoadWarning, NoCoincidenceWarning
from coad.learned.training.null import NullMaximum, chance_of
from coad.learned.training.split import correlation_length, hold_out
from coad.modes.folds import make_folds

pytestmark = pytest.mark.filterwarnings("ignore::coad.exceptions.CoadWarning")


def quick(**settings):
    return CoAD(**{"n_starts": 2, "epochs": 60, "random_state": 0} | settings)


@pytest.mark.parametrize("coefficient", [0.9, 0.99])
def test_networks_find_nothing_in_inputs_that_drift_apart(coefficient):
    for seed in range(3):
        s, q = slow_rows(1000, coefficient, seed=seed)
        assert quick().fit(s, q).status_ != "found"
    # Rows that are said to be in no order are taken for independent.
    assert quick(ordered=False).fit(*slow_rows(1000, 0.9)).status_ == "found"


#: Ten groups of n rows in time order: pieces that follow each other, and groups that take turns row by row.
GROUPS = {"pieces": lambda n: np.arange(n) * 10 // n, "turns": lambda n: np.arange(n) % 10}


@pytest.mark.parametrize(("kind", "coefficient", "seeds"), [("pieces", 0.99, (0, 6)), ("turns", 0.9, (0, 1))])
def test_groups_of_inputs_that_drift_apart_show_nothing(kind, coefficient, seeds):
    for seed in seeds:  # of pieces, seed 6 came out as found when single groups were held out
        s, q = slow_rows(1000, coefficient, seed=seed)
        assert quick(split="group").fit(s, q, group=GROUPS[kind](1000)).status_ != "found"


@pytest.mark.parametrize("kind", [None, "pieces", "turns"])
def test_events_in_inputs_that_drift_are_found(kind):
    s, q = slow_rows(2000, 0.9)
    event = np.random.default_rng(0).random(2000) < 0.06
    s[event] += 12
    q[event] -= 12
    grouped = {} if kind is None else {"group": GROUPS[kind](2000)}
    model = quick(split="group" if grouped else "random").fit(s, q, **grouped)
    assert model.status_ == "found"
    assert model.predict(s, q)[event].mean() > 0.8


def test_stretches_of_rows_that_are_alike_are_held_out_with_a_gap():
    s, q = slow_rows(3000, 0.9)
    memory = correlation_length(s, q)
    assert 5 < memory < 60
    train, held = hold_out(3000, 0.2, "random", None, np.random.default_rng(0), memory=memory)
    assert abs(len(held) - 600) <= 10
    assert np.count_nonzero(np.diff(held) > 1) < 600 / memory
    assert np.abs(train[:, None] - held).min() > memory
    assert len(train) > 2000


def test_groups_of_rows_that_are_alike_are_held_out_with_a_gap():
    group = GROUPS["pieces"](1000)[::-1]  # labels say nothing about the order in time
    rng = np.random.default_rng(0)
    for memory, gap in ((10, 10), (70, 70), (500, 100)):
        train, held = hold_out(1000, 0.2, "group", group, rng, memory=memory)
        assert set(group[train]).isdisjoint(group[held])
        assert np.abs(train[:, None] - held).min() == gap + 1
        if memory > 25:  # a stretch of four memories is longer than a group
            assert np.ptp(held) == len(held) - 1 == 199
        assert len(train) >= 600
    train, held = hold_out(1000, 0.2, "group", GROUPS["turns"](1000), rng, memory=70)
    assert set(train % 10).isdisjoint(held % 10)
    assert np.abs(train[:, None] - held).min() > 70
    assert min(len(train), len(held)) >= 100
    # Without memory, groups are taken one by one, and all other rows are trained on.
    train, held = hold_out(1000, 0.2, "group", group, rng)
    assert len(train) + len(held) == 1000


def test_groups_of_any_size_leave_rows_to_train_on_and_to_validate():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, count = int(rng.integers(50, 300)), int(rng.integers(2, 12))
        turns = np.arange(n) // int(rng.integers(1, 40)) % count
        mixed = np.append([0, 1], np.minimum(rng.integers(count, size=n - 2), rng.integers(1, count)))
        for group in (np.sort(mixed), mixed, turns):
            if len(np.unique(group)) < 2:
                continue
            how_much, memory = float(rng.uniform(0.05, 0.95)), int(rng.integers(1, 400))
            train, held = hold_out(n, how_much, "group", group, rng, memory=memory)
            assert len(train)
            assert len(held)
            assert set(group[train]).isdisjoint(group[held])


def test_modes_hold_groups_of_rows_that_are_alike_out_with_a_gap():
    s, q = slow_rows(2000, 0.97)
    pieces, turns = np.arange(2000) // 10, np.arange(2000) % 10

    def held_out(s, q, group):
        return make_folds((s, q), None, group, None, True, np.random.default_rng(0))

    folds = held_out(s, q, pieces)
    assert folds.memory == correlation_length(s, q) > 10
    assert all(len(np.unique(folds.fold[pieces == one])) == 1 for one in np.unique(pieces))
    for k, train in enumerate(folds.used):
        assert np.abs(train[:, None] - np.flatnonzero(folds.fold == k)).min() == 2 * folds.memory + 1
    with pytest.warns(CoadWarning, match="groups take turns, but inputs stay alike for"):
        assert np.count_nonzero(np.diff(held_out(s, q, turns).fold)) < 2000 / (3 * folds.memory)
    # Given groups stay as they are if they are too few to be joined, and where rows are independent.
    uneven = np.repeat([0, 1, 2], [1900, 50, 50])
    assert len(held_out(s, q, uneven).used) == 3
    s, q, _ = event_rows(2000)
    folds = held_out(s, q, turns)
    assert folds.memory == 0
    assert all(len(np.unique(folds.fold[turns == one])) == 1 for one in range(10))


@pytest.mark.parametrize("ordered", [True, False])
def test_noise_shows_nothing_in_order_or_not(ordered):
    s, q, _ = event_rows(300, rate=0.0)
    with pytest.warns(NoCoincidenceWarning, match="nothing will be flagged$"):
        quick(epochs=10, ordered=ordered).fit(s, q)
    with pytest.warns(NoCoincidenceWarning, match=r"stay alike for \d+ rows: .*ordered=False, --unordered"):
        quick(epochs=10).fit(*slow_rows(300, 0.97))


def test_the_latest_rows_are_held_out_with_a_gap_and_no_fraction_leaves_nothing_to_train_on():
    rng = np.random.default_rng(0)
    train, held = hold_out(1000, 0.2, "time", None, rng, memory=30)
    assert (train.max(), held.min(), len(held)) == (769, 800, 200)
    for fraction in (0.05, 0.5, 0.95):
        for how in ("random", "time"):
            train, held = hold_out(200, fraction, how, None, rng, memory=500)
            assert min(len(train), len(held)) >= 5


def test_a_known_context_is_no_slow_input():
    rng = np.random.default_rng(0)
    level = np.repeat(rng.integers(3, size=40), 25)
    s, q = 5 * level[:, None] + rng.normal(size=(2, 1000, 2))
    assert correlation_length(s, q) > 5
    assert correlation_length(s, q, code=level) == 0
    drift = 0.3 * np.stack(slow_rows(1000, 0.97, 2))
    assert correlation_length(*(5 * level[:, None] + drift), code=level) > 5


def test_time_gives_the_order_of_the_rows():
    s, q = slow_rows(1000)
    order = np.random.default_rng(1).permutation(1000)
    sorted_, mixed = quick(epochs=5).fit(s, q), quick(epochs=5).fit(s[order], q[order], time=order)
    assert np.array_equal(order[mixed.validation_rows_], sorted_.validation_rows_)
    assert mixed.p_value_ == sorted_.p_value_


def test_independent_rows_have_no_correlation_length_and_windows_that_share_samples_have():
    s, q, _ = event_rows(800)
    assert correlation_length(s, q) == 0
    signal = np.random.default_rng(0).normal(size=(2, 4000))
    windows = np.lib.stride_tricks.sliding_window_view(signal, 32, axis=1)[:, ::4, None]
    assert 1 <= correlation_length(*windows) <= 8
    assert correlation_length(*windows[:, ::8]) == 0


def test_shifted_pairings_are_those_of_the_rolled_rows():
    rng = np.random.default_rng(0)
    p_s, p_q = rng.random((2, 1, 60, 1))
    null = NullMaximum(60, 9, 0, None, (1, 1))
    null.update(p_s, p_q)
    rolled = [np.corrcoef(p_s[0, :, 0], np.roll(p_q[0, :, 0], -lag))[0, 1] for lag in range(2, 59)]
    np.testing.assert_allclose(null.maxima[9:, 0, 0], rolled)


def test_the_p_value_of_shifts_holds_for_slow_confidences():
    low = 0
    for seed in range(200):
        p_s, p_q = (1 / (1 + np.exp(-x[:, 0])) for x in slow_rows(400, 0.9, 1, seed=seed))
        null = NullMaximum(400, 99, seed, None, (1, 1))
        true = float(null.update(p_s[None, :, None], p_q[None, :, None])[0, 0])
        low += chance_of(true, null.maxima[:, 0, 0], 99, slow=True).shift_p_value <= 0.05
    assert low <= 0.08 * 200


def test_the_command_line_takes_rows_to_be_in_time_order(run_coad, tmp_path):
    s, q = slow_rows(1000)
    columns = {f"{name}{i}": x[:, i] for name, x in (("s", s), ("q", q)) for i in range(4)}
    write_parquet(tmp_path / "x.parquet", columns)
    arguments = ("fit", tmp_path / "x.parquet", "--s", "s*", "--q", "q*", "--starts", 2, "--epochs", 60)
    code, text, errors = run_coad(*arguments, "--out", tmp_path / "a")
    assert code == 0, errors
    assert "no coincidence" in text
    code, text, errors = run_coad(*arguments, "--unordered", "--out", tmp_path / "b")
    assert code == 0, errors
    assert load(tmp_path / "b").ordered is False
    assert load(tmp_path / "b").status_ == "found"


def test_thresholds_do_not_move_rows_that_are_in_no_order():
    rng = np.random.default_rng(0)
    level = np.sort(rng.random(1000))  # sorted rows look like a regime
    s, q = level + 0.1 * rng.normal(size=(2, 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        ordered, unordered = (
            CoincidenceThreshold(ordered=how, alpha=0.5, background="independent").fit(s, q).result_
            for how in (True, False)
        )
    assert ordered.suspicions[0].code in ("shift", "slow")
    assert not unordered.suspicions
    assert unordered.n_shifts == 0


def test_an_evaluation_takes_rows_in_the_order_of_time():
    s, q, _ = event_rows(600)
    model = quick().fit(s, q)
    p_s, p_q = (1 / (1 + np.exp(-x[:, 0])) for x in slow_rows(800, 0.99, 1, seed=1))
    order = np.random.default_rng(0).permutation(800)
    flags = model.rule_.flags(p_s, p_q)
    in_order = model.evaluate_scores(RowScores(p_s, p_q, p_s * p_q, flags))
    assert in_order.status != "found"
    scores = RowScores(p_s[order], p_q[order], (p_s * p_q)[order], flags[order])
    mixed = model.evaluate_scores(scores, order=RowOrder(800, time=order))
    assert (mixed.p_value, mixed.shift_p_value) == (in_order.p_value, in_order.shift_p_value)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [8, 4])
def test_windows_of_inputs_that_drift_apart_show_nothing(run_coad, tmp_path, stride):
    for seed in range(3):
        s, q = slow_rows(3000, 0.99, seed=seed)
        columns = {f"{name}{i}": x[:, i] for name, x in (("s", s), ("q", q)) for i in range(4)}
        write_parquet(tmp_path / "x.parquet", columns)
        code, text, errors = run_coad(
            *("fit", tmp_path / "x.parquet", "--s", "s*", "--q", "q*", "--window", 8, "--stride", stride),
            *("--starts", 2, "--epochs", 40, "--out", tmp_path / f"model{seed}"),
        )
        assert code == 0, errors
        assert "no coincidence: training found none" in text
        assert load(tmp_path / f"model{seed}").status_ == "no coincidence"


@pytest.mark.slow
def test_modes_find_nothing_in_inputs_that_drift_apart():
    """At the level of 5 %, two or more of six are found once in thirty times."""
    found = 0
    for seed in range(6):
        s, q = slow_rows(1000, 0.97, seed=seed)
        found += CoincidenceModes(n_starts=3, steps=80, random_state=seed).fit(s, q).status_ == "found"
    assert found <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pieces", "turns"])
def test_modes_find_nothing_in_groups_of_inputs_that_drift_apart(kind):
    s, q = slow_rows(2000, 0.97)
    det = CoincidenceModes(n_starts=3, steps=80, random_state=0).fit(s, q, group=GROUPS[kind](2000))
    assert det.status_ == "no coincidence"
