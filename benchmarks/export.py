"""Exported models: do they say what Python says, and how long do they take?"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import record, table

ROWS = 1_000


def run() -> None:
    import torch

    torch.set_num_threads(1)  # as onnxruntime below: one core against one core
    lines = [_line(name, detector, s, q) for name, detector, s, q in _models()]
    heads = (
        "model", "largest difference of p", "decisions that differ",
        "Python, a row", "onnxruntime, a row", f"Python, {ROWS:,} rows", f"onnxruntime, {ROWS:,} rows",
    )  # fmt: skip
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnx", "onnxruntime"))
    record(
        "export",
        f"Export: ONNX against Python on {ROWS:,} rows",
        table(heads, lines)
        + f"\n\n{packages}, one thread each. Differences are those of {ROWS:,} new rows, scaling and decision included; asked for: at "
        "most 1e-5, and the same decisions but within that of a threshold. Python: `score_rows`; onnxruntime: the whole graph "
        "from raw s and q to p_s, p_q and flagged. Times: the median of 30 calls, in turn.",
    )


def _models() -> list[tuple[str, Any, Any, Any]]:
    """Quick fits, whose quality does not matter, and new rows for each."""
    from makers import event_rows

    import coad

    found = []
    fit = {"n_starts": 1, "epochs": 5, "random_state": 0}
    for name, shape, more in (
        ("networks, 6 columns an input", (6,), {}),
        ("networks, windows of 2 × 64", (2, 64), {}),
        ("networks, images of 1 × 14 × 14", (1, 14, 14), {}),
        ("an ensemble of three, 6 columns", (6,), {"n_starts": 3, "ensemble": True}),
    ):
        s, q, _ = event_rows(600, shape, rate=0.08, shift=(3, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            detector = coad.CoAD(**fit | more).fit(s, q)
        # Confidences of quick fits lie anywhere: thresholds among them make the decisions of both kinds.
        scores = detector.score_rows(s, q)
        detector.set_threshold(
            p_s=float(np.quantile(scores.p_s, 0.8)), p_q=float(np.quantile(scores.p_q, 0.8))
        )
        found.append((name, detector, *event_rows(ROWS, shape, rate=0.08, shift=(3, 3), seed=1)[:2]))
    return found


def _line(name: str, detector: Any, s: np.ndarray, q: np.ndarray) -> tuple[object, ...]:
    import onnxruntime

    from coad.export import OnnxDetector, to_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(detector, path)
        exported = OnnxDetector(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    ours, theirs = detector.score_rows(s, q), exported(s, q)
    worst = max(np.abs(theirs["p_s"] - ours.p_s).max(), np.abs(theirs["p_q"] - ours.p_q).max())
    other = int((theirs["flagged"] != ours.flag).sum())
    inputs = dict(zip((one.name for one in session.get_inputs()), (s, q), strict=True))
    times = []
    for n in (1, ROWS):
        few = {key: np.ascontiguousarray(rows[:n], dtype=np.float32) for key, rows in inputs.items()}
        times += _in_turn(
            lambda n=n: detector.score_rows(s[:n], q[:n]), lambda few=few: session.run(None, few)
        )
    return (name, f"{worst:.1e}", f"{other} of {ROWS:,}", *(f"{1e3 * one:.3f} ms" for one in times))


def _in_turn(first: Callable[[], Any], second: Callable[[], Any], times: int = 30) -> list[float]:
    """The median time of each of two calls, made in turn, so that both meet the same machine."""
    took: list[list[float]] = [[], []]
    for _ in range(times + 3):
        for own, call in zip(took, (first, second), strict=True):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return [statistics.median(own[3:]) for own in took]
