"""Coincident modes as candidates: what two K-way networks agree on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.exceptions import CoadWarning
from coad.findings.candidates import Candidate, FitRows, Rows, Votes

__all__ = ["ModeLens"]

#: :class:`~coad.CoincidenceModes` learns from no fewer rows.
_FEWEST = 100
#: Each of its folds holds out groups of its own.
_FEWEST_GROUPS = 5


class ModeLens:
    """The modes of :class:`~coad.CoincidenceModes` on the features of both inputs, each as a candidate."""

    name = "modes"

    def __init__(self) -> None:
        self.model: Any = None

    def propose(self, data: FitRows) -> list[Candidate]:
        """Fit a catalogue; each input by itself says that a row belongs to a mode if that mode is its first choice."""
        if len(data) < _FEWEST:
            return []
        from coad.modes.estimator import CoincidenceModes

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)
            self.model = CoincidenceModes(
                random_state=data.seed, ordered=data.ordered, max_rare=data.max_rare
            )
            self.model.fit(data.s, data.q, context=data.context, group=_enough(data.group), time=data.time)
        held = self.model.held_out_confidences_
        if not held[0].shape[1]:
            self.model = None
            return []
        score_s, score_q = _margins(held[0]), _margins(held[1])
        label = self.model.labels_
        judged = np.ones(len(data), dtype=bool)
        return [
            Candidate(
                self.name,
                one.mode,
                label == one.mode,
                score_s[:, one.mode],
                score_q[:, one.mode],
                judged,
                one.stability,
            )
            for one in self.model.modes_
            if (label == one.mode).any()
        ]

    def votes(self, rows: Rows) -> Votes:
        """The margins of each input, and the mode by both."""
        a, b = self.model.mode_confidences(rows.s, rows.q, rows.context)
        label = self.model.predict_mode(rows.s, rows.q, rows.context)
        return Votes(_margins(a), _margins(b), label[:, None] == np.arange(a.shape[1])[None, :])

    def to_facts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The facts and tensors of the catalogue."""
        if self.model is None:
            return {"model": None}, {}
        from coad.learned.training.model import as_arrays

        facts, tensors = self.model.to_facts()
        return {"model": facts}, as_arrays(tensors)

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> ModeLens:
        """The inverse of :meth:`to_facts`."""
        lens = cls()
        if facts["model"] is not None:
            from coad.learned.training.model import as_tensors
            from coad.modes.estimator import CoincidenceModes

            lens.model = CoincidenceModes.from_facts(facts["model"], as_tensors(arrays))
        return lens


def _enough(group: NDArray[Any] | None) -> NDArray[Any] | None:
    """The groups, if each network can be trained without one of them."""
    return group if group is not None and len(np.unique(group)) >= _FEWEST_GROUPS else None


def _margins(confidence: NDArray[Any]) -> NDArray[Any]:
    """By how much each mode's confidence is above that of all others, 0 or more for the first choice."""
    if confidence.shape[1] < 2:
        return confidence - 0.5
    order = np.sort(confidence, axis=1)
    first, second = order[:, -1:], order[:, -2:-1]
    return np.asarray(np.where(confidence >= first, confidence - second, confidence - first))
