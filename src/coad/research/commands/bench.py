"""``coad bench``: the effect of a known regime, a comparison with other methods, and findings after a few looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._options import Missing, MissingOption
from coad.cli._print import number, out, table
from coad.exceptions import InputError
from coad.research.commands._peers import compare, fail_on_errors, names_in, print_now, show_comparison
from coad.research.commands._tables import bench_tables

if TYPE_CHECKING:
    from coad.data import Layout

_REGIMES = ("milling", "SKAB", "hydraulic")
_TABLES = "tables"


def bench(
    names: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Data sets, comma-separated, or files, which are read as one table; "
            "tables: findings on every .npz of the folder tables.",
        ),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Compare methods: all, or names, comma-separated.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder of the data; default: COAD_DATA.")] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Splits of each data set (regimes 4, methods 5, quick 1).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="With --methods: small data, short training.")
    ] = False,
    s: Annotated[str | None, typer.Option("--s", help="Files: columns of s, comma-separated.")] = None,
    q: Annotated[str | None, typer.Option("--q", help="Files: columns of q, comma-separated.")] = None,
    label: Annotated[str | None, typer.Option(help="Files: label column, used for evaluation.")] = None,
    context: Annotated[str | None, typer.Option(help="Files: columns of the regime.")] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Files: run or batch ID; rows that share it stay on one side of every split.",
        ),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Files: the time column.")] = None,
    window: Annotated[str | None, typer.Option(help="Files: rows per window.")] = None,
    missing: MissingOption = Missing.error,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-bench.html"),
) -> None:
    """Plain against regime-aware CoAD on real data; with --methods or files, a comparison of methods;
    with --data tables, what a few looks at findings are worth.

    A comparison also saves its results as Parquet and Markdown beside the page; an interrupted
    run resumes where it stopped.
    """
    from coad.data.atomic import check_writable

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out names the HTML page: it must end in .html, not {output.name!r}")
    check_writable(output)
    wanted = names_in(names or "")
    columns = {
        "s": s,
        "q": q,
        "label": label,
        "context": context,
        "group": group,
        "time": time,
        "window": window,
        "missing": missing.value,
    }
    if _TABLES in wanted:
        given = {**columns, "missing": missing is not Missing.error}
        _only_tables(wanted, {"methods": methods, "splits": splits, "quick": quick, **given})
        bench_tables(folder, seed, output)
        return
    regimes = {name.lower() for name in _REGIMES}
    if methods is None and not quick and all(name.lower() in regimes for name in wanted):
        _bench_regimes(wanted or list(_REGIMES), folder, splits or 4, seed, output)
        return
    _bench_methods(
        wanted,
        names_in(methods or "all"),
        columns,
        folder,
        splits or (1 if quick else 5),
        quick=quick,
        seed=seed,
        output=output,
    )


def _only_tables(wanted: list[str], others: dict[str, Any]) -> None:
    """Refuse options without a meaning for the benchmark of findings, which has one split and peers of its own."""
    if len(wanted) > 1:
        raise InputError(f"--data {_TABLES} is a benchmark of its own; leave out the other data sets")
    unused = [f"--{name}" for name, value in others.items() if value]
    if unused:
        raise InputError(f"--data {_TABLES} takes --folder, --seed and --out, not {', '.join(unused)}")


def _bench_methods(
    names: list[str],
    methods: list[str],
    columns: dict[str, str | None],
    folder: Path | None,
    splits: int,
    *,
    quick: bool,
    seed: int,
    output: Path,
) -> None:
    """Compare methods on named data sets and files."""
    from coad.research.baselines.registry import chosen_methods
    from coad.research.experiments.peer_data import available_data, bench_data, from_files, sorted_names

    chosen_methods(methods, "rf", regimes=True, labelled=True)  # reports an unknown name before data are read
    known, files = sorted_names(names)
    if names:
        data = [bench_data(name, folder=folder, quick=quick, seed=seed) for name in known]
    else:
        data = available_data(folder=folder, quick=quick, seed=seed, progress=print_now)
    if files:
        data.append(from_files(files, _layout(files, columns)))
    run = compare(data, methods, splits, quick=quick, seed=seed, output=output)
    show_comparison(run, output)
    fail_on_errors(run)


def _layout(files: list[str], columns: dict[str, str | None]) -> Layout:
    from coad.data import Layout

    given = {name: value for name, value in columns.items() if value is not None}
    if "s" not in given and "q" not in given:
        if not all(Path(file).suffix.lower() in (".npz", ".h5", ".hdf5") for file in files):
            raise InputError("name the columns of the two inputs: --s and --q")
        given |= {"s": "s", "q": "q"}
    patterns: dict[str, Any] = {
        name: tuple(part.strip() for part in value.split(",")) if name in ("s", "q", "context") else value
        for name, value in given.items()
    }
    return Layout(**patterns)


def _bench_regimes(names: list[str], folder: Path | None, splits: int, seed: int, output: Path) -> None:
    """Compare the plain and the regime-aware method."""
    from coad.research.experiments.regimes import run_regimes
    from coad.research.figures.regimes import write_regimes_page

    run = run_regimes(names, splits=splits, data=folder, random_state=seed, progress=out)
    table(
        ("data", "fault", "method", "F1", "s.d.", "lowest", "trivial", "α̂", "F̂", "status"),
        [
            (
                row.dataset,
                row.fault,
                row.method,
                *map(number, (row.f1, row.deviation, row.lowest, row.trivial, row.alpha, row.fbeta_hat)),
                row.status,
            )
            for row in run.table()
        ],
    )
    write_regimes_page(run, output)
    out(f"Figures: {output}")
