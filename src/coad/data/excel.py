"""Excel workbooks (.xlsx): the first sheet as an Arrow table; its first row with values holds the names."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from coad._extras import missing_package
from coad.data.memory import refuse_too_large
from coad.data.numbers import MISSING_WORDS
from coad.exceptions import CoadError, FileError


def read_excel(path: Path) -> Any:
    """The first sheet of a workbook; formulas are read as their last results."""
    stat = path.stat()
    return _read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=2)  # names, types and rows are asked for one after the other, and parsing is slow
def _read(path: Path, changed: int, size: int) -> Any:
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise missing_package(error) or error from error
    try:
        with zipfile.ZipFile(path) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
        # A cell is about 20 bytes of XML, and 60 in memory while the sheet becomes a table.
        refuse_too_large(unpacked, f"the workbook {str(path)!r}", "save it as CSV")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            rows = [row for sheet in book.worksheets[:1] for row in sheet.iter_rows(values_only=True)]
        finally:
            book.close()
    except CoadError:
        raise
    except Exception as error:  # a damaged workbook can raise almost anything in zipfile, XML and openpyxl
        raise FileError(
            f"cannot read {str(path)!r}: it is damaged, or no Excel workbook; save it as CSV ({error!r:.100})"
        ) from error
    used = [place for place, row in enumerate(rows) if any(cell is not None for cell in row)]
    if not used:
        raise FileError(f"{str(path)!r} has no values on its first sheet")
    header, body = rows[used[0]], rows[used[0] + 1 : used[-1] + 1]
    places = [place for place, name in enumerate(header) if name is not None]
    columns = [[row[place] if place < len(row) else None for row in body] for place in places]
    return pa.table(
        [_column(cells) for cells in columns], names=[str(header[place]).strip() for place in places]
    )


def _column(cells: Sequence[Any]) -> Any:
    """Numbers, truth values or times where all cells are; otherwise text."""
    known = [cell for cell in cells if not _is_missing(cell)]
    for kinds, arrow in ((bool, pa.bool_()), ((int, float), pa.float64())):
        if known and all(isinstance(cell, kinds) for cell in known):
            return pa.array([None if _is_missing(cell) else cell for cell in cells], arrow)
    if known and all(isinstance(cell, datetime.date) for cell in known):
        return pa.array([None if _is_missing(cell) else _instant(cell) for cell in cells], pa.timestamp("us"))
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING_WORDS)


def _instant(day: datetime.date) -> datetime.datetime:
    return day if isinstance(day, datetime.datetime) else datetime.datetime(day.year, day.month, day.day)
