"""The lenses by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coad.exceptions import InputError
from coad.findings.candidates import Lens
from coad.findings.clusters import ClusterLens
from coad.findings.mode_lens import ModeLens
from coad.findings.networks import NetworkLens
from coad.findings.tails import TailLens

__all__ = ["DEFAULT", "LENSES", "made"]

#: Name → class.
LENSES: dict[str, Any] = {
    "clusters": ClusterLens,
    "tails": TailLens,
    "modes": ModeLens,
    "networks": NetworkLens,
}
#: What is looked with, unless told otherwise: what takes seconds and needs no torch. Modes and networks take longer; whether
#: they bring the event nearer to the top of the list is not recorded yet.
DEFAULT = ("clusters", "tails")


def made(names: Sequence[str], scorers: Sequence[str] = ()) -> list[Lens]:
    """New lenses of these names; the lens "tails" tries these scorers too.

    >>> [lens.name for lens in made(["tails"])]
    ['tails']
    """
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in LENSES:
            raise InputError(f"there is no lens {name!r}; there are {', '.join(LENSES)}")
    if not names:
        raise InputError(f"name at least one lens of {', '.join(LENSES)}")
    scorers = [scorers] if isinstance(scorers, str) else list(scorers)
    if scorers and TailLens.name not in names:
        raise InputError(
            f"scorers are tried by the lens {TailLens.name!r}, which is not among {', '.join(names)}"
        )
    return [TailLens(scorers) if name == TailLens.name else LENSES[name]() for name in dict.fromkeys(names)]
