"""coad: find anomalies without labels, by what two inputs see at once.

``import coad`` is light: the heavy parts (torch, plotly, the compiled search)
load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name → the module it lives in.
_HOME = {
    "CoAD": "coad.learned.estimator",
    "CoincidenceLoss": "coad.learned.objective",
    "CoincidenceModes": "coad.modes.estimator",
    "CoincidenceThreshold": "coad.thresholds.detector",
    "Moments": "coad.core.metric",
    "NetSpec": "coad.learned.nets",
    "Pairs": "coad.data.pairs",
    "ThresholdResult": "coad.thresholds.selection",
    "beta_scan": "coad.thresholds.curves",
    "fbeta_hat": "coad.core.metric",
    "load": "coad.learned.estimator",
    "precision_hat": "coad.core.metric",
    "recall_hat": "coad.core.metric",
    "read_pairs": "coad.data.read",
    "select_thresholds": "coad.thresholds.selection",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'coad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
