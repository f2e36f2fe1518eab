"""The state of the explorer's sliders and filters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from coad.app.marks import VERDICTS
from coad.core.validation import check_beta
from coad.exceptions import InputError

__all__ = ["View"]

_SORTS = ("strongest", "latest", "longest", "random")


@dataclass(frozen=True)
class View:
    """The state of the sliders and filters; ``show`` is "events", or "s" or "q" for anomalies in one input alone."""

    threshold_s: float
    threshold_q: float
    beta: float = 1.0
    regime: int = -1
    finding: int = -1
    start: float | None = None
    end: float | None = None
    kind: str = ""
    mark: str = ""
    sort: str = "strongest"
    show: str = "events"
    page: int = 0
    saved: bool = False  # the rule of the model, whatever the sliders say

    def check(self) -> View:
        """This view, or an error for values that no slider can send."""
        check_beta(self.beta)
        for name in ("threshold_s", "threshold_q"):
            if math.isnan(getattr(self, name)):
                raise InputError(f"{name} is not a number")
        if self.sort not in _SORTS:
            raise InputError(f"sort must be one of {', '.join(_SORTS)}, not {self.sort!r}")
        if self.mark not in ("", "none", "any", *VERDICTS):
            raise InputError(f"mark must be none, any or one of {', '.join(VERDICTS)}, not {self.mark!r}")
        if self.show not in ("events", "s", "q"):
            raise InputError(f"show must be events, s or q, not {self.show!r}")
        return self
