"""``coad decide``: show the findings of a folder, or say what one of them is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import out
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.findings.finding import Decision


class What(StrEnum):
    """What a finding is."""

    event = "event"
    normal = "normal"
    ignore = "ignore"
    undecided = "undecided"


def decide(
    model: Annotated[Path, typer.Argument(help="Folder that coad find wrote.")],
    number: Annotated[int | None, typer.Argument(help="Number of the finding.", show_default=False)] = None,
    what: Annotated[
        What | None,
        typer.Argument(metavar="WHAT", help="event, normal, ignore or undecided.", show_default=False),
    ] = None,
) -> None:
    """Say what a finding is: event (flagged), normal or ignore (not flagged); without a number, show the list."""
    from coad.cli.find import show_findings
    from coad.workflows import finding

    if number is None:
        show_findings(finding.load_findings(model), most=10**6)
        return
    if what is None:
        raise InputError(f"say what finding {number} is: {', '.join(one.value for one in What)}")
    before = finding.load_findings(model)
    decision: Decision | None = None if what is What.undecided else what.value  # type: ignore[assignment]
    found = finding.decide(model, number, decision)
    out(f"finding {number}: {before[number].verdict} → {found[number].verdict}")
    out(found.headline)
    out(f"model: {model}")
