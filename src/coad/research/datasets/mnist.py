"""MNIST under the paper's noisy observation model: pairs of images, of which some are events.

Normal pairs show the digit 0 twice; events show the digit 1, 2 or 3 twice. Then
each image of a pair, on its own, may be replaced: an event's digit i by a 0 with
probability ``b[i-1]``, a normal 0 by the digit i with the same probability. So
digit 1 coincides always, digit 3 least reliably (paper, appendix on MNIST).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.core.theory import MNIST_B, MNIST_W, mnist_observation_model
from coad.exceptions import FileError, InputError
from coad.research.datasets._fetch import RemoteFile, fetch, read_unpacked

__all__ = [
    "ImagePairs",
    "crop_and_roll",
    "load_mnist",
    "mnist_pairs",
    "observed_digits",
    "same_class_pairs",
]

#: The side of a cropped image, and the most pixels it is rolled by.
CROP, ROLL = 25, 5

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_SHA256 = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

Images = NDArray[np.uint8]
FloatImages = NDArray[np.float32]


@dataclass(frozen=True)
class ImagePairs:
    """Pairs of images (n, 1, h, w) in [0, 1], with their digits, which are for evaluation only.

    ``digit`` is the pair's true class, ``digit_s`` and ``digit_q`` are what each
    network is shown.
    """

    s: FloatImages
    q: FloatImages
    digit: IntArray
    digit_s: IntArray
    digit_q: IntArray

    def __len__(self) -> int:
        return len(self.s)


def load_mnist(
    split: Literal["train", "test"] = "train",
    data: str | Path | None = None,
    *,
    download: bool = True,
) -> tuple[Images, IntArray]:
    """Images (n, 28, 28) and labels (n,), from ``data``, COAD_DATA, the cache or the network.

    The files' checksums are verified on every reading.
    """
    if split not in ("train", "test"):
        raise InputError(f"split must be 'train' or 'test', not {split!r}")
    prefix = "train" if split == "train" else "t10k"
    names = [name for name in _SHA256 if name.startswith(prefix)]
    files = [RemoteFile(name, tuple(base + name for base in _MIRRORS), _SHA256[name]) for name in names]
    paths = fetch(files, "mnist", data, download=download)
    images, labels = (read_idx(path, file.sha256) for path, file in zip(paths, files, strict=True))
    return images, labels.astype(np.int64)


def read_idx(path: Path, sha256: str | None = None) -> Images:
    """An IDX file of unsigned bytes (gzipped or not) as an array."""
    content = read_unpacked(path, sha256)
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[2] != 0x08:
        raise FileError(f"{path} is not an IDX file of unsigned bytes: it starts with {content[:4].hex()}")
    dimensions = content[3]
    header = 4 + 4 * dimensions
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], ">u4"))
    if len(shape) != dimensions or len(content) - header != int(np.prod(shape)):
        raise FileError(f"{path} is truncated: {len(content) - header:,} bytes of data for the shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def observed_digits(
    n: int,
    rng: np.random.Generator,
    w: Sequence[float] = MNIST_W,
    b: Sequence[float] = MNIST_B,
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw the true digit of ``n`` pairs, and the digit shown to each network.

    >>> digit, s, q = observed_digits(10_000, np.random.default_rng(0))
    >>> bool((s[digit == 1] == 1).all()), abs(float((s[digit == 3] == 0).mean()) - 0.2) < 0.05
    (True, True)
    """
    weights, channel = _checked_weights(w, b), mnist_observation_model(b)
    digit = rng.choice(len(weights), size=n, p=weights).astype(np.int64)
    # Inverse transform sampling: one uniform draw per image.
    edges = np.cumsum(channel, axis=1)[:, :-1]
    s, q = ((rng.random(n)[:, None] >= edges[digit]).sum(axis=1) for _ in range(2))
    return digit, s, q


def mnist_pairs(
    images: Images,
    labels: IntArray,
    n: int,
    rng: np.random.Generator,
    w: Sequence[float] = MNIST_W,
    b: Sequence[float] = MNIST_B,
    *,
    crop: int = CROP,
    roll: int = ROLL,
) -> ImagePairs:
    """Draw ``n`` pairs under the noisy observation model, each image cropped and rolled at random.

    The two images of a pair are drawn independently from the images of their digit.

    >>> images = np.zeros((40, 28, 28), np.uint8)
    >>> pairs = mnist_pairs(images, np.arange(40) % 4, 100, np.random.default_rng(0))
    >>> pairs.s.shape, len(pairs)
    ((100, 1, 25, 25), 100)
    """
    if n < 1:
        raise InputError(f"n, the number of pairs, must be at least 1, not {n}")
    digit, digit_s, digit_q = observed_digits(n, rng, w, b)
    s, q = (
        crop_and_roll(images[_draw(labels, shown, rng)], rng, crop=crop, roll=roll)
        for shown in (digit_s, digit_q)
    )
    return ImagePairs(s, q, digit, digit_s, digit_q)


def same_class_pairs(
    images: Images,
    labels: IntArray,
    rng: np.random.Generator,
    digits: Sequence[int] = (0, 1, 2, 3),
    *,
    crop: int = CROP,
    roll: int = ROLL,
) -> ImagePairs:
    """Pair every image of ``digits`` with itself, as in the paper's test.

    Each network gets its own crop and roll of the image.
    """
    kept = np.flatnonzero(np.isin(labels, digits))
    digit = labels[kept]
    s, q = (crop_and_roll(images[kept], rng, crop=crop, roll=roll) for _ in range(2))
    return ImagePairs(s, q, digit, digit, digit)


def crop_and_roll(
    images: Images, rng: np.random.Generator, *, crop: int = CROP, roll: int = ROLL
) -> FloatImages:
    """Crop each image to ``crop`` × ``crop`` at a random position, then roll it by 0 to ``roll`` pixels.

    Both directions are drawn independently; pixels rolled out at one side
    come back at the other. The result has a channel axis and lies in [0, 1].

    >>> crop_and_roll(np.full((2, 28, 28), 255, np.uint8), np.random.default_rng(0)).max()
    np.float32(1.0)
    """
    n, height, width = images.shape
    if not 0 < crop <= min(height, width):
        raise InputError(f"crop must lie between 1 and the image side {min(height, width)}, not {crop}")
    if roll < 0:
        raise InputError(f"roll, in pixels, must be 0 or more, not {roll}")
    side = np.arange(crop)
    rows, columns = (
        rng.integers(0, size - crop + 1, (n, 1)) + (side - rng.integers(0, roll + 1, (n, 1))) % crop
        for size in (height, width)
    )
    moved = images[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return np.multiply(moved[:, None], np.float32(1 / 255), dtype=np.float32)


def _draw(labels: IntArray, shown: IntArray, rng: np.random.Generator) -> IntArray:
    """The index of a random image of each digit in ``shown``."""
    places = np.empty(len(shown), np.int64)
    for digit in np.unique(shown):
        mine = np.flatnonzero(shown == digit)
        pool = np.flatnonzero(labels == digit)
        if not len(pool):
            raise InputError(f"there is no image of the digit {digit}; 0 to {shown.max()} are needed")
        places[mine] = rng.choice(pool, len(mine))
    return places


def _checked_weights(w: Sequence[float], b: Sequence[float]) -> FloatArray:
    weights = np.asarray(w, dtype=np.float64)
    if weights.shape != (len(b) + 1,) or (weights < 0).any() or not np.isclose(weights.sum(), 1.0):
        raise InputError(
            f"w must hold the frequency of the normal digit and of each of the {len(b)} event digits of b, "
            f"and sum to 1, not {list(w)}"
        )
    return np.asarray(weights / weights.sum())
