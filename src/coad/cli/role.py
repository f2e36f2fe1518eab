"""``coad role``: show a saved catalogue of modes, or set the role of one mode."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coad.cli._print import out
from coad.exceptions import InputError


class Role(StrEnum):
    """The role of a mode."""

    regime = "regime"
    rare = "rare"
    ignore = "ignore"


def role(
    model: Annotated[Path, typer.Argument(help="Model folder, written by coad modes.")],
    mode: Annotated[
        int | None, typer.Argument(help="Number of the mode to change.", show_default=False)
    ] = None,
    new: Annotated[
        Role | None, typer.Argument(metavar="ROLE", help="regime, rare or ignore.", show_default=False)
    ] = None,
) -> None:
    """Show a catalogue of modes, or set the role of one mode: regime, rare or ignore."""
    from coad.cli._catalogue import show_catalogue
    from coad.modes.estimator import CoincidenceModes
    from coad.workflows.model_folder import load

    catalogue = load(model)
    if not isinstance(catalogue, CoincidenceModes):
        raise InputError(f"{model} is not a catalogue of modes; coad modes writes one")
    if mode is not None:
        if new is None:
            raise InputError(f"give the role of mode {mode}: regime, rare or ignore")
        catalogue.set_role(mode, new.value)
        catalogue.save(model)
    show_catalogue(catalogue.modes_, catalogue.p_value_, catalogue.reason_)
    if mode is not None:
        out(f"model: {model}")
