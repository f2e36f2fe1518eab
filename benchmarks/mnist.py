"""The paper's Table 1 beside ours, as ``coad reproduce mnist`` gives it, and how the starts ended."""

from __future__ import annotations

import os

from benchmarks._results import record, table
from coad.experiments.mnist import reproduce_mnist


def run() -> None:
    """``COAD_BENCH_SEEDS`` sets the number of starts (2)."""
    result = reproduce_mnist(seeds=int(os.environ.get("COAD_BENCH_SEEDS", "2")))
    collapsed = sum(row.status == "collapsed" for row in result.seeds)
    record(
        "mnist",
        "MNIST: test images flagged, by digit and β, beside the paper's",
        f"{table(*result.digits_table())}\n\n{table(*result.seeds_table())}\n\n"
        f"Preset fast, all β trained at once, {result.train_pairs:,} pairs, {result.seconds:.0f} s in all. "
        f"The best start is kept by validation F̂ alone. Collapsed: {collapsed} of {len(result.seeds)}.",
    )
