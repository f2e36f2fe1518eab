"""Evaluate scores: Score & Stack, Stack & Score, and thresholds with and without labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.labels import average_precision, best_f1, f1
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
        average_precision(truth, detector.score_samples(*test)),
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
        average_precision(truth, score),
        flagged,
    )
