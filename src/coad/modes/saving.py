"""A catalogue as a folder: weights and maps in safetensors, everything else in JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad.data.model_files import write_folder
from coad.exceptions import FileError
from coad.learned.scaling import Scaler
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint, as_arrays, blueprints_of, with_prefix
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.coordinates import Front
from coad.modes.deviations import Centres, Deviations
from coad.modes.layer import FoldNets, Layer
from coad.modes.training import build
from coad.modes.transforms import transforms_from_list, transforms_to_list

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["KIND", "modes_facts", "restore_modes", "save_modes"]

KIND = "modes"
_NOT_SAVED = ("net", "random_state", "verbose")


def save_modes(model: CoincidenceModes, folder: Path) -> None:
    """Write ``folder``, replacing a model that is already there; all of it or nothing."""
    facts, tensors = modes_facts(model)
    write_folder(folder, facts, as_arrays(tensors), model.layout_)


def modes_facts(model: CoincidenceModes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What goes into JSON, and what into safetensors."""
    facts = {
        "kind": KIND,
        "settings": {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED},
        "seed": model.random_state_,
        "p_value": model.p_value_,
        "reason": model.reason_,
        "sizes": model.sizes_.tolist(),
        "schema": {
            "s": {"row_shape": list(model.shape_s_), "dtype": "float32"},
            "q": {"row_shape": list(model.shape_q_), "dtype": "float32"},
            "contexts": model.contexts_,
            "names": [model.names_s_, model.names_q_],
        },
        "modes": model.modes_.to_list(),
    }
    arrays: dict[str, Any] = {}
    facts["front"] = _front_facts(model.front_)
    if model.layer_ is not None:
        facts["layer"] = _layer_facts(model.layer_, "layer", arrays)
    if model.deviations_ is not None:
        own = model.deviations_
        arrays |= {f"centres.{side}": centre for side, centre in zip("sq", own.centres.both, strict=True)}
        facts["deviations"] = {
            "front": _front_facts(own.centres.front),
            "sizes": own.centres.sizes.tolist(),
            "kinds": own.kinds.tolist(),
            "layer": _layer_facts(own.layer, "deviations", arrays),
        }
    return facts, {
        name: x if torch.is_tensor(x) else torch.from_numpy(np.ascontiguousarray(x))
        for name, x in arrays.items()
    }


def _front_facts(front: Front) -> dict[str, Any]:
    return {
        "scaling": [one.to_dict() for one in front.scalers],
        "transforms": transforms_to_list(front.transforms),
    }


def _layer_facts(layer: Layer, name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The facts of a layer; its weights and maps are added to ``arrays``, under the ``name`` and the number of the fold."""
    folds = []
    for number, one in enumerate(layer.nets):
        start = f"{name}{number}."
        arrays |= {f"{start}duo.{k}": v.contiguous() for k, v in one.duo.state_dict().items()}
        arrays |= {
            f"{start}factors.{side}": x
            for side, x in zip("sq", one.front.factors, strict=True)
            if x is not None
        }
        folds.append({**_front_facts(one.front), "nets": [own.to_dict() for own in one.blueprints]})
    return {
        "folds": folds,
        "mode": layer.mode.tolist(),
        "sizes": layer.sizes.tolist(),
        "p_values": layer.p_values.tolist(),
        "stability": layer.stability.tolist(),
    }


def restore_modes(
    model: CoincidenceModes, facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any = None
) -> CoincidenceModes:
    """Fill ``model``, which is not fitted, with the result of :func:`modes_facts`."""
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in facts["settings"].items() if k in known})
    model.random_state_, model.p_value_ = int(facts["seed"]), float(facts["p_value"])
    model.reason_ = str(facts["reason"])
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    names = facts["schema"]["names"]
    model.names_s_, model.names_q_ = (None if one is None else tuple(one) for one in names)
    model.sizes_ = np.array(facts["sizes"], dtype=np.float64)
    model.modes_ = ModeTable(
        Mode(**{**one, "exemplars": tuple(int(i) for i in one["exemplars"])}) for one in facts["modes"]
    )
    model.labels_ = np.zeros(0, dtype=np.int64)
    model.held_out_confidences_ = np.zeros((0, len(model.sizes_))), np.zeros((0, len(model.sizes_)))
    model.layer_ = model.deviations_ = None
    if "front" not in facts:
        model.front_, model.layer_ = _before_layers(facts, tensors, nets)
        return model
    model.front_ = _front(facts["front"], {})
    if "layer" in facts:
        model.layer_ = _restored_layer(facts["layer"], "layer", tensors, nets)
    if "deviations" in facts:
        own = facts["deviations"]
        centres = [tensors[f"centres.{side}"].numpy().copy() for side in "sq"]
        model.deviations_ = Deviations(
            Centres(_front(own["front"], {}), (centres[0], centres[1]), np.array(own["sizes"])),
            _restored_layer(own["layer"], "deviations", tensors, None),
            np.array(own["kinds"], dtype=np.int64),
        )
    return model


def _restored_layer(facts: dict[str, Any], name: str, tensors: dict[str, torch.Tensor], nets: Any) -> Layer:
    mode, found = np.array(facts["mode"], dtype=np.int64), []
    for number, own in enumerate(facts["folds"]):
        stored = with_prefix(tensors, f"{name}{number}.")
        arrays = {key: x.numpy().copy() for key, x in stored.items() if not key.startswith("duo.")}
        blueprints = blueprints_of(own["nets"], nets)
        duo = _restored_networks(blueprints, 1, len(mode), with_prefix(stored, "duo."))
        found.append(FoldNets(_front(own, arrays), duo, blueprints))
    return Layer(found, mode, *(np.array(facts[key]) for key in ("sizes", "p_values", "stability")))


def _before_layers(
    facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any
) -> tuple[Front, Layer | None]:
    """The networks of a catalogue of format 5 or earlier: several members with one scale, an output or several a mode."""
    if "deviations" in facts:
        raise FileError(
            "this catalogue has kinds of deviation as coad found them up to format 5; fit it again with coad modes"
        )
    factors = {
        f"factors.{side}": tensors[f"front.{side}"].numpy() for side in "sq" if f"front.{side}" in tensors
    }
    front = _front(facts, factors)
    if not facts["members"]:
        return front, None
    stored, sizes = with_prefix(tensors, "duo."), np.array(facts["sizes"])
    mode = stored.pop("mode", torch.arange(len(sizes))).numpy()
    blueprints = blueprints_of(facts["nets"], nets)
    duo = _restored_networks(blueprints, int(facts["members"]), len(mode), stored, sharp=False)
    for net in (duo.net_s, duo.net_q):  # outputs without a mode took no part
        net.bias[-1].data[..., mode < 0] = -math.inf  # type: ignore[index]
    nothing = np.zeros(len(sizes))
    return front, Layer([FoldNets(front, duo, blueprints)], np.maximum(mode, 0), sizes, nothing, nothing)


def _front(facts: dict[str, Any], arrays: dict[str, Any]) -> Front:
    scalers = [Scaler.from_dict(one) for one in facts["scaling"]]
    factors = arrays.get("factors.s"), arrays.get("factors.q")
    return Front(transforms_from_list(facts["transforms"]), (scalers[0], scalers[1]), factors)


def _restored_networks(
    blueprints: tuple[Blueprint, Blueprint],
    members: int,
    outputs: int,
    stored: dict[str, torch.Tensor],
    *,
    sharp: bool = True,
) -> Duo:
    for blueprint in blueprints:
        blueprint.refuse_more_than(stored, members, outputs)
    duo = build(blueprints, list(range(members)), outputs, sharp=sharp)
    duo.load_state_dict(stored)
    return duo.eval()
