"""Which outputs are one mode: those that the votes of s and q do not tell apart.

Two halves of one cluster are confused with each other, and with third modes in the same proportions, so the table of votes
loses no information if they are merged. Pairs are merged while what is lost is within three standard errors of what
chance loses: if two modes are one, twice the rows times the loss has a chi-squared distribution (Wilks, 1938).
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from coad._typing import FloatArray, IntArray
from coad.modes.evidence import joint_counts

__all__ = ["excess_loss", "merge_modes"]


#: Standard errors that a loss may have by chance: as usual, one pair in a thousand has more.
_ERRORS = 3.0


def merge_modes(s: IntArray, q: IntArray, k: int) -> IntArray:
    """The new number of each of ``k`` modes after merging, from the votes of both inputs on held-out rows.

    A mode without a vote stays by itself.

    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(3, size=2000)  # both inputs see it, and each cuts kind 2 in two by chance
    >>> s, q = (np.where((kind == 2) & (rng.random(2000) < 0.5), 3, kind) for _ in range(2))
    >>> merge_modes(s, q, 4).tolist()
    [0, 1, 2, 2]
    """
    counts, mode = joint_counts(s, q, k), np.arange(k)
    while len(counts) > 1:
        excess = excess_loss(counts)
        one, other = sorted(int(i) for i in np.unravel_index(int(excess.argmin()), excess.shape))
        if excess[one, other] > _ERRORS:
            break
        counts[one] += counts[other]
        counts[:, one] += counts[:, other]
        counts = np.delete(np.delete(counts, other, 0), other, 1)
        mode[mode == other] = one
        mode[mode > other] -= 1
    return mode


def excess_loss(counts: IntArray) -> FloatArray:
    """What merging two modes loses beyond chance, in standard errors, (k, k); infinite for the same mode and without votes.

    >>> halves = np.array([[32, 28, 0], [28, 32, 0], [0, 0, 90]])
    >>> excess_loss(halves)[0, 1] < 1 < 10 < excess_loss(halves)[0, 2]
    np.True_
    """
    table = counts.astype(np.float64)
    row, column, own = table.sum(1), table.sum(0), table.diagonal()

    def joined(x: FloatArray) -> FloatArray:
        """x ln x of the sum less that of the parts, for each pair along the first axis."""
        part = xlogy(x, x)
        both = x[:, None] + x[None, :]
        return np.asarray(xlogy(both, both) - part[:, None] - part[None, :])

    # Third modes, less the two themselves, whose four cells become one.
    by_rows, by_columns = joined(table), joined(table.T)
    cells, free = np.zeros_like(table), np.zeros_like(table)
    index = np.arange(len(table))
    for parts, x in ((by_rows, table), (by_columns, table.T)):
        third = parts.sum(2) - parts[index[:, None], index[None, :], index[:, None]]
        cells += third - parts[index[:, None], index[None, :], index[None, :]]
        seen = (x > 0)[:, None] | (x > 0)[None, :]
        free += seen.sum(2) - seen[index[:, None], index[None, :], index[:, None]]
        free -= seen[index[:, None], index[None, :], index[None, :]]
    block = own[:, None] + own[None, :] + table + table.T
    cells += xlogy(block, block) - xlogy(own, own)[:, None] - xlogy(own, own)[None, :]
    cells -= xlogy(table, table) + xlogy(table, table).T
    lost = 2.0 * (joined(row) + joined(column) - cells)
    # Third modes, and one for the choice between the two.
    free = np.maximum(free, 0.0) + 1.0
    found = (lost - free) / np.sqrt(2.0 * free)
    empty = row + column == 0
    found[empty] = found[:, empty] = np.inf
    np.fill_diagonal(found, np.inf)
    return np.asarray(found)
