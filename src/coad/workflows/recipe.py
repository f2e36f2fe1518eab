"""How files become the pairs of a model: saved by ``coad fit``, used by ``score`` and ``evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coad.data.layout import Layout
from coad.exceptions import InputError

__all__ = ["Clocks", "Recipe"]


@dataclass(frozen=True)
class Clocks:
    """How two files with their own times are aligned; see :func:`coad.data.read_two_clocks`."""

    how: str = "nearest"
    tolerance: str | None = None
    time_q: str | None = None


@dataclass(frozen=True)
class Recipe:
    """How files become the pairs of a model: the layout, the alignment of two files, and means for missing values.

    >>> recipe = Recipe(Layout(s=("a",), q=("b",)), Clocks("hold", "50ms"))
    >>> Recipe.from_dict(recipe.to_dict()) == recipe
    True
    """

    layout: Layout
    clocks: Clocks | None = None
    means: dict[str, Any] = field(default_factory=dict)
    #: Columns that are never suggested as a context: the label, and those a person excluded.
    not_context: tuple[str, ...] = ()

    def with_missing(self, policy: str | None) -> Recipe:
        """The recipe with another policy for missing values; None keeps that of the fit."""
        return self if policy is None else replace(self, layout=replace(self.layout, missing=str(policy)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values: dict[str, Any] = {"format": "coad layout", "layout": self.layout.to_dict()}
        if self.clocks is not None:
            values["clocks"] = {k: v for k, v in vars(self.clocks).items() if v is not None}
        if self.means:
            values["means"] = {name: np.asarray(value).tolist() for name, value in self.means.items()}
        if self.not_context:
            values["not_context"] = list(self.not_context)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """The inverse of :meth:`to_dict`."""
        clocks, means = values.get("clocks"), dict(values.get("means", {}))
        for name, value in means.items():
            if value is not None and np.asarray(value).dtype.kind not in "biuf":
                raise InputError(f"the mean of {name!r} cannot be {value!r:.60}")
        if clocks is not None and not all(isinstance(value, str) for value in clocks.values()):
            raise InputError(f"clocks cannot be {clocks!r:.60}")
        return cls(
            Layout.from_dict(values["layout"]),
            None if clocks is None else Clocks(**clocks),
            means,
            tuple(str(name) for name in values.get("not_context", ())),
        )
