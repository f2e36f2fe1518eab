"""Label-free thresholds for more rows than memory holds: the same search, in passes over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.stats import random_table

from coad._typing import IntArray, RandomState
from coad.core.background import BackgroundKind
from coad.core.copula_null import CopulaNull
from coad.core.grid import ThresholdGrid
from coad.core.inference import PermutationTest, moved_draws, share_kept
from coad.core.metric import ignore_undefined
from coad.core.moments import Moments
from coad.core.search import Optimum, PairSearch
from coad.core.table_null import MANY_ROWS, MANY_STRATA, TableNull
from coad.core.validation import (
    LEVEL,
    MIN_ROWS,
    check_alpha,
    check_beta,
    check_permutations,
    check_significance,
)
from coad.exceptions import InputError
from coad.thresholds.moved_rows import AtPair, moments_of
from coad.thresholds.out_of_core_search import ScoredOptimum, StreamSearch
from coad.thresholds.passes import Each, Passes
from coad.thresholds.result import Candidate, ThresholdResult
from coad.thresholds.row_parts import Batch, Part, ReadRules, Sketch, sampled_rows, sketch
from coad.thresholds.selection import Selection, Settings

__all__ = ["MAX_HELD", "stream_thresholds"]

#: Rows held at once, at most: half a gigabyte.
MAX_HELD = 6_000_000
#: Rows of the sample; tables of fewer rows are searched in memory.
SAMPLE = 1 << 19


def stream_thresholds(
    batches: Callable[[], Iterable[Batch]] | Sequence[Part],
    *,
    beta: float = 1.0,
    alpha: float | Literal["auto"] = "auto",
    n_permutations: int = 200,
    random_state: RandomState = 0,
    significance: float = LEVEL,
    missing: Literal["error", "drop"] = "error",
    ordered: bool = True,
    background: BackgroundKind = "auto",
    max_rows: int = MAX_HELD,
    names: tuple[str, str] = ("score_s", "score_q"),
    remedy: str = "pass missing='drop' to leave those rows out",
    each: Each = map,
) -> ThresholdResult:
    """:func:`coad.select_thresholds` for rows that are read in passes, few of them held at once.

    The first pass samples rows; if the sample has all of them, they are searched in memory. Otherwise the second
    counts the rows in a table of at most 4,096 thresholds an input, and the third collects the rows that the table
    leaves in doubt. More passes are made only where these rows are more than ``max_rows``: rare events among very many
    rows. Where the table shows no coincidence, the third pass is left out.

    Thresholds, α, F̂, P̂, R̂ and the background are exact, as in memory: no pair of thresholds has a higher F̂, and none
    of those that reach it flags more rows jointly. (Where several pairs share both numbers, each search may name
    another one of them.) The p-values and the intervals rest on at most 64 thresholds an input, as in memory, but
    those are edges of the table. For them rows are moved in time within blocks of 1,048,576 rows, and what survives
    that is measured at the best pair of edges. All this is the same, to the digit, for any parts and batches.

    Parameters
    ----------
    batches
        Called once a pass, gives the same rows each time: ``(score_s, score_q, context)``, where ``context`` is None
        or a list of columns. Or several :class:`~coad.thresholds.row_parts.Part` of a table, in order, each
        beginning at a multiple of 1,048,576 rows.
    beta, alpha, n_permutations, random_state, significance, missing, ordered, background
        As for :func:`coad.select_thresholds`.
    max_rows
        Rows held at once, at most.
    names, remedy
        What messages call the two scores, and what they advise where a score is missing.
    each
        Applies a function to each part, perhaps in other processes.

    Returns
    -------
    ThresholdResult
        As from :func:`coad.select_thresholds`.

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.random((2, 20_000))
    >>> s[:200] += 1
    >>> q[:200] += 1
    >>> def batches():
    ...     return ((s[i : i + 1000], q[i : i + 1000], None) for i in range(0, 20_000, 1000))
    >>> result = stream_thresholds(batches, max_rows=1000, n_permutations=19)
    >>> from coad import select_thresholds
    >>> exact = select_thresholds(s, q, n_permutations=19)
    >>> (result.threshold_s, result.threshold_q) == (exact.threshold_s, exact.threshold_q)
    True
    """
    beta, given, significance = check_beta(beta), check_alpha(alpha), check_significance(significance)
    check_permutations(n_permutations, significance)
    if missing not in ("error", "drop"):
        raise InputError(f"missing must be 'error' or 'drop', not {missing!r}")
    if max_rows < 1:
        raise InputError(f"max_rows must be at least 1, not {max_rows}")
    parts = [Part(batches)] if callable(batches) else list(batches)
    passes = Passes(parts, ReadRules(missing, names, remedy), each)
    known = passes.sum(sketch, SAMPLE).sorted()
    if known.n < MIN_ROWS:
        raise InputError(f"only {known.n} usable row{'s'[: known.n != 1]}; at least {MIN_ROWS} are needed")
    if len(known.sizes) > 1:
        passes.rules = replace(passes.rules, strata={label: place for place, label in enumerate(known.sizes)})
    settings = Settings(beta, given, int(n_permutations), significance, random_state, ordered, background)
    with ignore_undefined():
        if known.n == len(known.sample.row):
            code = known.sample.code if len(known.sizes) > 1 else None
            return Selection(known.sample.s, known.sample.q, code, settings, known.sample.row).result()
        return _StreamedSelection(passes, known, max_rows, settings).result()


class _StreamedSelection(Selection):
    """The steps of :func:`coad.select_thresholds`; what needs the rows comes from passes over them."""

    search: StreamSearch  # type: ignore[assignment]

    def __init__(self, passes: Passes, known: Sketch, max_rows: int, settings: Settings) -> None:
        kept = known.sample.take(sampled_rows(known.sample.row, MANY_ROWS))
        self._set(settings, kept.s, kept.q, kept.code if len(known.sizes) > 1 else None)
        self.n_strata = len(known.sizes)
        counted = settings.ordered and settings.n_permutations > 0
        self.search = StreamSearch(
            passes,
            known,
            beta=settings.beta,
            alpha=settings.alpha,
            correlation=self.background.rho,
            max_rows=max_rows,
            moves=moved_draws(known.n, settings.n_permutations) if counted else 0,
            seed=int(self.rng.integers(2**62)),
        )
        self._test: PermutationTest | None = None
        self._flags: tuple[IntArray, AtPair | None] | None = None

    def result(self) -> ThresholdResult:
        if self.n_permutations and not self._top_heavy():
            # Noise is known by the table alone, and there most of the rows would be in doubt.
            self.search.exact = False
            rate = max(
                self.search.maximise(beta=math.inf, alpha=1.0, correlation=self.background.rho).fbeta_hat, 0.0
            )
            self._test = super()._tested(self._table_grid(), rate if self.given is None else self.given)
            self.search.exact = self._test.p_value <= self.significance
        return super().result()

    def _tested(self, grid: ThresholdGrid, alpha: float) -> PermutationTest:
        assert self._test is not None
        return self._test

    def _top_heavy(self) -> list[tuple[str, float]]:
        # The first cell of the table holds the rows at the highest score.
        sides = (("score_s", self.search.tables[0].s), ("score_q", self.search.tables[0].q))
        return [(name, int(side.rows[0]) / self.search.n) for name, side in sides if not side.usable.any()]

    def _table_grid(self) -> _TableGrid:
        return _TableGrid(self.search)

    def _grid(self, best: Optimum, richest: Optimum) -> ThresholdGrid:
        assert isinstance(best, ScoredOptimum)
        assert isinstance(richest, ScoredOptimum)
        grid = self._table_grid()
        self._flags = self.search.flags(best, richest)
        grid.kinds = self._flags[0]
        return grid

    def _null(self, grid: ThresholdGrid) -> CopulaNull | TableNull:
        if self.n_strata > MANY_STRATA:
            return CopulaNull(ThresholdGrid(PairSearch(*self.sample)), *self.sample[:2])
        return TableNull(grid, self.background.rho, self.background.error, self.sample)

    def _pair(self, best: Optimum) -> tuple[float, float, Moments]:
        assert isinstance(best, ScoredOptimum)
        assert self._flags is not None
        return *best.pair, moments_of(self._flags[0])

    def _kept_after_shift(self, found: Candidate) -> tuple[float, float]:
        shown = self._shown()
        return share_kept(moments_of(shown.kinds), (moments_of(shown.kinds, joint) for joint in shown.moved))

    def _few_episodes(self, found: Candidate) -> bool:
        return self._shown().few_episodes

    def _shown(self) -> AtPair:
        assert self._flags is not None
        assert self._flags[1] is not None
        return self._flags[1]


class _TableGrid(ThresholdGrid):
    """A :class:`ThresholdGrid` made of the counts of a table."""

    search: StreamSearch  # type: ignore[assignment]
    kinds: IntArray

    def __init__(self, search: StreamSearch) -> None:
        self.search, self.n, self.correlation = search, search.n, search.correlation
        self.corrected = len(search.sizes) > 1 or search.has_singles
        self.shape = (len(search.nodes[0]), len(search.nodes[1]))
        starts = [np.append(0, nodes) for nodes in search.nodes]
        cells = np.add.reduceat(search.table.counts, starts[0], axis=0, dtype=np.int64)
        every: IntArray = np.add.reduceat(cells, starts[1], axis=1).transpose(2, 0, 1)
        self.cells = every[: len(every) - search.has_singles]
        self.sizes = search.sizes[: len(self.cells)].astype(float)
        self.fixed_joint = self.joint_at_nodes(every[-1] if search.has_singles else np.zeros_like(every[0]))
        self.flagged_s = self.cells.sum(2).cumsum(1)[:, :-1].astype(float)
        self.flagged_q = self.cells.sum(1).cumsum(1)[:, :-1].astype(float)
        self.expected = np.einsum("cp,ct->pt", self.flagged_s / self.sizes[:, None], self.flagged_q)
        self._moves = iter(search.moves)

    def shuffled_rows(self, rng: np.random.Generator) -> IntArray:
        tables = [random_table(cells.sum(1), cells.sum(0)).rvs(random_state=rng) for cells in self.cells]
        return np.array(tables).astype(np.int64)

    def shifted(self, rng: np.random.Generator) -> IntArray:
        return np.asarray(next(self._moves))[None]

    def rows_by_flags(self, best: Optimum, richest: Optimum) -> IntArray:
        return self.search.merge(self.kinds)
