"""Findings as a folder: arrays in safetensors, everything else in JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad.core.oddness import Oddness
from coad.data.model_files import from_json, write_folder
from coad.exceptions import FileError
from coad.findings.features import InputFeatures
from coad.findings.finding import Finding
from coad.findings.learning import LearnedRule
from coad.findings.lenses import LENSES

if TYPE_CHECKING:
    from coad.findings.estimator import Findings

__all__ = ["KIND", "findings_facts", "restore_findings", "save_findings"]

KIND = "findings"
_NOT_SAVED = ("random_state", "verbose")


def save_findings(model: Findings, folder: Path) -> None:
    """Write ``folder``, replacing a model that is already there; all of it or nothing."""
    facts, arrays = findings_facts(model)
    write_folder(folder, facts, arrays, model.layout_)


def findings_facts(model: Findings) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What goes into JSON, and what into safetensors."""
    arrays: dict[str, NDArray[Any]] = {}

    def kept(prefix: str, own: dict[str, NDArray[Any]]) -> None:
        arrays.update({f"{prefix}.{name}": np.ascontiguousarray(values) for name, values in own.items()})

    features, lenses = [], {}
    for side, one, odd in zip("sq", model.features_, model.oddness_, strict=True):
        facts, own = one.to_facts()
        features.append({**facts, "neighbours": odd.neighbours})
        kept(f"features.{side}", own)
        kept(f"oddness.{side}", {"reference": odd.reference, "ladder": odd.ladder})
    for name, lens in model.lenses_.items():
        lenses[name], own = lens.to_facts()
        kept(f"lens.{name}", own)
    for finding in model.findings_:
        arrays[f"rows.{finding.number}"] = finding.rows
    if model.values_ is not None:
        kept("learning", {"values": model.values_})
        if model.learned_ is not None:
            kept("learning", {"weights": model.learned_.weights})
    arrays["oddest"], arrays["oddest_percentiles"] = model.oddest_, model.oddest_percentiles_
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED}
    return {
        "kind": KIND,
        "settings": {**settings, "lenses": list(model.lenses), "scorers": list(model.scorers)},
        "seed": model.random_state_,
        "n_rows": model.n_rows_,
        "p_value": model.p_value_,
        "correlated_p_value": model.correlated_p_value_,
        "learned_columns_of_s": model.values_of_s_,
        "schema": {
            "s": {"row_shape": list(model.shape_s_), "dtype": "float32"},
            "q": {"row_shape": list(model.shape_q_), "dtype": "float32"},
            "contexts": model.contexts_,
            "names": [model.names_s_, model.names_q_],
        },
        "features": features,
        "lenses": lenses,
        "findings": [one.to_dict() for one in model.findings_],
    }, arrays


def restore_findings(model: Findings, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Findings:
    """Fill ``model``, which is not fitted, with the result of :func:`findings_facts`."""
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in facts["settings"].items() if k in known})
    model.random_state_, model.n_rows_ = int(facts["seed"]), int(facts["n_rows"])
    model.p_value_ = float(facts["p_value"])
    # Findings were not tested against correlation in models saved before; what they flag does not change.
    model.correlated_p_value_ = float(facts.get("correlated_p_value", model.p_value_))
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    model.names_s_, model.names_q_ = (None if one is None else tuple(one) for one in facts["schema"]["names"])

    def of(prefix: str) -> dict[str, NDArray[Any]]:
        return {k.removeprefix(f"{prefix}."): v for k, v in arrays.items() if k.startswith(f"{prefix}.")}

    model.features_ = tuple(
        InputFeatures.from_facts(one, of(f"features.{side}"))
        for side, one in zip("sq", facts["features"], strict=True)
    )
    model.oddness_ = tuple(
        Oddness(neighbours=int(one["neighbours"]), **of(f"oddness.{side}"))
        for side, one in zip("sq", facts["features"], strict=True)
    )
    for name in facts["lenses"]:
        if name not in LENSES:
            raise FileError(f"these findings were made with a lens {name!r} that this coad does not have")
    model.lenses_ = {
        name: LENSES[name].from_facts(own, of(f"lens.{name}")) for name, own in facts["lenses"].items()
    }
    model.findings_ = tuple(
        Finding.from_dict(from_json(one), arrays[f"rows.{one['number']}"]) for one in facts["findings"]
    )
    learning = of("learning")
    model.values_, model.values_of_s_ = learning.get("values"), int(facts["learned_columns_of_s"])
    model.learned_ = LearnedRule(learning["weights"]) if "weights" in learning else None
    model._follow()
    model.oddest_, model.oddest_percentiles_ = arrays["oddest"], arrays["oddest_percentiles"]
    return model
