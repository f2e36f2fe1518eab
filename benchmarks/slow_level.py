"""Independent slow series: how often networks and modes call them a coincidence, for rows and for windows."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from benchmarks._results import record, table
from coad.exceptions import CoadWarning

STATUSES = ("found", "shared regime suspected", "no coincidence")
WINDOW, STRIDE = 16, 8
#: Data sets of each kind and number of rows, as many as an hour or two allows.
DRAWS = {
    ("rows", 1_000): 60,
    ("rows", 5_000): 30,
    ("windows", 1_000): 20,
    ("windows", 5_000): 10,
    ("modes", 1_000): 10,
}


def run() -> None:
    record("slow-learned", "Slow inputs: networks and modes on independent AR(1) columns", _levels())


def slow_columns(n: int, coefficient: float, seed: int) -> dict[str, np.ndarray]:
    """Four columns of s and four of q that have nothing in common, in time order."""
    noise = np.random.default_rng(seed).normal(size=(8, n + 1000))
    walks = lfilter([1.0], [1.0, -coefficient], noise)[:, 1000:]
    return {f"{'sq'[i // 4]}{i % 4}": walk for i, walk in enumerate(walks)}


def _levels() -> str:
    rows = []
    for (what, n), draws in DRAWS.items():
        for coefficient in (0.5, 0.9, 0.99):
            seen = Counter(_status(what, n, coefficient, 60_000 + seed) for seed in range(draws))
            rows.append(_row(what, n, coefficient, seen))
            print(rows[-1], file=sys.stderr, flush=True)
    return _page(rows)


def _row(what: str, n: int, coefficient: float, seen: Counter[str]) -> tuple[object, ...]:
    shares = (f"{seen[status] / seen.total():.1%}" for status in STATUSES)
    return f"{n:,}", coefficient, what, seen.total(), *shares


def _page(rows: Iterable[tuple[object, ...]]) -> str:
    return (
        table(("rows", "AR(1) coefficient", "fit on", "data sets", *STATUSES), rows)
        + "\n\nFour columns of s and four of q that have nothing in common; default settings, read from files as `coad fit` "
        f"and `coad modes` do; windows of {WINDOW} rows every {STRIDE}. Asked for: at most 5 % found."
    )


def _status(what: str, n: int, coefficient: float, seed: int) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from coad.data.layout import Layout
    from coad.workflows.fitting import Training, fit_files
    from coad.workflows.modes import fit_modes_files
    from coad.workflows.scoring import Source

    windows = {"window": WINDOW, "stride": STRIDE} if what == "windows" else {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        path = Path(folder) / "x.parquet"
        pq.write_table(pa.table(slow_columns(n, coefficient, seed)), path)
        layout = Layout(s=("s*",), q=("q*",), **windows)
        training = Training(random_state=seed, n_starts=6 if what == "modes" else 4)
        if what == "modes":
            return fit_modes_files(Source(path), layout, Path(folder) / "m", training=training).model.status_
        return fit_files(Source(path), layout, Path(folder) / "m", training=training).judgement.status
