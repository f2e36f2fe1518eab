"""``coad bench``: is it better to give the regime, and is coincidence better than other methods?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._layout import Missing, MissingOption
from coad.cli._print import number, out, table
from coad.exceptions import FileError, InputError
from coad.research.baselines.registry import COINCIDENT, METHODS

if TYPE_CHECKING:
    from coad.research.experiments.peers import Line, PeersRun

_REGIMES = "milling,SKAB,hydraulic"


def bench(
    names: Annotated[
        str | None,
        typer.Option("--data", help="Data sets, comma-separated, or files, which are read as one table."),
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
    label: Annotated[str | None, typer.Option(help="Files: the label, for judging.")] = None,
    context: Annotated[str | None, typer.Option(help="Files: columns of the regime.")] = None,
    group: Annotated[str | None, typer.Option(help="Files: what a split must not tear apart.")] = None,
    time: Annotated[str | None, typer.Option(help="Files: the time column.")] = None,
    window: Annotated[str | None, typer.Option(help="Files: rows per window.")] = None,
    missing: MissingOption = Missing.error,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-bench.html"),
) -> None:
    """Plain against regime-aware on real data; with --methods or files, every method on the same splits.

    Then the results are also kept as Parquet and Markdown beside the page, and a run that
    stopped goes on where it was.
    """
    from coad.data.atomic import check_writable

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out names the HTML page: it must end in .html, not {output.name!r}")
    check_writable(output)
    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    named = {name.lower() for name in _REGIMES.split(",")}
    if methods is None and not quick and all(name.lower() in named for name in wanted):
        _bench_regimes(wanted or _REGIMES.split(","), folder, splits or 4, seed, output)
        return
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
    chosen = [name.strip() for name in (methods or "all").split(",") if name.strip()]
    run = run_on(
        wanted, chosen, columns, folder, splits or (1 if quick else 5), quick=quick, seed=seed, output=output
    )
    show_peers(run)
    out(f"Picture: {output}; table: {output.with_suffix('.md')}; results: {output.with_suffix('.parquet')}")
    if run.errors:
        raise typer.Exit(1)


def run_on(
    names: list[str],
    methods: list[str],
    columns: dict[str, str | None],
    folder: Path | None,
    splits: int,
    *,
    quick: bool,
    seed: int,
    output: Path,
) -> PeersRun:
    """Run the methods, writing Parquet as they end and page and Markdown at the end."""
    from coad.data.atomic import written_whole
    from coad.research.baselines.registry import chosen_methods
    from coad.research.experiments.peer_data import NAMES, bench_data, from_files
    from coad.research.experiments.peers import legend_of, run_peers, to_markdown
    from coad.research.figures.peers import write_peers_page

    chosen_methods(
        methods, "rf", regimes=True, labelled=True
    )  # a wrong name is answered before data are read
    files = [name for name in names if name.lower() not in NAMES]
    for name in files:
        if not Path(name).exists() and not any(mark in name for mark in "*?["):
            raise InputError(f"{name!r} is neither a file nor one of the data sets {', '.join(NAMES)}")
    known = list(dict.fromkeys(name.lower() for name in names if name.lower() in NAMES)) if names else NAMES
    data = []
    for name in known:
        try:
            data.append(bench_data(name, folder=folder, quick=quick, seed=seed))
        except FileError as error:
            if names:
                raise
            say(f"{name} is left out: {error}")
    if files:
        data.append(from_files(files, _layout(files, columns)))
    run = run_peers(
        data,
        methods,
        splits=splits,
        quick=quick,
        random_state=seed,
        store=output.with_suffix(".parquet"),
        progress=say,
    )
    with written_whole(output.with_suffix(".md")) as draft:
        draft.write_text(to_markdown(run.lines()), encoding="utf-8")
    write_peers_page(run, output, "Methods side by side", verdict(run), legend_of(run.lines()))
    return run


def say(line: str) -> None:
    """A line of progress, at once: a long run is watched through a file, too."""
    out(line)
    sys.stdout.flush()


def verdict(run: PeersRun) -> str:
    """For each data set: how CoAD stands against the best peer that needs no labels in training."""
    parts = []
    lines = run.lines()
    for data in dict.fromkeys(line.data for line in lines):
        own = {line.method: line for line in lines if line.data == data}
        ours = own.get("coad")
        peers = [
            x for x in own.values() if METHODS[x.method].kind not in COINCIDENT and not x.labels and x.best
        ]
        if ours is None or ours.own is None:
            continue
        text = f"{data}: CoAD F1 {ours.own[0]:.3f} without labels"
        if peers:
            said = [
                f"{'above' if ours.own[0] > value else 'NOT above'} the best unsupervised peer {where} ({title}, {value:.3f})"
                for where, (value, title) in (
                    ("without labels", max((_without_labels(line), line.title) for line in peers)),
                    ("at its best threshold", max((line.best[0], line.title) for line in peers if line.best)),
                )
            ]
            text += ", " + " and ".join(said)
        modes = own.get("modes")
        if modes is not None and modes.own is not None:
            text += f"; coincident modes {modes.own[0]:.3f}"
        top = own.get("snn")
        if top is not None and top.own is not None:
            text += f"; supervised networks {top.own[0]:.3f}"
        parts.append(text + (f". CoAD itself says: {ours.note}." if ours.note else "."))
    return " ".join(parts) or "No labels, or CoAD was not run: nothing to rank."


def _without_labels(line: Line) -> float:
    """The better of the method's own threshold and ours; 0 if it has neither."""
    return max((value[0] for value in (line.own, line.ours) if value is not None), default=0.0)


def show_peers(run: PeersRun) -> None:
    """The tables and the verdict."""
    from coad.research.experiments.peers import cells, head_of, legend_of

    lines = run.lines()
    for data in dict.fromkeys(line.data for line in lines):
        own = [line for line in lines if line.data == data]
        out(f"{data}: {run.sources[data]}")
        table(head_of(own), [cells(line) for line in own])
        for line in own:
            if line.note:
                out(f"{line.title}: {line.note}")
            if line.error:
                out(f"{line.title} failed: {line.error}")
    out(legend_of(lines))
    out(verdict(run))


def _layout(files: list[str], columns: dict[str, str | None]) -> Any:
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
    """Is it better to give the regime? One table over real data, judged by their labels."""
    from coad.research.experiments.regimes import run_regimes, write_regimes_page

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
    out(f"Pictures: {output}")
