"""The tables of a watch's database."""

from __future__ import annotations

__all__ = ["TABLES", "VERSION"]

#: Changes whenever the tables do.
VERSION = 1
TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS steps (id INTEGER PRIMARY KEY AUTOINCREMENT, input BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE, station TEXT NOT NULL,
    time INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    key TEXT PRIMARY KEY, station TEXT NOT NULL, start INTEGER NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_by_start ON events (start);
CREATE TABLE IF NOT EXISTS alarms (
    key TEXT PRIMARY KEY, station TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, raised INTEGER NOT NULL,
    ended INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS alarms_by_state ON alarms (state);
CREATE INDEX IF NOT EXISTS alarms_by_source ON alarms (station, kind, ended);
CREATE TABLE IF NOT EXISTS refusals (
    key TEXT PRIMARY KEY, station TEXT NOT NULL, start INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS refusals_by_start ON refusals (start);
CREATE TABLE IF NOT EXISTS drift (name TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS differences (
    station TEXT NOT NULL, time INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (station, time)
);
CREATE TABLE IF NOT EXISTS outputs (name TEXT PRIMARY KEY, last_id INTEGER NOT NULL, error TEXT NOT NULL DEFAULT '');
"""
