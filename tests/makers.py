"""Makers of small data sets that several test files share; fitted models and commands are in conftest.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.signal import lfilter

HOSTILE = "<script>alert(1)</script>"


def event_rows(n=600, shape=(4,), *, rate=0.1, shift=(3, -3), seed=0):
    """(s, q, event): normal rows, a share of which is shifted in both inputs at once."""
    rng = np.random.default_rng(seed)
    s, q = rng.normal(size=(2, n, *shape))
    event = rng.random(n) < rate
    s[event] += shift[0]
    q[event] += shift[1]
    return s, q, event


def rows_around_axes(sizes=(500, 300, 40), *, width=4, noise=0.5, seed=0):
    """(s, q, kind): rows of a few kinds, each around its own axis in both inputs, in random order."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = 4 * np.eye(max(width, len(sizes)))[:, :width]
    s, q = (centres[kind] + noise * rng.normal(size=(len(kind), width)) for _ in range(2))
    return s, q, kind


def rows_around_centres(parts, n, shape, *, spread, seed):
    """(s, q, kind): a share ``parts[k]`` of the rows is of kind k, around a random centre in each input."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(parts), n, p=parts)
    s, q = (
        spread * rng.normal(size=(len(parts), *shape))[kind] + rng.normal(size=(n, *shape)) for _ in range(2)
    )
    return s, q, kind


def plant(n=1200, seed=0):
    """Columns of two motors, two vibrations, events in both, and two settings that last for a while."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    event = rng.random(n) < 0.06
    stretches = -(-n // 50)
    material = rng.permutation(np.arange(stretches) % 2).repeat(50)[:n]
    feed = rng.permutation(np.arange(stretches) % 2).repeat(50)[:n] * 0.25
    return {
        "t": np.arange(n) * 0.1,
        "motor_a": a + 4 * event + 3 * material,
        "motor_b": a + rng.normal(size=n) + 4 * event,
        "vib_x": b - 4 * event + 3 * material,
        "vib_y": rng.normal(size=n) + 4 * event,
        "material": material,
        "feed": feed,
        "anomaly": event.astype(int),
    }


def write_parquet(path: Path, columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def write_csv(path: Path, columns) -> Path:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def scored_pairs(n=900, *, shape=(2,), rate=0.06, run=1, seed=0, coincide=True, **more):
    """Pairs as if a model had scored them: events of ``run`` rows in both inputs, noise in each."""
    from coad.workflows.scored import RowStore, Scored

    rng = np.random.default_rng(seed)
    event = np.convolve(rng.random(n) < rate, np.ones(run), "same") > 0
    p_s, p_q = rng.beta(0.5, 6, size=(2, n))
    for p in (p_s, p_q):
        mine = event if coincide else rng.random(n) < rate
        p[mine] = rng.beta(6, 0.5, size=mine.sum())
    s, q = RowStore(), RowStore()
    for store in (s, q):
        store.add(rng.normal(size=(n, *shape)) + 3 * event.reshape(n, *[1] * len(shape)))
    names = ("a", HOSTILE) if len(shape) < 2 or shape[0] == 2 else ("image",)
    known = {
        "p_s": p_s,
        "p_q": p_q,
        "score": p_s * p_q,
        "flag": (p_s >= 0.5) & (p_q >= 0.5),
        "s": s,
        "q": q,
        "s_names": names,
        "q_names": names,
        "first": np.arange(n),
        "last": np.arange(n),
        "file": np.zeros(n, dtype=np.int32),
        "files": ("plant.parquet",),
        "windows": False,
        "n_rows": n,
    }
    known["regime_names"] = tuple(map(str, more.get("contexts", ())))
    return Scored(**(known | more))


def slow_rows(n=1000, coefficient=0.9, width=4, *, seed=0):
    """(s, q): autoregressive columns in time order that have nothing in common."""
    noise = np.random.default_rng(seed).normal(size=(2, n + 500, width))
    return tuple(lfilter([1.0], [1.0, -coefficient], noise, axis=1)[:, 500:])


class FakeFinding:
    """One finding of :class:`FakeFindings`."""

    def __init__(self, rows, flagged):
        self.rows, self.flagged = np.asarray(rows, dtype=np.int64), flagged


class FakeFindings:
    """What ``coad.find`` returns, as far as measures by labels need it: a row is of finding k where s reads k.

    ``flagged[k - 1]`` says whether finding k is flagged by default.
    """

    def __init__(self, s, flagged):
        self.findings = {
            k: FakeFinding(np.flatnonzero(first_column(s) == k), flag)
            for k, flag in enumerate(flagged, start=1)
        }
        self.decisions, self.s = {}, s

    def __len__(self):
        return len(self.findings)

    def __getitem__(self, number):
        return self.findings[number]

    def decide(self, number, decision):
        assert decision in ("event", "normal", "ignore")
        self.decisions[number] = decision
        self.findings[number].flagged = decision == "event"

    def next_to_decide(self):
        return next((k for k in self.findings if k not in self.decisions), None)

    def flags_of_fit(self):
        return self.predict(self.s)

    def predict(self, s, q=None):
        return np.isin(first_column(s), [k for k, finding in self.findings.items() if finding.flagged])


def first_column(s):
    """The first column of an array, or of s in a Pairs."""
    values = np.asarray(getattr(s, "s", s))
    return values.reshape(len(values), -1)[:, 0]


def correlated_noise(n, rho, seed, freedom=None):
    """Two scores with a Gaussian copula (or a t-copula with so many degrees of freedom) and no event."""
    rng = np.random.default_rng(seed)
    s, other = rng.normal(size=(2, n))
    q = rho * s + np.sqrt(1 - rho**2) * other
    if freedom is not None:
        scale = np.sqrt(rng.chisquare(freedom, n) / freedom)
        return s / scale, q / scale
    return s, q


def assert_counts_what_score_tells(det, s, q):
    """The catalogue counts the rows that scoring the rows of the fit puts in each mode."""
    told = det.predict_mode(s, q)
    np.testing.assert_array_equal(det.labels_, told)
    assert {mode.mode: mode.rows for mode in det.modes_} == {
        mode.mode: int((told == mode.mode).sum()) for mode in det.modes_
    }
    np.testing.assert_allclose(det.alpha_, det.predict(s, q).mean())
    for mode in det.modes_:
        assert (told[list(mode.exemplars)] == mode.mode).all()
