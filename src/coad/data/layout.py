"""``Layout``: which columns are what, and how rows become pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, fields, replace
from typing import Any

from coad.data.arrays import is_part, shared_parts
from coad.data.columns import missing_column, quoted, refuse_overlap, select_columns
from coad.data.missing import POLICIES
from coad.data.windows import one_stride
from coad.exceptions import InputError

#: Stands for the file that a row came from, where no column has that name.
FILE = "file"

Patterns = str | Sequence[str]


@dataclass(frozen=True)
class Layout:
    """Which columns are s, q, context and so on, and how rows become pairs.

    ``s``, ``q`` and ``context`` take names, globs or ``/regular expressions/``
    (see :func:`coad.data.select_columns`); the others take one name. ``context``
    and ``group`` may be ``"file"``: each file is then a run of its own.
    ``window`` and ``stride`` (or ``hop``, the same) are samples or times. Once :meth:`resolved` against
    a file, it holds plain names only and can be kept with a model as JSON.

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
            raise InputError("a stride was given without a window; give the window's length too")
        if self.context_blocks is not None and self.time is None:
            raise InputError("context blocks are blocks of time: name the time column")
        for name in ("s", "q", "context"):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    def resolved(self, names: Sequence[str], *, where: str = "") -> Layout:
        """The same with every pattern turned into names that exist; overlap of s and q is refused."""
        s = chosen_columns(self.s, names, what="column of s", where=where)
        q = chosen_columns(self.q, names, what="column of q", where=where)
        refuse_overlap(s, q)
        shared = shared_parts(s, q, names) if any("[" in name for name in (*s, *q)) else []
        if shared:
            raise InputError(f"s and q share a part of {quoted(shared)}; each channel belongs to one of them")
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
        """The same without the label, for those who must not see it."""
        return replace(self, label=None)

    @property
    def signals(self) -> list[str]:
        """Names of s and q, once resolved."""
        return [*self.s, *self.q]

    @property
    def others(self) -> list[str]:
        """Names of the columns that describe a row, once resolved."""
        names = [*(self.context or ()), self.time, self.id, self.group, self.label]
        return list(dict.fromkeys(name for name in names if name is not None))

    def check_same(self, names: Sequence[str], *, where: str = "") -> None:
        """Refuse a file that lacks columns of a resolved layout, and name every one that is missing.

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
        return cls(**values)


def chosen_columns(
    patterns: Patterns, names: Sequence[str], *, what: str = "column", where: str = ""
) -> list[str]:
    """Like :func:`coad.data.select_columns`, with parts of arrays (``profile[0]``), and ``file`` as a context.

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
        # Split at commas only if that sets free a part which stands for itself.
        wanted = [part for part in parts if part] if one not in names and special & set(parts) else [one]
        for part in wanted:
            found = [part] if part in special else select_columns(names, part, what=what, where=where)
            chosen.update(dict.fromkeys(found))
    return list(chosen)
