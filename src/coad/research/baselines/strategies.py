"""Evaluate scores: Score & Stack, Stack & Score, and thresholds with and without labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.exceptions import CoadWarning
from coad.research.baselines.base import OneInput, TwoInputs
from coad.research.baselines.rows import Rows
from coad.thresholds.detector import CoincidenceThreshold

__all__ = [
    "Judged",
    "best_f1",
    "f1",
    "judge_pair",
    "judge_single",
    "run_one_input",
    "run_two_inputs",
]

SCORE_STACK, STACK_SCORE, JOINT = "Score & Stack", "Stack & Score", "both inputs"
_GRID = 2000


@dataclass(frozen=True)
class Judged:
    """Evaluation of one strategy on test rows; a value that does not exist is None.

    ``own`` is F1 at the method's own threshold, ``ours`` at the thresholds that coincidence sets on
    training scores without labels, ``best`` at the best thresholds for the test labels. ``flagged`` is the
    fraction of the test rows flagged without labels, at our thresholds or else at the method's own.
    ``note`` is a warning of the method, such as its status.
    """

    strategy: str
    own: float | None
    ours: float | None
    best: float | None
    average_precision: float | None
    flagged: float | None = None
    note: str = ""


def run_one_input(make: Any, rows: Rows, *, healthy_only: bool = False, either: bool = False) -> list[Judged]:
    """Fit and evaluate a method of one input under both strategies.

    Parameters
    ----------
    make
        Called without arguments, returns a new detector.
    rows
        Scaled rows.
    healthy_only
        Train only on rows labelled normal; thresholds without labels are still set on all training rows.
    either
        See :func:`judge_pair`.

    Returns
    -------
    list of Judged
        Score & Stack, then Stack & Score.
    """
    train, test = rows.train, rows.test
    learn: Any = slice(None)
    if healthy_only:
        assert train.label is not None
        learn = ~np.asarray(train.label, dtype=bool)
    detectors: list[OneInput] = [make().fit(x[learn]) for x in (train.s, train.q, rows.stack[0])]
    of_s, of_q, of_both = detectors
    own = None
    score_s, score_q = of_s.score(test.s), of_q.score(test.q)
    if of_s.threshold_ is not None and of_q.threshold_ is not None:
        own = (score_s >= of_s.threshold_) & (score_q >= of_q.threshold_)
    first = judge_pair(
        (of_s.score(train.s), of_q.score(train.q)),
        (score_s, score_q),
        test.label,
        own=own,
        context=train.context,
        strategy=SCORE_STACK,
        either=either,
    )
    return [first, judge_single(of_both.score(rows.stack[1]), test.label, of_both.threshold_)]


def run_two_inputs(method: TwoInputs, rows: Rows, *, labels: bool, either: bool = False) -> list[Judged]:
    """Fit and evaluate a method of two inputs on scaled rows; with ``labels`` it gets the training labels."""
    train, test = rows.train, rows.test
    known_labels = np.asarray(train.label, dtype=bool) if labels else None
    method.fit(train.s, train.q, known_labels, train.group)
    scores = method.scores(test.s, test.q)
    own = method.predict(test.s, test.q)
    if scores[0] is scores[1]:  # one joint score: there is no pair of thresholds to set
        judged = judge_single(scores[0], test.label, None, own=own)
        return [replace(judged, strategy=JOINT)]
    known = method.scores(train.s, train.q)
    judged = judge_pair(known, scores, test.label, own=own, context=train.context, either=either)
    if test.label is None or not getattr(method, "sign_is_free", False):
        return [judged]
    # Correlation does not determine which sign is anomalous. Where labels choose the threshold or the ranking
    # they may choose the sign too, so that a peer is not ranked lower because of its sign.
    flipped = judge_pair(
        (-known[0], -known[1]), (-scores[0], -scores[1]), test.label, own=None, either=either
    )
    assert judged.best is not None
    assert flipped.best is not None
    if flipped.best <= judged.best:
        return [judged]
    return [replace(judged, best=flipped.best, average_precision=flipped.average_precision)]


def judge_pair(
    train: tuple[FloatArray, FloatArray],
    test: tuple[FloatArray, FloatArray],
    label: Any,
    *,
    own: BoolArray | None,
    context: Any = None,
    strategy: str = JOINT,
    either: bool = False,
) -> Judged:
    """Evaluate two scores: rows are flagged where both reach their thresholds.

    Average precision ranks rows by the product of the two percentiles among the training scores, as in
    :class:`~coad.thresholds.detector.CoincidenceThreshold`.

    Parameters
    ----------
    train, test
        Scores of s and q on training and test rows.
    label
        Test labels, or None.
    own
        The method's own decision on the test rows, or None.
    context
        Regimes of the training rows, for the thresholds without labels.
    strategy
        Name of the strategy, for the result.
    either
        Let the best F1 also use the rule that flags rows where either score reaches its threshold. It is
        meant for data in which most rows are anomalous and CoAD flags rows that are not healthy in both inputs.

    Returns
    -------
    Judged
        ``best`` is the largest F1 over all pairs of thresholds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)  # "nothing found" shows as an F1 of 0
        detector = CoincidenceThreshold(n_permutations=100).fit(*train, context=context)
    flags = detector.predict(*test)
    flagged = float(flags.mean())
    if label is None:
        return Judged(strategy, None, None, None, None, flagged)
    truth = np.asarray(label, dtype=bool)
    best = best_f1(truth, *test)
    if either:
        best = max(best, best_f1(truth, -test[0], -test[1], rest=True))
    return Judged(
        strategy,
        None if own is None else f1(truth, own),
        f1(truth, flags),
        best,
        _average_precision(truth, detector.score_samples(*test)),
        flagged,
    )


def judge_single(
    score: FloatArray, label: Any, threshold: float | None, *, own: BoolArray | None = None
) -> Judged:
    """Evaluate a single score, for which coincidence cannot set a threshold."""
    if own is None and threshold is not None:
        own = score >= threshold
    flagged = None if own is None else float(own.mean())
    if label is None:
        return Judged(STACK_SCORE, None, None, None, None, flagged)
    truth = np.asarray(label, dtype=bool)
    return Judged(
        STACK_SCORE,
        None if own is None else f1(truth, own),
        None,
        best_f1(truth, score),
        _average_precision(truth, score),
        flagged,
    )


def f1(truth: BoolArray, flagged: BoolArray) -> float:
    """F1 by labels; 0 where nothing is there or flagged.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    whole = int(flagged.sum()) + int(truth.sum())
    return 2 * int((flagged & truth).sum()) / whole if whole else 0.0


def best_f1(
    truth: BoolArray, score_s: FloatArray, score_q: FloatArray | None = None, *, rest: bool = False
) -> float:
    """The largest F1 over all thresholds of a score, or over all pairs of thresholds of two.

    Of two scores, the rows that reach both thresholds are flagged, or with ``rest`` all other rows.

    >>> best_f1(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]))
    0.8
    """
    if not truth.any():
        return 0.0
    if score_q is not None:
        return _best_pair(truth, score_s, score_q, rest)
    order = np.argsort(-score_s, kind="stable")
    hits, flagged = np.cumsum(truth[order]), np.arange(1, len(truth) + 1)
    ends = np.append(np.diff(score_s[order]) != 0, True)  # tied scores are never split
    return float((2 * hits / (flagged + truth.sum()))[ends].max())


def _best_pair(truth: BoolArray, score_s: FloatArray, score_q: FloatArray, rest: bool) -> float:
    """By counting on the grid of all thresholds; of more than 2,000 distinct scores, on their quantiles.

    :func:`coad.thresholds.curves.beta_scan` flags at most half of the rows, which is no rule for labels: worn tools are
    the majority of the milling data.
    """
    places, sizes = [], []
    for score in (score_s, score_q):
        levels = np.unique(score)
        if len(levels) > _GRID:
            levels = np.unique(np.quantile(score, np.linspace(0, 1, _GRID), method="lower"))
        places.append(np.searchsorted(levels, score, side="right") - 1)
        sizes.append(len(levels))
    counts = []
    for rows in (np.ones(len(truth), dtype=bool), truth):
        grid = np.zeros(sizes, dtype=np.int32)
        np.add.at(grid, (places[0][rows], places[1][rows]), 1)
        counts.append(grid[::-1, ::-1].cumsum(axis=0).cumsum(axis=1))
    flagged, hits = counts
    if rest:
        flagged, hits = len(truth) - flagged, int(truth.sum()) - hits
    return float((2 * hits / np.maximum(flagged + int(truth.sum()), 1)).max())


def _average_precision(truth: BoolArray, score: FloatArray) -> float | None:
    from sklearn.metrics import average_precision_score

    if not truth.any() or truth.all():
        return None
    return float(average_precision_score(truth, score))
