"""What labels say of flags: precision, recall, Fβ, and the best F1 that labels could buy. Labels judge only."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from coad._typing import ArrayLike, BoolArray, FloatArray
from coad.core.metric import fbeta_of
from coad.exceptions import InputError

__all__ = [
    "LabelScores",
    "average_precision",
    "best_f1",
    "check_labels",
    "f1",
    "label_scores",
    "scores_of_counts",
    "wilson",
]

_GRID = 2000  # distinct scores an input beyond which quantiles stand for them


class LabelScores(NamedTuple):
    """Fβ, precision and recall by labels."""

    fbeta: float
    precision: float
    recall: float


def label_scores(flags: ArrayLike, truth: ArrayLike, beta: float = 1.0) -> LabelScores:
    """Fβ, precision and recall of flags, by labels.

    Parameters
    ----------
    flags, truth
        For each row, whether it is flagged and whether it is an anomaly.
    beta
        0 asks for precision, ``inf`` for recall.

    Returns
    -------
    The three scores; 0 where there is nothing to divide by.

    >>> label_scores([True, True, False], [True, False, False])
    LabelScores(fbeta=0.666..., precision=0.5, recall=1.0)
    """
    flagged, anomalous = np.asarray(flags, dtype=np.bool_), np.asarray(truth, dtype=np.bool_)
    hits = int(np.count_nonzero(flagged & anomalous))
    return scores_of_counts(hits, int(flagged.sum()), int(anomalous.sum()), beta)


def scores_of_counts(hits: int, flagged: int, anomalous: int, beta: float = 1.0) -> LabelScores:
    """The same from numbers of rows: flagged anomalies, flagged rows, anomalies.

    Fβ is what F̂β estimates: the same formula, with the hits for TP and the labels for α.

    >>> scores_of_counts(1, 2, 1, beta=float("inf"))
    LabelScores(fbeta=1.0, precision=0.5, recall=1.0)
    """
    return LabelScores(*(float(fbeta_of(hits, flagged, b, anomalous)) for b in (beta, 0.0, math.inf)))


def f1(truth: ArrayLike, flagged: ArrayLike) -> float:
    """F1 by labels; 0 where nothing is there or flagged.

    >>> f1([True, True, False], [True, False, False])
    0.6666666666666666
    """
    return label_scores(flagged, truth).fbeta


def best_f1(
    truth: BoolArray, score_s: FloatArray, score_q: FloatArray | None = None, *, rest: bool = False
) -> float:
    """The largest F1 over all thresholds of a score, or over all pairs of thresholds of two.

    Of two scores, the rows that reach both thresholds are flagged, or with ``rest`` all other rows.
    Of more than 2,000 distinct scores, their quantiles are tried as thresholds of a pair.

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
    return float(fbeta_of(hits, flagged, 1.0, truth.sum())[ends].max())


def _best_pair(truth: BoolArray, score_s: FloatArray, score_q: FloatArray, rest: bool) -> float:
    """By counting on the grid of all thresholds.

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
    return float(fbeta_of(hits, flagged, 1.0, int(truth.sum())).max())


def average_precision(truth: BoolArray, score: FloatArray) -> float | None:
    """The average precision of a ranking; None where all rows are of one class.

    >>> average_precision(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]))
    0.833...
    """
    from sklearn.metrics import average_precision_score

    if not truth.any() or truth.all():
        return None
    return float(average_precision_score(truth, score))


def wilson(hits: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's formula; (0, 1) if nothing was looked at.

    >>> tuple(round(end, 3) for end in wilson(8, 10))
    (0.49, 0.943)
    """
    if n <= 0:
        return 0.0, 1.0
    share = hits / n
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    whole = 1 + z * z / n
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def check_labels(label: Any, n: int) -> BoolArray:
    """Labels as True and False, one for each of ``n`` rows.

    >>> check_labels([0, 1], 2)
    array([False,  True])
    """
    array = np.asarray(label)
    if array.shape != (n,):
        raise InputError(f"label must have one entry per row ({n:,} rows), but its shape is {array.shape}")
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise InputError("label must be True and False, or 1 (anomaly) and 0 (normal)")
    truth: BoolArray = array.astype(bool)
    return truth
