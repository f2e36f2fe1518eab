"""The rows of one split, scaled, stacked and reduced; each form is computed once for all methods."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.pairs import Pairs
from coad.learned.scaling import Scaler
from coad.research.baselines.base import Array32, flat, stacked

__all__ = ["MAX_FEATURES", "Rows", "Sides", "principal", "scaled"]

#: Rows with more features are reduced to this many principal components for kernel and neighbour methods.
MAX_FEATURES = 100


class Rows:
    """Training and test rows; ``stack`` holds both inputs stacked, for methods of one input."""

    def __init__(self, train: Pairs, test: Pairs, stack: tuple[Array32, Array32] | None = None) -> None:
        self.train, self.test = train, test
        if stack is not None:
            self.stack = stack

    @cached_property
    def stack(self) -> tuple[Array32, Array32]:
        return stacked(self.train.s, self.train.q), stacked(self.test.s, self.test.q)


class Sides:
    """One split of a data set: original, scaled and reduced rows."""

    def __init__(self, train: Pairs, test: Pairs, seed: int = 0) -> None:
        self.train, self.test, self.seed = train, test, seed

    @cached_property
    def scaled(self) -> Rows:
        """Both inputs, standardised."""
        return Rows(*scaled(self.train, self.test))

    @cached_property
    def reduced(self) -> Rows:
        """The scaled rows; each input and the stack has at most 100 principal components."""
        rows = self.scaled
        both = [
            (rows.train.s, rows.test.s),
            (rows.train.q, rows.test.q),
            rows.stack,
        ]
        (near_s, far_s), (near_q, far_q), stack = (self._few(train, test) for train, test in both)
        return Rows(_with(rows.train, near_s, near_q), _with(rows.test, far_s, far_q), stack)

    def _few(self, train: NDArray[Any], test: NDArray[Any]) -> tuple[Array32, Array32]:
        near, far = flat(train), flat(test)
        pca = principal(near, self.seed)
        return (near, far) if pca is None else (pca.transform(near), pca.transform(far))


def scaled(train: Pairs, test: Pairs) -> tuple[Pairs, Pairs]:
    """Standardise both inputs by the training rows, within each regime if there are any."""
    scalers = [Scaler.fit(np.asarray(x, dtype=np.float32), train.context) for x in (train.s, train.q)]
    sides = []
    for pairs in (train, test):
        s, q = (
            scaler.transform(np.asarray(x, dtype=np.float32), pairs.context)
            for scaler, x in zip(scalers, (pairs.s, pairs.q), strict=True)
        )
        sides.append(_with(pairs, s, q))
    return sides[0], sides[1]


def principal(rows: Array32, seed: int) -> Any:
    """Fit principal components to rows with more than 100 features; None for fewer."""
    from sklearn.decomposition import PCA

    if rows.shape[1] <= MAX_FEATURES:
        return None
    size = min(MAX_FEATURES, len(rows) - 1)
    return PCA(size, svd_solver="randomized", random_state=seed).fit(rows)


def _with(pairs: Pairs, s: Array32, q: Array32) -> Pairs:
    return Pairs(s, q, context=pairs.context, group=pairs.group, label=pairs.label)
