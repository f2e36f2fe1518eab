"""Discovered regimes as the context of the binary method."""

from __future__ import annotations

import warnings
from typing import Any, Protocol, cast

import numpy as np
from sklearn.base import clone

from coad.exceptions import InputError, NoCoincidenceWarning
from coad.learned.training.inputs import as_context

__all__ = ["RegimeSource", "fitted_context", "joined_context"]


class RegimeSource(Protocol):
    """What names the regime of each row: :class:`coad.CoincidenceModes`, or an estimator of the user's like it."""

    contexts_: list[Any] | None

    def fit(self, s: Any, q: Any = None, *, group: Any = None, time: Any = None) -> RegimeSource:
        """Learn the regimes."""

    def regimes(self, s: Any, q: Any = None, context: Any = None) -> Any:
        """The regime of each row."""

    def to_facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What goes into JSON, and what into safetensors."""


def fitted_context(given: Any, s: Any, q: Any, *, group: Any = None, time: Any = None) -> RegimeSource:
    """The catalogue that was given; one that is not fitted yet is fitted on these rows first."""
    if not (hasattr(given, "regimes") and hasattr(given, "to_facts")):
        raise InputError(
            f"CoAD(context=...) takes a CoincidenceModes, not {type(given).__name__}; "
            "regimes that you know go to fit(s, q, context=...)"
        )
    if hasattr(given, "contexts_"):  # fitted
        return cast(RegimeSource, given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCoincidenceWarning)  # no modes: one regime, the plain method
        fitted: RegimeSource = clone(given).fit(s, q, group=group, time=time)
    return fitted


def joined_context(modes: RegimeSource | None, s: Any, q: Any, context: Any) -> Any:
    """The context of each row: what was given, what was discovered, or both joined."""
    if modes is None:
        return context
    found = modes.regimes(s, q, context if modes.contexts_ is not None else None)
    if context is None:
        return found
    known = as_context(context, len(found))
    assert known is not None
    return np.array([f"{a} | {b}" for a, b in zip(known.tolist(), found.tolist(), strict=True)])
