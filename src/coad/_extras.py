"""Optional packages: which extra of coad brings a module that is not installed."""

from __future__ import annotations

from coad.exceptions import MissingPackageError

__all__ = ["missing_package"]

#: Top-level module → the extra that installs it.
_EXTRA = {
    "torch": "learn",
    "plotly": "plot",
    "fastapi": "app",
    "uvicorn": "app",
    "pyod": "bench",
    "openpyxl": "excel",
    "dask": "cluster",
    "distributed": "cluster",
    "paho": "mqtt",
    "confluent_kafka": "kafka",
    "p4p": "epics",
    "quixstreams": "stream",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "lume": "lume",
    "mlflow": "mlflow",
}


def missing_package(error: ModuleNotFoundError) -> MissingPackageError | None:
    """The error that says what to install, if the module that was not found belongs to an extra.

    >>> print(missing_package(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")))
    this needs torch, which is not installed: pip install 'coad[learn]'
    >>> missing_package(ModuleNotFoundError("No module named 'x'", name="x")) is None
    True
    """
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA:
        return None
    return MissingPackageError(
        f"this needs {module}, which is not installed: pip install 'coad[{_EXTRA[module]}]'"
    )
