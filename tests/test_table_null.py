"""The null of correlated scores on tables of counts tells what drawn rows tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from makers import correlated_noise

import coad
from coad.core.copula_null import CopulaNull
from coad.core.grid import ThresholdGrid
from coad.core.search import PairSearch
from coad.core.table_null import TableNull


def nulls(s, q, code=None):
    grid = ThresholdGrid(PairSearch(s, q, code))
    rows = CopulaNull(grid, s, q)
    return rows, TableNull(grid, rows.bulk.rho, rows.bulk.error, (s, q, code))


@pytest.mark.parametrize("freedom", [math.inf, 6.0])
@pytest.mark.parametrize("strata", [1, 3])
def test_drawn_tables_have_the_evidence_of_drawn_rows(strata, freedom):
    s, q = correlated_noise(8000, 0.4, 0)
    rows, tables = nulls(s, q, None if strata == 1 else np.arange(8000) % strata)
    assert tables.evidence == pytest.approx(rows.evidence, rel=1e-3)
    rng = np.random.default_rng(0)
    slow, fast = (one.test(60, rng, freedom).null_evidence for one in (rows, tables))
    # Drawn rows estimate ρ again, and heavy tails raise it; drawn tables do not, and are the more careful.
    assert np.median(fast) == pytest.approx(np.median(slow), rel=0.4 if math.isinf(freedom) else 0.8)
    assert rows.freedom() == tables.freedom()


def test_rare_events_among_very_many_correlated_rows_are_found(monkeypatch):
    monkeypatch.setattr("coad.thresholds.selection.MANY_ROWS", 2000)
    s, q = correlated_noise(20_000, 0.3, 1)
    assert coad.select_thresholds(s, q, n_permutations=40).status == "no coincidence"
    event = np.random.default_rng(0).choice(20_000, 30, replace=False)
    s[event] += 6
    q[event] += 6
    found = coad.select_thresholds(s, q, n_permutations=40)
    assert found.status == "found"
    assert found.background.kind == "correlated"
