"""Find the regime that two inputs share: the columns, or blocks of time, that explain the coincidence.

If p_s and p_q coincide only because both follow the operating point, they are independent within
one operating point. A column explains the share of TP that vanishes when TP is computed within
each of its values. Labels are not used.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import ArrayLike, BoolArray, IntArray
from coad.core.metric import true_positive_fraction
from coad.core.moments import Moments
from coad.exceptions import CoadWarning

__all__ = ["Explanation", "RegimeHint", "explain_coincidence", "hint_regime"]

#: A context needs at least this many rows per value, on average.
_ROWS_A_VALUE = 20
#: A numeric column with too many values is cut into this many quantile levels.
_LEVELS = 8
_MOST_VALUES = 200  # distinct values of a column that is used as it is
#: A column is reported if it explains at least this share.
_LEAST_SHARE = 0.2
#: Another column is added if it explains at least this much more.
_WORTH_ADDING = 0.05
_MOST_COLUMNS = 4  # in one hint


@dataclass(frozen=True)
class Explanation:
    """A column and the share of the coincidence that it explains.

    ``levels`` is the number of levels that a column with many values was cut into, else None.
    """

    name: str
    share: float
    n_values: int
    levels: int | None = None


@dataclass(frozen=True)
class RegimeHint:
    """The likely shared regime as a sentence, and the command-line option that uses it."""

    sentence: str
    option: str
    share: float
    columns: tuple[str, ...] = ()
    block: str | None = None

    def command(self, arguments: list[str]) -> str:
        """The user's own command with the option added.

        >>> RegimeHint("…", "--context material", 0.9).command(["fit", "plant.csv", "--s", "motor_*"])
        "coad fit plant.csv --s 'motor_*' --context material"
        """
        return f"coad {shlex.join(arguments)} {self.option}".strip()


def explain_coincidence(
    flag_s: ArrayLike, flag_q: ArrayLike, columns: Mapping[str, NDArray[Any]], *, context: Any = None
) -> list[Explanation]:
    """The share of the coincidence that each column explains, largest first.

    Parameters
    ----------
    flag_s, flag_q : array of bool
        Which rows each input flags.
    columns : mapping of str to array
        Candidate columns, one value per row. Constant columns and text with too many values are skipped.
    context : array, optional
        Known context; shares are of the coincidence that remains within it.

    Returns
    -------
    list of Explanation

    >>> rng = np.random.default_rng(0)
    >>> load = rng.integers(0, 4, 2000)
    >>> s, q = (rng.random(2000) < load / 6 for _ in "sq")
    >>> best, *_ = explain_coincidence(s, q, {"load": load, "shift": rng.integers(0, 3, 2000)})
    >>> best.name, best.share > 0.8
    ('load', True)
    """
    s, q = np.asarray(flag_s, dtype=np.bool_), np.asarray(flag_q, dtype=np.bool_)
    base = None if context is None else _code(np.asarray(context))
    total = _true_positives(s, q, base)
    if total <= 0:
        return []
    found = []
    for name, values in columns.items():
        coded = _strata(np.asarray(values))
        if coded is None:
            continue
        code, levels = coded
        n_values = int(code.max()) + 1
        joined = code if base is None else _joined(base, code)
        if int(joined.max()) + 1 > max(2, len(s) // _ROWS_A_VALUE):
            continue
        share = 1.0 - _true_positives(s, q, joined) / total
        found.append(Explanation(name, float(min(share, 1.0)), n_values, levels))
    return sorted(found, key=lambda one: (-one.share, one.levels is not None, one.name))


def hint_regime(
    flag_s: ArrayLike,
    flag_q: ArrayLike,
    columns: Mapping[str, NDArray[Any]],
    *,
    time: NDArray[Any] | None = None,
    context: Any = None,
    context_names: tuple[str, ...] = (),
) -> RegimeHint | None:
    """The columns, or blocks of time, that explain the coincidence best.

    Parameters
    ----------
    flag_s, flag_q : array of bool
        Which rows each input flags.
    columns : mapping of str to array
        Candidate columns, one value per row.
    time : array, optional
        Time of each row.
    context : array, optional
        Known context of each row.
    context_names : tuple of str
        Columns that form ``context``.

    Returns
    -------
    RegimeHint or None
        None if nothing explains at least a fifth.
    """
    s, q = np.asarray(flag_s, dtype=np.bool_), np.asarray(flag_q, dtype=np.bool_)
    base = None if context is None else _code(np.asarray(context))
    total = _true_positives(s, q, base)
    if total <= 0:
        return None
    chosen, share, named = _greedy(s, q, columns, base, total)
    if chosen and share >= _LEAST_SHARE:
        option = f"--context {shlex.quote(','.join((*context_names, *chosen)))}"
        return RegimeHint(
            f"{_list(chosen)} {'explains' if len(chosen) == 1 else 'explain'} {_percent(share)} of the coincidence",
            option,
            share,
            chosen,
        )
    block = None if time is None else _best_block(s, q, time, base, total)
    if block is not None and block[1] >= max(_LEAST_SHARE, 0.0 if named is None else named.share - 0.1):
        length, share = block
        also = f"--context {shlex.quote(','.join(context_names))} " if context_names else ""
        return RegimeHint(
            f"blocks of {length} in time explain {_percent(share)} of the coincidence",
            f"{also}--context-blocks {length}",
            share,
            block=length,
        )
    if named is not None and named.share >= _LEAST_SHARE:
        return RegimeHint(
            f"the level of {named.name!r} explains {_percent(named.share)} of the coincidence, but the column has too many "
            f"values for a context: add a column that bins it, e.g. into {_LEVELS} levels",
            f"--context {shlex.quote(named.name + '_level')}",
            named.share,
            (named.name,),
        )
    return None


def _greedy(
    s: BoolArray, q: BoolArray, columns: Mapping[str, NDArray[Any]], base: IntArray | None, total: float
) -> tuple[tuple[str, ...], float, Explanation | None]:
    """Add columns one by one, each the one that explains most of the rest; and the best with too many values."""
    chosen: list[str] = []
    share, known = 0.0, base
    named: Explanation | None = None
    left = dict(columns)
    while left and len(chosen) < _MOST_COLUMNS:
        ranked = explain_coincidence(s, q, left, context=known)
        if not chosen:
            named = next((one for one in ranked if one.levels is not None), None)
        usable = [one for one in ranked if one.levels is None]
        if not usable:
            break
        best = usable[0]
        code = _code(np.asarray(left.pop(best.name)))
        joined = code if known is None else _joined(known, code)
        reached = 1.0 - _true_positives(s, q, joined) / total
        if reached < share + (_WORTH_ADDING if chosen else 1e-9):
            break
        chosen.append(best.name)
        known, share = joined, min(reached, 1.0)
    return tuple(chosen), share, named


def _best_block(
    s: BoolArray, q: BoolArray, time: NDArray[Any], base: IntArray | None, total: float
) -> tuple[str, float] | None:
    """The longest blocks of time that explain nearly as much as the best."""
    from coad.data.times import context_blocks, in_seconds

    span = float(in_seconds(np.asarray([time.max() - time.min()]))[0])
    tried: list[tuple[str, float]] = []
    for length, text in _ROUND:
        if not span / 1000 <= length <= span / 3:
            continue
        code = _code(context_blocks(time, text))
        joined = code if base is None else _joined(base, code)
        if int(joined.max()) + 1 > len(s) // _ROWS_A_VALUE:
            continue
        tried.append((text, min(1.0, 1.0 - _true_positives(s, q, joined) / total)))
    if not tried:
        return None
    most = max(share for _, share in tried)
    return next(one for one in reversed(tried) if one[1] >= most - _WORTH_ADDING)


#: Round durations in seconds and as text, ascending.
_ROUND = [
    (amount * scale, f"{amount}{unit}")
    for unit, scale, amounts in (
        ("ms", 1e-3, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        ("s", 1.0, (1, 2, 5, 10, 20, 30)),
        ("min", 60.0, (1, 2, 5, 10, 20, 30)),
        ("h", 3600.0, (1, 2, 4, 8, 12)),
        ("d", 86400.0, (1, 2, 7, 14, 30, 90)),
    )
    for amount in amounts
]


def _strata(values: NDArray[Any]) -> tuple[IntArray, int | None] | None:
    """The stratum of each row, and the number of levels if the values had to be binned."""
    if values.ndim != 1 or not len(values):
        return None
    if values.dtype.kind == "f":
        values = np.where(np.isfinite(values), values, np.inf)  # missing values form their own stratum
    unique, code = np.unique(values, return_inverse=True)
    code = code.reshape(-1)
    few = len(unique) <= min(_MOST_VALUES, max(2, len(values) // _ROWS_A_VALUE))
    if len(unique) < 2:
        return None
    if few:
        return code, None
    if values.dtype.kind not in "iuf" or len(unique) > len(values) / 2:  # nearly every row has its own
        return None
    edges = np.unique(np.quantile(code, np.linspace(0, 1, _LEVELS + 1)[1:-1]))
    levels = _code(np.searchsorted(edges, code, side="right"))
    return levels, int(levels.max()) + 1


def _code(values: NDArray[Any]) -> IntArray:
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _joined(first: IntArray, second: IntArray) -> IntArray:
    return _code(first * (int(second.max()) + 1) + second)


def _true_positives(s: BoolArray, q: BoolArray, code: IntArray | None) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", CoadWarning
        )  # a stratum in which all rows are flagged contributes nothing
        return float(true_positive_fraction(Moments.of(s, q, code)))


def _percent(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.0%}"


def _list(names: tuple[str, ...]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
