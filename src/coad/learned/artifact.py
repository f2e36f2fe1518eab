"""One folder per model: weights in safetensors, everything else in JSON. No pickle, ever.

``model.json`` carries the format's version, the settings, scaling, thresholds, β, α, the input
schema, versions, and checksums of the weights and of itself, so that a folder that was cut
short, edited, or written by a newer coad is told apart from a good one. Nothing in a folder is
ever executed; a network of the user's own class is only named, and must be handed to ``load``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from coad import __version__
from coad.exceptions import CoadError, FileError, InputError
from coad.learned.nets import NetSpec
from coad.learned.scaling import Scaler
from coad.learned.training.model import Blueprint, Fitted, Scorer, SeedReport, as_source

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["FORMAT_VERSION", "blueprints_of", "load", "save", "write_folder"]

FORMAT_VERSION = 1
_WEIGHTS, _FACTS = "model.safetensors", "model.json"
#: How the command line reads files for the model, if it was made there; see :mod:`coad.workflows.recipe`.
_LAYOUT = "layout.json"
#: Settings that are not data, or that say nothing about a finished model.
_NOT_SAVED = ("net", "augment", "checkpoint", "random_state", "verbose", "context")


def save(model: CoAD, folder: Path) -> None:
    """Write ``folder``, replacing a model that is already there; all of it or nothing."""
    model._check_fitted()
    tensors: dict[str, torch.Tensor] = {}
    for i, own in enumerate(model.fitted_.values()):
        for side, scorer in (("s", own.scorer_s), ("q", own.scorer_q)):
            tensors |= {f"{i}.{side}.{k}": v.contiguous() for k, v in scorer.state_dict().items()}
    facts = _facts(model)
    if model.context_ is not None:
        from coad.modes.saving import modes_facts

        facts["discovered"], inner = modes_facts(model.context_)
        tensors |= {f"discovered.{name}": value for name, value in inner.items()}
    write_folder(folder, facts, tensors, model.layout_)


def write_folder(
    folder: Path, own: dict[str, Any], tensors: dict[str, torch.Tensor], layout: str | None = None
) -> None:
    """Facts and tensors of a model of any kind as a folder, and its layout if there is one; all of it or nothing."""
    weights = save_tensors(tensors)
    facts = {**_to_json(own), **_header(), "weights_sha256": hashlib.sha256(weights).hexdigest()}
    facts["checksum"] = _checksum(facts)
    folder = folder.absolute()
    if folder.exists() and not (
        folder.is_dir() and (not any(folder.iterdir()) or (folder / _FACTS).exists())
    ):
        raise FileError(f"{folder} exists and is not a saved model; choose another name")
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        _write(temporary / _WEIGHTS, weights)
        _write(temporary / _FACTS, json.dumps(facts, indent=1, allow_nan=False).encode())
        if layout is not None:
            _write(temporary / _LAYOUT, layout.encode())
        _swap(temporary, folder)
    except OSError as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise FileError(
            f"the model could not be saved to {folder}: {error.strerror or error}; it is still in memory"
        ) from error


def load(folder: Path, nets: Any = None) -> Any:
    """Read a folder that :func:`save` wrote. ``nets`` is the pair of modules, if they were yours."""
    facts = _read_facts(folder)
    try:
        weights = (folder / _WEIGHTS).read_bytes()
    except OSError as error:
        raise FileError(f"{folder / _WEIGHTS} cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(weights).hexdigest() != facts.get("weights_sha256"):
        raise FileError(f"{folder / _WEIGHTS} is truncated or was changed: its checksum differs")
    try:
        if facts.get("kind") == "modes":
            from coad.modes.saving import rebuild_modes

            model: Any = rebuild_modes(facts, load_tensors(weights), nets)
        else:
            model = _rebuild(facts, load_tensors(weights), nets)
    except CoadError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, safetensors.SafetensorError) as error:
        raise FileError(f"{folder} does not hold a model that coad can read ({error!r})") from error
    model.layout_ = _read_layout(folder / _LAYOUT)
    return model


def _read_layout(path: Path) -> str | None:
    """The layout as it stands; whether it makes sense is asked by what reads files."""
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
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _facts(model: CoAD) -> dict[str, Any]:
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED}
    return {
        "metric": "F_hat = (1 + beta^2) (J - D) / (J + alpha beta^2)",
        "settings": _to_json(settings),
        "alpha": model.alpha_,
        "alpha_how": model.alpha_how_,
        "seed": model.random_state_,
        "schema": {
            "s": {"row_shape": list(model.shape_s_), "dtype": "float32"},
            "q": {"row_shape": list(model.shape_q_), "dtype": "float32"},
            "contexts": model.contexts_,
            "names": [model.names_s_, model.names_q_],
        },
        "scaling": [None if x is None else x.to_dict() for x in (model.scaler_s_, model.scaler_q_)],
        "nets": [blueprint.to_dict() for blueprint in model.blueprints_],
        "fitted": [
            {
                "beta": _to_json(own.beta),
                "seed": own.seed,
                "p_value": own.p_value,
                "status": own.status,
                "threshold": own.threshold,
                "thresholds": _to_json(own.thresholds),
                "columns": [own.scorer_s.column, own.scorer_q.column, own.scorer_s.net.outputs],
                "heard": sorted(own.kept),
                "seeds": [asdict(report) for report in own.seeds],
            }
            for own in model.fitted_.values()
        ],
        "dismissed": [_to_json(one.to_dict()) for one in model.dismissed_],
        "plan": model.plan_,
        "history": _to_json({str(seed): entries for seed, entries in model.history_.items()}),
    }


def _rebuild(facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any) -> CoAD:
    from coad.learned.estimator import CoAD

    settings = {k: _from_json(v) for k, v in facts["settings"].items()}
    known = CoAD().get_params(deep=False)
    model = CoAD(**{k: v for k, v in settings.items() if k in known})
    model.blueprints_ = blueprints_of(facts["nets"], nets)
    model.alpha_, model.alpha_how_ = float(facts["alpha"]), str(facts["alpha_how"])
    model.random_state_, model.plan_ = int(facts["seed"]), facts["plan"]
    model.history_ = {int(seed): entries for seed, entries in _from_json(facts.get("history", {})).items()}
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    names = facts["schema"].get("names", (None, None))  # older models do not know them
    model.names_s_, model.names_q_ = (None if one is None else tuple(one) for one in names)
    model.scaler_s_, model.scaler_q_ = (None if x is None else Scaler.from_dict(x) for x in facts["scaling"])
    model.context_ = None
    if facts.get("discovered") is not None:
        from coad.modes.saving import rebuild_modes

        start = "discovered."
        inner = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
        model.context = model.context_ = rebuild_modes(facts["discovered"], inner, None)
    if facts.get("dismissed"):
        from coad.events.dismissal import Dismissed

        model.dismissed_ = tuple(Dismissed.from_dict(one) for one in facts["dismissed"])
    model.fitted_ = {}
    for i, own in enumerate(facts["fitted"]):
        heard = [int(seed) for seed in own.get("heard", [own["seed"]])]
        scorers = []
        for j, (side, blueprint) in enumerate(zip("sq", model.blueprints_, strict=True)):
            scorer = Scorer(blueprint.build([0] * len(heard), own["columns"][2]), own["columns"][j])
            start = f"{i}.{side}."
            scorer.load_state_dict(
                {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
            )
            scorers.append(scorer.eval())
        beta = float(_from_json(own["beta"]))
        thresholds = _from_json(own["thresholds"])
        model.fitted_[beta] = Fitted(
            beta,
            *scorers,
            seeds=[SeedReport(**report) for report in own["seeds"]],
            seed=int(own["seed"]),
            p_value=float(own["p_value"]),
            status=str(own["status"]),
            threshold=float(own["threshold"]),
            thresholds=None if thresholds is None else (float(thresholds[0]), float(thresholds[1])),
            heard=heard,
        )
    return model


def blueprints_of(described: list[dict[str, Any]], nets: Any) -> tuple[Blueprint, Blueprint]:
    """The networks that a model's facts describe."""
    found = []
    for i, one in enumerate(described):
        shape = tuple(int(x) for x in one["input_shape"])
        if one["kind"] == "spec":
            found.append(Blueprint(NetSpec.from_dict(one), shape))
        elif nets is None:
            raise InputError(
                f"this model uses a network of your own ({one['name']}); "
                "pass it: load(folder, nets=(net_s, net_q))"
            )
        else:
            found.append(Blueprint(as_source(nets[i]), shape))
    return found[0], found[1]


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


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _swap(new: Path, folder: Path) -> None:
    """Put ``new`` in the place of ``folder``; the old one is removed only afterwards."""
    if not folder.exists():
        os.replace(new, folder)
        return
    old = folder.with_name(f".{folder.name}.old.{os.getpid()}")
    os.replace(folder, old)
    try:
        os.replace(new, folder)
    except OSError:
        os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _to_json(value: Any) -> Any:
    """JSON has no infinity and no NaN: ``inf`` becomes a string, what is undefined null."""
    if isinstance(value, dict):
        return {k: _to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(v) for v in value]
    if isinstance(value, (float, np.floating)) and math.isinf(value):
        return "inf"
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return None
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(v) for v in value]
    if isinstance(value, dict):
        return {k: _from_json(v) for k, v in value.items()}
    return math.inf if value == "inf" else value
