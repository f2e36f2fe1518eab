"""A catalogue as a folder: weights and fronts in safetensors, everything else in JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad.learned.folder import blueprints_of, write_folder
from coad.learned.scaling import Scaler
from coad.learned.training.duo import Duo
from coad.learned.training.model import Blueprint
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.deviations import Deviations
from coad.modes.inputs import Front
from coad.modes.training import build
from coad.modes.transforms import transforms_from_list, transforms_to_list

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["KIND", "modes_facts", "restore_modes", "save_modes"]

KIND = "modes"
_NOT_SAVED = ("net", "random_state", "verbose")
_DEEPER = "deviations."


def save_modes(model: CoincidenceModes, folder: Path) -> None:
    """Write ``folder``, replacing a model that is already there; all of it or nothing."""
    write_folder(folder, *modes_facts(model), model.layout_)


def modes_facts(model: CoincidenceModes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What goes into JSON, and what into safetensors."""
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED}
    tensors: dict[str, torch.Tensor] = {}
    if model.duo_ is not None:
        tensors |= {f"duo.{k}": v.contiguous() for k, v in model.duo_.state_dict().items()}
    for side, front in zip("sq", model.fronts_, strict=True):
        if front.factors is not None:
            tensors[f"front.{side}"] = torch.from_numpy(np.ascontiguousarray(front.factors))
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
        "scaling": [front.scaler.to_dict() for front in model.fronts_],
        "transforms": transforms_to_list(model.transforms_),
        "nets": [blueprint.to_dict() for blueprint in model.blueprints_],
        "modes": model.modes_.to_list(),
    }
    if model.deviations_ is not None:
        facts["deviations"], more = _deviations_facts(model.deviations_)
        tensors |= more
    return facts, tensors


def restore_modes(
    model: CoincidenceModes, facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any = None
) -> CoincidenceModes:
    """Fill ``model``, which is not fitted, with what :func:`modes_facts` gave."""
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in facts["settings"].items() if k in known})
    model.blueprints_ = blueprints_of(facts["nets"], nets)
    model.random_state_, model.p_value_ = int(facts["seed"]), float(facts["p_value"])
    model.reason_ = str(facts["reason"])
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    names = facts["schema"]["names"]
    model.names_s_, model.names_q_ = (None if one is None else tuple(one) for one in names)
    model.fronts_ = tuple(
        Front(
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
    model.deviations_ = _rebuilt_deviations(facts["deviations"], tensors) if "deviations" in facts else None
    kinds = 0 if model.deviations_ is None else len(model.deviations_.kinds)
    model.duo_ = None
    if facts["members"]:
        outputs = len(model.sizes_) - kinds
        model.duo_ = _rebuilt_duo(model.blueprints_, int(facts["members"]), outputs, tensors, "duo.")
    return model


def _deviations_facts(own: Deviations) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    facts = {
        "modes": own.modes.tolist(),
        "sizes": own.sizes.tolist(),
        "regimes": own.regimes.tolist(),
        "kinds": list(own.kinds),
        "members": own.duo.members,
        "outputs": own.duo.net_s.outputs,
        "nets": [blueprint.to_dict() for blueprint in own.blueprints],
    }
    tensors = {f"{_DEEPER}duo.{k}": v.contiguous() for k, v in own.duo.state_dict().items()}
    for side, centre, map_ in zip("sq", own.centres, own.maps, strict=True):
        tensors[f"{_DEEPER}centres.{side}"] = torch.from_numpy(np.ascontiguousarray(centre))
        tensors[f"{_DEEPER}map.{side}"] = torch.from_numpy(np.ascontiguousarray(map_))
    return facts, tensors


def _rebuilt_deviations(facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Deviations:
    blueprints = blueprints_of(facts["nets"], None)
    centres, maps = (
        [tensors[f"{_DEEPER}{name}.{side}"].numpy().copy() for side in "sq"] for name in ("centres", "map")
    )
    return Deviations(
        np.array(facts["modes"], dtype=np.int64),
        np.array(facts["sizes"], dtype=np.float64),
        np.array(facts["regimes"], dtype=bool),
        (centres[0], centres[1]),
        (maps[0], maps[1]),
        _rebuilt_duo(blueprints, int(facts["members"]), int(facts["outputs"]), tensors, f"{_DEEPER}duo."),
        blueprints,
        tuple(int(kind) for kind in facts["kinds"]),
    )


def _rebuilt_duo(
    blueprints: tuple[Blueprint, Blueprint],
    members: int,
    outputs: int,
    tensors: dict[str, torch.Tensor],
    start: str,
) -> Duo:
    mode = tensors.get(f"{start}mode")
    if mode is None:
        duo = build(blueprints, list(range(members)), outputs)
    else:
        duo = build(blueprints, list(range(members)), len(mode), mode=mode.numpy())
    duo.load_state_dict({k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)})
    return duo.eval()
