"""Stretches of pairs that were not scored: they grow while the reason lasts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.times import format_duration
from coad.live.values import Refusal

__all__ = ["Refusals"]


#: So many reasons at once can go on growing; there are fewer, unless each error has words of its own.
_OPEN = 50


@dataclass
class Refusals:
    """The refusals of one station.

    Parameters
    ----------
    station
        Its name.
    join
        Refusals of one reason with less than this between them (nanoseconds) are one.
    """

    station: str
    join: int
    open: dict[str, list[Any]] = field(default_factory=dict)  # reason and words → start, end, pairs
    changed: dict[str, Refusal] = field(default_factory=dict)

    def add(self, reason: str, words: str, time: NDArray[np.int64], n: int | None = None) -> None:
        """Note that pairs of these times were refused.

        >>> refused = Refusals("K01", 10**9)
        >>> refused.add("gate", "charge below 30 pC", np.array([0, 10**9, 4 * 10**9]))
        >>> [one.text for one in refused.take()]
        ['charge below 30 pC for 1s', 'charge below 30 pC']
        """
        if not len(time):
            return
        # Pairs far apart were refused at different times, though for the same reason.
        cuts = [0, *(np.flatnonzero(np.diff(time) > self.join) + 1).tolist(), len(time)]
        for begin, end in pairwise(cuts):
            first, last = int(time[begin]), int(time[end - 1])
            count = n if n is not None and len(cuts) == 2 else end - begin
            name = f"{reason}\x1f{words}"
            held = self.open.get(name)
            if held is not None and -self.join <= first - held[1] <= self.join:
                held[1], held[2] = max(held[1], last), held[2] + count  # the start is a part of the key
            else:
                held = self.open[name] = [first, last, count]
                if len(self.open) > _OPEN:
                    del self.open[next(iter(self.open))]
            lasting = held[1] - held[0]
            text = f"{words} for {format_duration(np.timedelta64(lasting, 'ns'))}" if lasting else words
            one = Refusal(self.station, held[0], held[1], held[2], reason, text)
            self.changed[one.key + words] = one

    def take(self) -> list[Refusal]:
        """The refusals that are new or have grown since the last call."""
        found, self.changed = list(self.changed.values()), {}
        return found
