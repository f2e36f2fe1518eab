"""Small models and streams that the tests of live monitoring share."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np

from coad.core.assessment import RowScores
from coad.core.rule import Rule
from coad.data.layout import Layout
from coad.live.model import LiveModel
from coad.live.values import Chunk
from coad.workflows.recipe import Clocks, Recipe

SECOND = 1_000_000_000
START = 1_750_000_000 * SECOND


class Means:
    """A detector without training: how far the mean of each input is from 0. Each row's scores are its own."""

    rule_ = Rule(1.0, 0.1)
    contexts_ = None
    status_ = "found"

    def score_rows(self, s, q=None, context=None):
        with np.errstate(over="ignore"):  # of the largest floats
            p_s, p_q = (1 - np.exp(-np.abs(x.reshape(len(x), -1).mean(axis=1))) for x in (s, q))
        return RowScores(p_s, p_q, p_s * p_q, self.rule_.flags(p_s, p_q))


def means_model(layout: Layout, clocks: Clocks | None = None, digest="means") -> LiveModel:
    return LiveModel(Means(), Recipe(layout, clocks), digest)


def layout(**more) -> Layout:
    return Layout(**{"s": ("a", "b"), "q": ("x",), "time": "t", **more})


def table(n=600, *, step=SECOND // 10, events=8, seed=0):
    """Times and columns of one table with events in both inputs."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(0, 0.3, n) for name in "abx"}
    for start in rng.integers(0, max(1, n - 12), events):
        for column in columns.values():
            column[start : start + int(rng.integers(1, 12))] += 3.0
    return START + np.arange(n) * step, columns


def pieces(time, columns, edges, stream=""):
    """The rows cut into chunks."""
    cuts = [0, *sorted(edges), len(time)]
    return [
        Chunk(stream, time[a:b], {name: one[a:b] for name, one in columns.items()})
        for a, b in itertools.pairwise(cuts)
        if b > a
    ]


def watched(engine, chunks):
    """All that an engine finds: scored rows by station, last state of each event, refusals."""
    steps = [engine.push([chunk]) for chunk in chunks] + [engine.close()]
    return collected(steps)


def collected(steps):
    rows: dict[str, list] = {}
    for step in steps:
        for one in step.scored:
            rows.setdefault(one.station, []).append(one)
    joined = {
        name: SimpleNamespace(
            **{
                part: np.concatenate([getattr(one, part) for one in parts])
                for part in ("time", "first", "last", "p_s", "p_q", "score", "flag")
            },
            mode=None if parts[0].mode is None else np.concatenate([one.mode for one in parts]),
        )
        for name, parts in rows.items()
    }
    events = {event.key: event for step in steps for event in step.events}
    refusals = {one.key: one for step in steps for one in step.refusals}
    return SimpleNamespace(rows=joined, events=list(events.values()), refusals=list(refusals.values()))
