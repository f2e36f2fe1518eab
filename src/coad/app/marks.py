"""A person's marks on events (real, not real, known) and names of kinds, in a SQLite file.

Every mark is on disk before it is confirmed, so none is lost in a crash. Several explorers may use one file at a time:
SQLite orders their writes, and each reads the others' marks at its next request.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coad.exceptions import FileError, InputError

__all__ = ["VERDICTS", "KindNote", "Mark", "Marks", "marks_beside"]

VERDICTS = ("real", "not real", "known")

_APPLICATION, _VERSION = 0x636F6164, 1  # "coad"
#: How long another program may hold the file: a page waits for each reading, a person for a writing.
_READ_SECONDS, _WRITE_SECONDS = 0.1, 5.0
_TABLES = """
CREATE TABLE IF NOT EXISTS marks (file TEXT NOT NULL, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL,
  time TEXT NOT NULL, verdict TEXT NOT NULL, marked_at TEXT NOT NULL, PRIMARY KEY (file, first_row, last_row));
CREATE TABLE IF NOT EXISTS kinds (kind TEXT PRIMARY KEY, name TEXT NOT NULL, dismissed INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Mark:
    """A verdict on one pair, the strongest of an event, identified by its file and rows."""

    file: str
    first_row: int
    last_row: int
    time: str  # of the pair, so that marks of other data are told apart; empty if it has none
    verdict: str
    marked_at: str = ""


@dataclass(frozen=True)
class KindNote:
    """The name of a kind of event, and whether it is dismissed."""

    kind: str
    name: str
    dismissed: bool


class Marks:
    """The marks in a file, which is created if it does not exist.

    The file is opened for each reading and writing, so nothing stays locked, and a file that was put back is seen.
    While it cannot be read, the marks are those that were read last, and ``trouble`` says why.

    >>> import tempfile
    >>> marks = Marks(Path(tempfile.mkdtemp()) / "marks.sqlite")
    >>> marks.put(Mark("plant", 7, 9, "", "real"))
    >>> [(mark.first_row, mark.verdict) for mark in marks.all()]
    [(7, 'real')]
    """

    def __init__(self, path: Path) -> None:
        self.path, self.trouble = path, ""
        self._marks: list[Mark] = []
        self._kinds: dict[str, KindNote] = {}
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise FileError(
                f"--marks {path}: {'it is a folder' if path.is_dir() else 'there is no such folder'}"
            )
        try:
            with self._opened(_WRITE_SECONDS, "rwc") as base:
                self._create(base)
        except sqlite3.Error as error:
            raise FileError(f"{path} {_reason(error)}; name another with --marks") from error

    def _create(self, base: sqlite3.Connection) -> None:
        owner, version = (
            base.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if owner != _APPLICATION and base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise FileError(f"{self.path} is a SQLite file of another program; name another with --marks")
        if version > _VERSION:
            raise FileError(f"{self.path} was written by a newer coad; install that, or name another --marks")
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            base.execute(statement)
        base.execute(f"PRAGMA application_id = {_APPLICATION}")
        base.execute(f"PRAGMA user_version = {_VERSION}")
        base.execute("COMMIT")

    def put(self, mark: Mark) -> None:
        """Save a mark, replacing an older one of the same pair; on disk when this returns."""
        if mark.verdict not in VERDICTS:
            raise InputError(f"a mark is one of {', '.join(VERDICTS)}, not {mark.verdict!r}")
        now = mark.marked_at or datetime.now(UTC).isoformat(timespec="milliseconds")
        values = (mark.file, mark.first_row, mark.last_row, mark.time, mark.verdict, now)
        self._write("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?)", values)

    def remove(self, file: str, first_row: int, last_row: int) -> None:
        """Remove a mark."""
        self._write(
            "DELETE FROM marks WHERE file = ? AND first_row = ? AND last_row = ?", (file, first_row, last_row)
        )

    def all(self) -> list[Mark]:
        """Every mark, the oldest first, those of other explorers included."""
        rows = self._read(
            "SELECT file, first_row, last_row, time, verdict, marked_at FROM marks ORDER BY marked_at, rowid"
        )
        if rows is not None:
            self._marks = [Mark(*row) for row in rows]
        return self._marks

    def table(self) -> Any:
        """Every mark as a ``pyarrow.Table``."""
        import pyarrow as pa

        marks = self.all()
        columns = {}
        for field in fields(Mark):
            kind = pa.int64() if field.name.endswith("_row") else pa.string()
            columns[field.name] = pa.array([getattr(mark, field.name) for mark in marks], kind)
        return pa.table(columns)

    def note_kind(self, note: KindNote) -> None:
        """Save the name of a kind, and whether it is dismissed."""
        self._write(
            "INSERT OR REPLACE INTO kinds VALUES (?, ?, ?)", (note.kind, note.name, int(note.dismissed))
        )

    def kinds(self) -> dict[str, KindNote]:
        """The notes on kinds, by their key."""
        rows = self._read("SELECT kind, name, dismissed FROM kinds")
        if rows is not None:
            self._kinds = {kind: KindNote(kind, name, bool(dismissed)) for kind, name, dismissed in rows}
        return self._kinds

    def _read(self, statement: str) -> list[Any] | None:
        """The rows; None if the file cannot be read, which ``trouble`` then explains."""
        try:
            with self._opened(_READ_SECONDS) as base:
                rows = base.execute(statement).fetchall()
        except sqlite3.Error as error:
            self.trouble = f"{self.path} {_reason(error)}; new marks cannot be kept"
            return None
        self.trouble = ""
        return rows

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        """Execute one statement, which is a transaction of its own."""
        try:
            with self._opened(_WRITE_SECONDS) as base:
                base.execute(statement, values)
        except UnicodeEncodeError as error:
            raise InputError("a name holds half of a character (a lone surrogate); write it again") from error
        except sqlite3.Error as error:
            raise FileError(f"{self.path} {_reason(error)}; this is not kept") from error

    @contextmanager
    def _opened(self, seconds: float, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        """A connection that waits so long for other programs; what it did not commit is undone."""
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, uri=True, timeout=seconds, isolation_level=None)) as base:
            base.execute("PRAGMA synchronous = FULL")
            yield base


def _reason(error: sqlite3.Error) -> str:
    """What is wrong with a file of marks.

    >>> _reason(sqlite3.OperationalError("database is locked"))
    'is locked by another program'
    """
    said = str(error)
    if "locked" in said:
        return "is locked by another program"
    if "unable to open" in said:
        return "cannot be opened (was it moved or deleted? may it be written?)"
    if isinstance(error, sqlite3.OperationalError):
        return f"cannot be used: {said}"
    return f"is damaged, or not a file of marks ({said})"


def marks_beside(model: Path) -> Path:
    """Where the marks of a model are kept by default: beside its folder, which a new fit replaces.

    >>> marks_beside(Path("plant/model/")).as_posix()
    'plant/model.marks.sqlite'
    """
    folder = model if model.name not in ("", "..") else model.resolve()
    return folder.with_name(f"{folder.name}.marks.sqlite")
