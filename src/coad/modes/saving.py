"""A catalogue as a folder: weights and coordinate maps in safetensors, everything else in JSON.

The keys are those of the file format, and stay as they are so that old models load.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad.data.model_files import write_folder
from coad.learned.scaling import Scaler
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint, as_arrays, blueprints_of, with_prefix
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.coordinates import Coordinates
from coad.modes.residuals import ResidualModel
from coad.modes.training import build
from coad.modes.transforms import transforms_from_list, transforms_to_list

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["KIND", "modes_facts", "restore_modes", "save_modes"]

KIND = "modes"
_NOT_SAVED = ("net", "random_state", "verbose")
_RESIDUALS = "deviations."


def save_modes(model: CoincidenceModes, folder: Path) -> None:
    """Write ``folder``, replacing a model that is already there; all of it or nothing."""
    facts, tensors = modes_facts(model)
    write_folder(folder, facts, as_arrays(tensors), model.layout_)


def modes_facts(model: CoincidenceModes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What goes into JSON, and what into safetensors."""
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED}
    tensors: dict[str, torch.Tensor] = {}
    if model.duo_ is not None:
        tensors |= {f"duo.{k}": v.contiguous() for k, v in model.duo_.state_dict().items()}
    for side, one in zip("sq", model.coordinates_, strict=True):
        if one.factors is not None:
            tensors[f"front.{side}"] = torch.from_numpy(np.ascontiguousarray(one.factors))
    facts = {
        "kind": KIND,
        "settings": settings,
        "seed": model.random_state_,
        "p_value": model.p_value_,
        "reason": model.reason_,
        "members": 0 if model.duo_ is None else model.duo_.members,
        "sizes": model.sizes_.tolist(),
        "schema": {
            "s": {"row_shape": list(model.shape_s_), "dtype": "float32"},
            "q": {"row_shape": list(model.shape_q_), "dtype": "float32"},
            "contexts": model.contexts_,
            "names": [model.names_s_, model.names_q_],
        },
        "scaling": [one.scaler.to_dict() for one in model.coordinates_],
        "transforms": transforms_to_list(model.transforms_),
        "nets": [blueprint.to_dict() for blueprint in model.blueprints_],
        "modes": model.modes_.to_list(),
    }
    if model.residuals_ is not None:
        facts["deviations"], more = _residual_facts(model.residuals_)
        tensors |= more
    return facts, tensors


def restore_modes(
    model: CoincidenceModes, facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any = None
) -> CoincidenceModes:
    """Fill ``model``, which is not fitted, with the result of :func:`modes_facts`."""
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in facts["settings"].items() if k in known})
    model.blueprints_ = blueprints_of(facts["nets"], nets)
    model.random_state_, model.p_value_ = int(facts["seed"]), float(facts["p_value"])
    model.reason_ = str(facts["reason"])
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    names = facts["schema"]["names"]
    model.names_s_, model.names_q_ = (None if one is None else tuple(one) for one in names)
    model.coordinates_ = tuple(
        Coordinates(
            Scaler.from_dict(scale),
            tensors[f"front.{side}"].numpy().copy() if f"front.{side}" in tensors else None,
        )
        for side, scale in zip("sq", facts["scaling"], strict=True)
    )
    model.transforms_ = transforms_from_list(facts["transforms"])
    model.sizes_ = np.array(facts["sizes"], dtype=np.float64)
    model.modes_ = ModeTable(
        Mode(**{**one, "exemplars": tuple(int(i) for i in one["exemplars"])}) for one in facts["modes"]
    )
    model.labels_ = np.zeros(0, dtype=np.int64)
    model.residuals_ = _restored_residuals(facts["deviations"], tensors) if "deviations" in facts else None
    kinds = 0 if model.residuals_ is None else len(model.residuals_.kinds)
    model.duo_ = None
    if facts["members"]:
        outputs = len(model.sizes_) - kinds
        model.duo_ = _restored_networks(model.blueprints_, int(facts["members"]), outputs, tensors, "duo.")
    return model


def _residual_facts(own: ResidualModel) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    facts = {
        "modes": own.modes.tolist(),
        "sizes": own.sizes.tolist(),
        "regimes": own.regimes.tolist(),
        "kinds": list(own.kinds),
        "members": own.duo.members,
        "outputs": own.duo.net_s.outputs,
        "nets": [blueprint.to_dict() for blueprint in own.blueprints],
    }
    tensors = {f"{_RESIDUALS}duo.{k}": v.contiguous() for k, v in own.duo.state_dict().items()}
    for side, centre, map_ in zip("sq", own.centres, own.maps, strict=True):
        tensors[f"{_RESIDUALS}centres.{side}"] = torch.from_numpy(np.ascontiguousarray(centre))
        tensors[f"{_RESIDUALS}map.{side}"] = torch.from_numpy(np.ascontiguousarray(map_))
    return facts, tensors


def _restored_residuals(facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> ResidualModel:
    blueprints = blueprints_of(facts["nets"], None)
    centres, maps = (
        [tensors[f"{_RESIDUALS}{name}.{side}"].numpy().copy() for side in "sq"] for name in ("centres", "map")
    )
    return ResidualModel(
        np.array(facts["modes"], dtype=np.int64),
        np.array(facts["sizes"], dtype=np.float64),
        np.array(facts["regimes"], dtype=bool),
        (centres[0], centres[1]),
        (maps[0], maps[1]),
        _restored_networks(
            blueprints, int(facts["members"]), int(facts["outputs"]), tensors, f"{_RESIDUALS}duo."
        ),
        blueprints,
        tuple(int(kind) for kind in facts["kinds"]),
    )


def _restored_networks(
    blueprints: tuple[Blueprint, Blueprint],
    members: int,
    outputs: int,
    tensors: dict[str, torch.Tensor],
    start: str,
) -> Duo:
    stored = with_prefix(tensors, start)
    mode = stored.get("mode")
    outputs = outputs if mode is None else len(mode)
    for blueprint in blueprints:
        blueprint.refuse_more_than(stored, members, outputs)
    duo = build(blueprints, list(range(members)), outputs, mode=None if mode is None else mode.numpy())
    duo.load_state_dict(stored)
    return duo.eval()
