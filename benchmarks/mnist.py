"""The paper's Table 1 beside ours, as ``coad reproduce mnist`` gives it, over several random states.

Each random state is written by itself, so that an interrupted benchmark leaves what it has.
"""

from __future__ import annotations

import os

from benchmarks._results import record, table
from coad.research.experiments.images import ImageResult, beta_text
from coad.research.experiments.mnist import PAPER_TABLE, reproduce_mnist

HEAD = ("run", "β", "0", "1", "2", "3", "validation F̂ of the starts", "collapsed", "time, all β")
NOTE = (
    "The best start is kept by validation F̂ alone. Collapsed: a mean confidence below 0.005, or F̂ under half of "
    "the best start's. The time is that of a whole run, with other work on the same cores."
)


def run() -> None:
    """``COAD_BENCH_STATES`` names the random states (0,1,2,3); each has a section of its own."""
    paper = [
        ("the paper", beta_text(beta), *(f"{100 * x:.1f} %" for x in flagged), "–", "–", "–")
        for beta, flagged in PAPER_TABLE.items()
    ]
    for state in os.environ.get("COAD_BENCH_STATES", "0,1,2,3").split(","):
        lines = [*paper, *measured("ours", frontier=True, random_state=int(state))]
        title = f"MNIST: test images flagged, by digit and β, beside the paper's; random_state {state}"
        record(f"mnist-{state}", title, f"{table(HEAD, lines)}\n\nPreset fast, all β trained at once. {NOTE}")


def measured(name: str, **settings: object) -> list[tuple[str, ...]]:
    """One run of ``reproduce_mnist``, a line for each β."""
    before = os.times()
    result = reproduce_mnist(**settings)  # type: ignore[arg-type]
    after = os.times()
    cpu = after.user + after.system - before.user - before.system
    lines = []
    for beta in result.scores:
        starts = [row for row in result.starts if row.beta == beta]
        lines.append(
            (
                name,
                beta_text(beta),
                *(f"{100 * x:.1f} %" for x in result.flagged(beta)),
                " / ".join(f"{row.fbeta_hat:.3f}" for row in starts),
                f"{collapsed_starts(result, beta)} of {len(starts)}",
                f"{after.elapsed - before.elapsed:.0f} s ({cpu:.0f} s of CPU)",
            )
        )
    return lines


def collapsed_starts(result: ImageResult, beta: float) -> int:
    """Starts that say nothing, or found less than half of what the best one did."""
    own = [row for row in result.starts if row.beta == beta]
    best = max(row.fbeta_hat for row in own)
    return sum(min(row.mu_s, row.mu_q) < 0.005 or row.fbeta_hat < 0.5 * best for row in own)
