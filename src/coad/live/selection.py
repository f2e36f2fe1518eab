"""Which rows count: health gates, which refuse pairs with a reason, and triggers, which say which pairs to score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.data.triggers import relative_change
from coad.live.ordering import NEVER, Rows
from coad.live.settings import Nanoseconds

__all__ = ["Gate", "Gating", "Trigger", "Triggering"]


@dataclass(frozen=True)
class Gate:
    """Pairs are refused while a column is outside its bounds or has no value, and for ``hold`` nanoseconds after."""

    column: str
    below: float | None = None
    above: float | None = None
    hold: Nanoseconds = 0
    unit: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """The reason in words.

        >>> Gate("charge", below=30, unit="pC").text, Gate("loop", above=0.5, name="station feedback").text
        ('charge below 30 pC', 'station feedback')
        """
        bounds = [f"below {self.below:g}"] if self.below is not None else []
        bounds += [f"above {self.above:g}"] if self.above is not None else []
        return self.name or f"{self.column} {' or '.join(bounds)} {self.unit}".strip()

    def refuses(self, values: NDArray[Any]) -> BoolArray:
        """Which values are not acceptable."""
        bad: BoolArray = ~np.isfinite(values)
        if self.below is not None:
            bad |= values < self.below
        if self.above is not None:
            bad |= values > self.above
        return bad


@dataclass
class Gating:
    """Several gates, and when each last refused."""

    gates: tuple[Gate, ...]
    last: list[int] = field(default_factory=list)

    def codes(self, rows: Rows) -> IntArray:
        """For each row 0, or the number (from 1) of the first gate that refuses it.

        >>> rows = Rows(np.arange(4) * 10, {"charge": np.array([50.0, 20, 50, 50])})
        >>> Gating((Gate("charge", below=30, hold=10),)).codes(rows)
        array([0, 1, 1, 0])
        """
        codes = np.zeros(len(rows), dtype=np.int64)
        self.last = self.last or [NEVER] * len(self.gates)
        for place, gate in reversed(list(enumerate(self.gates))):
            bad = gate.refuses(rows.columns[gate.column])
            last = np.maximum(self.last[place], np.maximum.accumulate(np.where(bad, rows.time, NEVER)))
            codes[bad | (rows.time - last <= gate.hold)] = place + 1
            self.last[place] = int(last[-1]) if len(last) else self.last[place]
        return codes


@dataclass(frozen=True)
class Trigger:
    """Which rows make the windows that hold them worth scoring.

    Parameters
    ----------
    kind
        ``"relative change"``: a step from the row before by more than the fraction ``limit``. ``"robust deviation"``: more
        than ``limit`` robust standard deviations from the median of the block of ``over`` rows before.
    columns
        The columns to look at.
    holdoff
        After a trigger, others are ignored for so many nanoseconds.
    """

    kind: Literal["relative change", "robust deviation"]
    columns: tuple[str, ...]
    limit: float
    over: int = 1000
    holdoff: Nanoseconds = 0


@dataclass
class Triggering:
    """A trigger and what it remembers: the row before, the block before, the last trigger."""

    trigger: Trigger
    before: FloatArray | None = None
    block: FloatArray | None = None  # rows of the block that is not complete yet
    centre: FloatArray | None = None
    scale: FloatArray | None = None
    last: int = NEVER

    def flags(self, rows: Rows) -> BoolArray:
        """Which rows trigger; it does not matter in which pieces the rows come.

        >>> rows = Rows(np.arange(3), {"a": np.array([1.0, 1.001, 1.2])})
        >>> Triggering(Trigger("relative change", ("a",), 0.005)).flags(rows)
        array([False, False,  True])
        """
        values = np.stack([rows.columns[name] for name in self.trigger.columns], axis=1).astype(np.float64)
        if not len(values):
            return np.zeros(0, dtype=np.bool_)
        found = self._changes(values) if self.trigger.kind == "relative change" else self._deviations(values)
        return self._held_off(found, rows.time)

    def _changes(self, values: FloatArray) -> BoolArray:
        before = values[:1] if self.before is None else self.before
        self.before = values[-1:].copy()
        return relative_change(np.concatenate([before, values]), self.trigger.limit)[1:]

    def _deviations(self, values: FloatArray) -> BoolArray:
        found = np.zeros(len(values), dtype=np.bool_)
        held = np.empty((0, values.shape[1])) if self.block is None else self.block
        start = 0
        while start < len(values):
            part = values[start : start + self.trigger.over - len(held)]
            if self.centre is not None and self.scale is not None:
                far = np.abs(part - self.centre) > self.trigger.limit * self.scale
                found[start : start + len(part)] = far.any(axis=1)
            held, start = np.concatenate([held, part]), start + len(part)
            if len(held) == self.trigger.over:
                self.centre = np.median(held, axis=0)
                distance = np.abs(held - self.centre)
                # As robust_z: 1.4826 MAD, or 1.2533 mean deviations where more than half of the values are equal.
                scale = 1.4826 * np.median(distance, axis=0)
                self.scale = np.where(scale > 0, scale, 1.2533 * distance.mean(axis=0))
                held = held[:0]
        self.block = held
        return found

    def _held_off(self, found: BoolArray, time: NDArray[np.int64]) -> BoolArray:
        if not self.trigger.holdoff:
            return found
        kept = np.zeros_like(found)
        places = np.flatnonzero(found)
        while len(places):
            places = places[np.searchsorted(time[places], self.last + self.trigger.holdoff) :]
            if len(places):
                kept[places[0]], self.last = True, int(time[places[0]])
        return kept
