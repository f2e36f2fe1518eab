"""Independent slow series: how often networks and modes call them a coincidence, for rows, groups and windows."""

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
#: Groups are pieces of one series, of as many consecutive rows each.
GROUPS = 10
#: Data sets of each kind and number of rows, as many as an hour on one core allows.
DRAWS = {
    ("rows", 1_000): 40,
    ("groups", 1_000): 20,
    ("rows", 5_000): 10,
    ("windows", 1_000): 8,
    ("windows", 5_000): 4,
    ("modes", 1_000): 4,
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
        f"and `coad modes` do; groups are {GROUPS} pieces of consecutive rows, held out as such (`--group`); windows of {WINDOW} "
        f"rows every {STRIDE}. Asked for: at most 5 % found.\n\nOne run of `python -m benchmarks slow_level`. For each "
        f"coefficient there are {DRAWS['rows', 1_000]} data sets of 1,000 rows, {DRAWS['groups', 1_000]} with groups, and fewer "
        "of what takes longer: none found in 40, 20, 10, 8 or 4 means less than 8, 14, 26, 32 or 53 % with 95 % confidence."
    )


def _status(what: str, n: int, coefficient: float, seed: int) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from coad.data.layout import Layout
    from coad.workflows.fitting import Training, fit_files
    from coad.workflows.modes import fit_modes_files
    from coad.workflows.scoring import Source

    more = {"windows": {"window": WINDOW, "stride": STRIDE}, "groups": {"group": "run"}}.get(what, {})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        path = Path(folder) / "x.parquet"
        columns = slow_columns(n, coefficient, seed) | {"run": np.arange(n) * GROUPS // n}
        pq.write_table(pa.table(columns), path)
        layout = Layout(s=("s*",), q=("q*",), **more)
        training = Training(random_state=seed, n_starts=6 if what == "modes" else 4)
        if what == "modes":
            return fit_modes_files(Source(path), layout, Path(folder) / "m", training=training).model.status_
        return fit_files(Source(path), layout, Path(folder) / "m", training=training).judgement.status
