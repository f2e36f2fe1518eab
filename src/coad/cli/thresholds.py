"""``coad thresholds``: two score columns in, two thresholds out."""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._options import (
    PRECISION,
    RECALL,
    BackgroundChoice,
    BackgroundOption,
    ClusterOption,
    LongOption,
    TimeFormatOption,
    UnorderedOption,
    notes,
    number_or_auto,
)
from coad.cli._print import number, out, out_json, percent, span, table
from coad.core.verdict import NO_COINCIDENCE, in_words
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.thresholds.result import ThresholdResult


class Missing(StrEnum):
    """What to do with rows whose score is missing or infinite."""

    error = "error"
    drop = "drop"


def thresholds(
    files: Annotated[
        list[Path], typer.Argument(help="CSV, Parquet or Arrow files with two score columns; folder; glob.")
    ],
    s: Annotated[str, typer.Option("--s", help="Column of the first score (high = anomalous).")],
    q: Annotated[str, typer.Option("--q", help="Column of the second score.")],
    beta: Annotated[
        float, typer.Option(help="Weight of recall against precision: 0: precision only, inf: recall only.")
    ] = 1.0,
    alpha: Annotated[str, typer.Option(help="Anomaly rate in (0, 0.5]; auto: estimate it.")] = "auto",
    context: Annotated[
        str, typer.Option(help="Columns of the operating regime; chance is counted within each value.")
    ] = "",
    n_permutations: Annotated[
        int, typer.Option("--permutations", min=0, help="Random permutations for the p-value; 0: no test.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    unordered: UnorderedOption = False,
    background: BackgroundOption = BackgroundChoice.auto,
    missing: Annotated[
        Missing, typer.Option(help="What to do with rows whose score is missing or infinite.")
    ] = Missing.error,
    long: LongOption = None,
    time_format: TimeFormatOption = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="Write the flag of each row to this .csv or .parquet file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Longer tables are read in three passes with bounded memory.")
    ] = 20_000_000,
    cluster: ClusterOption = None,
) -> None:
    """Choose thresholds for two scores without labels, and test whether they coincide more than by chance."""
    import numpy as np

    from coad.core.validation import finite_rows
    from coad.data.atomic import check_writable
    from coad.data.columns import select_columns
    from coad.data.paths import find_files
    from coad.data.tables import column_names, read_columns
    from coad.thresholds.selection import select_thresholds
    from coad.workflows.scoring import open_writer

    if s == q:
        raise InputError(f"--s and --q name the same column, {s!r}; two different scores are needed")
    if output is not None:
        open_writer(check_writable(output))
        if any(file.exists() and output.resolve() == file.resolve() for file in files):
            raise InputError("--out names the input file, whose other columns would be lost; choose another")
    rate = number_or_auto(alpha, "--alpha")
    if long is not None:
        from coad.data.layout import Layout
        from coad.data.long import wide_source

        layout = Layout(s=s, q=q, long=long, time_format=time_format)
        with notes():
            files = [Path(wide_source(file, layout)) for file in files]
    files = find_files(files)
    regime = select_columns(column_names(files[0]), context) if context else []
    if cluster is not None or _too_long(files, max_rows, 2 + len(regime)):
        settings = {
            "beta": beta,
            "alpha": rate,
            "n_permutations": n_permutations,
            "random_state": seed,
            "ordered": not unordered,
            "background": background.value,
        }
        _in_passes(files, s, q, regime, missing.value, settings, output, as_json, max_rows, cluster)
        return
    columns = read_columns(files, [s, q, *regime], categories=regime)
    _refuse_lists(columns)
    score_s, score_q = columns[s], columns[q]
    names = (f"column {s!r}", f"column {q!r}")
    keep = finite_rows(score_s, score_q, missing.value, names, "pass --missing drop to leave those rows out")
    strata = None
    if regime:
        strata = np.empty((len(keep), len(regime)), dtype=object)
        for place, name in enumerate(regime):
            strata[:, place] = columns[name].tolist()
    result = select_thresholds(
        score_s,
        score_q,
        beta=beta,
        alpha=rate,
        context=strata,
        n_permutations=n_permutations,
        random_state=seed,
        missing=missing.value,
        ordered=not unordered,
        background=background.value,
    )
    dropped = int(len(keep) - keep.sum())
    if output is not None:
        flags = np.full(len(keep), None, dtype=object)  # unknown where a score is missing
        flags[keep] = result.predict(score_s[keep], score_q[keep])
        _write_flags(output, {name: columns[name] for name in columns}, flags)
    if as_json:
        out_json(result.to_dict() | {"dropped_rows": dropped})
    else:
        _show(result, s, q, dropped)
        if output is not None:
            out(f"flags written to {output}")


def _refuse_lists(columns: dict[str, Any]) -> None:
    for name, values in columns.items():
        if values.ndim > 1:
            raise InputError(
                f"column {name!r} has {values[0].size:,} values per row; a score or context has one"
            )


#: Bytes in memory for a byte of the columns, while they are searched: 0.64 GB were measured for 0.08 GB.
_COPIES = 8


def _too_long(files: list[Path], max_rows: int, columns: int) -> bool:
    """Whether the columns, decompressed, have more than ``max_rows`` rows or do not fit in half of the free memory."""
    from coad.data.memory import free_memory
    from coad.data.tables import table_bytes

    rows = sum(table_bytes(file, 1) for file in files) / 8
    return rows > max_rows or 8 * columns * rows * _COPIES > free_memory() / 2


def _in_passes(
    files: list[Path],
    s: str,
    q: str,
    regime: list[str],
    missing: Any,
    settings: dict[str, Any],
    output: Path | None,
    as_json: bool,
    max_rows: int,
    cluster: str | None,
) -> None:
    """Thresholds for a table that is too long for memory."""
    from coad.cli._progress import progress
    from coad.scale.thresholds import files_thresholds

    with progress("reading in passes") as advance:
        result, rows, passes = files_thresholds(
            files,
            s,
            q,
            context=regime,
            cluster=cluster,
            progress=advance,
            missing=missing,
            max_rows=max_rows,
            remedy="pass --missing drop to leave those rows out",
            **settings,
        )
    if output is not None:
        _stream_flags(files, output, result, s, q, regime)
    if as_json:
        out_json(result.to_dict() | {"dropped_rows": rows - result.n_rows, "passes": passes})
        return
    _show(result, s, q, rows - result.n_rows)
    out(
        f"{rows:,} rows read in {passes} pass{'es'[: 2 * (passes != 1)]}; the thresholds are exact, "
        "p and intervals rest on at most 64 thresholds an input"
    )
    if output is not None:
        out(f"flags written to {output}")


def _stream_flags(
    files: list[Path], output: Path, result: ThresholdResult, s: str, q: str, regime: list[str]
) -> None:
    import numpy as np
    import pyarrow as pa

    from coad.data.atomic import written_whole
    from coad.data.tables import iter_columns
    from coad.workflows.scoring import open_writer

    names = list(dict.fromkeys([s, q, *regime]))
    writer: Any = None
    done = 0
    with written_whole(output) as draft:
        try:
            for batch in iter_columns(files, names, 262_144, categories=regime):
                size = len(batch[s])
                usable = np.isfinite(batch[s]) & np.isfinite(batch[q])
                flags = (batch[s] >= result.threshold_s) & (batch[q] >= result.threshold_q)
                row = {} if "row" in names else {"row": np.arange(done, done + size)}
                columns = row | {name: batch[name] for name in names}
                table = pa.table({key: pa.array(value) for key, value in columns.items()})
                table = table.append_column(_flag_name(columns), pa.array(flags, mask=~usable))
                if writer is None:
                    writer = open_writer(output)(draft, table.schema)
                writer.write_table(table)
                done += size
        finally:
            if writer is not None:
                writer.close()


def _show(result: ThresholdResult, s: str, q: str, dropped: int) -> None:
    """Print the status, the thresholds and the estimates."""
    if dropped:
        out(f"{dropped:,} rows left out for missing or infinite scores")
    if result.status == NO_COINCIDENCE:
        out(f"{result.status}: {in_words(result.suspicions)}; nothing is flagged")
        out(_background_line(result))
        return
    out(f"{result.status}: {result.message}")
    rows = [
        (f"threshold on {s}", f"{result.threshold_s:.6g}", ""),
        (f"threshold on {q}", f"{result.threshold_q:.6g}", ""),
        ("flagged rows", f"{result.n_joint:,}", percent(result.joint_fraction)),
    ]
    bounds = result.intervals
    if bounds is not None:
        beta = "∞" if math.isinf(result.beta) else f"{result.beta:g}"
        rows.append((f"F̂ (β = {beta})", number(result.fbeta_hat), span(bounds.fbeta_hat)))
        for name, value, interval in (
            (PRECISION, result.precision_hat, bounds.precision_hat),
            (RECALL, result.recall_hat, bounds.recall_hat),
            (f"α, anomaly rate ({result.alpha_source})", result.alpha, bounds.alpha),
        ):
            rows.append((name, percent(value), span(interval, as_percent=True)))
    if result.p_value is not None:
        rows.append(("p-value", number(result.p_value), f"{result.n_permutations} permutations"))
    if result.n_strata > 1:
        rows.append(("regimes", f"{result.n_strata:,}", ""))
    table(("", "value", "95 % interval"), rows)
    out(_background_line(result))


def _background_line(result: ThresholdResult) -> str:
    return f"background: {result.background.kind} ({result.background.why})"


def _flag_name(columns: Collection[str]) -> str:
    name = "flag"
    while name in columns:
        name += "_"
    return name


def _write_flags(path: Path, columns: dict[str, Any], flags: Any) -> None:
    import pyarrow as pa

    from coad.data.atomic import written_whole
    from coad.workflows.scoring import open_writer

    name = _flag_name(columns)
    row = {} if "row" in columns else {"row": range(len(flags))}
    table = pa.table({key: pa.array(value) for key, value in (row | columns).items()})
    table = table.append_column(name, pa.array(flags.tolist(), pa.bool_()))
    with written_whole(path) as draft, open_writer(path)(draft, table.schema) as writer:
        writer.write_table(table)
