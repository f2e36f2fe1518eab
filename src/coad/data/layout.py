"""``Layout``: which columns are inputs, context, time and so on, and how rows become pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, fields, replace
from typing import Any

from coad.data.arrays import is_part, shared_parts
from coad.data.columns import missing_column, quoted, refuse_overlap, select_columns
from coad.data.missing import POLICIES
from coad.data.windows import one_stride
from coad.exceptions import InputError

#: As a context or group: the file of each row, unless a column has this name.
FILE = "file"

Patterns = str | Sequence[str]


@dataclass(frozen=True)
class Layout:
    """Which columns are inputs, context, time and so on, and how rows become pairs.

    Parameters
    ----------
    s, q : str or sequence of str
        Columns of the two inputs: names, globs or ``/regular expressions/``; see
        :func:`coad.data.select_columns`.
    context : str or sequence of str, optional
        Columns of the operating regime; ``"file"`` for the file of each row.
    time : str, optional
        Time column.
    id : str, optional
        Column that identifies rows; copied to the scores.
    group : str, optional
        Run or batch ID: rows that share it stay on one side of every split. ``"file"`` for the file.
    label : str, optional
        Label column; never used for training.
    time_unit : {"s", "ms", "us", "ns", "number"}, optional
        Unit of numeric times; see :func:`coad.data.parse_time`.
    time_format : str, optional
        Format of times that are text, as for ``datetime.strptime``: ``"%d.%m.%Y %H:%M:%S"``.
    long : str, optional
        ``"time,tag,value"`` for long tables, with one row per reading: the names of these three columns.
        Each tag becomes a column. Without a reading at some time, its value there is missing.
    context_blocks : duration, optional
        Length of blocks of time that are used as context, e.g. ``"10min"``.
    window, stride : int or duration, optional
        Window length and distance between windows, in rows or time (default: single rows; the length).
    max_gap : duration, optional
        No window spans a longer time step (default: five median steps).
    missing : {"error", "drop", "mean", "interpolate"}
        What to do with missing values.
    hop : int or duration, optional
        Another name for ``stride``.

    >>> layout = Layout(s="motor_*", q="vib_*").resolved(["motor_a", "vib_x", "vib_y"])
    >>> layout.s, layout.q
    (('motor_a',), ('vib_x', 'vib_y'))
    >>> Layout.from_dict(layout.to_dict()) == layout
    True
    """

    s: Patterns
    q: Patterns
    context: Patterns | None = None
    time: str | None = None
    id: str | None = None
    group: str | None = None
    label: str | None = None
    time_unit: str | None = None
    time_format: str | None = None
    long: str | None = None
    context_blocks: str | None = None
    window: str | int | None = None
    stride: str | int | None = None
    max_gap: str | None = None
    missing: str = "error"
    hop: InitVar[str | int | None] = None

    def __post_init__(self, hop: str | int | None) -> None:
        object.__setattr__(self, "stride", one_stride(self.stride, hop))
        if self.missing not in POLICIES:
            raise InputError(f"missing must be one of {', '.join(POLICIES)}, not {self.missing!r}")
        if self.stride is not None and self.window is None:
            raise InputError("a stride needs a window; give its length too")
        if self.context_blocks is not None and self.time is None:
            raise InputError("context blocks need a time column; name it")
        for name in ("s", "q", "context"):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    def resolved(self, names: Sequence[str], *, where: str = "") -> Layout:
        """The layout with all patterns replaced by existing names; s and q must not overlap."""
        s = chosen_columns(self.s, names, what="column of s", where=where)
        q = chosen_columns(self.q, names, what="column of q", where=where)
        refuse_overlap(s, q)
        shared = shared_parts(s, q, names) if any("[" in name for name in (*s, *q)) else []
        if shared:
            raise InputError(
                f"s and q select overlapping parts of {quoted(shared)}; each channel belongs to one input"
            )
        context = None
        if self.context is not None:
            context = chosen_columns(self.context, names, what="context", where=where)
        for name in (self.time, self.id, self.group, self.label):
            if name is not None and name not in (*names, FILE) and not is_part(name, names):
                raise missing_column(names, name, where=where)
        layout = replace(self, s=tuple(s), q=tuple(q), context=None if context is None else tuple(context))
        if self.label is not None and self.label in (*s, *q):
            raise InputError(
                f"column {self.label!r} is the label and also an input; labels are for judging only"
            )
        return layout

    def without_label(self) -> Layout:
        """The layout without the label column."""
        return replace(self, label=None)

    @property
    def signals(self) -> list[str]:
        """The columns of s and q of a resolved layout."""
        return [*self.s, *self.q]

    @property
    def others(self) -> list[str]:
        """The context, time, id, group and label columns of a resolved layout."""
        names = [*(self.context or ()), self.time, self.id, self.group, self.label]
        return list(dict.fromkeys(name for name in names if name is not None))

    def check_same(self, names: Sequence[str], *, where: str = "") -> None:
        """Refuse a file that lacks columns of a resolved layout; the error names all of them.

        >>> Layout(s=("a", "b"), q=("c",)).check_same(["a", "d"], where="new.csv")
        Traceback (most recent call last):
        ...
        coad.exceptions.InputError: 'new.csv' lacks 2 of the model's 3 columns: 'b', 'c'; it has 'a', 'd'
        """
        needed = list(dict.fromkeys([*self.signals, *self.others]))
        absent = [name for name in needed if name not in (*names, FILE) and not is_part(name, names)]
        if absent:
            raise InputError(
                f"{where or 'the data'!r} lacks {len(absent)} of the model's {len(needed)} columns: "
                f"{quoted(absent)}; it has {quoted(list(names))}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Layout:
        """The inverse of :meth:`to_dict`."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise InputError(f"a layout has no field {unknown[0]!r}")
        for key, value in values.items():
            names = value if isinstance(value, list) and key in ("s", "q", "context") else [value]
            number = key in ("window", "stride") and type(value) is int
            if not number and not (names and all(isinstance(one, str) for one in names)):
                raise InputError(f"{key!r} of a layout cannot be {value!r:.60}")
        return cls(**values)


def chosen_columns(
    patterns: Patterns, names: Sequence[str], *, what: str = "column", where: str = ""
) -> list[str]:
    """Like :func:`coad.data.select_columns`, but also parts of arrays (``profile[0]``), and ``file`` as a context.

    >>> chosen_columns("PS*, profile[0]", ["PS1", "PS2", "profile"])
    ['PS1', 'PS2', 'profile[0]']
    """
    asked = [patterns] if isinstance(patterns, str) else list(patterns)
    special = {
        part.strip() for one in asked for part in (one, *one.split(",")) if is_part(part.strip(), names)
    }
    if what == "context" and FILE not in names:
        special.add(FILE)
    chosen: dict[str, None] = {}
    for one in asked:
        parts = [part.strip() for part in one.split(",")]
        # Split at commas only if a part is special; select_columns splits the rest.
        wanted = [part for part in parts if part] if one not in names and special & set(parts) else [one]
        for part in wanted:
            found = [part] if part in special else select_columns(names, part, what=what, where=where)
            chosen.update(dict.fromkeys(found))
    return list(chosen)
