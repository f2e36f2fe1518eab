"""Cards of findings: what sets each apart, its evidence, when and in which regimes it occurs, and typical rows of it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from coad._typing import BoolArray, IntArray
from coad.core.runs import seconds
from coad.data.times import time_text
from coad.findings.finding import beyond_chance, top
from coad.report.cards import both_inputs, pair_title
from coad.report.drawings import NormalRows, draw, shape_kind
from coad.report.words import percent
from coad.workflows.scored import Scored, sampled

if TYPE_CHECKING:
    from coad.findings.finding import Finding
    from coad.findings.why import Column

__all__ = ["examples_of", "finding_card", "oddest_pairs"]

#: Typical rows that a card has room for.
EXAMPLES = 2
#: Columns that differ by less than this share of the largest difference of their input are not named on a card.
_SMALL = 0.25
#: Rows of a finding among which typical ones are looked for: enough to tell the middle from the edge.
_COMPARED = 500
#: Parts of the time that a card's timeline has, and regimes that it names.
_BINS, _REGIMES = 120, 3
#: Width and height of the timeline, in SVG units.
_WIDTH, _HEIGHT = 480, 26


def finding_card(scored: Scored, one: Finding, examples: str) -> str:
    """A finding on some scored pairs as HTML.

    Parameters
    ----------
    scored
        The pairs; those whose deciding finding it is are counted and shown in time.
    one
        The finding.
    examples
        The drawings of its typical rows, as :func:`examples_of` makes them.

    Returns
    -------
    str
    """
    assert scored.mode is not None
    here = scored.mode == one.number
    evidence = (
        ("rows of the fit", f"{one.n_rows:,} ({percent(one.share)})"),
        ("odd in s", top(one.odd_s)),
        ("odd in q", top(one.odd_q)),
        ("decides here", f"{int(here.sum()):,}"),
        ("beyond chance", beyond_chance(one)),
        ("comes back", f"{one.stability:.2f}"),
    )
    boxes = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in evidence)
    return (
        f"<article class='event finding' data-finding='{one.number}'>"
        f"<h3>Finding {one.number} <span class='tag {'yes' if one.flagged else 'no'}'>flagged: "
        f"{escape(one.verdict)}</span></h3>"
        f"<p class='facts'>{escape(_facts(one))}</p><dl class='evidence'>{boxes}</dl>"
        f"{_apart('s', one.why.s)}{_apart('q', one.why.q)}{_timeline(scored, here)}{_regimes(scored, here)}"
        f"{examples}</article>"
    )


def examples_of(scored: Scored, normal: NormalRows, one: Finding) -> str:
    """Typical pairs of a finding with both inputs drawn, as HTML; images beside the typical image."""
    rows = _typical(scored, one)
    if not len(rows):
        return "<p class='facts'>None of these rows belongs to it first.</p>"
    parts = [
        f"<div><p class='facts'>{escape(pair_title(scored, pair))}</p>"
        + both_inputs(scored, normal, pair, ("s", "q"), pair_title(scored, pair))
        + "</div>"
        for pair in rows.tolist()
    ]
    kind = ""
    if shape_kind(scored.s.shape, scored.s_names) == "image":
        parts.append(_typical_image(scored, normal, int(rows[0])))
        kind = " images"
    return f"<div class='examples{kind}'>{''.join(parts)}</div>"


def oddest_pairs(scored: Scored, fitted: IntArray, percentiles: np.ndarray, most: int) -> IntArray:
    """The pairs that are oddest in both inputs: those of the fit if these are its rows, else those of the highest score.

    Parameters
    ----------
    scored
        The pairs; nothing is flagged, so that the score is half the smaller percentile.
    fitted, percentiles
        The oddest rows of the fit, and their percentiles in both inputs.
    most
        As many at most.
    """
    same = len(fitted) and fitted.max() < len(scored)
    if same and np.allclose(2 * scored.score[fitted], percentiles.min(axis=1), atol=1e-6):
        return fitted[:most]
    return np.argsort(-scored.score, kind="stable")[:most]


def _facts(one: Finding) -> str:
    parts = [f"found by {' and '.join(one.lens)}"]
    if one.first_seen:
        parts.append(f"first seen {one.first_seen}, last {one.last_seen}")
    return " · ".join(parts)


def _apart(side: str, columns: tuple[Column, ...]) -> str:
    if not columns:
        return ""
    least = _SMALL * max(abs(one.deviation) for one in columns)
    named = ", ".join(str(one) for one in columns if abs(one.deviation) >= least)
    return f"<p class='apart'><b>{side}</b> {escape(named)}</p>"


def _typical(scored: Scored, one: Finding) -> IntArray:
    """Rows of the finding, nearest to their median first; those of the fit if they are among these pairs."""
    assert scored.mode is not None
    own = scored.mode == one.number
    known = np.array([row for row in one.exemplars if row < len(scored) and own[row]], dtype=np.int64)
    if len(known):
        return known[:EXAMPLES]
    rows = sampled(np.flatnonzero(own), _COMPARED)
    if len(rows) <= EXAMPLES:
        return rows
    away = np.zeros(len(rows))
    for store in (scored.s, scored.q):
        x = store.rows(rows).reshape(len(rows), -1).astype(np.float64)
        width = x.std(axis=0)
        away += np.square((x - np.median(x, axis=0)) / np.where(width > 0, width, 1.0)).mean(axis=1)
    return np.asarray(rows[np.argsort(away, kind="stable")[:EXAMPLES]])


def _typical_image(scored: Scored, normal: NormalRows, pair: int) -> str:
    """The median image of both inputs where nothing is flagged."""
    drawings = "".join(
        f"<div><p class='side'>{side}</p>"
        + draw(normal.of(side, pair).middle, names, normal.of(side, pair), f"typical {side}")
        + "</div>"
        for side, names in (("s", scored.s_names), ("q", scored.q_names))
    )
    return f"<div><p class='facts'>typical, not flagged</p><div class='sides beside'>{drawings}</div></div>"


def _timeline(scored: Scored, own: BoolArray) -> str:
    """A thin histogram of some pairs over the time of all of them."""
    if not own.any():
        return ""
    axis = np.arange(len(scored), dtype=float) if scored.time is None else seconds(scored.time)
    low, high = float(axis.min()), float(axis.max())
    counts, _ = np.histogram(axis[own], bins=_BINS, range=(low, high if high > low else low + 1.0))
    step = _WIDTH / _BINS
    heights = np.where(counts > 0, 3 + (_HEIGHT - 3) * counts / counts.max(), 0)
    bars = "".join(
        f"<rect class='bar' x='{i * step:.1f}' y='{_HEIGHT - tall:.1f}' width='{step:.1f}' height='{tall:.1f}'/>"
        for i, tall in enumerate(heights.tolist())
        if tall
    )
    ends = (f"{scored.what[:-1]} 0", f"{len(scored) - 1:,}")
    if scored.time is not None:
        ends = (time_text(scored.time[int(axis.argmin())]), time_text(scored.time[int(axis.argmax())]))
    return (
        f"<svg class='shape when' viewBox='0 0 {_WIDTH} {_HEIGHT}' preserveAspectRatio='none' role='img' "
        f"aria-label='when it occurs'>{bars}<line class='axis' x1='0' x2='{_WIDTH}' y1='{_HEIGHT}' y2='{_HEIGHT}'/></svg>"
        f"<p class='side ends'><span>{escape(ends[0])}</span><span>{escape(ends[1])}</span></p>"
    )


def _regimes(scored: Scored, own: BoolArray) -> str:
    """The regimes in which most of some pairs are, and how many of all are there."""
    if scored.code is None or not own.any():
        return ""
    size = len(scored.contexts)
    inside = np.bincount(scored.code[own], minlength=size) / own.sum()
    overall = np.bincount(scored.code, minlength=size) / len(scored)
    parts = [
        f"{scored.regime_names[i]} {percent(inside[i])} (of all {scored.what} {percent(overall[i])})"
        for i in np.argsort(-inside, kind="stable")[:_REGIMES]
        if inside[i] > 0
    ]
    more = int(np.count_nonzero(inside)) - len(parts)
    return f"<p class='apart'><b>in</b> {escape(', '.join(parts))}{f' and {more:,} more' if more else ''}</p>"
