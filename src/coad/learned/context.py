"""Regimes that :class:`~coad.CoincidenceModes` discovers as the context of a :class:`~coad.CoAD`."""

from __future__ import annotations

import warnings
from typing import Any, Protocol, cast

import numpy as np
from sklearn.base import clone

from coad.exceptions import InputError, NoCoincidenceWarning
from coad.learned.training.inputs import as_context

__all__ = ["RegimeSource", "fitted_context", "joined_context"]


class RegimeSource(Protocol):
    """An estimator of the regime of each row: :class:`coad.CoincidenceModes`, or one with the same methods."""

    contexts_: list[Any] | None

    def fit(self, s: Any, q: Any = None, *, group: Any = None, time: Any = None) -> RegimeSource:
        """Learn the regimes."""

    def regimes(self, s: Any, q: Any = None, context: Any = None) -> Any:
        """The regime of each row."""

    def to_facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The content of the JSON and of the safetensors file."""


def fitted_context(given: Any, s: Any, q: Any, *, group: Any = None, time: Any = None) -> RegimeSource:
    """The given estimator of regimes; a clone of it is fitted on these rows if it is not fitted yet."""
    if not (hasattr(given, "regimes") and hasattr(given, "to_facts")):
        raise InputError(
            f"CoAD(context=...) takes a CoincidenceModes, not {type(given).__name__}; "
            "pass known regimes to fit(s, q, context=...)"
        )
    if hasattr(given, "contexts_"):  # fitted
        return cast(RegimeSource, given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCoincidenceWarning)  # no modes: one regime, the plain method
        fitted: RegimeSource = clone(given).fit(s, q, group=group, time=time)
    return fitted


def joined_context(modes: RegimeSource | None, s: Any, q: Any, context: Any) -> Any:
    """The context of each row: given, discovered, or both joined."""
    if modes is None:
        return context
    found = modes.regimes(s, q, context if modes.contexts_ is not None else None)
    if context is None:
        return found
    known = as_context(context, len(found))
    assert known is not None
    return np.array([f"{a} | {b}" for a, b in zip(known.tolist(), found.tolist(), strict=True)])
