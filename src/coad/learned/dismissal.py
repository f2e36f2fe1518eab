"""Dismissing a kind of event, so that it is not flagged and other kinds are found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from sklearn.base import clone

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.assessment import RowScores
from coad.core.rule import Rule, reaches
from coad.data.pairs import take_rows, unpacked
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Dismissed", "alpha_without", "dismiss", "is_dismissed", "refit", "with_dismissed"]


class KindModel(Protocol):
    """A model of the kind of each event: :class:`coad.events.kinds.KindModel`, which this package must not import."""

    def kinds_of(self, det: CoAD, s: Any, q: Any, context: Any) -> IntArray:
        """The kind of each row."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""


@dataclass(frozen=True)
class Dismissed:
    """A dismissed kind: its number, the model of kinds, and the thresholds at which its events were found."""

    kind: int
    model: KindModel
    thresholds: tuple[float, float]
    product: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return vars(self) | {"model": self.model.to_dict()}


def with_dismissed(det: CoAD, kind: int) -> Rule:
    """The rule of a model, and one more kind dismissed."""
    rule = det.rule_
    if det.kinds_ is None:
        raise InputError("no kinds are known yet; call coad.events.kinds.find_kinds(det, s, q) first")
    if not 0 <= kind < det.kinds_.n_kinds:
        raise InputError(f"there is no kind {kind!r}; there are 0 to {det.kinds_.n_kinds - 1}")
    new = Dismissed(int(kind), det.kinds_.model, rule.thresholds, rule.product)
    return replace(rule, dismissed=(*rule.dismissed, new))


def dismiss(
    det: CoAD, kind: int, s: Any, q: Any, context: Any, known: tuple[FloatArray, FloatArray] | None = None
) -> None:
    """See :meth:`coad.CoAD.dismiss`; ``known`` are the confidences, if they are computed already."""
    old, new = det.rule_, with_dismissed(det, kind)
    det.rule_ = new
    if s is None:
        return
    s, q, context, _, _ = unpacked(s, q, context, None, None)
    p_s, p_q = det.confidences(s, q, context) if known is None else known
    dismissed = is_dismissed(det, s, q, context, (p_s, p_q))
    if dismissed.all():
        det.rule_ = old
        raise InputError("every row belongs to a dismissed kind, so no threshold can be tuned on them")
    flags = old.flags(p_s, p_q)
    det.rule_ = replace(new, alpha=alpha_without(new.alpha, flags, ~dismissed))
    scores = RowScores(p_s, p_q, p_s * p_q, flags & ~dismissed, dismissed=dismissed)
    det.tune_scores(scores, det.known_context(s, q, context))


def alpha_without(alpha: float, flagged: BoolArray, keep: BoolArray) -> float:
    """The anomaly rate of the rows that are kept: α is reduced by the share of the flagged rows that is not kept.

    >>> flagged, keep = np.arange(100) < 10, np.arange(100) >= 5
    >>> round(alpha_without(0.1, flagged, keep), 4)  # 5 of 95
    0.0526
    """
    left = (flagged & keep).sum() / max(flagged.sum(), 1)
    return float(max(alpha * left * len(keep), 1.0) / keep.sum())


def is_dismissed(
    det: CoAD, s: Any, q: Any, context: Any, known: tuple[FloatArray, FloatArray] | None = None
) -> BoolArray:
    """See :meth:`coad.CoAD.is_dismissed`; ``known`` are the confidences, if they are computed already."""
    s, q, context, _, _ = unpacked(s, q, context, None, None)
    result: BoolArray = np.zeros(len(s), dtype=np.bool_)
    rule = det.rule_
    if not rule.dismissed:
        return result
    p_s, p_q = det.confidences(s, q, context) if known is None else known
    now = rule.flags(p_s, p_q)
    for one in rule.dismissed:
        flagged = reaches(p_s, p_q, one.thresholds, one.product)
        rows = np.flatnonzero((flagged | now) & ~result)
        if len(rows):
            labels = None if context is None else np.asarray(context)[rows]
            kinds = one.model.kinds_of(det, take_rows(s, rows), take_rows(q, rows), labels)
            result[rows[kinds == one.kind]] = True
    return result


def refit(det: CoAD, s: Any, q: Any, context: Any) -> CoAD:
    """See :meth:`coad.CoAD.refit`."""
    if not det.rule_.dismissed:
        raise InputError("no kind was dismissed; call det.dismiss(kind) first")
    s, q, context, group, time = unpacked(s, q, context, None, None)
    keep = ~is_dismissed(det, s, q, context)
    kept = np.flatnonzero(keep)
    new: CoAD = clone(det)
    labels = {"context": context, "group": group, "time": time}
    known: dict[str, Any] = {name: None if x is None else np.asarray(x)[keep] for name, x in labels.items()}
    return new.fit(take_rows(s, kept), take_rows(q, kept), **known)
