"""A **simulated** accelerator: windows of one RF station, and of the beam that it accelerates.

The data of the paper's accelerator experiment are not public. This module simulates windows of the
same shapes, about as hard; nothing here was measured on a machine. :func:`load_arrays` reads real
arrays of the same shape.

The physics
-----------
*Station.* The amplitude of one station is read back about every 5 s, in per cent of its set point: the
last 50 readings (some 250 s) are ``s``. A change of more than 0.5 % is posted when it happens, and makes
the trigger that selects the window, so every window holds one near its end. Readings carry noise (0.12 %),
a slow wander, and steps of 0.05 % (quantisation).

*Beam.* Seven position monitors stand where the beam is dispersed: a relative change δ of its energy moves
it by η δ, with η from −0.31 m to 0.42 m, in the bending plane x, and by a fiftieth of it in y. They are
read at 120 Hz; 1,000 readings of the 14 channels (8.3 s, in mm) are ``q``. A station gives 1.43 % of the
energy, so that 1 % of its amplitude is δ = 1.4e-4. An energy feedback forgets a change within 6 s.
Every shot jitters: in energy (7e-5 from shot to shot, varying by window, and slower parts), in orbit
(two modes that all monitors of a plane share), and in each monitor by itself (10 µm).

*Clocks.* The two are asynchronous: the beam's window ends within ±1 s of the station's last reading.

*Events* (label True, 20 % of the windows) change amplitude and beam at once: ``dip`` (1 to 3 s), ``step``
(stays), ``trip`` (falls by 6 to 15 % and is ramped up again), ``drift`` (over 12 to 30 s), ``flicker`` (between
two levels). Other sizes are graded from 1.2 % to 6 %, a drift's from 2.5 % to 8 %. Dips, trips and flickers
lose amplitude; steps and drifts go up as often as down.

*Confusers* have the same shapes and sizes, and are no events of this station: ``glitch`` (the readback
alone), ``other station`` (the beam alone), ``early`` (a beam anomaly in the first 1.2 s of its window, too
early to match; never beside another station's). What the readback and what the beam shows come independently of each other
and of events; both at once is an accident that nothing which judges each input by itself can tell from an event (in a third
of these the signs differ).

*Nuisances* are larger than events and harmless: earlier changes of amplitude (before the beam's window),
single wrong readings, orbit kicks, dropouts of a monitor. They too come independently.

How often nuisances come was set so that the data are about as hard as the paper's: supervised networks should
reach an F1 of 0.85 to 0.95, methods of one input 0.6 to 0.8 at their best thresholds. It was set with those methods
alone, on a simulation (seed 101) that no table uses, and not by what coincidence reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray, RandomState
from coad.data.pairs import Pairs
from coad.exceptions import InputError
from coad.research.datasets._rf_physics import (
    BEAM_POINTS,
    BEAM_RATE,
    DISPERSION,
    EVENT_KINDS,
    N_MONITORS,
    STATION_SHARE,
    Change,
    beam_positions,
    random_change,
)

__all__ = [
    "CONFUSER_KINDS",
    "EVENT_KINDS",
    "Q_NAMES",
    "S_NAMES",
    "RFStation",
    "load_arrays",
    "paper_transform",
    "simulate",
]

STATION_POINTS, STATION_SECONDS = 50, 5.0
S_NAMES = ("amplitude",)
Q_NAMES = tuple(f"monitor {k + 1} {plane}" for k in range(N_MONITORS) for plane in "xy")
#: What a window without an event may hold.
CONFUSER_KINDS = ("quiet", "glitch", "other station", "early", "glitch and other station", "glitch and early")

EVENT_RATE, GLITCH_RATE, OTHER_RATE, EARLY_RATE = 0.20, 0.15, 0.15, 0.10
HISTORY_RATE, SPIKE_RATE, KICK_RATE, DROPOUT_RATE = 0.15, 0.08, 0.10, 0.08
_READ_NOISE, _WANDER, _QUANTUM = 0.12, 0.03, 0.05  # per cent
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class RFStation:
    """Windows with what is known about each; all but ``s``, ``q`` and ``time`` is for judging only.

    ``kind`` is one of :data:`EVENT_KINDS` or :data:`CONFUSER_KINDS`. ``magnitude`` is the event's size
    in per cent of the amplitude (0 without one). ``span_s`` and ``span_q`` (n, 2) are the first point of
    the event and the one behind its last in each input, ``channels_q`` (n, 14) the channels that
    it moves visibly; without an event they are empty. ``time`` is the end of the window in seconds.
    """

    s: NDArray[np.float32]
    q: NDArray[np.float32]
    label: BoolArray
    kind: NDArray[np.str_]
    magnitude: FloatArray
    span_s: IntArray
    span_q: IntArray
    channels_q: BoolArray
    time: FloatArray
    source: str = "simulated RF station"

    def __len__(self) -> int:
        return len(self.s)

    @property
    def channels_s(self) -> BoolArray:
        """(n, 1): the one channel of s, where there is an event."""
        return self.label[:, None].copy()

    @property
    def pairs(self) -> Pairs:
        """The windows as :class:`~coad.data.pairs.Pairs`, with labels."""
        return Pairs(self.s, self.q, time=self.time, label=self.label, s_names=S_NAMES, q_names=Q_NAMES)


def simulate(n_windows: int = 4000, random_state: RandomState = None) -> RFStation:
    """Simulate triggered windows of an RF station and the beam; see the module for the physics.

    >>> data = simulate(200, random_state=0)
    >>> data.s.shape, data.q.shape, data.q.dtype
    ((200, 1, 50), (200, 14, 1000), dtype('float32'))
    >>> sorted(set(data.kind[data.label])) == sorted(EVENT_KINDS)
    True
    """
    if isinstance(n_windows, bool) or not isinstance(n_windows, (int, np.integer)) or n_windows < 1:
        raise InputError(f"n_windows must be a whole number of 1 or more, not {n_windows!r}")
    n = int(n_windows)
    rng = np.random.default_rng(random_state)
    label, glitched, foreign = (rng.random(n) < rate for rate in (EVENT_RATE, GLITCH_RATE, OTHER_RATE))
    early = (rng.random(n) < EARLY_RATE / (1 - OTHER_RATE)) & ~foreign
    event, glitch, other = (random_change(n, rng).where(rows) for rows in (label, glitched, foreign))
    offset = rng.uniform(-1.0, 1.0, n)
    soon = _early_change(offset, rng).where(early)
    s, read_at = _station(event, glitch, rng)
    q = _beam(event, [other, soon], offset, rng)
    return RFStation(
        s=s[:, None].astype(np.float32),
        q=q,
        label=label,
        kind=_kinds(label, event.kind, glitched, foreign, early),
        magnitude=np.abs(event.size),
        span_s=_span(read_at, event, label),
        span_q=_span(_beam_clock(offset), event, label),
        channels_q=_moved_channels(event.size, label),
        time=np.cumsum(300.0 + rng.exponential(600.0, n)),
    )


def paper_transform(
    s: NDArray[Any], q: NDArray[Any], random_state: RandomState = None, *, noise: float = 0.1, roll: int = 10
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The paper's transformations: normalise each channel, add noise, roll the beam, keep the last points.

    Each channel is brought to mean 0 and deviation 1 over all rows; ``noise`` N(0, 1) is added to it;
    each row of ``q`` is rolled by 0 to ``roll`` points; the last 50 points of s and 1,000 of q are kept.

    >>> data = simulate(60, random_state=0)
    >>> s, q = paper_transform(data.s, data.q, random_state=0)
    >>> q.shape, abs(float(q.std()) - 1) < 0.05
    ((60, 14, 1000), True)
    """
    rng = np.random.default_rng(random_state)
    out = []
    for x in (s, q):
        x = _windows(x, "s" if x is s else "q")
        spread = x.std(axis=(0, 2), keepdims=True)
        x = (x - x.mean(axis=(0, 2), keepdims=True)) / np.where(spread > 0, spread, np.float32(1.0))
        x += np.float32(noise) * rng.standard_normal(x.shape, dtype=np.float32)
        out.append(x)
    beam = out[1]
    places = (np.arange(beam.shape[2]) - rng.integers(0, roll + 1, (len(beam), 1))) % beam.shape[2]
    beam = np.take_along_axis(beam, places[:, None, :], axis=2)
    return out[0][:, :, -STATION_POINTS:], beam[:, :, -BEAM_POINTS:]


def load_arrays(path: str | Path) -> Pairs:
    """Real windows from an NPZ or HDF5 file: arrays ``s`` (n, 1, 50) and ``q`` (n, 14, 1000).

    Longer windows are cut to their last 50 and 1,000 points, as in the paper; (n, 50) is taken as one
    channel. Arrays ``label``, ``time``, ``context`` and ``group``, one value a row, are read if present.
    """
    from coad.data.arrays import array_batches, array_names

    file = Path(path)
    names = array_names(file)
    missing = [name for name in ("s", "q") if name not in names]
    if missing:
        raise InputError(f"{str(file)!r} has no array {' and '.join(missing)}; it holds {', '.join(names)}")
    more = [name for name in ("label", "time", "context", "group") if name in names]
    (_, arrays), *_ = [*array_batches(file, ["s", "q", *more])] or [(0, {})]
    if not arrays:
        raise InputError(f"{str(file)!r} holds no windows")
    s, q = _windows(arrays["s"], "s"), _windows(arrays["q"], "q")
    for name, x, channels, points in (("s", s, 1, STATION_POINTS), ("q", q, 2 * N_MONITORS, BEAM_POINTS)):
        if x.shape[1] != channels or x.shape[2] < points:
            raise InputError(
                f"{name} in {str(file)!r} has windows of shape {x.shape[1:]}; "
                f"wanted are {channels} channels of {points:,} points or more"
            )
    known: dict[str, Any] = {name: arrays[name] for name in more}
    return Pairs(
        np.ascontiguousarray(s[:, :, -STATION_POINTS:]),
        np.ascontiguousarray(q[:, :, -BEAM_POINTS:]),
        s_names=S_NAMES,
        q_names=Q_NAMES,
        **known,
    )


def _station(event: Change, glitch: Change, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The readings (n, 50) in per cent of the set point, and when each was taken."""
    n = len(event.size)
    read_at = (np.arange(STATION_POINTS) - (STATION_POINTS - 1)) * STATION_SECONDS
    read_at = read_at + rng.uniform(-0.4, 0.4, (n, STATION_POINTS))
    # A change is posted when it happens: the last reading but one falls into what is sudden.
    posted = np.where(event.size != 0, event.onset, glitch.onset)
    length = np.where(event.size != 0, event.duration, glitch.duration)
    sudden = ((event.size != 0) | (glitch.size != 0)) & (posted > -7.0)
    when = np.minimum(posted + rng.uniform(0.1, 0.8, n) * np.minimum(length, 1.0), -0.5)
    read_at[:, -2] = np.where(sudden, when, np.minimum(read_at[:, -2], -1.0))
    read_at.sort(axis=1)
    a = event.at(read_at) + glitch.at(read_at)
    a += rng.normal(0, _READ_NOISE, a.shape) + np.cumsum(rng.normal(0, _WANDER, a.shape), axis=1)
    row, place = np.arange(n), np.arange(STATION_POINTS)
    # The sensitive trigger: some reading near the end moved by 0.5 %, whatever the reason.
    a[row, rng.integers(40, STATION_POINTS, n)] += rng.uniform(0.5, 0.9, n) * rng.choice([-1.0, 1.0], n)
    # What happened before, and was over or settled when the beam's window began.
    begin = rng.integers(2, 40, n)
    end = np.where(rng.random(n) < 0.5, STATION_POINTS, begin + rng.integers(1, 6, n))
    history = np.exp(rng.uniform(np.log(1.0), np.log(12.0), n)) * rng.choice([-1.0, 1.0], n)
    history *= rng.random(n) < HISTORY_RATE
    a += history[:, None] * ((place >= begin[:, None]) & (place < end[:, None]))
    wrong = rng.uniform(3.0, 20.0, n) * rng.choice([-1.0, 1.0], n) * (rng.random(n) < SPIKE_RATE)
    a[row, rng.integers(0, 45, n)] += wrong
    return 100.0 + np.round(a / _QUANTUM) * _QUANTUM, read_at


def _beam(
    event: Change, confusers: list[Change], offset: FloatArray, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The positions, a block of rows at a time: the arrays in between are larger than the result."""
    n = len(offset)
    jitter = np.exp(rng.normal(0.0, 0.35, n))
    kick = rng.normal(0.0, 0.15, (n, 2)) * (rng.random(n) < KICK_RATE)[:, None]
    kick_time = rng.uniform(-8.3, -0.2, n)
    q = np.empty((n, 2 * N_MONITORS, BEAM_POINTS), dtype=np.float32)
    for start in range(0, n, _BLOCK):
        part = slice(start, start + _BLOCK)
        changes = [one.rows(part) for one in (event, *confusers)]
        q[part] = beam_positions(changes, offset[part], jitter[part], kick[part], kick_time[part], rng)
    monitor, first = rng.integers(0, N_MONITORS, n), rng.integers(0, BEAM_POINTS - 100, n)
    length, level = rng.integers(5, 100, n), rng.normal(0.0, 0.3, n)
    for row in np.flatnonzero(rng.random(n) < DROPOUT_RATE):
        # A dropout: both channels of a monitor hang at one value.
        pair = slice(2 * monitor[row], 2 * monitor[row] + 2)
        q[row, pair, first[row] : first[row] + length[row]] = level[row]
    return q


def _early_change(offset: FloatArray, rng: np.random.Generator) -> Change:
    """Dips of the beam that begin and end within the first 1.2 s of its window."""
    n = len(offset)
    change = random_change(n, rng)
    begin = offset - BEAM_POINTS / BEAM_RATE + rng.uniform(0.05, 0.6, n)
    kind = np.full(n, EVENT_KINDS.index("dip"))
    return Change(kind, change.size, begin, rng.uniform(0.2, 0.6, n), change.phase)


def _beam_clock(offset: FloatArray) -> FloatArray:
    return (np.arange(BEAM_POINTS) - (BEAM_POINTS - 1)) / BEAM_RATE + offset[:, None]


def _span(time: FloatArray, event: Change, label: BoolArray) -> IntArray:
    """First point of the event and the one behind its last, on a clock (n, points)."""
    inside = (time >= event.onset[:, None]) & (time < event.end[:, None]) & label[:, None]
    first = np.argmax(inside, axis=1)
    stop = inside.shape[1] - np.argmax(inside[:, ::-1], axis=1)
    some = inside.any(axis=1)
    return np.stack([np.where(some, first, 0), np.where(some, stop, 0)], axis=1).astype(np.int64)


def _moved_channels(size: FloatArray, label: BoolArray) -> BoolArray:
    """The x channels: those of y move by a fiftieth, which is lost in the noise."""
    moved = np.zeros((len(size), 2 * N_MONITORS), dtype=bool)
    shift = np.abs(size)[:, None] * (10.0 * STATION_SHARE) * np.abs(DISPERSION)  # mm
    moved[:, ::2] = (shift > 0.005) & label[:, None]
    return moved


def _kinds(
    label: BoolArray, event: IntArray, glitched: BoolArray, foreign: BoolArray, early: BoolArray
) -> NDArray[np.str_]:
    width = max(map(len, CONFUSER_KINDS))
    kind = np.full(len(label), "quiet", dtype=f"<U{width}")
    for name, rows in (
        ("glitch", glitched & ~foreign & ~early),
        ("other station", foreign & ~glitched),
        ("early", early & ~glitched),
        ("glitch and other station", glitched & foreign),
        ("glitch and early", glitched & early),
    ):
        kind[rows] = name
    kind[label] = np.array(EVENT_KINDS)[event[label]]
    return kind


def _windows(x: Any, name: str) -> NDArray[np.float32]:
    array = np.asarray(x)
    if array.ndim == 2:
        array = array[:, None, :]
    if array.ndim != 3 or array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be numbers of shape (n, channels, points), not {array.shape}")
    return array.astype(np.float32)
