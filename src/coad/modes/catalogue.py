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

__all__ = ["STABLE", "Mode", "ModeTable", "mode_statistics"]

#: Exemplars kept of each mode: enough for two rows of pictures.
_EXEMPLARS = 8
#: Stability from which most members reproduce a mode.
STABLE = 0.5


@dataclass(frozen=True)
class Mode:
    """One coincident mode.

    Parameters
    ----------
    mode : int
        Its number, the column of :meth:`CoincidenceModes.evidence`.
    size, rows : float, int
        Its rows in the fit, as a fraction and as a count.
    precision_hat : float
        P̂ of the mode: the fraction of its joint rows not explained by chance.
    support : float
        TP of the mode: the fraction of all rows that it explains beyond chance.
    p_value : float
        Hypergeometric p-value of its joint votes on held-out rows.
    stability : float
        Mean overlap (Jaccard) with its counterpart in each ensemble member, 0 to 1.
    role, reason : str
        "regime", "rare" or "ignore", and why.
    exemplars : tuple of int
        Rows of the fit with the most evidence, in falling order.
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

    def recounted(self, labels: IntArray) -> Mode:
        """The same mode, with the rows that ``labels`` give it."""
        rows = int(np.count_nonzero(labels == self.mode))
        exemplars = tuple(row for row in self.exemplars if labels[row] == self.mode)
        return replace(self, rows=rows, size=rows / len(labels), exemplars=exemplars)

    @property
    def p_value_text(self) -> str:
        """The p-value as text; one too small for a float is not printed as 0."""
        return f"{self.p_value:.1g}" if self.p_value > 0 else "<1e-300"


class ModeTable(tuple[Mode, ...]):
    """The modes, rare ones first, then by size; prints as a table.

    >>> ModeTable()
    no coincident modes
    """

    __slots__ = ()

    @classmethod
    def rarest_first(cls, modes: Iterable[Mode]) -> ModeTable:
        """The modes sorted: rare ones first (they may be larger than a regime), then by size."""
        return cls(sorted(modes, key=lambda mode: (mode.role != "rare", mode.size)))

    @property
    def rare(self) -> ModeTable:
        """The modes with the role "rare"."""
        return ModeTable(mode for mode in self if mode.role == "rare")

    @property
    def unstable(self) -> ModeTable:
        """The modes with a stability below ``STABLE``."""
        return ModeTable(mode for mode in self if mode.stability < STABLE)

    def columns(self) -> dict[str, list[Any]]:
        """The table as a dict of columns, for ``pandas.DataFrame``."""
        return {name: [getattr(mode, name) for mode in self] for name in Mode.__dataclass_fields__}

    def recounted(self, labels: IntArray) -> ModeTable:
        """The table with sizes, rows and exemplars by the mode of each row of the fit."""
        return ModeTable.rarest_first(mode.recounted(labels) for mode in self)

    def with_role(self, number: int, role: Role) -> ModeTable:
        """The table with another role for mode ``number``."""
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
            f"{m.mode:4d}  {m.size:6.2%}  {m.precision_hat:5.2f}  {m.support:7.2%}  {m.p_value_text:>8}  "
            f"{m.stability:9.2f}  {m.role:<6}  {m.reason}"
            for m in self
        ]
        return "\n".join(lines)


def mode_statistics(
    a: FloatArray,
    b: FloatArray,
    labels: IntArray,
    evidence: FloatArray,
    members: list[tuple[IntArray, IntArray]],
    codes: IntArray | None,
) -> list[Mode]:
    """Modes 0 to K−1 with their statistics, from held-out outputs ``a`` and ``b`` (n, K); roles are assigned later."""
    k = a.shape[1]
    chance = mode_p_values(joint_counts(a.argmax(1), b.argmax(1), k))
    found = []
    for mode in range(k):
        with ignore_undefined():
            moments = Moments.of(np.clip(a[:, mode], 0, 1), np.clip(b[:, mode], 0, 1), codes)
            precision, support = float(precision_hat(moments)), float(true_positive_fraction(moments))
        own = np.flatnonzero(labels == mode)
        best = own[np.argsort(-evidence[own, mode], kind="stable")[:_EXEMPLARS]]
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
