"""Score files with a saved model, batch by batch in bounded memory; the output is complete or absent."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.core.runs import RowOrder, find_runs, seconds
from coad.data.layout import Layout
from coad.data.paths import PathLike, find_files
from coad.exceptions import FileError, InputError
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.core.assessment import RowScores
    from coad.data.pairs import Pairs
    from coad.data.witness import Witness
    from coad.learned.estimator import CoAD

__all__ = ["Part", "ScoredPart", "Scores", "Source", "iter_confidences", "score_files"]

Progress = Callable[[int], None]
T = TypeVar("T")

#: Size of a batch of pairs in bytes; a few batches are in memory at a time.
_BATCH_BYTES = 48_000_000


@dataclass(frozen=True)
class Source:
    """The files to read: one source, or one of s and one of q with their own times."""

    files: PathLike | list[PathLike] | None = None
    s: PathLike | list[PathLike] | None = None
    q: PathLike | list[PathLike] | Witness | None = None

    @property
    def two_clocks(self) -> bool:
        """Whether s and q come from different sources."""
        return self.s is not None and self.q is not None

    def wide(self, layout: Layout) -> Source:
        """The files, or wide tables made of them if the layout is one of long tables."""
        if layout.long is None:
            return self
        from coad.data.long import wide_source

        return Source(*(wide_source(one, layout) for one in (self.files, self.s, self.q)))

    def check(self, *, two_clocks: bool | None = None) -> None:
        """Check that there is one source or two, as in the fit."""
        if (self.s is None) != (self.q is None) or (self.files is None) == (self.s is None):
            raise InputError("give either one file (or folder), or both --s-file and --q-file")
        if two_clocks is True and not self.two_clocks:
            raise InputError("this model was fitted on two sources; pass --s-file and --q-file")
        if two_clocks is False and self.two_clocks:
            raise InputError("this model was fitted on one table; pass it without --s-file and --q-file")


@dataclass(frozen=True)
class Part:
    """A batch of pairs, and the first and last source row of each."""

    pairs: Pairs
    first: IntArray
    last: IntArray
    path: Path
    rows_read: int


@dataclass(frozen=True)
class ScoredPart(Part):
    """A batch of pairs with their scores."""

    scores: RowScores


@dataclass
class Scores:
    """Counts of what :func:`score_files` read and wrote."""

    n_rows: int = 0
    n_pairs: int = 0
    n_flagged: int = 0
    n_events: int = 0
    bad_files: list[tuple[Path, FileError]] = field(default_factory=list)
    unseen: Counter[str] = field(default_factory=Counter)  # rows in contexts that training did not see


class Numbering:
    """Numbers for labels that come in batches, in order of appearance."""

    def __init__(self) -> None:
        self.names: dict[Any, int] = {}

    def of(self, labels: NDArray[Any], file: Path | None = None) -> IntArray:
        """The number of each label, the same label of another file being another.

        >>> numbers = Numbering()
        >>> numbers.of(np.array(["b", "b"])), numbers.of(np.array(["a", "b"]))
        (array([0, 0]), array([1, 0]))
        """
        unique, inner = np.unique(labels, return_inverse=True)
        keys = unique.tolist() if file is None else [(file, one) for one in unique.tolist()]
        codes = [self.names.setdefault(key, len(self.names)) for key in keys]
        return np.array(codes, dtype=np.int64)[inner.reshape(-1)]

    def of_part(self, part: Part) -> IntArray:
        """The number of the file and group of each pair: events end where it changes."""
        group = part.pairs.group
        return self.of(np.zeros(len(part.pairs), dtype=np.int8) if group is None else group, part.path)


def score_files(
    model: CoAD,
    recipe: Recipe,
    source: Source,
    output: Path,
    *,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    several: bool | None = None,
) -> Scores:
    """Write p_s, p_q, score and flag of every pair (for a catalogue also the mode, for findings the finding).

    Parameters
    ----------
    model : CoAD or CoincidenceModes
        The fitted model.
    recipe : Recipe
        How files become pairs.
    source : Source
        The files. One that cannot be read is left out and listed in the result.
    output : Path
        A .parquet or .csv file.
    batch_rows : int, optional
        Rows per batch; chosen from the size of a row by default.
    progress : callable, optional
        Called with the number of rows read so far.
    several : bool, optional
        Whether each row names its file; default: if there is more than one.

    Returns
    -------
    Scores
    """
    from coad.data.atomic import check_writable, written_whole

    open_writer(check_writable(output))
    source.check(two_clocks=recipe.clocks is not None)
    if several is None:
        several = not source.two_clocks and len(find_files(source.files or [])) > 1
    done = Scores()
    runs = Numbering()
    kept: list[tuple[NDArray[Any], ...]] = []
    known = known_contexts(model, recipe)
    with written_whole(output) as draft:
        writer: Any = None
        try:
            for part in iter_confidences(
                model,
                recipe,
                source,
                batch_rows=batch_rows,
                on_bad_file=lambda path, error: done.bad_files.append((path, error)),
            ):
                table = _table(part, several=several, findings=bool(model.rule_.findings))
                if writer is None:
                    writer = open_writer(output)(draft, table.schema)
                writer.write_table(table.cast(writer.schema) if hasattr(writer, "schema") else table)
                done.n_pairs += len(part.pairs)
                done.n_flagged += int(part.scores.flag.sum())
                done.n_rows = part.rows_read
                time = part.first if part.pairs.time is None else seconds(part.pairs.time)
                kept.append((part.scores.flag, time, runs.of_part(part)))
                done.unseen.update(unseen_contexts(part.pairs.context, known))
                if progress is not None:
                    progress(part.rows_read)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise no_pairs(done.bad_files)
    flags, times, run = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    done.n_events = len(find_runs(flags, breaks=RowOrder(len(flags), times, run).breaks()).first)
    return done


def iter_confidences(
    model: CoAD,
    recipe: Recipe,
    source: Source,
    *,
    label: str | None = None,
    batch_rows: int | None = None,
    on_bad_file: Callable[[Path, FileError], None] | None = None,
) -> Iterator[ScoredPart]:
    """Score all pairs batch by batch; the next batch is read in another thread meanwhile."""
    source.check(two_clocks=recipe.clocks is not None)
    layout = replace(recipe.layout, label=label)
    for part in read_ahead(_parts(recipe, layout, source, batch_rows, on_bad_file)):
        pairs = part.pairs
        scores = model.score_rows(pairs.s, pairs.q, pairs.context)
        yield ScoredPart(pairs, part.first, part.last, part.path, part.rows_read, scores)


def known_contexts(model: CoAD, recipe: Recipe) -> set[Any] | None:
    """The contexts of the training rows; None for blocks of time, which are always new."""
    if model.contexts_ is None or recipe.layout.context_blocks is not None:
        return None
    return set(model.contexts_)


def unseen_contexts(context: NDArray[Any] | None, known: set[Any] | None) -> Counter[str]:
    """The rows in each context that training did not see.

    >>> unseen_contexts(np.array(["a", "b", "b"]), {"a"})
    Counter({'b': 2})
    """
    if context is None or known is None:
        return Counter()
    labels, counts = (one.tolist() for one in np.unique(context, return_counts=True))
    return Counter({str(a): n for a, n in zip(labels, counts, strict=True) if a not in known})


def no_pairs(bad_files: list[tuple[Path, FileError]]) -> FileError:
    """The error for files that gave no pairs."""
    if len(bad_files) == 1:
        return bad_files[0][1]
    if bad_files:
        return FileError(f"none of the files can be read; the first: {bad_files[0][1]}")
    return FileError(
        "these files give no pairs: they have no rows without missing values, or no gap-free run as long as "
        "the model's window"
    )


def open_writer(path: Path) -> Any:
    """The writer class for the file's suffix; it takes a path and a schema."""
    if path.suffix == ".parquet":
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter
    if path.suffix == ".csv":
        from coad.data.csv_writer import CsvWriter

        return CsvWriter
    raise InputError(f"--out must end in .csv or .parquet, not {path.name!r}")


def _parts(
    recipe: Recipe,
    layout: Layout,
    source: Source,
    batch_rows: int | None,
    on_bad_file: Callable[[Path, FileError], None] | None,
) -> Iterator[Part]:
    rows = batch_rows or rows_a_batch(layout)
    if not source.two_clocks and layout.missing != "interpolate":
        from coad.data.stream import iter_pairs

        check_schema(layout, source)
        for batch in iter_pairs(
            source.files or [],
            layout,
            batch_rows=rows,
            means=recipe.means or None,
            on_bad_file=on_bad_file,
        ):
            read = batch.rows_before + batch.rows_read
            yield Part(batch.pairs, batch.first, batch.last, batch.path, read)
        return
    pairs, first, last, path, total = _all_at_once(recipe, layout, source, on_bad_file)
    for start in range(0, len(pairs), rows):
        part = slice(start, start + rows)
        read = total if start + rows >= len(pairs) else int(last[part][-1])
        yield Part(pairs[part], first[part], last[part], path, read)


def _all_at_once(
    recipe: Recipe,
    layout: Layout,
    source: Source,
    on_bad_file: Callable[[Path, FileError], None] | None,
) -> tuple[Pairs, IntArray, IntArray, Path, int]:
    """Pairs that need all rows at once: two files to align, or missing values to interpolate."""
    if recipe.clocks is None:
        from coad.data.read import load

        check_schema(layout, source)
        loaded = load(source.files, layout, means=recipe.means or None, on_bad_file=on_bad_file)
        built = loaded.built
        return loaded.pairs, built.first, built.last, loaded.files[0], built.n_rows
    from coad.data.clocks import read_two_clocks

    assert source.s is not None
    assert source.q is not None
    clocks = recipe.clocks
    both = read_two_clocks(
        source.s,
        source.q,
        layout,
        how=clocks.how,
        tolerance=clocks.tolerance,
        time_q=clocks.time_q,
        means=recipe.means or None,
    )
    return both.pairs, both.first, both.last, find_files(source.s)[0], both.alignment.n_s


def check_schema(layout: Layout, source: Source) -> None:
    """Check that all files have the columns of the model."""
    from coad.data.tables import column_names

    for path in find_files(source.files or []):
        try:
            names = column_names(path)
        except FileError:
            continue  # reported when the file is read
        layout.check_same(names, where=str(path))


def rows_a_batch(layout: Layout, most: int = 262_144) -> int:
    """Rows to read at once so that the pairs made of them stay within bounds.

    >>> rows_a_batch(Layout(s=("a",), q=("b",), window=64, stride=1))
    46875
    """
    window = layout.window if isinstance(layout.window, int) else 1
    stride = layout.stride if isinstance(layout.stride, int) else window
    bytes_a_row = 8 * len(layout.signals) * max(1.0, window / stride)
    return int(min(most, max(_BATCH_BYTES / bytes_a_row, 4 * window, 1024)))


def _table(part: ScoredPart, *, several: bool, findings: bool) -> Any:
    import pyarrow as pa

    pairs = part.pairs
    columns: dict[str, NDArray[Any] | Any] = {}
    if several:
        name, none = pa.array([str(part.path)], pa.string()), np.zeros(len(pairs), dtype=np.int32)
        columns["file"] = pa.DictionaryArray.from_arrays(none, name).cast(pa.string())
    columns["row"] = part.first
    if pairs.windows is not None:
        columns["last_row"] = part.last
    for name, values in (("time", pairs.time), ("id", pairs.id)):
        if values is not None:
            columns[name] = values
    called = {"mode": "finding", "dismissed": "ignored"} if findings else {}
    scores = part.scores._asdict().items()
    columns |= {called.get(name, name): values for name, values in scores if values is not None}
    return pa.table(columns)


def read_ahead(items: Iterator[T], depth: int = 1) -> Iterator[T]:
    """Yield the items; a thread produces the next one while the current one is used."""
    queue: Queue[tuple[str, Any]] = Queue(depth)
    stop = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not stop.is_set():
            try:
                queue.put((kind, value), timeout=0.1)
            except Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:  # raised again in the consumer's thread
            put("error", error)

    thread = threading.Thread(target=work, name="coad-reader", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = queue.get()
            if kind == "item":
                yield value
            elif kind == "error":
                raise value
            else:
                return
    finally:
        stop.set()
        thread.join()
