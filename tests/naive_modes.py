"""Unhurried references for the coincident modes: loops over rows, pairs and modes."""

from __future__ import annotations

import math


def table(a, b):
    """P_kl by a loop over rows."""
    n, k = len(a), len(a[0])
    return [[sum(a[i][x] * b[i][y] for i in range(n)) / n for y in range(k)] for x in range(k)]


def chance(a, b, context):
    """The table of independence within each stratum."""
    n, k = len(a), len(a[0])
    out = [[0.0] * k for _ in range(k)]
    for label in set(context):
        rows = [i for i in range(n) if context[i] == label]
        for x in range(k):
            for y in range(k):
                mean_a = sum(a[i][x] for i in rows) / len(rows)
                mean_b = sum(b[i][y] for i in rows) / len(rows)
                out[x][y] += len(rows) / n * mean_a * mean_b
    return out


def information(p, e):
    """Σ p ln(p / e)."""
    return sum(
        x * math.log(x / y)
        for row, other in zip(p, e, strict=True)
        for x, y in zip(row, other, strict=True)
        if x > 0
    )


def contingency(p, e):
    """Σ p² / e."""
    return sum(
        x * x / y for row, other in zip(p, e, strict=True) for x, y in zip(row, other, strict=True) if x > 0
    )


def kappa(votes, k, m):
    """Cohen's κ of the rows for which both inputs vote for k or m."""
    rows = [(x, y) for x, y in votes if x in (k, m) and y in (k, m)]
    n = len(rows)
    observed = sum(x == y for x, y in rows) / n
    expected = sum((sum(x == c for x, _ in rows) / n) * (sum(y == c for _, y in rows) / n) for c in (k, m))
    return (observed - expected) / (1 - expected)
