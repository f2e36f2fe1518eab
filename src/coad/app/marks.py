"""A person's marks on events (real, not real, known) and names of kinds, in a SQLite file.

Every mark is on disk before it is confirmed, so none is lost in a crash. Several explorers may use one file at a time:
SQLite orders their writes, and each reads the others' marks at its next request.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from coad.exceptions import FileError, InputError

__all__ = ["VERDICTS", "KindNote", "Mark", "Marks", "marks_beside"]

VERDICTS = ("real", "not real", "known")

_APPLICATION, _VERSION = 0x636F6164, 1  # "coad"
_BUSY_SECONDS = 5.0
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

    >>> import tempfile
    >>> with Marks(Path(tempfile.mkdtemp()) / "marks.sqlite") as marks:
    ...     marks.put(Mark("plant", 7, 9, "", "real"))
    ...     [(mark.first_row, mark.verdict) for mark in marks.all()]
    [(7, 'real')]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise FileError(
                f"--marks {path}: {'it is a folder' if path.is_dir() else 'there is no such folder'}"
            )
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise FileError(
                    f"{path} is locked by another program; close it, or name another --marks"
                ) from error
            if isinstance(error, sqlite3.OperationalError):
                raise FileError(f"{path} cannot be opened or written for marks: {error}") from error
            raise FileError(f"{path} is not a file of marks ({error}); name another with --marks") from error

    def _open(self) -> None:
        # Committed by hand; used from the server's threads, one at a time.
        base = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._base = base
        try:
            owner, version = (
                base.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            strange = (
                base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] and owner != _APPLICATION
            )
            if strange:
                raise FileError(f"{self.path} is a SQLite file of another program; name another with --marks")
            if version > _VERSION:
                raise FileError(
                    f"{self.path} was written by a newer coad; install that, or name another --marks"
                )
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = FULL")
            with self._writing():
                for statement in _TABLES.split(";"):
                    base.execute(statement)
                base.execute(f"PRAGMA application_id = {_APPLICATION}")
                base.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            base.close()
            raise

    def __enter__(self) -> Marks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    def put(self, mark: Mark) -> None:
        """Save a mark, replacing an older one of the same pair; on disk when this returns."""
        if mark.verdict not in VERDICTS:
            raise InputError(f"a mark is one of {', '.join(VERDICTS)}, not {mark.verdict!r}")
        now = mark.marked_at or datetime.now(UTC).isoformat(timespec="milliseconds")
        values = (mark.file, mark.first_row, mark.last_row, mark.time, mark.verdict, now)
        with self._lock, self._writing():
            self._base.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?)", values)

    def remove(self, file: str, first_row: int, last_row: int) -> None:
        """Remove a mark."""
        with self._lock, self._writing():
            self._base.execute(
                "DELETE FROM marks WHERE file = ? AND first_row = ? AND last_row = ?",
                (file, first_row, last_row),
            )

    def all(self) -> list[Mark]:
        """Every mark, the oldest first, those of other explorers included."""
        with self._lock:
            rows = self._base.execute(
                "SELECT file, first_row, last_row, time, verdict, marked_at FROM marks ORDER BY marked_at, rowid"
            ).fetchall()
        return [Mark(*row) for row in rows]

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
        with self._lock, self._writing():
            self._base.execute(
                "INSERT OR REPLACE INTO kinds VALUES (?, ?, ?)", (note.kind, note.name, int(note.dismissed))
            )

    def kinds(self) -> dict[str, KindNote]:
        """The notes on kinds, by their key."""
        with self._lock:
            rows = self._base.execute("SELECT kind, name, dismissed FROM kinds").fetchall()
        return {kind: KindNote(kind, name, bool(dismissed)) for kind, name, dismissed in rows}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction: all of it is on disk, or nothing."""
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._base.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise FileError(f"{self.path} cannot be written ({error}); the mark is not kept") from error


def marks_beside(model: Path) -> Path:
    """Where the marks of a model are kept by default: beside its folder, which a new fit replaces.

    >>> marks_beside(Path("plant/model/")).as_posix()
    'plant/model.marks.sqlite'
    """
    folder = model if model.name not in ("", "..") else model.resolve()
    return folder.with_name(f"{folder.name}.marks.sqlite")
