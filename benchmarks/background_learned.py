"""The background of networks: correlated noise, events, the paper's set, digits; chance counted in both ways."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks._results import record, table
from coad import CoAD
from coad.exceptions import CoadWarning
from coad.learned.background import FitScores, judge_background
from coad.research.datasets.digits import digits_pairs
from coad.research.datasets.synthetic import synthetic_outliers

_KINDS = ("independent", "auto")
#: Data, rows of the fit (as many new ones are judged), and data sets: as many as three minutes on a quiet core allow.
_SETS = (
    ("noise, ρ = 0.3", 2_000, 10),
    ("noise, ρ = 0.6", 2_000, 10),
    ("paper's set", 2_000, 10),
    ("events", 500, 8),
    ("noise, ρ = 0", 2_000, 6),
    ("events", 2_000, 4),
    ("digits", 3_000, 2),
)


def run() -> None:
    record(
        "background-learned", "Background: networks, chance counted for correlated inputs or not", _learned()
    )


def pairs(what: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Both inputs: ``n`` rows to fit on, then ``n`` to judge."""
    rng = np.random.default_rng([seed, n])
    if what == "digits":
        parts = [digits_pairs(n, rng, split=split) for split in ("train", "test")]
        s, q = (np.concatenate([getattr(one, side).reshape(n, -1) for one in parts]) for side in "sq")
        return s, q
    if what == "paper's set":
        data = synthetic_outliers(round(2 * n / 1.05), random_state=rng)
        return data.s[:, None], data.q[:, None]
    s, q = rng.normal(size=(2, 2 * n, 5))
    if what == "events":
        event = rng.random(2 * n) < 0.04
        s[event, :2] += 2.5
        q[event, :2] += 2.5
        return s, q
    rho = float(what.rpartition(" ")[2])
    q[:, 0] = rho * s[:, 0] + np.sqrt(1 - rho * rho) * q[:, 0]
    return s, q


def _learned() -> str:
    rows = []
    for what, n, sets in _SETS:
        found, found_new, precision = (np.zeros((sets, 2)) for _ in range(3))
        for seed in range(sets):
            s, q = pairs(what, n, 70_000 + seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                det = CoAD(background="independent", ordered=False, random_state=seed).fit(s[:n], q[:n])
            for k, kind in enumerate(_KINDS):  # the networks are the same, so they are trained once
                held = np.isin(np.arange(n), det.validation_rows_)
                scores = FitScores(*det.confidences(s[:n], q[:n]), None, held)
                judge_background(det.fitted_[1.0], scores, kind, det.significance, seed)
                judged = det.evaluate(s[n:], q[n:])
                found[seed, k] = det.status_ == "found"
                found_new[seed, k] = judged.status == "found"
                precision[seed, k] = judged.precision_hat
        cells = (f"{x:.0%}" for pair in (found.mean(0), found_new.mean(0)) for x in pair)
        both = found.all(1)
        shares = (f"{x:.2f}" for x in precision[both].mean(0)) if both.any() else ("–", "–")
        rows.append((what, f"{n:,}", sets, *cells, *shares))
        print(rows[-1], flush=True)
    heads = (
        f"{name}, {kind}" for name in ("found at the fit", "found in new rows", "P̂ there") for kind in _KINDS
    )
    return table(("data", "rows", "sets", *heads), rows) + (
        "\n\nNoise: five columns an input and no event; the first columns of s and q have the correlation. Events: 4 % of the "
        "rows, two columns of each input 2.5 standard deviations up. P̂: the mean over sets that both ways find."
    )
