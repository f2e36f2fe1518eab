"""``coad reproduce …``: the paper's tables and figures, with the paper's numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import number, out, table

app = typer.Typer(help="Reproduce the paper's experiments.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Reproduce the paper's experiments."""


@app.command()
def synthetic(
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path(
        "coad-synthetic.html"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the simulated data.")] = 0,
) -> None:
    """Both panels of figure 3: P–R curves and the β scan, on simulated outliers."""
    from coad._files import check_writable
    from coad.experiments.synthetic import run_synthetic, write_synthetic_page

    check_writable(output)
    run = run_synthetic(random_state=seed)
    out(f"Simulated data: {run.n_rows:,} rows, {run.n_anomalies:,} anomalies; α = {run.alpha:.4f} as built.")
    table(
        ("β", "P̂", "R̂", "P", "R", "P sup.", "R sup."),
        [
            (
                number(a.beta),
                *map(number, (a.precision_hat, a.recall_hat, a.precision, a.recall)),
                *map(number, (c.precision, c.recall)),
            )
            for a, c in zip(run.ours, run.supervised, strict=True)
        ],
        title="Left panel: unsupervised P̂, R̂; the same thresholds judged by labels; supervised optimum",
    )
    table(
        ("β", "F̂", "F judged", "F̂ naive", "F judged", "F sup."),
        [
            (number(a.beta), *map(number, (a.fbeta_hat, a.fbeta, b.fbeta_hat, b.fbeta, c.fbeta)))
            for a, b, c in zip(run.ours, run.naive, run.supervised, strict=True)
        ],
        title="Right panel: F̂ and F over β, for D, D_naive, and the supervised optimum",
    )
    for claim in run.claims():
        out(claim)
    write_synthetic_page(run, output)
    out(f"Figures: {output}")
