"""Coincident modes: rare kinds found, stability, noise, and time against the binary training."""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks._results import record, table
from coad.exceptions import CoadWarning, FileError


def run() -> None:
    record("modes", "Coincident modes: one kind made rare at a time", _rare())
    record("modes-noise", "Coincident modes: independent noise", _noise())
    record("modes-time", "Coincident modes: time against the binary training", _time())


def _rare() -> str:
    from coad.experiments.modes import run_modes

    rows = run_modes(["digits"], progress=print)
    try:
        rows += run_modes(["hydraulic", "skab"], progress=print)
    except FileError as error:
        print(f"left out: {error}", flush=True)
    digits = [row.modes for row in rows if row.dataset.startswith("digit")]
    body = table(
        ("data", "binary", "context", "modes", "majority modes", "best one-input peer", "modes", "rare"),
        [
            (
                row.dataset,
                *(f"{x:.2f}" for x in (row.binary, row.context, row.modes, row.majority)),
                f"{row.peer:.2f} ({row.peer_name})",
                row.n_modes,
                row.n_rare,
            )
            for row in rows
        ],
    )
    return (
        f"{body}\n\nDigits: mean F1 of the modes called rare {np.mean(digits):.2f}, lowest {min(digits):.2f}."
    )


def _noise(draws: int = 200) -> str:
    from coad import CoincidenceModes

    sizes = (500, 2000, 10_000, 50_000)
    share = {500: 0.4, 2000: 0.4, 10_000: 0.15, 50_000: 0.05}
    rows = []
    for n in sizes:
        count = round(draws * share[n])
        empty = 0
        for seed in range(count):
            s, q = np.random.default_rng([n, seed]).normal(size=(2, n, 4))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                empty += not CoincidenceModes(random_state=seed).fit(s, q).modes_
        rows.append((f"{n:,}", count, f"{empty / count:.1%}"))
        print(rows[-1], flush=True)
    return table(("rows", "draws", "empty catalogue"), rows)


def _time() -> str:
    from coad import CoAD, CoincidenceModes
    from coad.experiments.modes import rare_digit

    rows = []
    noise = np.random.default_rng(0)
    kind = noise.choice(4, size=20_000, p=[0.6, 0.3, 0.09, 0.01])
    large = [4 * noise.normal(size=(4, 10))[kind] + noise.normal(size=(20_000, 10)) for _ in range(2)]
    pairs = rare_digit(8)
    for name, s, q in (("digits", pairs.s, pairs.q), ("simulated, 20,000 rows", *large)):
        took = []
        for model in (CoAD(random_state=0), CoincidenceModes(random_state=0, n_seeds=4)):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                model.fit(s, q)
            took.append(time.perf_counter() - start)
        rows.append((name, f"{took[0]:.1f} s", f"{took[1]:.1f} s", f"{took[1] / took[0]:.2f}"))
    return table(("data", "binary, 4 seeds", "modes, 4 seeds", "ratio"), rows)
