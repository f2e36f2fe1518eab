"""What ``coad demo`` shows of the learned mode: raw windows in, events out, no score to begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.core.labels import LabelScores, label_scores
from coad.research.datasets.synthetic import LabelledWindows, synthetic_windows

if TYPE_CHECKING:
    from coad.learned.training.judge import Evaluation
    from coad.report.page import Section

__all__ = ["LearnedDemo", "learned_sections", "run_learned_demo"]


@dataclass(frozen=True)
class LearnedDemo:
    """Two networks trained on one set of simulated windows and judged on another."""

    data: LabelledWindows
    p_s: FloatArray
    p_q: FloatArray
    flagged: BoolArray
    evaluation: Evaluation
    status: str
    alpha: float
    judged: LabelScores  # the flags, by labels


def run_learned_demo(n: int = 2500, random_state: int = 0, *, verbose: bool = False) -> LearnedDemo:
    """Train on simulated windows without labels, flag new ones, and only then look at the labels."""
    from coad.learned.estimator import CoAD  # imports torch

    train = synthetic_windows(n, random_state=random_state)
    new = synthetic_windows(n, random_state=random_state + 1)
    # Fewer and smaller steps than by default: a demonstration should not take long.
    detector = CoAD(epochs=40, batch_size=400, random_state=random_state, verbose=verbose)
    detector.fit(train.s, train.q)
    p_s, p_q = detector.confidences(new.s, new.q)
    flagged = detector.decide(p_s, p_q)
    return LearnedDemo(
        data=new,
        p_s=p_s,
        p_q=p_q,
        flagged=flagged,
        evaluation=detector.evaluate_confidences(p_s, p_q),
        status=detector.status_,
        alpha=detector.alpha_,
        judged=label_scores(flagged, new.label),
    )


def learned_sections(run: LearnedDemo) -> list[Section]:
    """The learned mode's part of the demo page."""
    from coad.report.figures import decided_scatter
    from coad.report.page import Section
    from coad.research.figures.demo import example_windows

    odd_s, odd_q = run.p_s > 0.5, run.p_q > 0.5
    examples = {
        "seen by both: flagged": np.flatnonzero(run.flagged)[:3],
        "seen by s alone": np.flatnonzero(odd_s & ~odd_q)[:3],
        "seen by q alone": np.flatnonzero(odd_q & ~odd_s)[:3],
    }
    return [
        Section(
            "Learned from raw windows",
            f"No scores here: two networks were given {len(run.data.label):,} pairs of raw windows and "
            "learned to speak at the same time. Below, new windows: what both speak of is an event.",
            example_windows(run.data.s, run.data.q, examples),
        ),
        Section(
            "What the two networks say",
            "Each point is a new pair of windows. Faults of one sensor lie along the edges, events in the "
            "corner; colour shows the hidden truth.",
            decided_scatter(run.p_s, run.p_q, run.flagged, run.data.label, ("p_s", "p_q")),
        ),
    ]
