"""Models that travel: a saved detector as ONNX, as a LUME model or as an MLflow model.

>>> from coad.export import OnnxDetector, to_lume, to_mlflow, to_onnx
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

if TYPE_CHECKING:
    from coad.export.bundles import to_lume, to_mlflow
    from coad.export.onnx_detector import OnnxDetector
    from coad.export.onnx_file import Exported, to_onnx

__all__ = ["Exported", "OnnxDetector", "to_lume", "to_mlflow", "to_onnx"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "Exported": "coad.export.onnx_file",
            "OnnxDetector": "coad.export.onnx_detector",
            "to_lume": "coad.export.bundles",
            "to_mlflow": "coad.export.bundles",
            "to_onnx": "coad.export.onnx_file",
        },
    )
