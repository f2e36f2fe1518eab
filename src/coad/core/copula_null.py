"""What two correlated scores without events look like: tables drawn from a copula, with the margins of the data.

The scores' own values stay as they are, ties included, and only their pairing is drawn: each row of s keeps its rank,
q's place beside it is drawn from the copula given that rank, and the drawn places are turned into ranks of q. With
ρ = 0 this is shuffling. The correlation is estimated again in every draw, as it was in the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import ndtri, stdtrit

from coad._typing import FloatArray, IntArray
from coad.core.bulk import fit_bulk, ranks_within
from coad.core.copula import LARGEST, joint_exceedance
from coad.core.grid import ThresholdGrid

__all__ = ["CopulaNull"]

#: Rows drawn over all draws, at most, unless that leaves fewer than 40: then p could not fall below 0.05.
_DRAWN_ROWS, _FEWEST_DRAWS = 100_000_000, 40
#: ρ at which the expected rows are tabulated beyond those near the estimate: inputs moved in time may have any.
_COARSE = (0.0, 0.2, 0.4, 0.6, 0.8, LARGEST)
_NEAR = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)  # standard errors around the estimate


class CopulaNull:
    """Two scores on a grid of thresholds, judged against a Gaussian copula whose ρ is estimated from the bulk."""

    def __init__(self, grid: ThresholdGrid, score_s: FloatArray, score_q: FloatArray) -> None:
        self.grid = grid
        code = grid.search.code
        home = np.zeros(grid.n, dtype=np.int64) if code is None else code
        self._by_s, self._by_q = np.lexsort((score_s, home)), np.lexsort((score_q, home))
        self._home = home[self._by_s]
        sizes = np.bincount(home)
        place = np.arange(grid.n) - (np.cumsum(sizes) - sizes)[self._home]
        self._rank: FloatArray = (place + 0.5) / sizes[
            self._home
        ]  # of s, without ties: what draws start from
        self.z_s, self.z_q = (ndtri(ranks_within(x, code)) for x in (score_s, score_q))
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

    def p_value(self, n_draws: int, rng: np.random.Generator, freedom: float = math.inf) -> float:
        """How often a draw without events shows as much evidence.

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
        The share of draws, the data among them, with at least the evidence of the data.
        """
        draws = max(_FEWEST_DRAWS, min(n_draws, _DRAWN_ROWS // self.grid.n))
        pairs = (self.draw(self.bulk.rho, rng, freedom) for _ in range(draws))
        return self._share(pairs, draws)

    def shift_p_value(self, n_shifts: int, rng: np.random.Generator) -> tuple[float, int]:
        """The same for one input moved in time, and the number of shifts; see :func:`coad.core.inference.shift_test`."""
        draws = max(_FEWEST_DRAWS, min(n_shifts, _DRAWN_ROWS // self.grid.n))
        return self._share((self.grid.shifted_pairs(rng) for _ in range(draws)), draws), draws

    def draw(
        self, rho: float, rng: np.random.Generator, freedom: float = math.inf
    ) -> tuple[IntArray, IntArray]:
        """Rows of s, and the rows of q that meet them in a draw without events."""
        rho = max(rho, 0.0)
        if math.isinf(freedom):
            latent = rho * ndtri(self._rank) + math.sqrt(1 - rho * rho) * rng.standard_normal(self.grid.n)
        else:  # given s, q has a t-distribution with one more degree of freedom and a scale that grows with |s|
            s = stdtrit(freedom, self._rank)
            scale = np.sqrt((freedom + s * s) * (1 - rho * rho) / (freedom + 1))
            latent = rho * s + scale * rng.standard_t(freedom + 1, self.grid.n)
        order = np.argsort(latent) if self._home[-1] == 0 else np.lexsort((latent, self._home))
        return self._by_s[order], self._by_q

    def _share(self, pairs: Iterable[tuple[IntArray, IntArray]], draws: int) -> float:
        at_least = 0
        for rows_s, rows_q in pairs:
            rho = fit_bulk(self.z_s[rows_s], self.z_q[rows_q]).rho
            drawn = self._evidence(self.grid.paired(rows_s, rows_q), rho)
            at_least += drawn >= self.evidence * (1 - 1e-12)
        return (1 + at_least) / (1 + draws)

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
