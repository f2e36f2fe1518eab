"""One station: its rows become pairs, as they do when a file is scored, and its pairs become events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.assessment import RowScores
from coad.core.runs import seconds
from coad.data.build import build_pairs
from coad.data.layout import Layout
from coad.data.missing import handle_missing
from coad.data.pairs import Pairs
from coad.data.stream import next_window
from coad.exceptions import CoadError
from coad.live.model import LiveModel
from coad.live.ordering import Ordering, Rows
from coad.live.refusals import Refusals
from coad.live.runs import EventRuns
from coad.live.selection import Gating, Triggering
from coad.live.values import Event, ScoredRows

__all__ = ["Ready", "Station", "complete_rows"]

#: Columns of our own beside those of the streams.
ROW, SEGMENT, GATE, TRIGGER = "#row", "#segment", "#gate", "#trigger"


@dataclass(frozen=True)
class Ready:
    """Pairs of a station that can be scored, and which of them a trigger asks for."""

    station: Station
    pairs: Pairs
    time: NDArray[np.int64]
    first: IntArray
    last: IntArray
    wanted: BoolArray

    def take(self, kept: BoolArray) -> Ready:
        """Some of the pairs."""
        if kept.all():
            return self
        return Ready(
            self.station,
            self.pairs[kept],
            self.time[kept],
            self.first[kept],
            self.last[kept],
            self.wanted[kept],
        )


@dataclass
class Station:
    """The state of one station.

    Parameters
    ----------
    name
        Its name; ``""`` for one table with both inputs.
    model
        The model.
    layout
        Its layout in the names of the rows given here: columns of the witness are called ``q:name``.
    samples
        Its stream.
    refused
        Its refusals.
    gating, triggering
        What refuses and what selects pairs; None without.
    """

    name: str
    model: LiveModel
    layout: Layout
    samples: Ordering
    refused: Refusals
    gating: Gating | None = None
    triggering: Triggering | None = None
    runs: EventRuns = field(init=False)
    waiting: Rows = field(init=False)  # numbered rows that wait for the witness
    kept: Rows | None = None  # rows that later windows need
    offset: int = 0
    n_rows: int = 0
    segment: int = 0

    def __post_init__(self) -> None:
        self.runs = EventRuns(self.model.digest, self.name)
        self.waiting = Rows.none(())

    def numbered(self, rows: Rows, signals: tuple[str, ...], prefix: str = "") -> Rows:
        """The rows with their numbers, without those that lack a value; the numbers count every row."""
        self.segment += rows.restarted
        columns = {
            **rows.columns,
            ROW: self.n_rows + np.arange(len(rows)),
            SEGMENT: np.full(len(rows), self.segment),
        }
        self.n_rows += len(rows)
        kept, whole = complete_rows(Rows(rows.time, columns), self.model, signals, prefix)
        if len(whole) < len(rows):
            self.refused.add("missing value", "a value is missing", rows.time[~kept])
        return whole

    def pairs(self, rows: Rows) -> list[Ready]:
        """The pairs that these rows complete, if any, without those that a gate refuses.

        Rows that no pair can be made of are refused, whatever is wrong with them.
        """
        if not len(rows):
            return []
        try:
            found = self._ready(rows)
        except CoadError as error:
            self.kept, self.offset = None, 0
            self.refused.add("error", f"no pairs can be made of them: {error}", rows.time)
            return []
        return [found] if found is not None and len(found.pairs) else []

    def _ready(self, rows: Rows) -> Ready | None:
        if self.gating is not None:
            rows.columns[GATE] = self.gating.codes(rows)
        if self.triggering is not None:
            rows.columns[TRIGGER] = self.triggering.flags(rows)
        rows = rows if self.kept is None else self.kept.then(rows)
        if isinstance(self.layout.window, int) and len(rows) < self.layout.window:
            self.kept = rows  # no window can be complete
            return None
        columns = rows.columns
        if self.layout.time is not None:
            columns = {**columns, self.layout.time: rows.time.view("M8[ns]")}
        broken = np.cumsum(
            (np.diff(columns[ROW], prepend=columns[ROW][:1]) > 1)
            | (np.diff(columns[SEGMENT], prepend=columns[SEGMENT][:1]) != 0)
        )
        built = build_pairs(columns, self.layout, broken=broken, offset=self.offset)
        if self.layout.window is not None:
            start, self.offset = next_window(built, self.layout, self.offset)
            self.kept = rows.take(np.arange(start, len(rows)))

        def largest(name: str) -> NDArray[Any]:
            windows = built.pairs.windows
            return columns[name][built.last] if windows is None else windows.largest(columns[name])

        number, n = columns[ROW], len(built.pairs)
        wanted = np.ones(n, np.bool_) if self.triggering is None or not n else largest(TRIGGER)
        done = Ready(
            self, built.pairs, rows.time[built.last], number[built.first], number[built.last], wanted
        )
        return self._through_gates(done, largest(GATE)) if self.gating is not None and n else done

    def scored(
        self, ready: Ready, scores: RowScores, *, with_inputs: bool = False
    ) -> tuple[ScoredRows, list[Event]]:
        """The scored pairs and the events that they belong to."""
        pairs = ready.pairs
        inputs = None
        if with_inputs:
            sides = ((self.model.layout.s, pairs.s), (self.model.layout.q, pairs.q))
            inputs = {name: _mean(x, k) for names, x in sides for k, name in enumerate(names)}
        rows = ScoredRows(
            self.name, ready.time, ready.first, ready.last, scores.p_s, scores.p_q, scores.score, scores.flag,
            scores.mode, pairs.context, inputs,
        )  # fmt: skip
        place = seconds(ready.time.view("M8[ns]")) if pairs.time is not None else ready.first.astype(float)
        return rows, self.runs.add(rows, place, pairs.group)

    def _through_gates(self, ready: Ready, codes: IntArray) -> Ready:
        assert self.gating is not None
        if codes.any():
            for code in np.unique(codes[codes > 0]).tolist():
                self.refused.add("gate", self.gating.gates[code - 1].text, ready.time[codes == code])
            ready = ready.take(codes == 0)
        return ready


def _mean(x: NDArray[Any], column: int) -> FloatArray:
    """The mean over the samples of one column of each pair."""
    values = x[:, column] if x.ndim > 1 else x
    return np.asarray(values.reshape(len(x), -1).mean(axis=1), dtype=np.float64)


def complete_rows(
    rows: Rows, model: LiveModel, signals: tuple[str, ...], prefix: str = ""
) -> tuple[BoolArray, Rows]:
    """Which rows have all values, and these rows; the mean of training is filled in if the model says so."""
    columns, n = rows.columns, len(rows)
    describing = {name: columns[name] for name in model.describing if name in columns}
    _, report = handle_missing(describing, "drop") if describing else ({}, None)
    keep = np.ones(n, np.bool_) if report is None else report.keep
    inputs = {name: columns[name] for name in signals}
    if model.layout.missing == "mean":
        known = model.recipe.means  # of two files, with the prefix of the input
        means = {name: known.get(prefix + name, known.get(name)) for name in signals}
        filled, _ = handle_missing(inputs, "mean", means=means)
        columns = {**columns, **filled}
    else:
        keep = keep & handle_missing(inputs, "drop")[1].keep
    return keep, Rows(rows.time, columns, rows.restarted).take(keep if not keep.all() else slice(None))
