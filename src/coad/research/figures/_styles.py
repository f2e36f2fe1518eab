"""Names, colours and symbols of the two methods that the regime experiments compare."""

from __future__ import annotations

from coad.report.figures import BLUE, ORANGE

__all__ = ["METHOD_STYLES"]

METHOD_STYLES = {"plain": ("plain", ORANGE, "x"), "regimes": ("with regimes", BLUE, "circle")}
