"""A catalogue as a folder: weights and fronts in safetensors, everything else in JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad.modes.catalogue import Mode, ModeTable
from coad.modes.inputs import Front
from coad.modes.training import build
from coad.scaling import Scaler

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["KIND", "modes_facts", "rebuild_modes", "save_modes"]

KIND = "modes"
_NOT_SAVED = ("net", "random_state", "verbose")


def save_modes(model: CoincidenceModes, folder: Path) -> None:
    """Write ``folder``, replacing a model that is already there; all of it or nothing."""
    from coad.artifact import write_folder

    write_folder(folder, *modes_facts(model))


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
        "members": 0 if model.duo_ is None else model.duo_.members,
        "sizes": model.sizes_.tolist(),
        "schema": {
            "s": {"row_shape": list(model.shape_s_), "dtype": "float32"},
            "q": {"row_shape": list(model.shape_q_), "dtype": "float32"},
            "contexts": model.contexts_,
        },
        "scaling": [front.scaler.to_dict() for front in model.fronts_],
        "nets": [blueprint.to_dict() for blueprint in model.blueprints_],
        "modes": model.modes_.to_list(),
    }
    return facts, tensors


def rebuild_modes(facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any) -> CoincidenceModes:
    """The inverse of :func:`modes_facts`."""
    from coad.artifact import blueprints_of
    from coad.modes.estimator import CoincidenceModes

    known = CoincidenceModes().get_params(deep=False)
    model = CoincidenceModes(**{k: v for k, v in facts["settings"].items() if k in known})
    model.blueprints_ = blueprints_of(facts["nets"], nets)
    model.random_state_, model.p_value_ = int(facts["seed"]), float(facts["p_value"])
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    model.fronts_ = tuple(
        Front(
            Scaler.from_dict(scale),
            tensors[f"front.{side}"].numpy().copy() if f"front.{side}" in tensors else None,
        )
        for side, scale in zip("sq", facts["scaling"], strict=True)
    )
    model.sizes_ = np.array(facts["sizes"], dtype=np.float64)
    model.modes_ = ModeTable(
        Mode(**{**one, "exemplars": tuple(int(i) for i in one["exemplars"])}) for one in facts["modes"]
    )
    model.labels_ = np.zeros(0, dtype=np.int64)
    model.duo_ = None
    if facts["members"]:
        duo = build(model.blueprints_, list(range(int(facts["members"]))), len(model.sizes_))
        duo.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("duo.")})
        model.duo_ = duo.eval()
    return model
