"""The catalogue: one line per mode, judged by the metric of the binary method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from coad._typing import FloatArray, IntArray
from coad.core.metric import ignore_undefined, precision_hat, true_positive_fraction
from coad.core.moments import Moments
from coad.core.oddness import ODD

__all__ = ["STABLE", "Mode", "ModeTable", "Role", "mode_statistics"]

Role = Literal["regime", "rare", "ignore"]

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
        P-value of its joint votes on held-out rows, adjusted for the number of modes (Holm).
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
    held: tuple[FloatArray, FloatArray],
    labels: IntArray,
    evidence: FloatArray,
    listed: IntArray,
    p_values: FloatArray,
    stability: FloatArray,
    odd: FloatArray,
    codes: IntArray | None,
    max_rare: float,
) -> ModeTable:
    """The catalogue of the ``listed`` modes.

    ``held`` are held-out confidences (n, K), ``labels`` and ``evidence`` those of the rows by all members, ``odd`` (2, K)
    how odd each mode is in s and in q. Those of at most ``max_rare`` of the rows that are odd in both inputs are rare.
    """
    n, found = len(labels), []
    for mode in listed.tolist():
        own = np.flatnonzero(labels == mode)
        with ignore_undefined():
            a, b = (np.clip(x[:, mode], 0, 1) for x in held)
            moments = Moments.of(a, b, codes)
            precision, support = float(precision_hat(moments)), float(true_positive_fraction(moments))
        best = own[np.argsort(-evidence[own, mode], kind="stable")[:_EXEMPLARS]]
        role, reason = _role(len(own) / n, odd[0, mode], odd[1, mode], max_rare)
        found.append(
            Mode(
                mode=mode,
                size=len(own) / n,
                rows=len(own),
                precision_hat=precision,
                support=support,
                p_value=float(p_values[mode]),
                stability=float(stability[mode]),
                role=role,
                reason=reason,
                exemplars=tuple(int(i) for i in best),
            )
        )
    return ModeTable.rarest_first(found)


def _role(size: float, odd_s: float, odd_q: float, max_rare: float) -> tuple[Role, str]:
    """The role of a mode, and why.

    >>> _role(0.02, 0.9, 0.8, 0.1), _role(0.02, 0.9, 0.5, 0.1), _role(0.3, 0.9, 0.9, 0.1)
    (('rare', 'odd in both inputs'), ('regime', 'not odd in q'), ('regime', 'more than 0.1 of the rows'))
    """
    if size > max_rare:
        return "regime", f"more than {max_rare:.3g} of the rows"
    plain = [name for name, odd in (("s", odd_s), ("q", odd_q)) if odd < ODD]
    return ("regime", f"not odd in {' and '.join(plain)}") if plain else ("rare", "odd in both inputs")
