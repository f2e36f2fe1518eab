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


def decided(member, findings):
    """Flag of each row: the smallest finding that a person decided about, else any that is flagged by default."""
    flags = []
    for row in member:
        own = [one for one, inside in zip(findings, row, strict=True) if inside]
        by_person = sorted((one for one in own if one.decision), key=lambda one: (one.n_rows, one.number))
        flags.append(by_person[0].decision == "event" if by_person else any(one.flagged for one in own))
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


def followed(findings):
    """For each finding, whose answer it takes: None, or the number of the nearest one that has an answer."""
    answers = {one.number: one.decision for one in findings if one.decision in ("event", "normal")}
    if set(answers.values()) != {"event", "normal"}:
        return [None] * len(findings)
    for one in findings:
        if one.number not in answers and (one.odd_s < 0.5 or one.odd_q < 0.5):
            answers[one.number] = "normal"
    told = []
    for one in findings:
        others = [k for k in answers if k != one.number]
        distance = {k: ((findings[k - 1].centre - one.centre) ** 2).sum() for k in others}
        told.append(None if one.decision else min(others, key=distance.get))
    return told
