"""What passes between the parts of live monitoring: samples in; scored pairs, refusals and events out.

Times are event times, stamped by the sources, in nanoseconds since 1970 (int64); models whose time column holds plain
numbers count these as seconds. Nothing here reads a clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray

__all__ = ["Chunk", "Event", "Refusal", "ScoredRows", "Step", "event_key"]

#: What became of an event in this step. A closed event never changes again.
EventState = Literal["open", "closed"]


@dataclass(frozen=True)
class Chunk:
    """Samples of one stream: rows of a table, or the readings of some of its columns.

    Parameters
    ----------
    stream
        Which stream: a station's name, ``"witness"`` for the q that all stations share, or ``""`` where one table has
        both inputs.
    time
        Time of each sample; samples may come late, twice or out of order.
    columns
        Values by column name, each of the length of ``time``; float64, NaN where a value is missing. Contexts may be text.
    position
        Where reading must go on after these samples, in the words of the source; None if the source cannot go back.
    """

    stream: str
    time: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    position: Any = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class ScoredRows:
    """Pairs of one station that were scored, in time order: the same values as ``coad score`` writes."""

    station: str
    time: NDArray[np.int64]
    first: IntArray  # number of the first and last sample of each pair, counted from the start of the watch
    last: IntArray
    p_s: FloatArray
    p_q: FloatArray
    score: FloatArray
    flag: BoolArray
    mode: IntArray | None = None
    context: NDArray[Any] | None = None
    inputs: Mapping[str, FloatArray] | None = None  # mean of each column over each pair, if drift is watched
    shadow: BoolArray | None = None  # what a second model flags, if there is one

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class Refusal:
    """A stretch of pairs that were not scored, and why.

    ``reason`` is a code such as ``"stale"``, ``"gate"``, ``"missing column"``, ``"missing value"``, ``"late"``, ``"gap"``
    or ``"overload"``; ``text`` says it to people with its numbers: "charge below 30 pC for 4.1 s".
    """

    station: str
    start: int
    end: int
    n_pairs: int
    reason: str
    text: str

    @property
    def key(self) -> str:
        """The same for the same refusal, also when it is found again after a restart."""
        return event_key("refusal", self.station, self.start, self.reason)


@dataclass(frozen=True)
class Event:
    """A run of flagged pairs of one station; while ``state`` is "open", later steps bring it again, grown.

    ``station`` is the one to blame, ``"unclear"`` where several are equally likely, or ``"system"`` where more stations
    than the configured number were flagged at once; ``stations`` are all that took part.
    """

    key: str
    station: str
    start: int
    end: int
    peak: int
    n_pairs: int
    p_s: float
    p_q: float
    score: float
    state: EventState
    mode: int | None = None
    stations: tuple[str, ...] = ()
    margin: float | None = None  # how far the blamed station's score is above the next one
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Step:
    """What the engine made of one chunk, or of the passing of time."""

    scored: tuple[ScoredRows, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    events: tuple[Event, ...] = ()
    watermark: int | None = None  # no sample before this time is waited for

    def __bool__(self) -> bool:
        return bool(self.scored or self.refusals or self.events)


def event_key(model: str, station: str, start: int, kind: str = "event") -> str:
    """A short name that is the same whenever the same model sees the same event.

    >>> event_key("a1b2", "K01", 10**18) == event_key("a1b2", "K01", 10**18)
    True
    >>> len(event_key("a1b2", "K01", 10**18))
    20
    """
    text = "\x1f".join((kind, model, station, str(int(start))))
    return hashlib.sha256(text.encode()).hexdigest()[:20]
