"""A model folder as live monitoring uses it: which columns it needs, how rows become pairs, and a name for its events."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad.data.layout import FILE, Layout
from coad.exceptions import InputError, UnseenContextWarning
from coad.workflows.model_folder import load, load_model
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.core.assessment import RowScores

__all__ = ["LiveModel"]


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A detector, its layout, and a digest of its folder.

    Parameters
    ----------
    detector
        Any model that has ``score_rows``.
    recipe
        How its rows become pairs; the names of s, q and contexts are resolved.
    digest
        Changes whenever the model does; a part of the key of every event.
    """

    detector: Any
    recipe: Recipe
    digest: str

    def __post_init__(self) -> None:
        layout = self.recipe.layout
        if layout.missing == "interpolate":
            raise InputError(
                'this model interpolates missing values, which needs rows that are yet to come; write missing = "drop" '
                '(or "mean") under [model]'
            )
        if layout.long is not None:
            raise InputError(
                "this model reads long tables, one row per reading; a watch needs one column per signal"
            )
        if FILE in (layout.group, *(layout.context or ())):
            raise InputError("the file is a context or group of this model, and a watch has no files")
        if layout.window is not None and not (
            isinstance(layout.window, int) and isinstance(layout.stride, int)
        ):
            raise InputError(
                "the window and stride of a watch are numbers of rows; fit the model with coad fit, which settles them"
            )

    @classmethod
    def read(cls, folder: Path, layout: Layout | None = None, missing: str | None = None) -> LiveModel:
        """Load a model folder, whole or not at all.

        Parameters
        ----------
        folder
            The folder.
        layout
            Which columns are what, by their names, for a model without ``layout.json``: one that was saved from Python.
        missing
            What to do with missing values, if not as in the fit.
        """
        if layout is None:
            detector, recipe = load_model(folder)
        else:
            detector, recipe = load(folder), Recipe(layout)
        text = (folder / "model.json").read_bytes()
        return cls(detector, recipe.with_missing(missing), hashlib.sha256(text).hexdigest()[:16])

    @property
    def layout(self) -> Layout:
        """How rows become pairs."""
        return self.recipe.layout

    @property
    def describing(self) -> tuple[str, ...]:
        """The columns of contexts and groups."""
        layout = self.layout
        return tuple(dict.fromkeys([*(layout.context or ()), *([layout.group] if layout.group else [])]))

    @property
    def build_layout(self) -> Layout:
        """The layout for rows without missing values whose times are dates."""
        return replace(
            self.layout, missing="error", label=None, id=None, long=None, time_unit=None, time_format=None
        )

    def score(
        self, s: NDArray[Any], q: NDArray[Any], context: NDArray[Any] | None, *, shared: bool = False
    ) -> RowScores:
        """Confidences and decisions of pairs; contexts that training did not see are no news here.

        ``shared`` says that many sources share the q of these pairs; networks then score each row of it once.
        """
        once = shared and context is None and "same_q" in signature(self.detector.score_rows).parameters
        settings = {"same_q": _equal_rows(q)} if once else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenContextWarning)
            scores: RowScores = self.detector.score_rows(s, q, context, **settings)
        if not (np.isfinite(scores.p_s).all() and np.isfinite(scores.p_q).all()):
            raise InputError("the model gives confidences that are not numbers")
        return scores


def _equal_rows(x: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each row, the same for rows that are equal bit by bit."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    rows = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).reshape(-1)
    return np.unique(rows, return_inverse=True)[1].reshape(-1).astype(np.int64)
