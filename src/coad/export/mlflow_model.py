"""An exported detector as an MLflow model: the code that MLflow keeps and runs ("models from code", no pickle).

Flat rows come as a table with the columns of both inputs (and ``context``), windows and images as arrays ``s`` and ``q``.
"""

from __future__ import annotations

from typing import Any

import mlflow.models
import mlflow.pyfunc
import pandas as pd

from coad.export.onnx_detector import OnnxDetector

__all__ = ["Model"]


class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A detector as an MLflow Python model; its artefact ``onnx`` is the ONNX file."""

    def load_context(self, context: Any) -> None:
        """Open the ONNX file; MLflow calls this when the model is loaded."""
        self.detector = OnnxDetector(context.artifacts["onnx"])

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow takes types for a schema
        """A table of ``p_s``, ``p_q`` and ``flagged``, with the index of the table that came in."""
        if self.detector.columns_s is None:
            found = self.detector(model_input["s"], model_input["q"], model_input.get("context"))
        else:
            found = self.detector.of_columns(model_input)
        return pd.DataFrame(found, index=getattr(model_input, "index", None))


mlflow.models.set_model(Model())
