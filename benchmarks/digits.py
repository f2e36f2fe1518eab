"""Twenty starts on scikit-learn's digits: how often one collapses, robust against the paper's loss and head."""

from __future__ import annotations

import warnings
from dataclasses import replace

from benchmarks._results import record, table
from benchmarks.mnist import collapsed_starts
from coad.exceptions import CoadWarning
from coad.research.experiments.digits import RECIPES, reproduce_digits
from coad.research.experiments.images import beta_text

STARTS = 20


def run() -> None:
    rows = []
    for name, learning, frontier in (
        ("robust (default), all β at once", {"lr": 2e-2}, True),
        ("robust, each β by itself", {"lr": 2e-2}, False),
        ("paper, lr 0.02", {"lr": 2e-2, "preset": "paper"}, False),
        ("paper, lr 0.001", {"lr": 1e-3, "preset": "paper"}, False),
    ):
        recipe = replace(RECIPES["fast"], n_starts=STARTS, learning=learning)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)  # what collapsed is counted here
            result = reproduce_digits(recipe=recipe, frontier=frontier)
        for beta in result.scores:
            starts = [row for row in result.starts if row.beta == beta]
            figures = [row.fbeta_hat for row in starts]
            rows.append(
                (
                    name,
                    beta_text(beta),
                    f"{collapsed_starts(result, beta)} of {len(starts)}",
                    f"{min(figures):.3f} to {max(figures):.3f}",
                    " / ".join(f"{100 * x:.1f}" for x in result.flagged(beta)[:4]),
                    f"{result.seconds:.0f} s",
                )
            )
    record(
        "digits-starts",
        "Digits: starts that collapse",
        table(("training", "β", "collapsed", "validation F̂", "% flagged, 0 / 1 / 2 / 3", "all β"), rows)
        + "\n\nCollapsed: a mean confidence below 0.005, or F̂ under half of the best start's. Flagged: test "
        "images of each digit, by the start with the best validation F̂. 500 steps each.",
    )
