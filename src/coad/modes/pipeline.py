"""The steps of a fit: train on the table, test, group, train on the groups, merge, train again, build the catalogue."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from coad._typing import FloatArray, IntArray
from coad.core.validation import LEVEL
from coad.learned.training.duo import Duo
from coad.learned.training.progress import Progress
from coad.learned.training.split import in_time_order
from coad.modes import consensus, evidence, merging
from coad.modes.cataloguing import MIN_ROWS, FitResult, build_catalogue, empty_result
from coad.modes.coordinates import MappedRows
from coad.modes.density import Between, DensityDips, density_dips
from coad.modes.plan import Task, folds, mode_blueprints, plan_for, training_rows
from coad.modes.training import responsibilities, train_members, train_on_labels, train_on_table

__all__ = ["find_modes"]

log = logging.getLogger(__name__)

#: Steps of each training on labels; for convolutions, half the steps of the training on the table.
_LABEL_STEPS = 90
#: Rows of the co-association matrix, whose cost is quadratic; the others join the most similar group.
_COASSOCIATED = 2500
#: Rows with a clarity below c × their group's median are dropped. c is the second × the share of contradicting rows, at
#: most the first, which is reached if a fifth of the rows contradict.
_MAX_CLARITY_CUT, _CLARITY_CUT_SLOPE = 0.5, 2.5
#: A mode is lost if agreement on its rows falls below this fraction of that before merging: small beside the merged modes,
#: it is not learned again. Then the networks continue with the outputs they had.
_LOST = 0.5
#: Rows with a similarity to a group below this fraction of its median are unlike it.
_UNLIKE = 0.5
#: Groups per output of a member, at most: some members split what others do not.
_MORE_GROUPS = 1.15
#: Modes are merged if κ of s and q between them is below the first; if that is significantly above 0, only below the second.
_INDEPENDENT, _NEGLIGIBLE = 0.15, 0.05
#: Modes that overlap more than this are merged. With less, rare kinds vanish in similar modes (Hennig: 0.025).
_OVERLAP = 0.04
#: The overlap from which two modes are merged, by what lies between them. Pieces of a continuum are separated by a line;
#: where none separates (one mode inside or across another), it takes more.
_MERGE_OVERLAP: dict[Between, float] = {"dip": math.inf, "no dip": _OVERLAP, "unclear": 0.15}
#: If modes hold less than the first fraction of the shared information, it is a continuum in these coordinates. Others are
#: tried, and must reach that and the second × the best so far. Modes of halves of handwritten digits hold 0.1 to 0.2 in
#: canonical coordinates and 0.6 as pixels; in coordinates that suit the data, 0.6 and more.
_MOST_INFORMATION, _CLEARLY = 0.5, 1.1


def find_modes(
    task: Task, options: Sequence[MappedRows], rng: np.random.Generator, *, max_steps: int | None = None
) -> tuple[int, FitResult]:
    """All steps of a fit.

    Parameters
    ----------
    task : Task
        Settings, groups and times.
    options : sequence of MappedRows
        The same rows in several coordinates, the preferred ones first.
    rng : numpy.random.Generator
        The source of all randomness.
    max_steps : int, optional
        The most steps of the training on the table.

    Returns
    -------
    number : int
        The option that was used: 0, unless its modes hold little of the shared information and those of another most.
    result : FitResult
        The catalogue and its networks.
    """
    best, chosen = _Fit(task, options[0], rng, max_steps), 0
    best.first_round()
    wanted = _MOST_INFORMATION * best.shared
    if best.kept < wanted:
        for number, rows in enumerate(options[1:], start=1):
            other = _Fit(task, rows, rng.spawn(1)[0], max_steps)
            other.first_round()
            log.info("modes hold %.2f nats, in other coordinates %.2f", best.kept, other.kept)
            if other.kept > max(wanted, _CLEARLY * best.kept):
                best, chosen = other, number
    return chosen, best.second_round()


class _Fit:
    """A fit in given coordinates, in two rounds.

    After the first, ``shared`` is the mutual information of the votes for the groups on held-out rows, in nats, and
    ``kept`` what remains of it after groups are merged.
    """

    def __init__(self, task: Task, data: MappedRows, rng: np.random.Generator, max_steps: int | None) -> None:
        model = task.model
        self.task, self.data, self.rng = task, data.precomputed(), rng
        self.blueprints = mode_blueprints(model.net, self.data)
        self.fold = folds(len(self.data), max(2, model.n_starts), task.group, rng)
        self.members = [int(x) for x in rng.integers(2**30, size=model.n_starts)]
        trains_on = training_rows(self.fold, model.n_starts, task)
        self.weight = torch.from_numpy(trains_on.astype(np.float32))
        plan = plan_for(model, self.data, task.batch, rng)
        self.plan = plan if max_steps is None else replace(plan, steps=min(plan.steps, max_steps))
        steps = _LABEL_STEPS if self.data.flat else self.plan.steps // 2
        self.label_plan = replace(self.plan, steps=min(self.plan.steps, steps))
        self.shared = self.kept = self.clarity = 0.0
        self.empty: FitResult | None = None

    def first_round(self) -> None:
        """Train on the table, test, group, train on the groups, merge."""
        task, data, fold, rng = self.task, self.data, self.fold, self.rng
        with _workers(data.flat) as workers, self._progress() as bar:
            duo = train_members(
                partial(train_on_table, data, self.plan),
                self.blueprints,
                self.members,
                task.modes,
                self.weight,
                workers=workers,
                sharp=True,
                tick=lambda step: bar.advance(1, f"first networks, step {step:,}"),
            )
            a, b = responsibilities(duo, data)
            held = [in_time_order(np.flatnonzero(fold == m), task.time) for m in range(len(a))]
            codes = None if data.context is None else data.context.numpy()
            strata = [None if codes is None else codes[rows] for rows in held]
            votes = _held_votes(a, b, held)
            self.p_value = evidence.global_p_value(votes, task.modes, strata, rng)
            if self.p_value > task.model.significance:
                self._stop(f"shuffled pairings of the held-out rows do as well (p = {self.p_value:.3g})")
                return
            if task.model.ordered:
                moved = evidence.shift_p_value(votes, task.modes, strata, memory=task.memory)
                if moved > max(LEVEL, task.model.significance):
                    self.p_value = moved
                    self._stop(
                        f"pairings of the held-out rows that are shifted in time may do as well (p = {moved:.2g}): if "
                        "rows are in no order, say so (ordered=False, --unordered)"
                    )
                    return
            b = consensus.match_outputs(a, b)
            self.first_votes = [(x.argmax(1), y.argmax(1)) for x, y in zip(a, b, strict=True)]
            ratio = consensus.log_coincidence_ratio(a, b)
            cut = min(_MAX_CLARITY_CUT, _CLARITY_CUT_SLOPE * float((ratio <= 0).mean()))
            labels = _candidate_groups(a, b, ratio, round(_MORE_GROUPS * task.modes), fold, codes, rng)
            labels = consensus.compact(consensus.drop_unclear(ratio, labels, cut))
            if labels.max() < 1:
                self._stop("all candidates for modes overlap")
                return
            self.first = self._train_on(labels, 1, workers, bar)
        a, b = responsibilities(self.first, data)
        size = consensus.mode_sizes(labels, a.shape[2])
        groups = consensus.posterior_labels(a.mean(0), b.mean(0), size)
        self.votes = a, b = _held_out_outputs(a, b, fold)
        self.shared = evidence.corrected_information(a.argmax(1), b.argmax(1))
        self.labels = _merged_examples(a, b, groups, density_dips(data, rng), cut)
        if self.labels.max() < 1:
            self._stop("all candidates for modes overlap")
            return
        self.mode = consensus.merged_modes(groups, self.labels, a.shape[1])
        a, b = (votes.argmax(1) for votes in self._pooled())
        self.kept = evidence.corrected_information(a, b)
        self.clarity = evidence.normalised_information(a, b)

    def second_round(self) -> FitResult:
        """Train on the merged labels, build the catalogue."""
        if self.empty is not None:
            return self.empty
        data, fold, labels = self.data, self.fold, self.labels
        with _workers(data.flat) as workers, self._progress() as bar:
            # Convolutions start anew, because they memorise rows that they are trained on too often.
            duo = self._train_on(labels, 2, workers, bar, like=self.first if data.flat else None)
            a, b = responsibilities(duo, data)
            if data.flat:
                before = consensus.agreement_by_mode(*self._pooled(), labels)
                after = consensus.agreement_by_mode(*_held_out_outputs(a, b, fold), labels)
                counted = np.bincount(labels[labels >= 0]) >= MIN_ROWS
                if (after < _LOST * before)[counted].any():
                    duo = self._train_on(labels, 2, workers, bar, like=self.first, mode=self.mode)
                    a, b = responsibilities(duo, data)
        # The sizes that give the labels are kept, so that predictions for the rows of the fit equal these labels.
        sizes = consensus.mode_sizes(labels, a.shape[2])
        labels = consensus.posterior_labels(a.mean(0), b.mean(0), sizes)
        found = build_catalogue(
            self.task,
            duo,
            self.blueprints,
            data,
            (a, b),
            labels,
            sizes,
            self.first_votes,
            fold,
            self.p_value,
            self.rng,
        )
        if not found.table:
            return found
        held = _held_out_outputs(a, b, fold)
        return replace(found, information=self.kept, clarity=self.clarity, held=held)

    def _stop(self, reason: str) -> None:
        self.empty = empty_result(self.blueprints, len(self.data), self.p_value, reason)

    def _pooled(self) -> tuple[FloatArray, FloatArray]:
        """The votes after the first round, summed over the groups that were merged."""
        pooling = consensus.pooling_matrix(self.mode)
        return self.votes[0] @ pooling, self.votes[1] @ pooling

    def _progress(self) -> Progress:
        # Without a total: how many rounds in how many coordinates will be needed is not known.
        return Progress("looking for modes", verbose=self.task.model.verbose)

    def _train_on(
        self,
        labels: IntArray,
        number: int,
        workers: int,
        bar: Progress,
        *,
        like: Duo | None = None,
        mode: IntArray | None = None,
    ) -> Duo:
        """The members after training on ``labels``, in the first or second round."""
        plan = replace(self.label_plan, seed=self.label_plan.seed + number)
        return train_members(
            partial(train_on_labels, self.data, plan, labels),
            self.blueprints,
            self.members,
            int(labels.max()) + 1 if mode is None else len(mode),
            self.weight,
            workers=workers,
            like=like,
            mode=mode,
            tick=lambda step: bar.advance(1, f"networks of the consensus, step {step:,}"),
        )


@contextmanager
def _workers(flat: bool) -> Iterator[int]:
    """The threads to distribute members over: small products gain nothing from threads of their own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if flat else threads)
    try:
        yield threads if flat else 1
    finally:
        torch.set_num_threads(threads)


def _candidate_groups(
    a: FloatArray,
    b: FloatArray,
    ratio: FloatArray,
    most: int,
    fold: IntArray,
    context: IntArray | None,
    rng: np.random.Generator,
) -> IntArray:
    """Groups of co-associated rows that are coincident on held-out rows; -1 for other rows.

    Rows whose log coincidence ratio is not above 0 show in one input only. They are left out, because they lie between
    the modes and would join them.
    """
    labels = np.full(a.shape[1], -1)
    shared = np.flatnonzero(ratio > 0)
    some = np.sort(rng.permutation(shared)[:_COASSOCIATED])
    if len(some) < 2 * MIN_ROWS:
        return labels
    labels[some] = consensus.linkage_groups(consensus.coassociation(a[:, some], b[:, some]), most, MIN_ROWS)
    if labels.max() < 0:
        return labels
    similar_s, similar_q = consensus.group_similarity(a, b, labels)
    rest = np.setdiff1d(shared, some)
    labels[rest] = (similar_s[rest] * similar_q[rest]).argmax(1)
    rows = np.flatnonzero(fold < len(a))
    similar_s, similar_q = (x[rows] for x in consensus.group_similarity(a, b, labels, fold))
    coincident = evidence.coincident_groups(similar_s, similar_q, None if context is None else context[rows])
    return _with_background(a, b, consensus.compact(np.where(coincident[labels] & (labels >= 0), labels, -1)))


def _with_background(a: FloatArray, b: FloatArray, labels: IntArray) -> IntArray:
    """Labels with a background group: the rows unlike every group in both inputs, if they are most rows.

    If normal rows share nothing, each member splits them differently and hardly two of them are co-associated. Rows that
    are like one group in s and like another in q are no background.
    """
    unlike, known = labels < 0, labels >= 0
    if unlike.mean() <= 0.5 or not known.any():
        return labels
    for similar in consensus.group_similarity(a, b, labels):
        most = similar.max(1)
        unlike &= most < _UNLIKE * np.median(most[known])
    return np.where(unlike, labels.max() + 1, labels) if unlike.mean() > 0.5 else labels


def _held_out_outputs(a: FloatArray, b: FloatArray, fold: IntArray) -> tuple[FloatArray, FloatArray]:
    """The outputs of the member that was not trained on a row; if all were, their mean."""
    rows = np.flatnonzero(fold < len(a))
    found = []
    for votes in (a, b):
        mean = votes.mean(0)
        mean[rows] = votes[fold[rows], rows]
        found.append(mean)
    return found[0], found[1]


def _held_votes(a: FloatArray, b: FloatArray, held: list[IntArray]) -> list[tuple[IntArray, IntArray]]:
    """The votes of each member on its held-out rows."""
    return [(a[m, rows].argmax(1), b[m, rows].argmax(1)) for m, rows in enumerate(held)]


def _merged(a: FloatArray, b: FloatArray, labels: IntArray, dips: DensityDips | None) -> IntArray:
    """Labels after merging the groups that are one mode.

    They are, if the inputs confuse them, if they overlap and no clear density dip separates them, or if there is no dip
    at all. Without ``dips``, density is not considered.
    """
    counts = consensus.joint_counts(a.argmax(1), b.argmax(1), a.shape[1])
    between = None if dips is None else dips.cached_between(labels)
    apart = None if between is None else lambda one, other: between(one, other) == "dip"
    group = merging.merge_independent(counts, _INDEPENDENT, apart, least=_NEGLIGIBLE)
    pooling = np.eye(int(group.max()) + 1)[group]
    labels = consensus.renumbered(labels, group)
    size = consensus.mode_sizes(labels, pooling.shape[1])
    posterior, total = consensus.pair_evidence(a @ pooling, b @ pooling, size)
    posterior = posterior[total >= consensus.DISAGREE]
    posterior /= posterior.sum(1, keepdims=True)
    after = None if dips is None else dips.cached_between(labels)
    limit = None if after is None else lambda one, other: _MERGE_OVERLAP[after(one, other)]
    group = merging.merge_overlapping(posterior, _OVERLAP, limit)
    merged = consensus.compact(consensus.renumbered(labels, group))
    return merged if dips is None or merged.max() < 1 else dips.merge_without_dip(merged)


def _merged_examples(
    a: FloatArray, b: FloatArray, labels: IntArray, dips: DensityDips | None, cut: float
) -> IntArray:
    """The examples of the second round: groups merged into modes, without unclear rows."""
    merged = _merged(a, b, labels, dips)
    pooling = consensus.pooling_matrix(consensus.merged_modes(labels, merged, a.shape[1]))
    clarity = consensus.pair_evidence(a @ pooling, b @ pooling, consensus.mode_sizes(merged))[1]
    return consensus.drop_unclear(clarity, merged, cut)
