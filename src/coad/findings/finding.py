"""One finding, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.core.validation import LEVEL
from coad.exceptions import InputError
from coad.findings.why import Why

__all__ = ["DECISIONS", "REASONS", "Decision", "Finding", "FindingTable"]

Decision = Literal["event", "normal", "ignore"]
DECISIONS: Final = ("event", "normal", "ignore")

#: Why a finding is not flagged by default, by code: the only place with these words.
REASONS: Final = {
    "common": "common: {share:.0%} of the rows, {max_rare:.0%} at most count as rare",
    "not odd": "not odd in {where}",
    "chance": "chance explains as much",
    "all chance": "chance explains as much as all odd findings together (p = {p_value:.2g})",
    "unlike": "unlike the events",
    "correlated": "inputs as correlated as these show as much without events (p = {p_value:.2g})",
}


@dataclass(frozen=True, eq=False)
class Finding:
    """Rows that stand out in both inputs at once, and the evidence for it.

    Attributes
    ----------
    number
        Its number: its place in the order of the fit, from 1. Numbers do not change when findings are decided.
    lens
        How it was found; if several lenses found it, the first one decides which rows belong to it.
    candidate
        Its number in that lens.
    rows
        The rows of the fit that belong to it.
    n_rows, share
        Their number, and as a fraction of all rows.
    odd_s, odd_q
        The mean percentile of its rows by distance from the bulk, in each input alone: 1 is farthest.
    odd_both
        The mean of the smaller one of both percentiles of each row.
    precision_hat, interval
        The share of its rows that chance does not explain ("beyond chance"), on rows that it was not fitted on.
    p_value
        How often other pairings of the inputs show as much, corrected for the number of findings (Holm).
    stability
        The share of it that comes back when it is looked for without a part of the rows.
    score
        What findings are ordered by.
    flagged
        Whether its rows are flagged: by default, or because a person decided so.
    reason, numbers
        Why it is not flagged by default, as a code with its numbers; empty if it is.
    correlation, correlation_p_value
        For findings that are rare and odd in both: the correlation of the inputs along the directions to its rows, and how
        often so correlated inputs without events have as many rows far out in both; None for others.
    decision
        What a person decided; None if nobody did.
    like_events
        How much its rows resemble the events that a person named, rather than the normal rows: the mean over its rows of a
        probability; None before an event is named (:mod:`coad.findings.learning`).
    n_flagged
        How many of its rows are flagged.
    exemplars
        Typical rows of it.
    why
        What sets it apart, in both inputs.
    first_seen, last_seen
        The times of its first and last row, if there are times.
    """

    number: int
    lens: tuple[str, ...]
    candidate: int
    rows: IntArray = field(repr=False)
    n_rows: int
    share: float
    odd_s: float
    odd_q: float
    odd_both: float
    precision_hat: float
    interval: tuple[float, float]
    n_joint: float
    p_value: float
    stability: float
    score: float
    flagged_by_default: bool
    reason: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    correlation: float | None = None
    correlation_p_value: float | None = None
    decision: Decision | None = None
    like_events: float | None = None
    n_flagged: int = 0
    exemplars: tuple[int, ...] = ()
    why: Why = field(default_factory=Why)
    first_seen: str | None = None
    last_seen: str | None = None

    @property
    def flagged(self) -> bool:
        """Whether it is flagged: as a person decided, else if most of its rows are like the events, else by default."""
        if self.decision is not None:
            return self.decision == "event"
        return self.flagged_by_default if self.like_events is None else 2 * self.n_flagged > self.n_rows

    @property
    def worth(self) -> float:
        """What the list is ordered by: its score; half of it if it is wholly unlike the events that are named."""
        return self.score if self.like_events is None else self.score * (1 + self.like_events) / 2

    @property
    def only_correlated(self) -> bool:
        """Whether inputs that are as correlated as these show as much without any event."""
        return self.correlation_p_value is not None and self.correlation_p_value > LEVEL

    @property
    def verdict(self) -> str:
        """Whether it is flagged, and why not, in words."""
        if self.decision == "ignore":
            return "no: ignored"
        some = 0 < self.n_flagged < self.n_rows and self.like_events is not None
        rows = f" ({self.n_flagged:,} of its {self.n_rows:,} rows are)" if some else ""
        if self.decision is not None:
            return "yes: decided" if self.decision == "event" else f"no: decided normal{rows}"
        if self.flagged and not self.flagged_by_default:
            return f"yes: like the events{rows}"
        if self.flagged:
            return f"yes{', though correlated inputs show as much' if self.only_correlated else ''}{rows}"
        if self.flagged_by_default:
            return f"no: {REASONS['unlike']}{rows}"
        return f"no: {REASONS[self.reason].format(**self.numbers)}{rows}"

    def decided(self, decision: Decision | None) -> Finding:
        """The same with another decision."""
        if decision is not None and decision not in DECISIONS:
            raise InputError(f"a decision is {', '.join(map(repr, DECISIONS))}, not {decision!r}")
        return replace(self, decision=decision)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the rows are kept beside it."""
        plain = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("rows", "why")
        }
        return {**plain, "numbers": dict(self.numbers), "why": asdict(self.why)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], rows: IntArray) -> Finding:
        """The inverse of :meth:`to_dict`."""
        values = dict(plain)
        values |= {name: tuple(values[name]) for name in ("lens", "interval", "exemplars")}
        return cls(**{**values, "why": Why.from_dict(values["why"])}, rows=rows)


#: The columns of the table: a name, and how it is shown.
_COLUMNS: Final = {
    "number": ("#", lambda one: str(one.number)),
    "n_rows": ("rows", lambda one: f"{one.n_rows:,}"),
    "share": ("share", lambda one: f"{one.share:.1%}"),
    "odd_s": ("odd in s", lambda one: top(one.odd_s)),
    "odd_q": ("odd in q", lambda one: top(one.odd_q)),
    "precision_hat": ("beyond chance", lambda one: beyond_chance(one)),
    "stability": ("comes back", lambda one: f"{one.stability:.2f}"),
    "first_seen": ("first seen", lambda one: one.first_seen or ""),
    "flagged": ("flagged", lambda one: one.verdict),
}


class FindingTable(Sequence[Finding]):
    """Findings in the order that is worth a person's time; it prints as a table.

    >>> print(FindingTable([]))
    no findings
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = tuple(findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __getitem__(self, place: Any) -> Any:
        found = self._findings[place]
        return FindingTable(found) if isinstance(place, slice) else found

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    def __str__(self) -> str:
        if not self._findings:
            return "no findings"
        return "\n".join(
            "  ".join(
                cell.ljust(width) if last else cell.rjust(width)
                for cell, width, last in zip(
                    line, self._widths, [*[False] * (len(line) - 1), True], strict=True
                )
            ).rstrip()
            for line in (self.header(), *self.lines())
        )

    __repr__ = __str__

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(self.header(), *self.lines(), strict=True)]

    def header(self) -> list[str]:
        """The names of the columns that are shown."""
        return [name for name, _ in self._shown().values()]

    def lines(self) -> list[list[str]]:
        """The cells of each finding as text."""
        return [[show(one) for _, show in self._shown().values()] for one in self]

    def _shown(self) -> dict[str, Any]:
        timed = any(one.first_seen for one in self)
        return {name: column for name, column in _COLUMNS.items() if timed or name != "first_seen"}

    def to_dict(self) -> dict[str, list[Any]]:
        """One list for each column, with plain values."""
        names = (
            "number",
            "n_rows",
            "share",
            "odd_s",
            "odd_q",
            "odd_both",
            "precision_hat",
            "p_value",
            "stability",
            "score",
        )
        plain: dict[str, list[Any]] = {name: [getattr(one, name) for one in self] for name in names}
        plain["low"], plain["high"] = ([one.interval[i] for one in self] for i in (0, 1))
        for name in (
            "correlation",
            "correlation_p_value",
            "first_seen",
            "last_seen",
            "decision",
            "like_events",
            "flagged",
            "n_flagged",
        ):
            plain[name] = [getattr(one, name) for one in self]
        plain["lens"] = [", ".join(one.lens) for one in self]
        plain["verdict"] = [one.verdict for one in self]
        return plain

    def to_pandas(self) -> Any:
        """A pandas DataFrame, indexed by the number of the finding."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()).set_index("number")

    def to_arrow(self) -> Any:
        """A pyarrow Table."""
        import pyarrow as pa

        return pa.table(self.to_dict())


def top(percentile: float) -> str:
    """A percentile of oddness in words: how far up its rows stand, in the mean.

    >>> top(0.985), top(0.4)
    ('top 2 %', 'top 60 %')
    """
    return f"top {max(1, round(100 * (1 - percentile)))} %"


def beyond_chance(one: Finding) -> str:
    """The share that chance does not explain, with its interval."""
    low, high = (max(0.0, end) for end in one.interval)
    return f"{max(0.0, one.precision_hat):.0%} ({100 * low:.0f}–{100 * high:.0f})"


def places(rows: NDArray[np.bool_]) -> IntArray:
    """The numbers of the rows that are true."""
    return np.flatnonzero(rows).astype(np.int64)
