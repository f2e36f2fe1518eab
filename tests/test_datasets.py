"""MNIST and digits: found where they lie, checked, and drawn as the observation model says."""

from __future__ import annotations

import gzip
import hashlib
import io
import urllib.error
from pathlib import Path

import numpy as np
import pytest

from coad.core.theory import MNIST_W, mnist_pair_distribution
from coad.exceptions import FileError, InputError
from coad.research.datasets import _fetch, mnist
from coad.research.datasets._fetch import RemoteFile, fetch, read_unpacked
from coad.research.datasets.digits import digits_pairs, load_digits_split
from coad.research.datasets.mnist import (
    crop_and_roll,
    load_mnist,
    mnist_pairs,
    observed_digits,
    read_idx,
    same_class_pairs,
)

WORDS = b"what was published"
FILE = RemoteFile("words.gz", ("https://one.invalid/words.gz", "https://two.invalid/words.gz"), "")
FILE = RemoteFile(FILE.name, FILE.urls, hashlib.sha256(WORDS).hexdigest())


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No COAD_DATA, an empty cache, no network."""

    def refused(url: str, timeout: float) -> io.BytesIO:
        raise urllib.error.URLError("no network")

    monkeypatch.delenv("COAD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_fetch.urllib.request, "urlopen", refused)
    return tmp_path


def small_images(n: int = 400, side: int = 28) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.integers(0, 256, (n, side, side), dtype=np.uint8), np.arange(n) % 5


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


# Finding files.


def test_offline_error_says_which_files_go_where(nowhere: Path) -> None:
    with pytest.raises(FileError) as caught:
        fetch([FILE], "words")
    message = str(caught.value)
    assert "words.gz" in message
    assert "COAD_DATA" in message
    assert "--data" in message
    assert str(nowhere / "cache" / "coad" / "words") in message


def test_a_named_folder_without_the_files_is_an_error_and_nothing_else_is_tried(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = nowhere / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "words").write_bytes(WORDS)
    monkeypatch.setenv("COAD_DATA", str(elsewhere))
    (nowhere / "empty").mkdir()
    with pytest.raises(FileError, match="does not hold"):
        fetch([FILE], "words_folder", nowhere / "empty")


def test_order_is_argument_then_environment_then_cache(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {name: nowhere / name / "set" for name in ("argument", "environment")}
    places["cache"] = nowhere / "cache" / "coad" / "set"
    for place in places.values():
        place.mkdir(parents=True)
        (place / "words.gz").write_bytes(gzip.compress(WORDS))
    assert fetch([FILE], "set")[0].parent == places["cache"]
    monkeypatch.setenv("COAD_DATA", str(nowhere / "environment"))
    assert fetch([FILE], "set")[0].parent == places["environment"]
    assert fetch([FILE], "set", nowhere / "argument")[0].parent == places["argument"]
    assert fetch([FILE], "set", places["argument"])[0].parent == places["argument"]


def test_unpacked_files_serve_as_well(nowhere: Path) -> None:
    (nowhere / "words").write_bytes(WORDS)
    path = fetch([FILE], "set", nowhere)[0]
    assert read_unpacked(path, FILE.sha256) == WORDS


def test_download_falls_back_to_the_mirror_and_is_kept_for_the_next_time(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def serve(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        if "one" in url:
            raise urllib.error.URLError("down")
        return io.BytesIO(gzip.compress(WORDS))

    monkeypatch.setattr(_fetch.urllib.request, "urlopen", serve)
    first = fetch([FILE], "set")[0]
    assert read_unpacked(first, FILE.sha256) == WORDS
    assert fetch([FILE], "set")[0] == first
    assert asked == list(FILE.urls)
    assert [p.name for p in first.parent.iterdir()] == ["words.gz"]


def test_a_download_with_the_wrong_content_is_refused_and_not_kept(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _fetch.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(gzip.compress(b"something else"))
    )
    with pytest.raises(FileError, match="sha256"):
        fetch([FILE], "set")
    assert list((nowhere / "cache" / "coad" / "set").iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"not gzip", gzip.compress(WORDS)[:-9], b""], ids=["no gzip", "cut short", "empty"]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "words.gz"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"words\.gz"):
        read_unpacked(path, FILE.sha256)


# IDX.


@pytest.mark.parametrize("packed", [True, False])
def test_idx_round_trip(tmp_path: Path, packed: bool) -> None:
    array = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    path = tmp_path / ("images.gz" if packed else "images")
    path.write_bytes(gzip.compress(idx_bytes(array)) if packed else idx_bytes(array))
    np.testing.assert_array_equal(read_idx(path), array)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        idx_bytes(np.zeros((5, 4), np.uint8))[:-1],
        b"\x00\x00\x0d\x01" + bytes(8),
        b"PK\x03\x04" + bytes(9),
    ],
)
def test_bad_idx_is_an_error_with_the_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(FileError, match="images"):
        read_idx(path)


def test_mnist_files_that_are_not_mnist_are_refused(tmp_path: Path) -> None:
    for name in mnist._SHA256:
        (tmp_path / name).write_bytes(gzip.compress(idx_bytes(np.zeros((3, 28, 28), np.uint8))))
    with pytest.raises(FileError, match="not the file that was published"):
        load_mnist("train", tmp_path)


def test_the_real_mnist_has_its_known_shape(shared_data) -> None:
    shared_data("mnist")
    images, labels = load_mnist("test", download=False)
    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


# The observation model.


def test_shown_digits_follow_the_pair_distribution() -> None:
    n = 200_000
    digit, s, q = observed_digits(n, np.random.default_rng(3))
    table = np.zeros((4, 4))
    np.add.at(table, (s, q), 1 / n)
    expected = mnist_pair_distribution()
    spread = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(table - expected) <= 4.5 * spread + 1e-12).all()
    assert np.abs(np.bincount(digit) / n - MNIST_W).max() < 0.004


def test_each_input_is_blurred_on_its_own() -> None:
    digit, s, q = observed_digits(400_000, np.random.default_rng(4))
    both = ((s == 0) & (q == 0))[digit == 3].mean()
    assert both == pytest.approx(0.04, abs=0.006)
    assert ((s == 3) & (q == 3))[digit == 0].mean() == pytest.approx(0.04, abs=0.002)


def test_pairs_show_images_of_the_drawn_digit() -> None:
    # Each image is constant and tells its own label, whatever crop and roll do to it.
    labels = np.arange(80) % 4
    images = np.repeat(labels * 50 + 10, 28 * 28).reshape(80, 28, 28).astype(np.uint8)
    pairs = mnist_pairs(images, labels, 500, np.random.default_rng(0))
    for shown, digit in ((pairs.s, pairs.digit_s), (pairs.q, pairs.digit_q)):
        np.testing.assert_allclose(shown[:, 0, 0, 0] * 255, digit * 50 + 10, rtol=1e-5)
    assert pairs.s.dtype == np.float32


def test_same_generator_same_pairs() -> None:
    images, labels = small_images()
    one, two, other = (mnist_pairs(images, labels, 60, np.random.default_rng(k)) for k in (5, 5, 6))
    np.testing.assert_array_equal(one.s, two.s)
    np.testing.assert_array_equal(one.q, two.q)
    assert not np.array_equal(one.s, other.s)


def test_crop_and_roll_equals_slicing_then_rolling() -> None:
    images, _ = small_images(50)
    fast = crop_and_roll(images, np.random.default_rng(1))[:, 0]
    rng = np.random.default_rng(1)  # the same draws, in the same order
    top, down = rng.integers(0, 4, (50, 1))[:, 0], rng.integers(0, 6, (50, 1))[:, 0]
    left, right = rng.integers(0, 4, (50, 1))[:, 0], rng.integers(0, 6, (50, 1))[:, 0]
    for i, image in enumerate(images):
        cropped = image[top[i] : top[i] + 25, left[i] : left[i] + 25]
        naive = np.roll(cropped, (down[i], right[i]), axis=(0, 1)) / 255
        np.testing.assert_allclose(fast[i], naive, rtol=1e-6)
    assert set(down) == set(right) == set(range(6))
    assert set(top) == set(left) == set(range(4))


def test_same_class_pairs_feed_every_image_to_both_networks() -> None:
    images, labels = small_images()
    pairs = same_class_pairs(images, labels, np.random.default_rng(0), crop=28, roll=0)
    kept = labels < 4
    np.testing.assert_array_equal(pairs.digit, labels[kept])
    np.testing.assert_allclose(pairs.s[:, 0] * 255, images[kept], atol=1e-4)
    np.testing.assert_array_equal(pairs.s, pairs.q)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 0}, "at least 1"),
        ({"w": (0.5, 0.1, 0.1, 0.1)}, "sum to 1"),
        ({"w": (0.5, 0.5)}, "event digits of b"),
        ({"b": (0.0, 0.7, 0.7)}, "b sums to"),
        ({"crop": 29}, "crop"),
        ({"roll": -1}, "roll"),
    ],
)
def test_bad_settings_are_named(change: dict[str, object], words: str) -> None:
    images, labels = small_images()
    settings = {"n": 10, "rng": np.random.default_rng(0), **change}
    with pytest.raises(InputError, match=words):
        mnist_pairs(images, labels, **settings)  # type: ignore[arg-type]


def test_a_digit_without_images_is_named() -> None:
    images, labels = small_images()
    with pytest.raises(InputError, match="no image of the digit 3"):
        mnist_pairs(images[labels < 3], labels[labels < 3], 500, np.random.default_rng(0))


def test_digits_train_and_test_share_no_image() -> None:
    (train, train_labels), (test, test_labels) = load_digits_split("train"), load_digits_split("test")
    assert len(train) + len(test) == 1797
    assert np.bincount(test_labels).min() >= 50
    assert np.bincount(train_labels).min() >= 100
    seen = {image.tobytes() for image in train}
    assert not any(image.tobytes() in seen for image in test)


def test_digits_pairs_need_no_file() -> None:
    pairs = digits_pairs(3000, np.random.default_rng(0), split="test")
    assert pairs.s.shape == pairs.q.shape == (3000, 1, 8, 8)
    assert 0.0 <= pairs.s.min() < pairs.s.max() == 1.0
    assert (pairs.digit_s[pairs.digit == 1] == 1).all()
