"""What a person's decisions say about findings that nobody has decided about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coad.findings.finding import Decision, Finding

__all__ = ["followed"]

#: A finding is not odd if its rows lie no farther out than half of all rows, in the mean: it stands for normal rows.
_NOT_ODD = 0.5


def followed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Undecided findings follow the one that they resemble most, once an event *and* a normal finding are named.

    Those that may be followed are the decided ones and those that are not odd, which stand for normal rows; the nearest
    one by its centre, in the features of both inputs, is followed. With decisions of one kind only nothing follows:
    everything would.
    """
    known: dict[int, Decision] = {
        one.number: one.decision for one in findings if one.decision in ("event", "normal")
    }
    centres = {one.number: one.centre for one in findings if one.centre is not None}
    if len(set(known.values())) < 2 or len(centres) < len(findings):
        return tuple(replace(one, follows=None, carried=None) for one in findings)
    plain = {one.number for one in findings if min(one.odd_s, one.odd_q) < _NOT_ODD}

    def following(one: Finding) -> Finding:
        if one.decision is not None:
            return replace(one, follows=None, carried=None)
        others = sorted((plain | set(known)) - {one.number})
        distances = [float(np.square(centres[k] - centres[one.number]).sum()) for k in others]
        nearest = others[int(np.argmin(distances))]
        return replace(one, follows=nearest, carried=known.get(nearest, "normal"))

    return tuple(following(one) for one in findings)
