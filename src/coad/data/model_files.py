"""One folder per model: weights in safetensors, everything else in JSON. No pickle.

``model.json`` holds the format version, settings, scaling, thresholds, β, α, input schema, versions of the packages,
and checksums of the weights and of itself, so that a folder that is truncated, edited, or written by a newer coad is
recognised. Nothing in a folder is executed; of a network of the user's own class only the name is stored, and ``load``
takes the network.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from coad import __version__
from coad.data.atomic import recovered, written_folder
from coad.data.model_formats import FORMAT_VERSION, upgraded
from coad.exceptions import FileError

__all__ = ["Stored", "from_json", "read_folder", "to_json", "write_folder"]

_WEIGHTS, _FACTS = "model.safetensors", "model.json"
#: How the command line reads files for the model, if it was made there; see :mod:`coad.workflows.recipe`.
_LAYOUT = "layout.json"


@dataclass(frozen=True)
class Stored:
    """The content of a model folder: facts from JSON, tensors, and the text of its layout if it has one."""

    facts: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    layout: str | None


def write_folder(
    folder: Path, own: dict[str, Any], tensors: dict[str, NDArray[Any]], layout: str | None = None
) -> None:
    """Write facts, tensors and, if there is one, the layout of a model as a folder; atomically."""
    weights = save_tensors(tensors)
    facts = {
        **to_json(own),
        **_header(),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "layout_sha256": None if layout is None else hashlib.sha256(layout.encode()).hexdigest(),
    }
    facts["checksum"] = _checksum(facts)
    folder = folder.absolute()
    if folder.exists() and not (
        folder.is_dir() and (not any(folder.iterdir()) or (folder / _FACTS).exists())
    ):
        raise FileError(f"{folder} exists and is not a saved model; choose another name")
    try:
        with written_folder(folder) as draft:
            (draft / _WEIGHTS).write_bytes(weights)
            (draft / _FACTS).write_bytes(json.dumps(facts, indent=1, allow_nan=False).encode())
            if layout is not None:
                (draft / _LAYOUT).write_bytes(layout.encode())
            for other in (
                folder.iterdir() if folder.is_dir() else ()
            ):  # what people keep beside the model stays
                if other.is_file() and other.name not in (_WEIGHTS, _FACTS, _LAYOUT):
                    shutil.copy2(other, draft / other.name)
    except OSError as error:
        raise FileError(
            f"the model could not be saved to {folder}: {error.strerror or error}; it is still in memory"
        ) from error


def read_folder(folder: Path) -> Stored:
    """Read and check what :func:`write_folder` wrote."""
    facts = _read_facts(recovered(folder))
    try:
        weights = (folder / _WEIGHTS).read_bytes()
    except OSError as error:
        raise FileError(f"{folder / _WEIGHTS} cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(weights).hexdigest() != facts.get("weights_sha256"):
        raise FileError(f"{folder / _WEIGHTS} is truncated or was changed: its checksum differs")
    try:
        tensors = load_tensors(weights)
    except (ValueError, safetensors.SafetensorError) as error:
        raise FileError(f"{folder / _WEIGHTS} does not hold the weights of a model ({error!r})") from error
    layout = _read_layout(folder / _LAYOUT)
    found = None if layout is None else hashlib.sha256(layout.encode()).hexdigest()
    if facts["format_version"] > 1 and found != facts.get("layout_sha256"):  # format 1 has no such checksum
        raise FileError(f"{folder / _LAYOUT} is missing or was changed: its checksum differs")
    try:
        facts = upgraded(facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(
            f"{folder / _FACTS} does not describe a model that coad can read ({error!r})"
        ) from error
    return Stored(facts, tensors, layout)


def _read_layout(path: Path) -> str | None:
    """The text of the layout; :mod:`coad.workflows.recipe` checks its content."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read ({error})") from error


def _header() -> dict[str, Any]:
    return {
        "format": "coad model",
        "format_version": FORMAT_VERSION,
        "versions": {
            "coad": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _read_facts(folder: Path) -> dict[str, Any]:
    path = folder / _FACTS
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FileError(
            f"{folder} is not a saved model: {_FACTS} cannot be read ({error.strerror})"
        ) from error
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is truncated or not JSON ({error})") from error
    if not isinstance(facts, dict) or facts.get("format") != "coad model":
        raise FileError(f"{path} does not describe a model of coad")
    version = facts.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise FileError(
            f"{folder} has format version {version!r}, this coad reads up to {FORMAT_VERSION}; "
            "install a newer coad"
        )
    if facts.pop("checksum", None) != _checksum(facts):
        raise FileError(f"{path} was changed after it was written: its checksum differs")
    return facts


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def to_json(value: Any) -> Any:
    """A value that JSON can hold: infinities become the strings "inf" and "-inf", NaN becomes null."""
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, (float, np.floating)) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return None
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def from_json(value: Any) -> Any:
    """The inverse of :func:`to_json`, except that null stays None."""
    if isinstance(value, list):
        return [from_json(v) for v in value]
    if isinstance(value, dict):
        return {k: from_json(v) for k, v in value.items()}
    return float(value) if value in ("inf", "-inf") else value
