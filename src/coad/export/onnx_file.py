"""``to_onnx``: a detector as one ONNX file, compared with Python before it is written."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxscript  # noqa: F401  # torch's exporter asks for it too late to say so in a line
import torch
from numpy.typing import NDArray

from coad import __version__
from coad._typing import BoolArray
from coad.core.assessment import RowScores
from coad.data.atomic import check_writable, written_whole
from coad.exceptions import CoadWarning, InputError
from coad.export.graph import DetectorGraph, graph_of
from coad.export.onnx_detector import OnnxDetector
from coad.learned.scaling import Scaler

__all__ = ["Exported", "quiet", "to_onnx"]

#: Rows of the comparison with Python, and the largest difference of a confidence that is let through.
ROWS, TOLERANCE = 1000, 1e-5
#: The operators' version: the first with which torch's exporter needs no conversion.
_OPSET = 20
#: Rows of the comparison lie this many deviations from the mean: inside the training rows, at their edge, far outside.
_SPREADS = (0.5, 2.0, 8.0)
#: Each timing is the best of so many runs.
_RUNS = 7


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compares with Python.

    ``difference`` is the largest difference of p_s or p_q; times are in milliseconds, for one row and for 1,000.
    """

    path: Path
    difference: float
    n_flagged: int
    one_row: float
    one_row_python: float
    thousand_rows: float
    thousand_rows_python: float


def to_onnx(detector: Any, path: str | Path, rows: tuple[Any, ...] | None = None) -> Exported:
    """Write a detector as an ONNX file with scaling, both networks, thresholds and the decision inside.

    The graph takes raw rows ``s`` and ``q`` (and ``context``, where the model scales per context: the place of the label
    in the file's list, -1 for others) and gives ``p_s``, ``p_q`` and ``flagged``, for any number of rows.
    :class:`~coad.export.OnnxDetector` runs it.

    Parameters
    ----------
    detector : CoAD or CoincidenceThreshold
        Fitted. A threshold detector must be one of plain scores.
    path : path
        The file; it is written only if it gives what Python gives, to 1e-5 in both confidences.
    rows : (s, q) or (s, q, context), optional
        Rows for the comparison; without them, 1,000 are drawn around the training rows.

    Returns
    -------
    Exported

    >>> import coad, tempfile
    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 900)); s[:60] += 5; q[:60] += 5
    >>> det = coad.CoincidenceThreshold(ordered=False).fit(s, q)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = to_onnx(det, folder + "/thresholds.onnx", rows=(s, q))
    ...     out = OnnxDetector(done.path)(s, q)
    >>> bool((out["flagged"] == det.predict(s, q)).all()), done.difference
    (True, 0.0)
    """
    path = check_writable(Path(path))
    graph = graph_of(detector).eval()
    given = _drawn(detector, graph) if rows is None else _checked(rows)
    model = _traced(graph)
    _describe(model, detector, graph)
    with written_whole(path) as draft:
        onnx.checker.check_model(model)
        onnx.save(model, draft)
        done = _compared(detector, graph, draft, given)
    return Exported(path, *done)


def _traced(graph: DetectorGraph) -> Any:
    """The ONNX model of a graph."""
    some = [torch.zeros((3, *shape), dtype=graph.dtype) for shape in graph.shapes]
    names = ["s", "q"]
    if graph.contexts is not None:
        some.append(torch.zeros(3, dtype=torch.int64))
        names.append("context")
    batch = torch.export.Dim("rows")
    try:
        with quiet("torch"):
            program = torch.onnx.export(
                graph,
                tuple(some),
                dynamo=True,
                opset_version=_OPSET,
                input_names=names,
                output_names=["p_s", "p_q", "flagged"],
                dynamic_shapes=({0: batch},) * len(some),
                verbose=False,
            )
    except Exception as error:  # whatever a network of the user's own does while it is traced
        reason = next(
            (line for line in str(error.__cause__ or error).splitlines() if line.strip()), repr(error)
        )
        raise InputError(
            f"a network of this model cannot be traced for ONNX ({reason.strip():.200}); use a NetSpec, or a module "
            "whose forward has no Python branches on values and takes any number of rows"
        ) from error
    assert program is not None
    return program.model_proto


def _describe(model: Any, detector: Any, graph: DetectorGraph) -> None:
    facts = {
        "coad_version": __version__,
        "detector": type(detector).__name__,
        "rule": detector.rule_.words(),
        "status": detector.status_,
        "columns": json.dumps(graph.names),
        "contexts": json.dumps(graph.contexts),
    }
    for node in model.graph.node:  # the exporter notes lines of source there, with folders of this machine
        del node.metadata_props[:]
        node.doc_string = ""
    onnx.helper.set_model_props(model, facts)
    model.producer_name, model.producer_version = "coad", __version__


def _compared(
    detector: Any, graph: DetectorGraph, path: Path, rows: tuple[Any, ...]
) -> tuple[float, int, float, float, float, float]:
    """The difference from Python, and the times of both; an error if they differ."""
    own = OnnxDetector(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        expected, found = detector.score_rows(*rows), own(*rows)
        off = np.maximum(abs(expected.p_s - found["p_s"]), abs(expected.p_q - found["p_q"]))
        difference = float(off.max())
        flips = int(((expected.flag != found["flagged"]) & ~_at_threshold(graph, expected)).sum())
        if not difference <= TOLERANCE or flips:
            raise InputError(
                f"the ONNX graph differs from Python on {len(off):,} rows, by {difference:.2g} in a confidence ({TOLERANCE:g} is "
                f"allowed) and in {flips} decisions; nothing was written"
            )
        one, many = (tuple(np.resize(np.asarray(x), (n, *np.shape(x)[1:])) for x in rows) for n in (1, ROWS))
        return (
            difference,
            int(found["flagged"].sum()),
            _best_time(lambda: own(*one)),
            _best_time(lambda: detector.score_rows(*one)),
            _best_time(lambda: own(*many)),
            _best_time(lambda: detector.score_rows(*many)),
        )


def _at_threshold(graph: DetectorGraph, scores: RowScores) -> BoolArray:
    """Rows of which a confidence is so close to a threshold that rounding may decide."""
    rule = graph.rule
    if graph.shapes == ((), ()):  # scores are compared as they are
        return np.zeros(len(scores.flag), dtype=np.bool_)
    if rule.product is not None:
        return np.asarray(abs(scores.score - rule.product) <= 2 * TOLERANCE)
    off = [abs(p - t) for p, t in zip((scores.p_s, scores.p_q), rule.thresholds, strict=True)]
    return np.asarray(np.minimum(*off) <= TOLERANCE)


def _best_time(work: Callable[[], Any]) -> float:
    """Milliseconds of the quickest of some runs."""
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def _drawn(detector: Any, graph: DetectorGraph) -> tuple[Any, ...]:
    """Rows around those of the training, by mean and deviation of each column or channel."""
    rng = np.random.default_rng(0)
    if graph.shapes == ((), ()):
        ladders = detector._ladder_s, detector._ladder_q
        sign = -1.0 if detector.orientation == "low" else 1.0
        return tuple(sign * rng.choice(one, ROWS) for one in ladders)
    scalers = detector.scaler_s_, detector.scaler_q_
    found: list[Any] = [
        _around(scaler, shape, rng) for scaler, shape in zip(scalers, graph.shapes, strict=True)
    ]
    if detector.contexts_ is not None:
        found.append(np.resize(np.asarray(detector.contexts_), ROWS))
    return tuple(found)


def _around(scaler: Scaler | None, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    rows = rng.normal(size=(ROWS, *shape)) * np.resize(_SPREADS, ROWS).reshape(-1, *(1,) * len(shape))
    if scaler is not None:
        wide = (slice(None),) + (None,) * (len(shape) - 1)
        rows = scaler.mean[0][wide] + scaler.std[0][wide] * rows
    return np.asarray(rows, dtype=np.float32)


def _checked(rows: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(rows) not in (2, 3) or not len(rows[0]):
        raise InputError("rows must be (s, q) or (s, q, context), with at least one row")
    return rows


@contextmanager
def quiet(package: str) -> Iterator[None]:
    """Without a package's own notes: of other packages that it does not find, of what it does."""
    logger = logging.getLogger(package)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
