"""What a watch is doing now, for a page: the state of each station and the last rows of both inputs."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.live.alarms import OPEN_STATES
from coad.live.values import Chunk, ScoredRows, Step

if TYPE_CHECKING:
    from coad.live.watcher import Watcher

__all__ = ["Status"]

#: Rows of each stream that are kept to be drawn.
_ROWS = 1000
WITNESS = "witness"


class Status:
    """Kept by the watcher's thread, read by others."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._lock = threading.Lock()
        self._rows: dict[str, deque[Chunk]] = {}
        self._scored: dict[str, ScoredRows] = {}
        self._came = time.time()
        self.state = "starting"
        self.trouble = self.model_error = ""

    def saw(self, chunks: list[Chunk], step: Step) -> None:
        """Note what came and what was scored."""
        with self._lock:
            for chunk in chunks:
                held = self._rows.setdefault(chunk.stream, deque())
                held.append(chunk)
                while sum(map(len, held)) - len(held[0]) >= _ROWS:
                    held.popleft()
                self._came = time.time()
            for rows in step.scored:
                self._scored[rows.station] = rows

    def shown(self, stations: Sequence[str] | None) -> Mapping[str, Any]:
        """Plain values for the page."""
        watcher = self._watcher
        engine, store = watcher.engine, watcher.store
        alarms = {
            one["station"]: state
            for state in OPEN_STATES
            for one in store.alarms(state)
            if one["kind"] in ("event", "system")
        }
        connected = watcher.source.connected()
        newest = engine.newest
        model = next(iter(engine.models.values()))
        tiles = {}
        with self._lock:
            for name, station in engine.stations.items():
                behind = newest - station.samples.newest > engine.settings.stale
                state = "alarm" if name in alarms else "stale" if behind else "quiet"
                state = "shelved" if alarms.get(name) == "shelved" else state
                tiles[name] = {
                    "state": "disconnected" if not connected.get(name, True) else state,
                    "time": station.samples.newest if station.samples.newest > 0 else None,
                    **self._last(name),
                }
            waves = {
                name: self._waves(name, model.layout) for name in stations or () if name in engine.stations
            }
        return {
            "time": engine.watermark if engine.watermark > 0 else None,
            "lag_s": round(time.time() - self._came, 3),
            "model": str(watcher.folder),
            "digest": model.digest,
            "rule": model.detector.rule_.words(),
            "status": self.state,
            "trouble": self.trouble or self.model_error,
            "outputs": {one.output.name: one.shown() for one in watcher.deliveries},
            "source": {"counters": dict(watcher.source.counters()), "connected": dict(connected)},
            "stations": tiles,
            "waves": waves,
        }

    def _last(self, name: str) -> dict[str, Any]:
        rows = self._scored.get(name)
        if rows is None:
            return {"p_s": None, "p_q": None, "score": None}
        return {part: float(getattr(rows, part)[-1]) for part in ("p_s", "p_q", "score")}

    def _waves(self, name: str, layout: Any) -> dict[str, Any]:
        own = self._rows.get(name, deque())
        other = self._rows.get(WITNESS, own)
        time_s, s = _joined(own, layout.s)
        time_q, q = _joined(other, layout.q)
        return {"time": time_s, "s": s, "time_q": time_q, "q": q}


def _joined(chunks: deque[Chunk], names: Any) -> tuple[list[int], dict[str, list[float | None]]]:
    """The last rows in order of time, as lists that JSON can hold."""
    if not chunks:
        return [], {name: [] for name in names}
    time = np.concatenate([one.time for one in chunks])
    order = np.argsort(time, kind="stable")[-_ROWS:]
    found = {}
    for name in names:
        parts = [np.asarray(one.columns.get(name, np.full(len(one), np.nan)), dtype=float) for one in chunks]
        parts = [one if one.ndim == 1 else one.reshape(len(one), -1).mean(axis=1) for one in parts]
        values = np.concatenate(parts)[order]
        found[name] = [float(x) if np.isfinite(x) else None for x in values]
    return time[order].tolist(), found
