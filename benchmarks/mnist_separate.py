"""Each β trained by itself, one start: what the frontier, which trains all at once, is compared with."""

from __future__ import annotations

from benchmarks._results import record, table
from benchmarks.mnist import HEAD, NOTE, measured


def run() -> None:
    lines: list[tuple[str, ...]] = []
    for name, beta in (("0.05", 0.05), ("1", 1.0), ("∞", float("inf"))):
        lines += measured(f"β = {name} by itself", frontier=False, betas=[beta], seeds=1)
        title = "MNIST: each β trained by itself"
        record("mnist-separate", title, f"{table(HEAD, lines)}\n\nPreset fast with one start. {NOTE}")
