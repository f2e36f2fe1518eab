"""The folds of a fit: the rows that each pair of networks is trained without."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.exceptions import CoadWarning, InputError
from coad.learned.training.split import (
    correlation_length,
    in_time_order,
    join_groups,
    take_turns,
    widened,
)
from coad.modes.coordinates import Arrays

__all__ = ["FOLDS", "Folds", "make_folds"]

#: Folds: each network sees four fifths of the rows, and each row is held out once; five is customary.
FOLDS = 5
#: The length of stretches that are held out, in correlation lengths of the rows: their gaps then cost little.
_STRETCH = 4


class Folds(NamedTuple):
    """The fold of each row, the rows that each fold's members are trained on, and the rows that stay alike."""

    fold: IntArray
    used: list[IntArray]
    memory: int


def make_folds(
    arrays: Arrays,
    labels: NDArray[Any] | None,
    given: NDArray[Any] | None,
    time: Any,
    ordered: bool,
    rng: np.random.Generator,
) -> Folds:
    """Folds of whole groups, of stretches longer than the inputs stay alike, or of single rows.

    ``given`` groups may be pieces of one slow series: those that follow each other are joined to such stretches. If they
    take turns, rows of other groups are next to every row, so stretches of time take their place. Rows that are alike
    with rows of a fold are not used to train its members.
    """
    n, memory, group = len(arrays[0]), 0, given
    order = in_time_order(np.arange(n), time)
    if ordered:
        strata = None if labels is None else np.unique(labels, return_inverse=True)[1]
        memory = correlation_length(*arrays, order, strata)
    if memory:
        stretches = max(2 * FOLDS, n // (_STRETCH * memory))
        joined = np.empty(n, dtype=np.int64)
        joined[order] = np.arange(n) * stretches // n
        if given is not None and take_turns(given[order]):
            warnings.warn(
                f"groups take turns, but inputs stay alike for {memory:,} rows: stretches of time are held out instead "
                "of groups; if rows are in no order, say so (ordered=False, --unordered)",
                CoadWarning,
                stacklevel=4,
            )
        elif given is not None:
            joined[order] = join_groups(given[order], n / stretches)
            if len(np.unique(joined)) < FOLDS:
                joined = given
        group = joined
    code = np.arange(n) if group is None else np.unique(group, return_inverse=True)[1].reshape(-1)
    groups = int(code.max()) + 1
    if groups < 2:
        raise InputError(
            "there is one group: rows of at least two groups are needed, so that one can be held out"
        )
    count = min(FOLDS, groups)
    fold = (rng.permutation(groups) % count)[code]
    # With a gap of the memory itself, independent AR(1) inputs pass the test against shifts too often.
    gap = min(2 * memory, n // (2 * groups))
    used = []
    for k in range(count):
        held = fold == k
        if gap:
            held[order] = widened(held[order], gap)
        used.append(np.flatnonzero(~held))
    return Folds(fold, used, memory)
