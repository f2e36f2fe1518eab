"""``coad reproduce …``: the paper's tables and figures, with the paper's numbers beside ours."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import number, out, table
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.research.experiments._learned import LearnedResult

app = typer.Typer(help="Reproduce the paper's experiments.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Reproduce the paper's experiments."""


@app.command()
def synthetic(
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path(
        "coad-synthetic.html"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated data.")] = 0,
) -> None:
    """Both panels of figure 3: P–R curves and the β scan, on simulated outliers."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.synthetic import run_synthetic, write_synthetic_page

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


class Preset(StrEnum):
    """How the networks are trained."""

    fast = "fast"
    paper = "paper"


@app.command()
def mnist(
    preset: Annotated[Preset, typer.Option(help="Ours, or the paper's own settings.")] = Preset.fast,
    data: Annotated[Path | None, typer.Option(help="Folder with the four MNIST files.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Starts; the best is kept by validation F̂.")] = None,
    separate: Annotated[bool, typer.Option("--separate", help="Train each β by itself; slower.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-mnist.html"),
) -> None:
    """Table 1: which digits are flagged for β = 0.05, 1 and ∞, beside the paper's numbers."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.mnist import reproduce_mnist

    check_writable(output)
    result = reproduce_mnist(
        preset.value,
        data,
        seeds=seeds,
        frontier=preset is Preset.fast and not separate,
        random_state=seed,
        page=output,
        progress=out,
        verbose=True,
    )
    _show_digits(result)
    out(f"Pictures: {output}")


@app.command()
def digits(
    seeds: Annotated[int | None, typer.Option(help="Starts; the best is kept by validation F̂.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-digits.html"),
) -> None:
    """The same idea on scikit-learn's small digits: offline, in under a minute."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.digits import reproduce_digits

    check_writable(output)
    _show_digits(reproduce_digits(seeds=seeds, random_state=seed, page=output, progress=out, verbose=True))
    out(f"Pictures: {output}")


def _show_digits(result: LearnedResult) -> None:
    title = f"{result.name}: test images flagged (product of both confidences above 0.5)"
    table(*result.digits_table(), title=title)
    table(*result.seeds_table(), title="Seeds, chosen without labels")
    out(f"{result.train_pairs:,} training pairs, {result.seconds:.0f} s")


@app.command()
def milling(
    splits: Annotated[int, typer.Option(min=1, help="Splits by cut.")] = 8,
    data: Annotated[Path | None, typer.Option(help="Feature table, mill.mat, or their folder.")] = None,
    beta: Annotated[float, typer.Option(help="0 asks for precision, inf for recall.")] = 1.0,
    peers: Annotated[
        bool, typer.Option("--peers", help="Table 2: other methods on the same splits.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --peers: a short trial.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path(
        "coad-milling.html"
    ),
) -> None:
    """Table 2: F1 of worn tools, with and without regimes, over splits by cut."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.milling import run_milling, write_milling_page

    check_writable(output)
    if peers:
        if beta != 1.0:
            raise InputError("with --peers all methods are judged by F1; leave --beta out")
        from coad.research.commands.peers import reproduce_milling_peers

        reproduce_milling_peers(splits, data, quick=quick, seed=seed, output=output)
        return
    run = run_milling(splits, data=data, beta=beta, random_state=seed, progress=out)
    rows = []
    for method in ("regimes", "plain"):
        done = run.summary(method)
        cells = (done.mean, done.deviation, done.lowest, done.highest, done.mean_as_trained)
        rows.append((method, *map(number, cells), str(done.below_trivial)))
    rows.append(("paper", "0.86", "–", "–", "–", "–", "–"))
    rows.append(("everything anomalous", number(run.trivial), "–", "–", "–", "–", "–"))
    table(("method", "mean F1", "s.d.", "lowest", "highest", "as trained", "below trivial"), rows)
    out(run.verdict())
    out("“As trained” is without the fact that a sharp tool draws less motor current; see the page.")
    write_milling_page(run, output)
    out(f"Pictures: {output}")


@app.command()
def modes(
    sets: Annotated[str, typer.Option(help="Comma-separated: digits, hydraulic, skab.")] = "digits,hydraulic",
    data: Annotated[Path | None, typer.Option(help="Folder of the hydraulic and SKAB data.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
) -> None:
    """A catalogue of modes against one head and one-input peers, with one kind made rare at a time."""
    from coad.research.experiments.modes import run_modes

    names = [name.strip() for name in sets.split(",") if name.strip()]
    rows = run_modes(names, data=data, random_state=seed, progress=out)
    table(
        ("data", "binary", "context", "modes", "majority modes", "best peer", "modes found", "rare"),
        [
            (
                row.dataset,
                *map(number, (row.binary, row.context, row.modes, row.majority)),
                f"{row.peer:.3f} ({row.peer_name})",
                str(row.n_modes),
                str(row.n_rare),
            )
            for row in rows
        ],
        title="F1; seeds, modes and roles chosen without labels, the peer's threshold with them",
    )


@app.command()
def rf(
    splits: Annotated[
        int | None, typer.Option(min=1, help="Random splits of the simulated windows (5, quick 1).")
    ] = None,
    methods: Annotated[str, typer.Option(help="all, or names, comma-separated.")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Few windows, short training: a trial.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-rf.html"),
) -> None:
    """Table 3 and the examples figure, on a simulated RF station, beside the paper's numbers."""
    from coad.data.atomic import check_writable
    from coad.research.commands.peers import reproduce_rf

    check_writable(output)
    reproduce_rf(splits or (1 if quick else 5), methods, quick=quick, seed=seed, output=output)
