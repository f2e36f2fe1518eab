"""What sets a finding apart: the columns that differ most in each input, and the stretch of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray
from coad.data.pairs import Pairs
from coad.findings.features import InputFeatures

__all__ = ["Column", "Why", "channel_names", "sets_apart"]

#: Columns that are named in each input: more are not read.
_COLUMNS = 5
#: Rows of all rows that a finding is compared with.
_SAMPLE = 5000
#: Columns are named, and points of a window belong to the stretch, if they differ by at least this share of the largest
#: difference: a column that hardly differs does not set the finding apart.
_SHARE = 0.5


@dataclass(frozen=True)
class Column:
    """A column (or channel) and how far the median of the finding lies from that of all rows, in robust widths."""

    name: str
    deviation: float
    stretch: tuple[int, int] | None = None  #: first and last point of a window where it differs most

    def __str__(self) -> str:
        where = "" if self.stretch is None else f" at points {self.stretch[0]} to {self.stretch[1]}"
        return f"{self.name} {'high' if self.deviation > 0 else 'low'} ({self.deviation:+.1f} widths{where})"


@dataclass(frozen=True)
class Why:
    """The columns of s and of q that set a finding apart, the largest difference first."""

    s: tuple[Column, ...] = ()
    q: tuple[Column, ...] = ()

    def __str__(self) -> str:
        return "; ".join(
            f"{side}: {', '.join(map(str, own))}" for side, own in (("s", self.s), ("q", self.q)) if own
        )

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Why:
        """From plain values."""

        def columns(values: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
            return tuple(
                Column(
                    one["name"],
                    float(one["deviation"]),
                    None if one["stretch"] is None else tuple(one["stretch"]),
                )
                for one in values
            )

        return cls(columns(plain["s"]), columns(plain["q"]))


def sets_apart(
    rows: NDArray[Any],
    member: BoolArray,
    features: InputFeatures,
    context: NDArray[Any] | None,
    names: Sequence[str] | None,
) -> tuple[Column, ...]:
    """The columns in which the rows of a finding differ most from all rows, in their context.

    Parameters
    ----------
    rows
        All rows of one input.
    member
        Which of them belong to the finding.
    features
        Gives the scale of each column within its context.
    context
        The context of each row.
    names
        The names of the columns or channels, if they are known.

    Returns
    -------
    tuple of Column
    """
    own = np.flatnonzero(member)[:: max(1, int(member.sum()) // _SAMPLE)]
    if rows.ndim > 2:
        return _channels(rows, own, names)
    inside = None if context is None else context[own]
    deviation = np.median(features.deviations(rows[own], inside), axis=0)
    return _largest([Column(_name(names, i), float(value)) for i, value in enumerate(deviation)])


def channel_names(pairs: Pairs) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The names of the columns or channels of both inputs; None where they do not fit."""
    sides = ((pairs.s, pairs.s_names), (pairs.q, pairs.q_names))
    found = [names if len(names) == rows.shape[1] else None for rows, names in sides]
    return found[0], found[1]


def _channels(rows: NDArray[Any], own: NDArray[Any], names: Sequence[str] | None) -> tuple[Column, ...]:
    """The channels of windows (or images) that differ most, and where.

    A channel's shape may differ (its mean over the finding's windows), or its strength (its mean magnitude); the
    larger one counts.
    """
    some = rows[:: max(1, len(rows) // _SAMPLE)].reshape(
        len(rows[:: max(1, len(rows) // _SAMPLE)]), rows.shape[1], -1
    )
    mine = rows[own].reshape(len(own), rows.shape[1], -1).astype(np.float64)
    centre = some.mean(axis=(0, 2), dtype=np.float64)[None, :, None]
    found = []
    for every, these in ((some - centre, mine - centre), (np.abs(some - centre), np.abs(mine - centre))):
        width = np.where(every.std(axis=0) > 0, every.std(axis=0), 1.0)
        found.append((these.mean(0) - every.mean(0)) / width)
    columns = []
    for channel in range(rows.shape[1]):
        profile = max((one[channel] for one in found), key=lambda x: float(np.abs(x).max()))
        peak = int(np.abs(profile).argmax())
        far = np.abs(profile) >= _SHARE * abs(profile[peak])
        first, last = peak, peak
        while first > 0 and far[first - 1]:
            first -= 1
        while last + 1 < len(far) and far[last + 1]:
            last += 1
        # The places of an image's pixels in a row say nothing to a person.
        stretch = (first, last) if rows.ndim == 3 else None
        columns.append(Column(_name(names, channel), float(profile[peak]), stretch))
    return _largest(columns)


def _largest(columns: list[Column]) -> tuple[Column, ...]:
    """The columns that differ most, without those that hardly differ beside the first."""
    first = max((abs(one.deviation) for one in columns), default=0.0)
    kept = [one for one in columns if first > 0 and abs(one.deviation) >= _SHARE * first]
    return tuple(sorted(kept, key=lambda one: -abs(one.deviation))[:_COLUMNS])


def _name(names: Sequence[str] | None, number: int) -> str:
    return names[number] if names is not None and number < len(names) else f"column {number}"
