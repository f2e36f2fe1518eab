"""A **simulated** accelerator: windows of one RF station, and of the beam that it accelerates.

The data of the paper's accelerator experiment are not public. This module simulates windows of the
same shapes and similar difficulty; nothing here was measured on a machine. :func:`load_arrays` reads real
arrays of the same shape.

The physics
-----------
*Station.* The amplitude of one station is read about every 5 s, in per cent of its set point: the
last 50 readings (about 250 s) are ``s``. A change of more than 0.5 % is recorded when it happens and triggers
the selection of the window, so every window contains one near its end. Readings have noise (0.12 %),
a slow drift, and steps of 0.05 % (quantisation).

*Beam.* Seven position monitors are placed where the beam has dispersion: a relative change δ of its energy
moves it by η δ, with η from −0.31 m to 0.42 m, in the bending plane x, and by a fiftieth of it in y. They are
read at 120 Hz; 1,000 readings of the 14 channels (8.3 s, in mm) are ``q``. A station contributes 1.43 % of the
energy, so 1 % of its amplitude is δ = 1.4e-4. An energy feedback removes a change with a time constant of 6 s.
Every shot has jitter: in energy (7e-5 from shot to shot, varying by window, and slower parts), in orbit
(two modes shared by all monitors of a plane), and in each monitor separately (10 µm).

*Clocks.* The two inputs are asynchronous: the beam's window ends within ±1 s of the station's last reading.

*Events* (label True, 20 % of the windows) change amplitude and beam at once: ``dip`` (1 to 3 s), ``step``
(permanent), ``trip`` (a drop of 6 to 15 % with recovery), ``drift`` (over 12 to 30 s), ``flicker`` (between
two levels). A drift has a size of 2.5 % to 8 %, dips, steps and flickers 1.2 % to 6 %. Dips, trips and flickers
lower the amplitude; steps and drifts rise as often as they fall.

*Confusers* have the same shapes and sizes but are not events of this station: ``glitch`` (the readback
alone), ``other station`` (the beam alone), ``early`` (a beam anomaly in the first 1.2 s of its window, too
early to match; never combined with ``other station``). Confusers of the readback and of the beam are independent of
each other and of events. If both occur in one window, a method that scores each input separately cannot distinguish
them from an event (in a third of these windows the signs differ).

*Nuisances* are larger than events but normal: earlier changes of amplitude (before the beam's window),
single wrong readings, orbit kicks, dropouts of a monitor. They are independent too.

The rates of nuisances were chosen so that the difficulty is similar to the paper's data: supervised networks should
reach an F1 of 0.85 to 0.95, methods of one input 0.6 to 0.8 at their best thresholds. They were chosen with those
methods alone, on a simulation (seed 101) that no table uses, and not by the F1 of coincident learning.
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
#: Kinds of windows without an event.
CONFUSER_KINDS = ("quiet", "glitch", "other station", "early", "glitch and other station", "glitch and early")

EVENT_RATE, GLITCH_RATE, OTHER_RATE, EARLY_RATE = 0.20, 0.15, 0.15, 0.10
HISTORY_RATE, SPIKE_RATE, KICK_RATE, DROPOUT_RATE = 0.15, 0.08, 0.10, 0.08
_READ_NOISE, _WANDER, _QUANTUM = 0.12, 0.03, 0.05  # per cent
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class RFStation:
    """Windows and their true properties; all but ``s``, ``q`` and ``time`` are for evaluation only.

    ``kind`` is one of :data:`EVENT_KINDS` or :data:`CONFUSER_KINDS`. ``magnitude`` is the event's size
    in per cent of the amplitude (0 without one). ``span_s`` and ``span_q`` (n, 2) are the first point of
    the event and the one after its last in each input, ``channels_q`` (n, 14) the channels that
    it moves by more than 5 µm; without an event they are empty. ``time`` is the end of the window in seconds.
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
    """Apply the paper's transformations: normalise each channel, add noise, roll the beam, keep the last points.

    Each channel is standardised over all rows; ``noise`` times N(0, 1) is added to it;
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
    """Load real windows from an NPZ or HDF5 file: arrays ``s`` (n, 1, 50) and ``q`` (n, 14, 1000).

    Longer windows are cut to their last 50 and 1,000 points, as in the paper; (n, 50) is taken as one
    channel. Arrays ``label``, ``time``, ``context`` and ``group``, one value per row, are read if present.
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
                f"expected are {channels} channels of {points:,} points or more"
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
    # A sudden change is recorded when it happens: the last reading but one lies within it.
    posted = np.where(event.size != 0, event.onset, glitch.onset)
    length = np.where(event.size != 0, event.duration, glitch.duration)
    sudden = ((event.size != 0) | (glitch.size != 0)) & (posted > -7.0)
    when = np.minimum(posted + rng.uniform(0.1, 0.8, n) * np.minimum(length, 1.0), -0.5)
    read_at[:, -2] = np.where(sudden, when, np.minimum(read_at[:, -2], -1.0))
    read_at.sort(axis=1)
    a = event.at(read_at) + glitch.at(read_at)
    a += rng.normal(0, _READ_NOISE, a.shape) + np.cumsum(rng.normal(0, _WANDER, a.shape), axis=1)
    row, place = np.arange(n), np.arange(STATION_POINTS)
    # The trigger is sensitive: in every window some reading near the end changed by at least 0.5 %.
    a[row, rng.integers(40, STATION_POINTS, n)] += rng.uniform(0.5, 0.9, n) * rng.choice([-1.0, 1.0], n)
    # Earlier changes, over or settled before the beam's window starts.
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
    """Beam positions, computed in blocks of rows because intermediate arrays are larger than the result."""
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
        # A dropout: both channels of a monitor stay at one value.
        pair = slice(2 * monitor[row], 2 * monitor[row] + 2)
        q[row, pair, first[row] : first[row] + length[row]] = level[row]
    return q


def _early_change(offset: FloatArray, rng: np.random.Generator) -> Change:
    """Dips of the beam that start and end within the first 1.2 s of its window."""
    n = len(offset)
    change = random_change(n, rng)
    begin = offset - BEAM_POINTS / BEAM_RATE + rng.uniform(0.05, 0.6, n)
    kind = np.full(n, EVENT_KINDS.index("dip"))
    return Change(kind, change.size, begin, rng.uniform(0.2, 0.6, n), change.phase)


def _beam_clock(offset: FloatArray) -> FloatArray:
    return (np.arange(BEAM_POINTS) - (BEAM_POINTS - 1)) / BEAM_RATE + offset[:, None]


def _span(time: FloatArray, event: Change, label: BoolArray) -> IntArray:
    """First point of the event and the one after its last, for times (n, points)."""
    inside = (time >= event.onset[:, None]) & (time < event.end[:, None]) & label[:, None]
    first = np.argmax(inside, axis=1)
    stop = inside.shape[1] - np.argmax(inside[:, ::-1], axis=1)
    some = inside.any(axis=1)
    return np.stack([np.where(some, first, 0), np.where(some, stop, 0)], axis=1).astype(np.int64)


def _moved_channels(size: FloatArray, label: BoolArray) -> BoolArray:
    """The x channels moved by more than 5 µm; y moves by a fiftieth, which is below the noise."""
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
