"""The engine: samples with times in, scored pairs, refusals and events out. No clock, no network, no thread.

The same samples give the same rows, scores and events as ``coad score`` on a file, in whatever pieces and (within the
lateness) in whatever order they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coad._typing import BoolArray
from coad.data.times import parse_duration
from coad.exceptions import InputError
from coad.live.batching import score_together
from coad.live.grouping import Grouping
from coad.live.joining import Witness, join
from coad.live.model import LiveModel
from coad.live.ordering import NEVER, Ordering, Rows
from coad.live.packing import restored, to_plain
from coad.live.protocols import Wanted
from coad.live.refusals import Refusals
from coad.live.selection import Gate, Gating, Trigger, Triggering
from coad.live.station import Ready, Station, complete_rows
from coad.live.values import Chunk, Event, ScoredRows, Step

__all__ = ["Engine", "EngineSettings"]

_SECOND = 1_000_000_000
WITNESS = "witness"
#: What an engine remembers; the rest are settings.
_STATE = (
    "stations", "witness", "witness_samples", "witness_refused", "grouping", "watermark", "counts",
)  # fmt: skip


@dataclass(frozen=True)
class EngineSettings:
    """What the engine needs to know beside the model; durations in nanoseconds.

    Parameters
    ----------
    stations
        Names of the stations whose s is matched with the rows of the witness; none: one table has both inputs.
    lateness
        How long a sample may come after a later one.
    stale
        How long rows wait for a stream that is silent.
    jump
        A step of a clock by more than this must be confirmed by a second sample.
    how, tolerance
        How the witness is matched to the stations; None: as the model says.
    witness_context
        Contexts and gates whose columns come with the witness.
    gates, trigger
        Which pairs are refused, and which are worth scoring.
    most, margin, settle
        For several stations: see :class:`coad.live.grouping.Grouping`.
    with_inputs
        Whether scored rows come with the mean of each column, to watch for drift.
    """

    stations: tuple[str, ...] = ()
    lateness: int = 0
    stale: int = 10 * _SECOND
    jump: int = 600 * _SECOND
    how: str | None = None
    tolerance: int | None = None
    witness_context: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    trigger: Trigger | None = None
    most: int = 3
    margin: float = 0.1
    settle: int = _SECOND
    with_inputs: bool = False


class Engine:
    """A pure state machine: chunks in, one :class:`coad.live.values.Step` out.

    Parameters
    ----------
    model
        The model of every station, or a mapping of station to model.
    settings
        See :class:`EngineSettings`.
    shadow
        A second model, whose flags are noted beside those of the first; it needs the same columns and windows.
    shard
        Whether other engines have the rest of the stations: events are then not grouped here, and the witness is kept
        no longer than stations may be behind, because the state travels.
    """

    def __init__(
        self,
        model: LiveModel | dict[str, LiveModel],
        settings: EngineSettings | None = None,
        shadow: LiveModel | None = None,
        *,
        shard: bool = False,
    ) -> None:
        settings = EngineSettings() if settings is None else settings
        self.settings = settings
        names = settings.stations or ("",)
        self.models = dict.fromkeys(names, model) if isinstance(model, LiveModel) else dict(model)
        missing = [name for name in names if name not in self.models]
        if missing:
            raise InputError(f"there is no model for the station {missing[0]!r}")
        first = self.models[names[0]]
        self.shadow = shadow
        if shadow is not None and shadow.build_layout != first.build_layout:
            raise InputError(
                "the shadow model must have the columns, contexts and windows of the first model"
            )
        self.counts: Counter[str] = Counter()
        self.witness: Witness | None = None
        self.witness_refused = Refusals(WITNESS, _SECOND)
        self.witness_samples: Ordering | None = None
        self.grouping: Grouping | None = None
        if settings.stations:
            self._add_witness(first, None if not shard else 0)
            if len(settings.stations) > 1 and not shard:
                self.grouping = Grouping(first.digest, settings.most, settings.margin, settings.settle)
        self.stations = {name: self._station(name) for name in names}
        self.watermark = NEVER

    def wanted(self) -> Wanted:
        """Which columns each stream must have."""
        columns = {name: one.samples.names for name, one in self.stations.items()}
        if self.witness_samples is not None:
            columns[WITNESS] = self.witness_samples.names
        first = next(iter(self.models.values()))
        layout = first.layout
        return Wanted(columns, layout.time, layout.time_unit, layout.time_format, frozenset(first.describing))

    def push(self, chunks: Sequence[Chunk], *, overloaded: bool = False) -> Step:
        """Take chunks in.

        Parameters
        ----------
        chunks
            Of any streams, in any order.
        overloaded
            Whether to leave out scoring, but of pairs that a trigger asks for; they are refused as "overload".

        Returns
        -------
        Step
        """
        touched: dict[str, None] = {}
        for chunk in chunks:
            samples = self.witness_samples if chunk.stream == WITNESS else None
            if samples is None and chunk.stream in self.stations:
                samples = self.stations[chunk.stream].samples
            if samples is None:
                self.counts["unknown stream"] += len(chunk)
                continue
            if self._fits(chunk, samples):
                samples.add(chunk.time, dict(chunk.columns))
                touched[chunk.stream] = None
        return self._step(list(touched), overloaded=overloaded)

    def advance(self, now: int) -> Step:
        """Act on the passing of time: streams that are silent are no longer waited for.

        Parameters
        ----------
        now
            The time now, in nanoseconds, by the clock that stamps the samples.
        """
        return self._step([*self.stations, WITNESS], until=now - self.settings.lateness - self.settings.stale)

    def close(self) -> Step:
        """The rest, at the end of a recording or before another model takes over."""
        ready: list[Ready] = []
        if self.witness is not None and self.witness_samples is not None:
            self.witness.add(self._witness_rows(self.witness_samples.finish()), -NEVER)
        for station in self.stations.values():
            ready += self._ready(station, station.samples.finish(), -NEVER)
        scored, events = self._score(ready, False)
        for station in self.stations.values():
            events += station.runs.close()
        if self.grouping is not None:
            events = self.grouping.add(events, self.watermark) + self.grouping.finish()
        return self._result(scored, events)

    @property
    def newest(self) -> int:
        """The time of the newest sample."""
        streams = [one.samples for one in self.stations.values()]
        return max(
            one.newest for one in [*streams, *([self.witness_samples] if self.witness_samples else [])]
        )

    def end_events(self) -> Step:
        """End all events: another model takes over, and an event is one model's."""
        events = [event for station in self.stations.values() for event in station.runs.close()]
        if self.grouping is not None:
            events = self.grouping.add(events, self.watermark) + self.grouping.finish()
        return self._result([], events)

    def state(self) -> dict[str, Any]:
        """All that the engine remembers, as plain values and arrays; see :meth:`restore`."""
        return {name: to_plain(getattr(self, name)) for name in _STATE}

    def restore(self, state: dict[str, Any]) -> Engine:
        """Go on where another engine with the same model and settings was; returns this one."""
        if set(state["stations"]) != set(self.stations):
            raise InputError("the state is of other stations than the settings name")
        for name in _STATE:
            setattr(self, name, restored(getattr(self, name), state[name]))
        return self

    def _step(self, names: list[str], *, until: int = NEVER, overloaded: bool = False) -> Step:
        if self.witness is not None and self.witness_samples is not None and WITNESS in names:
            rows = self._witness_rows(self.witness_samples.release(until))
            self.witness.add(rows, max(self.witness_samples.watermark, until))
            names = list(self.stations)
        ready: list[Ready] = []
        for name in names:
            station = self.stations.get(name)
            if station is not None:
                mark = max(station.samples.watermark, until)
                ready += self._ready(station, station.samples.release(until), mark)
        scored, events = self._score(ready, overloaded)
        if until != NEVER:
            for station in self.stations.values():
                gap = station.runs.gap
                timed = station.layout.time is not None  # otherwise pairs stand at their row numbers
                if timed and station.runs.last is not None and until / _SECOND > station.runs.last + gap:
                    events += station.runs.close()
        newest = max(one.samples.newest for one in self.stations.values())
        slowest = min(one.samples.watermark for one in self.stations.values())
        if self.witness is not None:
            slowest = min(slowest, self.witness.known_until)
        self.watermark = max(
            self.watermark, slowest, newest - self.settings.stale if newest > 0 else NEVER, until
        )
        if self.grouping is not None:
            events = self.grouping.add(events, self.watermark)
        return self._result(scored, events)

    def _ready(self, station: Station, rows: Rows, mark: int) -> list[Ready]:
        """The pairs that rows of a station complete; ``mark`` is how far its stream is known."""
        signals = tuple(station.model.layout.s)
        if self.witness is None:
            if len(rows):
                both = (*signals, *station.model.layout.q)
                rows = station.numbered(rows, both)
            return station.pairs(rows)
        if len(rows):
            rows = station.numbered(rows, signals, "s:")
        rows = station.waiting.then(rows)
        if not len(rows):
            return []
        done = join(rows, self.witness, self._nearest_only, mark - self.settings.stale)
        station.waiting = done.waiting
        if len(done.unmatched):
            station.refused.add("stale", "no row of the witness near", done.unmatched.time)
        return station.pairs(done.rows)

    def _score(self, ready: list[Ready], overloaded: bool) -> tuple[list[ScoredRows], list[Event]]:
        kept = []
        for one in ready:
            if overloaded:
                asked = (
                    one.wanted if self.settings.trigger is not None else np.zeros(len(one.pairs), np.bool_)
                )
                left_out = one.wanted & ~asked
                one.station.refused.add("overload", "not scored, to keep up", one.time[left_out])
                self.counts["overload"] += int(left_out.sum())
                kept.append(one.take(asked))
            else:
                kept.append(one.take(one.wanted))
            self.counts["not triggered"] += int((~one.wanted).sum())
        kept = [one for one in kept if len(one.pairs)]
        scored: list[ScoredRows] = []
        events: list[Event] = []
        # One call for all stations that share a model: a call costs far more than a row.
        for model in {id(one.station.model): one.station.model for one in kept}.values():
            parts = [one for one in kept if one.station.model is model]
            second = [None] * len(parts) if self.shadow is None else score_together(self.shadow, parts)
            for part, scores, other in zip(parts, score_together(model, parts), second, strict=True):
                if scores is None:
                    continue
                rows, found = part.station.scored(part, scores, with_inputs=self.settings.with_inputs)
                if other is not None:
                    rows = replace(rows, shadow=other.flag)
                    self._count_shadow(rows.flag, other.flag)
                self.counts["pairs"] += len(rows)
                self.counts["flagged"] += int(rows.flag.sum())
                scored.append(rows)
                events += found
        return scored, events

    def _count_shadow(self, flag: BoolArray, other: BoolArray) -> None:
        self.counts["shadow: both flag"] += int((flag & other).sum())
        self.counts["shadow: only the model flags"] += int((flag & ~other).sum())
        self.counts["shadow: only the shadow flags"] += int((~flag & other).sum())
        self.counts["shadow: neither flags"] += int((~flag & ~other).sum())

    def _result(self, scored: list[ScoredRows], events: list[Event]) -> Step:
        refusals = []
        for station in self.stations.values():
            self._count_late(station.samples, station.refused)
            refusals += station.refused.take()
        if self.witness_samples is not None:
            self._count_late(self.witness_samples, self.witness_refused)
            refusals += self.witness_refused.take()
        mark = self.watermark if self.watermark > NEVER else None
        return Step(tuple(scored), tuple(refusals), tuple(events), mark)

    def _count_late(self, samples: Ordering, refused: Refusals) -> None:
        late = samples.take_late()
        if late is not None:
            refused.add("late", "samples came too late", np.array([late[0]]), late[2])
        for what, n in samples.counts.items():
            self.counts[what] += n
        samples.counts.clear()

    def _fits(self, chunk: Chunk, samples: Ordering) -> bool:
        """Whether the chunk has the columns, and values of the right kind; if not, its samples are refused."""
        wrong = samples.unfit(chunk)
        if wrong is None:
            return len(chunk) > 0
        refused = self.witness_refused if chunk.stream == WITNESS else self.stations[chunk.stream].refused
        refused.add(
            "missing column", wrong, np.array([samples.newest]) if samples.newest > 0 else np.zeros(1, int)
        )
        self.counts["refused missing column"] += len(chunk)
        return False

    def _witness_rows(self, rows: Rows) -> Rows:
        """The rows of the witness that have all values."""
        first = next(iter(self.models.values()))
        if not len(rows):
            return rows
        kept, whole = complete_rows(rows, first, tuple(first.layout.q), "q:")
        if len(whole) < len(rows):
            self.witness_refused.add("missing value", "a value is missing", rows.time[~kept])
        return whole

    def _add_witness(self, model: LiveModel, least: int | None) -> None:
        settings, clocks = self.settings, model.recipe.clocks
        how = settings.how or (clocks.how if clocks else "nearest")
        limit = settings.tolerance
        if limit is None and clocks is not None and clocks.tolerance is not None:
            limit = int(parse_duration(clocks.tolerance).astype(np.int64))
        if limit is None:
            raise InputError(
                'the largest time difference of a pair is not known; write tolerance = "50ms" under [time]'
            )
        # q columns first, then those that say something about the moment
        more = [name for name in settings.witness_context if name not in model.layout.q]
        names = (*model.layout.q, *more)
        self._nearest_only = frozenset(model.describing)
        self.witness_samples = Ordering(names, settings.lateness, settings.jump)
        keep = settings.stale + settings.lateness + _SECOND
        self.witness = Witness(how, limit, keep, Rows.none(names))
        if least is not None:
            self.witness.least = least

    def _station(self, name: str) -> Station:
        settings, model = self.settings, self.models[name]
        layout = model.build_layout
        asked = [gate.column for gate in settings.gates] + list(
            settings.trigger.columns if settings.trigger else ()
        )
        own = list(model.layout.s)
        prefixed: dict[str, str] = {}
        if self.witness is None:
            own += [*model.layout.q, *model.describing, *asked]
        else:
            with_witness = {*model.layout.q, *settings.witness_context}
            prefixed = {one: f"q:{one}" for one in with_witness}
            own += [one for one in (*model.describing, *asked) if one not in with_witness]
            layout = replace(
                layout,
                q=tuple(f"q:{one}" for one in model.layout.q),
                context=tuple(prefixed.get(one, one) for one in layout.context) if layout.context else None,
                group=prefixed.get(layout.group, layout.group) if layout.group else None,
                time=layout.time or "#time",
            )
        gates = tuple(
            replace(g, column=prefixed.get(g.column, g.column), name=g.text) for g in settings.gates
        )
        trigger = settings.trigger
        if trigger is not None:
            trigger = replace(trigger, columns=tuple(prefixed.get(one, one) for one in trigger.columns))
        names = tuple(dict.fromkeys(own))
        return Station(
            name, model, layout, Ordering(names, settings.lateness, settings.jump), Refusals(name, _SECOND),
            Gating(gates) if gates else None, None if trigger is None else Triggering(trigger),
        )  # fmt: skip
