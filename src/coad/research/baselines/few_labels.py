"""Peers of findings with a few looks: an isolation forest, a random forest on few labels, and one on all of them.

The inputs stand side by side. All settings are scikit-learn's defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coad._typing import ArrayLike, BoolArray, FloatArray, IntArray
from coad.core.label_efficiency import LOOKS
from coad.core.labels import best_f1, check_labels, f1
from coad.exceptions import InputError

__all__ = ["FewLabelPeers", "few_label_peers", "uncertainty_sampling"]


@dataclass(frozen=True)
class FewLabelPeers:
    """F1 of the peers on the test rows.

    ``own`` and ``best`` are the isolation forest at its own threshold and at the best one for the test labels;
    ``few`` is the random forest by its number of labelled rows, ``supervised`` the one with all labels of the fit.
    """

    own: float
    best: float
    few: dict[int, float]
    supervised: float


def few_label_peers(
    s: ArrayLike,
    q: ArrayLike,
    label: ArrayLike,
    s_test: ArrayLike,
    q_test: ArrayLike,
    label_test: ArrayLike,
    *,
    looks: Sequence[int] = LOOKS,
    random_state: int = 0,
) -> FewLabelPeers:
    """Fit the peers on one set of rows and judge them on another.

    Parameters
    ----------
    s, q, label
        The rows of the fit. The isolation forest never sees the labels.
    s_test, q_test, label_test
        The rows to judge on.
    looks
        Numbers of labelled rows for the random forest, chosen by :func:`uncertainty_sampling`.
    random_state
        Seed of all forests.

    Returns
    -------
    FewLabelPeers

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 10 == 0
    >>> s, q = rng.normal(size=(2, 300, 2)) + 5 * y[:, None]
    >>> peers = few_label_peers(s[:200], q[:200], y[:200], s[200:], q[200:], y[200:])
    >>> peers.best > 0.9, peers.few[10] > 0.9, peers.supervised > 0.9
    (True, True, True)
    """
    from sklearn.ensemble import IsolationForest

    x, x_test = _side_by_side(s, q), _side_by_side(s_test, q_test)
    truth, truth_test = check_labels(label, len(x)), check_labels(label_test, len(x_test))
    forest = IsolationForest(random_state=random_state).fit(x)
    oddness, oddness_test = -forest.score_samples(x), -forest.score_samples(x_test)

    def judged(rows: IntArray) -> float:
        return f1(truth_test, _probability(x, truth, rows, x_test, random_state) > 0.5)

    order = uncertainty_sampling(x, truth, oddness, max(looks, default=0), random_state=random_state)
    return FewLabelPeers(
        own=f1(truth_test, forest.predict(x_test) == -1),
        best=best_f1(truth_test, oddness_test),
        few={int(many): judged(order[:many]) for many in looks},
        supervised=judged(np.arange(len(x))),
    )


def uncertainty_sampling(
    x: FloatArray, label: ArrayLike, oddness: FloatArray, n_labels: int, *, random_state: int = 0
) -> IntArray:
    """The rows whose labels a random forest would ask for, in order.

    The first two are the most and the least odd row. Until both classes have been seen, the next most odd row follows,
    then the row whose probability is closest to one half; of equally uncertain rows, the most odd one.

    Parameters
    ----------
    x
        The rows.
    label
        Their labels; only those of the rows asked for are used.
    oddness
        A score of each row without labels.
    n_labels
        How many rows to ask for, at most all.
    random_state
        Seed of the forests.

    Returns
    -------
    Row numbers, of which each beginning is what fewer labels would have been.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0]])
    >>> uncertainty_sampling(x, [0, 0, 0, 1], x[:, 0], 2).tolist()
    [3, 0]
    """
    truth = check_labels(label, len(x))
    by_oddness = np.argsort(-oddness, kind="stable")
    asked: list[int] = []
    while len(asked) < min(n_labels, len(x)):
        open_rows = by_oddness[~np.isin(by_oddness, asked)]
        if len(asked) == 1:
            chosen = open_rows[-1]
        elif len(set(truth[asked].tolist())) < 2:
            chosen = open_rows[0]
        else:
            probability = _probability(x, truth, np.array(asked), x[open_rows], random_state)
            chosen = open_rows[np.argmin(np.abs(probability - 0.5))]  # the first of equals is the most odd
        asked.append(int(chosen))
    return np.array(asked, dtype=np.int64)


def _probability(x: FloatArray, truth: BoolArray, rows: IntArray, new: FloatArray, seed: int) -> FloatArray:
    """That of the event, by a random forest on the labels of ``rows``; they may all be of one class."""
    from sklearn.ensemble import RandomForestClassifier

    if not len(rows):
        return np.zeros(len(new))
    forest = RandomForestClassifier(random_state=seed).fit(x[rows], truth[rows])
    column = np.flatnonzero(forest.classes_)
    proba: Any = forest.predict_proba(new)
    result: FloatArray = proba[:, column[0]] if len(column) else np.zeros(len(new))
    return result


def _side_by_side(s: ArrayLike, q: ArrayLike) -> FloatArray:
    parts = [np.asarray(part, dtype=np.float64) for part in (s, q)]
    if len(parts[0]) != len(parts[1]):
        raise InputError(f"s has {len(parts[0]):,} rows and q has {len(parts[1]):,}; they must match")
    return np.column_stack([part.reshape(len(part), -1) for part in parts])
