"""Pairs of several stations scored in one call: a call costs far more than a row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from coad.core.assessment import RowScores
from coad.data.tables import joined_parts
from coad.exceptions import CoadError
from coad.live.model import LiveModel
from coad.live.station import Ready

__all__ = ["score_together"]


def score_together(model: LiveModel, parts: list[Ready]) -> list[RowScores | None]:
    """The scores of each part; None for one that the model refuses, which its station then notes.

    Parameters
    ----------
    model
        The model of all parts.
    parts
        Pairs of stations.

    Returns
    -------
    list
    """
    try:
        s, q = (joined_parts([getattr(one.pairs, side) for one in parts], side) for side in "sq")
        contexts = [one.pairs.context for one in parts if one.pairs.context is not None]
        context = joined_parts(contexts, "context") if contexts else None
        whole = model.score(s, q, context, shared=len(parts) > 1)
    except CoadError as error:
        if len(parts) > 1:  # one bad part must not cost the others their scores
            return [score_together(model, [one])[0] for one in parts]
        parts[0].station.refused.add("error", f"the model refuses them: {error}", parts[0].time)
        return [None]
    edges = np.cumsum([0, *(len(one.pairs) for one in parts)])
    return [_part(whole, slice(a, b)) for a, b in pairwise(edges)]


def _part(scores: RowScores, rows: slice) -> RowScores:
    parts: Any = [None if x is None else x[rows] for x in scores]
    return RowScores(*parts)
