"""Save and load model folders: a model of either kind, and how its files are read."""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.data.atomic import check_name
from coad.data.columns import quoted
from coad.exceptions import CoadError, FileError, InputError
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.findings.estimator import Findings
    from coad.learned.estimator import CoAD
    from coad.modes.estimator import CoincidenceModes
    from coad.thresholds.detector import CoincidenceThreshold

__all__ = ["check_target", "load", "load_detector", "load_model", "save_model"]

_MODEL, _LAYOUT = "model.json", "layout.json"
_LARGEST_ROW = 10**8  # values in one row of an input; more is not a row


def load(folder: str | Path, nets: Any = None) -> CoAD | CoincidenceModes | CoincidenceThreshold | Findings:
    """Read a model that ``save`` wrote.

    Parameters
    ----------
    folder : path
        The folder.
    nets : pair of torch modules, optional
        The networks for s and for q, if they were your own: a folder only names them.

    Returns
    -------
    CoAD, CoincidenceModes, CoincidenceThreshold or Findings

    >>> load("no such folder")
    Traceback (most recent call last):
    ...
    coad.exceptions.FileError: no such folder is not a saved model: model.json cannot be read (No such file or directory)
    """
    from coad.data.model_files import read_folder

    stored = read_folder(Path(folder))
    try:
        model: CoAD | CoincidenceModes | CoincidenceThreshold
        if stored.facts.get("kind") == "thresholds":
            from coad.thresholds.detector import CoincidenceThreshold

            return CoincidenceThreshold.from_facts(stored.facts, stored.tensors)
        if stored.facts.get("kind") == "findings":
            from coad.findings.estimator import Findings

            found = Findings.from_facts(stored.facts, stored.tensors)
            _try_out(found)
            found.layout_ = stored.layout
            return found
        from coad.events.kinds import KindModel
        from coad.learned.estimator import CoAD
        from coad.learned.training.model import as_tensors
        from coad.modes.estimator import CoincidenceModes

        tensors = as_tensors(stored.tensors)
        if stored.facts.get("kind") == "modes":
            model = CoincidenceModes.from_facts(stored.facts, tensors, nets)
        else:
            model = CoAD.from_facts(
                stored.facts, tensors, nets, context_class=CoincidenceModes, kind_class=KindModel
            )
        _try_out(model)
    except CoadError:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
        MemoryError,
    ) as error:
        raise FileError(f"{folder} does not hold a model that coad can read ({error!r})") from error
    model.layout_ = stored.layout
    return model


def _try_out(model: CoAD | CoincidenceModes | Findings) -> None:
    """Score two rows, so that values of the wrong type or size are noticed here and not in the middle of a file."""
    shapes = model.shape_s_, model.shape_q_
    if max(math.prod(shape) for shape in shapes) > _LARGEST_ROW:
        raise ValueError(f"rows of shape {shapes}")
    s, q = (np.zeros((2, *shape), dtype=np.float32) for shape in shapes)
    given = (
        model.contexts_ is not None and getattr(model, "context_", None) is None
    )  # not found by the model itself
    context = np.array(list(set(model.contexts_ or ()))[:1] * 2) if given else None
    each = [model.at(beta) for beta in model.fitted_] if hasattr(model, "fitted_") else [model]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = [one.score_rows(s, q, context) for one in each]
    if not scores or not np.isfinite([(one.p_s, one.p_q) for one in scores]).all():
        raise ValueError("its scores are not numbers")


def check_target(folder: Path) -> Path:
    """Check before training that the folder can be written and holds nothing but a model."""
    folder = folder.absolute()
    check_name(folder)
    if folder.is_dir():
        if any(folder.iterdir()) and not (folder / _MODEL).is_file():
            raise FileError(f"{folder} exists and is not a model folder; choose another --out, or delete it")
    elif folder.exists():
        raise FileError(f"{folder} is a file; --out names a folder for the model")
    check_name(folder.with_name(f".{folder.name}.draft.{os.getpid()}"))
    parent = next(one for one in folder.parents if one.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise FileError(f"cannot write {folder}: no permission to write in {parent}")
    return folder


def save_model(model: CoAD, recipe: Recipe, folder: Path) -> None:
    """Save the model and its recipe; a model that is there is replaced when the new one is complete.

    The model keeps the recipe, so ``model.save`` writes it again.
    """
    folder = check_target(folder)
    model.layout_ = json.dumps(recipe.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    model.save(folder)


def load_model(folder: Path) -> tuple[CoAD, Recipe]:
    """Load a model and its recipe."""
    check_name(folder)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise FileError(f"{folder} {what}; name the folder that coad fit wrote")
    model = load(folder)
    text: str | None = getattr(model, "layout_", None)
    if text is None:
        raise FileError(
            f"{folder} has no {_LAYOUT}, which says how files are read: the model was not made by coad fit; "
            "use it from Python with coad.load(folder)"
        )
    path = folder / _LAYOUT
    try:
        values = json.loads(text)
        if values["format"] != "coad layout":
            raise ValueError("unknown format")
        recipe = Recipe.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise FileError(f"{path} does not describe a layout: {error}") from error
        raise FileError(f"{path} is truncated or was changed ({error})") from error
    for names, trained in ((recipe.layout.s, model.names_s_), (recipe.layout.q, model.names_q_)):
        if trained is not None and len(trained) == len(names) and trained != tuple(names):
            raise FileError(f"{path} names other columns than the model was trained with: {quoted(trained)}")
    return model, recipe


def load_detector(folder: Path) -> tuple[CoAD, Recipe]:
    """Like :func:`load_model`, but refuse findings and a catalogue of modes."""
    from coad.findings.estimator import Findings
    from coad.modes.estimator import CoincidenceModes

    model, recipe = load_model(folder)
    if isinstance(model, Findings):
        raise InputError(
            f"{folder} holds findings, which this command does not support; coad decide changes what is flagged"
        )
    if isinstance(model, CoincidenceModes):
        raise InputError(
            f"{folder} is a catalogue of modes, which this command does not support; coad role changes what it flags"
        )
    return model, recipe
