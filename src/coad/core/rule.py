"""The decision rule of a detector as a value: what is flagged, and what F̂ is measured with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.validation import check_beta
from coad.exceptions import InputError

__all__ = ["HALF", "NEVER", "Rule", "reaches"]

#: Both networks are trained towards 0 and 1, so that one half parts the two.
HALF = (0.5, 0.5)
#: Thresholds that no row reaches.
NEVER = (math.inf, math.inf)


def reaches(
    p_s: FloatArray, p_q: FloatArray, thresholds: tuple[float, float], product: float | None = None
) -> BoolArray:
    """Which rows reach both thresholds or, if there is one for the product p_s·p_q, that one.

    >>> reaches(np.array([0.9, 0.8]), np.array([0.9, 0.4]), (0.5, 0.5))
    array([ True, False])
    """
    if product is not None:
        return np.asarray(p_s * p_q >= product)
    return np.asarray((p_s >= thresholds[0]) & (p_q >= thresholds[1]))


@dataclass(frozen=True)
class Rule:
    """What a detector flags, and the figures that go with it.

    Every command and the Python API apply the rule of the model folder. To choose another is a step of its own:
    ``det.tune``, ``coad tune`` or *Save this rule* in the explorer.

    Parameters
    ----------
    beta
        The weight of recall against precision in F̂.
    alpha, alpha_given
        The anomaly rate; whether a person gave it, or it was estimated.
    thresholds
        A row is flagged if both confidences reach theirs. Infinite: nothing is flagged.
    product
        If not None, a row is flagged if p_s·p_q reaches this, in place of ``thresholds``.
    background
        Where chance is counted: over all rows, or within each context.
    dismissed
        Kinds of events that are not flagged.
    roles
        For a catalogue: the role of each mode. Rows of rare modes are flagged.
    findings
        For findings: what each is, ``"flagged"`` or ``"listed"`` by default, ``"event"``, ``"normal"`` or ``"ignore"`` if
        a person decided so. Rows of flagged findings and of events are flagged.
    correlation, correlation_uncertainty
        The correlation of the normal rows with which chance is counted, and its standard error
        (:mod:`coad.core.background`); 0: as if the inputs were independent.

    >>> rule = Rule(beta=1.0, alpha=0.1)
    >>> rule.flags(np.array([0.9, 0.6]), np.array([0.7, 0.4]))
    array([ True, False])
    """

    beta: float
    alpha: float
    alpha_given: bool = False
    thresholds: tuple[float, float] = HALF
    product: float | None = None
    background: Literal["all rows", "context"] = "all rows"
    dismissed: tuple[Any, ...] = ()
    roles: Mapping[int, str] = field(default_factory=dict, hash=False)
    findings: Mapping[int, str] = field(default_factory=dict, hash=False)
    correlation: float = 0.0
    correlation_uncertainty: float = 0.0

    def __post_init__(self) -> None:
        check_beta(self.beta)
        if not 0 <= self.alpha <= 1 or (self.product is not None and math.isnan(self.product)):
            raise InputError(f"a rule cannot have alpha = {self.alpha!r} and product = {self.product!r}")
        if not 0 <= self.correlation < 1 or not self.correlation_uncertainty >= 0:
            raise InputError(
                f"a rule cannot have a correlation of {self.correlation!r} ± {self.correlation_uncertainty!r}"
            )
        pair = tuple(float(value) for value in self.thresholds)
        if len(pair) != 2 or any(math.isnan(value) for value in pair):
            raise InputError(f"the thresholds must be two numbers, not {self.thresholds!r}")
        object.__setattr__(self, "thresholds", pair)

    def __str__(self) -> str:
        return self.words()

    def flags(self, p_s: FloatArray, p_q: FloatArray) -> BoolArray:
        """Which rows the thresholds flag; dismissed kinds are the detector's to find."""
        return reaches(p_s, p_q, self.thresholds, self.product)

    def memberships(self, p_s: FloatArray, p_q: FloatArray) -> tuple[Any, Any]:
        """What each input says of a row, true or false or from 0 to 1: the moments of both give F̂, P̂ and R̂.

        With two thresholds these are the flags of each input. A threshold of the product, and the modes of a
        catalogue, decide for both inputs together; then they are the confidences.
        """
        if self.product is not None or self.roles or self.findings:
            return p_s, p_q
        return p_s >= self.thresholds[0], p_q >= self.thresholds[1]

    def words(self) -> str:
        """The rule in words."""
        if self.roles:
            rare = sorted(mode for mode, role in self.roles.items() if role == "rare")
            return f"rows of the rare modes ({', '.join(map(str, rare)) or 'there are none'})"
        if self.findings:
            flagged = [k for k, what in self.findings.items() if what in ("flagged", "event")]
            return f"rows of the flagged findings ({', '.join(map(str, flagged)) or 'there are none'})"
        if self.product is not None:
            text = f"p_s·p_q ≥ {self.product:.4g}"
        elif math.inf in self.thresholds:
            text = "nothing is flagged"
        else:
            text = f"p_s ≥ {self.thresholds[0]:.4g} and p_q ≥ {self.thresholds[1]:.4g}"
        if self.dismissed:
            text += f", without {len(self.dismissed)} dismissed kind{'s'[: len(self.dismissed) != 1]}"
        return text

    def changes(self, new: Rule) -> str:
        """What another rule does differently, in words; empty if nothing.

        >>> Rule(1.0, 0.1).changes(Rule(0.5, 0.1, thresholds=(0.9, 0.8)))
        'p_s ≥ 0.5 and p_q ≥ 0.5 → p_s ≥ 0.9 and p_q ≥ 0.8; β 1 → 0.5'
        """
        parts = []
        parts_of = ("thresholds", "product", "dismissed", "roles", "findings")
        if any(getattr(self, name) != getattr(new, name) for name in parts_of):
            parts.append(f"{self.words()} → {new.words()}")
        for name, old, value in (
            ("β", self.beta, new.beta),
            ("α", self.alpha, new.alpha),
            ("ρ", self.correlation, new.correlation),
        ):
            if old != value:
                parts.append(f"{name} {old:.4g} → {value:.4g}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; dismissed kinds by their own ``to_dict``."""
        return {
            "beta": self.beta,
            "alpha": self.alpha,
            "alpha_given": self.alpha_given,
            "thresholds": list(self.thresholds),
            "product": self.product,
            "background": self.background,
            "dismissed": [one.to_dict() for one in self.dismissed],
            "roles": {str(mode): role for mode, role in self.roles.items()},
            "findings": {str(number): what for number, what in self.findings.items()},
            "correlation": self.correlation,
            "correlation_uncertainty": self.correlation_uncertainty,
        }
