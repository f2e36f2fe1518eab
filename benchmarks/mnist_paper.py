"""The paper's own loss and learning rate on MNIST: how many starts collapse."""

from __future__ import annotations

import os
from dataclasses import replace

from benchmarks._results import record, table
from benchmarks.mnist import HEAD, NOTE, measured
from coad.research.experiments.mnist import RECIPES

PAPER_EPOCHS = RECIPES["paper"].epochs


def run() -> None:
    """``COAD_BENCH_EPOCHS`` sets how many of the paper's epochs are run (a fifth)."""
    epochs = int(os.environ.get("COAD_BENCH_EPOCHS", str(PAPER_EPOCHS // 5)))
    recipe = replace(RECIPES["paper"], epochs=epochs)
    lines = measured("the paper's preset", preset="paper", frontier=True, starts=2, recipe=recipe)
    words = f"Preset paper, all β trained at once, {epochs:,} of the paper's {PAPER_EPOCHS:,} epochs. {NOTE}"
    record("mnist-paper", "MNIST: the paper's loss and learning rate", f"{table(HEAD, lines)}\n\n{words}")
