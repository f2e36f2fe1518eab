"""coad: find anomalies without labels, by what two inputs see at once.

``import coad`` is light: the heavy parts (torch, plotly, the compiled search)
load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

if TYPE_CHECKING:  # what editors and type checkers see; at run time the names load when they are first used
    from coad.adapters.columns import ColumnDetector
    from coad.core.assessment import Evaluation
    from coad.core.metric import fbeta_hat, precision_hat, recall_hat
    from coad.core.moments import Moments
    from coad.core.protocol import Detector
    from coad.core.rule import Rule
    from coad.data.pairs import Pairs
    from coad.data.read import pairs_from_frame, read_pairs
    from coad.findings.estimator import Findings, find
    from coad.findings.finding import Finding
    from coad.learned.estimator import CoAD
    from coad.learned.net_spec import NetSpec
    from coad.learned.objective import CoincidenceLoss
    from coad.modes.estimator import CoincidenceModes
    from coad.thresholds.curves import beta_scan
    from coad.thresholds.detector import CoincidenceThreshold
    from coad.thresholds.result import ThresholdResult
    from coad.thresholds.selection import select_thresholds
    from coad.workflows.model_folder import load

__version__ = "0.2.0"

#: Public name → the module it lives in.
_HOME = {
    "CoAD": "coad.learned.estimator",
    "CoincidenceLoss": "coad.learned.objective",
    "CoincidenceModes": "coad.modes.estimator",
    "CoincidenceThreshold": "coad.thresholds.detector",
    "ColumnDetector": "coad.adapters.columns",
    "Detector": "coad.core.protocol",
    "Evaluation": "coad.core.assessment",
    "Finding": "coad.findings.finding",
    "Findings": "coad.findings.estimator",
    "Moments": "coad.core.moments",
    "NetSpec": "coad.learned.net_spec",
    "Pairs": "coad.data.pairs",
    "Rule": "coad.core.rule",
    "ThresholdResult": "coad.thresholds.result",
    "beta_scan": "coad.thresholds.curves",
    "fbeta_hat": "coad.core.metric",
    "find": "coad.findings.estimator",
    "load": "coad.workflows.model_folder",
    "pairs_from_frame": "coad.data.read",
    "precision_hat": "coad.core.metric",
    "read_pairs": "coad.data.read",
    "recall_hat": "coad.core.metric",
    "select_thresholds": "coad.thresholds.selection",
}

__all__ = [
    "CoAD",
    "CoincidenceLoss",
    "CoincidenceModes",
    "CoincidenceThreshold",
    "ColumnDetector",
    "Detector",
    "Evaluation",
    "Finding",
    "Findings",
    "Moments",
    "NetSpec",
    "Pairs",
    "Rule",
    "ThresholdResult",
    "__version__",
    "beta_scan",
    "fbeta_hat",
    "find",
    "load",
    "pairs_from_frame",
    "precision_hat",
    "read_pairs",
    "recall_hat",
    "select_thresholds",
]


if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
