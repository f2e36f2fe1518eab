"""The exact search: equal to brute force, as quick as a sort, in bounded memory."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time

import naive
import numpy as np

from benchmarks._results import record, table
from coad import select_thresholds
from coad.core.search import PairSearch
from coad.research.datasets.synthetic import synthetic_outliers

BETAS = (0, 0.05, 1, 10, math.inf)


def run() -> None:
    record("exact", "Exact: the search against brute force", _exactness())
    record("speed", "Speed: the search against numpy.argsort of the two scores", _speed())
    record("memory", "Memory: peak of one search of 5,000,000 rows", _memory())
    record("default-call", "The default call on 1,000,000 rows against the bare search", _default_call())


def _exactness(cases: int = 2000) -> str:
    rng = np.random.default_rng(0)
    worst, compared, ties = 0.0, 0, 0
    for case in range(cases):
        n = int(rng.integers(10, 301))
        s, q = rng.normal(size=(2, n))
        coincident = int(rng.integers(0, n // 3 + 1))
        s[:coincident] += rng.exponential(2)
        q[:coincident] += rng.exponential(2)
        if case % 3 == 0:
            s, q, ties = s.round(int(rng.integers(0, 2))), q.round(int(rng.integers(0, 2))), ties + 1
        alpha = float(rng.uniform(0.005, 0.5))
        search = PairSearch(s, q)
        for beta in BETAS:
            slow = naive.best_value_by_table(s, q, beta=beta, alpha=alpha)
            best = search.maximise(beta=beta, alpha=alpha)
            assert (slow is None) == (best.joint == 0)
            if slow is not None:
                fast = best.fbeta_hat
                worst = max(worst, abs(fast - slow))
            compared += 1
    assert worst <= 1e-12
    return (
        f"{cases:,} random cases with n from 10 to 300 ({ties} of them with ties), each for β in 0, 0.05, 1, 10, ∞: "
        f"{compared:,} comparisons, largest difference {worst:.1e}. The synthetic set of 21,000 rows is compared "
        "with all pairs in the tests."
    )


def _speed() -> str:
    rows = []
    totals = {}
    _timed(lambda: PairSearch(*synthetic_outliers(1000, random_state=0)[:2]).maximise(beta=1, alpha=0.05))
    for n in (1_000_000, 5_000_000, 10_000_000):
        data = synthetic_outliers(round(n / 1.05), random_state=1)
        sort = min(_timed(lambda data=data: (np.argsort(data.s), np.argsort(data.q))) for _ in range(3))
        prepare = min(_timed(lambda data=data: PairSearch(data.s, data.q)) for _ in range(2))
        search = PairSearch(data.s, data.q)
        for beta in (0.1, 1, 10):
            took = min(
                _timed(lambda beta=beta, search=search: search.maximise(beta=beta, alpha=1 / 21))
                for _ in range(2)
            )
            totals[n, beta] = prepare + took
            rows.append(
                (
                    f"{n:,}",
                    beta,
                    f"{sort:.2f} s",
                    f"{took:.2f} s",
                    f"{took / sort:.2f}",
                    f"{(prepare + took) / sort:.2f}",
                )
            )
        del data, search
    growth = {beta: totals[10_000_000, beta] / totals[1_000_000, beta] for beta in (0.1, 1, 10)}
    return (
        table(
            ("rows", "β", "argsort of both", "search", "search / argsort", "sort and search / argsort"),
            rows,
        )
        + "\n\nFrom 1 to 10 million rows the total (own sort and search) grows "
        + ", ".join(f"{ratio:.1f} times (β = {beta})" for beta, ratio in growth.items())
        + "."
    )


def _memory() -> str:
    code = (
        "import resource\nfrom coad.core.search import PairSearch\nfrom coad.research.datasets.synthetic import synthetic_outliers\n"
        "PairSearch(*synthetic_outliers(1000, random_state=0)[:2]).maximise(beta=1, alpha=0.05)\n"
        "data = synthetic_outliers(4_761_905, random_state=1)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "PairSearch(data.s, data.q).maximise(beta=1, alpha=0.05)\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(before, after, data.s.nbytes + data.q.nbytes)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    _, after, arrays = map(int, out.split())
    unit = 1024 if resource.getpagesize() and sys.platform != "darwin" else 1
    return (
        f"The whole process, making the data included, peaks at {after * unit / 1e6:,.0f} MB: "
        f"{after * unit / arrays:.1f} times the two input arrays ({arrays / 1e6:,.0f} MB)."
    )


def _default_call() -> str:
    data = synthetic_outliers(952_381, random_state=2)
    select_thresholds(data.s[:1000], data.q[:1000])
    bare = min(_timed(lambda: PairSearch(data.s, data.q).maximise(beta=1, alpha=1 / 21)) for _ in range(3))
    call = min(_timed(lambda: select_thresholds(data.s, data.q)) for _ in range(3))
    return (
        f"Bare search (sort included) {bare:.2f} s; the default call (α estimated, 200 shuffles, intervals, "
        f"regime check) {call:.2f} s: {call / bare:.1f} times. The shuffles are drawn as random tables with the "
        "observed margins, so no rows are left out at any size."
    )


def _timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
