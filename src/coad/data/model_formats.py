"""Model folders of earlier formats, converted to the present one when they are read.

=======  ==================================================================================
format   what changed
=======  ==================================================================================
1        the first
2        rows are flagged if they reach the threshold (``>=``; in format 1 ``>``), and some facts
         have other names: starts, ensemble, transforms
3        the rule is a value of its own (``rule``): thresholds, β, α, background, dismissed kinds
4        the rule has the correlation of the background, 0 before; thresholds have the setting ``background``,
         ``"independent"`` before
5        findings keep what decisions are learned from; before, whole findings followed a decided one
6        a catalogue of modes has networks for each fold, with transforms of their own
=======  ==================================================================================
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["FORMAT_VERSION", "upgraded"]

FORMAT_VERSION = 6


def upgraded(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a model in the present format; those of earlier ones are changed in place."""
    if facts["settings"].get("memory_format") == "batch_last":  # convolutions that coad no longer has
        facts["settings"]["memory_format"] = "auto"
    if facts["format_version"] == 1:
        _from_1(facts)
        if facts.get("discovered") is not None:
            _from_1(facts["discovered"])
    if facts["format_version"] <= 2 and facts.get("kind") != "modes":
        _from_2(facts)
    if facts["format_version"] <= 3:
        _from_3(facts)
    if facts["format_version"] <= 4 and facts.get("kind") == "findings":
        _from_4(facts)
    if "fitted" in facts:  # networks, whose background had no setting before
        facts["settings"].setdefault("background", "independent")
        for own in facts["fitted"]:
            own.setdefault("background", {"why": "the version of coad that saved the model knew no other"})
    return facts


def _from_4(facts: dict[str, Any]) -> None:
    """Findings that followed a decided one are flagged, or not, as they were then; nothing more can be learned."""
    facts["learned_columns_of_s"] = 0
    for one in facts["findings"]:
        carried = one.pop("carried", None)
        one.pop("follows", None)
        if carried is not None and one["decision"] is None:
            one["flagged_by_default"] = carried == "event"
            one["reason"] = one["reason"] or ("" if carried == "event" else "unlike")


def _from_3(facts: dict[str, Any]) -> None:
    """Chance was counted as if inputs were independent."""
    rules = (
        [facts["rule"]]
        if facts.get("kind") == "thresholds"
        else [own["rule"] for own in facts.get("fitted", ())]
    )
    for rule in rules:
        rule |= {"correlation": 0.0, "correlation_uncertainty": 0.0}
    if facts.get("kind") == "thresholds":
        facts["settings"]["background"] = "independent"


def _from_2(facts: dict[str, Any]) -> None:
    """Make a rule of the thresholds. Without thresholds for each input, one for the product p_s·p_q held."""
    never = ["inf", "inf"]
    for one in facts["dismissed"]:
        one["product"] = one.pop("threshold") if one["thresholds"] is None else None
        one["thresholds"] = one["thresholds"] or never
    for own in facts["fitted"]:
        pair, product = own.pop("thresholds"), own.pop("threshold")
        quiet = own["status"] == "no coincidence"  # then nothing was flagged, whatever the thresholds
        own["rule"] = {
            "beta": own["beta"],
            "alpha": facts["alpha"],
            "alpha_given": facts["settings"].get("alpha", "auto") != "auto",
            "thresholds": never if quiet or pair is None else pair,
            "product": product if pair is None and not quiet else None,
            "background": "all rows" if facts["schema"]["contexts"] is None else "context",
            "dismissed": facts["dismissed"],
        }


def _from_1(facts: dict[str, Any]) -> None:
    settings = facts["settings"]
    if "n_seeds" in settings:
        settings["n_starts"] = settings.pop("n_seeds")
    facts["schema"].setdefault("names", [None, None])
    if facts.get("kind") == "modes":
        facts["transforms"] = facts.pop("looks", [[], []])
        facts.setdefault("reason", "")
        return
    facts.setdefault("history", {})
    facts.setdefault("dismissed", [])
    for own in facts["fitted"]:
        own["starts"] = own.pop("seeds")
        own["ensemble"] = own.pop("heard", [own["seed"]])
    for own in (*facts["fitted"], *facts["dismissed"]):
        own["threshold"] = _above(own["threshold"])
        pair = own["thresholds"]
        own["thresholds"] = None if pair is None else [_above(value) for value in pair]


def _above(value: Any) -> Any:
    """The next float above a threshold; infinity, a string in JSON, does not change."""
    return value if value == "inf" else float(np.nextafter(float(value), math.inf))
