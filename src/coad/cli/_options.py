"""What the commands share: arguments, warnings as notes, and the lines that several of them print."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._print import number, out, percent, span, table
from coad.core.verdict import FOUND, NO_COINCIDENCE, SHARED_REGIME
from coad.exceptions import CoadWarning, FileError, InputError, UnseenContextWarning

if TYPE_CHECKING:
    from coad.core.rule import Rule
    from coad.workflows.evaluating import Judgement
    from coad.workflows.recipe import Recipe
    from coad.workflows.scoring import Source


class Missing(StrEnum):
    """What to do with missing values."""

    error = "error"
    drop = "drop"
    mean = "mean"
    interpolate = "interpolate"


class BackgroundChoice(StrEnum):
    """How chance is counted."""

    auto = "auto"
    independent = "independent"
    correlated = "correlated"


BackgroundOption = Annotated[
    BackgroundChoice,
    typer.Option(
        help="How chance is counted: as if the scores were independent, with the correlation of their bulk, "
        "or as that correlation asks for."
    ),
]
ModelArgument = Annotated[Path, typer.Argument(help="Model folder, written by coad fit.")]
AnyModelArgument = Annotated[Path, typer.Argument(help="Model folder, written by coad fit or coad modes.")]
FileArgument = Annotated[
    Path | None,
    typer.Argument(
        help="CSV, Parquet, Arrow, Excel, NPZ, HDF5 or MATLAB file; folder; glob.", show_default=False
    ),
]
SFileOption = Annotated[
    Path | None, typer.Option(help="File of s, for a model fitted with --s-file and --q-file.")
]
QFileOption = Annotated[Path | None, typer.Option(help="File of q; see --s-file.")]
UnorderedOption = Annotated[
    bool, typer.Option("--unordered", help="Rows are in no order; default: they are in time order.")
]
LabelOption = Annotated[
    str | None, typer.Option(help="Label column (0 or false: normal), to compute precision and recall.")
]
TimeFormatOption = Annotated[
    str | None, typer.Option(help='Format of times that are text, if not ISO 8601: "%d.%m.%Y %H:%M:%S".')
]
LongOption = Annotated[
    str | None,
    typer.Option(help="Long tables, one row per reading: names of their columns time,tag,value; or auto."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(help="Work on Dask: auto starts a cluster on this machine; tcp://… or a scheduler file."),
]
MissingOption = Annotated[Missing, typer.Option(help="What to do with missing values.")]
ModelMissingOption = Annotated[
    Missing | None, typer.Option(help="What to do with missing values; default: as in the fit.")
]


def one_or_two(file: Path | None, s_file: Path | None, q_file: Path | None) -> Source:
    """The file, or the two files, that the arguments name."""
    from coad.workflows.scoring import Source

    source = Source(file, s_file, q_file)
    source.check()
    return source


def read_as(recipe: Recipe, source: Source, missing: Missing | None) -> tuple[Recipe, Source]:
    """How new files are read: as in the fit, with the policy for missing values that was asked for."""
    recipe = recipe.with_missing(missing)
    with notes():
        return recipe, source.wide(recipe.layout)


def number_or_auto(text: str, option: str) -> Any:
    """A number, or the word auto."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number in (0, 0.5] or auto, not {text!r}") from None


@contextmanager
def notes(but: type[CoadWarning] = UnseenContextWarning) -> Iterator[None]:
    """Print each warning of coad as one line on standard error at the end, except those of class ``but``.

    Contexts that training did not see are counted over all files instead: see :func:`say_unseen`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CoadWarning)
        yield
    shown = [one for one in caught if issubclass(one.category, CoadWarning)]
    for text in dict.fromkeys(str(one.message) for one in shown if not issubclass(one.category, but)):
        sys.stderr.write(f"note: {text}\n")


def total_rows(source: Source) -> int | None:
    """The number of rows, if the files state it (Parquet); otherwise None."""
    from coad.data.paths import file_kind, find_files

    if source.files is None:
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    total = 0
    for path in find_files(source.files):
        if file_kind(path) != "parquet":
            return None
        try:
            total += pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError):
            continue  # reported when the file is read
    return total


def show_judgement(judged: Judgement, rule: Rule, *, windows: bool) -> None:
    """Print the status, the estimates and what to do next."""
    from coad.report.words import alpha_source, p_text
    from coad.workflows.evaluating import next_step

    found, status = judged.evaluation, judged.status
    if status == FOUND:
        out(f"{status}: both inputs single out the same rows ({p_text(found)})")
    else:
        out(f"{status}: {judged.message}")
    if status == SHARED_REGIME:
        out("what is flagged may be an operating regime, not events: no figure below counts as a result")
    what = "windows" if windows else "rows"
    rows = []
    if status != NO_COINCIDENCE:
        beta = "∞" if math.isinf(found.beta) else f"{found.beta:g}"
        spans = found.intervals
        rows += [
            (f"F̂ (β = {beta})", number(found.fbeta_hat), span(found.interval)),
            (PRECISION, percent(found.precision_hat), span(spans.precision_hat, as_percent=True)),
            (RECALL, percent(found.recall_hat), span(spans.recall_hat, as_percent=True)),
            (
                f"α, anomaly rate ({alpha_source(found, rule)})",
                percent(found.alpha),
                "",
            ),
        ]
    rows.append((f"flagged {what}", f"{judged.n_flagged:,}", ""))
    rows.append((f"events (runs of flagged {what})", f"{judged.n_events:,}", ""))
    table(("", "value", "95 % interval"), rows)
    out(f"rule: {rule.words()}")
    step = next_step(judged)
    if step:
        out(step)


#: The names of P̂ and R̂ in tables.
PRECISION, RECALL = "P̂, flagged rows not explained by chance", "R̂, anomalies that are flagged"


def say_unseen(unseen: Counter[str]) -> None:
    """Print which contexts training did not see, and how their rows are scaled."""
    if unseen:
        from coad.data.columns import quoted

        shown = quoted(list(unseen), limit=4)
        out(
            f"{unseen.total():,} rows are in contexts that training did not see ({shown}); "
            "they are scaled by the statistics of all training rows"
        )


def name_bad_files(bad_files: list[tuple[Path, FileError]]) -> None:
    """Print one line for each file that was left out."""
    for path, error in bad_files:
        text = str(error)
        sys.stderr.write(f"coad: left out: {text if str(path) in text else f'{path}: {text}'}\n")
