"""Label-free thresholds for more rows than memory holds: the same search, in passes over batches."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numba
import numpy as np
from scipy.stats import random_table

from coad._typing import FloatArray, IntArray, RandomState
from coad.core.background import INDEPENDENT, BackgroundKind, choose_background
from coad.core.copula_null import CopulaNull
from coad.core.grid import ThresholdGrid, grid_steps
from coad.core.inference import BOTH_WAYS, EPISODE_GAP, FEW_EPISODES, share_kept
from coad.core.metric import ignore_undefined
from coad.core.moments import Moments
from coad.core.search import Optimum, PairSearch
from coad.core.table_null import MANY_ROWS, MANY_STRATA, TableNull
from coad.core.validation import (
    LEVEL,
    as_generator,
    check_alpha,
    check_beta,
    check_permutations,
    check_significance,
)
from coad.exceptions import FileError, InputError
from coad.thresholds.count_table import place
from coad.thresholds.out_of_core_search import ScoredOptimum, StreamSearch
from coad.thresholds.result import Candidate, ThresholdResult
from coad.thresholds.row_stream import Batch, RowStream
from coad.thresholds.selection import _Selection

__all__ = ["stream_thresholds"]

#: Rows held at once; more do not make the search quicker.
MAX_HELD = 2_000_000
_BLOCK = 1 << 20  # rows of the spool read at once


def stream_thresholds(
    batches: Callable[[], Iterable[Batch]],
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
) -> ThresholdResult:
    """:func:`coad.select_thresholds` for rows that are read in passes, few of them held at once.

    Three passes give the thresholds: one samples the scores, one counts the rows in a table, one
    collects the rows that the table leaves in doubt. Only where these are more than ``max_rows``
    is their part of the table counted again, finer. One more pass is for the p-values and
    intervals, and one for the background. Three bytes a row are kept on disk meanwhile (in the directory for temporary files).

    The thresholds, α, F̂, P̂ and R̂ are exact, as in memory: no pair of thresholds has a higher
    F̂, and none of those that reach it flags more rows jointly. (Where several pairs share both
    numbers, each search may name another one of them.) The p-values and the intervals rest on a
    grid of at most 64 thresholds an input, as in memory, but its thresholds are edges of the table,
    so they differ a little, as with another seed.

    Parameters
    ----------
    batches
        Called once a pass, gives the same rows each time: ``(score_s, score_q, context)``, where
        ``context`` is None or a list of columns.
    beta, alpha, n_permutations, random_state, significance, missing, ordered
        As for :func:`coad.select_thresholds`.
    background
        As for :func:`coad.select_thresholds`. Unless it is ``"independent"``, one more pass samples 200,000 rows
        (or takes all, if there are no more); the correlation is theirs, and with more than 50 contexts so are the
        p-values that allow for it.
    max_rows
        Rows held at once, at most.
    names, remedy
        What messages call the two scores, and what they advise where a score is missing.

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
    rng = as_generator(random_state)
    rows = RowStream(
        batches, missing=missing, names=names, remedy=remedy, sample=min(max_rows, 1 << 19), rng=rng
    )
    with ignore_undefined(), _Spool(rows) as spool:
        return _StreamedSelection(
            rows, spool, beta, given, int(n_permutations), significance, rng, ordered, background, max_rows
        ).result()


class _StreamedSelection(_Selection):
    """The steps of :func:`coad.select_thresholds`; what needs the rows comes from passes over them."""

    search: StreamSearch  # type: ignore[assignment]

    def __init__(
        self,
        rows: RowStream,
        spool: _Spool,
        beta: float,
        alpha: float | None,
        n_permutations: int,
        significance: float,
        rng: np.random.Generator,
        ordered: bool,
        background: BackgroundKind,
        max_rows: int,
    ) -> None:
        self.rows, self.spool, self.ordered = rows, spool, ordered
        self.beta, self.given, self.significance, self.n_permutations, self.rng = (
            beta,
            alpha,
            significance,
            n_permutations,
            rng,
        )
        self.n_strata = len(rows.sizes)
        self.shift_p_value, self.n_shifts = None, 0
        self.tail_p_value, self.freedom = None, math.inf
        self.allows_correlation = background != "independent"
        self.background = INDEPENDENT
        if self.allows_correlation:
            self.sample = rows.sample(MANY_ROWS, rng)
            self.background = choose_background(*self.sample, background)
            if rows.n > MANY_ROWS:
                sampled = f"{self.background.why}, measured on a sample of {len(self.sample[0]):,} rows"
                self.background = replace(self.background, why=sampled)
        expected = None if math.isinf(beta) else (beta, alpha)
        self.search = StreamSearch(rows, max_rows=max_rows, expected=expected)

    def _top_heavy(self) -> list[tuple[str, float]]:
        # The first cell of the table holds the rows at the highest score.
        sides = (("score_s", self.search.first.s), ("score_q", self.search.first.q))
        return [(name, int(side.rows[0]) / self.rows.n) for name, side in sides if not side.usable.any()]

    def _grid(self, best: Optimum, richest: Optimum) -> ThresholdGrid:
        assert isinstance(best, ScoredOptimum)
        assert isinstance(richest, ScoredOptimum)
        self.spool.fill(self.search, best, richest)
        return _SpooledGrid(self.search, self.spool)

    def _null(self, grid: ThresholdGrid) -> CopulaNull | TableNull:
        if self.rows.n <= MANY_ROWS or self.n_strata > MANY_STRATA:
            return CopulaNull(ThresholdGrid(PairSearch(*self.sample)), *self.sample[:2])
        return TableNull(grid, self.background.rho, self.background.error, self.sample)

    def _pair(self, best: Optimum) -> tuple[float, float, Moments]:
        assert isinstance(best, ScoredOptimum)
        return best.threshold_s, best.threshold_q, self.spool.moments()

    def _kept_after_shift(self, found: Candidate) -> tuple[float, float]:
        return share_kept(self.spool.moments(), map(self.spool.moments_after, BOTH_WAYS))

    def _few_episodes(self, found: Candidate) -> bool:
        longest, total = self.spool.longest, self.spool.n_joint
        return sum(longest) >= total / 2


class _Spool:
    """Three bytes a row on disk, stratum by stratum: its cells on a grid, and its flags."""

    def __init__(self, rows: RowStream) -> None:
        self.rows = rows
        self.starts: IntArray = np.cumsum(rows.sizes) - rows.sizes
        self.longest: list[int] = []  # joint rows of the main episodes
        self.n_joint = 0
        self.kinds: IntArray = np.zeros((len(rows.sizes), 16), dtype=np.int64)

    def __enter__(self) -> _Spool:
        try:
            self._file = tempfile.TemporaryFile(prefix="coad-")
        except OSError as error:
            raise FileError(f"no temporary file could be opened: {error.strerror or error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fill(self, search: StreamSearch, best: ScoredOptimum, richest: ScoredOptimum) -> None:
        """One pass: the grid, the rows by flags, and where the joint rows lie."""
        steps = grid_steps(len(search.sizes))
        # The last cell of the grid is that of the rows flagged at no node.
        self.edges: list[FloatArray] = [
            np.append(side.quantiles(steps), -np.inf) for side in (search.first.s, search.first.q)
        ]
        filled = self.starts.copy()
        episodes = _Episodes()
        at = 0
        for s, q, code in self.rows:
            by_stratum = np.argsort(code, kind="stable") if len(self.starts) > 1 else slice(None)
            record = np.empty((len(s), 3), dtype=np.uint8)
            flag_s, flag_q = s >= best.threshold_s, q >= best.threshold_q
            kind = 8 * flag_s + 4 * flag_q
            kind += 2 * (s >= richest.threshold_s) + (q >= richest.threshold_q)
            self.kinds += np.bincount(16 * code + kind, minlength=self.kinds.size).reshape(-1, 16)
            _fill_cells(s, self.edges[0], record[:, 0])
            _fill_cells(q, self.edges[1], record[:, 1])
            record[:, 2] = 2 * flag_s + flag_q
            episodes.add(np.flatnonzero(flag_s & flag_q) + at)
            at += len(s)
            record, done = record[by_stratum], 0
            for stratum, count in enumerate(np.bincount(code).tolist()):
                if count:
                    self._write(record[done : done + count], int(filled[stratum]))
                    filled[stratum] += count
                    done += count
        self.longest, self.n_joint = episodes.longest(), episodes.total

    def moments(self) -> Moments:
        """Of the flags at the chosen pair."""
        kinds = self.kinds.reshape(-1, 4, 4).sum(2)
        return self._moments(kinds[:, 3])

    def moments_after(self, shift: int) -> Moments:
        """Of the flags when q is moved by some rows within each stratum, cyclically."""
        joint = np.zeros(len(self.starts), dtype=np.int64)
        for stratum, size in enumerate(self.rows.sizes.tolist()):
            for here, there in self._moved(stratum, -shift % size):
                joint[stratum] += np.count_nonzero((here[:, 2] >> 1) & there[:, 2] & 1)
        return self._moments(joint)

    def cells_after(self, lags: IntArray) -> IntArray:
        """Rows per stratum and cell when q is moved by ``lags`` rows within each stratum, cyclically."""
        shape = len(self.edges[0]), len(self.edges[1])
        cells = np.zeros((len(self.starts), *shape), dtype=np.int64)
        for stratum, lag in enumerate(lags.tolist()):
            for here, there in self._moved(stratum, lag):
                _add_cells(here, there, cells[stratum])
        return cells

    def _moments(self, joint: IntArray) -> Moments:
        kinds = self.kinds.reshape(-1, 4, 4).sum(2)
        n, sum_s, sum_q = kinds.sum(1), kinds[:, 2:].sum(1), kinds[:, 1::2].sum(1)
        if len(self.starts) == 1:
            return Moments(float(n[0]), float(sum_s[0]), float(sum_q[0]), float(joint[0]))
        names = tuple(range(len(self.starts)))
        return Moments(n.astype(float), sum_s.astype(float), sum_q.astype(float), joint.astype(float), names)

    def _moved(self, stratum: int, lag: int) -> Iterable[tuple[Any, Any]]:
        """Blocks of a stratum beside the blocks that lie ``lag`` rows later."""
        start, size = int(self.starts[stratum]), int(self.rows.sizes[stratum])
        for first, last, offset in ((0, size - lag, lag), (size - lag, size, lag - size)):
            for at in range(first, last, _BLOCK):
                count = min(_BLOCK, last - at)
                yield self._read(start + at, count), self._read(start + at + offset, count)

    def _write(self, record: Any, row: int) -> None:
        try:
            self._file.seek(3 * row)
            self._file.write(record.tobytes())
            self._file.flush()
        except OSError as error:
            raise FileError(
                f"the disk for temporary files is full or broken ({error.strerror or error}); "
                f"{3 * self.rows.n / 1e9:.1f} GB are needed, in the folder that TMPDIR names"
            ) from error

    def _read(self, row: int, count: int) -> Any:
        self._file.seek(3 * row)
        return np.frombuffer(self._file.read(3 * count), np.uint8).reshape(-1, 3)


class _SpooledGrid(ThresholdGrid):
    """A :class:`ThresholdGrid` whose rows lie in a spool."""

    search: StreamSearch  # type: ignore[assignment]

    def __init__(self, search: StreamSearch, spool: _Spool) -> None:
        self.search, self.spool, self.n, self.correlation = search, spool, search.n, search.correlation
        self.corrected = len(search.sizes) > 1 or search.has_singles
        self.shape = (len(spool.edges[0]) - 1, len(spool.edges[1]) - 1)
        every = self._merged(spool.cells_after(np.zeros(len(spool.starts), dtype=np.int64)))
        self.cells = every[: len(every) - search.has_singles]
        self.sizes = search.sizes[: len(self.cells)].astype(float)
        self.fixed_joint = self.joint_at_nodes(every[-1] if search.has_singles else np.zeros_like(every[0]))
        self.flagged_s = self.cells.sum(2).cumsum(1)[:, :-1].astype(float)
        self.flagged_q = self.cells.sum(1).cumsum(1)[:, :-1].astype(float)
        self.expected = np.einsum("cp,ct->pt", self.flagged_s / self.sizes[:, None], self.flagged_q)

    def shuffled_rows(self, rng: np.random.Generator) -> IntArray:
        tables = [random_table(cells.sum(1), cells.sum(0)).rvs(random_state=rng) for cells in self.cells]
        return np.array(tables).astype(np.int64)

    def shifted(self, rng: np.random.Generator) -> IntArray:
        sizes = self.spool.rows.sizes
        lags = rng.integers(0, sizes) if len(sizes) > 1 else rng.integers(1, sizes)
        return self._merged(self.spool.cells_after(lags))[: len(self.cells)]

    def rows_by_flags(self, best: Optimum, richest: Optimum) -> IntArray:
        return self._merged(self.spool.kinds)

    def _merged(self, by_stratum: IntArray) -> IntArray:
        """Strata of a single row put together as the last one."""
        if not self.search.has_singles:
            return by_stratum
        merged = np.zeros((len(self.search.sizes), *by_stratum.shape[1:]), dtype=by_stratum.dtype)
        np.add.at(merged, self.search.merged, by_stratum)
        return merged


class _Episodes:
    """The largest few episodes of joint rows, as rows come in: :func:`coad.core.inference.main_episodes` in pieces."""

    def __init__(self) -> None:
        self.total = 0
        self._largest: list[int] = []
        self._last, self._size = -1, 0

    def add(self, places: IntArray) -> None:
        if len(places) == 0:
            return
        self.total += len(places)
        starts = np.flatnonzero(
            np.diff(places, prepend=self._last if self._size else places[0]) > EPISODE_GAP
        )
        sizes = np.diff(np.concatenate([[0], starts, [len(places)]]))
        sizes[0] += self._size
        self._largest = sorted([*self._largest, *sizes[:-1].tolist()])[-FEW_EPISODES:]
        self._last, self._size = int(places[-1]), int(sizes[-1])

    def longest(self) -> list[int]:
        return sorted([*self._largest, self._size])[-FEW_EPISODES:]


@numba.njit(cache=True)
def _fill_cells(score, edges, cells):  # type: ignore[no-untyped-def]
    for row in range(len(score)):
        cells[row] = place(edges, score[row])


@numba.njit(cache=True)
def _add_cells(here, there, cells):  # type: ignore[no-untyped-def]
    for row in range(len(here)):
        cells[here[row, 0], there[row, 1]] += 1
