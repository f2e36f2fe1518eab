"""Rows in the tails of both inputs: a panel of one-input scorers, and the pair of them that shows the most coincidence.

Which detector, and which threshold? Each scorer sees one input alone. All pairs are compared on one half of the rows by
what they show beyond a correlated background, with at most ``max_rare`` of the rows flagged; the pair and its thresholds
are judged on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coad._extras import missing_package
from coad._typing import BoolArray, FloatArray
from coad.core.background import choose_background, correlated_chance
from coad.core.copula import joint_exceedance
from coad.core.oddness import ODD
from coad.exceptions import FileError, InputError
from coad.findings.candidates import Candidate, FitRows, Rows, Votes

__all__ = ["PANEL", "TailLens", "scorer_named"]

#: Rows that the scorers are fitted on; they are saved, and the scorers fitted again when a model is loaded.
_REFERENCE = 4000
#: Neighbours: enough that a pair of twin rows does not hide.
_NEIGHBOURS = 20
#: Components of the mixture: the bulk may have several operating points.
_MIXTURE = 5
#: Thresholds of each input that are tried, from where a row counts as odd to the highest row.
_STEPS = 24
#: A pair of thresholds must flag as many joint rows on the half that chooses it: fewer prove nothing.
_FEWEST = 3
#: Scores of a scorer that was fitted again may differ by rounding, not more.
_ROUNDING = 1e-6
#: What the name of a detector of PyOD starts with.
_PYOD = "pyod:"

Array32 = NDArray[np.float32]
Scorer = Callable[[NDArray[Any]], FloatArray]


def _forest(x: Array32, seed: int) -> Scorer:
    from sklearn.ensemble import IsolationForest

    model = IsolationForest(random_state=seed).fit(x)
    return lambda rows: -model.score_samples(rows)


def _neighbours(x: Array32, seed: int) -> Scorer:
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(x))).fit(x)
    return lambda rows: np.asarray(model.kneighbors(rows)[0][:, -1], dtype=np.float64)


def _density(x: Array32, seed: int) -> Scorer:
    from sklearn.mixture import GaussianMixture

    parts = min(_MIXTURE, len(x) // 20) or 1
    # A floor on the variances, a thousandth of the input's whole: a constant feature has no density.
    model = GaussianMixture(parts, covariance_type="diag", reg_covar=1e-3, random_state=seed).fit(x)
    return lambda rows: -model.score_samples(rows)


def _components(x: Array32, seed: int) -> Scorer:
    mean, variance = x.mean(0, dtype=np.float64), x.var(0, dtype=np.float64)
    floor = 1e-3 * variance.max() if len(variance) else 0.0
    return lambda rows: np.square((rows - mean) / np.sqrt(np.maximum(variance, floor))).sum(1)


def _empirical(x: Array32, seed: int) -> Scorer:
    """The sum over columns of -log of the rarer tail (as ECOD has it)."""
    ladder = np.sort(x, axis=0)

    def score(rows: NDArray[Any]) -> FloatArray:
        total = np.zeros((2, len(rows)))
        for column, steps in zip(np.asarray(rows).T, ladder.T, strict=True):
            below = (np.searchsorted(steps, column, side="right") + 0.5) / (len(steps) + 1)
            above = (len(steps) - np.searchsorted(steps, column, side="left") + 0.5) / (len(steps) + 1)
            total -= np.log(np.clip([below, above], None, 1.0))
        return np.asarray(total.max(0))

    return score


#: The one-input scorers, by name.
PANEL: dict[str, Callable[[Array32, int], Scorer]] = {
    "isolation forest": _forest,
    "neighbours": _neighbours,
    "density": _density,
    "principal components": _components,
    "empirical tails": _empirical,
}


def scorer_named(name: str) -> Callable[[Array32, int], Scorer]:
    """The maker of a one-input scorer: one of the panel, or with ``"pyod:ECOD"`` a detector of PyOD at its own settings.

    A scorer is a name, not an object, so that a model folder can fit it again to the rows that it keeps.

    >>> score = scorer_named("neighbours")(np.zeros((30, 2), dtype=np.float32), 0)
    >>> bool(score(np.ones((1, 2)))[0] > 1)
    True
    """
    if name in PANEL:
        return PANEL[name]
    if not isinstance(name, str) or not name.startswith(_PYOD):
        raise InputError(
            f"there is no scorer {name!r}; there are {', '.join(PANEL)}, and {_PYOD}ECOD for PyOD's ECOD"
        )
    own = name.removeprefix(_PYOD)
    try:
        from pyod.models.base import BaseDetector

        detector = getattr(import_module(f"pyod.models.{own.lower()}"), own, None)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is not None and error.name == "pyod":
            raise missing from error
        detector = None
    if not (isinstance(detector, type) and issubclass(detector, BaseDetector)):
        raise InputError(
            f"PyOD has no detector {own!r}; write it as PyOD does, for instance {_PYOD}ECOD or {_PYOD}KNN"
        )

    def make(x: Array32, seed: int) -> Scorer:
        model = detector()
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(x)
        return lambda rows: np.asarray(model.decision_function(rows), dtype=np.float64)

    return make


class _Choice(NamedTuple):
    """A pair of scorers, their thresholds (shares of reference rows below), and the evidence for them."""

    evidence: float
    scorer_s: str
    scorer_q: str
    threshold_s: float
    threshold_q: float


class TailLens:
    """The tails of both inputs as one candidate; ``scorers`` are tried beside those of the panel."""

    name = "tails"

    def __init__(self, scorers: Sequence[str] = ()) -> None:
        self.makers = {name: scorer_named(name) for name in (*PANEL, *scorers)}
        self.references: list[Array32] = []
        self.seed = 0
        self.choice: _Choice | None = None
        self._scorers: dict[tuple[int, str], tuple[Scorer, FloatArray]] = {}

    def propose(self, data: FitRows) -> list[Candidate]:
        """The best pair of scorers and thresholds; scores of each half come from the choice of the other."""
        rng = data.rng(2)
        rows = np.sort(rng.permutation(len(data))[:_REFERENCE])
        self.references = [x[rows] for x in (data.features_s, data.features_q)]
        self.seed = data.seed % 2**32
        ranks = [
            {name: self._ranks(side, name, x) for name in self.makers}
            for side, x in enumerate((data.features_s, data.features_q))
        ]
        half = data.fold % 2
        choices = [_best_pair(ranks, half != h, data.max_rare) for h in (0, 1)]
        self.choice = _best_pair(ranks, np.ones(len(data), dtype=bool), data.max_rare)
        if self.choice is None or None in choices:
            return []
        score_s, score_q = np.zeros(len(data)), np.zeros(len(data))
        flags = []
        for h, choice in enumerate(choices):
            assert choice is not None
            own_s, own_q = _scores(ranks, choice)
            score_s[half == h], score_q[half == h] = own_s[half == h], own_q[half == h]
            flags.append((own_s >= 0) & (own_q >= 0))
        member_s, member_q = _scores(ranks, self.choice)
        judged = np.ones(len(data), dtype=bool)
        stability = np.sum(flags[0] & flags[1]) / max(1, int(np.sum(flags[0] | flags[1])))
        member = (member_s >= 0) & (member_q >= 0)
        return [Candidate(self.name, 0, member, score_s, score_q, judged, float(stability))]

    def votes(self, rows: Rows) -> Votes:
        """How far each input is beyond its threshold, in percentiles."""
        if self.choice is None:
            none = np.zeros((len(rows), 0))
            return Votes(none, none, none.astype(bool))
        score_s = self._ranks(0, self.choice.scorer_s, rows.features_s) - self.choice.threshold_s
        score_q = self._ranks(1, self.choice.scorer_q, rows.features_q) - self.choice.threshold_q
        return Votes(score_s[:, None], score_q[:, None], ((score_s >= 0) & (score_q >= 0))[:, None])

    def _ranks(self, side: int, name: str, features: Array32) -> FloatArray:
        """The share of reference rows that a scorer puts below each row."""
        scorer, ladder = self._fitted(side, name)
        return np.searchsorted(ladder, scorer(features), side="right") / len(ladder)

    def _fitted(self, side: int, name: str) -> tuple[Scorer, FloatArray]:
        if (side, name) not in self._scorers:
            self._scorers[side, name] = self._fit(side, name)
        return self._scorers[side, name]

    def _fit(self, side: int, name: str) -> tuple[Scorer, FloatArray]:
        try:
            scorer = self.makers[name](self.references[side], self.seed)
            ladder = np.sort(scorer(self.references[side]))
        except Exception as error:
            if name in PANEL:
                raise
            raise InputError(
                f"{name} could not be fitted to the features of {'sq'[side]}: {error}"
            ) from error
        if not np.isfinite(ladder).all():
            raise InputError(
                f"{name} gives scores of {'sq'[side]} that are no numbers; leave it out of the scorers"
            )
        return scorer, ladder

    def to_facts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The choice, the reference rows, and their scores by the scorers that were chosen."""
        facts = {"choice": None if self.choice is None else list(self.choice), "seed": self.seed}
        arrays: dict[str, NDArray[Any]] = {}
        if self.choice is not None:
            for side, name in enumerate((self.choice.scorer_s, self.choice.scorer_q)):
                arrays[f"reference_{'sq'[side]}"] = self.references[side]
                arrays[f"ladder_{'sq'[side]}"] = ladder = self._fitted(side, name)[1]
                if name not in PANEL and not _alike(ladder, self._fit(side, name)[1]):
                    raise InputError(
                        f"{name} gives other scores each time it is fitted, so it cannot be saved; find without it"
                    )
        return facts, arrays

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TailLens:
        """The inverse of :meth:`to_facts`; the scorers are fitted again and must give the same scores."""
        choice = None if facts["choice"] is None else _Choice(*facts["choice"])
        lens = cls(() if choice is None else (choice.scorer_s, choice.scorer_q))
        lens.seed, lens.choice = int(facts["seed"]), choice
        if lens.choice is None:
            return lens
        lens.references = [arrays["reference_s"], arrays["reference_q"]]
        for side, name in enumerate((lens.choice.scorer_s, lens.choice.scorer_q)):
            saved, ladder = arrays[f"ladder_{'sq'[side]}"], lens._fitted(side, name)[1]
            if not _alike(saved, ladder):
                package = "scikit-learn" if name in PANEL else "PyOD"
                raise FileError(
                    f"the scorer {name!r} of this model gives other scores with the {package} that is installed; "
                    "find again with it, or install the version that the model was made with"
                )
        return lens


def _alike(scores: FloatArray, again: FloatArray) -> bool:
    return bool(np.allclose(scores, again, rtol=_ROUNDING, atol=_ROUNDING))


def _scores(ranks: list[dict[str, FloatArray]], choice: _Choice) -> tuple[FloatArray, FloatArray]:
    return (
        ranks[0][choice.scorer_s] - choice.threshold_s,
        ranks[1][choice.scorer_q] - choice.threshold_q,
    )


def _best_pair(ranks: list[dict[str, FloatArray]], some: BoolArray, max_rare: float) -> _Choice | None:
    """The pair of scorers and thresholds with the highest F̂ among those of the pair with the most evidence."""
    found = [
        choice
        for name_s, rank_s in ranks[0].items()
        for name_q, rank_q in ranks[1].items()
        if (choice := _best_thresholds(name_s, name_q, rank_s[some], rank_q[some], max_rare)) is not None
    ]
    return max(found, key=lambda one: one.evidence, default=None)


def _best_thresholds(
    name_s: str, name_q: str, rank_s: FloatArray, rank_q: FloatArray, max_rare: float
) -> _Choice | None:
    """Thresholds that flag at most ``max_rare`` of the rows jointly, at the highest F̂ (β = 1)."""
    n = len(rank_s)
    steps = 1 - np.geomspace(1 - ODD, max(1.0 / n, 1e-6), _STEPS)
    cell_s, cell_q = (np.searchsorted(steps, rank, side="right") for rank in (rank_s, rank_q))
    table = np.bincount(cell_s * (_STEPS + 1) + cell_q, minlength=(_STEPS + 1) ** 2).reshape(_STEPS + 1, -1)
    joint = table[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1][1:, 1:].astype(np.float64)
    of_s = table.sum(1)[::-1].cumsum()[::-1][1:, None].astype(np.float64)
    of_q = table.sum(0)[::-1].cumsum()[::-1][None, 1:].astype(np.float64)
    rho = choose_background(rank_s, rank_q).rho
    chance = np.clip(correlated_chance(float(n), of_s + 0 * joint, of_q + 0 * joint, joint, rho), 1e-9, None)
    allowed = (joint >= _FEWEST) & (joint <= max_rare * n) & (joint > chance)
    if not allowed.any():
        return None
    expected = np.maximum(n * joint_exceedance(of_s / n, of_q / n, rho), 1e-9)
    gain = joint * np.log(np.maximum(joint, 1e-9) / expected) - (joint - expected)
    evidence = np.where(allowed & (joint > expected), gain, 0.0)
    true = np.where(allowed, joint - chance, 0.0)
    value = np.where(allowed, 2 * true / (joint + true.max()), -1.0)
    i, j = np.unravel_index(int(value.argmax()), value.shape)
    return _Choice(float(evidence.max()), name_s, name_q, float(steps[i]), float(steps[j]))
