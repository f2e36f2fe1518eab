"""Slow and obvious versions of what findings rest on."""

from __future__ import annotations

import numpy as np


def oddness(reference, neighbours, rows):
    """The percentile of each row's distance to its k-th neighbour among the distances of the reference rows."""

    def distance(row, others):
        return sorted(float(np.sqrt(((row - other) ** 2).sum())) for other in others)[neighbours - 1]

    ladder = [distance(row, np.delete(reference, place, axis=0)) for place, row in enumerate(reference)]
    found = []
    for row in rows:
        own = distance(row, reference)
        below = sum(one < own for one in ladder)
        equal = sum(one == own for one in ladder)
        found.append((below + equal / 2) / len(ladder))
    return np.array(found)


def margins(distance, home, count):
    """By how much the nearest centre of a cluster is nearer than that of any other cluster."""
    found = np.full((len(distance), count), -np.inf)
    for i, row in enumerate(distance):
        nearest = [
            min((d for d, h in zip(row, home, strict=True) if h == k), default=np.inf) for k in range(count)
        ]
        for k in range(count):
            if nearest[k] < np.inf:
                found[i, k] = min(nearest[:k] + nearest[k + 1 :], default=np.inf) - nearest[k]
    return found


def decided(member, findings, leans=None):
    """Flag of each row: the smallest finding that a person decided about, else what is learned, else the default.

    ``leans`` says which rows are like the events; None if no event is named. Rows of ignored findings are never flagged.
    """
    doubted = any(one.decision == "normal" and one.flagged_by_default for one in findings)
    flags = []
    for i, row in enumerate(member):
        own = [one for one, inside in zip(findings, row, strict=True) if inside]
        by_person = sorted((one for one in own if one.decision), key=lambda one: (one.n_rows, one.number))
        if by_person and by_person[0].decision in ("event", "ignore"):
            flags.append(by_person[0].decision == "event")
            continue
        by_default = not by_person and any(one.flagged_by_default for one in own)
        if leans is None:
            flags.append(by_default)
        else:
            flags.append(bool(leans[i]) or (by_default and not doubted))
    return np.array(flags)


def holm(p_values):
    """P-values after Holm's correction."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        found[i] = largest
    return found


def joint(far_s, far_q, shares):
    """How many rows are among the farthest ones in s and in q, for each pair of shares."""
    n = len(far_s)

    def farthest(far, share):
        order = sorted(range(n), key=lambda i: -far[i])
        return {row for place, row in enumerate(order) if (place + 0.5) / n <= share}

    return np.array([[len(farthest(far_s, a) & farthest(far_q, b)) for b in shares] for a in shares])


def examples(findings, n, odd):
    """Row → whether it is an event, for rows of decided findings and of undecided ones that are not odd in both inputs."""
    told = {}
    for row in range(n):
        own = [one for one in findings if row in one.rows.tolist()]
        own = [one for one in own if one.decision != "ignore"]
        own = [one for one in own if one.decision or min(one.odd_s, one.odd_q) < odd]
        if own:
            told[row] = min(own, key=lambda one: (one.n_rows, one.number)).decision == "event"
    return told


def logistic_gradient(x, event, weight, offset, c):
    """The gradient of Σ w·log(1 + exp(−±z)) · c + |weight|²/2, where w counts events and normal rows alike."""
    gradient, of_offset, n = weight.copy(), 0.0, len(x)
    for row, is_event in zip(x, event, strict=True):
        size = n / 2 / sum(other == is_event for other in event)
        probability = 1 / (1 + np.exp(-(row @ weight + offset)))
        gradient += c * size * (probability - is_event) * row
        of_offset += c * size * (probability - is_event)
    return gradient, of_offset
