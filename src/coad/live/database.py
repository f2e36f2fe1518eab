"""The file of a watch's database: a connection for each thread, transactions, and what is read."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from coad.data.model_files import to_json
from coad.exceptions import FileError
from coad.live.protocols import Record

__all__ = ["Database", "as_text"]

#: How long a writer waits for another one, in seconds: pages and outputs write little.
_PATIENCE = 30.0


class Database:
    """Reading from the database; :class:`coad.live.store.Store` writes.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._own = threading.local()

    def position(self) -> Any:
        """Where reading must go on; None at the beginning."""
        return self._fact(self._db, "position")

    def watermark(self) -> int | None:
        """Up to which time samples were handled."""
        found: int | None = self._fact(self._db, "watermark")
        return found

    def counters(self) -> dict[str, int]:
        """Counters by name."""
        return dict(self._fact(self._db, "counters") or {})

    def alarms(self, state: str | None = None, limit: int = 500) -> list[dict[str, Any]]:
        """Alarms, newest first."""
        where, values = ("WHERE state = ?", (state,)) if state else ("", ())
        return self._bodies(
            f"SELECT body FROM alarms {where} ORDER BY raised DESC, key LIMIT ?", *values, limit
        )

    def events(self, since: int = 0, limit: int = 500) -> list[dict[str, Any]]:
        """Events that start at ``since`` or later, newest first."""
        return self._bodies(
            "SELECT body FROM events WHERE start >= ? ORDER BY start DESC, key LIMIT ?", since, limit
        )

    def refusals(self, since: int = 0, limit: int = 500) -> list[dict[str, Any]]:
        """Refusals that start at ``since`` or later, newest first."""
        return self._bodies(
            "SELECT body FROM refusals WHERE start >= ? ORDER BY start DESC, key LIMIT ?", since, limit
        )

    def drift(self) -> list[dict[str, Any]]:
        """The last line for each station and input."""
        return self._bodies("SELECT body FROM drift ORDER BY name")

    def journal(self, since_id: int = 0, limit: int = 1000) -> list[Record]:
        """Lines of the journal with a larger number, oldest first."""
        rows = self._db.execute(
            "SELECT id, kind, key, station, time, body FROM journal WHERE id > ? ORDER BY id LIMIT ?",
            (since_id, limit),
        )
        return [
            Record(number, kind, key, station, time, json.loads(body))
            for number, kind, key, station, time, body in rows
        ]

    def differences(self, limit: int = 500) -> list[dict[str, Any]]:
        """Pairs that the model and its shadow judge differently, newest first."""
        return self._bodies("SELECT body FROM differences ORDER BY time DESC LIMIT ?", limit)

    def precision(self) -> tuple[int, int]:
        """How many alarms people confirmed, and how many they judged."""
        marks = [one["verdict"] for one in self.alarms(limit=-1)]
        return marks.count("confirmed"), marks.count("confirmed") + marks.count("false")

    def sent(self, output: str) -> int:
        """The number of the last line that an output has."""
        found = self._db.execute("SELECT last_id FROM outputs WHERE name = ?", (output,)).fetchone()
        return found[0] if found else 0

    def last_id(self) -> int:
        """The number of the last line of the journal."""
        found = self._db.execute("SELECT max(id) FROM journal").fetchone()[0]
        return int(found or 0)

    def open_alarms(self, kind: str) -> dict[str, str]:
        """The stations whose alarm of a kind goes on, and the key of what raised it."""
        alarms = [one for one in self.alarms(limit=-1) if one["kind"] == kind and one["open"]]
        return {one["station"]: one["open"][-1] for one in alarms}

    def close(self) -> None:
        """Close the connection of this thread."""
        if hasattr(self._own, "db"):
            self._own.db.close()
            del self._own.db

    @property
    def _db(self) -> sqlite3.Connection:
        if not hasattr(self._own, "db"):
            try:
                db = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
                db.execute("PRAGMA journal_mode = WAL")
                # A power cut may cost the last steps, never a part of one: position and state go back with them.
                db.execute("PRAGMA synchronous = NORMAL")
            except sqlite3.Error as error:
                raise FileError(f"{self.path} cannot be opened: {error}") from error
            self._own.db = db
        found: sqlite3.Connection = self._own.db
        return found

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _fact(self, db: sqlite3.Connection, name: str) -> Any:
        found = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def _put(self, db: sqlite3.Connection, **facts: Any) -> None:
        db.executemany(
            "INSERT OR REPLACE INTO facts VALUES (?, ?)", [(k, as_text(v)) for k, v in facts.items()]
        )

    def _bodies(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with closing(self._db.execute(query, values)) as rows:
            return [json.loads(one[0]) for one in rows]


def as_text(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False, allow_nan=False)
