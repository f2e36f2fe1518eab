"""scikit-learn's bundled 8 × 8 digits under the observation model of the MNIST experiment, offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from coad._typing import IntArray
from coad.core.theory import MNIST_B, MNIST_W
from coad.exceptions import InputError
from coad.research.datasets.mnist import ImagePairs, Images, mnist_pairs

__all__ = ["digits_pairs", "load_digits_split"]

#: Every n-th image of each digit is a test image.
_TEST_EVERY = 3


def load_digits_split(split: Literal["train", "test"] = "train") -> tuple[Images, IntArray]:
    """Load images (n, 8, 8) scaled to 0..255 and labels (n,); every third image of a digit is a test image.

    >>> images, labels = load_digits_split("test")
    >>> images.shape[1:], len(np.unique(labels))
    ((8, 8), 10)
    """
    if split not in ("train", "test"):
        raise InputError(f"split must be 'train' or 'test', not {split!r}")
    from sklearn.datasets import load_digits  # slow to import, needed only here

    bunch = load_digits()
    labels = np.asarray(bunch.target, np.int64)
    images = np.round(np.asarray(bunch.images) * (255.0 / 16.0)).astype(np.uint8)
    order = np.argsort(labels, kind="stable")
    rank = np.empty(len(labels), np.int64)  # position of the image among those of its digit
    rank[order] = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])
    kept = (rank % _TEST_EVERY == 0) == (split == "test")
    return images[kept], labels[kept]


def digits_pairs(
    n: int,
    rng: np.random.Generator,
    w: Sequence[float] = MNIST_W,
    b: Sequence[float] = MNIST_B,
    *,
    split: Literal["train", "test"] = "train",
    roll: int = 1,
) -> ImagePairs:
    """Draw ``n`` pairs of 8 × 8 images: digit 0 is normal, 1 to 3 are events of growing noise.

    >>> pairs = digits_pairs(50, np.random.default_rng(0))
    >>> pairs.s.shape
    (50, 1, 8, 8)
    """
    images, labels = load_digits_split(split)
    return mnist_pairs(images, labels, n, rng, w, b, crop=images.shape[1], roll=roll)
