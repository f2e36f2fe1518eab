"""A :class:`~coad.CoAD` as facts and tensors, and back; :mod:`coad.data.model_files` puts them into files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from coad.core.background import Background
from coad.core.rule import Rule
from coad.data.model_files import from_json, to_json, write_folder
from coad.learned.dismissal import Dismissed
from coad.learned.scaling import Scaler
from coad.learned.training.model import (
    Fitted,
    Scorer,
    StartReport,
    as_arrays,
    blueprints_of,
    with_prefix,
)

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["restore", "save"]

#: Settings that are not plain data, or that do not matter for a trained model.
_NOT_SAVED = ("net", "augment", "checkpoint", "random_state", "distributed", "verbose", "context")
#: The JSON key of the regimes of ``CoAD(context=...)``, and the prefix of their tensors.
_CONTEXT = "discovered"


def save(model: CoAD, folder: Path) -> None:
    """Write ``folder`` atomically, replacing a model that is already there."""
    model._check_fitted()
    tensors: dict[str, torch.Tensor] = {}
    for i, own in enumerate(model.fitted_.values()):
        for side, scorer in (("s", own.scorer_s), ("q", own.scorer_q)):
            tensors |= {f"{i}.{side}.{k}": v.contiguous() for k, v in scorer.state_dict().items()}
    facts = _facts(model)
    if model.context_ is not None:
        facts[_CONTEXT], inner = model.context_.to_facts()
        tensors |= {f"{_CONTEXT}.{name}": value for name, value in inner.items()}
    write_folder(folder, facts, as_arrays(tensors), model.layout_)


def _facts(model: CoAD) -> dict[str, Any]:
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED}
    return {
        "metric": "F_hat = (1 + beta^2) (J - D) / (J + alpha beta^2)",
        "settings": to_json(settings),
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
                "beta": to_json(own.beta),
                "rule": to_json(own.rule.to_dict()),
                "seed": own.seed,
                "p_value": own.p_value,
                "status": own.status,
                "columns": [own.scorer_s.column, own.scorer_q.column, own.scorer_s.net.outputs],
                "ensemble": sorted(own.ensemble),
                "background": asdict(own.background),
                "starts": [asdict(report) for report in own.starts],
            }
            for own in model.fitted_.values()
        ],
        "plan": model.plan_,
        "history": to_json({str(seed): entries for seed, entries in model.history_.items()}),
    }


def restore(
    model: CoAD,
    facts: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    nets: Any = None,
    *,
    context_class: Any,
    kind_class: Any,
) -> CoAD:
    """Fill ``model``, which is not fitted, with what :func:`save` wrote.

    ``context_class`` and ``kind_class`` restore the regimes and the dismissed kinds. They are arguments because this
    package must not import their modules.
    """
    known = model.get_params(deep=False)
    model.set_params(**{k: from_json(v) for k, v in facts["settings"].items() if k in known})
    model.blueprints_ = blueprints_of(facts["nets"], nets)
    model.alpha_, model.alpha_how_ = float(facts["alpha"]), str(facts["alpha_how"])
    model.random_state_, model.plan_ = int(facts["seed"]), facts["plan"]
    model.history_ = {int(seed): entries for seed, entries in from_json(facts["history"]).items()}
    model.shape_s_, model.shape_q_ = (tuple(facts["schema"][x]["row_shape"]) for x in "sq")
    model.contexts_ = facts["schema"]["contexts"]
    names = facts["schema"]["names"]
    model.names_s_, model.names_q_ = (None if one is None else tuple(one) for one in names)
    model.scaler_s_, model.scaler_q_ = (None if x is None else Scaler.from_dict(x) for x in facts["scaling"])
    model.context_ = None
    if facts.get(_CONTEXT) is not None:
        inner = with_prefix(tensors, f"{_CONTEXT}.")
        model.context = model.context_ = context_class.from_facts(facts[_CONTEXT], inner)
    model.fitted_ = {}
    for i, own in enumerate(facts["fitted"]):
        ensemble = [int(seed) for seed in own["ensemble"]]
        scorers = []
        for j, (side, blueprint) in enumerate(zip("sq", model.blueprints_, strict=True)):
            stored = with_prefix(tensors, f"{i}.{side}.")
            blueprint.refuse_more_than(stored, len(ensemble), own["columns"][2])
            scorer = Scorer(blueprint.build([0] * len(ensemble), own["columns"][2]), own["columns"][j])
            scorer.load_state_dict(stored)
            scorers.append(scorer.eval())
        beta = float(from_json(own["beta"]))
        model.fitted_[beta] = Fitted(
            beta,
            *scorers,
            rule=_rule(own["rule"], kind_class),
            starts=[StartReport(**report) for report in own["starts"]],
            seed=int(own["seed"]),
            p_value=float(own["p_value"]),
            status=str(own["status"]),
            ensemble=ensemble,
            background=Background(**own["background"]),
        )
    return model


def _rule(facts: dict[str, Any], kind_class: Any) -> Rule:
    kinds = [
        Dismissed(
            int(one["kind"]),
            kind_class.from_dict(one["model"]),
            _pair(one["thresholds"]),
            _some(one["product"]),
        )
        for one in facts["dismissed"]
    ]
    return Rule(
        float(from_json(facts["beta"])),
        float(facts["alpha"]),
        bool(facts["alpha_given"]),
        _pair(facts["thresholds"]),
        _some(facts["product"]),
        facts["background"],
        tuple(kinds),
        correlation=float(facts["correlation"]),
        correlation_uncertainty=float(facts["correlation_uncertainty"]),
    )


def _pair(values: Any) -> tuple[float, float]:
    return float(from_json(values[0])), float(from_json(values[1]))


def _some(value: Any) -> float | None:
    return None if value is None else float(value)
