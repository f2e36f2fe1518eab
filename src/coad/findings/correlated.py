"""Whether rows are far out in both inputs more often than inputs that are merely correlated would be.

Two inputs of one system move together when nothing happens: load, temperature, a common reference. Then the rows at the
far end of one are often at the far end of the other, without a single event. How the inputs move together is seen in the
rows that are usual in s: a linear regression of q on s there, on normal scores of the features. Adding its *permuted*
residuals to its predictions, and going back from scores to values, gives surrogate data: the same s, the same linear
dependence, the same scatter and the same values of each column, but what the two inputs do beyond that no longer meets. Events meet beyond it, whatever their direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.bulk import BULK, normal_scores

__all__ = ["joint_tail_p_value"]

#: Surrogates: a p-value of 0.025, half of the usual level, is then 2 of 80.
_DRAWS = 79
#: Shares of the rows that count as far out in one input; the most telling pair of shares is taken, for data and surrogates.
_SHARES = np.geomspace(0.3, 0.005, 12)
#: Fewer joint rows than this are no group.
_FEWEST = 5
#: Rows for each column of a regression: the usual least number.
_ROWS_PER_COLUMN = 10
#: Rows that the test looks at: more would only make it slower, as tails of half a percent hold 25 rows.
_MOST_ROWS = 5_000


def joint_tail_p_value(
    features_s: NDArray[np.floating],
    features_q: NDArray[np.floating],
    context: NDArray[Any] | None = None,
    *,
    rng: np.random.Generator,
) -> float:
    """How often surrogates with the linear dependence of the bulk have rows as far out in both inputs as the data.

    Parameters
    ----------
    features_s, features_q
        Features of each row, (n, columns), those with the most variance first.
    context
        The context of each row: scores are taken and residuals permuted within it, and those with enough rows have a
        regression of their own.
    rng
        Draws the permutations, and the rows if there are many.

    Returns
    -------
    float

    >>> rng = np.random.default_rng(0)
    >>> load, s, q = rng.normal(size=(3, 2000, 2))
    >>> s, q = load + s, load + q
    >>> joint_tail_p_value(s, q, rng=rng) > 0.05
    True
    >>> s[:20, 0] += 6; q[:20, 1] -= 6
    >>> joint_tail_p_value(s, q, rng=rng) < 0.02
    True
    """
    rows = np.sort(rng.permutation(len(features_s))[:_MOST_ROWS])
    code = None if context is None else np.unique(context[rows], return_inverse=True)[1].reshape(-1)
    values_s, values_q = (_alike(x[rows], code) for x in (features_s, features_q))
    s, q = (_scores(x, code) for x in (values_s, values_q))
    # Far out by values, as a few events in one column of many are; and by ranks, as events of all severities are.
    far_s = _distances(values_s, s)
    usual = far_s[1] <= np.quantile(far_s[1], BULK)
    # Rows are chosen by s alone: choosing by q as well would make the slope too small, and correlation look like events.
    predicted = _predicted(s, q, usual)
    for one in range(0 if code is None else int(code.max()) + 1):
        own = code == one
        if int((own & usual).sum()) >= _ROWS_PER_COLUMN * (s.shape[1] + 1):
            predicted[own] = _predicted(s[own], q[own], usual[own])
    residual = q - predicted
    levels = [_levels(far) for far in far_s]

    def joint(values: NDArray[np.floating], scores: FloatArray) -> FloatArray:
        far_q = _distances(values, scores)
        return np.stack([_joint(own, _levels(far)) for own, far in zip(levels, far_q, strict=True)])

    observed = joint(values_q, q)
    steps, values = np.sort(q, axis=0), np.sort(values_q, axis=0)
    drawn = np.empty((_DRAWS, *observed.shape))
    for draw in drawn:
        scores = predicted + residual[_permuted(code, len(s), rng)]
        back = [np.interp(*column) for column in zip(scores.T, steps.T, values.T, strict=True)]
        draw[:] = joint(np.column_stack(back), scores)
    total = drawn.sum(0)
    evidence = _evidence(observed, total / _DRAWS)
    chance = np.array([_evidence(one, (total - one) / (_DRAWS - 1)) for one in drawn])
    return float((1 + np.sum(chance >= evidence)) / (1 + _DRAWS))


def _distances(values: NDArray[np.floating], scores: FloatArray) -> list[FloatArray]:
    """Squared distances from the middle, by values and by scores."""
    return [np.square(x - np.median(x, axis=0)).sum(1, dtype=np.float64) for x in (values, scores)]


def _predicted(s: FloatArray, q: FloatArray, usual: BoolArray) -> FloatArray:
    """q by a linear regression on as many columns of s as the usual rows can carry."""
    kept = s[:, : max(1, int(usual.sum()) // _ROWS_PER_COLUMN)]
    design = np.column_stack([np.ones(len(s)), kept])
    return np.asarray(design @ np.linalg.lstsq(design[usual], q[usual], rcond=None)[0])


def _alike(features: NDArray[np.floating], code: IntArray | None) -> FloatArray:
    """Columns with the mean 0 and the standard deviation 1 in each context, so that values of one may stand in another."""
    x = np.asarray(features, dtype=np.float64)
    if code is None:
        return x
    size = np.bincount(code)[:, None]

    def mean(values: FloatArray) -> FloatArray:
        return np.stack([np.bincount(code, column) for column in values.T], axis=1) / size

    x = x - mean(x)[code]
    width = np.sqrt(mean(np.square(x)))
    return np.asarray(x / np.where(width > 0, width, 1.0)[code])


def _scores(features: NDArray[np.floating], code: IntArray | None) -> FloatArray:
    """Normal scores of each column; a row that is alone in its context has no rank there, and counts as usual."""
    columns = [normal_scores(column.astype(np.float64), code) for column in features.T]
    return np.nan_to_num(np.column_stack(columns), posinf=0.0)


def _permuted(code: IntArray | None, n: int, rng: np.random.Generator) -> IntArray:
    """A random order of the rows, within contexts."""
    if code is None:
        return rng.permutation(n)
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(code, kind="stable")] = np.lexsort((rng.random(n), code))
    return order


def _levels(far: FloatArray) -> IntArray:
    """For each row, how many of the shares it is within, counted from the farthest row."""
    place = np.empty(len(far))
    place[np.argsort(-far, kind="stable")] = (np.arange(len(far)) + 0.5) / len(far)
    return np.asarray(len(_SHARES) - np.searchsorted(_SHARES[::-1], place), dtype=np.int64)


def _joint(level_s: IntArray, level_q: IntArray) -> FloatArray:
    """How many rows are within each share of s and each share of q."""
    size = len(_SHARES) + 1
    table = np.bincount(level_s * size + level_q, minlength=size**2).reshape(size, size)
    return np.asarray(table[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1][1:, 1:], dtype=np.float64)


def _evidence(joint: FloatArray, expected: FloatArray) -> float:
    """The largest log-likelihood ratio, over pairs of shares by values and by ranks, of more joint rows than expected
    (Poisson)."""
    least = np.maximum(expected, 1 / _DRAWS)  # no surrogate had any: fewer than one in all draws
    gain = joint * np.log(np.maximum(joint, 1.0) / least) - (joint - least)
    return float(np.where((joint > least) & (joint >= _FEWEST), gain, 0.0).max())
