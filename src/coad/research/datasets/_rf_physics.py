"""Shapes of RF station events and the response of the beam; see :mod:`coad.research.datasets.rf_station`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from coad._typing import BoolArray, FloatArray, IntArray

#: Kinds of events of an RF station.
EVENT_KINDS = ("dip", "step", "trip", "drift", "flicker")

N_MONITORS, BEAM_POINTS, BEAM_RATE = 7, 1000, 120.0
#: Dispersion of each monitor in metres, in the bending plane; a fiftieth of it leaks into the other.
DISPERSION = np.array([0.10, 0.22, -0.31, 0.42, -0.18, 0.36, -0.26])
COUPLING = 0.02
#: The fraction of the beam's energy contributed by one station: about 200 MeV of 14 GeV.
STATION_SHARE = 0.0143
#: Time constant of the energy feedback, and the time before the window that is simulated with it, in seconds.
FEEDBACK_SECONDS, LEAD_SECONDS = 6.0, 4.0
ENERGY_JITTER, SLOW_JITTER = 0.7e-4, 0.3e-4
ORBIT_JITTER, MONITOR_NOISE = 0.015, 0.010  # mm
#: Betatron phase at each monitor: shot-to-shot orbit jitter moves them by its sine and cosine.
_PHASE = np.array([0.3, 1.5, 2.4, 3.7, 4.4, 5.6, 6.9])


@dataclass(frozen=True)
class Change:
    """One change of amplitude or energy per row; rows whose ``size`` is 0 have none.

    ``onset`` and ``duration`` are in seconds; ``phase`` in [0, 1) sets the random part of a shape.
    """

    kind: IntArray
    size: FloatArray
    onset: FloatArray
    duration: FloatArray
    phase: FloatArray

    def rows(self, index: slice | NDArray[np.int64] | BoolArray) -> Change:
        """Select the changes of some rows."""
        return Change(
            *(getattr(self, name)[index] for name in ("kind", "size", "onset", "duration", "phase"))
        )

    def where(self, keep: BoolArray) -> Change:
        """Keep the changes where ``keep`` is true, and set the others to size 0."""
        return replace(self, size=np.where(keep, self.size, 0.0))

    @property
    def end(self) -> FloatArray:
        """The time at which the amplitude has recovered; infinite for permanent changes."""
        stays = np.isin(self.kind, [EVENT_KINDS.index(name) for name in ("step", "trip", "drift")])
        return np.where(stays, np.inf, self.onset + self.duration)

    def at(self, time: FloatArray) -> FloatArray:
        """Evaluate the changes at the times (rows, points)."""
        out = np.zeros(time.shape)
        for number, name in enumerate(EVENT_KINDS):
            mine = np.flatnonzero((self.kind == number) & (self.size != 0))
            if len(mine):
                part = self.rows(mine)
                since = time[mine] - part.onset[:, None]
                shape = _SHAPES[name](since, part.duration[:, None], part.phase[:, None])
                out[mine] = part.size[:, None] * shape
        return out


def random_change(n: int, rng: np.random.Generator) -> Change:
    """Draw one change per row, all kinds equally often: size in per cent, onset in [−6, −1.5] s."""
    kind = rng.integers(0, len(EVENT_KINDS), n)
    low, high, shortest, longest, upward = (
        np.array([_DRAW[name][i] for name in EVENT_KINDS])[kind] for i in range(5)
    )
    size = np.exp(rng.uniform(np.log(low), np.log(high)))
    size *= np.where(rng.random(n) < upward, 1.0, -1.0)
    duration = rng.uniform(shortest, longest)
    onset = rng.uniform(-6.0, -1.5, n)
    # Slow changes start before the beam's window and last to the end of the station's window.
    slow = np.isin(kind, [EVENT_KINDS.index("drift"), EVENT_KINDS.index("flicker")])
    return Change(kind, size, np.where(slow, -duration, onset), duration, rng.random(n))


#: Smallest and largest size (per cent), shortest and longest duration (s), and probability of an increase.
#: Breakdowns and missing pulses (dip, trip, flicker) only lower the amplitude; changes of its level (step, drift:
#: regulation, set points, temperature) go either way.
_DRAW: dict[str, tuple[float, float, float, float, float]] = {
    "dip": (1.2, 6.0, 1.0, 3.0, 0.0),
    "step": (1.2, 6.0, 1.0, 1.0, 0.5),
    "trip": (6.0, 15.0, 3.0, 6.0, 0.0),
    "drift": (2.5, 8.0, 12.0, 30.0, 0.5),
    "flicker": (1.2, 6.0, 6.0, 25.0, 0.0),
}


def _dip(since: FloatArray, duration: FloatArray, phase: FloatArray) -> FloatArray:
    return ((since >= 0) & (since < duration)).astype(np.float64)


def _step(since: FloatArray, duration: FloatArray, phase: FloatArray) -> FloatArray:
    return (since >= 0).astype(np.float64)


def _trip(since: FloatArray, duration: FloatArray, phase: FloatArray) -> FloatArray:
    # A sudden drop and an exponential recovery, as the modulator is ramped up again.
    return np.where(since >= 0, np.exp(-np.maximum(since, 0) / duration), 0.0)


def _drift(since: FloatArray, duration: FloatArray, phase: FloatArray) -> FloatArray:
    return np.clip(since / duration, 0.0, 1.0)


def _flicker(since: FloatArray, duration: FloatArray, phase: FloatArray) -> FloatArray:
    # Switches between two levels; two incommensurable frequencies keep it from being periodic.
    rate = 0.7 + 1.3 * phase
    on = np.sin(2 * np.pi * rate * since) + np.sin(2 * np.pi * (1.618 * rate * since + phase)) > 0
    return np.where((since >= 0) & (since < duration), on, 0.0)


_SHAPES = {"dip": _dip, "step": _step, "trip": _trip, "drift": _drift, "flicker": _flicker}


def beam_positions(
    change: Sequence[Change],
    offset: FloatArray,
    jitter: FloatArray,
    kick: FloatArray,
    kick_time: FloatArray,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Simulate beam positions.

    Parameters
    ----------
    change
        Energy changes, in per cent of a station's amplitude.
    offset
        Delay of the beam's clock in seconds, per row.
    jitter
        Factor of the energy jitter, per row.
    kick, kick_time
        Size in mm of an orbit kick (rows, 2), its sine and cosine part, and its time.
    rng
        Source of randomness.

    Returns
    -------
    ndarray
        Positions in mm, (rows, 14, 1000): x and y of each monitor in turn.
    """
    n = len(offset)
    lead = round(LEAD_SECONDS * BEAM_RATE)
    clock = (np.arange(-lead, BEAM_POINTS) - (BEAM_POINTS - 1)) / BEAM_RATE
    time = clock[None, :] + offset[:, None]
    energy = sum((one.at(time) for one in change), np.zeros((n, len(clock)))) * (0.01 * STATION_SHARE)
    keep = np.exp(-1.0 / (FEEDBACK_SECONDS * BEAM_RATE))
    energy = lfilter([keep, -keep], [1.0, -keep], energy, axis=1)[:, lead:]
    energy += rng.standard_normal((n, BEAM_POINTS)) * (ENERGY_JITTER * jitter[:, None])
    slow = rng.standard_normal((n, BEAM_POINTS)) * (SLOW_JITTER * np.sqrt(1 - 0.99**2))
    energy += lfilter([1.0], [1.0, -0.99], slow, axis=1)
    after = (clock[lead:][None, :] >= kick_time[:, None]).astype(np.float32)
    out = np.empty((n, 2 * N_MONITORS, BEAM_POINTS), dtype=np.float32)
    for plane, leak in ((0, 1.0), (1, COUPLING)):
        # Orbit: two modes that all monitors of the plane share.
        modes = rng.standard_normal((2, n, BEAM_POINTS), dtype=np.float32) * np.float32(ORBIT_JITTER)
        if plane == 0:
            modes += kick.T[:, :, None].astype(np.float32) * after
        for k in range(N_MONITORS):
            x = out[:, 2 * k + plane]
            rng.standard_normal(dtype=np.float32, out=(noise := np.empty_like(modes[0])))
            np.multiply(noise, np.float32(MONITOR_NOISE), out=x)
            x += (1000.0 * leak * DISPERSION[k] * energy).astype(np.float32)
            x += np.float32(np.sin(_PHASE[k])) * modes[0] + np.float32(np.cos(_PHASE[k])) * modes[1]
    return out
