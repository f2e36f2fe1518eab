"""The database of a watch, beside the model: all that must survive, one transaction for each step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from coad.exceptions import FileError, InputError
from coad.live.alarms import CLEARED, OPEN_STATES, Alarm, AlarmSettings, act, on_event, on_time, open_for
from coad.live.database import Database, as_text
from coad.live.grouping import SYSTEM
from coad.live.packing import from_bytes, to_bytes
from coad.live.reading import Action
from coad.live.schema import TABLES, VERSION
from coad.live.values import Event, ScoredRows, Step, event_key

__all__ = ["Saved", "Store"]

Saved = tuple[Any, list[Any]]


class Store(Database):
    """Events, alarms, refusals, counters, the reading position and the state of the engine.

    Each thread has a connection of its own. After ``kill -9`` the database is as after the last whole step.

    Parameters
    ----------
    path
        The file; made if it does not exist.
    alarms
        Settings of the alarms; None: those that the watch wrote.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "watch.db")
    >>> store.commit(Step(), b"", position={"rows": 3}); store.position()
    {'rows': 3}
    """

    def __init__(self, path: str | Path, alarms: AlarmSettings | None = None) -> None:
        super().__init__(path)
        try:
            with self._writing() as db:
                for statement in TABLES.split(";"):  # executescript would end the transaction
                    db.execute(statement)
                found = self._fact(db, "version")
                if found not in (None, VERSION):
                    raise FileError(f"{self.path} was written by another coad (format {found}); move it away")
                self._put(db, version=VERSION)
                if alarms is None:  # a page or a script: as the watch itself
                    alarms = AlarmSettings(**(self._fact(db, "alarm settings") or {}))
                self.alarm_settings = alarms
                self._put(db, **{"alarm settings": asdict(alarms)})
        except sqlite3.DatabaseError as error:
            raise FileError(f"{self.path} cannot be used as the database of a watch: {error}") from error

    def commit(
        self,
        step: Step,
        entry: bytes,
        *,
        position: Any = None,
        counts: Mapping[str, int] | None = None,
        drift: Sequence[Mapping[str, Any]] = (),
        snapshot: Any = None,
        fingerprint: str | None = None,
    ) -> None:
        """Keep a step: all of it or, if the machine stops now, nothing of it.

        Parameters
        ----------
        step
            What the engine found.
        entry
            What the engine was given, from :func:`coad.live.packing.to_bytes`: a new engine is brought to the same state
            with it.
        position
            Where reading must go on; None keeps the last one.
        counts
            The counters of the engine.
        drift
            New lines on drift.
        snapshot
            The state of the engine; the entries before it are no longer needed.
        fingerprint
            With a snapshot: of the settings and models that it belongs to, if they have changed.
        """
        with self._writing() as db:
            if snapshot is None:
                db.execute("INSERT INTO steps (input) VALUES (?)", (entry,))
            else:
                self._snapshot(db, snapshot)
                if fingerprint is not None:
                    self._put(db, fingerprint=fingerprint)
            if position is not None:
                self._put(db, position=position)
            if counts is not None:
                self._put(db, counters=dict(counts))
            for refusal in step.refusals:
                self._refusal(db, asdict(refusal), refusal.key)
            for event in sorted(step.events, key=lambda one: one.start):
                # Time passes between the events of a step too: alarms do not depend on how much comes at once.
                self._pass_time(db, event.start)
                self._event(db, event)
            for rows in step.scored:
                self._differences(db, rows)
            for line in drift:
                self._drift(db, line)
            if step.watermark is not None:
                self._put(db, watermark=step.watermark)
                self._pass_time(db, step.watermark)

    def restart(self, fingerprint: str) -> Saved:
        """The snapshot and the entries since, for an engine with the same settings.

        With other settings they are forgotten, and events that were open are over: nobody would end them.
        """
        with self._writing() as db:
            if self._fact(db, "fingerprint") != fingerprint:
                db.execute("DELETE FROM snapshot")
                db.execute("DELETE FROM steps")
                for (body,) in db.execute("SELECT body FROM events WHERE state = 'open'").fetchall():
                    self._event(db, Event(**{**json.loads(body), "state": "closed"}))
                self._end_alarms(db, "drift")
                self._put(db, fingerprint=fingerprint)
            found = db.execute("SELECT state FROM snapshot").fetchone()
            entries = [from_bytes(one[0]) for one in db.execute("SELECT input FROM steps ORDER BY id")]
            return None if found is None else from_bytes(found[0]), entries

    def forget_before(self, time: int) -> None:
        """Delete closed events, cleared alarms, refusals and lines of the journal from before a time."""
        with self._writing() as db:
            db.execute("DELETE FROM journal WHERE time < ?", (time,))
            db.execute("DELETE FROM events WHERE start < ? AND state = 'closed'", (time,))
            db.execute("DELETE FROM refusals WHERE start < ?", (time,))
            db.execute("DELETE FROM differences WHERE time < ?", (time,))
            db.execute("DELETE FROM alarms WHERE ended < ? AND state = ?", (time, CLEARED))

    def act(
        self, alarm_key: str, action: Action, person: str, note: str = "", until: int | None = None
    ) -> dict[str, Any]:
        """Take an action on an alarm; returns the alarm."""
        with self._writing() as db:
            alarm = self._alarm(db, alarm_key)
            if alarm is None:
                raise InputError(f"there is no alarm {alarm_key!r}")
            now = self._fact(db, "watermark") or alarm["changed"]
            new = act(alarm, action, person, note, now, self.alarm_settings, until)
            done = {"action": action, "person": new["person"], "note": note}
            self._alarm_changed(db, new, {**done, "at": datetime.now(UTC).isoformat(timespec="seconds")})
            return new

    def mark_sent(self, output: str, last_id: int) -> None:
        """Note the last line that an output has."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO outputs (name, last_id) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET last_id = ?",
                (output, last_id, last_id),
            )

    def signal(self, event: Event, kind: str) -> None:
        """Raise or end an alarm that is not of the engine: a source that is gone, drift."""
        with self._writing() as db:
            self._alarm_of(db, event, kind)

    def end_alarms(self, kind: str) -> None:
        """End what raised the alarms of a kind: nobody looks for it any more."""
        with self._writing() as db:
            self._end_alarms(db, kind)

    def _snapshot(self, db: sqlite3.Connection, state: Any) -> None:
        db.execute("DELETE FROM steps")
        db.execute("INSERT OR REPLACE INTO snapshot (id, state) VALUES (1, ?)", (to_bytes(state),))

    def _event(self, db: sqlite3.Connection, event: Event) -> None:
        body = {**asdict(event), "numbers": dict(event.numbers)}
        old = db.execute("SELECT state FROM events WHERE key = ?", (event.key,)).fetchone()
        if old is not None and old[0] == "closed":
            return  # it never changes again
        db.execute(
            "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)",
            (event.key, event.station, event.start, event.state, as_text(body)),
        )
        if old is None:
            self._record(db, "event", f"{event.key}:open", event.station, event.start, body)
        if event.state == "closed":
            self._record(db, "event", f"{event.key}:closed", event.station, event.end, body)
        self._alarm_of(db, event, "system" if event.station == SYSTEM else "event")

    def _alarm_of(self, db: sqlite3.Connection, event: Event, kind: str) -> None:
        rows = db.execute(
            f"SELECT body FROM alarms WHERE state IN {OPEN_STATES} "
            "UNION ALL SELECT body FROM alarms WHERE station = ? AND state = ? AND ended >= ?",
            (event.station, CLEARED, event.start),
        )
        alarm = open_for([json.loads(one[0]) for one in rows], event, kind)
        ended = db.execute(
            "SELECT max(ended) FROM alarms WHERE station = ? AND kind = ? AND state = ?",
            (event.station, kind, CLEARED),
        ).fetchone()[0]
        # An event that came and went within a step has been raised all the same.
        steps = [event] if event.state == "open" else [replace(event, state="open"), event]
        for one in steps if alarm is None else [event]:
            new = on_event(one, alarm, ended, self.alarm_settings, kind)
            if new is not None and new != alarm:
                self._alarm_changed(db, new, None if alarm is not None and alarm["n"] == new["n"] else {})
            alarm = new

    def _end_alarms(self, db: sqlite3.Connection, kind: str) -> None:
        for station, key in self.open_alarms(kind).items():
            now = self._fact(db, "watermark") or 0
            self._alarm_of(db, Event(key, station, now, now, now, 1, 0.0, 0.0, 0.0, "closed"), kind)

    def _pass_time(self, db: sqlite3.Connection, now: int) -> None:
        for (body,) in db.execute(f"SELECT body FROM alarms WHERE state IN {OPEN_STATES}").fetchall():
            alarm = json.loads(body)
            new = on_time(alarm, now, self.alarm_settings)
            if new != alarm:
                self._alarm_changed(db, new, {})

    def _alarm_changed(self, db: sqlite3.Connection, alarm: Alarm, done: Mapping[str, Any] | None) -> None:
        db.execute(
            "INSERT OR REPLACE INTO alarms VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                alarm["key"],
                alarm["station"],
                alarm["kind"],
                alarm["state"],
                alarm["raised"],
                alarm["end"],
                as_text(alarm),
            ),
        )
        if done is not None:
            key = f"{alarm['key']}:{alarm['n']}"
            self._record(db, "alarm", key, alarm["station"], alarm["changed"], {**alarm, **done})

    def _refusal(self, db: sqlite3.Connection, body: dict[str, Any], key: str) -> None:
        body = {**body, "key": key}
        db.execute(
            "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?)",
            (key, body["station"], body["start"], as_text(body)),
        )
        self._record(db, "refusal", key, body["station"], body["start"], body)

    def _drift(self, db: sqlite3.Connection, line: Mapping[str, Any]) -> None:
        name = "\x1f".join(str(line[part]) for part in ("station", "context", "name"))
        old = db.execute("SELECT body FROM drift WHERE name = ?", (name,)).fetchone()
        db.execute("INSERT OR REPLACE INTO drift VALUES (?, ?)", (name, as_text(line)))
        before = None if old is None else json.loads(old[0])["state"]
        if before != line["state"]:
            self._record(db, "drift", f"{name}:{line['time']}", line["station"], line["time"], line)
        if line["name"] == "" and (line["state"] == "drifting" or before == "drifting"):
            start, state = line["since"], "open" if line["state"] == "drifting" else "closed"
            key = event_key("drift", f"{line['station']} {line['context']}", start)
            event = Event(
                key, line["station"], start, line["time"], start, line["n"], 0.0, 0.0, 0.0, state,  # type: ignore[arg-type]
                numbers={"text": line["text"]},
            )  # fmt: skip
            self._alarm_of(db, event, "drift")

    def _differences(self, db: sqlite3.Connection, rows: ScoredRows) -> None:
        if rows.shadow is None:
            return
        for k in np.flatnonzero(rows.shadow != rows.flag).tolist():
            who = "model" if rows.flag[k] else "shadow"
            body = {"station": rows.station, "time": int(rows.time[k]), "flagged_by": who,
                    "p_s": float(rows.p_s[k]), "p_q": float(rows.p_q[k]), "score": float(rows.score[k])}  # fmt: skip
            db.execute(
                "INSERT OR REPLACE INTO differences VALUES (?, ?, ?)",
                (rows.station, body["time"], as_text(body)),
            )

    def _record(
        self, db: sqlite3.Connection, kind: str, key: str, station: str, time: int, body: Mapping[str, Any]
    ) -> None:
        db.execute(
            "INSERT OR IGNORE INTO journal (kind, key, station, time, body) VALUES (?, ?, ?, ?, ?)",
            (kind, key, station, time, as_text(body)),
        )

    def _alarm(self, db: sqlite3.Connection, key: str) -> Alarm | None:
        found = db.execute("SELECT body FROM alarms WHERE key = ?", (key,)).fetchone()
        return None if found is None else json.loads(found[0])
