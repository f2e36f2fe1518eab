"""``coad export``: a saved model as ONNX, as a LUME model or as an MLflow model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import out


class Target(StrEnum):
    """What a model is exported to."""

    onnx = "onnx"
    lume = "lume"
    mlflow = "mlflow"


def export(
    model: Annotated[Path, typer.Argument(help="Model folder, written by coad fit or by det.save.")],
    to: Annotated[Target, typer.Option(help="onnx: one file; lume, mlflow: a folder around it.")],
    output: Annotated[Path, typer.Option("--out", help="File (onnx) or folder (lume, mlflow) to write.")],
) -> None:
    """Export a model: scaling, networks, thresholds and decision in one ONNX graph, compared with Python first."""
    from coad.export import to_lume, to_mlflow, to_onnx
    from coad.workflows.model_folder import load

    write = {Target.onnx: to_onnx, Target.lume: to_lume, Target.mlflow: to_mlflow}[to]
    done = write(load(model), output)
    out(f"p_s, p_q and flagged as in Python on 1,000 rows (largest difference {done.difference:.1g})")
    out(f"one row: {done.one_row:.3f} ms with onnxruntime, {done.one_row_python:.3f} ms in Python")
    out(
        f"1,000 rows: {done.thousand_rows:.2f} ms with onnxruntime, {done.thousand_rows_python:.2f} ms in Python"
    )
    out(f"{to.value}: {output}")
