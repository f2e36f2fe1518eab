"""``coad bench``: plain coincidence against regime-aware, on public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import number, out, table


def bench(
    names: Annotated[
        str, typer.Option("--data", help="Data sets, comma-separated.")
    ] = "milling,SKAB,hydraulic",
    folder: Annotated[Path | None, typer.Option(help="Folder of the data; default: COAD_DATA.")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Splits of each data set.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-bench.html"),
) -> None:
    """Is it better to give the regime? One table over real data, judged by their labels."""
    from coad._files import check_writable
    from coad.experiments.regimes import run_regimes, write_regimes_page

    check_writable(output)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    run = run_regimes(wanted, splits=splits, data=folder, random_state=seed, progress=out)
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
