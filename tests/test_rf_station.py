"""The simulated RF station: shapes, rates, what an event does to each input, and real arrays."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from coad.exceptions import FileError, InputError
from coad.research.datasets._rf_physics import DISPERSION, EVENT_KINDS
from coad.research.datasets.rf_station import CONFUSER_KINDS, load_arrays, paper_transform, simulate


@pytest.fixture(scope="module")
def data():
    return simulate(1500, random_state=3)


def test_shapes_types_and_label_rate_are_the_papers(data):
    assert data.s.shape == (1500, 1, 50)
    assert data.q.shape == (1500, 14, 1000)
    assert data.s.dtype == data.q.dtype == np.float32
    assert np.isfinite(data.s).all()
    assert np.isfinite(data.q).all()
    assert 0.17 < data.label.mean() < 0.23
    assert (np.diff(data.time) > 0).all()
    assert "simulated" in data.source


def test_the_same_seed_gives_the_same_windows_and_another_does_not():
    one, two, other = simulate(40, 5), simulate(40, 5), simulate(40, 6)
    np.testing.assert_array_equal(one.q, two.q)
    np.testing.assert_array_equal(one.s, two.s)
    assert not np.array_equal(one.q, other.q)


def test_kinds_agree_with_labels_and_all_occur(data):
    assert set(data.kind[data.label]) == set(EVENT_KINDS)
    assert set(data.kind[~data.label]) == set(CONFUSER_KINDS)
    assert (data.magnitude[data.label] > 0.5).all()
    assert (data.magnitude[~data.label] == 0).all()


def test_confusers_come_independently_of_each_other(data):
    normal = data.kind[~data.label]
    glitch = np.char.startswith(normal, "glitch")
    other = np.char.endswith(normal, "other station")
    expected = glitch.mean() * other.mean()
    assert abs((glitch & other).mean() - expected) < 4 * np.sqrt(expected / len(normal))


def test_readings_are_quantised(data):
    steps = (data.s.astype(np.float64) - 100) / 0.05
    np.testing.assert_allclose(steps, np.round(steps), atol=2e-3)


def test_an_event_moves_the_amplitude_inside_its_span_and_not_outside(data):
    rows = np.flatnonzero((data.kind == "trip") & data.label)
    inside, before = [], []
    for row in rows:
        first, stop = data.span_s[row]
        assert stop > first
        inside.append(100 - data.s[row, 0, first])
        before.append(100 - data.s[row, 0, first - 3])
    # Trips are 6 to 15 %; other changes may be on top of some of them.
    assert np.median(inside) > 5
    assert abs(np.median(before)) < 0.5


def test_an_event_moves_the_dispersive_channels_by_its_size_and_sign(data):
    rows = np.flatnonzero(data.kind == "trip")
    rows = rows[(data.span_q[rows, 0] > 150) & (data.span_q[rows, 0] < 800)]
    shift = np.array(
        [
            data.q[r, ::2, data.span_q[r, 0] : data.span_q[r, 0] + 60].mean(axis=1)
            - data.q[r, ::2, data.span_q[r, 0] - 60 : data.span_q[r, 0]].mean(axis=1)
            for r in rows
        ]
    )
    # x = η δ, with δ = −1.43e-4 for each per cent that the amplitude falls.
    expected = -DISPERSION * 1000 * 0.0143 * 0.01 * data.magnitude[rows, None]
    slope = np.median(shift / expected, axis=0)
    assert (np.abs(slope - 0.95) < 0.15).all()
    assert (data.channels_q[rows][:, ::2].all(axis=0)).all()
    assert not data.channels_q[:, 1::2].any()


def test_spans_and_masks_are_empty_without_an_event(data):
    for name in ("span_s", "span_q"):
        span = getattr(data, name)
        assert (span[~data.label] == 0).all()
        assert (span[data.label, 1] > span[data.label, 0]).mean() > 0.98
    assert not data.channels_q[~data.label].any()
    assert not data.channels_s[~data.label].any()
    assert data.channels_s[data.label].all()


def test_early_confusers_end_before_events_begin(data):
    events = data.label & np.isin(data.kind, ["dip", "step", "trip"])
    assert data.span_q[events, 0].min() >= 150  # 1.25 s into the window
    slow = data.q[:, 6].reshape(len(data), -1, 25).mean(axis=2)  # the most dispersive monitor, 5 Hz
    early = (data.kind == "early") | (data.kind == "glitch and early")
    quiet = data.kind == "quiet"
    spread = slow[:, :7].max(axis=1) - slow[:, :7].min(axis=1)
    assert np.median(spread[early]) > 1.5 * np.median(spread[quiet])
    late = slow[:, 8:].max(axis=1) - slow[:, 8:].min(axis=1)
    assert np.median(late[early]) < 1.3 * np.median(late[quiet])


def test_the_papers_transformations_normalise_add_noise_and_roll(data):
    s, q = paper_transform(data.s[:200], data.q[:200], 0, noise=0.0, roll=0)
    np.testing.assert_allclose(q.std(axis=(0, 2)), 1.0, atol=1e-3)
    np.testing.assert_allclose(s.mean(), 0.0, atol=1e-3)
    noisy, rolled = paper_transform(data.s[:200], data.q[:200], 0)
    assert abs(float((noisy - s).std()) - 0.1) < 0.01
    distance = [np.square(np.roll(q[0], k, axis=1) - rolled[0]).mean() for k in range(12)]
    assert min(distance) < 0.02
    assert np.argmin(distance) <= 10


def test_training_draws_noise_roll_and_the_sign_of_each_input_by_itself(data):
    torch = pytest.importorskip("torch")
    from coad.research.experiments.rf import paper_augment, rf_augment

    base_s, base_q = (torch.from_numpy(x) for x in paper_transform(data.s[:400], data.q[:400], 0, noise=0.0))
    kept = base_s.clone(), base_q.clone()
    s, q = paper_augment(base_s, base_q, torch.Generator().manual_seed(0))
    assert abs(float((s - base_s).std()) - 0.1) < 0.01
    for row in range(3):
        distance = [float((torch.roll(base_q[row], k, 1) - q[row]).square().mean()) for k in range(11)]
        assert min(distance) < 0.02  # noise of 0.1 alone
    turned_s, turned_q = rf_augment(base_s, base_q, torch.Generator().manual_seed(0))
    signs = []
    for plain, turned in ((s, turned_s), (q, turned_q)):
        sign = torch.sign((plain * turned).flatten(1).sum(1))
        torch.testing.assert_close(turned, plain * sign[:, None, None])
        assert 0.4 < float((sign > 0).float().mean()) < 0.6
        signs.append(sign)
    assert 0.4 < float((signs[0] == signs[1]).float().mean()) < 0.6
    # The caller's rows stay what they were.
    assert torch.equal(base_s, kept[0])
    assert torch.equal(base_q, kept[1])


def test_longer_windows_are_cut_to_their_last_points():
    s, q = np.arange(120.0).reshape(2, 1, 60), np.zeros((2, 14, 1100))
    q[:, :, -1] = 1.0
    cut_s, cut_q = paper_transform(s, q, 0, noise=0.0, roll=0)
    assert cut_s.shape == (2, 1, 50)
    assert cut_q.shape == (2, 14, 1000)
    assert cut_q[0, 0, -1] == cut_q.max()


@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_real_arrays_are_read_from_npz_and_hdf5(tmp_path, data, suffix):
    path = tmp_path / f"real.{suffix}"
    arrays = {"s": data.s[:20, 0], "q": data.q[:20], "label": data.label[:20], "time": data.time[:20]}
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values
    pairs = load_arrays(path)
    np.testing.assert_array_equal(pairs.s, data.s[:20])
    np.testing.assert_array_equal(pairs.q, data.q[:20])
    np.testing.assert_array_equal(pairs.label, data.label[:20])


def test_arrays_of_another_shape_are_refused_with_what_is_wanted(tmp_path):
    np.savez(tmp_path / "a.npz", s=np.zeros((5, 1, 50)), q=np.zeros((5, 7, 1000)))
    with pytest.raises(InputError, match="14 channels of 1,000 points"):
        load_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", s=np.zeros((5, 1, 50)), beam=np.zeros((5, 14, 1000)))
    with pytest.raises(InputError, match="no array q; it holds s, beam"):
        load_arrays(tmp_path / "b.npz")
    (tmp_path / "c.npz").write_bytes(b"PK not really")
    with pytest.raises(FileError, match=r"c\.npz"):
        load_arrays(tmp_path / "c.npz")


@pytest.mark.parametrize("bad", [0, -1, 2.5, True], ids=str)
def test_a_wrong_number_of_windows_is_refused(bad):
    with pytest.raises(InputError, match="n_windows"):
        simulate(bad)
