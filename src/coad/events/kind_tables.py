"""Kinds of events against status columns: which values go with which kind, and how surely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, fisher_exact

from coad._typing import FloatArray, IntArray
from coad.exceptions import InputError

__all__ = ["Association", "CrossTable", "cross_table"]

_MOST_VALUES = 20  # a column of numbers with more values is cut into fifths


@dataclass(frozen=True)
class Association:
    """One value that one kind has more (or less) often than the other events."""

    column: str
    value: str
    kind: int
    n: int
    share: float  # of the kind's events
    share_elsewhere: float
    p_value: float  # Fisher's exact test, corrected for all that were looked at (Holm)


@dataclass(frozen=True)
class CrossTable:
    """Counts (kinds, values) of every column, Cramér's V with its corrected p-value, and the associations."""

    kinds: IntArray
    counts: dict[str, tuple[tuple[str, ...], IntArray]]
    cramers_v: dict[str, float]
    p_value: dict[str, float]
    associations: list[Association]


def cross_table(label: Any, status: Mapping[str, Any], *, significance: float = 0.05) -> CrossTable:
    """Compare the kinds of events with status columns (one value an event), the strongest associations first.

    Noise (-1) is compared like a kind. Numbers with many values are cut into fifths. Only
    associations with a corrected p-value up to ``significance`` are listed.

    >>> label = np.repeat([0, 1], 30)
    >>> table = cross_table(label, {"pump": np.where(label == 1, "on", "off"), "odd": np.arange(60) % 2})
    >>> [(one.column, one.value, one.kind) for one in table.associations[:1]], table.p_value["odd"] > 0.5
    ([('pump', 'off', 0)], True)
    """
    kinds, code = np.unique(np.asarray(label), return_inverse=True)
    counts: dict[str, tuple[tuple[str, ...], IntArray]] = {}
    strength: dict[str, float] = {}
    raw: dict[str, float] = {}
    found: list[Association] = []
    for name, column in status.items():
        values = _categories(np.asarray(column), name, len(code))
        names, inner = np.unique(values, return_inverse=True)
        table = np.bincount(code * len(names) + inner, minlength=len(kinds) * len(names))
        table = table.reshape(len(kinds), len(names))
        counts[name] = (tuple(names.tolist()), table)
        strength[name], raw[name] = _cramers_v(table)
        total, per_kind, per_value = table.sum(), table.sum(1), table.sum(0)
        for k, kind in enumerate(kinds.tolist()):
            if len(kinds) < 2 or len(names) < 2:
                continue
            for v, value in enumerate(names.tolist()):
                here, there = int(table[k, v]), int(per_value[v] - table[k, v])
                rest, others = int(per_kind[k] - here), int(total - per_kind[k] - there)
                p = float(fisher_exact([[here, rest], [there, others]])[1])
                found.append(
                    Association(name, value, kind, here, here / per_kind[k], there / (total - per_kind[k]), p)
                )
    corrected = holm(np.array([one.p_value for one in found]))
    kept = [
        Association(**(vars(one) | {"p_value": float(p)}))
        for one, p in zip(found, corrected, strict=True)
        if p <= significance and one.share > one.share_elsewhere
    ]
    kept.sort(key=lambda one: (one.p_value, one.share_elsewhere - one.share))
    columns = dict(zip(raw, holm(np.array(list(raw.values()))).tolist(), strict=True))
    return CrossTable(kinds, counts, strength, columns, kept)


def holm(p_values: FloatArray) -> FloatArray:
    """p-values corrected for their number (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values)
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(scaled) else scaled
    return corrected


def _cramers_v(table: IntArray) -> tuple[float, float]:
    if min(table.shape) < 2:
        return 0.0, 1.0
    found = chi2_contingency(table, correction=False)
    size = float(table.sum()) * (min(table.shape) - 1)
    return float(np.sqrt(found.statistic / size)), float(found.pvalue)


def _categories(column: NDArray[Any], name: str, n: int) -> NDArray[np.str_]:
    if column.shape != (n,):
        raise InputError(f"column {name!r} has shape {column.shape}, but there are {n:,} events")
    if column.dtype.kind in "fiu" and len(np.unique(column)) > _MOST_VALUES:
        cuts = np.unique(np.nanquantile(column, (0.2, 0.4, 0.6, 0.8)))
        ends = ["-inf", *(f"{cut:.4g}" for cut in cuts), "inf"]
        texts = np.array([f"{a} to {b}" for a, b in pairwise(ends)] + ["missing"])
        place = np.where(np.isnan(column.astype(float)), len(texts) - 1, np.searchsorted(cuts, column))
        return texts[place]
    return column.astype(str)
