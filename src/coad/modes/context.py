"""Discovered regimes as the context of the binary method."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from coad.exceptions import InputError, NoCoincidenceWarning
from coad.learned.training.inputs import as_context
from coad.modes.estimator import CoincidenceModes

__all__ = ["fitted_context", "joined_context"]


def fitted_context(given: Any, s: Any, q: Any, *, group: Any = None, time: Any = None) -> CoincidenceModes:
    """The catalogue that was given; one that is not fitted yet is fitted on these rows first."""
    if not isinstance(given, CoincidenceModes):
        raise InputError(
            f"CoAD(context=...) takes a CoincidenceModes, not {type(given).__name__}; "
            "regimes that you know go to fit(s, q, context=...)"
        )
    if hasattr(given, "modes_"):
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCoincidenceWarning)  # no modes: one regime, the plain method
        fitted: CoincidenceModes = clone(given).fit(s, q, group=group, time=time)
    return fitted


def joined_context(modes: CoincidenceModes | None, s: Any, q: Any, context: Any) -> Any:
    """The context of each row: what was given, what was discovered, or both joined."""
    if modes is None:
        return context
    found = modes.regimes(s, q, context if modes.contexts_ is not None else None)
    if context is None:
        return found
    known = as_context(context, len(found))
    assert known is not None
    return np.array([f"{a} | {b}" for a, b in zip(known.tolist(), found.tolist(), strict=True)])
