"""A model together with how its files are read: what ``coad fit`` leaves for ``score`` and ``evaluate``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.data.layout import Layout
from coad.exceptions import FileError, InputError

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Clocks", "Recipe", "check_target", "load_detector", "load_model", "save_model"]

_MODEL, _LAYOUT = "model.json", "layout.json"


@dataclass(frozen=True)
class Clocks:
    """How two sources with a clock each are brought together; see :func:`coad.data.read_two_clocks`."""

    how: str = "nearest"
    tolerance: str | None = None
    time_q: str | None = None


@dataclass(frozen=True)
class Recipe:
    """How files become the pairs of a model: the layout, two clocks if there are, means that fill gaps.

    >>> recipe = Recipe(Layout(s=("a",), q=("b",)), Clocks("hold", "50ms"))
    >>> Recipe.from_dict(recipe.to_dict()) == recipe
    True
    """

    layout: Layout
    clocks: Clocks | None = None
    means: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values: dict[str, Any] = {"format": "coad layout", "layout": self.layout.to_dict()}
        if self.clocks is not None:
            values["clocks"] = {k: v for k, v in vars(self.clocks).items() if v is not None}
        if self.means:
            values["means"] = {name: np.asarray(value).tolist() for name, value in self.means.items()}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """The inverse of :meth:`to_dict`."""
        clocks = values.get("clocks")
        return cls(
            Layout.from_dict(values["layout"]),
            None if clocks is None else Clocks(**clocks),
            dict(values.get("means", {})),
        )


def check_target(folder: Path) -> Path:
    """Refuse, before any work is done, a folder that holds something else than a model."""
    folder = folder.absolute()
    if folder.is_dir():
        if any(folder.iterdir()) and not (folder / _MODEL).is_file():
            raise FileError(
                f"{folder} exists and holds no model; choose another --out, or remove it yourself"
            )
    elif folder.exists():
        raise FileError(f"{folder} is a file; --out names a folder for the model")
    parent = next(one for one in folder.parents if one.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise FileError(f"cannot write {folder}: no permission to write in {parent}")
    return folder


def save_model(model: CoAD, recipe: Recipe, folder: Path) -> None:
    """Write the model and its recipe as one folder; an old model is replaced once the new one is complete.

    The model keeps the recipe, so that it is still there if it is changed and saved from Python.
    """
    folder = check_target(folder)
    model.layout_ = json.dumps(recipe.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    model.save(folder)


def load_model(folder: Path) -> tuple[CoAD, Recipe]:
    """Read what :func:`save_model` wrote."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise FileError(f"{folder} {what}; name the folder that coad fit wrote")
    from coad.learned.estimator import load

    model = load(folder)
    if model.layout_ is None:
        raise FileError(
            f"{folder} has no {_LAYOUT}: the model was not made by coad fit, so how to read files is not "
            "known; use it from Python, coad.load(folder)"
        )
    path = folder / _LAYOUT
    try:
        values = json.loads(model.layout_)
        if values["format"] != "coad layout":
            raise ValueError("it is of another format")
        return model, Recipe.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise FileError(f"{path} does not describe a layout: {error}") from error
        raise FileError(f"{path} is truncated or was changed ({error})") from error


def load_detector(folder: Path) -> tuple[CoAD, Recipe]:
    """As :func:`load_model`, for what only a detector of the binary method has: one β, one threshold, kinds of events."""
    from coad.modes.estimator import CoincidenceModes

    model, recipe = load_model(folder)
    if isinstance(model, CoincidenceModes):
        raise InputError(
            f"{folder} is a catalogue of modes, which this command does not show; coad modes --page writes its page, "
            "and coad score and coad evaluate take it"
        )
    return model, recipe
