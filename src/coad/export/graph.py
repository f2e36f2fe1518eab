"""A detector as one torch module: raw rows of s and q in; p_s, p_q and the decision out.

What stands here restates :class:`~coad.learned.scaling.Scaler` and :meth:`coad.CoincidenceThreshold.score_rows` with
operations that ONNX has; :func:`coad.export.to_onnx` compares both with Python before it writes a file.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coad.core.rule import Rule
from coad.exceptions import InputError
from coad.findings.estimator import Findings
from coad.learned.estimator import CoAD
from coad.learned.nets import StackedNet
from coad.learned.scaling import Scaler
from coad.learned.training.model import Scorer
from coad.modes.estimator import CoincidenceModes
from coad.thresholds.detector import CoincidenceThreshold

__all__ = ["DetectorGraph", "graph_of"]


def graph_of(detector: Any) -> DetectorGraph:
    """The graph of a fitted detector, or an error that says in a line why it has none."""
    if isinstance(detector, CoincidenceThreshold):
        return _graph_of_thresholds(detector)
    if isinstance(detector, CoAD):
        return _graph_of_networks(detector)
    if isinstance(detector, Findings):
        why = "findings (nearest neighbours and fitted scorers of scikit-learn) have no form in ONNX"
    elif isinstance(detector, CoincidenceModes):
        why = "a catalogue of modes (transforms and groups of networks) has no form in ONNX"
    else:
        raise InputError(f"a {type(detector).__name__} cannot be exported; CoAD and CoincidenceThreshold can")
    raise InputError(f"{why}; export a CoAD or a CoincidenceThreshold, or score with coad score")


class DetectorGraph(nn.Module):
    """Two branches and the rule that joins them.

    Parameters
    ----------
    branch_s, branch_q
        From raw rows (and the number of each row's context) to confidences.
    rule
        What is flagged. Each branch gives the confidences, and what is compared with the thresholds.
    """

    #: Shape of a row of each input, () for scores; data type; the numbered contexts; column names.
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    dtype: torch.dtype
    contexts: list[Any] | None
    names: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
    least: Tensor

    def __init__(self, branch_s: nn.Module, branch_q: nn.Module, rule: Rule) -> None:
        super().__init__()
        self.branch_s, self.branch_q, self.rule = branch_s, branch_q, rule
        # As a tensor: numbers of Python become float32 in the graph.
        self.register_buffer("least", _double(rule.thresholds if rule.product is None else [rule.product]))

    def forward(self, s: Tensor, q: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        p_s, known_s = self.branch_s(s, context)
        p_q, known_q = self.branch_q(q, context)
        if self.rule.product is not None:
            return p_s, p_q, p_s * p_q >= self.least[0]
        return p_s, p_q, (known_s >= self.least[0]) & (known_q >= self.least[1])


def _graph_of_networks(det: CoAD) -> DetectorGraph:
    own = det._only()
    if det.context_ is not None:
        raise InputError(
            "this model finds the regime of each row by a CoincidenceModes, which has no form in ONNX; "
            "fit with known regimes, fit(s, q, context=...), to export it"
        )
    if own.rule.dismissed:
        raise InputError(
            f"this rule leaves out {len(own.rule.dismissed)} dismissed kinds of events, which has no form in ONNX; "
            "restore them (coad tune MODEL FILE --restore) to export it"
        )
    scalers = det.scaler_s_, det.scaler_q_
    each = [_Network(*one, det.contexts_) for one in zip((own.scorer_s, own.scorer_q), scalers, strict=True)]
    graph = DetectorGraph(each[0], each[1], own.rule)
    graph.shapes, graph.dtype = (tuple(det.shape_s_), tuple(det.shape_q_)), torch.float32
    graph.contexts = det.contexts_ if any(one is not None and one.contexts for one in scalers) else None
    graph.names = det.names_s_, det.names_q_
    return graph


def _graph_of_thresholds(det: CoincidenceThreshold) -> DetectorGraph:
    det._check_fitted()
    if det.scorer_s_ is not None or det.scorer_q_ is not None:
        raise InputError(
            "detectors and functions that make the scores have no form in ONNX; "
            "fit CoincidenceThreshold() on their scores to export the thresholds"
        )
    low = det.orientation == "low"
    graph = DetectorGraph(_Ladder(det._ladder_s, low=low), _Ladder(det._ladder_q, low=low), det.rule_)
    graph.shapes, graph.dtype, graph.contexts, graph.names = ((), ()), torch.float64, None, (None, None)
    return graph


class _Network(nn.Module):
    """One input of a :class:`~coad.CoAD`: scaling, per context where the model has that, and its network."""

    row: Tensor
    mean: Tensor
    gain: Tensor
    limits: Tensor

    def __init__(self, scorer: Scorer, scaler: Scaler | None, contexts: list[Any] | None) -> None:
        super().__init__()
        self.scorer = copy.deepcopy(scorer).eval()
        self.scorer.net.layout = "default"
        self.scaled, self.clipped = scaler is not None, scaler is not None and scaler.limits is not None
        if scaler is None:
            return
        place = {label: i + 1 for i, label in enumerate(scaler.contexts)}
        # The row of each context in the scales; the first is for contexts that training did not see, and is the pooled.
        rows = [0, *(place.get(label, 0) for label in contexts or ())]
        self.per_context = len(scaler.contexts) > 0
        self.register_buffer("row", torch.tensor(rows))
        self.register_buffer("mean", torch.from_numpy(scaler.mean.astype(np.float32)))
        self.register_buffer("gain", torch.from_numpy((1.0 / scaler.std).astype(np.float32)))
        if scaler.limits is not None:
            known = np.isfinite(scaler.limits[0])
            low, high = np.where(known, scaler.limits, [[-np.inf], [np.inf]])
            room = np.where(known, scaler.room, 1.0)
            self.register_buffer("limits", _double(np.stack([low, high, room])))

    def forward(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.scaled:
            wide = (slice(None), slice(None)) + (None,) * (x.ndim - 2)
            if self.clipped:
                low, high, room = (one[None][wide] for one in self.limits)
                inside = x.double().clamp(low, high)
                over = x.double() - inside
                x = (inside + over.sign() * room * (1.0 - room / (room + over.abs()))).float()
            if self.per_context and context is not None:
                known = (context >= 0) & (context < len(self.row) - 1)
                pick = self.row[torch.where(known, context + 1, 0)]
            else:
                pick = self.row[:1]
            x = (x - self.mean[pick][wide]) * self.gain[pick][wide]
        p = self._logit(x).sigmoid()
        return p, p

    def _logit(self, x: Tensor) -> Tensor:
        net, column = self.scorer.net, self.scorer.column
        if isinstance(net, StackedNet):
            return self.scorer.logit(x)
        # The checks of LoopedNet compare numbers of rows, which would fix that of the graph.
        logit = torch.stack([one(x).reshape(x.shape[0], -1)[:, column] for one in net.each])
        return (logit * self.scorer.gain + self.scorer.offset).double().mean(0)


class _Ladder(nn.Module):
    """One input of a :class:`~coad.CoincidenceThreshold`: the share of training scores that are not above a score."""

    ladder: Tensor
    count: Tensor

    def __init__(self, ladder: Any, *, low: bool) -> None:
        super().__init__()
        self.low = low
        self.register_buffer("ladder", _double(ladder))
        self.register_buffer("count", _double(len(ladder)))

    def forward(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        score = -x if self.low else x
        count = len(self.ladder)
        place = torch.zeros_like(score, dtype=torch.int64)
        # Binary search: ONNX has none, but a step of it is a look-up and a comparison.
        for step in (2**i for i in reversed(range(count.bit_length()))):
            ahead = (place + step).clamp(max=count)
            place = torch.where(self.ladder[ahead - 1] <= score, ahead, place)
        return place.double() / self.count, score


def _double(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))
