"""Unhurried references for the coincident modes: loops over rows, pairs and modes."""

from __future__ import annotations

import math

import numpy as np


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


def coassociation(a, b):
    """For each pair of rows, how well the votes of the members agree, in s and in q."""

    def cosine(x, y):
        product = sum(i * j for i, j in zip(x, y, strict=True))
        return product / math.sqrt(sum(i * i for i in x) * sum(j * j for j in y))

    n, members = len(a[0]), len(a)
    both = []
    for votes in (a, b):
        both.append([[sum(cosine(m[i], m[j]) for m in votes) / members for j in range(n)] for i in range(n)])
    return [[math.sqrt(both[0][i][j] * both[1][i][j]) for j in range(n)] for i in range(n)]


def excess_loss(s, q, k, one, other):
    """What merging two modes loses, less what chance loses, in standard errors of that; infinite without votes."""
    rows = range(len(s))

    def used(mode):
        return any(s[i] == mode or q[i] == mode for i in rows)

    if one == other or not used(one) or not used(other):
        return math.inf

    def joint(s, q):
        p = [[sum(s[i] == x and q[i] == y for i in rows) / len(s) for y in range(k)] for x in range(k)]
        e = [[sum(p[x]) * sum(row[y] for row in p) for y in range(k)] for x in range(k)]
        return information(p, e)

    merged = [[one if v == other else v for v in votes] for votes in (s, q)]
    third = [m for m in range(k) if m not in (one, other)]
    free = 1
    free += sum(any(s[i] in (one, other) and q[i] == m for i in rows) for m in third)
    free += sum(any(q[i] in (one, other) and s[i] == m for i in rows) for m in third)
    return (2 * len(s) * (joint(s, q) - joint(*merged)) - free) / math.sqrt(2 * free)


def cross_information(s, q, fold, i):
    """ln(observed / chance) of the votes of row i, by the rows of the other folds and one row more on each side."""
    others = [j for j in range(len(s)) if fold[j] != fold[i]]
    joint = sum(s[j] == s[i] and q[j] == q[i] for j in others)
    chance = sum(s[j] == s[i] for j in others) * sum(q[j] == q[i] for j in others) / len(others)
    return math.log((joint + 1) / (chance + 1))


def window_features(window, width, within, edges, segments=None, floor=1e-3):
    """Features of a window (channels, points), by loops and a slow Fourier sum."""
    channels, points = len(window), len(window[0])
    level = [sum(x) / points for x in window]
    centred = [[v - level[c] for v in window[c]] for c in range(channels)]
    floored = [
        math.sqrt(sum(v * v for v in centred[c]) / points) + floor * within[c] for c in range(channels)
    ]
    ramp = [-1 + 2 * t / (points - 1) for t in range(points)]
    out = [level[c] / width[c] for c in range(channels)]
    out += [
        sum(v * r for v, r in zip(x, ramp, strict=True)) / points / width[c] for c, x in enumerate(centred)
    ]
    out += [math.log(floored[c] / within[c]) for c in range(channels)]
    out += [sum(v**3 for v in centred[c]) / points / floored[c] ** 3 for c in range(channels)]
    out += [math.log((max(centred[c]) - min(centred[c])) / floored[c] + floor) for c in range(channels)]
    taper = [0.5 - 0.5 * math.cos(2 * math.pi * (t + 1) / (points + 1)) for t in range(points)]
    norm = math.sqrt(sum(x * x for x in taper) / points)
    for c in range(channels):
        power = []
        for k in range(1, points // 2 + 1):
            turns = [-2j * math.pi * k * t / points for t in range(points)]
            total = sum(
                v * x / norm * np.exp(turn) for v, x, turn in zip(centred[c], taper, turns, strict=True)
            )
            power.append(abs(total) ** 2 / points)
        for i in range(len(edges) - 1):
            band = power[edges[i] : edges[i + 1]]
            out.append(math.log(sum(band) / len(band) / within[c] ** 2 + floor))
    for c in range(channels) if segments else ():
        for i in range(segments):
            part = window[c][round(i * points / segments) : round((i + 1) * points / segments)]
            out.append(sum(part) / len(part) / width[c])
    return out
