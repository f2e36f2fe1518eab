"""Print a catalogue of modes: for ``modes`` and ``role``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad.cli._print import number, out, percent, table

if TYPE_CHECKING:
    from coad.modes.catalogue import ModeTable


def show_catalogue(found: ModeTable, p_value: float, reason: str = "") -> None:
    """Print the modes as a table, rarest first, and below it the reason for each role."""
    from coad.modes.catalogue import STABLE

    if not found:
        out(f"no coincident modes: {reason or f'p = {p_value:.2g}'}; nothing will be flagged")
        return
    out(f"{len(found)} modes, {len(found.rare)} of them rare (p = {p_value:.2g} for the whole table)")
    table(
        ("mode", "role", "rows", "size", "P̂", "support", "p-value", "stability"),
        [
            (
                str(mode.mode),
                mode.role,
                f"{mode.rows:,}",
                percent(mode.size),
                number(mode.precision_hat, 2),
                percent(mode.support),
                mode.p_value_text,
                number(mode.stability, 2),
            )
            for mode in found
        ],
    )
    modes_of: dict[tuple[str, str], list[str]] = {}
    for mode in found:
        modes_of.setdefault((mode.role, mode.reason), []).append(str(mode.mode))
    for (role, why), which in modes_of.items():
        out(f"  {'mode' if len(which) == 1 else 'modes'} {', '.join(which)}: {role}, {why}")
    if found.unstable:
        out(
            f"{len(found.unstable)} modes have a stability below {STABLE}: their borders are uncertain, because they "
            "are pieces of a continuum or have very few rows"
        )
