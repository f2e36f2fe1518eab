"""A LUME model over an exported detector: set s and q of one row, get p_s, p_q and flagged.

Its source lies beside the ONNX file as ``model.py``, where ``Model()`` needs lume-base, numpy and onnxruntime only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from lume.model import LUMEModel
from lume.variables import BoolVariable, NDVariable, ScalarVariable, StrVariable, Variable

from coad.export.onnx_detector import OnnxDetector

__all__ = ["Model"]


class Model(LUMEModel):  # type: ignore[misc]
    """A detector as a LUME model.

    Its variables are the columns of both inputs (arrays ``s`` and ``q`` where rows are windows or images), ``context``
    where the model has contexts, and the read-only ``p_s``, ``p_q`` and ``flagged``.

    Parameters
    ----------
    path
        The ONNX file; without it, ``model.onnx`` beside this file.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.detector = OnnxDetector(path or Path(__file__).with_name("model.onnx"))
        own, outputs = self.detector, {"p_s": ScalarVariable, "p_q": ScalarVariable, "flagged": BoolVariable}
        self._variables: dict[str, Variable] = {}
        for side, names, shape in (("s", own.columns_s, own.shape_s), ("q", own.columns_q, own.shape_q)):
            if names is None:
                self._variables[side] = NDVariable(name=side, shape=shape, dtype=np.dtype(np.float32))
            else:
                self._variables |= {name: ScalarVariable(name=name, default_value=0.0) for name in names}
        if own.contexts is not None:
            kind = StrVariable if isinstance(own.contexts[0], str) else ScalarVariable
            self._variables["context"] = kind(name="context", default_value=own.contexts[0])
        self._inputs = list(self._variables)
        self._variables |= {name: kind(name=name, read_only=True) for name, kind in outputs.items()}
        self.reset()

    @property
    def supported_variables(self) -> dict[str, Variable]:
        """The variables by name."""
        return self._variables

    def reset(self) -> None:
        """Set all inputs to 0, and the context to the first one."""
        self._state: dict[str, Any] = {
            name: np.zeros(one.shape, one.dtype) if isinstance(one, NDVariable) else one.default_value
            for name, one in ((name, self._variables[name]) for name in self._inputs)
        }
        self._set({})

    def _set(self, values: dict[str, Any]) -> None:
        state = self._state | values
        rows = {name: np.asarray(value)[None] for name, value in state.items() if name in self._inputs}
        if "s" in rows and self.detector.columns_s is None:
            found = self.detector(rows["s"], rows["q"], rows.get("context"))
        else:
            found = self.detector.of_columns(rows)
        self._state = state | {
            "p_s": float(found["p_s"][0]),
            "p_q": float(found["p_q"][0]),
            "flagged": bool(found["flagged"][0]),
        }

    def _get(self, names: list[str]) -> dict[str, Any]:
        return {name: self._state[name] for name in names}
