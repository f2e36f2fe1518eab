"""Each β trained by itself, with as many starts as the frontier has: what training all at once is compared with."""

from __future__ import annotations

import os

from benchmarks._results import record, table
from benchmarks.mnist import HEAD, NOTE, measured


def run() -> None:
    """``COAD_BENCH_STATES`` names the random states (1, at which nothing was chosen)."""
    for state in os.environ.get("COAD_BENCH_STATES", "1").split(","):
        lines: list[tuple[str, ...]] = []
        for name, beta in (("0.05", 0.05), ("1", 1.0), ("∞", float("inf"))):
            lines += measured(f"β = {name} by itself", frontier=False, betas=[beta], random_state=int(state))
            title = f"MNIST: each β trained by itself; random_state {state}"
            record(f"mnist-separate-{state}", title, f"{table(HEAD, lines)}\n\nPreset fast. {NOTE}")
