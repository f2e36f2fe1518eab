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
from coad.modes.deviations import Deviations
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
    facts["folds"] = _fold_facts(model.folds_, "fold", arrays)
    if model.deviations_ is not None:
        own = model.deviations_
        arrays |= {f"centres.{side}": centre for side, centre in zip("sq", own.centres, strict=True)}
        facts["deviations"] = {
            "scaling": [one.to_dict() for one in own.front.scalers],
            "transforms": transforms_to_list(own.front.transforms),
            "sizes": own.sizes.tolist(),
            "folds": _fold_facts(own.folds, "deviations", arrays),
        }
    return facts, {
        name: x if torch.is_tensor(x) else torch.from_numpy(np.ascontiguousarray(x))
        for name, x in arrays.items()
    }


def _fold_facts(folds: list[FoldMembers], name: str, arrays: dict[str, Any]) -> list[dict[str, Any]]:
    """The facts of each fold; its weights and maps are added to ``arrays``, under the ``name`` and its number."""
    found = []
    for number, fold in enumerate(folds):
        start = f"{name}{number}."
        arrays |= {f"{start}duo.{k}": v.contiguous() for k, v in fold.duo.state_dict().items()}
        for what, pair in {"factors": fold.front.factors, "modes": fold.to_modes or (None, None)}.items():
            arrays |= {
                f"{start}{what}.{side}": x for side, x in zip("sq", pair, strict=True) if x is not None
            }
        found.append(
            {
                "scaling": [one.to_dict() for one in fold.front.scalers],
                "transforms": transforms_to_list(fold.front.transforms),
                "nets": [one.to_dict() for one in fold.blueprints],
                "members": fold.duo.members,
                "outputs": fold.duo.net_s.outputs,
            }
        )
    return found


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
    model.deviations_ = None
    if "folds" not in facts:
        model.folds_ = _before_folds(facts, tensors, nets)
        return model
    model.folds_ = _restored_folds(facts["folds"], "fold", tensors, nets)
    if "deviations" in facts:
        own = facts["deviations"]
        centres = [tensors[f"centres.{side}"].numpy().copy() for side in "sq"]
        model.deviations_ = Deviations(
            _front(own, {}),
            (centres[0], centres[1]),
            _restored_folds(own["folds"], "deviations", tensors, None),
            np.array(own["sizes"], dtype=np.float64),
        )
    return model


def _restored_folds(
    folds: list[dict[str, Any]], name: str, tensors: dict[str, torch.Tensor], nets: Any
) -> list[FoldMembers]:
    found = []
    for number, facts in enumerate(folds):
        own = with_prefix(tensors, f"{name}{number}.")
        stored = with_prefix(own, "duo.")
        blueprints = blueprints_of(facts["nets"], nets)
        duo = _restored_networks(blueprints, int(facts["members"]), int(facts["outputs"]), stored)
        arrays = {key: x.numpy().copy() for key, x in own.items() if not key.startswith("duo.")}
        to_modes = (arrays["modes.s"], arrays["modes.q"]) if "modes.s" in arrays else None
        found.append(FoldMembers(_front(facts, arrays), duo, blueprints, to_modes))
    return found


def _before_folds(facts: dict[str, Any], tensors: dict[str, torch.Tensor], nets: Any) -> list[FoldMembers]:
    """The members of a catalogue of format 4 or earlier: all with one scale, and an output (or several) for each mode."""
    if "deviations" in facts:
        raise FileError(
            "this catalogue has kinds of deviation as coad found them up to format 4; fit it again with coad modes"
        )
    if not facts["members"]:
        return []
    stored = with_prefix(tensors, "duo.")
    mode = stored.pop("mode", torch.arange(len(facts["sizes"]))).numpy()
    factors = {
        f"factors.{side}": tensors[f"front.{side}"].numpy() for side in "sq" if f"front.{side}" in tensors
    }
    blueprints = blueprints_of(facts["nets"], nets)
    duo = _restored_networks(blueprints, int(facts["members"]), len(mode), stored, sharp=False)
    for net in (duo.net_s, duo.net_q):  # outputs without a mode took no part
        net.bias[-1].data[..., mode < 0] = -math.inf  # type: ignore[index]
    one = np.eye(len(facts["sizes"]))[np.maximum(mode, 0)] * (mode >= 0)[:, None]
    to_modes = np.broadcast_to(one, (duo.members, *one.shape))
    return [FoldMembers(_front(facts, factors), duo, blueprints, (to_modes, to_modes))]


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
