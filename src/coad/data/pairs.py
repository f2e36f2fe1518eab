"""``Pairs``: the rows of two inputs, with context, time, group and label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coad._typing import BoolArray, IntArray, RandomState
from coad.core.runs import RowOrder
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.data.windows import Windows

#: The fields with one entry per row.
_PER_ROW = ("s", "q", "context", "time", "id", "group", "label")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two inputs, row by row: row i of ``s`` and row i of ``q`` belong together.

    Parameters
    ----------
    s, q : array of shape (n, ...)
        The two inputs: finite numbers, kept as float32 or float64.
    context : array of shape (n,), optional
        Operating regime of each row.
    time : array of shape (n,), optional
        Time of each row: dates, epoch times or numbers; see :func:`coad.data.parse_time`.
    id : array of shape (n,), optional
        Identifier of each row.
    group : array of shape (n,), optional
        Run or batch ID: rows that share it stay on one side of every split.
    label : array of shape (n,), optional
        True class of each row; never used for training.
    s_names, q_names : tuple of str
        Names of the columns or channels.
    windows : Windows, optional
        The source rows of each pair, if the pairs are windows.

    >>> pairs = Pairs([1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4], group=["a", "a", "b", "b"])
    >>> len(pairs), pairs.s.shape, pairs[1:3].q.tolist()
    (4, (4, 1), [[0.2], [0.3]])
    """

    s: NDArray[Any]
    q: NDArray[Any]
    context: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    id: NDArray[Any] | None = None
    group: NDArray[Any] | None = None
    label: NDArray[Any] | None = None
    s_names: tuple[str, ...] = ()
    q_names: tuple[str, ...] = ()
    windows: Windows | None = None

    def __init__(
        self,
        s: ArrayLike,
        q: ArrayLike,
        context: ArrayLike | None = None,
        time: ArrayLike | None = None,
        id: ArrayLike | None = None,
        group: ArrayLike | None = None,
        label: ArrayLike | None = None,
        *,
        s_names: tuple[str, ...] = (),
        q_names: tuple[str, ...] = (),
        windows: Windows | None = None,
    ) -> None:
        values: dict[str, Any] = {"s": _signal(s, "s"), "q": _signal(q, "q")}
        n = len(values["s"])
        for name, value in (("context", context), ("id", id), ("group", group), ("label", label)):
            values[name] = None if value is None else _per_row(value, name)
        values["time"] = None if time is None else _time(time)
        for name in _PER_ROW:
            if values[name] is not None and len(values[name]) != n:
                raise InputError(
                    f"s has {n:,} rows and {name} has {len(values[name]):,}; they must match row by row"
                )
        if windows is not None and len(windows) != n:
            raise InputError(f"s has {n:,} rows and there are {len(windows):,} windows")
        values |= {"s_names": tuple(s_names), "q_names": tuple(q_names), "windows": windows}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.s)

    def __getitem__(self, index: Any) -> Pairs:
        """Select rows by a slice, a boolean mask, an array of row numbers, or one row number."""
        if isinstance(index, (int, np.integer)):
            n = len(self)
            if not -n <= index < n:
                raise IndexError(f"row {index:,} of {n:,}")
            index = slice(int(index) % n, int(index) % n + 1)
        elif not isinstance(index, slice):
            index = np.asarray(index)
            index = index.astype(np.int64) if index.size == 0 and index.dtype != np.bool_ else index
            if index.dtype == np.bool_ and index.shape != (len(self),):
                raise InputError(f"a mask of shape {index.shape} does not fit {len(self):,} rows")
        # The arrays have been checked, so skip __init__.
        part = object.__new__(Pairs)
        for field in fields(Pairs):
            value = getattr(self, field.name)
            sliced = field.name in (*_PER_ROW, "windows") and value is not None
            object.__setattr__(part, field.name, value[index] if sliced else value)
        return part

    def __iter__(self) -> Iterator[Pairs]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        known = [name for name in _PER_ROW[2:] if getattr(self, name) is not None]
        more = f", with {', '.join(known)}" if known else ""
        return f"Pairs({len(self):,} rows, s {self.s.shape[1:]}, q {self.q.shape[1:]}{more})"

    def with_context(self, context: ArrayLike | None) -> Pairs:
        """A copy with another context."""
        return self._replaced("context", None if context is None else _per_row(context, "context"))

    def with_group(self, group: ArrayLike | None) -> Pairs:
        """A copy with other groups, or none."""
        return self._replaced("group", None if group is None else _per_row(group, "group"))

    def with_names(self, s_names: tuple[str, ...], q_names: tuple[str, ...]) -> Pairs:
        """A copy with other column names."""
        copy = self[:]
        object.__setattr__(copy, "s_names", tuple(s_names))
        object.__setattr__(copy, "q_names", tuple(q_names))
        return copy

    def without_label(self) -> Pairs:
        """A copy without labels."""
        return self._replaced("label", None)

    def split(
        self,
        test_size: float = 0.25,
        *,
        by: str = "random",
        n_blocks: int = 20,
        random_state: RandomState = None,
    ) -> tuple[Pairs, Pairs]:
        """Split into training and test pairs.

        Windows that share source rows with a test window are left out of the training side.

        Parameters
        ----------
        test_size : float
            Fraction of the groups, blocks or rows in the test side.
        by : {"random", "group", "time"}
            Split rows at random, whole groups, or whole blocks of consecutive time.
        n_blocks : int
            Number of blocks of time, with about equally many rows each.
        random_state : int or Generator, optional
            For reproducible splits.

        Returns
        -------
        train, test : Pairs

        >>> pairs = Pairs(np.arange(8.0), np.arange(8.0), group=[0, 0, 1, 1, 2, 2, 3, 3])
        >>> train, test = pairs.split(0.5, by="group", random_state=0)
        >>> sorted(set(train.group) | set(test.group)), set(train.group) & set(test.group)
        ([np.int64(0), np.int64(1), np.int64(2), np.int64(3)], set())
        """
        if not 0 < test_size < 1:
            raise InputError(f"test_size must lie between 0 and 1, not {test_size}")
        units = self._units(by, n_blocks)
        count = int(units.max()) + 1 if len(units) else 0
        if count < 2:
            raise InputError(f"a split by {by} needs at least two {_unit_name(by)}, and there is {count}")
        held_out = min(max(round(test_size * count), 1), count - 1)
        chosen = np.random.default_rng(random_state).permutation(count)[:held_out]
        return self._sides(np.isin(units, chosen))

    def folds(
        self, n_folds: int = 5, *, by: str = "random", n_blocks: int = 20, random_state: RandomState = None
    ) -> Iterator[tuple[Pairs, Pairs]]:
        """Cross-validation: ``n_folds`` splits as in :meth:`split`; each row is in one test side."""
        units = self._units(by, n_blocks)
        count = int(units.max()) + 1 if len(units) else 0
        if not 2 <= n_folds <= count:
            raise InputError(
                f"{n_folds} folds by {by} need 2 to {count} folds: there are {count} {_unit_name(by)}"
            )
        fold = np.empty(count, dtype=np.int64)
        fold[np.random.default_rng(random_state).permutation(count)] = np.arange(count) % n_folds
        return (self._sides(fold[units] == number) for number in range(n_folds))

    def _sides(self, test: BoolArray) -> tuple[Pairs, Pairs]:
        train = ~test
        if self.windows is not None:
            # Training windows must not contain samples of test windows.
            train &= ~self.windows.any(self.windows[test].covered)
            if not train.any():
                raise InputError("every window shares rows with a test window; split by group or by time")
        return self[train], self[test]

    def _units(self, by: str, n_blocks: int) -> IntArray:
        """For each row the number of its group, block or row, which is not split."""
        n = len(self)
        if by == "random":
            return np.arange(n)
        if by == "group":
            if self.group is None:
                raise InputError("a split by group needs the group of each row; name the group column")
            return np.unique(self.group, return_inverse=True)[1].reshape(n)
        if by == "time":
            if n_blocks < 2:
                raise InputError(f"a split by time needs at least 2 blocks, not {n_blocks}")
            order = np.arange(n) if self.time is None else np.argsort(self.time, kind="stable")
            units = np.empty(n, dtype=np.int64)
            units[order] = np.arange(n) * min(n_blocks, max(n, 1)) // max(n, 1)
            return units
        raise InputError(f"by must be 'group', 'time' or 'random', not {by!r}")

    def _replaced(self, name: str, value: Any) -> Pairs:
        if value is not None and len(value) != len(self):
            raise InputError(
                f"s has {len(self):,} rows and {name} has {len(value):,}; they must match row by row"
            )
        copy = self[:]
        object.__setattr__(copy, name, value)
        return copy


def _unit_name(by: str) -> str:
    return {"group": "groups", "time": "blocks", "random": "rows"}[by]


def _signal(values: ArrayLike, name: str) -> NDArray[Any]:
    """Check that values are finite numbers; returns float32 or float64 with at least two axes."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numbers in rows of equal shape, not {array.dtype} values")
    if array.ndim == 0:
        raise InputError(f"{name} is a single number; it must have one row per pair")
    if array.dtype not in (np.float32, np.float64):
        # float32 represents 8- and 16-bit integers exactly, in half the memory.
        array = array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        # Fast check: if the sum is finite, so are all values. The sum may also overflow.
        suspicious = not np.isfinite(array.sum())
    if suspicious and not np.isfinite(array).all():
        bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        raise InputError(
            f"{name} has missing or infinite values in {int(bad.sum()):,} rows "
            f"(first at row {int(np.argmax(bad)):,}); drop these rows or fill them in"
        )
    return array[:, None] if array.ndim == 1 else array


def _per_row(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind in "OT":
        array = np.array([str(value) for value in array.ravel()], dtype=str).reshape(array.shape)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{name} must have one value per row, not shape {array.shape}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(
            f"{name} has {int(np.isnan(array).sum()):,} missing values; drop these rows or fill them in"
        )
    return array


def _time(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind == "f" or array.dtype == np.dtype("datetime64[ns]"):
        return _per_row(array, "time")
    from coad.data.times import parse_time

    return parse_time(array)


def table_names(x: Any) -> list[str] | None:
    """The names of the columns of a pandas, Polars or Arrow table; None for anything else.

    >>> import pyarrow as pa
    >>> table_names(pa.table({"a": [1.0], "b": [2.0]})), table_names(np.zeros((2, 2)))
    (['a', 'b'], None)
    """
    names = getattr(x, "column_names", None)  # Arrow, whose columns are the values
    names = getattr(x, "columns", None) if names is None else names
    return None if names is None else [str(name) for name in names]


def take_rows(x: Any, rows: IntArray) -> Any:
    """Rows of an array, or of a pandas, Polars or Arrow table, by number.

    >>> take_rows(np.arange(6).reshape(3, 2), np.array([0, 2])).tolist()
    [[0, 1], [4, 5]]
    """
    if hasattr(x, "iloc"):
        return x.iloc[rows]
    if hasattr(x, "column_names"):
        return x.take(rows)
    return x[rows] if hasattr(x, "shape") else np.asarray(x)[rows]


def order_of(s: Any, q: Any = None, group: Any = None, time: Any = None) -> RowOrder:
    """Where rows stand in time: as a :class:`Pairs` or ``group`` and ``time`` say, else one after the other."""
    _, _, _, group, time = unpacked(s, q, None, group, time)
    known = [None if x is None else np.asarray(x) for x in (time, group)]
    if q is not None or s.windows is None:
        return RowOrder(len(s), known[0], known[1])
    return RowOrder(len(s), known[0], known[1], s.windows.start, s.windows.overlap)


def unpacked(
    s: Any, q: Any = None, context: Any = None, group: Any = None, time: Any = None
) -> tuple[Any, Any, Any, Any, Any]:
    """The parts of a :class:`Pairs` that was passed in place of s and q.

    Parameters
    ----------
    s, q
        The two inputs; or a ``Pairs`` and None.
    context, group, time
        Taken from the ``Pairs`` if None.

    Returns
    -------
    tuple
        s, q, context, group and time.

    >>> unpacked(Pairs([1.0, 2.0], [3.0, 4.0], context=["a", "b"]))[2].tolist()
    ['a', 'b']
    """
    if q is not None:
        return s, q, context, group, time
    if not isinstance(s, Pairs):
        raise InputError("q is missing: pass both inputs, or one coad.Pairs that holds them")
    own = (("context", context), ("group", group), ("time", time))
    found = [getattr(s, name) if value is None else value for name, value in own]
    return s.s, s.q, found[0], found[1], found[2]
