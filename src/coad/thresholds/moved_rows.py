"""What two inputs show when one is moved in time, and where joint rows lie: counts of blocks of rows, which add up.

Rows are moved within blocks of about a million consecutive rows, and within the strata of each, cyclically. In memory
the block is the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.inference import BOTH_WAYS, EPISODE_GAP, FEW_EPISODES
from coad.core.moments import Moments
from coad.thresholds.row_parts import Code

__all__ = ["AtPair", "Pair", "at_pair", "moments_of", "moved_cells"]

Pair = tuple[float, float]


@dataclass(frozen=True)
class AtPair:
    """The flags of two pairs of thresholds, summed up; those of different blocks add up, in order.

    ``kinds`` counts rows per stratum by 8·s + 4·q of the one pair and 2·s + q of the other; ``moved`` the joint rows
    of the one when q is moved by each of ``BOTH_WAYS`` rows; ``episodes`` holds first row, last row and joint rows of
    its largest few episodes, and of those at either end.
    """

    kinds: IntArray
    moved: IntArray
    episodes: IntArray

    def __add__(self, other: AtPair) -> AtPair:
        episodes = _joined(np.concatenate([self.episodes, other.episodes]))
        return AtPair(self.kinds + other.kinds, self.moved + other.moved, episodes)

    @property
    def few_episodes(self) -> bool:
        """Whether a few episodes hold half of the joint rows."""
        joint = self.kinds[:, 12:].sum()
        return bool(np.sort(self.episodes[:, 2])[-FEW_EPISODES:].sum() >= joint / 2)


def moments_of(kinds: IntArray, joint: IntArray | None = None) -> Moments[Any]:
    """The moments of the first pair of :class:`AtPair`; ``joint`` replaces its joint rows per stratum."""
    kinds = kinds.reshape(-1, 4, 4).sum(2)
    counts = kinds.sum(1), kinds[:, 2:].sum(1), kinds[:, 1::2].sum(1), kinds[:, 3] if joint is None else joint
    n, sum_s, sum_q, sum_sq = (one.astype(float) for one in counts)
    if len(n) == 1:
        return Moments(float(n[0]), float(sum_s[0]), float(sum_q[0]), float(sum_sq[0]))
    return Moments(n, sum_s, sum_q, sum_sq, tuple(range(len(n))))


def at_pair(
    first_row: int, s: FloatArray, q: FloatArray, code: Code, strata: int, pair: Pair, other: Pair
) -> AtPair:
    """The flags of one block of rows."""
    flag_s, flag_q = s >= pair[0], q >= pair[1]
    kind = 8 * flag_s + 4 * flag_q + 2 * (s >= other[0]) + (q >= other[1])
    kinds = np.bincount(16 * code.astype(np.int64) + kind, minlength=16 * strata).reshape(strata, 16)
    places = np.flatnonzero(flag_s & flag_q) + first_row
    episodes = _joined(np.column_stack([places, places, np.ones_like(places)]))
    order, start, size = _by_stratum(code, strata)
    sorted_code, moved_q = code[order], flag_q[order]
    flagged = np.flatnonzero(flag_s[order])
    home = sorted_code[flagged]
    moved = np.empty((len(BOTH_WAYS), strata), dtype=np.int64)
    for index, shift in enumerate(BOTH_WAYS):
        met = start[home] + (flagged - start[home] - shift) % size[home]
        moved[index] = np.bincount(home[moved_q[met]], minlength=strata)
    return AtPair(kinds, moved, episodes)


def moved_cells(
    cell_s: NDArray[Any],
    cell_q: NDArray[Any],
    code: Code,
    strata: int,
    moves: IntArray,
    rng: np.random.Generator,
) -> None:
    """Add the rows of a block to tables (moves, cells of s, cells of q) after q is moved by random times."""
    order, start, size = _by_stratum(code, strata)
    lags = rng.integers(0, np.maximum(size, 1), size=(len(moves), strata))
    if strata == 1 and size[0] > 1:
        lags = rng.integers(1, size, size=(len(moves), 1))
    _add_moved(cell_s[order], cell_q[order], start, size, lags, moves)


def _by_stratum(code: Code, strata: int) -> tuple[IntArray | slice, IntArray, IntArray]:
    size = np.bincount(code, minlength=strata)
    order = np.argsort(code, kind="stable") if strata > 1 else slice(None)
    return order, np.cumsum(size) - size, size


def _joined(episodes: IntArray) -> IntArray:
    """Episodes (first row, last row, joint rows) in order, those that lie close made one; only those that matter."""
    new: BoolArray = np.ones(len(episodes), dtype=bool)
    new[1:] = episodes[1:, 0] - episodes[:-1, 1] > EPISODE_GAP
    starts = np.flatnonzero(new)
    if len(starts) == 0:
        return episodes[:0]
    stops = np.append(starts[1:], len(episodes)) - 1
    rows = np.add.reduceat(episodes[:, 2], starts)
    whole = np.column_stack([episodes[starts, 0], episodes[stops, 1], rows])
    kept = np.unique(np.concatenate([[0, len(whole) - 1], np.argsort(rows, kind="stable")[-FEW_EPISODES:]]))
    few: IntArray = whole[kept]
    return few


@numba.njit(cache=True, nogil=True)
def _add_moved(cell_s, cell_q, start, size, lags, moves):  # type: ignore[no-untyped-def]
    for move in range(len(moves)):
        table = moves[move]
        for c in range(len(size)):
            low, high, lag = start[c], start[c] + size[c], lags[move, c]
            for row in range(low, high - lag):
                table[cell_s[row], cell_q[row + lag]] += 1
            for row in range(high - lag, high):
                table[cell_s[row], cell_q[row + lag - size[c]]] += 1
