"""The catalogue: one line per mode, judged by the metric of the binary method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.metric import ignore_undefined, precision_hat, true_positive_fraction
from coad.core.moments import Moments
from coad.modes.consensus import joint_counts, stability_of
from coad.modes.evidence import mode_p_values
from coad.modes.roles import Role

__all__ = ["STABLE", "Mode", "ModeTable", "describe"]

_EXEMPLARS = 8
#: A mode of this stability comes back.
STABLE = 0.5


@dataclass(frozen=True)
class Mode:
    """One coincident mode.

    ``size`` is the part of the rows that is in it, ``precision_hat`` P̂ of its own p_s and
    p_q, ``support`` the part of the rows that it explains beyond chance (TP), ``p_value`` how
    likely its joint votes are by chance, ``stability`` how well it comes back over members,
    ``exemplars`` row numbers of the fit, the surest first.
    """

    mode: int
    size: float
    rows: int
    precision_hat: float
    support: float
    p_value: float
    stability: float
    role: Role
    reason: str
    exemplars: tuple[int, ...]

    @property
    def p_in_words(self) -> str:
        """The p-value for a person: what is too small for a float is not 0."""
        return f"{self.p_value:.1g}" if self.p_value > 0 else "<1e-300"


class ModeTable(tuple[Mode, ...]):
    """The modes, rare ones first and each by size; prints as a table.

    >>> ModeTable()
    no coincident modes
    """

    __slots__ = ()

    @classmethod
    def rarest_first(cls, modes: Iterable[Mode]) -> ModeTable:
        """A rare kind of many regimes may be larger than each of them: what is called rare comes first."""
        return cls(sorted(modes, key=lambda mode: (mode.role != "rare", mode.size)))

    @property
    def rare(self) -> ModeTable:
        """Those with the role rare."""
        return ModeTable(mode for mode in self if mode.role == "rare")

    @property
    def unstable(self) -> ModeTable:
        """Those that fewer than half of the networks have by themselves."""
        return ModeTable(mode for mode in self if mode.stability < STABLE)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns, for ``pandas.DataFrame`` and others."""
        return {name: [getattr(mode, name) for mode in self] for name in Mode.__dataclass_fields__}

    def with_role(self, number: int, role: Role) -> ModeTable:
        """The table with another role for one mode."""
        return ModeTable(
            replace(mode, role=role, reason="set by hand") if mode.mode == number else mode for mode in self
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data for JSON."""
        return [{**asdict(mode), "exemplars": list(mode.exemplars)} for mode in self]

    def __repr__(self) -> str:
        if not self:
            return "no coincident modes"
        lines = ["mode    size      P̂  support   p-value  stability  role    because"]
        lines += [
            f"{m.mode:4d}  {m.size:6.2%}  {m.precision_hat:5.2f}  {m.support:7.2%}  {m.p_in_words:>8}  "
            f"{m.stability:9.2f}  {m.role:<6}  {m.reason}"
            for m in self
        ]
        return "\n".join(lines)


def describe(
    a: FloatArray,
    b: FloatArray,
    labels: IntArray,
    sure: FloatArray,
    members: list[tuple[IntArray, IntArray]],
    codes: IntArray | None,
) -> list[Mode]:
    """Modes 0 to K−1, from held-out responsibilities ``a`` and ``b`` (n, K); none has a role yet."""
    k = a.shape[1]
    chance = mode_p_values(joint_counts(a.argmax(1), b.argmax(1), k))
    found = []
    for mode in range(k):
        with ignore_undefined():
            moments = Moments.of(np.clip(a[:, mode], 0, 1), np.clip(b[:, mode], 0, 1), codes)
            precision, support = float(precision_hat(moments)), float(true_positive_fraction(moments))
        own = np.flatnonzero(labels == mode)
        best = own[np.argsort(-sure[own, mode], kind="stable")[:_EXEMPLARS]]
        found.append(
            Mode(
                mode=mode,
                size=len(own) / len(labels),
                rows=len(own),
                precision_hat=precision,
                support=support,
                p_value=float(chance[mode]),
                stability=stability_of(labels, mode, members),
                role="regime",
                reason="",
                exemplars=tuple(int(i) for i in best),
            )
        )
    return found
