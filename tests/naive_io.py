"""Slow, obvious reference code for windows, alignment and triggers: anyone can check it."""

from __future__ import annotations


def window_starts(n, length, stride, time=None, groups=(), max_gap=None):
    """Walk over the rows; a window is taken wherever its rows hold together."""
    starts, row = [], 0
    while row < n:
        end = row + 1
        while end < n and not _breaks(end, time, groups, max_gap):
            end += 1
        start = row
        while start + length <= end:
            starts.append(start)
            start += stride
        row = end
    return starts


def _breaks(row, time, groups, max_gap):
    if any(group[row] != group[row - 1] for group in groups):
        return True
    return time is not None and max_gap is not None and time[row] - time[row - 1] > max_gap


def windows_of(values, starts, length):
    """Each window as channels × length."""
    return [
        [[values[start + k][c] for k in range(length)] for c in range(len(values[0]))] for start in starts
    ]


def row_scores(n, starts, length, scores, how, fill):
    result = []
    for row in range(n):
        held = [score for start, score in zip(starts, scores, strict=True) if start <= row < start + length]
        if not held:
            result.append(fill)
        else:
            result.append(max(held) if how == "max" else sum(held) / len(held))
    return result


def aligned(time_s, time_q, values_q, how, tolerance):
    """(row of s, value of q) for every row of s that has a partner."""
    result = []
    for row, t in enumerate(time_s):
        before = [i for i, u in enumerate(time_q) if u <= t]
        after = [i for i, u in enumerate(time_q) if u >= t]
        if how == "hold":
            if before and t - time_q[before[-1]] <= tolerance:
                result.append((row, values_q[before[-1]]))
        elif how == "nearest":
            best = min(range(len(time_q)), key=lambda i: (abs(time_q[i] - t), i))
            if abs(time_q[best] - t) <= tolerance:
                result.append((row, values_q[best]))
        elif before and after:
            a, b = before[-1], after[0]
            if a == b:
                result.append((row, values_q[a]))
            elif t - time_q[a] <= tolerance and time_q[b] - t <= tolerance:
                share = (t - time_q[a]) / (time_q[b] - time_q[a])
                result.append((row, values_q[a] + share * (values_q[b] - values_q[a])))
    return result


def relative_changes(values, limit):
    return [
        row > 0 and abs(values[row] - values[row - 1]) > limit * abs(values[row - 1])
        for row in range(len(values))
    ]


def events(flags, quiet):
    """Runs of flagged rows; flags at most ``quiet`` rows apart belong to one run."""
    runs = []
    for row, flag in enumerate(flags):
        if flag and runs and row - runs[-1][1] <= quiet:
            runs[-1][1] = row
        elif flag:
            runs.append([row, row])
    return runs
