"""``coad reproduce …``: the paper's tables and figures, next to the paper's numbers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import number, out, table
from coad.exceptions import InputError
from coad.research.commands._peers import compare, fail_on_errors, names_in, show_paper_table

if TYPE_CHECKING:
    from coad.research.experiments.images import ImageResult

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
    """Figure 3: precision–recall curves and F over β, on simulated outliers."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.synthetic import run_synthetic
    from coad.research.figures.synthetic import write_synthetic_page

    check_writable(output)
    run = run_synthetic(random_state=seed)
    out(
        f"Simulated data: {run.n_rows:,} rows, {run.n_anomalies:,} anomalies; α = {run.alpha:.4f}, the true rate."
    )
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
        title="Left panel: unsupervised P̂, R̂; the same thresholds evaluated with labels; supervised optimum",
    )
    table(
        ("β", "F̂", "F", "F̂ naive", "F naive", "F sup."),
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
    """Training settings of the networks."""

    fast = "fast"
    paper = "paper"


@app.command()
def mnist(
    preset: Annotated[
        Preset, typer.Option(help="Training settings: fast (ours) or the paper's.")
    ] = Preset.fast,
    data: Annotated[Path | None, typer.Option(help="Folder with the four MNIST files.")] = None,
    starts: Annotated[
        int | None, typer.Option(help="Random initialisations per β; the best by validation F̂ is kept.")
    ] = None,
    separate: Annotated[bool, typer.Option("--separate", help="Train each β separately; slower.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-mnist.html"),
) -> None:
    """Table 1: digits flagged for β = 0.05, 1 and ∞, next to the paper's numbers."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.mnist import reproduce_mnist

    check_writable(output)
    result = reproduce_mnist(
        preset.value,
        data,
        starts=starts,
        frontier=preset is Preset.fast and not separate,
        random_state=seed,
        progress=out,
        verbose=True,
    )
    _show_images(result, output)


@app.command()
def digits(
    starts: Annotated[
        int | None, typer.Option(help="Random initialisations per β; the best by validation F̂ is kept.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-digits.html"),
) -> None:
    """The experiment of Table 1 on scikit-learn's small digits: offline, in under a minute."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.digits import reproduce_digits

    check_writable(output)
    result = reproduce_digits(starts=starts, random_state=seed, progress=out, verbose=True)
    _show_images(result, output)


def _show_images(result: ImageResult, output: Path) -> None:
    from coad.research.figures.images import write_images_page

    title = f"{result.name}: test images flagged (product of both confidences above 0.5)"
    table(*result.digits_table(), title=title)
    table(*result.starts_table(), title="Starts, selected without labels")
    out(f"{result.train_pairs:,} training pairs, {result.seconds:.0f} s")
    write_images_page(result, output)
    out(f"Figures: {output}")


@app.command()
def milling(
    splits: Annotated[int, typer.Option(min=1, help="Splits by cut.")] = 8,
    data: Annotated[Path | None, typer.Option(help="Feature table, mill.mat, or their folder.")] = None,
    beta: Annotated[
        float, typer.Option(help="Weight of recall: 0 is precision only, inf recall only.")
    ] = 1.0,
    peers: Annotated[
        bool, typer.Option("--peers", help="Table 2 with other methods on the same splits.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --peers: short training.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path(
        "coad-milling.html"
    ),
) -> None:
    """Table 2: F1 of worn tools, with and without regimes, over splits by cut."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.milling import run_milling
    from coad.research.figures.milling import write_milling_page

    check_writable(output)
    if peers:
        if beta != 1.0:
            raise InputError("with --peers all methods are compared by F1; leave --beta out")
        _milling_peers(splits, data, quick=quick, seed=seed, output=output)
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
    out("“As trained” does not use the fact that a sharp tool draws less motor current; see the page.")
    write_milling_page(run, output)
    out(f"Figures: {output}")


def _milling_peers(splits: int, data: Path | None, *, quick: bool, seed: int, output: Path) -> None:
    """Table 2 with all methods, on the milling features."""
    from coad.research.experiments.milling import PAPER_F1_BY_METHOD
    from coad.research.experiments.peer_data import bench_data

    difference = (
        "Our data are window features, split by cut and scaled within each regime; the paper used raw windows and "
        "another split. Most windows are positive, so calling all windows anomalous already gives an F1 close to that "
        "of the peers."
    )
    measured = bench_data("milling", folder=data, quick=quick, seed=seed)
    run = compare([measured], ["all"], splits, quick=quick, seed=seed, output=output)
    show_paper_table(run, PAPER_F1_BY_METHOD, difference, output, "Milling: Table 2")
    fail_on_errors(run)


@app.command()
def modes(
    sets: Annotated[str, typer.Option(help="Comma-separated: digits, hydraulic, skab.")] = "digits,hydraulic",
    data: Annotated[Path | None, typer.Option(help="Folder of the hydraulic and SKAB data.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Coincident modes against the binary method and one-input peers, with one class made rare at a time."""
    from coad.research.experiments.modes import run_modes

    rows = run_modes(names_in(sets), data=data, random_state=seed, progress=out)
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
        title="F1; everything is chosen without labels, except the threshold of the best peer",
    )


@app.command()
def rf(
    splits: Annotated[
        int | None, typer.Option(min=1, help="Random splits of the simulated windows (5, quick 1).")
    ] = None,
    methods: Annotated[str, typer.Option(help="all, or names, comma-separated.")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Few windows, short training.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-rf.html"),
) -> None:
    """Table 3 and example windows, on a simulated RF station, next to the paper's numbers."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.peer_data import bench_data
    from coad.research.experiments.rf import DIFFERENCE, PAPER_F1, rf_examples
    from coad.research.figures.rf import examples_section

    check_writable(output)
    data = bench_data("rf", quick=quick, seed=seed)
    count = splits or (1 if quick else 5)
    run = compare([data], names_in(methods), count, quick=quick, seed=seed, output=output)
    examples = examples_section(rf_examples(seed))
    show_paper_table(run, PAPER_F1, DIFFERENCE, output, "RF station (simulated): Table 3", [examples])
    fail_on_errors(run)
