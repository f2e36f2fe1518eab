"""Attributions of single events and kinds of events, for the explorer."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.exceptions import InputError
from coad.report.drawings import NormalRows, describe, shape_kind
from coad.report.study import Study
from coad.workflows.tuning import MOST_SORTED, event_kinds

if TYPE_CHECKING:
    from coad.events.kinds import Kinds
    from coad.learned.estimator import CoAD

__all__ = ["Insight"]

#: Channels named for each input, and segments that a window is divided in to say where.
_LINES, _SEGMENTS = 4, 10
#: The kind of a pair that was not assigned yet; kinds are 0 and up, noise is -1.
_UNKNOWN = -3


@dataclass(frozen=True)
class _Sorted:
    """Kinds, a digest of their centres, and the events of each; replaced as a whole, because threads share it."""

    kinds: Kinds
    digest: str
    counts: tuple[int, ...]

    def key(self, kind: int) -> str:
        """A key for a kind that other clusterings do not have, so that notes are not mixed up."""
        return f"{self.digest}-{kind}"


class Insight:
    """Attributions on demand, and kinds of the flagged events once they are found.

    Parameters
    ----------
    model : CoAD
        The model.
    study : Study
        The scored pairs.
    normal : NormalRows
        The normal range, for the drawings.
    """

    def __init__(self, model: CoAD, study: Study, normal: NormalRows) -> None:
        self.model, self.study, self.normal = model, study, normal
        #: Attributions need a baseline row, which unscaled inputs do not have.
        self.can_explain = getattr(model, "scaler_s_", None) is not None
        self._sorted: _Sorted | None = None
        self._kind = np.full(len(study.scored), _UNKNOWN, dtype=np.int16)
        self._lock = threading.Lock()

    @property
    def kinds_known(self) -> bool:
        """Whether kinds have been found."""
        return self._sorted is not None

    def prepare(self) -> None:
        """Find the kinds of the events at the chosen thresholds, if there are enough events."""
        if self._sorted is not None:
            return
        sorted_events = event_kinds(self.model, self.study.scored)
        if sorted_events is None:
            return
        found, some = sorted_events
        peaks = self.study.events.peak
        self._kind[some] = found.label
        digest = hashlib.sha256(np.round(found.model.means, 6).tobytes()).hexdigest()[:10]
        numbers = self._numbers(peaks, found)
        self._sorted = _Sorted(
            found, digest, tuple(int((numbers == kind).sum()) for kind in range(found.n_kinds))
        )

    @property
    def found(self) -> Kinds | None:
        """The kinds, once they are found."""
        return None if self._sorted is None else self._sorted.kinds

    def numbers_of(self, keys: Iterable[str]) -> list[int]:
        """The numbers of kinds, by their keys."""
        known = self._sorted
        if known is None:
            return []
        wanted = set(keys)
        return [kind for kind in range(known.kinds.n_kinds) if known.key(kind) in wanted]

    def part(self, kept: IntArray, study: Study, normal: NormalRows) -> Insight:
        """The same kinds for some of the pairs."""
        other = Insight(self.model, study, normal)
        other._sorted = self._sorted
        other._kind = self._kind[kept]
        return other

    def kinds(self) -> list[dict[str, Any]]:
        """The kinds found, each with its number of events and its stability."""
        known = self._sorted
        if known is None:
            return []
        return [
            {
                "kind": known.key(kind),
                "label": f"kind {kind + 1}",
                "events": known.counts[kind],
                "stability": float(known.kinds.kind_stability[kind]),
                "name": "",
                "dismissed": False,
            }
            for kind in range(known.kinds.n_kinds)
        ]

    def kinds_of(self, pairs: IntArray) -> list[str]:
        """The key of the kind of each pair; empty if it belongs to none."""
        known = self._sorted
        if known is None:
            return [""] * len(pairs)
        numbers = self._numbers(pairs, known.kinds)
        return [known.key(kind) if kind >= 0 else "" for kind in numbers.tolist()]

    def _numbers(self, pairs: IntArray, found: Kinds) -> IntArray:
        """The number of the kind of each pair; new pairs are assigned now, at most some thousands at a time."""
        with self._lock:
            new = pairs[self._kind[pairs] == _UNKNOWN][:MOST_SORTED]
            if len(new):
                from coad.events.kind_features import event_features

                s, q, labels = self._inputs(new).values()
                self._kind[new] = found.model.assign(event_features(self.model, s, q, labels))
        return np.asarray(self._kind[pairs].astype(np.int64))

    def _inputs(self, pairs: IntArray) -> dict[str, Any]:
        scored = self.study.scored
        return {"s": scored.s.rows(pairs), "q": scored.q.rows(pairs), "context": scored.labels(pairs)}

    def why(self, pair: int) -> dict[str, Any]:
        """The contribution of each point of both inputs to the networks' outputs, and the channels with the largest."""
        if not self.can_explain:
            raise InputError(
                "this model's inputs are not scaled, so there is nothing to compare an event with"
            )
        from coad.events.explain import explain

        scored = self.study.scored
        rows = self._inputs(np.array([pair]))
        names = {"s": scored.s_names, "q": scored.q_names}
        with self._lock:  # one at a time: each uses all cores
            found = explain(self.model, **rows, names=(scored.s_names, scored.q_names))
        answer: dict[str, Any] = {"lines": []}
        for side in "sq":
            values = getattr(found, side).values[0]
            answer[side] = describe(
                rows[side][0], names[side], self.normal.of(side, pair), attribution=values
            )
            answer["lines"] += _largest_channels(side, values, names[side])
        return answer


def _largest_channels(side: str, values: NDArray[Any], names: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """The channels that contribute most to an anomaly, where in time, and their share of all positive contributions.

    >>> _largest_channels("s", np.array([3.0, -1.0, 1.0]), ("a", "b", "c"))
    [('s: a', '', '75 %'), ('s: c', '', '25 %')]
    """
    kind = shape_kind(values.shape, names)
    if kind == "image":
        return []
    channels = values.reshape(len(values), -1)
    if kind == "bars":
        channels = values.reshape(-1, 1)
    total = channels.sum(1)
    whole = float(total[total > 0].sum())
    lines = []
    for i in np.argsort(-total)[:_LINES]:
        if total[i] <= 0:
            break
        name = names[i] if len(names) == len(total) else str(i)
        where = "" if channels.shape[1] < 2 else _largest_segment(channels[i])
        lines.append((f"{side}: {name}", where, f"{100 * total[i] / whole:.0f} %"))
    return lines


def _largest_segment(values: NDArray[Any]) -> str:
    """The segment of a channel that contributes most."""
    width = max(1, len(values) // _SEGMENTS)
    sums = np.convolve(values, np.ones(width), "valid")
    first = int(np.argmax(sums))
    return f"samples {first}–{first + width - 1}"
