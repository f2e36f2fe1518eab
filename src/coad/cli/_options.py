"""What ``fit``, ``score`` and ``evaluate`` share: reading options, warnings as notes, the lines they print."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coad.cli._print import number, out, percent, span, table
from coad.core.verdict import NO_COINCIDENCE, SHARED_REGIME
from coad.exceptions import CoadWarning, FileError, InputError, UnseenContextWarning

if TYPE_CHECKING:
    from coad.workflows.evaluating import Judgement
    from coad.workflows.scoring import Source


def one_or_two(file: Path | None, s_file: Path | None, q_file: Path | None) -> Source:
    """The source that the arguments name."""
    from coad.workflows.scoring import Source

    source = Source(file, s_file, q_file)
    source.check()
    return source


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
    """Warnings of coad as one line each on standard error, once the work is done; not those of the class ``but``.

    Contexts that training did not see are counted over all files: see :func:`say_unseen`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CoadWarning)
        yield
    told = [one for one in caught if issubclass(one.category, CoadWarning)]
    seen = dict.fromkeys(str(one.message) for one in told if not issubclass(one.category, but))
    for text in seen:
        sys.stderr.write(f"note: {text}\n")


def total_rows(source: Source) -> int | None:
    """How many rows there will be, where the files say so without being read."""
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
            continue  # it is named when its turn comes
    return total


def show_judgement(judged: Judgement, alpha: float, alpha_how: str, *, windows: bool) -> None:
    """The lines that matter about what was found."""
    found, status = judged.evaluation, judged.status
    if status == SHARED_REGIME:
        why = f"{judged.message}: " if judged.message else ""
        out(f"{status}: {why}the inputs seem to share an operating regime, not only events")
        out("the regime counts as events in the figures below: do not believe them before it is named")
    elif status == NO_COINCIDENCE:
        out(f"{status}: {judged.message}")
    else:
        out(f"{status}: both inputs single out the same rows (p = {found.p_value:.2g})")
    rows = []
    if status != NO_COINCIDENCE:
        beta = "∞" if math.isinf(found.beta) else f"{found.beta:g}"
        rows += [
            (f"F̂ (β = {beta})", number(found.fbeta_hat), span(found.interval)),
            (
                "P̂, not explained by chance",
                percent(found.precision_hat),
                span(found.intervals.precision_hat, as_percent=True),
            ),
            (
                "R̂, found among all",
                percent(found.recall_hat),
                span(found.intervals.recall_hat, as_percent=True),
            ),
        ]
    rows.append((f"α, anomaly rate ({'given' if alpha_how == 'given' else 'estimated'})", percent(alpha), ""))
    rows.append((f"flagged {'windows' if windows else 'rows'}", f"{judged.n_flagged:,}", ""))
    rows.append(("events (runs of them)", f"{judged.n_events:,}", ""))
    table(("", "value", "95 % interval"), rows)


def say_unseen(unseen: Counter[str]) -> None:
    """Name the contexts that training did not see, and the rule for them."""
    if unseen:
        from coad.data.columns import quoted

        shown = quoted(list(unseen), limit=4)
        out(
            f"{unseen.total():,} rows are in contexts that training did not see ({shown}): "
            "they are scaled like all training rows together"
        )


def name_bad_files(bad_files: list[tuple[Path, FileError]]) -> None:
    """One line for each file that was left out."""
    for path, error in bad_files:
        text = str(error)
        sys.stderr.write(f"coad: left out: {text if str(path) in text else f'{path}: {text}'}\n")
