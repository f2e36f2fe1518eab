"""The settings behind a report, to reproduce it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from coad import __version__
from coad.report.model_figures import beta_text
from coad.report.page import Section, html_table
from coad.report.study import Study
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["fit_command", "settings_section"]


def settings_section(study: Study, names: str) -> Section:
    """What the page was made of, and the command that fits such a model again."""
    model, recipe = study.model, study.recipe
    files: Sequence[str] = study.scored.files
    rows = [
        ("model and data", names or "–"),
        (
            "files",
            ", ".join(Path(one).name for one in files[:10])
            + (f" and {len(files) - 10:,} more" if len(files) > 10 else ""),
        ),
        ("rows read", f"{study.scored.n_rows:,}, {len(study.scored):,} {study.scored.what}"),
        ("rule", study.rule.words()),
        ("β of the rule", beta_text(study.beta)),
        *(
            [("α in training", f"{model.alpha_:.4g} ({model.alpha_how_})")]
            if hasattr(model, "alpha_")
            else []
        ),
        ("seed", str(model.random_state_)),
        ("trained", f"{model.status_}, p = {model.p_value_:.3g}"),
        *(
            [("background", f"{model.background_.kind} ({model.background_.why})")]
            if hasattr(model, "background_")
            else []
        ),
        ("coad", __version__),
    ]
    layout = json.dumps(recipe.to_dict(), indent=1, ensure_ascii=False)
    command = f"<pre>{escape(fit_command(recipe, model))}</pre>" if study.has_thresholds else ""
    html = html_table((), rows, left=True) + f"{command}<pre>{escape(layout[:6000])}</pre>"
    return Section("Settings, to reproduce this", html=html, anchor="settings")


def fit_command(recipe: Recipe, model: CoAD) -> str:
    """The command that fits such a model again."""
    layout = recipe.layout
    parts = ["coad", "fit", "DATA" if recipe.clocks is None else "--s-file S --q-file Q"]
    for name, value in (
        ("s", ",".join(layout.s)),
        ("q", ",".join(layout.q)),
        ("context", ",".join(layout.context or ())),
        ("time", layout.time),
        ("time-format", layout.time_format),
        ("long", layout.long),
        ("window", layout.window),
        ("stride", layout.stride),
        ("context-blocks", layout.context_blocks),
        ("group", layout.group),
        ("missing", None if layout.missing == "error" else layout.missing),
        ("beta", beta_text(float(next(iter(model.fitted_)))).replace("∞", "inf")),
        ("alpha", None if model.alpha == "auto" else model.alpha),
        ("starts", model.n_starts),
        ("epochs", model.epochs),
        ("background", None if model.background == "independent" else model.background),
        ("seed", model.random_state_),
    ):
        if value not in (None, ""):
            parts.append(f"--{name} {shlex.quote(str(value))}")
    flags = [("--ensemble", model.ensemble), ("--unordered", not model.ordered)]
    return " ".join([*parts, *(name for name, is_set in flags if is_set)])
