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
    "CoAD": "coad.learned",
    "CoincidenceLoss": "coad.objective",
    "CoincidenceModes": "coad.modes.estimator",
    "CoincidenceThreshold": "coad.detector",
    "Moments": "coad.metric",
    "NetSpec": "coad.nets",
    "Pairs": "coad.pairs",
    "ThresholdResult": "coad.thresholds",
    "beta_scan": "coad.curves",
    "fbeta_hat": "coad.metric",
    "load": "coad.learned",
    "precision_hat": "coad.metric",
    "recall_hat": "coad.metric",
    "read_pairs": "coad.io.read",
    "select_thresholds": "coad.thresholds",
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
