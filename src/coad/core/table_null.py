"""The null of correlated scores for very many rows: tables of counts are drawn instead of rows.

Drawing and ranking rows (:mod:`coad.core.copula_null`) takes a time that grows with their number, and needs them in
memory. With hundreds of thousands of rows the counts on the grid of thresholds can be drawn themselves: multinomial
with the probabilities that the copula gives to the cells. The margins vary a little between draws, so what is expected
is computed from the margins of each draw; and ρ varies as its standard error says, for it would be estimated anew.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtrit

from coad._typing import FloatArray, IntArray
from coad.core.bulk import ranks_within
from coad.core.copula import LARGEST, joint_exceedance
from coad.core.grid import ThresholdGrid
from coad.core.heavy_tails import fit_freedom, t_exceedance
from coad.core.inference import PermutationTest, shift_test

__all__ = ["MANY_ROWS", "MANY_STRATA", "TableNull"]

#: Above so many rows tables are drawn; the error of ρ is 0.003 then, and draws of rows take seconds.
MANY_ROWS = 200_000
#: With more strata than this a table holds too few rows in each, and rows are drawn after all.
MANY_STRATA = 50


class TableNull:
    """As :class:`~coad.core.copula_null.CopulaNull`, on the counts of a grid alone.

    Parameters
    ----------
    grid
        The counts.
    rho, error
        The correlation of the bulk and its standard error.
    sample
        Scores of s and q, and strata (or None), of some whole rows: their tails tell the degrees of freedom.
    """

    def __init__(
        self,
        grid: ThresholdGrid,
        rho: float,
        error: float,
        sample: tuple[FloatArray, FloatArray, IntArray | None],
    ) -> None:
        self.grid, self.rho, self.error, self.sample = grid, max(rho, 0.0), error, sample
        self.evidence = self._evidence(grid.cells, self.rho)

    def test(self, n_draws: int, rng: np.random.Generator, freedom: float = math.inf) -> PermutationTest:
        """Compare the evidence with that of drawn tables; as :meth:`coad.core.copula_null.CopulaNull.test`."""
        cells = [
            self._probabilities(n, s, q, freedom)
            for n, s, q in zip(self.grid.sizes, self.grid.flagged_s, self.grid.flagged_q, strict=True)
        ]
        drawn = np.empty(n_draws)
        for index in range(n_draws):
            tables = np.stack(
                [
                    rng.multinomial(int(n), chances.reshape(-1)).reshape(chances.shape)
                    for n, chances in zip(self.grid.sizes, cells, strict=True)
                ]
            )
            rho = float(np.clip(self.rho + self.error * rng.standard_normal(), 0.0, LARGEST))
            drawn[index] = self._evidence(tables, rho)
        at_least = int(np.count_nonzero(drawn >= self.evidence * (1 - 1e-12)))
        return PermutationTest((1 + at_least) / (1 + n_draws), self.evidence, drawn)

    def shift_test(self, n_shifts: int, rng: np.random.Generator) -> tuple[float, int]:
        """The p-value when one input is moved in time: the evidence of independent scores, for a move ends correlation."""
        return shift_test(self.grid, n_shifts=n_shifts, rng=rng)

    def freedom(self) -> float:
        """Degrees of freedom of the t-copula whose tails the rows outside the upper corner have."""
        s, q, code = self.sample
        return fit_freedom(ranks_within(s, code), ranks_within(q, code), self.rho)

    def _evidence(self, cells: IntArray, rho: float) -> float:
        joint = self.grid.joint_at_nodes(cells).sum(0)
        expected = np.zeros(joint.shape)
        for n, table in zip(self.grid.sizes, cells, strict=True):
            s, q = table.sum(1).cumsum()[:-1] / n, table.sum(0).cumsum()[:-1] / n
            expected += n * joint_exceedance(s[:, None], q[None, :], rho)
        return float(self.grid.evidence(joint, expected))

    def _probabilities(
        self, n: float, flagged_s: FloatArray, flagged_q: FloatArray, freedom: float
    ) -> FloatArray:
        """Of the cells of one stratum, from the highest scores to the lowest."""
        s, q = flagged_s / n, flagged_q / n
        if math.isinf(freedom):
            inner = joint_exceedance(s[:, None], q[None, :], self.rho)
        else:
            t_s, t_q = (-stdtrit(freedom, np.clip(x, 1e-12, 1 - 1e-12)) for x in (s, q))
            inner = t_exceedance(t_s[:, None], t_q[None, :], self.rho, freedom)
            inner = np.where((s[:, None] > 0) & (q[None, :] > 0), inner, 0.0)
        both = np.zeros((len(s) + 2, len(q) + 2))
        both[1:-1, 1:-1] = inner
        both[1:-1, -1], both[-1, 1:-1], both[-1, -1] = s, q, 1.0
        cells = np.maximum(np.diff(np.diff(both, axis=0), axis=1), 0.0)
        chances: FloatArray = cells / cells.sum()
        return chances
