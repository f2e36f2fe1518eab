"""What a lens is: a way to propose groups of rows that both inputs single out, and to recognise them in new rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.runs import RowOrder

__all__ = ["Candidate", "FitRows", "Lens", "Rows", "Votes", "folds_of"]

#: Parts into which the rows are cut; each part is judged by what was fitted on the others.
FOLDS = 4
#: Stretches of time for each part, so that every part sees the whole time.
_STRETCHES = 5


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of both inputs: as they came, as features, and how odd each is in its input alone."""

    s: NDArray[np.float32]
    q: NDArray[np.float32]
    context: NDArray[Any] | None
    features_s: NDArray[np.float32]
    features_q: NDArray[np.float32]
    odd_s: FloatArray
    odd_q: FloatArray

    def __len__(self) -> int:
        return len(self.s)


@dataclass(frozen=True, eq=False)
class FitRows(Rows):
    """The rows of a fit, with what is needed to hold some of them out."""

    order: RowOrder
    fold: IntArray
    ordered: bool
    max_rare: float
    seed: int
    group: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    verbose: bool = field(default=False)

    def rng(self, purpose: int) -> np.random.Generator:
        """A source of random numbers for one purpose, so that lenses do not depend on each other."""
        return np.random.default_rng([self.seed, purpose])


class Votes(NamedTuple):
    """What a lens says of rows, each (n, candidates).

    ``score_s`` and ``score_q``: how much each input by itself speaks for membership, 0 or more meaning yes;
    ``member``: whether the row belongs, by both inputs together.
    """

    score_s: FloatArray
    score_q: FloatArray
    member: BoolArray


@dataclass(frozen=True, eq=False)
class Candidate:
    """Rows that a lens singles out, and what each input says of rows that the lens was not fitted on.

    Attributes
    ----------
    lens, number
        Where it comes from: the name of the lens, and its column in the :class:`Votes` of that lens.
    member
        Which rows of the fit belong to it.
    score_s, score_q
        Held-out scores of the fit's rows, 0 or more meaning that the input by itself says yes.
    judged
        Rows whose scores are held out; only these are judged.
    stability
        The share of it that comes back when it is looked for without some of the rows, 0 to 1.
    """

    lens: str
    number: int
    member: BoolArray
    score_s: FloatArray
    score_q: FloatArray
    judged: BoolArray
    stability: float


class Lens(Protocol):
    """A way to look for coincident rows."""

    name: str

    def propose(self, data: FitRows) -> list[Candidate]:
        """Fit, and say what was found."""

    def votes(self, rows: Rows) -> Votes:
        """What it says of any rows."""

    def to_facts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What goes into JSON, and what into safetensors."""


def folds_of(
    n: int, group: NDArray[Any] | None, order: RowOrder, ordered: bool, rng: np.random.Generator
) -> IntArray:
    """The part of each row: groups stay whole; rows in time order are cut into stretches, others at random.

    >>> folds_of(8, None, RowOrder(8), False, np.random.default_rng(0)).tolist()
    [2, 0, 3, 2, 1, 0, 1, 3]
    """
    if group is not None and len(np.unique(group)) >= FOLDS:
        code = np.unique(group, return_inverse=True)[1].reshape(-1)
        place = rng.permutation(int(code.max()) + 1)
        return np.asarray(place[code] % FOLDS)
    if ordered:
        fold = np.empty(n, dtype=np.int64)
        fold[order.in_time()] = np.arange(n) * FOLDS * _STRETCHES // n % FOLDS
        return fold
    return rng.permutation(n) % FOLDS
