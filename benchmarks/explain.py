"""Why and what kind, on **simulated** RF events: the deletion test, and kinds found against true kinds."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from benchmarks._results import record, table
from coad.exceptions import CoadWarning

WINDOWS, SEEDS, EPOCHS = 2500, 2, 40
TESTED = 300  # events of the deletion test


def run() -> None:
    from coad._kind_features import event_features
    from coad.datasets.rf_station import simulate
    from coad.experiments.rf import SETTING
    from coad.explain import deletion_test, explain
    from coad.kinds import find_kinds
    from coad.learned import CoAD

    train, new = simulate(WINDOWS, random_state=11), simulate(WINDOWS, random_state=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = CoAD(**(SETTING | {"n_seeds": SEEDS, "epochs": EPOCHS, "random_state": 0}))
        det.fit(train.s, train.q)
    flags = det.predict(new.s, new.q)
    rows = np.flatnonzero(flags & new.label)[:TESTED]  # labels judge; they choose nothing above
    start = time.perf_counter()
    why = explain(det, new.s[rows], new.q[rows])
    took = time.perf_counter() - start
    test = deletion_test(det, new.s[rows], new.q[rows], explanation=why)
    kinds = find_kinds(det, new.s, new.q)
    true_event = new.label[kinds.rows]
    index = adjusted_rand_score(new.kind[kinds.rows][true_event], kinds.label[true_event])
    features = kinds.model.project(event_features(det, new.s[kinds.rows], new.q[kinds.rows]))
    told = KMeans(5, n_init=4, random_state=0).fit_predict(features)
    index_told = adjusted_rand_score(new.kind[kinds.rows][true_event], told[true_event])
    lines = [
        ("flagged windows, of them events", f"{int(flags.sum()):,}, {new.label[flags].mean():.0%}"),
        ("integrated gradients", f"{took / max(len(rows), 1) * 1e3:.0f} ms an event"),
        ("shares miss their sum by", f"{np.median(why.s.error):.1e} (s), {np.median(why.q.error):.1e} (q)"),
        ("deletion test better than random", f"{test.share:.1%} of {len(rows)} events (asked for: 95 %)"),
        ("kinds found, of 5", f"{kinds.n_kinds}, {kinds.n_noise:,} events are noise"),
        ("adjusted Rand index, flagged true events", f"{index:.2f} (asked for: 0.7)"),
        ("the same, if told that there are five", f"{index_told:.2f} (not available to a user)"),
        ("stability over resampling", f"{kinds.stability:.2f}"),
    ]
    note = (
        "Simulated windows; trained on one simulation, judged on another; the description of events was "
        "worked out on others still. Labels only judge."
    )
    record("explain", "Why, and what kind", table(("", "measured"), lines) + "\n\n" + note)
