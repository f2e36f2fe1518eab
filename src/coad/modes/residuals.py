"""Kinds that occur in several regimes: modes of the residuals after subtracting the centre of each row's regime.

A leak shows under every load. Where regimes multiply (a cooler, a valve, an accumulator), it is a small part of many
modes and a mode of its own in none. So the centre of its regime is subtracted from each row, in both inputs, and modes
are found again in canonical coordinates of the residuals: a change that is the same in every regime is one mode there.
Rare, stable modes that occur in many regimes join the catalogue.

Rows that are in a rare mode already take the regime that fits them next best. They help to find the kind in other
regimes, and keep their mode.
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
from coad.modes.cataloguing import MIN_ROWS, FitResult
from coad.modes.consensus import log_pair_evidence, mode_sizes, pair_evidence
from coad.modes.coordinates import MappedRows, PrecomputedRows
from coad.modes.dispersion import effective_count, relative_dispersion
from coad.modes.pipeline import find_modes
from coad.modes.plan import Task, held_out
from coad.modes.training import responsibilities

__all__ = ["ResidualModel", "ResidualRows", "add_residual_kinds"]

#: Rows that centres, widths and shared directions are estimated from, and that are mapped at a time.
_SAMPLE = 20_000
#: Steps of the training on residuals: less than the 200 of the first, because less is left to be found.
_STEPS = 140
#: The least stability of a kind. On the hydraulic rig kinds have 0.91 and more, one of a simulated load 0.83; spurious
#: residuals of digits 0.80 in one of ten sets. Set with these labels in view.
_MIN_STABILITY = 0.82
#: The least effective number of regimes of a kind, and its least dispersion: a kind in few regimes may be the border of two
#: that were merged. Not all regimes, because a fault may be the last of three states of a valve. Set with the labels of
#: the hydraulic rig and of simulated plants in view.
_MIN_REGIMES, _MIN_DISPERSION = 2, 1 / 3
#: The most confidence in a kind, so that the confidence in the row's mode is not lost to rounding.
_MAX_CONFIDENCE = 1.0 - 1e-9

Two = tuple[NDArray[np.float32], NDArray[np.float32]]


class ResidualRows(PrecomputedRows):
    """Rows less the centre of each one's ``regime``, in canonical coordinates of the residuals of both inputs."""

    def __init__(self, rows: MappedRows, regime: IntArray, centres: Two, maps: Two) -> None:
        found = []
        for which in (0, 1):
            out = np.empty((len(rows), maps[which].shape[1]), dtype=np.float32)
            for start in range(0, len(rows), _SAMPLE):
                block = np.arange(start, min(start + _SAMPLE, len(rows)))
                out[block] = (rows.side(which, block).numpy() - centres[which][regime[block]]) @ maps[which]
            found.append(out)
        super().__init__(rows, (found[0], found[1]))


@dataclass(frozen=True)
class ResidualModel:
    """Networks for residuals, and which of their outputs are kinds.

    Parameters
    ----------
    modes, sizes : array
        The modes of the catalogue and their sizes.
    regimes : array of bool
        Which of them are regimes. Rows of other modes are never assigned to a kind.
    centres, maps : pair of arrays
        The centre of each mode, and the map to canonical coordinates, for s and q.
    duo, blueprints
        The networks.
    kinds : tuple of int
        Their outputs that are kinds.
    """

    modes: IntArray
    sizes: FloatArray
    regimes: BoolArray
    centres: Two
    maps: Two
    duo: Duo
    blueprints: tuple[Blueprint, Blueprint]
    kinds: tuple[int, ...]

    def add_kinds(self, data: MappedRows, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Confidences with one more column for each kind; the others are reduced by the confidence in kinds."""
        own, regime = _best_modes(a, b, self.modes, self.sizes, self.regimes)
        rows = ResidualRows(data, regime, self.centres, self.maps)
        found = []
        for whole, votes in zip((a, b), responsibilities(self.duo, rows), strict=True):
            kind = votes.mean(0).astype(np.float64)[:, list(self.kinds)] * self.regimes[own, None]
            kind /= np.maximum(kind.sum(1, keepdims=True) / _MAX_CONFIDENCE, 1.0)
            found.append(np.concatenate([whole * (1.0 - kind.sum(1, keepdims=True)), kind], axis=1))
        return found[0], found[1]

    def weigh(self, evidence: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
        """Evidence in which that for a kind is multiplied by the evidence of the pair for all modes.

        A kind is conditional on the mode of the row, so the evidence for that mode counts with and without the kind.
        """
        k = len(self.kinds)
        rest = np.prod([1.0 - votes[:, -k:].sum(1) for votes in (a, b)], axis=0)
        of_modes = pair_evidence(a[:, self.modes], b[:, self.modes], self.sizes)[1] / rest
        return np.concatenate([evidence[:, :-k], evidence[:, -k:] * of_modes[:, None]], axis=1)


def add_residual_kinds(
    task: Task, found: FitResult, data: MappedRows, rng: np.random.Generator
) -> tuple[FitResult, ResidualModel | None]:
    """The result with the kinds that the residuals of flat rows show, and the model that finds them in new rows."""
    if found.duo is None or not data.flat:
        return found, None
    a, b = (votes.mean(0) for votes in responsibilities(found.duo, data))
    listed = np.sort([mode.mode for mode in found.table])
    role = {mode.mode: mode.role for mode in found.table}
    regimes = np.array([role[mode] == "regime" for mode in listed])
    if regimes.sum() < _MIN_REGIMES:
        return found, None
    own, regime = _best_modes(a, b, listed, found.sizes[listed], regimes)
    some = np.sort(rng.permutation(len(data))[:_SAMPLE])
    held = held_out(len(data), task.group, rng)[some]
    centres, maps = _residual_coordinates(data, regime, len(listed), some, held, regimes[own[some]])
    if maps is None:
        return found, None
    rows = ResidualRows(data, regime, centres, maps)
    _, residual = find_modes(task, [rows], rng, max_steps=_STEPS)
    labels = np.where(regimes[own], residual.labels, -1)
    kinds = [
        mode
        for mode in residual.table
        if mode.role == "rare"
        and mode.stability >= _MIN_STABILITY
        and np.count_nonzero(labels == mode.mode) >= MIN_ROWS
        and effective_count(regime[residual.labels == mode.mode]) >= _MIN_REGIMES
        and relative_dispersion(regime[residual.labels == mode.mode], regime, rng) >= _MIN_DISPERSION
    ]
    if not kinds:
        return found, None
    assert residual.duo is not None
    model = ResidualModel(
        listed,
        found.sizes[listed],
        regimes,
        centres,
        maps,
        residual.duo,
        residual.blueprints,
        tuple(mode.mode for mode in kinds),
    )
    counts = [effective_count(regime[residual.labels == mode.mode]) for mode in kinds]
    return _with_kinds(found, kinds, labels, counts), model


def _best_modes(
    a: FloatArray, b: FloatArray, modes: IntArray, sizes: FloatArray, regimes: BoolArray
) -> tuple[IntArray, IntArray]:
    """The index, among ``modes``, of the best mode and of the best regime of each row."""
    evidence = log_pair_evidence(a[:, modes], b[:, modes], sizes)
    return np.asarray(evidence.argmax(1)), np.asarray(np.where(regimes, evidence, -np.inf).argmax(1))


def _residual_coordinates(
    data: MappedRows, regime: IntArray, modes: int, some: IntArray, held: BoolArray, free: BoolArray
) -> tuple[Two, Two | None]:
    """The centre (median) of each regime, and canonical maps of the residuals, None if no direction is shared.

    None also if the rows that may be assigned to a kind (``free``) share no direction.
    """
    centres, scaled, widths = [], [], []
    for which in (0, 1):
        rows = data.side(which, some).numpy()
        centre = np.zeros((modes, rows.shape[1]), dtype=np.float32)
        for mode in np.unique(regime[some]):
            centre[mode] = np.median(rows[regime[some] == mode], axis=0)
        residual = rows - centre[regime[some]]
        mean, width = residual.mean(0), residual.std(0)
        width = np.where(width > 0, width, 1.0).astype(np.float32)
        centres.append(centre + mean)
        scaled.append((residual - mean) / width)
        widths.append(width)
    both = centres[0], centres[1]
    if canonical_maps(scaled[0][free], scaled[1][free], held[free]) is None:
        return both, None
    maps = canonical_maps(scaled[0], scaled[1], held)
    if maps is None:
        return both, None
    return both, (maps[0] / widths[0][:, None], maps[1] / widths[1][:, None])


def _with_kinds(
    found: FitResult, kinds: Sequence[Mode], residual_labels: IntArray, regime_counts: Sequence[float]
) -> FitResult:
    """The result in which the rows of a kind are no longer in the mode of their regime."""
    first = len(found.sizes)
    labels = found.labels.copy()
    for number, kind in enumerate(kinds, start=first):
        labels[residual_labels == kind.mode] = number
    table = []
    for mode in found.table:
        if np.count_nonzero(labels == mode.mode) >= MIN_ROWS:
            table.append(mode.recounted(labels))
    for number, (kind, count) in enumerate(zip(kinds, regime_counts, strict=True), start=first):
        reason = f"the same deviation in about {count:.0f} regimes"
        table.append(replace(kind, mode=number, reason=reason).recounted(labels))
    sizes = mode_sizes(labels, first + len(kinds))
    return replace(found, table=ModeTable.rarest_first(table), labels=labels, sizes=sizes)
