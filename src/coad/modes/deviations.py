"""Kinds that come with several regimes: modes of what is left when each row's regime is taken away.

A leak shows under every load. Where regimes multiply (a cooler, a valve, an accumulator), such a kind is a small part
of each of many modes and a mode of none, for one partition of the rows cannot hold them all. So the centre of its
mode is taken from each row, in both inputs, and modes are looked for once more, in the coordinates that these
deviations share: what moves rows the same way wherever they are lies together there. Most rows do not deviate;
what is rare, comes back in the members, and comes whatever the regime is, joins the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.modes.canonical import canonical_maps
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.consensus import part_of_rows
from coad.modes.inputs import FrontRows, ReadyRows
from coad.modes.pipeline import LEAST_ROWS, Found, find_modes, held_out
from coad.modes.training import responsibilities
from coad.training.duo import Duo
from coad.training.model import Blueprint

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["DeviationRows", "Deviations", "regimes_of", "with_deviations"]

#: Rows that centres, widths and shared directions are taken from.
_SOME_ROWS = 20_000
#: Steps of the second training by the table: there is less to be found than in the first.
_STEPS = 140
#: A kind must come back this well in the members.
_COMES_BACK = 0.8
#: It must be in so many regimes (see :func:`regimes_of`), and in this part of those that as many rows at random are
#: in, the mean over some draws: what keeps to a few regimes may be the border between two that were taken for one.
#: These two thresholds, 0.8 and 0.4, were set with the labels of the hydraulic rig and of simulated plants in view.
_REGIMES, _WHATEVER, _DRAWS = 2.0, 0.4, 20
#: A row is never surer of a deviation than this, so that its mode is not forgotten.
_SUREST = 1.0 - 1e-9

Two = tuple[NDArray[np.float32], NDArray[np.float32]]


class DeviationRows(ReadyRows):
    """Rows less the centre of each one's mode, in the (few) coordinates that the deviations of both inputs share."""

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

    ``modes`` are those whose ``centres`` are taken away, with their ``sizes``, in the order of the centres. Rows of
    those that are no ``regimes`` are of a kind already, whatever they deviate by.
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
        home = _home(a, b, self.modes, self.sizes)
        rows = DeviationRows(data, home, self.centres, self.maps)
        found = []
        for whole, votes in zip((a, b), responsibilities(self.duo, rows), strict=True):
            kind = votes.mean(0).astype(np.float64)[:, list(self.kinds)] * self.regimes[home, None]
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
        fit = _evidence(a, b, self.modes, self.sizes).sum(1) / rest
        return np.concatenate([evidence[:, :-k], evidence[:, -k:] * fit[:, None]], axis=1)


def with_deviations(
    model: CoincidenceModes,
    found: Found,
    data: FrontRows,
    modes: int,
    batch: int,
    group: ArrayLike | None,
    time: Any,
    rng: np.random.Generator,
) -> tuple[Found, Deviations | None]:
    """The catalogue with the kinds of deviation that flat rows show, and what it takes to find them again."""
    if found.duo is None or not data.flat:
        return found, None
    a, b = (votes.mean(0) for votes in responsibilities(found.duo, data))
    listed = np.sort([mode.mode for mode in found.table])
    home = _home(a, b, listed, found.sizes[listed])
    some = np.sort(rng.permutation(len(data))[:_SOME_ROWS])
    centres, maps = _coordinates(data, home, len(listed), some, held_out(len(data), group, rng)[some])
    if maps is None:
        return found, None
    rows = DeviationRows(data, home, centres, maps)
    deeper = find_modes(model, rows, modes, batch, group, time, rng, most_steps=_STEPS)
    role = {mode.mode: mode.role for mode in found.table}
    regimes = np.array([role[mode] == "regime" for mode in listed])
    deviating = np.where(regimes[home], deeper.labels, -1)
    kinds = [
        mode
        for mode in deeper.table
        if mode.role == "rare"
        and mode.stability >= _COMES_BACK
        and _whatever_the_regime(home[deviating == mode.mode], home[regimes[home]], rng)
    ]
    if not kinds:
        return found, None
    assert deeper.duo is not None
    own = Deviations(
        listed,
        found.sizes[listed],
        regimes,
        centres,
        maps,
        deeper.duo,
        deeper.blueprints,
        tuple(mode.mode for mode in kinds),
    )
    return _with_kinds(found, kinds, deviating, home), own


def regimes_of(home: IntArray) -> float:
    """In how many regimes the rows of a kind are, as if it were equally many in each (exp of the entropy).

    >>> round(regimes_of(np.array([3, 3, 3])), 1), round(regimes_of(np.array([0, 0, 1, 1, 5, 5])), 1)
    (1.0, 3.0)
    """
    part = np.unique(home, return_counts=True)[1] / max(1, len(home))
    return float(np.exp(-(part * np.log(part)).sum())) if len(home) else 0.0


def _whatever_the_regime(own: IntArray, all_of_them: IntArray, rng: np.random.Generator) -> bool:
    """Whether rows are in regimes almost as any rows are."""
    if len(own) < LEAST_ROWS:
        return False
    drawn = [regimes_of(rng.choice(all_of_them, len(own), replace=False)) for _ in range(_DRAWS)]
    return regimes_of(own) >= max(_REGIMES, _WHATEVER * float(np.mean(drawn)))


def _home(a: FloatArray, b: FloatArray, modes: IntArray, sizes: FloatArray) -> IntArray:
    """The number, among ``modes``, of the one that each row fits best, whether its inputs agree or not."""
    return np.asarray(_evidence(a, b, modes, sizes).argmax(1), dtype=np.int64)


def _evidence(a: FloatArray, b: FloatArray, modes: IntArray, sizes: FloatArray) -> FloatArray:
    """What each pair says for each of ``modes``, against chance."""
    return np.asarray(a[:, modes] * b[:, modes] / np.maximum(sizes, 1e-6))


def _coordinates(
    data: FrontRows, home: IntArray, modes: int, some: IntArray, held: BoolArray
) -> tuple[Two, Two | None]:
    """The centre of each mode (its median), and the directions that the deviations of both inputs share, if any."""
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
    maps = canonical_maps(scaled[0], scaled[1], held)
    both = centres[0], centres[1]
    if maps is None:
        return both, None
    return both, (maps[0] / widths[0][:, None], maps[1] / widths[1][:, None])


def _with_kinds(found: Found, kinds: Sequence[Mode], deviating: IntArray, home: IntArray) -> Found:
    """The catalogue, in which the rows of a kind belong to it and no more to the mode they deviate from."""
    first = len(found.sizes)
    labels = found.labels.copy()
    for number, kind in enumerate(kinds, start=first):
        labels[deviating == kind.mode] = number
    table = []
    for mode in found.table:
        if np.count_nonzero(labels == mode.mode) >= LEAST_ROWS:
            table.append(_resized(mode, mode.mode, labels))
    for number, kind in enumerate(kinds, start=first):
        regimes = regimes_of(home[deviating == kind.mode])
        own = _resized(kind, number, labels)
        reason = f"{own.size:.2%} of the rows deviate alike, in about {regimes:.0f} regimes"
        table.append(replace(own, reason=reason))
    sizes = part_of_rows(labels, first + len(kinds))
    return replace(found, table=ModeTable.rarest_first(table), labels=labels, sizes=sizes)


def _resized(mode: Mode, number: int, labels: IntArray) -> Mode:
    """A mode with a number, and the rows that have it."""
    rows = int((labels == number).sum())
    exemplars = tuple(row for row in mode.exemplars if labels[row] == number)
    return replace(mode, mode=number, rows=rows, size=rows / len(labels), exemplars=exemplars)
