"""The steps of a fit: choose transforms, train the ensemble, test, find its modes, look for kinds in several regimes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.oddness import ODD, Oddness
from coad.core.validation import LEVEL
from coad.learned.training.progress import Progress
from coad.learned.training.split import in_time_order
from coad.modes import evidence
from coad.modes.catalogue import ModeTable, mode_statistics
from coad.modes.checks import warn_of_batch
from coad.modes.consensus import MIN_ROWS, mode_of_rows, pair_evidence
from coad.modes.coordinates import Arrays, Front, MappedRows, Recipe
from coad.modes.deviations import Centres, Deviations, effective_count, regimes_of, with_kinds
from coad.modes.folds import Folds, make_folds
from coad.modes.layer import Ensemble, Layer, Two, distil, train_ensemble
from coad.modes.selection import choose_recipe
from coad.modes.training import CONV_BATCH, FLAT_BATCH, Plan
from coad.modes.transforms import candidate_steps

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["FitResult", "fit_modes"]

#: A kind is reproduced by a majority of the members, and occurs in at least two regimes, or it is a piece of one.
_MAJORITY, _FEWEST_REGIMES = 0.5, 2


@dataclass(frozen=True)
class FitResult:
    """A catalogue and its networks, which are None without modes; then there is a ``reason``.

    ``held`` are the confidences of s and q in each mode, each (n, modes), by networks that did not see the row.
    """

    front: Front
    layer: Layer | None
    deviations: Deviations | None
    table: ModeTable
    sizes: FloatArray
    labels: IntArray
    held: Two
    p_value: float
    reason: str = ""

    def repeated(self, new: BoolArray) -> FitResult:
        """The result for all rows, from one for the ``new`` readings only: repeats are like the reading before."""
        reading, first = np.cumsum(new) - 1, np.flatnonzero(new)
        labels = self.labels[reading]
        table = ModeTable(
            replace(
                mode,
                rows=int((labels == mode.mode).sum()),
                size=float((labels == mode.mode).mean()),
                exemplars=tuple(int(first[row]) for row in mode.exemplars),
            )
            for mode in self.table
        )
        held = self.held[0][reading], self.held[1][reading]
        return replace(self, table=table, labels=labels, held=held)


def fit_modes(
    model: CoincidenceModes,
    arrays: Arrays,
    labels: NDArray[Any] | None,
    outputs: int,
    group: NDArray[Any] | None,
    time: Any,
    rng: np.random.Generator,
) -> FitResult:
    """All steps of a fit; ``labels`` are the context, ``outputs`` those of each network.

    Windows go to convolutions point by point only if nothing coincides in their features, because that takes longer.
    """
    folds = make_folds(arrays, labels, group, time, model.ordered, rng)
    plan = Plan(model.steps, model.batch_size, model.lr, model.jitter, model.micro_batch)
    result: FitResult | None = None
    for candidates in candidate_steps(*arrays, model.net):
        recipe = choose_recipe(candidates, arrays, labels, folds, outputs=outputs, plan=plan, rng=rng)
        result = _Fit(model, arrays, labels, outputs, folds, time, plan, recipe, rng).run()
        if result.table:
            break
    assert result is not None
    return result


class _Fit:
    """A fit with a given recipe."""

    def __init__(
        self,
        model: CoincidenceModes,
        arrays: Arrays,
        labels: NDArray[Any] | None,
        outputs: int,
        folds: Folds,
        time: Any,
        plan: Plan,
        recipe: Recipe,
        rng: np.random.Generator,
    ) -> None:
        self.model, self.arrays, self.labels, self.outputs = model, arrays, labels, outputs
        self.folds, self.time, self.plan, self.recipe, self.rng = folds, time, plan, recipe, rng
        whole = Front.fit(recipe._replace(scale="columns"), arrays, labels, np.arange(len(folds.fold)))
        assert whole is not None
        self.rows = MappedRows(arrays, whole, labels)
        self.codes = None if self.rows.context is None else self.rows.context.numpy()
        batch = model.batch_size or (FLAT_BATCH if self.rows.flat else CONV_BATCH)
        warn_of_batch(batch, len(self.rows), model.smallest)

    def run(self) -> FitResult:
        """The catalogue."""
        with Progress("looking for modes", verbose=self.model.verbose) as bar:
            # Without a total: whether kinds will be looked for is not known.
            ensemble = self._ensemble(
                self.recipe, self.arrays, self.labels, lambda step: bar.advance(1, f"ensemble, step {step:,}")
            )
            p_value, reason = self._tested(ensemble)
            if reason:
                return self._nothing(p_value, reason)
            layer, held_groups, groups = distil(
                ensemble,
                self.arrays,
                self.labels,
                self.folds,
                self.codes,
                self.plan,
                self.rng,
                lambda step: bar.advance(1, f"networks of the consensus, step {step:,}"),
            )
            held, mean = layer.pooled(held_groups), layer.pooled(groups)
            odd = self._oddness(
                mode_of_rows(pair_evidence(*mean, layer.sizes)),
                len(layer),
                ensemble.nets[0].front,
                self.arrays,
            )
            sizes, p_values, stability, deviations = layer.sizes, layer.p_values, layer.stability, None
            if self.rows.flat and self.codes is None:  # with a context, rows are scaled within it already
                group_sizes = np.maximum(
                    np.bincount(
                        regimes_of(groups, np.ones(groups[0].shape[1])), minlength=groups[0].shape[1]
                    ),
                    1,
                ) / len(self.rows)
                found = self._kinds(groups, group_sizes)
                if found is not None:
                    deviations, kinds_held, kinds_mean, odd_kinds = found
                    own = deviations.layer
                    held, mean = with_kinds(held, kinds_held), with_kinds(mean, kinds_mean)
                    sizes, p_values, stability = (
                        np.concatenate([x, y[deviations.kinds]])
                        for x, y in ((sizes, own.sizes), (p_values, own.p_values), (stability, own.stability))
                    )
                    odd = np.concatenate([odd, odd_kinds], axis=1)
        row_evidence = pair_evidence(*mean, sizes)
        told = mode_of_rows(row_evidence)
        rows = np.bincount(told[told >= 0], minlength=len(sizes))
        listed = np.flatnonzero((p_values <= self.model.significance) & (rows >= MIN_ROWS))
        if len(listed) < 2:
            return self._nothing(p_value, "no mode is significant on rows that training did not see")
        row_evidence[:, np.setdiff1d(np.arange(len(sizes)), listed)] = 0.0
        told = mode_of_rows(row_evidence)
        table = mode_statistics(
            held, told, row_evidence, listed, p_values, stability, odd, self.codes, self.model.max_rare
        )
        return FitResult(self.rows.front, layer, deviations, table, sizes, told, held, p_value)

    def _ensemble(self, recipe: Recipe, arrays: Arrays, labels: Any, tick: Any = None) -> Ensemble:
        train = partial(
            train_ensemble,
            arrays=arrays,
            labels=labels,
            used=self.folds.used,
            net=self.model.net,
            # A convolution costs as much as many flat networks.
            members=self.model.n_starts if self.rows.flat else 1,
            outputs=self.outputs,
            plan=self.plan,
            seed=int(self.rng.integers(2**30)),
            tick=tick,
        )
        # Some fold may have no canonical coordinates.
        found = train(recipe) or train(recipe._replace(scale="columns"))
        assert found is not None
        return found

    def _kinds(self, groups: Two, sizes: FloatArray) -> tuple[Deviations, Two, Two, FloatArray] | None:
        """The kinds in several regimes, the confidences in them (held out, and by all), and how odd each is, (2, kinds).

        They are modes of the deviations that are significant within regimes, at most ``max_rare`` of the rows, odd in
        both inputs, reproduced by most members, and spread over at least two regimes.
        """
        regime = regimes_of(groups, sizes)
        centres = Centres.of(self.rows.front, self.arrays, regime, sizes)
        rows = centres.deviations(self.arrays, regime)
        trained = train_ensemble(
            Recipe(((), ()), "canonical"),
            rows,
            None,
            self.folds.used,
            net=None,
            members=max(1, self.model.n_starts // 2),  # less is left to be found
            outputs=self.outputs,
            plan=self.plan,
            seed=int(self.rng.integers(2**30)),
        )
        if trained is None:  # deviations that share no direction
            return None
        layer, held, mean = distil(trained, rows, None, self.folds, regime, self.plan, self.rng)
        held, mean = layer.pooled(held), layer.pooled(mean)
        labels = mode_of_rows(pair_evidence(*mean, layer.sizes))
        odd = self._oddness(labels, len(layer), trained.nets[0].front, rows)
        count = np.bincount(labels[labels >= 0], minlength=len(layer))
        spread = np.array([effective_count(regime[labels == kind]) for kind in range(len(layer))])
        good = (layer.p_values <= self.model.significance) & (count >= MIN_ROWS)
        good &= (count <= self.model.max_rare * len(labels)) & (odd.min(0) >= ODD)
        good &= (layer.stability >= _MAJORITY) & (spread >= _FEWEST_REGIMES)
        kinds = np.flatnonzero(good)
        if not len(kinds):
            return None
        pick = [(x[:, kinds], y[:, kinds]) for x, y in (held, mean)]
        return Deviations(centres, layer, kinds), pick[0], pick[1], odd[:, kinds]

    def _oddness(self, labels: IntArray, k: int, front: Front, arrays: Arrays) -> FloatArray:
        """The mean percentile of oddness of the rows of each mode in s and in q, (2, k)."""
        mapped, found = MappedRows(arrays, front, self.labels if arrays is self.arrays else None), []
        known = labels >= 0
        count = np.maximum(np.bincount(labels[known], minlength=k), 1)
        for side in (0, 1):
            flat = mapped.side(side, np.arange(len(labels))).numpy().reshape(len(labels), -1)
            odd = Oddness.fit(flat, rare=self.model.max_rare, rng=self.rng)(flat)
            found.append(np.bincount(labels[known], odd[known], minlength=k) / count)
        return np.array(found)

    def _nothing(self, p_value: float, reason: str) -> FitResult:
        n = len(self.rows)
        nothing = np.zeros((n, 0)), np.zeros((n, 0))
        return FitResult(
            self.rows.front, None, None, ModeTable(), np.zeros(0), np.full(n, -1), nothing, p_value, reason
        )

    def _tested(self, ensemble: Ensemble) -> tuple[float, str]:
        """The p-value of the coincidence in the whole table on held-out rows, and why there are no modes, if there are none."""
        held: list[evidence.HeldOutVotes] = []
        for k, (a, b) in enumerate(ensemble.votes):
            rows = in_time_order(np.flatnonzero(self.folds.fold == k), self.time)
            own = None if self.codes is None else self.codes[rows]
            held.append((a[:, rows].argmax(2), b[:, rows].argmax(2), own))
        p_value = evidence.global_p_value(held, self.outputs, self.rng)
        if p_value > self.model.significance:
            return p_value, f"shuffled pairings of the held-out rows do as well (p = {p_value:.3g})"
        if self.model.ordered:
            moved = evidence.shift_p_value(held, self.outputs, memory=self.folds.memory)
            if moved > max(LEVEL, self.model.significance):
                return moved, (
                    f"pairings of the held-out rows that are shifted in time may do as well (p = {moved:.2g}): if rows "
                    "are in no order, say so (ordered=False, --unordered)"
                )
        return p_value, ""
