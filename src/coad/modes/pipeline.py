"""The steps of a fit: train by the table, test, group, teach, merge, teach again, describe."""

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
from coad.learned.training.duo import Duo
from coad.learned.training.progress import Progress
from coad.modes import consensus, evidence, merging
from coad.modes.describing import LEAST_ROWS, Found, described, nothing_found
from coad.modes.gaps import Between, Gaps, gaps_among
from coad.modes.inputs import FrontRows
from coad.modes.plan import Task, blueprints_of_modes, folds, plan_for
from coad.modes.training import responsibilities, train_on_labels, train_on_table, trained

__all__ = ["find_modes"]

log = logging.getLogger(__name__)

_LABEL_STEPS = 90  # for each of two rounds; of convolutions, half as many as for the table
#: Rows that are compared with each other; the others follow the networks that learn from these.
_COMPARED = 2500
#: A row that shows coincidence less than this times as clearly as the typical row of its group is no example, if the
#: inputs contradict each other often: in a fifth of the rows (0.5 / 2.5) or more, and in proportion below that.
_CLEAR, _OFTEN = 0.5, 2.5
#: If s and q vote together for less than this part of the rows of a mode for which they did before modes were merged, it
#: was lost: small beside the merged ones, it is not learned anew. The networks then go on with the outputs they had.
_LOST = 0.5
#: A row that is less than this times as near to a group as its typical row is unlike it.
_UNLIKE = 0.5
#: Candidates for each mode that a member has, at most.
_MORE = 1.15
#: Modes between which s and q choose independently (κ below the first) are one. With many rows a weaker dependence is
#: sure too, but not below the second.
_INDEPENDENT, _NEGLIGIBLE = 0.15, 0.05
#: Modes that overlap more than this are one. Lower, and rare kinds vanish in what looks like them (Hennig: 0.025).
_OVERLAP = 0.04
#: The same by what lies between two modes. Pieces of a crowd are told apart by a line; what is not is no such piece (a
#: kind inside another, or across it), and to be one with it takes more.
_ONE: dict[Between, float] = {"gap": math.inf, "no gap": _OVERLAP, "unsaid": 0.15}
#: If modes hold less than this part of what is shared, it is a continuum in these coordinates, and other ones are asked: do
#: modes hold as much there, and so many times what they do in any before? Those of halves of handwritten digits hold 0.1 to
#: 0.2 of it in canonical coordinates and 0.6 as pixels; of data that suit their coordinates, 0.6 and more.
_MOST_OF_IT, _CLEARLY = 0.5, 1.1


def find_modes(
    task: Task, options: Sequence[FrontRows], rng: np.random.Generator, *, most_steps: int | None = None
) -> tuple[int, Found]:
    """All steps of a fit on scaled rows; ``most_steps`` is for the training by the table.

    ``options`` are the same rows in several coordinates; the number of those in which the modes were found comes first.
    It is 0, unless modes hold little of what is shared there, as of a continuum, and most of it in others.
    """
    best, chosen = _Fit(task, options[0], rng, most_steps), 0
    best.begin()
    wanted = _MOST_OF_IT * best.shared
    if best.kept < wanted:
        for number, rows in enumerate(options[1:], start=1):
            other = _Fit(task, rows, rng.spawn(1)[0], most_steps)
            other.begin()
            log.info("modes hold %.2f nats, in other coordinates %.2f", best.kept, other.kept)
            if other.kept > max(wanted, _CLEARLY * best.kept):
                best, chosen = other, number
    return chosen, best.end()


class _Fit:
    """A fit of rows in given coordinates, in two rounds.

    After the first, ``shared`` is what the votes of held-out rows have in common, in nats, and ``kept`` what is left of it
    when modes that are one are merged.
    """

    def __init__(self, task: Task, data: FrontRows, rng: np.random.Generator, most_steps: int | None) -> None:
        model = task.model
        self.task, self.data, self.rng = task, data.ready(), rng
        self.blueprints = blueprints_of_modes(model.net, self.data)
        self.fold = folds(len(self.data), max(2, model.n_starts), task.group, rng)
        self.members = [int(x) for x in rng.integers(2**30, size=model.n_starts)]
        learns = np.stack([self.fold != m for m in range(model.n_starts)])
        self.seen = torch.from_numpy(learns.astype(np.float32))
        plan = plan_for(model, self.data, task.batch, rng)
        self.plan = plan if most_steps is None else replace(plan, steps=min(plan.steps, most_steps))
        steps = _LABEL_STEPS if self.data.flat else self.plan.steps // 2
        self.short = replace(self.plan, steps=min(self.plan.steps, steps))
        self.shared = self.kept = self.clear = 0.0
        self.nothing: Found | None = None

    def begin(self) -> None:
        """The first round: train by the table, test, group, teach, merge."""
        task, data, fold, rng = self.task, self.data, self.fold, self.rng
        with _workers(data.flat) as workers, self._bar(self.plan.steps + self.short.steps) as bar:
            duo = trained(
                partial(train_on_table, data, self.plan),
                self.blueprints,
                self.members,
                task.modes,
                self.seen,
                workers=workers,
                sharp=True,
                tick=lambda step: bar.advance(1, "looking for modes"),
            )
            a, b = responsibilities(duo, data)
            held = [np.flatnonzero(fold == m) for m in range(len(a))]
            codes = None if data.context is None else data.context.numpy()
            strata = [None if codes is None else codes[rows] for rows in held]
            self.p_value = evidence.global_p_value(_held_votes(a, b, held), task.modes, strata, rng)
            if self.p_value > task.model.significance:
                self._end_with(f"shuffled pairings of the held-out rows do as well (p = {self.p_value:.3g})")
                return
            if task.time is not None:
                when = np.asarray(task.time)
                held = [rows[np.argsort(when[rows], kind="stable")] for rows in held]
            self.slow = evidence.slowness(_held_votes(a, b, held), task.modes, rng)
            b = consensus.matched(a, b)
            self.own = [(x.argmax(1), y.argmax(1)) for x, y in zip(a, b, strict=True)]
            clarity = consensus.log_coincidence_ratio(a, b)
            clear = min(_CLEAR, _OFTEN * float((clarity <= 0).mean()))
            labels = _candidates(a, b, clarity, round(_MORE * task.modes), fold, codes, rng)
            labels = consensus.compact(consensus.clearest(clarity, labels, clear))
            if labels.max() < 1:
                self._end_with("all candidates for modes overlap")
                return
            self.first = self._taught(labels, 1, workers, bar)
        a, b = responsibilities(self.first, data)
        size = consensus.part_of_rows(labels, a.shape[2])
        self.pieces = consensus.relabelled(a.mean(0), b.mean(0), size)
        self.votes = a, b = _honest(a, b, fold)
        self.shared = evidence.information(a.argmax(1), b.argmax(1))
        self.labels = _taught_again(a, b, self.pieces, gaps_among(data, rng), clear)
        if self.labels.max() < 1:
            self._end_with("all candidates for modes overlap")
            return
        self.mode = consensus.merged_into(self.pieces, self.labels, a.shape[1])
        a, b = (votes.argmax(1) for votes in self._pooled())
        self.kept, self.clear = evidence.information(a, b), evidence.shared_part(a, b)

    def end(self) -> Found:
        """The second round: teach again, describe."""
        if self.nothing is not None:
            return self.nothing
        data, fold, labels = self.data, self.fold, self.labels
        with _workers(data.flat) as workers, self._bar(self.short.steps) as bar:
            # Convolutions would see every row too often: they start anew (see coad.modes.plan).
            duo = self._taught(labels, 2, workers, bar, like=self.first if data.flat else None)
            a, b = responsibilities(duo, data)
            if data.flat:
                before = consensus.agreed(*self._pooled(), labels)
                after = consensus.agreed(*_honest(a, b, fold), labels)
                counted = np.bincount(labels[labels >= 0]) >= LEAST_ROWS
                if (after < _LOST * before)[counted].any():
                    duo = self._taught(labels, 2, workers, bar, like=self.first, mode=self.mode)
                    a, b = responsibilities(duo, data)
        # The sizes that make the labels are kept, so that the rows of the fit are told the modes that they count for.
        sizes = consensus.part_of_rows(labels, a.shape[2])
        labels = consensus.relabelled(a.mean(0), b.mean(0), sizes)
        found = described(
            self.task,
            duo,
            self.blueprints,
            data,
            (a, b),
            labels,
            sizes,
            self.own,
            fold,
            self.p_value,
            self.rng,
        )
        return replace(found, slow=self.slow, kept=self.kept, clear=self.clear) if found.table else found

    def _end_with(self, reason: str) -> None:
        self.nothing = nothing_found(self.blueprints, len(self.data), self.p_value, reason)

    def _pooled(self) -> tuple[FloatArray, FloatArray]:
        """The votes after the first round for the modes that the pieces became."""
        joined = consensus.joining(self.mode)
        return self.votes[0] @ joined, self.votes[1] @ joined

    def _bar(self, steps: int) -> Progress:
        return Progress(steps, verbose=self.task.model.verbose)

    def _taught(
        self,
        labels: IntArray,
        number: int,
        workers: int,
        bar: Progress,
        *,
        like: Duo | None = None,
        mode: IntArray | None = None,
    ) -> Duo:
        """The members, taught the ``labels`` of the consensus for the first or the second time."""
        return trained(
            partial(train_on_labels, self.data, replace(self.short, seed=self.short.seed + number), labels),
            self.blueprints,
            self.members,
            int(labels.max()) + 1 if mode is None else len(mode),
            self.seen,
            workers=workers,
            like=like,
            mode=mode,
            tick=lambda step: bar.advance(1, "agreeing"),
        )


@contextmanager
def _workers(flat: bool) -> Iterator[int]:
    """How many threads share out the members: small products gain nothing from threads of their own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if flat else threads)
    try:
        yield threads if flat else 1
    finally:
        torch.set_num_threads(threads)


def _candidates(
    a: FloatArray,
    b: FloatArray,
    clarity: FloatArray,
    most: int,
    fold: IntArray,
    context: IntArray | None,
    rng: np.random.Generator,
) -> IntArray:
    """Groups of rows that the members put together in both inputs, and that these see at once; -1 for other rows.

    Rows that show in one input only (``clarity`` is not above 0) are left out: they lie between the modes and would
    join them. Of many rows some are compared with each other, and the rest goes to the group that it is most alike.
    """
    labels = np.full(a.shape[1], -1)
    shared = np.flatnonzero(clarity > 0)
    some = np.sort(rng.permutation(shared)[:_COMPARED])
    if len(some) < 2 * LEAST_ROWS:
        return labels
    labels[some] = consensus.groups(consensus.coassociation(a[:, some], b[:, some]), most, LEAST_ROWS)
    if labels.max() < 0:
        return labels
    near_s, near_q = consensus.nearness(a, b, labels)
    rest = np.setdiff1d(shared, some)
    labels[rest] = (near_s[rest] * near_q[rest]).argmax(1)
    rows = np.flatnonzero(fold < len(a))
    near_s, near_q = (near[rows] for near in consensus.nearness(a, b, labels, fold))
    real = evidence.coincident(near_s, near_q, None if context is None else context[rows])
    return _with_crowd(a, b, consensus.compact(np.where(real[labels] & (labels >= 0), labels, -1)))


def _with_crowd(a: FloatArray, b: FloatArray, labels: IntArray) -> IntArray:
    """Labels in which the crowd is a group too: the rows that look like no group in either input, if most rows do.

    Where normal rows share nothing, each network cuts them elsewhere, and hardly two of them are alike. Rows that look
    like one group in s and like another in q are no crowd.
    """
    far, known = labels < 0, labels >= 0
    if far.mean() <= 0.5 or not known.any():
        return labels
    for near in consensus.nearness(a, b, labels):
        most = near.max(1)
        far &= most < _UNLIKE * np.median(most[known])
    return np.where(far, labels.max() + 1, labels) if far.mean() > 0.5 else labels


def _honest(a: FloatArray, b: FloatArray, fold: IntArray) -> tuple[FloatArray, FloatArray]:
    """What the member that did not learn from a row says about it; where all did, their mean."""
    rows = np.flatnonzero(fold < len(a))
    found = []
    for votes in (a, b):
        mean = votes.mean(0)
        mean[rows] = votes[fold[rows], rows]
        found.append(mean)
    return found[0], found[1]


def _held_votes(a: FloatArray, b: FloatArray, held: list[IntArray]) -> list[tuple[IntArray, IntArray]]:
    """What each member votes for on rows that it did not learn from."""
    return [(a[m, rows].argmax(1), b[m, rows].argmax(1)) for m, rows in enumerate(held)]


def _merged(a: FloatArray, b: FloatArray, labels: IntArray, gaps: Gaps | None) -> IntArray:
    """Labels after merging the modes that are one.

    They are, if the inputs confuse them, if many rows belong to both and no clear gap lies between them, or if
    there is no gap at all. Without ``gaps`` nothing is known of these.
    """
    counts = consensus.joint_counts(a.argmax(1), b.argmax(1), a.shape[1])
    group = merging.merge_map(counts, _INDEPENDENT, _apart(gaps, labels), least=_NEGLIGIBLE)
    joined = np.eye(int(group.max()) + 1)[group]
    labels = consensus.renumbered(labels, group)
    size = consensus.part_of_rows(labels, joined.shape[1])
    sure, total = consensus.posterior(a @ joined, b @ joined, size)
    sure = sure[total >= consensus.DISAGREE]
    sure /= sure.sum(1, keepdims=True)
    group = merging.merge_overlapping(sure, _OVERLAP, _overlap_of_one(gaps, labels))
    merged = consensus.compact(consensus.renumbered(labels, group))
    return merged if gaps is None or merged.max() < 1 else gaps.merged(merged)


def _apart(gaps: Gaps | None, labels: IntArray) -> merging.Apart | None:
    if gaps is None:
        return None
    between = gaps.asked(labels)
    return lambda one, other: between(one, other) == "gap"


def _overlap_of_one(gaps: Gaps | None, labels: IntArray) -> merging.Limit | None:
    if gaps is None:
        return None
    between = gaps.asked(labels)
    return lambda one, other: _ONE[between(one, other)]


def _taught_again(
    a: FloatArray, b: FloatArray, labels: IntArray, gaps: Gaps | None, clear: float
) -> IntArray:
    """The examples of the second round: modes that are one merged, without rows that are much less clear than others."""
    merged = _merged(a, b, labels, gaps)
    joined = consensus.joining(consensus.merged_into(labels, merged, a.shape[1]))
    clarity = consensus.posterior(a @ joined, b @ joined, consensus.part_of_rows(merged))[1]
    return consensus.clearest(clarity, merged, clear)
