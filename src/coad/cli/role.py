"""``coad role``: show a saved catalogue of modes, or overrule the role of one of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import out
from coad.exceptions import InputError


class Role(StrEnum):
    """What a mode is taken for."""

    regime = "regime"
    rare = "rare"
    ignore = "ignore"


def role(
    model: Annotated[Path, typer.Argument(help="Folder that coad modes wrote.")],
    mode: Annotated[int | None, typer.Argument(help="Number of the mode.", show_default=False)] = None,
    new: Annotated[Role | None, typer.Argument(metavar="ROLE", show_default=False)] = None,
) -> None:
    """Show a catalogue of modes, or say that a mode is a regime, rare, or to be ignored."""
    from coad.cli._catalogue import show_catalogue
    from coad.modes.estimator import CoincidenceModes
    from coad.workflows.model_folder import load

    catalogue = load(model)
    if not isinstance(catalogue, CoincidenceModes):
        raise InputError(f"{model} is no catalogue of modes; coad modes makes one")
    if mode is not None:
        if new is None:
            raise InputError(f"say what mode {mode} is: regime, rare or ignore")
        catalogue.set_role(mode, new.value)
        catalogue.save(model)
    show_catalogue(catalogue.modes_, catalogue.p_value_, catalogue.reason_)
    if mode is not None:
        out(f"model: {model}")
