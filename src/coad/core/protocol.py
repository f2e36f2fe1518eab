"""What every detector can do, whatever it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from coad._typing import BoolArray, FloatArray
from coad.core.assessment import Evaluation, RowScores
from coad.core.rule import Rule

__all__ = ["Detector"]


@runtime_checkable
class Detector(Protocol):
    """A detector of coincident anomalies: :class:`~coad.CoAD`, :class:`~coad.CoincidenceModes` or
    :class:`~coad.CoincidenceThreshold`.

    ``s`` and ``q`` are the two inputs, row by row, or one :class:`~coad.Pairs` as ``s``. All methods apply one rule,
    ``rule_``, and so do the commands.
    """

    @property
    def rule_(self) -> Rule:
        """What is flagged, and with which β and α it is measured."""

    @property
    def status_(self) -> str:
        """What the fit found: ``"found"``, ``"no coincidence"`` or ``"shared regime suspected"``."""

    def fit(self, s: Any, q: Any = None, *, context: Any = None) -> Any:
        """Learn from rows."""

    def score_rows(self, s: Any, q: Any = None) -> RowScores:
        """Confidences, score and decision of each row, in one pass."""

    def score_samples(self, s: Any, q: Any = None) -> FloatArray:
        """The anomaly score of each row; high = anomalous."""

    def predict(self, s: Any, q: Any = None) -> BoolArray:
        """Which rows are anomalies."""

    def evaluate(self, s: Any, q: Any = None) -> Evaluation:
        """What the rule finds in these rows and how sure that is, without labels."""

    def score(self, s: Any, q: Any = None, *, context: Any = None) -> float:
        """F̂ of the rule on these rows, for model selection; 0 where nothing coincides."""

    def save(self, folder: str | Path) -> None:
        """Write the detector to a folder; :func:`coad.load` reads it."""
