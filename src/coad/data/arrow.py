"""CSV, Parquet, Arrow and Excel files: their schema, and batches of selected columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from coad.data.excel import read_excel
from coad.data.numbers import MISSING_WORDS
from coad.data.paths import check_not_empty, file_kind
from coad.exceptions import FileError

#: Arrow compares exactly, so each word in its usual spellings; others are found when text is converted.
_NULLS = sorted(
    {*pacsv.ConvertOptions().null_values, *MISSING_WORDS}
    | {one for word in MISSING_WORDS for one in (word.upper(), word.capitalize(), word.title())}
)


def read_schema(path: Path) -> list[tuple[str, Any]]:
    """The name and the Arrow type of each column; the types of a CSV file are those of its first rows."""
    check_not_empty(path)
    with _reading(path):
        kind = file_kind(path)
        if kind == "parquet":
            return [(field.name, field.type) for field in pq.read_schema(path)]
        if kind == "excel":
            return [(field.name, field.type) for field in read_excel(path).schema]
        with _open_arrow(path) if kind == "arrow" else _open_csv(path, ["*"], ()) as reader:
            return [(field.name, field.type) for field in reader.schema]


def row_batches(
    path: Path,
    columns: Sequence[str],
    *,
    numeric: Collection[str] = (),
    batch_rows: int | None = 65_536,
) -> Iterator[Any]:
    """Arrow record batches of the columns, none longer than ``batch_rows``.

    With ``batch_rows=None`` a CSV file is read at once, and the types of its columns are inferred
    from all rows instead of the first block.

    ``numeric`` columns of a CSV file are read as float64, because a column of integers in the first
    block may have fractions later. A ``pyarrow.ArrowInvalid`` about a CSV value is left to the
    caller, who can read the file again by :func:`text_batches` and find the value.
    """
    check_not_empty(path)
    kind = file_kind(path)
    whole, batch_rows = batch_rows is None, batch_rows or 1 << 20
    if kind == "parquet":
        # Without pre-buffering, memory is bounded by the selected columns of one row group.
        with _reading(path), pq.ParquetFile(path, pre_buffer=False, memory_map=False) as file:
            yield from file.iter_batches(batch_rows, columns=list(columns), use_threads=True)
    elif kind == "excel":
        yield from read_excel(path).select(list(columns)).to_batches(batch_rows)
    elif kind == "arrow":
        with _reading(path), _open_arrow(path) as reader:
            for batch in _arrow_batches(reader):
                batch = batch.select(list(columns))
                batch.validate(full=True)  # Arrow trusts the offsets and indices of a file, and would crash
                yield from _cut(batch, batch_rows)
    elif whole:
        with _reading(path, values=False):
            yield from _open_csv(path, columns, numeric, whole=True).to_batches(batch_rows)
    else:
        with _reading(path, values=False), _open_csv(path, columns, numeric) as reader:
            for batch in reader:
                yield from _cut(batch, batch_rows)


def text_batches(
    path: Path, columns: Sequence[str], numeric: Collection[str], batch_rows: int
) -> Iterator[Any]:
    """Like :func:`row_batches` of a CSV file, with the ``numeric`` columns as text (and decimal points)."""
    commas = _csv_format(path)[1] == ","
    with _reading(path, values=False), _open_csv(path, columns, numeric, pa.string()) as reader:
        for batch in reader:
            for name in numeric if commas else ():
                place = batch.schema.get_field_index(name)
                points = pc.replace_substring(batch.column(name), ",", ".")
                batch = batch.set_column(place, name, points)
            yield from _cut(batch, batch_rows)


class _reading(AbstractContextManager[None]):
    """Turn pyarrow's errors into a ``FileError`` of one line that names the file.

    ``values=False`` lets an error about a single CSV value pass.
    """

    def __init__(self, path: Path, *, values: bool = True) -> None:
        self.path, self.values = path, values

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, FileError):
            return
        if isinstance(error, (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)):
            reason = str(error).strip().splitlines()[0].rstrip(".")
            if not self.values and "conversion error" in reason:
                return
            raise FileError(f"cannot read {str(self.path)!r}: {_plain_reason(reason)}") from error


def _plain_reason(reason: str) -> str:
    truncated = ("magic bytes not found", "Not an Arrow file", "too small", "smaller than the minimum")
    if any(sign in reason for sign in truncated) or "Truncated" in reason or "truncated" in reason:
        return f"it is truncated, or its suffix is wrong ({reason})"
    if "Expected" in reason and "columns, got" in reason:
        return "a line and the header differ in the number of values: " + _short(
            reason.split("CSV parse error: ")[-1]
        )
    if "invalid UTF8" in reason or "codec can't decode" in reason:
        return "it is not UTF-8 text; save it as UTF-8"
    if "Empty CSV" in reason:
        return "it has no columns"
    return reason


def _short(text: str, limit: int = 100) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text).strip()
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def _open_csv(
    path: Path,
    columns: Sequence[str],
    numeric: Collection[str],
    kind: Any = pa.float64(),  # noqa: B008 (Arrow's types are constants)
    *,
    whole: bool = False,
) -> Any:
    delimiter, decimal = _csv_format(path)
    return (pacsv.read_csv if whole else pacsv.open_csv)(
        pa.input_stream(str(path), compression="detect"),
        read_options=pacsv.ReadOptions(block_size=1 << 22),
        parse_options=pacsv.ParseOptions(delimiter=delimiter),
        convert_options=pacsv.ConvertOptions(
            include_columns=None if list(columns) == ["*"] else list(columns),
            column_types=dict.fromkeys(numeric, kind),
            decimal_point=decimal,
            null_values=_NULLS,
        ),
    )


def _csv_format(path: Path) -> tuple[str, str]:
    """Delimiter and decimal sign, guessed from the first lines."""
    with pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(1 << 14)
    if b"\0" in start:
        raise FileError(
            f"cannot read {str(path)!r}: it is neither text nor of a known format; save it as CSV"
        )
    head = start.decode("utf-8", errors="replace")
    lines = head.splitlines() or [""]
    counts = {sign: _outside_quotes(lines[0], sign) for sign in (",", ";", "\t", "|")}
    delimiter = max(counts, key=lambda sign: counts[sign]) if any(counts.values()) else ","
    body = lines[1:20]
    # A comma is the decimal sign (1,5;2,7) only if it is not the delimiter and there are no points.
    commas = delimiter != "," and any("," in line for line in body) and not any("." in line for line in body)
    return delimiter, "," if commas else "."


def _outside_quotes(line: str, sign: str) -> int:
    return sum(part.count(sign) for part in line.split('"')[::2])


def _open_arrow(path: Path) -> Any:
    """Open an Arrow file (also Feather 2) or an Arrow stream."""
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"FEA1"):
        raise FileError(
            f"cannot read {str(path)!r}: Feather version 1 is too old; save it as Feather 2 or Parquet"
        )
    source = pa.memory_map(str(path))
    return ipc.open_file(source) if head.startswith(b"ARROW1") else ipc.open_stream(source)


def _arrow_batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "num_record_batches"):
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        yield from reader


def _cut(batch: Any, batch_rows: int) -> Iterator[Any]:
    for start in range(0, batch.num_rows, batch_rows):
        yield batch.slice(start, batch_rows)
