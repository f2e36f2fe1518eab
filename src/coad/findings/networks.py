"""Two networks that mark only odd rows: the binary method with confidences gated by oddness, at a ladder of rarities.

Coincidence alone is strongest in what is common: left to themselves, the networks learn an operating point. Here the
confidence of each network is multiplied by a gate that is 1 for the oddest rows of its own input and 0 for all others,
in training as in scoring, so that only odd rows can be marked. How odd is not known beforehand: each rung of the ladder
halves the share of the rows that pass.

The networks of one half of the rows score the other half, and these scores are judged. New rows get the mean logit of
both, so no third training is needed.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.exceptions import CoadWarning, InputError
from coad.findings.candidates import Candidate, FitRows, Rows, Votes

__all__ = ["NetworkLens"]

#: The share of rows of each input that pass its gate, in units of ``max_rare``, and the largest share. An event as common
#: as ``max_rare`` is seldom the oddest of all in both inputs, so the first gate is wider than it; the second marks half as
#: many rows at a higher precision (mean of nine tables by labels: 0.54 and 0.61). With 3 x, more than ``max_rare`` of the
#: rows were marked on four of the nine tables.
_LADDER, _WIDEST = (1.5, 0.75), 0.5
#: Starts, in case one collapses, and epochs of each training: 100 epochs changed the held-out F1 of five tables by 0.06 at
#: most, which is its spread over seeds.
_STARTS, _EPOCHS = 2, 60
#: Rows of a half that the networks are trained on: small networks learn no more from more.
_MOST_ROWS = 20_000
#: Rows of a half that pass the gate of each input, at least: with fewer there is nothing to learn. Rows that pass both
#: are not counted: a rung that is left out for their number would be chosen by the coincidence that is judged.
_FEWEST = 20
#: Rows that are scored at a time.
_BLOCK = 65_536
#: The purpose of this lens's random numbers (:meth:`FitRows.rng`).
_PURPOSE = 5


class _Net(NamedTuple):
    """The network of one input: fully-connected layers with a ReLU between them; features in, logit out."""

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]

    def logit(self, x: NDArray[np.float32]) -> FloatArray:
        return np.concatenate(
            [self._block(x[i : i + _BLOCK]) for i in range(0, len(x), _BLOCK)] or [np.zeros(0)]
        )

    def _block(self, x: NDArray[np.float32]) -> FloatArray:
        hidden = np.asarray(x, dtype=np.float64)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ weight + bias, 0.0)
        return np.asarray((hidden @ self.weights[-1] + self.biases[-1])[:, 0])


class _Rung(NamedTuple):
    """One gate, and the networks of s and of q of each half of the rows."""

    share: float
    halves: tuple[tuple[_Net, _Net], tuple[_Net, _Net]]


class NetworkLens:
    """Coincident networks behind gates of oddness; each width of the gate is one candidate.

    >>> from coad.core.runs import RowOrder
    >>> from coad.core.oddness import Oddness
    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 1000, 2)).astype(np.float32) / 2
    >>> s[:40] += 3; q[:40] -= 3
    >>> odd_s, odd_q = (Oddness.fit(x, rare=0.1, rng=rng)(x) for x in (s, q))
    >>> fold = rng.permutation(1000) % 4
    >>> data = FitRows(s, q, None, s, q, odd_s, odd_q, RowOrder(1000), fold, False, max_rare=0.1, seed=0)
    >>> lens = NetworkLens()
    >>> [bool(one.member[:40].mean() > 0.9 and one.member[40:].mean() < 0.05) for one in lens.propose(data)]
    [True, True]
    >>> lens.votes(data).member.shape
    (1000, 2)
    """

    name = "networks"

    def __init__(self) -> None:
        self.rungs: tuple[_Rung, ...] = ()

    def propose(self, data: FitRows) -> list[Candidate]:
        """Train at each rung; the scores of a row come from the networks of the half that it is not in.

        Parameters
        ----------
        data
            The rows of the fit. Nothing is found in fewer than about a hundred rows, and where an input is constant.

        Returns
        -------
        list of Candidate
            One for each rung that marks any rows.
        """
        shares = dict.fromkeys(min(_WIDEST, step * data.max_rare) for step in _LADDER)
        seed = int(data.rng(_PURPOSE).integers(2**31))
        found = [(share, _trained(data, share, seed)) for share in shares]
        self.rungs = tuple(_Rung(share, halves) for share, halves in found if halves is not None)
        votes = self.votes(data)
        half = data.fold % 2
        every = np.ones(len(data), dtype=bool)
        candidates = []
        for number, rung in enumerate(self.rungs):
            own = [_scores(data, rung.share, nets) for nets in rung.halves]
            flags = [(score_s >= 0) & (score_q >= 0) for score_s, score_q in own]
            score_s, score_q = (np.where(half == 0, own[0][i], own[1][i]) for i in (0, 1))
            stability = int(np.sum(flags[0] & flags[1])) / max(1, int(np.sum(flags[0] | flags[1])))
            member = votes.member[:, number]
            if member.any():
                candidates.append(Candidate(self.name, number, member, score_s, score_q, every, stability))
        return candidates

    def votes(self, rows: Rows) -> Votes:
        """The gated confidence of each input less one half, by the networks of both halves together.

        Parameters
        ----------
        rows
            Any rows.

        Returns
        -------
        Votes
            With one column for each rung.
        """
        shape = (len(rows), len(self.rungs))
        score_s, score_q = np.zeros(shape), np.zeros(shape)
        for number, rung in enumerate(self.rungs):
            score_s[:, number], score_q[:, number] = _scores(rows, rung.share, *rung.halves)
        return Votes(score_s, score_q, (score_s >= 0) & (score_q >= 0))

    def to_facts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The widths of the gates and the depth of the networks, and their weights."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, rung in enumerate(self.rungs):
            for half, nets in enumerate(rung.halves):
                for side, net in zip("sq", nets, strict=True):
                    for layer, (weight, bias) in enumerate(zip(*net, strict=True)):
                        name = f"{number}.{half}.{side}.{layer}"
                        arrays |= {f"{name}.weight": weight, f"{name}.bias": bias}
        layers = [[len(net.weights) for net in rung.halves[0]] for rung in self.rungs]
        return {"shares": [rung.share for rung in self.rungs], "layers": layers}, arrays

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NetworkLens:
        """The inverse of :meth:`to_facts`."""

        def net(number: int, half: int, side: int) -> _Net:
            names = [f"{number}.{half}.{'sq'[side]}.{i}" for i in range(facts["layers"][number][side])]
            return _Net(*(tuple(arrays[f"{name}.{part}"] for name in names) for part in ("weight", "bias")))

        lens = cls()
        lens.rungs = tuple(
            _Rung(
                float(share),
                ((net(number, 0, 0), net(number, 0, 1)), (net(number, 1, 0), net(number, 1, 1))),
            )
            for number, share in enumerate(facts["shares"])
        )
        return lens


def _trained(data: FitRows, share: float, seed: int) -> tuple[tuple[_Net, _Net], tuple[_Net, _Net]] | None:
    """The networks for rows of the even parts, trained on the odd ones, and the other way round; None if too few."""
    gate_s, gate_q = data.odd_s > 1 - share, data.odd_q > 1 - share
    half = data.fold % 2
    if min(np.sum(gate & (half == h)) for gate in (gate_s, gate_q) for h in (0, 1)) < _FEWEST:
        return None
    try:
        return (
            _trained_on(np.flatnonzero(half != 0), data, (gate_s, gate_q), seed),
            _trained_on(np.flatnonzero(half != 1), data, (gate_s, gate_q), seed),
        )
    except InputError:  # constant features, or hardly a new reading among the rows
        return None


def _trained_on(
    rows: IntArray, data: FitRows, gate: tuple[BoolArray, BoolArray], seed: int
) -> tuple[_Net, _Net]:
    from coad.learned.estimator import CoAD

    place = np.empty(len(data), dtype=np.int64)
    place[data.order.in_time()] = np.arange(len(data))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:_MOST_ROWS])
    groups = None if data.group is None else data.group[rows]
    whole = groups is not None and len(np.unique(groups)) > 1
    # The scale of the features is kept: small components are mostly noise.
    model = CoAD(
        n_starts=_STARTS,
        epochs=_EPOCHS,
        scale=False,
        split="group" if whole else "random",
        ordered=data.ordered,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", CoadWarning
        )  # what was found is judged later, with all other candidates
        model.fit(
            _inputs(data.features_s[rows]),
            _inputs(data.features_q[rows]),
            context=None if data.context is None else data.context[rows],
            group=groups,
            time=place[rows],
            gate=(gate[0][rows], gate[1][rows]),
        )
    own = model.fitted_[1.0]
    return _net_of(own.scorer_s), _net_of(own.scorer_q)


def _net_of(scorer: Any) -> _Net:
    """The weights of a trained network of one member, whose head is folded into its last layer."""
    layers = [
        tuple(np.array(x[0].detach().numpy(), dtype=np.float64) for x in values)
        for values in (scorer.net.weight, scorer.net.bias)
    ]
    return _Net(layers[0], tuple(bias.reshape(-1) for bias in layers[1]))


def _inputs(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features with a mean variance of 1; all those of an input together have 1."""
    return np.asarray(features * np.float32(np.sqrt(features.shape[1])), dtype=np.float32)


def _scores(rows: Rows, share: float, *nets: tuple[_Net, _Net]) -> tuple[FloatArray, FloatArray]:
    """Of each input, the gated confidence less one half; of several networks, by their mean logit."""
    found = []
    sides = ((rows.features_s, rows.odd_s), (rows.features_q, rows.odd_q))
    for side, (features, odd) in enumerate(sides):
        x = _inputs(features)
        logit = np.mean([pair[side].logit(x) for pair in nets], axis=0)
        confidence = 0.5 * (1.0 + np.tanh(0.5 * logit))
        found.append(np.where(odd > 1 - share, confidence, 0.0) - 0.5)
    return found[0], found[1]
