"""Is the model still right? The last pairs of each station compared with its training, or with its first pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest, ks_2samp

from coad._typing import FloatArray
from coad.live.values import ScoredRows, Step

__all__ = ["Drift", "DriftSettings", "population_stability"]


@dataclass(frozen=True)
class DriftSettings:
    """When to look for drift, and what counts as such.

    Parameters
    ----------
    every
        Look after so many pairs of a station; 0: never.
    window
        Compare so many last pairs.
    reference
        With so many pairs of the training, evenly spaced; or with the first so many of the watch, if no training is named.
    training, training_q, training_station
        The recording that the model was fitted on: one table, or a table of s and one of q, where a column of s names the
        station. It is scored when the watch starts.
    psi
        The population stability index from which a quantity drifts; 0.25 is the usual mark for "look into it".
    significance
        The two-sample test must be below this as well, divided by the number of quantities.
    outside
        The share of pairs outside the range of the reference from which it is drift by itself.
    """

    every: int = 0
    window: int = 2000
    reference: int = 5000
    psi: float = 0.25
    significance: float = 0.001
    outside: float = 0.05
    training: str = ""
    training_q: str = ""
    training_station: str = ""


class Drift:
    """The reference and the last pairs of each station in each context.

    Parameters
    ----------
    settings
        See :class:`DriftSettings`.
    """

    def __init__(self, settings: DriftSettings) -> None:
        self.settings = settings
        self._seen: dict[str, dict[str, Any]] = {}

    def learn(self, steps: Iterable[Step]) -> None:
        """Take the reference from what an engine finds in the training."""
        parts: dict[str, list[FloatArray]] = {}
        for rows in (rows for step in steps for rows in step.scored):
            table, _ = _table(rows)
            for mine, context in _contexts(rows):
                parts.setdefault(_key(rows, context), []).append(table[mine])
        for key, own in parts.items():
            table = np.concatenate(own)
            kept = np.linspace(0, len(table) - 1, min(len(table), self.settings.reference)).astype(np.int64)
            self._seen[key] = _starting(table[kept], trained=True)

    def add(self, step: Step) -> list[dict[str, Any]]:
        """New lines: for each station and context one for each quantity, and one (``name`` "") for all of them."""
        if not self.settings.every:
            return []
        lines = []
        for rows in step.scored:
            for mine, context in _contexts(rows):
                lines += self._of_context(rows, mine, context)
        return lines

    def state(self) -> dict[str, Any]:
        """What it remembers, as plain values and arrays."""
        return {"seen": self._seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        self._seen = {name: dict(one) for name, one in state["seen"].items()}

    def _of_context(self, rows: ScoredRows, mine: Any, context: str) -> list[dict[str, Any]]:
        table, names = _table(rows)
        table = table[mine]
        time = rows.time[mine]
        held = self._seen.setdefault(_key(rows, context), _starting(table[:0], trained=False))
        settings, lines, start = self.settings, [], 0
        learn = 0 if held["trained"] else max(0, settings.reference - len(held["reference"]))
        held["reference"] = np.concatenate([held["reference"], table[:learn]])
        start = min(learn, len(table))
        # Looked at after every so many pairs, in whatever pieces they come.
        while start < len(table):
            part = table[start : start + settings.every - held["fresh"]]
            held["recent"] = np.concatenate([held["recent"], part])[-settings.window :]
            held["fresh"], start = held["fresh"] + len(part), start + len(part)
            if held["fresh"] == settings.every:
                held["fresh"] = 0
                lines = self._lines(held, names, rows.station, context, int(time[start - 1]))
        return lines

    def _lines(
        self, held: dict[str, Any], names: list[str], station: str, context: str, time: int
    ) -> list[dict[str, Any]]:
        settings, reference, recent = self.settings, held["reference"], held["recent"]
        common = {"station": station, "context": context, "time": time, "n": len(recent)}
        before = "the training" if held["trained"] else "the first pairs"
        lines: list[dict[str, Any]] = []
        for k, name in enumerate(names[:-1]):  # the last one is the flag
            psi = population_stability(reference[:, k], recent[:, k])
            test = ks_2samp(reference[:, k], recent[:, k], method="asymp")
            outside = _outside(reference[:, k], recent[:, k])
            drifts = psi >= settings.psi and test.pvalue < settings.significance / len(names)
            text = f"{name}: stability index {psi:.2f}, {outside:.0%} outside the range of {before}"
            lines.append(
                {**common, "name": name, "psi": round(psi, 4), "ks": round(float(test.statistic), 4),
                 "p_value": float(test.pvalue), "outside": outside, "state": "drifting" if drifts else "steady",
                 "since": time, "text": text}
            )  # fmt: skip
        inputs = [one for one in lines if one["name"] not in ("p_s", "p_q")]
        outside = max((one["outside"] for one in inputs), default=0.0)
        was, now = float(reference[:, -1].mean()), float(recent[:, -1].mean())
        # A rate of 0 in the reference is taken as one pair in twice as many: nobody has seen that it is impossible.
        base = max(was, 0.5 / len(reference))
        changed = binomtest(int(recent[:, -1].sum()), len(recent), base).pvalue < settings.significance
        reasons = [one["text"] for one in lines if one["state"] == "drifting"]
        reasons += (
            [f"{outside:.0%} of the pairs are outside the range of {before}"]
            if outside >= settings.outside
            else []
        )
        reasons += (
            [f"{now:.2%} are flagged, in {before} it were {was:.2%}"] if changed and now > 2 * base else []
        )
        state = "drifting" if reasons else "steady"
        if state == "drifting" and held["state"] != "drifting":
            held["since"] = time
        held["state"] = state
        text = f"fit again on new data: {'; '.join(reasons[:3])}" if reasons else f"as {before}"
        whole = {"name": "", "psi": max(one["psi"] for one in lines), "ks": max(one["ks"] for one in lines),
                 "p_value": min(one["p_value"] for one in lines), "outside": outside, "state": state,
                 "since": held["since"], "text": text, "flagged": now, "flagged_at_first": was}  # fmt: skip
        return [*lines, common | whole]


def _key(rows: ScoredRows, context: str) -> str:
    return f"{rows.station}\x1f{context}"


def _contexts(rows: ScoredRows) -> Iterator[tuple[Any, str]]:
    """The rows of each context, and its name."""
    labels = np.zeros(len(rows), dtype=int) if rows.context is None else rows.context
    for label in np.unique(labels).tolist():
        yield labels == label, "" if rows.context is None else str(label)


def _starting(reference: FloatArray, *, trained: bool) -> dict[str, Any]:
    return {"reference": reference, "recent": reference[:0], "fresh": 0, "since": 0, "state": "learning",
            "trained": trained}  # fmt: skip


def population_stability(reference: FloatArray, recent: FloatArray, bins: int = 10) -> float:
    """How differently two samples fill the quantile bins of the first: Σ (r - p)·ln(r / p).

    >>> x = np.arange(1000.0)
    >>> population_stability(x, x) == 0.0, population_stability(x, x + 300) > 0.25
    (True, True)
    """
    edges = np.unique(np.quantile(reference, np.linspace(0, 1, bins + 1)[1:-1]))
    # Half a count in each bin, so that an empty one has a logarithm.
    shares = []
    for values in (reference, recent):
        counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) + 0.5
        shares.append(counts / counts.sum())
    return float(((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum())


def _outside(reference: FloatArray, recent: FloatArray) -> float:
    return float(((recent < reference.min()) | (recent > reference.max())).mean())


def _table(rows: ScoredRows) -> tuple[FloatArray, list[str]]:
    columns = {**(rows.inputs or {}), "p_s": rows.p_s, "p_q": rows.p_q, "flag": rows.flag}
    return np.stack([np.asarray(one, dtype=np.float64) for one in columns.values()], axis=1), list(columns)
