"""The status of a result as a value: three words, and the suspicions behind them as codes with their numbers.

What a result suspects is never read back out of a sentence. A :class:`Suspicion` is the value;
:func:`in_words` is the only place that turns it into text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = [
    "FOUND",
    "NO_COINCIDENCE",
    "SHARED_REGIME",
    "Status",
    "Suspicion",
    "in_words",
    "status_of",
]

Status = Literal["found", "no coincidence", "shared regime suspected"]

#: Joint events beyond chance, and nothing speaks against them.
FOUND: Final = "found"
#: No evidence of joint events: nothing is flagged.
NO_COINCIDENCE: Final = "no coincidence"
#: There is coincidence, but it looks like an operating regime that both inputs share.
SHARED_REGIME: Final = "shared regime suspected"

_WORDS = {
    # No coincidence, because …
    "top_heavy": "{name} takes its highest value in {share:.0%} of the rows: "
    "no threshold flags at most half of them",
    "nothing_joint": "no row is in the upper half of both scores",
    "no_excess": "no pair of thresholds flags more rows jointly than chance would",
    "lonely_contexts": "nearly every row has a context of its own, so there is nothing to compare it with",
    "not_significant": "shuffled pairings show as much coincidence (p = {p_value:.2g}); the best pair would flag "
    "{n_joint:,} row{s} with F̂ = {fbeta_hat:.2f}, as noise does",
    "only_correlated": "scores with a correlation of {rho:.2f}, that of their bulk, show as much coincidence without any "
    "event (p = {p_value:.2g}); the best pair would flag {n_joint:,} row{s} with F̂ = {fbeta_hat:.2f}",
    "not_significant_here": "on these rows shuffled pairings coincide as much (p = {p_value:.2g})",
    "only_correlated_here": "on these rows scores with the rule's correlation of {rho:.2f} coincide as much without any "
    "event (p = {p_value:.2g})",
    "nothing_flagged": "no row reaches both thresholds of the rule",
    "no_flagged_finding": "no row belongs to a finding that is flagged",
    "no_rare_mode": "no row is in a mode that is called rare",
    "none_in_training": "training found none (p = {p_value:.2g}; {level:g} or less counts as found)",
    # A shared regime, because …
    "fhat_above_one": "F̂ = {fbeta_hat:.2f}, but an F score cannot pass 1",
    "above_given_rate": "{ratio:.1f} times as many joint events as an anomaly rate of {alpha:.3g} allows",
    "rate": "{rate:.0%} of all rows coincide, too many for anomalies",
    "shift": "{kept:.0%} of the coincidence survives shifting one input by a few rows",
    "slow": "moving one input in time shows as much coincidence (p = {p_value:.2g}), "
    "as slow inputs do that drift together, and events at a fixed period",
    "heavy_tails": "both scores have heavy tails in common: a t-copula with {freedom:g} degrees of freedom, as the other "
    "corners have it, shows as much coincidence (p = {p_value:.2g})",
    "regime_in_training": "training suspected it",
}


@dataclass(frozen=True)
class Suspicion:
    """One reason why a result is not simply ``"found"``: a code, and the numbers that go with it.

    >>> Suspicion("shift", {"kept": 0.7})
    Suspicion(code='shift', numbers={'kept': 0.7})
    """

    code: str
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.code not in _WORDS:
            raise ValueError(f"unknown code {self.code!r}; there are {', '.join(_WORDS)}")


def in_words(suspicions: Iterable[Suspicion]) -> str:
    """The suspicions as text, without a full stop; empty if there are none.

    >>> in_words([Suspicion("shift", {"kept": 0.7})])
    '70% of the coincidence survives shifting one input by a few rows'
    """
    return "; ".join(
        _WORDS[one.code].format(s="" if one.numbers.get("n_joint") == 1 else "s", **one.numbers)
        for one in suspicions
    )


def status_of(found: bool, rate: float, plausible: float, *, slow: bool = False) -> Status:
    """The status, from whether there is coincidence beyond chance and the rate of true joint events.

    A ``rate`` above the largest ``plausible`` one is a shared regime and not anomalies, and so is what coincides as much
    after one input was moved a little in time (``slow``).

    >>> status_of(True, 0.4, 0.25)
    'shared regime suspected'
    """
    if not found:
        return NO_COINCIDENCE
    return SHARED_REGIME if slow or rate > plausible else FOUND
