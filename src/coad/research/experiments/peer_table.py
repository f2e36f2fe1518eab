"""Text of a method comparison: table heads and cells, legends, Markdown, and a summary in words."""

from __future__ import annotations

from collections.abc import Sequence

from coad.research.baselines.registry import COINCIDENT, METHODS
from coad.research.baselines.strategies import SCORE_STACK, STACK_SCORE
from coad.research.experiments.peer_results import Line, PeersRun

__all__ = ["LEGEND", "cells", "head_of", "legend_of", "paper_table", "to_markdown", "verdict"]

HEAD = ("method", "strategy", "own F1", "our F1", "best F1", "av. prec.", "s")
_HEAD_WITHOUT_LABELS = ("method", "strategy", "flagged", "s")
_STRATEGIES = {SCORE_STACK: "score, stack", STACK_SCORE: "stack, score"}

_SECONDS = (
    "s: seconds to fit and score one split; preprocessing that methods share (scaling, principal components) is "
    "counted for the first method that uses it."
)
#: Explains the columns of data with labels.
LEGEND = (
    "Own F1: at the method's own threshold. Our F1: at the two thresholds that coincidence sets on training scores "
    "without labels. Best F1: at the best threshold or pair of thresholds for the test labels, which are not available "
    "in practice. Mean ± standard deviation over splits. A * marks methods that use labels in training. One-input "
    "methods are run on each input (score, stack) and on the stacked inputs (stack, score); the strategy with the "
    f"higher best F1 is shown. {_SECONDS}"
)
#: Explains the columns of data without labels.
LEGEND_WITHOUT_LABELS = (
    "No labels: F1 cannot be computed. Flagged: the fraction of the test rows that a method flags, at the two "
    "thresholds that coincidence sets on training scores or, for methods with a single score, at its own threshold. "
    f"{_SECONDS}"
)


def to_markdown(lines: Sequence[Line], digits: int = 3) -> str:
    """Format the lines as Markdown: one table for data with labels, one for data without."""
    text = []
    for judged in (True, False):
        own = [line for line in lines if line.judged == judged]
        if own:
            head = ("data", *head_of(own))
            text += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
            text += ["| " + " | ".join((line.data, *cells(line, digits))) + " |" for line in own]
            text += ["", LEGEND if judged else LEGEND_WITHOUT_LABELS, ""]
    text.pop()
    text += [
        f"\n{line.data}, {line.title}: {words}"
        for line in lines
        for words in (line.note, line.error)
        if words
    ]
    return "\n".join(text) + "\n"


def legend_of(lines: Sequence[Line]) -> str:
    """Explain the columns of the tables of these lines."""
    both = ((True, LEGEND), (False, LEGEND_WITHOUT_LABELS))
    return " ".join(text for judged, text in both if any(line.judged == judged for line in lines))


def head_of(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the column heads of the table of one data set."""
    return HEAD if any(line.judged for line in lines) else _HEAD_WITHOUT_LABELS


def cells(line: Line, digits: int = 2) -> tuple[str, ...]:
    """Format a line under :func:`head_of`; a * marks methods that use labels in training."""

    def spread(value: tuple[float, float] | None) -> str:
        if value is None:
            return ""
        deviation = f" ±{value[1]:.{digits}f}" if line.splits > 1 else ""  # undefined for one split
        return f"{value[0]:.{digits}f}{deviation}"

    values = (line.own, line.ours, line.best, line.average_precision) if line.judged else (line.flagged,)
    return (
        f"{line.title} *" if line.labels else line.title,
        _STRATEGIES.get(line.strategy, line.strategy),
        *(spread(value) for value in values),
        f"{line.seconds:.0f}",
    )


def paper_table(lines: Sequence[Line], paper: dict[str, float]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the table with an extra column: the paper's F1 of the same method."""
    rows = []
    for line in lines:
        known = paper.get(line.method)
        rows.append([*cells(line), "" if known is None else f"{known:.2f}"])
    return [*HEAD, "paper"], rows


def verdict(run: PeersRun) -> str:
    """Compare CoAD with the best peer that uses no labels in training, one sentence per data set."""
    parts = []
    lines = run.lines()
    for data in dict.fromkeys(line.data for line in lines):
        own = {line.method: line for line in lines if line.data == data}
        ours = own.get("coad")
        peers = [
            x for x in own.values() if METHODS[x.method].kind not in COINCIDENT and not x.labels and x.best
        ]
        if ours is None or ours.own is None:
            continue
        text = f"{data}: CoAD F1 {ours.own[0]:.3f} without labels"
        if peers:
            compared = [
                f"{'above' if ours.own[0] > value else 'NOT above'} the best unsupervised peer {where} ({title}, {value:.3f})"
                for where, (value, title) in (
                    ("without labels", max((_without_labels(line), line.title) for line in peers)),
                    ("at its best threshold", max((line.best[0], line.title) for line in peers if line.best)),
                )
            ]
            text += ", " + " and ".join(compared)
        modes = own.get("modes")
        if modes is not None and modes.own is not None:
            text += f"; coincident modes {modes.own[0]:.3f}"
        top = own.get("snn")
        if top is not None and top.own is not None:
            text += f"; supervised networks {top.own[0]:.3f}"
        parts.append(text + (f". Status of CoAD: {ours.note}." if ours.note else "."))
    return " ".join(parts) or "No labels, or CoAD was not run: nothing to rank."


def _without_labels(line: Line) -> float:
    """The higher F1 of the method's own threshold and the coincidence thresholds; 0 if it has neither."""
    return max((value[0] for value in (line.own, line.ours) if value is not None), default=0.0)
