"""What two correlated scores without events look like: tables drawn from a copula, with the margins of the data.

The scores' own values stay as they are, ties included, and only their pairing is drawn: each row of s keeps its rank,
q's place beside it is drawn from the copula given that rank, and the drawn places are turned into ranks of q. With
ρ = 0 this is shuffling. The correlation is estimated again in every draw, as it was in the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from coad._typing import FloatArray, IntArray
from coad.core.bulk import fit_bulk, normal_scores
from coad.core.copula import LARGEST, joint_exceedance
from coad.core.grid import ThresholdGrid
from coad.core.heavy_tails import fit_freedom
from coad.core.inference import PermutationTest

__all__ = ["CopulaNull"]

#: Rows drawn over all draws, at most, unless that leaves fewer than 40: then p could not fall below 0.05.
_DRAWN_ROWS, _FEWEST_DRAWS = 100_000_000, 40
#: ρ at which the expected rows are tabulated beyond those near the estimate: inputs moved in time may have any.
_COARSE = (0.0, 0.2, 0.4, 0.6, 0.8, LARGEST)
#: Drawn places are sorted by whole numbers up to this, twelve times as fast as by themselves. A step is a few
#: ten-thousandths of a standard deviation: extremes are never tied.
_LEVELS = 65535
_NEAR = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)  # standard errors around the estimate


class CopulaNull:
    """Two scores on a grid of thresholds, judged against a Gaussian copula whose ρ is estimated from the bulk."""

    def __init__(self, grid: ThresholdGrid, score_s: FloatArray, score_q: FloatArray) -> None:
        self.grid = grid
        code = grid.search.code
        home = np.zeros(grid.n, dtype=np.int64) if code is None else code
        self._by_s, self._by_q = np.lexsort((score_s, home)), np.lexsort((score_q, home))
        sizes = np.bincount(home)
        self._home = home[self._by_s].astype(np.uint16 if len(sizes) <= _LEVELS else np.int64)
        place = np.arange(grid.n) - (np.cumsum(sizes) - sizes)[self._home]
        self._rank: FloatArray = (place + 0.5) / sizes[
            self._home
        ]  # of s, without ties: what draws start from
        self.z_s, self.z_q = (normal_scores(x, code) for x in (score_s, score_q))
        if grid.search.has_singles:  # put together in the last stratum; their ranks there mean nothing
            self.z_s[home == len(sizes) - 1] = self.z_q[home == len(sizes) - 1] = np.inf
        self.bulk = fit_bulk(self.z_s, self.z_q)
        near = np.array([self.bulk.rho + k * self.bulk.error for k in _NEAR])
        self._ladder: FloatArray = np.unique(np.clip([*near, *_COARSE], 0.0, LARGEST))
        self._expected = [self._expect(float(rho)) for rho in self._ladder]
        self.evidence = self._evidence(grid.cells, self.bulk.rho)

    def expected(self, rho: float) -> FloatArray:
        """Joint rows at every node for this ρ and the margins of the data; below 0, those of ρ = 0."""
        rho = float(np.clip(rho, 0.0, LARGEST))
        high = int(np.clip(np.searchsorted(self._ladder, rho), 1, len(self._ladder) - 1))
        low, top = self._ladder[high - 1], self._ladder[high]
        share = (rho - low) / (top - low)
        rows: FloatArray = (1 - share) * self._expected[high - 1] + share * self._expected[high]
        return rows

    def test(self, n_draws: int, rng: np.random.Generator, freedom: float = math.inf) -> PermutationTest:
        """Compare the evidence with that of draws without events.

        Parameters
        ----------
        n_draws
            Draws; fewer where there are millions of rows.
        rng
            Where randomness comes from.
        freedom
            Degrees of freedom of a t-copula to draw from; infinite: Gaussian.

        Returns
        -------
        PermutationTest
            Its p-value is the share of draws, the data among them, with at least the evidence of the data.
        """
        draws = max(_FEWEST_DRAWS, min(n_draws, _DRAWN_ROWS // self.grid.n))
        latent, scale = self._latent(self.bulk.rho, freedom)
        pairs = (self._paired(latent, scale, freedom, rng) for _ in range(draws))
        return self._compared(pairs, draws)

    def shift_test(self, n_shifts: int, rng: np.random.Generator) -> tuple[float, int]:
        """The p-value when one input is moved in time, and the number of shifts; as :func:`coad.core.inference.shift_test`."""
        draws = max(_FEWEST_DRAWS, min(n_shifts, _DRAWN_ROWS // self.grid.n))
        return self._compared((self.grid.shifted_pairs(rng) for _ in range(draws)), draws).p_value, draws

    def freedom(self) -> float:
        """Degrees of freedom of the t-copula whose tails the rows outside the upper corner have."""
        return fit_freedom(ndtr(self.z_s), ndtr(self.z_q), max(self.bulk.rho, 0.0))

    def draw(
        self, rho: float, rng: np.random.Generator, freedom: float = math.inf
    ) -> tuple[IntArray, IntArray]:
        """Rows of s, and the rows of q that meet them in a draw without events."""
        return self._paired(*self._latent(rho, freedom), freedom, rng)

    def _latent(self, rho: float, freedom: float) -> tuple[FloatArray, FloatArray | float]:
        """Where q lies beside each rank of s, on average, and how far around it."""
        rho = max(rho, 0.0)
        if math.isinf(freedom):
            return rho * ndtri(self._rank), math.sqrt(1 - rho * rho)
        # Given s, q has a t-distribution with one more degree of freedom and a scale that grows with |s|.
        s = stdtrit(freedom, self._rank)
        return rho * s, np.sqrt((freedom + s * s) * (1 - rho * rho) / (freedom + 1))

    def _paired(
        self, latent: FloatArray, scale: FloatArray | float, freedom: float, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        n = self.grid.n
        noise = rng.standard_normal(n)
        if not math.isinf(freedom):
            noise *= np.sqrt((freedom + 1) / rng.chisquare(freedom + 1, n))
        place = latent + scale * noise
        lowest, highest = float(place.min()), float(place.max())
        level = ((place - lowest) * (_LEVELS / max(highest - lowest, 1e-300))).astype(np.uint16)
        order = np.argsort(level, kind="stable")
        if self._home[-1] > 0:
            order = order[np.argsort(self._home[order], kind="stable")]
        return self._by_s[order], self._by_q

    def _compared(self, pairs: Iterable[tuple[IntArray, IntArray]], draws: int) -> PermutationTest:
        drawn = np.empty(draws)
        for index, (rows_s, rows_q) in enumerate(pairs):
            rho = fit_bulk(self.z_s[rows_s], self.z_q[rows_q]).rho
            drawn[index] = self._evidence(self.grid.paired(rows_s, rows_q), rho)
        # Rounding must not make a draw with the very same counts look weaker.
        at_least = int(np.count_nonzero(drawn >= self.evidence * (1 - 1e-12)))
        return PermutationTest((1 + at_least) / (1 + draws), self.evidence, drawn)

    def _evidence(self, cells: IntArray, rho: float) -> float:
        joint = self.grid.joint_at_nodes(cells).sum(0)
        return float(self.grid.evidence(joint, self.expected(rho)))

    def _expect(self, rho: float) -> FloatArray:
        if rho == 0:
            independent: FloatArray = self.grid.expected
            return independent
        total: FloatArray = np.zeros(self.grid.shape)
        for n, s, q in zip(self.grid.sizes, self.grid.flagged_s, self.grid.flagged_q, strict=True):
            total += n * joint_exceedance(s[:, None] / n, q[None, :] / n, rho)
        return total
