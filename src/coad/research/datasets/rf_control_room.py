"""A **simulated** control room: many RF stations and one beam, sample by sample at 120 Hz, as a source of ``coad watch``.

The physics is that of :mod:`coad.research.datasets.rf_station`: dispersion, the share of a station in the beam's energy, the
energy feedback, jitter and noise. Here amplitudes are read at the rate of the beam, and changes recover by themselves (dips,
trips, flicker), so that the room can run for days.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.signal import lfilter

from coad._typing import FloatArray, RandomState
from coad.live.protocols import Wanted
from coad.live.values import Chunk
from coad.research.datasets._rf_physics import (
    BEAM_RATE,
    COUPLING,
    DISPERSION,
    ENERGY_JITTER,
    FEEDBACK_SECONDS,
    MONITOR_NOISE,
    N_MONITORS,
    ORBIT_JITTER,
    STATION_SHARE,
)

__all__ = ["BEAM_NAMES", "ControlRoom", "ControlRoomSource", "station_names"]

BEAM_NAMES = (*(f"x{k + 1}" for k in range(N_MONITORS)), "y4")
#: Of a station's amplitude, in per cent: noise of a reading, spread and time constant (s) of the slow drift.
_READ_NOISE, _WANDER, _WANDER_SECONDS = 0.12, 0.10, 300.0
_MONITOR_4 = 3
#: Kinds of changes: of a station and the beam; of the readback alone; of the beam alone (a kick of its orbit).
_EVENT, _GLITCH, _KICK = "event", "glitch", "kick"


@dataclass(frozen=True)
class _Change:
    """One change of a station's amplitude (per cent), or of the orbit (mm), from a start for a while."""

    kind: str
    station: int
    start: float
    seconds: float
    size: float
    shape: str

    def at(self, seconds: FloatArray) -> FloatArray:
        since = seconds - self.start
        on = (since >= 0) & (since < self.seconds)
        if self.shape == "trip":  # a drop, and an exponential recovery while the modulator is ramped up
            return self.size * np.where(on, np.exp(-3.0 * np.maximum(since, 0.0) / self.seconds), 0.0)
        if self.shape == "flicker":  # between two levels
            on &= np.sin(9.0 * since) + np.sin(14.6 * since) > 0
        return np.asarray(self.size * on, dtype=np.float64)


class ControlRoom:
    """The room as it goes on.

    Parameters
    ----------
    n_stations
        How many stations.
    every
        Mean seconds between two events, anywhere.
    random_state
        Seed.

    >>> room = ControlRoom(3, random_state=0)
    >>> amplitude, beam = room.step(120)
    >>> amplitude.shape, beam.shape, abs(float(amplitude.mean()) - 100) < 1
    ((3, 120), (8, 120), True)
    """

    def __init__(
        self, n_stations: int = 81, *, every: float = 20.0, random_state: RandomState = None
    ) -> None:
        self.n_stations, self.every = n_stations, every
        self._rng = np.random.default_rng(random_state)
        self._samples = 0
        self._level = self._rng.normal(0.0, _WANDER, n_stations)
        self._feedback = np.zeros(1)  # state of the filter
        self._changes: list[_Change] = []
        # The first event comes soon: somebody may be waiting for it.
        self._next = {_EVENT: min(4.0, every), _GLITCH: 0.6 * every, _KICK: 0.9 * every}

    def step(self, n: int) -> tuple[FloatArray, FloatArray]:
        """The next ``n`` samples: amplitudes (stations, n) in per cent, and the beam (8, n) in mm."""
        rng = self._rng
        seconds = (self._samples + np.arange(n)) / BEAM_RATE
        self._samples += n
        self._plan(float(seconds[-1]))
        keep = np.exp(-n / BEAM_RATE / _WANDER_SECONDS)
        self._level = keep * self._level + rng.normal(0.0, _WANDER * np.sqrt(1 - keep**2), self.n_stations)
        amplitude = 100.0 + self._level[:, None] + rng.normal(0.0, _READ_NOISE, (self.n_stations, n))
        energy, orbit = np.zeros(n), rng.normal(0.0, ORBIT_JITTER, (2, n))
        for one in self._changes:
            values = one.at(seconds)
            if one.kind == _KICK:
                orbit[0] += values
                continue
            amplitude[one.station] += values
            if one.kind == _EVENT:
                energy += values / 100.0 * STATION_SHARE
        # The feedback removes what lasts: a high-pass of first order.
        hold = np.exp(-1.0 / BEAM_RATE / FEEDBACK_SECONDS)
        energy, self._feedback = lfilter([1.0, -1.0], [1.0, -hold], energy, zi=self._feedback)
        energy += rng.normal(0.0, ENERGY_JITTER, n)
        place = np.arange(N_MONITORS)
        x = 1000.0 * DISPERSION[:, None] * energy + np.sin(place)[:, None] * orbit[0]
        y = COUPLING * x[_MONITOR_4] + orbit[1]
        beam = np.vstack([x, y]) + rng.normal(0.0, MONITOR_NOISE, (N_MONITORS + 1, n))
        return amplitude, beam

    def _plan(self, until: float) -> None:
        """Begin what is due, and forget what is over."""
        rng = self._rng
        self._changes = [one for one in self._changes if one.start + one.seconds > until - 1.0]
        for kind in self._next:
            while self._next[kind] <= until:
                shape = str(rng.choice(["dip", "trip", "flicker"]))
                seconds = rng.uniform(*{"dip": (1.0, 3.0), "trip": (3.0, 6.0), "flicker": (4.0, 8.0)}[shape])
                size = -float(np.exp(rng.uniform(np.log(2.0), np.log(8.0))))
                if kind == _KICK:
                    size, shape = 0.15 * float(rng.choice([-1.0, 1.0])), "dip"
                station = int(rng.integers(self.n_stations))
                self._changes.append(_Change(kind, station, self._next[kind], seconds, size, shape))
                self._next[kind] += self.every * (0.5 + rng.exponential(0.5))


def station_names(n: int) -> tuple[str, ...]:
    """K01, K02, …

    >>> station_names(3)
    ('K01', 'K02', 'K03')
    """
    return tuple(f"K{k + 1:02d}" for k in range(n))


@dataclass(frozen=True)
class ControlRoomSettings:
    """Keys of ``[source]`` whose kind is this class."""

    every: float = 20.0
    seed: int = 0
    block: int = 24  # samples of a chunk: 0.2 s


class ControlRoomSource:
    """The room in real time: a chunk of each station and of the witness five times a second."""

    Settings: ClassVar[type] = ControlRoomSettings

    def __init__(self, settings: ControlRoomSettings, wanted: Wanted) -> None:
        self.settings = settings
        self._stations = [name for name in wanted.columns if name != "witness"]
        self._streams = tuple(wanted.columns)
        self._room = ControlRoom(len(self._stations), every=settings.every, random_state=settings.seed)
        self._counts: Counter[str] = Counter()
        self._closed = False

    def chunks(self, position: Any = None) -> Iterator[Chunk | None]:
        """Samples as they come, for ever."""
        block, start, done = self.settings.block, time.time_ns(), 0
        while not self._closed:
            times = start + ((done + np.arange(block)) * 1e9 / BEAM_RATE).astype(np.int64)
            wait = (int(times[-1]) - time.time_ns()) / 1e9
            if wait > 0:
                time.sleep(min(wait, 0.2))
                if wait > 0.2:
                    yield None
                continue
            amplitude, beam = self._room.step(block)
            done += block
            self._counts["received"] += block * len(self._streams)
            for name, values in zip(self._stations, amplitude, strict=True):
                yield Chunk(name, times, {"amplitude": values})
            yield Chunk("witness", times, dict(zip(BEAM_NAMES, beam, strict=True)))

    def counters(self) -> Mapping[str, int]:
        """Samples so far."""
        return dict(self._counts)

    def connected(self) -> Mapping[str, bool]:
        """Always: nothing is connected to."""
        return dict.fromkeys(self._streams, True)

    def close(self) -> None:
        """End the room."""
        self._closed = True
