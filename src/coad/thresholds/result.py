"""What a search for thresholds answers: two thresholds, what they find, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from coad._typing import ArrayLike, BoolArray
from coad.core.background import INDEPENDENT, Background
from coad.core.inference import Intervals, PermutationTest
from coad.core.validation import as_score, finite_rows
from coad.core.verdict import Status, Suspicion

__all__ = ["Candidate", "ThresholdResult"]


@dataclass(frozen=True)
class Candidate:
    """The best pair of thresholds on the data, whether or not it is to be believed."""

    threshold_s: float
    threshold_q: float
    alpha: float
    fbeta_hat: float
    precision_hat: float
    recall_hat: float
    joint_fraction: float
    n_joint: int
    n_s: int
    n_q: int


@dataclass(frozen=True)
class ThresholdResult:
    """Two thresholds, what they find, and how sure that is.

    A row is flagged where ``score_s >= threshold_s`` and ``score_q >= threshold_q``. When ``status`` is
    ``"no coincidence"`` both are ``inf``, so nothing is ever flagged and the estimates are 0; the best pair that was
    *not* believed is kept in ``candidate``.
    """

    threshold_s: float
    threshold_q: float
    beta: float
    alpha: float
    fbeta_hat: float
    precision_hat: float
    recall_hat: float
    joint_fraction: float
    n_joint: int
    n_rows: int
    status: Status
    message: str
    suspicions: tuple[Suspicion, ...]  # why it is not simply "found"
    p_value: float | None  # pairings shuffled
    shift_p_value: float | None  # one input moved in time
    interval: tuple[float, float] | None  # of F̂, 95 %
    intervals: Intervals | None  # of F̂, P̂, R̂ and α
    n_permutations: int
    n_shifts: int  # fewer than n_permutations when there are millions of rows
    alpha_source: Literal["auto", "given"]
    n_strata: int
    candidate: Candidate | None
    background: Background = INDEPENDENT  # how chance was counted, and why
    tail_p_value: float | None = None  # draws of a t-copula that has the tails of the data
    test: PermutationTest | None = field(repr=False, compare=False, default=None)

    @property
    def correlation(self) -> float:
        """ρ of the background; 0 if it is independent."""
        return self.background.rho

    def predict(self, score_s: ArrayLike, score_q: ArrayLike) -> BoolArray:
        """True where both scores reach their thresholds; missing or infinite scores are refused."""
        s, q = as_score(score_s, "score_s"), as_score(score_q, "score_q")
        finite_rows(s, q, "error", remedy="leave those rows out or fill them before predicting", min_rows=0)
        flags: BoolArray = (s >= self.threshold_s) & (q >= self.threshold_q)
        return flags

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON (infinite values as strings)."""
        from coad.data.model_files import to_json

        return {key: to_json(value) for key, value in asdict(self).items() if key != "test"}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ThresholdResult:
        """The inverse of :meth:`to_dict`; the shuffled searches themselves are not kept."""

        from coad.data.model_files import from_json

        def pairs(values: Mapping[str, Any]) -> dict[str, Any]:
            return {
                key: tuple(one) if isinstance(one, list) else one for key, one in from_json(values).items()
            }

        known = pairs(plain)
        parts = (("intervals", Intervals), ("candidate", Candidate), ("background", Background))
        for key, kind in parts:
            if known.get(key) is not None:
                known[key] = kind(**pairs(known[key]))
        known["suspicions"] = tuple(Suspicion(one["code"], one["numbers"]) for one in plain["suspicions"])
        return cls(**known)
