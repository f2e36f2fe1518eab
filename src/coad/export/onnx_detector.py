"""``OnnxDetector``: run an exported detector. Needs numpy and onnxruntime, and nothing else of coad.

Its source is also part of the LUME and MLflow models, so that they work where coad is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OnnxDetector"]


class OnnxDetector:
    """A detector that :func:`coad.export.to_onnx` wrote.

    Parameters
    ----------
    path
        The ``.onnx`` file.

    Attributes
    ----------
    columns_s, columns_q : list of str or None
        Names of the columns of both inputs, where rows are flat: those of the fit, or ``s_0``, ``s_1``, … None for windows
        and images.
    contexts : list or None
        The contexts that the scaling knows; a row of another one is scaled like all training rows together.
    facts : dict of str
        The rule in words, the status of the fit and the version of coad.
    """

    def __init__(self, path: str | Path) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.facts: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        if "coad_version" not in self.facts:
            raise ValueError(f"{path} was not written by coad")
        inputs = {one.name: one for one in self._session.get_inputs()}
        self.shape_s, self.shape_q = (tuple(inputs[name].shape[1:]) for name in "sq")
        self._dtype = np.float64 if inputs["s"].type == "tensor(double)" else np.float32
        names = json.loads(self.facts["columns"])
        self.columns_s, self.columns_q = (
            _columns(side, shape, own)
            for side, shape, own in zip("sq", (self.shape_s, self.shape_q), names, strict=True)
        )
        self.contexts: list[Any] | None = json.loads(self.facts["contexts"])

    def __call__(self, s: Any, q: Any, context: Any = None) -> dict[str, NDArray[Any]]:
        """``p_s``, ``p_q`` and ``flagged`` of some rows, each of shape (n,).

        Parameters
        ----------
        s, q
            Raw rows of both inputs, as the detector was fitted on.
        context
            The context of each row, if the model has contexts.
        """
        given = {"s": self._rows(s, "s", self.shape_s), "q": self._rows(q, "q", self.shape_q)}
        n = len(given["s"])
        if len(given["q"]) != n:
            raise ValueError(f"s has {n:,} rows and q has {len(given['q']):,}; they must match row by row")
        if self.contexts is not None:
            given["context"] = self._numbers(context, n)
        return dict(zip(("p_s", "p_q", "flagged"), self._session.run(None, given), strict=True))

    def of_columns(self, table: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The same from named columns: a DataFrame or a dict of arrays, with a column ``context`` where one is needed."""
        if self.columns_s is None or self.columns_q is None:
            raise ValueError("this model takes windows or images, not columns; call it with s and q")
        sides = [
            np.column_stack([table[name] for name in names]) for names in (self.columns_s, self.columns_q)
        ]
        return self(sides[0], sides[1], None if self.contexts is None else table["context"])

    def _rows(self, x: Any, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        rows = np.asarray(x, dtype=self._dtype)
        try:
            rows = rows.reshape(len(rows), *shape)
        except (ValueError, TypeError):
            raise ValueError(
                f"{name} has shape {rows.shape}; this model takes rows of shape {shape}"
            ) from None
        if not np.isfinite(rows).all():
            raise ValueError(f"{name} has missing or infinite values; drop these rows or fill them in")
        return rows

    def _numbers(self, context: Any, n: int) -> NDArray[np.int64]:
        """The place of each row's context in the list of the model; -1 for others."""
        assert self.contexts is not None
        labels = np.asarray(context).reshape(-1).tolist()
        if len(labels) != n or None in labels:
            raise ValueError(
                f"this model was fitted with contexts, for example {self.contexts[0]!r}: give one per row"
            )
        if isinstance(labels[0] if n else self.contexts[0], str) != isinstance(self.contexts[0], str):
            raise ValueError(
                f"contexts such as {labels[0]!r} are of another type than the model's {self.contexts[0]!r}"
            )
        place = {label: i for i, label in enumerate(self.contexts)}
        return np.array([place.get(label, -1) for label in labels], dtype=np.int64)


def _columns(side: str, shape: tuple[int, ...], names: list[str] | None) -> list[str] | None:
    """The names of the columns of an input with flat rows."""
    if len(shape) > 1:
        return None
    if not shape:
        return [side]
    return names or [f"{side}_{i}" for i in range(shape[0])]
