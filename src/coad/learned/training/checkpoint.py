"""Checkpoints: tensors and JSON in one file that is written atomically.

The JSON is in the header of the safetensors file, so after a crash weights and history are of the same epoch. No
pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from coad.data.atomic import write_durably
from coad.exceptions import FileError

__all__ = ["difference", "plain", "read_state", "write_state"]


def write_state(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and JSON-able ``facts`` as one file, atomically."""
    solid = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_durably(path, save(solid, metadata={"facts": json.dumps(facts)}))


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_state` wrote; :class:`~coad.exceptions.FileError` if it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path} is damaged or not a file of coad ({error}); delete it to start again"
        ) from error
    return tensors, facts


def plain(value: Any) -> Any:
    """The value with tuples as lists, as JSON returns them, so that identities can be compared."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def difference(old: Any, new: dict[str, Any]) -> str:
    """A phrase that names the settings in which two identities differ."""
    if not isinstance(old, dict):
        return "its settings are unknown"
    flat_old, flat_new = ({**x, **x.get("settings", {})} for x in (old, new))
    names = [k for k in flat_new if k != "settings" and flat_old.get(k) != flat_new[k]]
    return "different " + ", ".join(sorted(names)) if names else "different settings"
