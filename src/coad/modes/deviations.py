"""Kinds that come with several regimes: modes of what is left when each row's regime is taken away.

A leak shows under every load. Where regimes multiply (a cooler, a valve, an accumulator), such a kind is a small part
of each of many modes and a mode of none, for one partition of the rows cannot hold them all. So the centre of its
regime is taken from each row, in both inputs, and modes are looked for once more, in the coordinates that these
deviations share: what moves rows the same way wherever they are lies together there. Most rows do not deviate;
what is rare, comes back in the members, and comes whatever the regime is, joins the catalogue.

Where the kind has a mode of its own in some regimes (it is called rare there), its rows deviate from the regime that
they would be in otherwise. They help to find the kind in the other regimes, and keep their mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint
from coad.modes.canonical import canonical_maps
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.consensus import part_of_rows, posterior
from coad.modes.describing import LEAST_ROWS, Found
from coad.modes.inputs import FrontRows, ReadyRows
from coad.modes.pipeline import find_modes
from coad.modes.plan import Task, held_out
from coad.modes.spread import log_evidence, regimes_of, spread
from coad.modes.training import responsibilities

__all__ = ["DeviationRows", "Deviations", "with_deviations"]

#: Rows that centres, widths and shared directions are taken from.
_SOME_ROWS = 20_000
#: Steps of the second training by the table: there is less to be found than in the first.
_STEPS = 140
#: A kind must come back this well in the members. Those of the rig have 0.91 and more, one of a simulated load 0.83; what is
#: left of digits has 0.80 in one of ten sets, and is none. Set with these labels in view.
_COMES_BACK = 0.82
#: It must be in so many regimes, and this far spread (:func:`~coad.modes.spread.spread`): what keeps to a few regimes
#: may be the border between two that were taken for one. Not all of them: where the fault is the last of three states
#: of a valve, its rows deviate from the regimes of the state before it.
#: The thresholds were set with the labels of the hydraulic rig and of simulated plants in view.
_REGIMES, _WHATEVER = 2, 1 / 3
#: A row is never surer of a deviation than this, so that its mode is not forgotten.
_SUREST = 1.0 - 1e-9

Two = tuple[NDArray[np.float32], NDArray[np.float32]]


class DeviationRows(ReadyRows):
    """Rows less the centre of each one's regime, in the (few) coordinates that the deviations of both inputs share."""

    def __init__(self, rows: FrontRows, home: IntArray, centres: Two, maps: Two) -> None:
        found = []
        for which in (0, 1):
            out = np.empty((len(rows), maps[which].shape[1]), dtype=np.float32)
            for start in range(0, len(rows), _SOME_ROWS):
                block = np.arange(start, min(start + _SOME_ROWS, len(rows)))
                out[block] = (rows.side(which, block).numpy() - centres[which][home[block]]) @ maps[which]
            found.append(out)
        super().__init__(rows, (found[0], found[1]))


@dataclass(frozen=True)
class Deviations:
    """Networks for deviations, and which of their outputs are kinds.

    ``modes`` are those of the catalogue, with their ``sizes``; the ``centres`` of those that are ``regimes`` are taken
    away. Rows of the other modes are of a kind already, whatever they deviate by.
    """

    modes: IntArray
    sizes: FloatArray
    regimes: BoolArray
    centres: Two
    maps: Two
    duo: Duo
    blueprints: tuple[Blueprint, Blueprint]
    kinds: tuple[int, ...]

    def joined(self, data: FrontRows, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Confidences with a column more for each kind; what is sure of a kind is less sure of all modes."""
        own, home = _homes(a, b, self.modes, self.sizes, self.regimes)
        rows = DeviationRows(data, home, self.centres, self.maps)
        found = []
        for whole, votes in zip((a, b), responsibilities(self.duo, rows), strict=True):
            kind = votes.mean(0).astype(np.float64)[:, list(self.kinds)] * self.regimes[own, None]
            kind /= np.maximum(kind.sum(1, keepdims=True) / _SUREST, 1.0)
            found.append(np.concatenate([whole * (1.0 - kind.sum(1, keepdims=True)), kind], axis=1))
        return found[0], found[1]

    def weighed(self, evidence: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
        """Evidence in which a kind counts together with the mode that the row deviates from.

        Whether it deviates is asked of a row of some mode; what the pair says for that mode, against chance, it
        says for the mode with the deviation and without alike, also for one that lost its line to the kind.
        """
        k = len(self.kinds)
        rest = np.prod([1.0 - votes[:, -k:].sum(1) for votes in (a, b)], axis=0)
        fit = posterior(a[:, self.modes], b[:, self.modes], self.sizes)[1] / rest
        return np.concatenate([evidence[:, :-k], evidence[:, -k:] * fit[:, None]], axis=1)


def with_deviations(
    task: Task, found: Found, data: FrontRows, rng: np.random.Generator
) -> tuple[Found, Deviations | None]:
    """The catalogue with the kinds of deviation that flat rows show, and what it takes to find them again."""
    if found.duo is None or not data.flat:
        return found, None
    a, b = (votes.mean(0) for votes in responsibilities(found.duo, data))
    listed = np.sort([mode.mode for mode in found.table])
    role = {mode.mode: mode.role for mode in found.table}
    regimes = np.array([role[mode] == "regime" for mode in listed])
    if regimes.sum() < _REGIMES:
        return found, None
    own, home = _homes(a, b, listed, found.sizes[listed], regimes)
    some = np.sort(rng.permutation(len(data))[:_SOME_ROWS])
    held = held_out(len(data), task.group, rng)[some]
    centres, maps = _coordinates(data, home, len(listed), some, held, regimes[own[some]])
    if maps is None:
        return found, None
    rows = DeviationRows(data, home, centres, maps)
    _, deeper = find_modes(task, [rows], rng, most_steps=_STEPS)
    deviating = np.where(regimes[own], deeper.labels, -1)
    kinds = [
        mode
        for mode in deeper.table
        if mode.role == "rare"
        and mode.stability >= _COMES_BACK
        and np.count_nonzero(deviating == mode.mode) >= LEAST_ROWS
        and regimes_of(home[deeper.labels == mode.mode]) >= _REGIMES
        and spread(home[deeper.labels == mode.mode], home, rng) >= _WHATEVER
    ]
    if not kinds:
        return found, None
    assert deeper.duo is not None
    deviations = Deviations(
        listed,
        found.sizes[listed],
        regimes,
        centres,
        maps,
        deeper.duo,
        deeper.blueprints,
        tuple(mode.mode for mode in kinds),
    )
    regimes_in = [regimes_of(home[deeper.labels == mode.mode]) for mode in kinds]
    return _with_kinds(found, kinds, deviating, regimes_in), deviations


def _homes(
    a: FloatArray, b: FloatArray, modes: IntArray, sizes: FloatArray, regimes: BoolArray
) -> tuple[IntArray, IntArray]:
    """The numbers, among ``modes``, of the one and of the regime that each row fits best, agreed upon or not."""
    fit = log_evidence(a[:, modes], b[:, modes], sizes)
    return np.asarray(fit.argmax(1)), np.asarray(np.where(regimes, fit, -np.inf).argmax(1))


def _coordinates(
    data: FrontRows, home: IntArray, modes: int, some: IntArray, held: BoolArray, free: BoolArray
) -> tuple[Two, Two | None]:
    """The centre of each regime (its median), and the directions that the deviations of both inputs share, if any.

    If the rows that may be of a kind (``free``) share none, there is nothing to look for.
    """
    centres, scaled, widths = [], [], []
    for which in (0, 1):
        rows = data.side(which, some).numpy()
        centre = np.zeros((modes, rows.shape[1]), dtype=np.float32)
        for mode in np.unique(home[some]):
            centre[mode] = np.median(rows[home[some] == mode], axis=0)
        away = rows - centre[home[some]]
        middle, width = away.mean(0), away.std(0)
        width = np.where(width > 0, width, 1.0).astype(np.float32)
        centres.append(centre + middle)
        scaled.append((away - middle) / width)
        widths.append(width)
    both = centres[0], centres[1]
    if canonical_maps(scaled[0][free], scaled[1][free], held[free]) is None:
        return both, None
    maps = canonical_maps(scaled[0], scaled[1], held)
    if maps is None:
        return both, None
    return both, (maps[0] / widths[0][:, None], maps[1] / widths[1][:, None])


def _with_kinds(
    found: Found, kinds: Sequence[Mode], deviating: IntArray, regimes_in: Sequence[float]
) -> Found:
    """The catalogue, in which the rows of a kind belong to it and no more to the mode they deviate from."""
    first = len(found.sizes)
    labels = found.labels.copy()
    for number, kind in enumerate(kinds, start=first):
        labels[deviating == kind.mode] = number
    table = []
    for mode in found.table:
        if np.count_nonzero(labels == mode.mode) >= LEAST_ROWS:
            table.append(_resized(mode, mode.mode, labels))
    for number, (kind, many) in enumerate(zip(kinds, regimes_in, strict=True), start=first):
        own = _resized(kind, number, labels)
        reason = f"its rows deviate alike, in about {many:.0f} regimes"
        table.append(replace(own, reason=reason))
    sizes = part_of_rows(labels, first + len(kinds))
    return replace(found, table=ModeTable.rarest_first(table), labels=labels, sizes=sizes)


def _resized(mode: Mode, number: int, labels: IntArray) -> Mode:
    """A mode with a number, and the rows that have it."""
    rows = int((labels == number).sum())
    exemplars = tuple(row for row in mode.exemplars if labels[row] == number)
    return replace(mode, mode=number, rows=rows, size=rows / len(labels), exemplars=exemplars)
