"""Cards of a gallery: which pairs to show, their titles, and drawings of both inputs."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

import numpy as np

from coad._typing import IntArray
from coad.data.times import time_text
from coad.events.runs import Events, event_spans, find_events
from coad.report.drawings import NormalRows, draw, shape_kind
from coad.report.study import Study
from coad.workflows.scored import Scored

__all__ = ["both_inputs", "card", "one_sided", "pair_facts", "pair_title", "strongest"]


def card(study: Study, normal: NormalRows, pair: int, title: str, facts: str) -> str:
    """One pair with both inputs drawn side by side, as HTML."""
    scored = study.scored
    captions = ("s", "q")  # a finding decides by both inputs, so there is no confidence of each
    if not study.rule.findings:
        captions = (f"s: p_s = {scored.p_s[pair]:.3f}", f"q: p_q = {scored.p_q[pair]:.3f}")
    return (
        f"<article class='event' data-pair='{pair}'><h3>{escape(title)}</h3><p class='facts'>{escape(facts)}</p>"
        f"{both_inputs(scored, normal, pair, captions, title)}</article>"
    )


def both_inputs(
    scored: Scored, normal: NormalRows, pair: int, captions: tuple[str, str], title: str = ""
) -> str:
    """Drawings of both inputs of a pair with a caption each, as HTML."""
    drawings = "".join(
        f"<div><p class='side'>{escape(caption)}</p>"
        + draw(store.rows([pair])[0], names, normal.of(side, pair), f"{side} of {title}")
        + "</div>"
        for side, store, names, caption in (
            ("s", scored.s, scored.s_names, captions[0]),
            ("q", scored.q, scored.q_names, captions[1]),
        )
    )
    beside = " beside" if shape_kind(scored.s.shape, scored.s_names) == "image" else ""
    return f"<div class='sides{beside}'>{drawings}</div>"


def pair_title(scored: Scored, pair: int) -> str:
    """The title of a pair: its ID, time or row."""
    if scored.id is not None:
        return str(scored.id[pair])
    return scored.time_text(pair) or f"row {int(scored.first[pair]):,}"


def pair_facts(scored: Scored, pair: int, event: Events | None = None) -> str:
    """Rows, duration, file and regime of a pair, or of the ``event`` that it is the peak of, for the line under its title."""
    first, last = (int(scored.first[pair]), int(scored.last[pair]))
    parts = []
    if event is not None:
        first, last = int(scored.first[event.first[0]]), int(scored.last[event.last[0]])
        if scored.time is not None:
            spans = event_spans(event, scored.time, scored.first, scored.last)
            ends = [time_text(one) for one in (spans.start[0], spans.end[0])]
            if ends[0] != ends[1]:
                unit = " s" if scored.time.dtype.kind == "M" else ""
                parts.append(f"{ends[0]} to {ends[1]} ({spans.duration[0]:.4g}{unit})")
    if last > first:
        parts.append(f"rows {first:,}–{last:,} ({last - first + 1:,})")
    elif scored.time is not None or scored.id is not None:  # else it is in the title
        parts.append(f"row {first:,}")
    if len(scored.files) > 1:
        parts.append(Path(scored.files[int(scored.file[pair])]).name)
    context = scored.context_of(pair)
    if context is not None:
        parts.append(context)
    return " · ".join(parts)


def strongest(study: Study, most: int) -> IntArray:
    """The numbers of the strongest events."""
    peak = study.events.peak
    return np.argsort(-study.scored.score[peak], kind="stable")[:most]


def one_sided(study: Study, side: str, most: int, thresholds: tuple[float, float] | None = None) -> IntArray:
    """Pairs that are anomalous in one input only, the clearest of each run, in falling order."""
    scored = study.scored
    mine, other = (scored.p_s, scored.p_q) if side == "s" else (scored.p_q, scored.p_s)
    own, others = (thresholds or study.start)[:: 1 if side == "s" else -1]
    if not math.isfinite(own):
        own = others = 0.5
    found = find_events((mine >= max(own, 0.5)) & (other < others), mine * (1 - other), scored.breaks)
    score = (mine * (1 - other))[found.peak]
    return np.asarray(found.peak[np.argsort(-score, kind="stable")[:most]])
