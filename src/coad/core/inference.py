"""Whether the numbers can be trusted: chance, uncertainty, and signs of a shared regime.

A maximised F̂ proves nothing by itself: on independent noise it averages 0.98 at
300 rows. So every result is put beside what the same search finds when the pairing
of the two inputs is shuffled, and carries intervals.

The shuffled searches run on a fixed grid of thresholds (at most 64 an input, dense
where few rows are flagged). Shuffling leaves each input's own counts on that grid as
they are, so a shuffled data set *is* a random table with the observed margins, which
is drawn directly: the null is exact for any number of rows, without subsampling.

What is compared is the evidence for joint events beyond chance, the largest over all
threshold pairs of ``O·log(O/E) - (O - E)`` for O joint rows observed and E expected.
It does not depend on β or α, and it is sharper than the maximised F̂ itself, which
noise drives to 1 where few rows are flagged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import random_table

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.figures import within_error
from coad.core.grid import ThresholdGrid
from coad.core.metric import fbeta_of, true_positive_fraction
from coad.core.moments import Moments
from coad.core.runs import find_runs
from coad.core.search import Optimum, PairSearch

_RESAMPLES = 400  # draws behind an interval
_SPLITS = (
    100  # halvings on which the pick itself is repeated: the mean then varies by a tenth of one pick's spread
)
_FEWEST_SPLITS = 40
#: Of the optimism of a pick from half of the rows, what a pick from all of them has: it falls with the root of their number.
#: P̂ keeps the whole: scaled too, its intervals held less than 93 % in three of 22 simulated cases, instead of in one.
_OF_ALL_ROWS = np.array([0.5**0.5, 1.0, 0.5**0.5, 0.5**0.5])  # F̂, P̂, R̂, α
_BLOCK_CELLS = 2_000_000  # cells of shuffled tables held at once
_MANY_STRATA = 50

_SHIFTED_ROWS = 100_000_000  # rows moved over all draws of the shift test, at most
_FEWEST_SHIFTS = 40  # so that p can still fall below 0.05

#: Rows by which one input is shifted to see whether coincidence survives.
SHIFTS = (5, 6, 7, 8)
BOTH_WAYS = (*SHIFTS, *(-shift for shift in SHIFTS))
#: Of all rows, more true joint events than this are not anomalies any more.
MAX_PLAUSIBLE_RATE = 0.25
#: A few long episodes, up to this share of the rows together, are taken for long events.
MAX_EPISODE_RATE = 0.15
FEW_EPISODES = 3
#: Joint rows at most so far apart are one episode.
EPISODE_GAP = 20


@dataclass(frozen=True)
class PermutationTest:
    """How the observed evidence compares with that of shuffled pairings."""

    p_value: float
    evidence: float
    null_evidence: FloatArray
    null_fbeta_hat: FloatArray | None = (
        None  # the maximised F̂ of each shuffled search, at the same α; not of a copula
    )


@dataclass(frozen=True)
class Intervals:
    """95 % intervals, by resampling."""

    fbeta_hat: tuple[float, float]
    precision_hat: tuple[float, float]
    recall_hat: tuple[float, float]
    alpha: tuple[float, float] | None = None  #: where α was searched on the same rows
    joint_fraction: tuple[float, float] | None = None  #: of J, where the rule was fixed beforehand

    def around(self, estimates: Any) -> Intervals:
        """The same intervals, stretched to contain the estimates where smoothing or a correction left them outside."""
        stretched = {
            name: (min(ends[0], value), max(ends[1], value))
            for name in ("fbeta_hat", "precision_hat", "recall_hat", "alpha", "joint_fraction")
            if (ends := getattr(self, name)) is not None and (value := getattr(estimates, name)) is not None
        }
        return replace(self, **stretched)


def fbeta_of_rows(joint: FloatArray, chance: FloatArray, n: int, beta: float, alpha: float) -> FloatArray:
    """F̂β from joint and chance rows, elementwise; nothing is gained where nothing is joint."""
    return np.where(joint > 0, fbeta_of(joint - chance, joint, beta, n * alpha), 0.0)


def permutation_test(
    grid: ThresholdGrid, *, beta: float, alpha: float, n_permutations: int, rng: np.random.Generator
) -> PermutationTest:
    """Repeat the search on ``n_permutations`` shuffled pairings (within each stratum)."""
    observed = float(grid.evidence(grid.joint_at_nodes(grid.cells).sum(0)))
    evidence, best = np.zeros(n_permutations), np.zeros(n_permutations)
    block = max(1, min(n_permutations, _BLOCK_CELLS // max(grid.cells.size, 1)))
    for start in range(0, n_permutations, block):
        draws = slice(start, min(start + block, n_permutations))
        cells = _shuffled_cells(grid, draws.stop - start, rng)
        joint, chance = grid.totals(cells)
        evidence[draws] = grid.evidence(joint - grid.fixed_joint)
        if joint.size:
            best[draws] = fbeta_of_rows(joint, chance, grid.n, beta, alpha).max(axis=(-2, -1))
    # Rounding must not make a shuffled table with the very same counts look weaker.
    at_least = int(np.count_nonzero(evidence >= observed * (1 - 1e-12)))
    return PermutationTest((1 + at_least) / (1 + n_permutations), observed, evidence, best)


def shift_test(grid: ThresholdGrid, *, n_shifts: int, rng: np.random.Generator) -> tuple[float, int]:
    """The p-value, and the number of shifts behind it, when one input is moved in time instead of shuffled (the *time slides* of physics).

    Shuffling rows takes them for independent. Slow inputs are not: two that have nothing
    in common drift together now and then. Moving one of them as a whole keeps each input's
    own slowness, so what coincides by drift, or through a regime that lasts, coincides
    after the move as well; an event does not. Rows in no particular order lose nothing.
    """
    draws = moved_draws(grid.n, n_shifts)
    observed = float(grid.evidence(grid.joint_at_nodes(grid.cells).sum(0)))
    at_least = sum(
        float(grid.evidence(grid.joint_at_nodes(grid.shifted(rng)).sum(0))) >= observed * (1 - 1e-12)
        for _ in range(draws)
    )
    return (1 + at_least) / (1 + draws), draws


def moved_draws(n: int, asked: int) -> int:
    """How often an input of ``n`` rows is moved in time when ``asked`` moves are wished for."""
    return max(_FEWEST_SHIFTS, min(asked, _SHIFTED_ROWS // n))


def _shuffled_cells(grid: ThresholdGrid, draws: int, rng: np.random.Generator) -> IntArray:
    """Counts (draws, strata, s, q) after shuffling: random tables with the margins of the data."""
    if len(grid.cells) > _MANY_STRATA:  # many small tables: shuffling the rows themselves is quicker
        return np.stack([grid.shuffled_rows(rng) for _ in range(draws)])
    out = np.zeros((draws, *grid.cells.shape), dtype=np.int64)
    for stratum, table in enumerate(grid.cells):
        rows, columns = table.sum(1), table.sum(0)
        used_r, used_c = np.flatnonzero(rows), np.flatnonzero(columns)
        if len(used_r) and len(used_c):
            random = random_table(rows[used_r], columns[used_c]).rvs(draws, random_state=rng)
            out[:, stratum][np.ix_(np.arange(draws), used_r, used_c)] = random
    return out


def resampled_intervals(
    grid: ThresholdGrid,
    best: Optimum,
    richest: Optimum,
    *,
    beta: float,
    alpha: float,
    alpha_given: bool,
    rng: np.random.Generator,
    rho_error: float = 0.0,
) -> Intervals:
    """Intervals for F̂, P̂, R̂ at the chosen pair, and for α at the pair that estimates it.

    The rows are resampled (smoothed Bayesian bootstrap: Dirichlet weights with half a
    pseudo-row per cell, so that three joint rows out of three do not pass for
    certainty), and ρ of the background varies by its error. Having picked the best pair
    on these very rows makes it look better than it is: the lower ends are lowered by
    :func:`optimism`, scaled to all rows. The upper ends stay: an estimated α is too high,
    so that F̂ and R̂ look worse than they are as often as not where events are clear.
    """
    search = grid.search
    strata = len(search.sizes)
    counts = grid.rows_by_flags(best, richest)
    prior = 0.125 / strata  # 16 cells: half a row for each cell of either pair's 2 × 2 table
    weights = rng.gamma(counts + prior, size=(_RESAMPLES, strata, 16))
    weights *= search.sizes[:, None] / weights.sum(-1, keepdims=True)
    cube = weights.reshape(_RESAMPLES, strata, 2, 2, 2, 2)
    parts = [
        (
            _joint_and_true(some.sum((-1, -2)), search, rho),
            _joint_and_true(some.sum((2, 3)), search, rho)[1],
        )
        for some, rho in zip(np.array_split(cube, 2), within_error(grid.correlation, rho_error), strict=True)
    ]
    joint, true_positives, most_positives = (
        np.concatenate(draws) for draws in zip(*((*first, rich) for first, rich in parts), strict=True)
    )
    rate = np.full(_RESAMPLES, alpha)
    if not alpha_given:  # the largest TP, so never below the chosen pair's
        rate = np.maximum(np.maximum(most_positives, true_positives), 1e-12)
    value, precision, recall = (fbeta_of(true_positives, joint, one, rate) for one in (beta, 0.0, math.inf))
    most = math.inf if alpha_given else 1.0  # an estimated α is the largest TP, so F̂ and R̂ ≤ 1
    too_good = _OF_ALL_ROWS * optimism(grid, beta=beta, alpha=alpha, alpha_given=alpha_given, rng=rng)
    return Intervals(
        _interval(value, too_good[0], most),
        _interval(precision, too_good[1], 1.0),
        _interval(recall, too_good[2], most),
        (alpha, alpha) if alpha_given else _interval(rate, too_good[3], 0.5),
    )


def _joint_and_true(
    tables: FloatArray, search: PairSearch, correlation: float
) -> tuple[FloatArray, FloatArray]:
    """J and TP of each draw from its 2 × 2 tables (draws, strata, s, q)."""
    joint: FloatArray = tables[..., 1, 1].sum(1) / search.n
    if search.has_singles:  # they count in J and prove nothing
        tables = tables[:, :-1]
    strata = tables.shape[1]
    if strata == 0:
        return joint, np.zeros_like(joint)
    n, joint_rows = tables.sum((-1, -2)), tables[..., 1, 1]
    names = tuple(range(strata)) if strata > 1 else None
    moments = Moments(n, tables[:, :, 1].sum(-1), tables[..., 1].sum(-1), joint_rows, names)
    if names is None:
        moments = Moments(n[:, 0], moments.sum_s[:, 0], moments.sum_q[:, 0], joint_rows[:, 0])
    true: FloatArray = true_positive_fraction(moments, correlation=correlation) * n.sum(1) / search.n
    return joint, true


def _interval(draws: FloatArray, too_good: float, most: float) -> tuple[float, float]:
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(np.clip(low - too_good, 0.0, most)), float(np.clip(high, 0.0, most))


def optimism(
    grid: ThresholdGrid, *, beta: float, alpha: float, alpha_given: bool, rng: np.random.Generator
) -> FloatArray:
    """How much better F̂, P̂, R̂ and α look on the rows that picked the pair than on others, 0 or more.

    The rows are cut into two random halves; one picks the pair, both measure it, and the difference is the optimism
    of a pick from half as many rows: more than that of all rows, for it falls with their number. Resampling
    whole data sets instead finds but half of it, because every resample has the very maximum that luck gave the data.

    Parameters
    ----------
    grid
        The counts. Which rows fall into a half is drawn cell by cell.
    beta, alpha, alpha_given
        What is maximised; α is estimated in each half if it was not given.
    rng
        Where randomness comes from.

    Returns
    -------
    ndarray, shape (4,)

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 500))  # noise: nothing coincides, but the best pair has a high F̂
    >>> grid = ThresholdGrid(PairSearch(s, q))
    >>> bool(optimism(grid, beta=1.0, alpha=0.05, alpha_given=True, rng=rng)[0] > 0.3)
    True
    """
    if min(grid.shape) == 0:
        return np.zeros(4)
    splits = max(_FEWEST_SPLITS, min(_SPLITS, 20 * _BLOCK_CELLS // grid.cells.size))
    sums = np.zeros((2, 3))  # of the half that picks and of the other: TP and J of the pick, the largest TP
    for _ in range(splits):
        half = rng.binomial(grid.cells, 0.5)
        (joint, chance), (joint_other, chance_other) = grid.totals(half), grid.totals(grid.cells - half)
        true, true_other = joint - chance, joint_other - chance_other
        rich = int(np.argmax(true))
        rate = alpha if alpha_given else max(float(true.flat[rich]) / grid.n, 1e-12)
        pick = int(np.argmax(fbeta_of_rows(joint, chance, grid.n, beta, rate)))
        sums[0] += true.flat[pick], joint.flat[pick], true.flat[rich]
        sums[1] += true_other.flat[pick], joint_other.flat[pick], true_other.flat[rich]
    (true_rows, joint_rows, most_rows), (true_rest, joint_rest, most_rest) = sums / splits
    # Of ratios of means, for in one half J may be 0. The other half is measured with the α of the half that picks:
    # its own, at a pair that it did not choose, is too low, and would flatter it.
    rows = grid.n * alpha if alpha_given else max(most_rows, true_rows, 1e-12)
    excess = [
        float(fbeta_of(true_rows, joint_rows, one, rows)) - float(fbeta_of(true_rest, joint_rest, one, rows))
        for one in (beta, 0.0, math.inf)
    ]
    excess.append(0.0 if alpha_given else float(most_rows - most_rest) / grid.n)
    too_good: FloatArray = np.array(excess)
    return too_good.clip(min=0.0)


def coincidence_after_shift(
    flag_s: BoolArray, flag_q: BoolArray, code: IntArray | None
) -> tuple[float, float]:
    """(TP kept when one input is shifted by a few rows, as a share of TP; its z-score).

    The shift is cyclic and runs within each stratum, in the order of the rows. Events
    do not survive it; a regime that lasts for many rows does.
    """
    if code is not None:
        order = np.argsort(code, kind="stable")
        flag_s, flag_q, code = flag_s[order], flag_q[order], code[order]
    starts = np.array([0]) if code is None else np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    stops = np.r_[starts[1:], len(flag_s)]
    unmoved = Moments.of(flag_s, flag_q, code)
    moved = (
        np.concatenate([np.roll(flag_q[a:b], shift) for a, b in zip(starts, stops, strict=True)])
        for shift in BOTH_WAYS
    )
    return share_kept(unmoved, (Moments.of(flag_s, flags, code) for flags in moved))


def share_kept(unmoved: Moments, shifted: Iterable[Moments]) -> tuple[float, float]:
    """The two numbers of :func:`coincidence_after_shift`, from moments."""
    here = true_positive_fraction(unmoved)
    if here <= 0:
        return 0.0, 0.0
    kept, observed, expected = [], 0.0, 0.0
    for moments in shifted:
        kept.append(true_positive_fraction(moments))
        observed += float(np.sum(moments.sum_sq))
        expected += float(np.sum(moments.sum_s * moments.sum_q / moments.n))
    # Neighbouring shifts see nearly the same rows, hence the factor on the variance.
    z = (observed - expected) / math.sqrt(max(expected, 1.0) * len(kept))
    return float(np.mean(kept)) / here, z


def main_episodes(joint: BoolArray) -> int:
    """How many episodes hold half of the joint rows."""
    sizes = find_runs(joint, bridge=EPISODE_GAP - 1).n_flagged
    if len(sizes) == 0:
        return 0
    return int(np.searchsorted(np.cumsum(np.sort(sizes)[::-1]), sizes.sum() / 2) + 1)
