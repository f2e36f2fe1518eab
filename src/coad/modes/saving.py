"""A catalogue as a folder: weights and maps in safetensors, everything else in JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad.data.model_files import write_folder
from coad.exceptions import FileError
from coad.learned.scaling import Scaler
from coad.learned.training.model import as_arrays, blueprints_of, with_prefix
from coad.modes.catalogue import Mode, ModeTable
from coad.modes.coordinates import Front
from coad.modes.ensemble import FoldMembers
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
    tensors: dict[str, torch.Tensor] = {}
    folds = []
    for number, fold in enumerate(model.folds_):
        start = f"fold{number}."
        tensors |= {f"{start}duo.{k}": v.contiguous() for k, v in fold.duo.state_dict().items()}
        both = {"factors": fold.front.factors, "modes": fold.to_modes or (None, None)}
        for name, pair in both.items():
            for side, array in zip("sq", pair, strict=True):
                if array is not None:
                    tensors[f"{start}{name}.{side}"] = torch.from_numpy(np.ascontiguousarray(array))
        folds.append(
            {
                "scaling": [one.to_dict() for one in fold.front.scalers],
                "transforms": transforms_to_list(fold.front.transforms),
                "nets": [one.to_dict() for one in fold.blueprints],
                "members": fold.duo.members,
                "outputs": fold.duo.net_s.outputs,
            }
        )
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
        "folds": folds,
        "modes": model.modes_.to_list(),
    }
    return facts, tensors


def restore_modes(
    model: CoincidenceModes, facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any = None
) -> CoincidenceModes:
    """Fill ``model``, which is not fitted, with the result of :func:`modes_facts`."""
    if "folds" not in facts:
        raise FileError(
            "this catalogue of modes was saved by an earlier coad, which this one cannot read; fit it again"
        )
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
    model.held_out_confidences_ = np.zeros((0, len(model.modes_))), np.zeros((0, len(model.modes_)))
    model.folds_ = [
        _restored(fold, with_prefix(tensors, f"fold{number}."), nets)
        for number, fold in enumerate(facts["folds"])
    ]
    return model


def _restored(facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any) -> FoldMembers:
    """The members of one fold."""
    arrays = {name: value.numpy().copy() for name, value in tensors.items() if not name.startswith("duo.")}
    scalers = [Scaler.from_dict(one) for one in facts["scaling"]]
    front = Front(
        transforms_from_list(facts["transforms"]),
        (scalers[0], scalers[1]),
        (arrays.get("factors.s"), arrays.get("factors.q")),
    )
    blueprints = blueprints_of(facts["nets"], nets)
    stored = with_prefix(tensors, "duo.")
    members, outputs = int(facts["members"]), int(facts["outputs"])
    for blueprint in blueprints:
        blueprint.refuse_more_than(stored, members, outputs)
    duo = build(blueprints, list(range(members)), outputs)
    duo.load_state_dict(stored)
    to_modes = (arrays["modes.s"], arrays["modes.q"]) if "modes.s" in arrays else None
    return FoldMembers(front, duo.eval(), blueprints, to_modes)
