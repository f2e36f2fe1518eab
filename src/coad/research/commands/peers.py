"""What ``coad reproduce rf`` and ``coad reproduce milling --peers`` print and write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coad.cli._print import out, table
from coad.report.page import Section
from coad.research.commands.bench import say, verdict

if TYPE_CHECKING:
    from coad.research.experiments.peers import PeersRun

#: F1 in the paper's Table 2, by the name of the method here; its VAE was trained on healthy rows.
PAPER_MILLING = {"vae-healthy": 0.79, "dghl": 0.80, "omnianomaly": 0.80, "coad": 0.86}


def reproduce_rf(splits: int, methods: str, *, quick: bool, seed: int, output: Path) -> None:
    """Table 3 on the simulated station."""
    from coad.research.experiments.rf import DIFFERENCE, PAPER_F1, rf_examples, run_rf
    from coad.research.figures.rf import examples_figure

    names = [name.strip() for name in methods.split(",") if name.strip()]
    store = output.with_suffix(".parquet")
    run = run_rf(splits, methods=names, quick=quick, random_state=seed, store=store, progress=say)
    examples = Section(
        "Simulated windows, the station on the left and the beam on the right",
        "Normal windows (blue) are the difficult ones: a glitch of the readback alone, a beam anomaly too early to "
        "match, a change of energy that another station caused. Events (orange) change both at once.",
        examples_figure(rf_examples(seed)),
    )
    _show(run, PAPER_F1, DIFFERENCE, output, "RF station (simulated): Table 3", [examples])


def reproduce_milling_peers(splits: int, data: Path | None, *, quick: bool, seed: int, output: Path) -> None:
    """Table 2 on the milling features."""
    from coad.research.experiments.peer_data import bench_data
    from coad.research.experiments.peers import run_peers

    run = run_peers(
        [bench_data("milling", folder=data, quick=quick, seed=seed)],
        splits=splits,
        quick=quick,
        random_state=seed,
        store=output.with_suffix(".parquet"),
        progress=say,
    )
    difference = (
        "Ours are window features under splits by cut, scaled within each regime; the paper had raw windows under "
        "another split. Most windows are positive, so calling everything anomalous already gives an F1 near that "
        "of the peers."
    )
    _show(run, PAPER_MILLING, difference, output, "Milling: Table 2", [])


def _show(
    run: PeersRun,
    paper: dict[str, float],
    difference: str,
    output: Path,
    title: str,
    sections: Sequence[Any],
) -> None:
    from coad.research.experiments.peers import LEGEND
    from coad.research.experiments.rf import paper_rows
    from coad.research.figures.peers import write_peers_page

    head, rows = paper_rows(run.lines(), paper)
    table(head, rows)
    for line in run.lines():
        if line.error:
            out(f"{line.title} failed: {line.error}")
    out(verdict(run))
    out(difference)
    write_peers_page(run, output, title, verdict(run), LEGEND, sections, paper=paper, difference=difference)
    out(f"Pictures: {output}; results: {output.with_suffix('.parquet')}")
    if run.errors:
        raise typer.Exit(1)
