"""Two tables of a report: the assumptions and whether they hold, and the results within each regime."""

from __future__ import annotations

import warnings

import numpy as np

from coad.core.metric import precision_hat
from coad.core.moments import Moments
from coad.core.rule import Rule
from coad.core.validation import LEVEL
from coad.core.verdict import FOUND
from coad.exceptions import CoadWarning
from coad.report.study import Study

__all__ = ["checks_table", "regime_rows"]

#: A correlation of unflagged confidences below this is negligible; fewer joint pairs than the second prove little.
_CORRELATED, _FEW_JOINT = 0.1, 10

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def checks_table(study: Study) -> Table:
    """Each assumption, what was measured, and whether it holds."""
    found, scored = study.evaluation, study.scored
    level = getattr(study.model, "significance", LEVEL)  # findings have that of the engine
    rows: list[tuple[str, str, str]] = []

    def add(what: str, measured: str, holds: bool | None) -> None:
        rows.append(
            (what, measured, "not tested" if holds is None else "✓ holds" if holds else "✗ does not hold")
        )

    tested = found.null_joint is not None
    add(
        "more joint events than shuffled pairings give",
        f"p = {found.p_value:.3g}" if tested else "–",
        found.p_value <= level if tested else None,
    )
    add(
        "the coincidence does not survive moving one input in time",
        "–" if found.shift_p_value is None else f"p = {found.shift_p_value:.3g}",
        None if found.shift_p_value is None else found.shift_p_value <= level,
    )
    if tested:
        add(
            "it does not survive a shift by a few rows",
            f"{min(max(found.kept_after_shift, 0.0), 1.0):.0%} survives",
            found.kept_after_shift <= 0.5,
        )
    correlation = study.quiet_correlation()
    add(
        "inputs are independent where nothing is flagged",
        f"correlation {correlation:+.3f}",
        abs(correlation) < _CORRELATED,
    )
    rate = found.precision_hat * found.joint_fraction
    add(
        "no more events than there can be anomalies",
        f"{rate:.2%} of all; up to {study.largest_rate():.0%} is plausible",
        rate <= study.largest_rate(),
    )
    share = rate / max(study.rule.alpha, 1e-12)
    add("R̂ does not pass 1, with the α of the rule", f"{share:.2f}", share <= 1.05)
    add(
        "neither input flags more than half",
        f"s {found.mu_s:.1%}, q {found.mu_q:.1%}",
        max(found.mu_s, found.mu_q) <= 0.5,
    )
    add(f"at least {_FEW_JOINT} joint {scored.what}", f"{found.flagged:,}", found.flagged >= _FEW_JOINT)
    add(
        "training found a coincidence on held-out rows",
        f"{study.model.status_}, p = {study.model.p_value_:.3g}",
        study.model.status_ == FOUND,
    )
    if scored.code is not None:
        count = sum(n for _, n in scored.unseen)
        add("every regime was seen in training", f"{count:,} {scored.what} were not", count == 0)
    if scored.overlap > 1:
        rows.append(
            (
                "windows share no samples",
                f"{scored.overlap} in a row do; the tests use one of them",
                "✓ allowed for",
            )
        )
    return ("assumption", "measured", "outcome"), [tuple(row) for row in rows]


def regime_rows(study: Study, rule: Rule) -> Table:
    """Pairs, events, flags, P̂ and mean confidences of each regime, those with most flagged first."""
    scored = study.scored
    assert scored.code is not None
    size = len(scored.contexts)
    flag_s, flag_q = rule.memberships(scored.p_s, scored.p_q)
    flags = scored.flag if rule is study.rule else rule.flags(scored.p_s, scored.p_q)
    n = np.bincount(scored.code, minlength=size)
    joint = np.bincount(scored.code, flags, size)
    means = [np.bincount(scored.code, p, size) / np.maximum(n, 1) for p in (scored.p_s, scored.p_q)]
    peak = scored.events(flags).peak
    events = np.bincount(scored.code[peak], minlength=size)
    n_s, n_q = (np.bincount(scored.code, flags, size) for flags in (flag_s, flag_q))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        precision = np.clip(
            precision_hat(
                Moments(n.astype(float), n_s, n_q, np.bincount(scored.code, flag_s * flag_q, size))
            ),
            0.0,
            1.0,
        )
    unseen = {name for name, _ in scored.unseen}
    rows: list[tuple[str, ...]] = [
        (
            scored.regime_names[i] + (" (not seen in training)" if str(scored.contexts[i]) in unseen else ""),
            f"{n[i]:,}",
            f"{events[i]:,}",
            f"{int(joint[i]):,}",
            f"{joint[i] / max(n[i], 1):.2%}",
            f"{precision[i]:.0%}" if joint[i] else "–",
            f"{means[0][i]:.3f}",
            f"{means[1][i]:.3f}",
        )
        for i in np.argsort(-joint, kind="stable")
    ]
    head = ("regime", scored.what, "events", "flagged", "rate", "P̂", "mean p_s", "mean p_q")
    return head, rows
