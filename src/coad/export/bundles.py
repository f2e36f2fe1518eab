"""``to_lume`` and ``to_mlflow``: folders that hold the ONNX file and the code that runs it, without pickle or coad."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coad.data.atomic import check_name, written_folder
from coad.exceptions import FileError, InputError
from coad.export.onnx_detector import OnnxDetector
from coad.export.onnx_file import Exported, quiet, to_onnx

__all__ = ["to_lume", "to_mlflow"]

_HERE = Path(__file__).parent
#: A file that only a folder of the kind has: such a folder is replaced, any other is left alone.
_LUME_MARK, _MLFLOW_MARK = "model.onnx", "MLmodel"


def to_lume(detector: Any, folder: str | Path, rows: tuple[Any, ...] | None = None) -> Exported:
    """Write a folder with a LUME model: ``from model import Model`` there, with lume-base and onnxruntime.

    Parameters
    ----------
    detector, rows
        As in :func:`coad.export.to_onnx`.
    folder : path
        A new folder, or one that this function wrote.

    Returns
    -------
    Exported
    """
    import lume  # noqa: F401  # says what to install before any work is done

    folder = _target(folder, _LUME_MARK)
    with tempfile.TemporaryDirectory() as place:
        done = to_onnx(detector, Path(place, "model.onnx"), rows)
        own = OnnxDetector(done.path)
        names = [*(own.columns_s or ("s",)), *(own.columns_q or ("q",))]
        _refuse_clashes([*names, "context", "p_s", "p_q", "flagged"])
        with written_folder(folder) as draft:
            (draft / "model.onnx").write_bytes(done.path.read_bytes())
            (draft / "model.py").write_text(_code("lume_model.py"), encoding="utf-8")
            (draft / "requirements.txt").write_text("lume-base\nnumpy\nonnxruntime\n")
    return replace(done, path=folder)


def to_mlflow(detector: Any, folder: str | Path, rows: tuple[Any, ...] | None = None) -> Exported:
    """Write a folder with an MLflow model: ``mlflow.pyfunc.load_model(folder).predict(table)``.

    It has a signature and an input example of five rows. The ONNX file is its artefact, the code is kept as text.

    Parameters
    ----------
    detector, rows
        As in :func:`coad.export.to_onnx`; the first of the rows, if given, are the input example.
    folder : path
        A new folder, or one that this function wrote.

    Returns
    -------
    Exported
    """
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import infer_signature

    folder = _target(folder, _MLFLOW_MARK)
    with tempfile.TemporaryDirectory() as place:
        done = to_onnx(detector, Path(place, "model.onnx"), rows)
        own = OnnxDetector(done.path)
        example = _example(own, rows)
        if own.columns_s is None:
            found = own(**example)
        else:
            _refuse_clashes([*own.columns_s, *(own.columns_q or ()), "context"])
            found, example = own.of_columns(example), pd.DataFrame(example)
        code = Path(place, "model.py")
        code.write_text(_code("mlflow_model.py"), encoding="utf-8")
        with written_folder(folder) as draft, quiet("mlflow"):
            mlflow.pyfunc.save_model(
                draft,
                python_model=str(code),
                artifacts={"onnx": str(done.path)},
                signature=infer_signature(example, pd.DataFrame(found)),
                input_example=example,
                pip_requirements=["mlflow-skinny", "numpy", "onnxruntime", "pandas"],
            )
    return replace(done, path=folder)


def _example(own: OnnxDetector, rows: tuple[Any, ...] | None) -> dict[str, Any]:
    """Five rows as columns, or as arrays s and q for windows and images; zeros if there are none."""
    given = rows or [np.zeros((5, *shape)) for shape in (own.shape_s, own.shape_q)]
    context = None if own.contexts is None else np.resize(own.contexts if rows is None else rows[2], 5)
    s, q = (np.asarray(x)[:5].astype(np.float32) for x in given[:2])
    if own.columns_s is None or own.columns_q is None:
        found: dict[str, Any] = {"s": s, "q": q}
    else:
        sides = ((own.columns_s, s), (own.columns_q, q))
        found = {
            name: column.astype(np.float64)
            for names, x in sides
            for name, column in zip(names, x.reshape(len(x), -1).T, strict=True)
        }
    return found if context is None else {**found, "context": context[: len(s)]}


def _code(name: str) -> str:
    """The source of a module of this package as one file that works without coad: the runtime, then the module."""
    runtime, own = ((_HERE / one).read_text(encoding="utf-8") for one in ("onnx_detector.py", name))
    for line in (
        "from __future__ import annotations\n",
        "from coad.export.onnx_detector import OnnxDetector\n",
    ):
        own = own.replace(line, "")
    return f"{runtime}\n\n{own}"


def _refuse_clashes(names: list[str]) -> None:
    """Columns become variables by name, so no two may have the same."""
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two variables would be called {name!r}; rename that column and fit again")


def _target(folder: str | Path, mark: str) -> Path:
    folder = Path(folder).absolute()
    check_name(folder)
    if folder.exists() and not (folder.is_dir() and ((folder / mark).is_file() or not any(folder.iterdir()))):
        raise FileError(f"{folder} exists and is not such an export; choose another --out, or delete it")
    return folder
