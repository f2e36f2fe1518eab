"""Findings on simulated noise: how often anything is flagged; and the time of one call beside an isolation forest."""

from __future__ import annotations

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from sklearn.ensemble import IsolationForest

import coad
from benchmarks._results import record, table

#: Fits of independent noise, and of correlated noise, which takes longer.
FITS, CORRELATED_FITS = 100, 40
#: Rows and columns of each input.
SHAPES = ((150, 20), (150, 40), (400, 40), (600, 5))
#: Correlated inputs: rows, columns, correlation of each pair of columns.
CORRELATED = ((500, 5, 0.1), (500, 5, 0.3), (500, 5, 0.6), (1_000, 2, 0.6), (2_000, 5, 0.3), (2_000, 5, -0.3))


def run() -> None:
    """Record both tables."""
    record("findings-level", "Findings on simulated noise without events", _level())
    record("findings-time", "Findings: 10,000 rows of 50 columns", _time())


def noise(n: int, width: int, seed: int, rho: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two inputs of normal columns; column i of both has the correlation ``rho``."""
    rng = np.random.default_rng(seed)
    common, s, q = rng.normal(size=(3, n, width))
    shared, own = np.sqrt(abs(rho)), np.sqrt(1 - abs(rho))
    return shared * common + own * s, np.sign(rho) * shared * common + own * q


def _level() -> str:
    lines = []
    for n, width, rho in (*((*shape, 0.0) for shape in SHAPES), *CORRELATED):
        fits = CORRELATED_FITS if rho else FITS
        with ProcessPoolExecutor(2) as pool:
            seen = list(pool.map(partial(_flags, n, width, rho), range(fits)))
        flagged, before = (sum(one[i] for one in seen) for i in (0, 1))
        lines.append((f"{n:,}", width, rho, fits, f"{flagged / fits:.1%}", f"{before / fits:.1%}"))
        print(lines[-1], file=sys.stderr, flush=True)
    head = (
        "rows",
        "columns an input",
        "correlation",
        "fits",
        "anything flagged",
        "or held back as merely correlated",
    )
    return (
        table(head, lines)
        + "\n\nDefault settings. Asked for: nothing flagged in at least 95 % of the fits. The last column: something is rare "
        "and odd in both beyond chance, and it is flagged, or held back because correlated inputs show as much."
    )


def _flags(n: int, width: int, rho: float, seed: int) -> tuple[bool, bool]:
    """Whether anything is flagged in one set of noise, and whether it is or would be without the test of correlation."""
    found = coad.find(*noise(n, width, 70_000 + seed, rho), ordered=False, random_state=seed)
    return any(one.flagged for one in found), any(one.reason in ("", "correlated") for one in found)


def _time() -> str:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(10_000, 5))
    s, q = (shared @ rng.normal(size=(5, 50)) + 2 * rng.normal(size=(10_000, 50)) for _ in range(2))
    coad.find(s[:500], q[:500], ordered=False)  # compiles and loads what the first call needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    coad.find(s, q, ordered=False)
    ours = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (s.nbytes + q.nbytes)
    start = time.perf_counter()
    for x in (s, q):
        IsolationForest(random_state=0).fit(x).score_samples(x)
    peer = time.perf_counter() - start
    return (
        f"`coad.find` takes {ours / peer:.1f} times as long as scikit-learn's isolation forest on both inputs ({ours:.1f} s "
        f"and {peer:.1f} s in one run on a shared machine); the peak of memory grows by {grown:.1f} times the inputs."
    )
