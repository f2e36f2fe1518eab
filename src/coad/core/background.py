"""The background: what two scores show jointly without any event, when they may be correlated.

Shuffled pairings take the two scores of a normal row for independent. Scores of one system seldom are, and what is
merely correlated then passes for events. Here the normal class may have a Gaussian copula. Its ρ is estimated from the
bulk (both ranks below 0.9), so that events, which lie in the corner, do not enter; D follows from ρ
(:mod:`coad.core.copula`), and the null is drawn with it (:mod:`coad.core.copula_null`).

With contexts, ranks are taken within each context and one ρ holds for all: a ρ for each would rest on few rows where
contexts are small, and its error, which grows with the number of contexts, would be taken for coincidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import nchypergeom_fisher

from coad._typing import BoolArray, FloatArray, IntArray, Numeric
from coad.core.bulk import BULK, BulkFit, fit_bulk, normal_scores
from coad.core.copula import LARGEST, joint_exceedance
from coad.core.copula_null import CopulaNull
from coad.core.grid import ThresholdGrid
from coad.core.inference import permutation_test, shift_test
from coad.core.metric import chance_of
from coad.core.search import PairSearch
from coad.exceptions import InputError

__all__ = [
    "INDEPENDENT",
    "Background",
    "BackgroundKind",
    "ExcessTest",
    "background_of",
    "bulk_correlation",
    "choose_background",
    "correlated_chance",
    "dependence_p_value",
    "excess_test",
    "joint_draws",
    "rule_test",
]

BackgroundKind = Literal["auto", "independent", "correlated"]

#: ρ takes these quantiles of its sampling distribution when a fixed rule is judged.
_RHO_QUANTILES = (np.arange(9) + 0.5) / 9


@dataclass(frozen=True)
class Background:
    """How chance is counted: for independent scores or for correlated ones.

    Parameters
    ----------
    kind
        ``"independent"``: the paper's D. ``"correlated"``: a Gaussian copula inside the normal class.
    rho, error
        The correlation of the copula (0 if independent) and its standard error.
    why
        Why it was chosen, in words.

    >>> Background("correlated", 0.3, 0.01, "the bulk has ρ = 0.30").rho
    0.3
    """

    kind: Literal["independent", "correlated"] = "independent"
    rho: float = 0.0
    error: float = 0.0
    why: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("independent", "correlated"):
            raise InputError(f"a background is 'independent' or 'correlated', not {self.kind!r}")
        if not 0 <= self.rho <= LARGEST or (self.kind == "independent" and self.rho != 0):
            raise InputError(
                f"a {self.kind} background cannot have ρ = {self.rho!r} (0 if independent, {LARGEST} at most)"
            )


#: The paper's background.
INDEPENDENT = Background(why="asked for")


def bulk_correlation(score_s: FloatArray, score_q: FloatArray, code: IntArray | None = None) -> float:
    """ρ of a Gaussian copula fitted to the bulk of two scores; events in the corner do not enter.

    Parameters
    ----------
    score_s, score_q
        One score per row; only their order matters.
    code
        The stratum of each row, from 0; ranks are taken within each.

    Returns
    -------
    ρ from -0.9 to 0.9; 0 where the bulk says nothing (constant scores, fewer than 20 rows).

    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=20_000)
    >>> q = 0.6 * s + 0.8 * rng.normal(size=20_000)
    >>> s[:800] += 5; q[:800] += 5  # events
    >>> round(bulk_correlation(s, q), 1)
    0.6
    """
    return _fit(score_s, score_q, code).rho


def dependence_p_value(score_s: FloatArray, score_q: FloatArray, code: IntArray | None = None) -> float:
    """How often independent scores would have a bulk as correlated as this one, or more (one-sided).

    Parameters are those of :func:`bulk_correlation`; returns a p-value, 1 where the bulk says nothing.

    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=2000)
    >>> dependence_p_value(s, s + rng.normal(size=2000)) < 1e-6, dependence_p_value(s, -s)
    (True, 1.0)
    """
    fit = _fit(score_s, score_q, code)
    if fit.rows == 0:
        return 1.0
    return 0.5 * math.erfc(fit.rho / fit.error / math.sqrt(2))


def choose_background(
    score_s: FloatArray, score_q: FloatArray, code: IntArray | None = None, kind: BackgroundKind = "auto"
) -> Background:
    """The background of two scores, with its reason.

    ``"auto"`` takes the correlation that the bulk shows, however small, if it is positive: the null allows for its
    error, whereas a correlation dropped because it is not significant comes back as false events. A negative one makes
    joint rows rarer than independence does, so the independent background counts at least the chance there is.

    Parameters
    ----------
    score_s, score_q, code
        As for :func:`bulk_correlation`.
    kind
        ``"auto"``, ``"independent"`` or ``"correlated"`` (the bulk's ρ, and 0 where that is negative).

    Returns
    -------
    Background

    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=5000)
    >>> choose_background(s, -s).kind, choose_background(s, s + rng.normal(size=5000)).kind
    ('independent', 'correlated')
    """
    if kind not in ("auto", "independent", "correlated"):
        raise InputError(f"background must be 'auto', 'independent' or 'correlated', not {kind!r}")
    if kind == "independent":
        return INDEPENDENT
    return background_of(_fit(score_s, score_q, code), kind)


def background_of(fit: BulkFit, kind: BackgroundKind) -> Background:
    """The background that the fit of a bulk asks for: what :func:`choose_background` returns."""
    if fit.rows == 0:
        why = f"the bulk (both ranks below {BULK:g}) is too small or constant: no correlation can be measured"
        return Background(why=why) if kind == "auto" else Background("correlated", why=why)
    measured = f"the bulk has ρ = {fit.rho:.2f} ± {fit.error:.2g}"
    if fit.rho <= 0:
        why = f"{measured}: not positive, so independence counts at least the chance there is"
        return Background(why=why) if kind == "auto" else Background("correlated", 0.0, fit.error, why)
    return Background("correlated", fit.rho, fit.error, measured)


def correlated_chance(
    n: Numeric, a_rows: Numeric, b_rows: Numeric, joint: Numeric, rho: float = 0.0
) -> Numeric:
    """D in rows if the normal class has a Gaussian copula: :func:`coad.core.metric.chance_of` with a correlation.

    Parameters
    ----------
    n
        The number of rows.
    a_rows, b_rows, joint
        Rows that s flags, that q flags, and that both flag.
    rho
        The correlation of the normal class; 0 (or less) gives the paper's D.

    Returns
    -------
    D in rows, elementwise.

    >>> correlated_chance(1000, 100, 100, 40, 0.0) == chance_of(1000, 100, 100, 40)
    True
    >>> bool(correlated_chance(1000, 100, 100, 40, 0.5) > 3 * chance_of(1000, 100, 100, 40))
    True
    """
    return chance_of(n, a_rows, b_rows, joint, correlation=rho)


class ExcessTest(NamedTuple):
    """Whether two scores are jointly high more often than their background explains."""

    p_value: float  #: draws without events
    evidence: float  #: the largest O·log(O/E) - (O - E) over pairs of thresholds
    shift_p_value: float | None = None  #: one input moved in time; None if not tested
    tail_p_value: float | None = None  #: draws of a t-copula with the tails of the data; None if not tested


def excess_test(
    score_s: FloatArray,
    score_q: FloatArray,
    background: Background,
    code: IntArray | None = None,
    *,
    ordered: bool = False,
    n_draws: int = 200,
    rng: np.random.Generator | None = None,
) -> ExcessTest:
    """Test two scores for joint extremes beyond their background, over all thresholds at once.

    Parameters
    ----------
    score_s, score_q, code
        As for :func:`bulk_correlation`.
    background
        From :func:`choose_background`. If it is correlated, ρ is estimated on these rows, and in each draw again.
    ordered
        Whether the rows are in time order: then one input is moved in time as well.
    n_draws
        Draws behind each p-value.
    rng
        Where randomness comes from.

    Returns
    -------
    ExcessTest

    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=2000)
    >>> q = 0.5 * s + rng.normal(size=2000)
    >>> independent, correlated = (
    ...     excess_test(s, q, choose_background(s, q, kind=kind), n_draws=99, rng=rng).p_value
    ...     for kind in ("independent", "correlated")
    ... )
    >>> independent, correlated > 0.05
    (0.01, True)
    """
    rng = np.random.default_rng(0) if rng is None else rng
    grid = ThresholdGrid(PairSearch(score_s, score_q, code))
    shifted = None
    if background.kind == "independent":
        test = permutation_test(grid, beta=1.0, alpha=0.5, n_permutations=n_draws, rng=rng)
        if ordered:
            shifted = shift_test(grid, n_shifts=n_draws, rng=rng)[0]
        return ExcessTest(test.p_value, test.evidence, shifted)
    null = CopulaNull(grid, score_s, score_q)
    p_value = null.test(n_draws, rng).p_value
    freedom = null.freedom()
    tails = p_value if math.isinf(freedom) else null.test(n_draws, rng, freedom).p_value
    if ordered:
        shifted = null.shift_test(n_draws, rng)[0]
    return ExcessTest(p_value, null.evidence, shifted, tails)


def rule_test(
    flag_s: BoolArray,
    flag_q: BoolArray,
    score_s: FloatArray | None,
    score_q: FloatArray | None,
    background: Background,
    code: IntArray | None = None,
    *,
    n_draws: int = 999,
    rng: np.random.Generator | None = None,
) -> float:
    """The p-value of one fixed pair of thresholds: are more rows flagged jointly than the background explains?

    The rule must have been chosen on other rows. With its margins given, the joint rows of a copula have Fisher's
    noncentral hypergeometric distribution with the copula's odds ratio (at ρ = 0: shuffled pairings). ρ is not known
    exactly, so it varies between draws as its standard error says.

    Parameters
    ----------
    flag_s, flag_q
        What each input flags.
    score_s, score_q
        The scores behind the flags: ρ is estimated on them. None: ρ and its error are those of ``background``.
    background
        From :func:`choose_background`; says whether ρ is taken into account.
    code
        The stratum of each row, from 0.
    n_draws
        Draws behind the p-value.
    rng
        Where randomness comes from.

    Returns
    -------
    The share of draws, the data among them, with at least as many joint rows.

    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=5000)
    >>> q = 0.5 * s + rng.normal(size=5000)
    >>> background = choose_background(s, q)
    >>> rule_test(s > 1, q > 1, s, q, background, rng=rng) > 0.05
    True
    >>> rule_test(s > 1, q > 1, None, None, Background(), rng=rng)
    0.001
    """
    rng = np.random.default_rng(0) if rng is None else rng
    if background.kind == "correlated" and score_s is not None and score_q is not None:
        background = background_of(_fit(score_s, score_q, code), "correlated")
    null = joint_draws(flag_s, flag_q, background, code, n_draws=n_draws, rng=rng)
    joint = int(np.count_nonzero(flag_s & flag_q))
    return float((1 + np.count_nonzero(null >= joint)) / (1 + len(null)))


def joint_draws(
    flag_s: BoolArray,
    flag_q: BoolArray,
    background: Background,
    code: IntArray | None = None,
    *,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Joint rows in draws without events: the null of :func:`rule_test`."""
    home = np.zeros(len(flag_s), dtype=np.int64) if code is None else code
    sizes, of_s, of_q = (
        np.bincount(home, weights, minlength=1).astype(np.int64) for weights in (None, flag_s, flag_q)
    )
    total = np.zeros(n_draws)
    used = np.flatnonzero((of_s > 0) & (of_q > 0))
    n, s, q = sizes[used], of_s[used], of_q[used]
    if background.rho == 0 and background.error == 0:
        for rows, rows_s, rows_q in zip(n, s, q, strict=True):
            total += rng.hypergeometric(rows_s, rows - rows_s, rows_q, size=n_draws)
        return total
    parts = np.array_split(np.arange(n_draws), len(_RHO_QUANTILES))
    for part, quantile in zip(parts, _RHO_QUANTILES, strict=True):
        rho = float(np.clip(background.rho + background.error * ndtri(quantile), 0.0, LARGEST))
        both = joint_exceedance(s / n, q / n, rho)
        alone_s, alone_q = s / n - both, q / n - both
        odds = both * (1 - both - alone_s - alone_q) / np.maximum(alone_s * alone_q, 1e-300)
        for rows, rows_s, rows_q, ratio in zip(n, s, q, odds, strict=True):
            if rows in (rows_s, rows_q):  # an input flags everything: nothing is left to chance
                total[part] += min(rows_s, rows_q)
                continue
            total[part] += nchypergeom_fisher.rvs(
                rows, rows_s, rows_q, max(ratio, 1e-12), size=len(part), random_state=rng
            )
    return total


def _fit(score_s: FloatArray, score_q: FloatArray, code: IntArray | None) -> BulkFit:
    return fit_bulk(normal_scores(score_s, code), normal_scores(score_q, code))
