"""Coincident modes against the binary method: digits, the hydraulic rig and SKAB, one class made rare at a time.

Everything is fitted without labels; labels are used to subsample one class and to evaluate the flags.
The one-input peer has an advantage: its threshold is the best one for the labels.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coad._typing import BoolArray, IntArray
from coad.core.labels import best_f1, f1
from coad.data.pairs import Pairs
from coad.exceptions import CoadWarning, InputError
from coad.modes.estimator import CoincidenceModes
from coad.research.datasets.hydraulic import load_hydraulic
from coad.research.experiments._progress import Progress, silent

__all__ = ["FAULTS", "SETS", "ModesRow", "rare_digit", "rare_fault", "run_modes"]

SETS = ("digits", "hydraulic", "skab")
#: Fault of the rig: column of its profile, and the value that marks the fault.
FAULTS: dict[str, tuple[str, int]] = {
    "pump": ("pump leakage", 2),
    "valve": ("valve", 73),
    "cooler": ("cooler", 3),
}


@dataclass(frozen=True)
class ModesRow:
    """One data set: F1 of each method, and the size of the catalogue of modes.

    ``majority`` is the F1 of the union of all modes in which most rows belong to the rare class: what a
    person who inspects the catalogue can select.
    """

    dataset: str
    rows: int
    rate: float
    binary: float
    context: float
    modes: float
    majority: float
    peer: float
    peer_name: str
    n_modes: int
    n_rare: int
    seconds_binary: float
    seconds_modes: float


def run_modes(
    sets: Sequence[str] = SETS,
    *,
    data: str | Path | None = None,
    random_state: int = 0,
    compare: bool = True,
    progress: Progress = silent,
) -> list[ModesRow]:
    """Fit and evaluate all methods on each data set.

    Parameters
    ----------
    sets
        Any of :data:`SETS`.
    data
        Folder of the hydraulic and SKAB data; by default COAD_DATA.
    random_state
        Seed of the subsampling and of the training.
    compare
        If false, only the modes are fitted.
    progress
        Called with one line after each data set.

    Returns
    -------
    list of ModesRow
        One row per data set.
    """
    unknown = [name for name in sets if name not in SETS]
    if unknown:
        raise InputError(f"unknown data set {', '.join(unknown)}; there are {', '.join(SETS)}")
    found = []
    for name, pairs in _data(sets, data, random_state):
        row = _measure(name, pairs, random_state, compare)
        found.append(row)
        progress(
            f"{name}: modes {row.modes:.2f} (majority {row.majority:.2f}), binary {row.binary:.2f}, "
            f"context {row.context:.2f}, {row.peer_name} {row.peer:.2f}; {row.n_modes} modes, "
            f"{row.n_rare} rare, {row.seconds_modes:.0f} s"
        )
    return found


def rare_digit(digit: int, rate: float = 0.03, random_state: int = 0) -> Pairs:
    """scikit-learn's 8 × 8 digits with one digit subsampled to ``rate``: s is the upper half, q the lower.

    >>> pairs = rare_digit(8)
    >>> len(pairs), pairs.s.shape[1:], round(float(pairs.label.mean()), 3)
    (1673, (32,), 0.03)
    """
    from sklearn.datasets import load_digits  # slow to import, needed only here

    bunch = load_digits()
    images = np.asarray(bunch.images, dtype=np.float32)
    rows = _rarefied(np.asarray(bunch.target) == digit, rate, random_state)
    rows = np.random.default_rng([random_state, 1]).permutation(rows)
    upper, lower = (part.reshape(len(rows), -1) for part in (images[rows, :4], images[rows, 4:]))
    return Pairs(upper, lower, label=np.asarray(bunch.target)[rows] == digit)


def rare_fault(
    fault: str, rate: float = 0.05, random_state: int = 0, data: str | Path | None = None
) -> Pairs:
    """The hydraulic rig with one fault ("pump", "valve" or "cooler") subsampled to ``rate``."""
    if fault not in FAULTS:
        raise InputError(f"unknown fault {fault!r}; there are {', '.join(FAULTS)}")
    whole = load_hydraulic(data).pairs
    column, state = FAULTS[fault]
    if fault == "pump":
        faulty: BoolArray = np.asarray(whole.label, dtype=bool)
    else:
        # The states of cooler and valve are read from the name of the regime.
        states = [dict(part.rsplit(" ", 1) for part in one.split(", ")) for one in whole.context]  # type: ignore[union-attr]
        faulty = np.array([int(one[column]) == state for one in states])
    rows = _rarefied(faulty, rate, random_state)
    part = whole[rows]
    return Pairs(
        part.s, part.q, time=part.time, label=faulty[rows], s_names=whole.s_names, q_names=whole.q_names
    )


def _data(sets: Sequence[str], data: str | Path | None, seed: int) -> Iterator[tuple[str, Pairs]]:
    if "digits" in sets:
        for digit in range(10):
            yield f"digit {digit} at 3 %", rare_digit(digit, random_state=seed)
    if "hydraulic" in sets:
        for fault in FAULTS:
            yield f"hydraulic, {fault} at 5 %", rare_fault(fault, random_state=seed, data=data)
    if "skab" in sets:
        from coad.research.datasets.skab import load_skab

        yield "SKAB", load_skab(data).pairs


def _measure(name: str, pairs: Pairs, seed: int, compare: bool) -> ModesRow:
    truth = np.asarray(pairs.label, dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        start = time.process_time()
        # Rows are in no order: one class was subsampled, and the rig's states follow a plan.
        det = CoincidenceModes(random_state=seed, ordered=False)
        det.fit(pairs.s, pairs.q, group=pairs.group, context=pairs.context, time=pairs.time)
        seconds = time.process_time() - start
        label = det.predict_mode(pairs.s, pairs.q, pairs.context)
        flagged = det.predict(pairs.s, pairs.q, pairs.context)
        binary, context, took = 0.0, 0.0, 0.0
        peer, peer_name = 0.0, "–"
        if compare:
            binary, context, took = _binary(pairs, truth, det, seed)
            peer, peer_name = _best_peer(pairs, truth, seed)
    return ModesRow(
        dataset=name,
        rows=len(pairs),
        rate=float(truth.mean()),
        binary=binary,
        context=context,
        modes=f1(truth, flagged),
        majority=f1(truth, np.isin(label, majority_modes(label, truth))),
        peer=peer,
        peer_name=peer_name,
        n_modes=len(det.modes_),
        n_rare=len(det.modes_.rare),
        seconds_binary=took,
        seconds_modes=seconds,
    )


def _binary(pairs: Pairs, truth: BoolArray, det: CoincidenceModes, seed: int) -> tuple[float, float, float]:
    from coad.learned.estimator import CoAD

    start = time.process_time()
    plain = CoAD(random_state=seed, ordered=False).fit(pairs.s, pairs.q)
    took = time.process_time() - start
    fresh = CoincidenceModes(random_state=seed, ordered=False)
    within = CoAD(context=fresh if pairs.context is not None else det, random_state=seed, ordered=False)
    within.fit(pairs.s, pairs.q)
    return f1(truth, plain.predict(pairs.s, pairs.q)), f1(truth, within.predict(pairs.s, pairs.q)), took


def _best_peer(pairs: Pairs, truth: BoolArray, seed: int) -> tuple[float, str]:
    """The best of isolation forest and local outlier factor on s or q alone, at its best threshold."""
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor

    found: list[tuple[float, str]] = []
    for side in ("s", "q"):
        x: Any = getattr(pairs, side).reshape(len(pairs), -1)
        forest = -IsolationForest(random_state=seed).fit(x).score_samples(x)
        local = -LocalOutlierFactor().fit(x).negative_outlier_factor_
        found += [(best_f1(truth, forest), f"forest on {side}"), (best_f1(truth, local), f"LOF on {side}")]
    return max(found)


def majority_modes(label: IntArray, truth: BoolArray) -> list[int]:
    """Return the modes in which most rows are labelled."""
    return [int(k) for k in np.unique(label[label >= 0]) if truth[label == k].mean() > 0.5]


def _rarefied(rare: BoolArray, rate: float, seed: int) -> IntArray:
    """Row numbers in order: all common rows, and enough rare ones to make up ``rate``."""
    common, few = np.flatnonzero(~rare), np.flatnonzero(rare)
    wanted = round(rate * len(common) / (1.0 - rate))
    if wanted > len(few):
        raise InputError(f"there are {len(few)} rare rows, fewer than the {wanted} that make {rate:.1%}")
    return np.sort(np.append(common, np.random.default_rng(seed).permutation(few)[:wanted]))
