"""A shared regime and no anomalies: how often it is taken for events, with and without the context."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

from benchmarks._results import record, table
from coad import select_thresholds
from coad.exceptions import CoadWarning

LEVELS = 8
STATUSES = ("found", "shared regime suspected", "no coincidence")


def run() -> None:
    record("regime-level", "A shared regime without anomalies: thresholds", _thresholds())
    record("regime-level-learned", "A shared regime without anomalies: networks", _learned())


def shared_regime(
    n: int, seed: int, *, gain: tuple[float, float] = (0.3, 1.5), tau: float = 150.0, width: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """s, q (n, width) in time order, and the level: both follow one slow operating point, and nothing else.

    The operating point is an autoregressive walk that forgets itself within some
    ``tau`` rows, cut into eight levels; a level moves each column by its own gain
    (in units of the noise) a level.
    """
    rng = np.random.default_rng(seed)
    keep = float(np.exp(-1 / tau))
    walk = lfilter([np.sqrt(1 - keep**2)], [1, -keep], rng.normal(size=n + round(10 * tau)))[-n:]
    level = np.minimum((norm.cdf(walk) * LEVELS).astype(int), LEVELS - 1)
    s, q = (level[:, None] * rng.uniform(*gain, size=width) + rng.normal(size=(n, width)) for _ in range(2))
    return s, q, level


def _thresholds(sets: int = 200, n: int = 5000) -> str:
    rows = []
    for given in (True, False):
        seen: Counter[str] = Counter()
        for seed in range(sets):
            s, q, level = shared_regime(n, 40_000 + seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                result = select_thresholds(
                    s[:, 0], q[:, 0], context=level if given else None, random_state=seed
                )
            seen[result.status] += 1
        rows.append(_row("given" if given else "not given", sets, seen))
        print(rows[-1], flush=True)
    return (
        table(("context", "data sets", *STATUSES), rows)
        + f"\n\nEach set: {n:,} rows in time order, one operating point with {LEVELS} levels that moves each input by "
        "0.3 to 1.5 deviations of its noise a level. Asked for: with the context at most 5 % found, without it at "
        "least 90 % suspected."
    )


def _learned(sets: int = 20, n: int = 3000) -> str:
    from coad.learned.estimator import CoAD

    rows = []
    for given in (True, False):
        seen: Counter[str] = Counter()
        for seed in range(sets):
            s, q, level = shared_regime(2 * n, 50_000 + seed, width=3)
            context = level if given else None
            old, new = slice(None, n), slice(n, None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                model = CoAD(n_starts=2, epochs=60, random_state=seed)
                model.fit(s[old], q[old], context=None if context is None else context[old])
                part = None if context is None else context[new]
                seen[model.evaluate(s[new], q[new], part).status] += 1
        rows.append(_row("given" if given else "not given", sets, seen))
        print(rows[-1], flush=True)
    return (
        table(("context", "data sets", *STATUSES), rows)
        + f"\n\nCoAD fitted on {n:,} rows of three columns an input, judged on the next {n:,}, as `coad evaluate` does."
    )


def _row(name: str, sets: int, seen: Counter[str]) -> tuple[object, ...]:
    return (name, sets, *(f"{seen[status] / sets:.1%}" for status in STATUSES))
