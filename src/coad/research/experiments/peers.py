"""Compare methods on the same splits of the same data.

Each method is fitted on the training rows of each split (without labels, except for methods that are
marked as using them) and evaluated on the test rows. Results are saved to a Parquet file after each
fit, so an interrupted run resumes where it stopped; failed fits are repeated.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coad import __version__
from coad.core.verdict import FOUND, SHARED_REGIME
from coad.data.atomic import check_writable
from coad.data.pairs import Pairs
from coad.exceptions import CoadWarning, InputError
from coad.research.baselines.registry import Method, chosen_methods
from coad.research.baselines.rows import Sides
from coad.research.baselines.strategies import (
    JOINT,
    Judged,
    judge_pair,
    judge_single,
    run_one_input,
    run_two_inputs,
)
from coad.research.experiments._progress import Progress, silent
from coad.research.experiments.peer_data import BenchData
from coad.research.experiments.peer_results import PeersRun, Result, merged, read_results, write_results

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["run_peers"]


def run_peers(
    data: Sequence[BenchData],
    methods: Sequence[str] = ("all",),
    *,
    splits: int = 5,
    quick: bool = False,
    random_state: int = 0,
    store: str | Path | None = None,
    progress: Progress = silent,
) -> PeersRun:
    """Fit and evaluate the methods on every split of each data set.

    Parameters
    ----------
    data
        The data sets.
    methods
        Names of methods, or ``"all"``; see :func:`coad.research.baselines.registry.chosen_methods`.
    splits
        Number of splits per data set.
    quick
        Train the networks for fewer epochs.
    random_state
        Seed of the splits and of the methods.
    store
        Parquet file to which results are saved; fits that it already holds are not repeated.
    progress
        Called with one line after each fit.

    Returns
    -------
    PeersRun
        One result per method, split and strategy.
    """
    if splits < 1:
        raise InputError(f"splits must be at least 1, not {splits}")
    path = None if store is None else check_writable(Path(store))
    plans = [
        (one, chosen_methods(methods, one.name, regimes=one.regimes, labelled=one.labelled)) for one in data
    ]
    stored = [] if path is None else read_results(path)
    results: list[Result] = []
    for one, chosen in plans:
        key = _key(one, quick, random_state)
        old = [row for row in stored if row.key == key and not row.error]
        for split in range(splits):
            sides: Sides | None = None
            for method in chosen:
                done = [row for row in old if (row.method, row.split) == (method.name, split)]
                if done:
                    results += done
                    continue
                if sides is None:
                    sides = Sides(*one.split(split, random_state), seed=random_state + 1000 * split)
                rows = _fit_and_judge(one, method, sides, split, key, quick)
                results += rows
                if path is not None:
                    stored = merged(stored, rows)
                    write_results(path, stored)
                progress(f"{one.name}, split {split + 1} of {splits}, {method.title}: {_in_words(rows)}")
    return PeersRun(results, {one.name: one.source for one in data})


def _fit_and_judge(
    data: BenchData, method: Method, sides: Sides, split: int, key: str, quick: bool
) -> list[Result]:
    start = time.monotonic()
    try:
        with warnings.catch_warnings():
            # The content of these warnings (status, α) is part of the result row.
            warnings.simplefilter("ignore", CoadWarning)
            judged = _judge(data, method, sides, quick)
    except Exception as error:  # a failing peer is recorded in a row of its own and must not stop the others
        text = (str(error).strip().splitlines() or [""])[0]
        reason = f"{type(error).__name__}: {text}"[:200]
        return [
            Result(key, data.name, method.name, "", split, error=reason, seconds=time.monotonic() - start)
        ]
    seconds = time.monotonic() - start
    return [
        Result(
            key, data.name, method.name, one.strategy, split,
            one.own, one.ours, one.best, one.average_precision, seconds, "", one.flagged, one.note,
        )
        for one in judged
    ]  # fmt: skip


def _judge(data: BenchData, method: Method, sides: Sides, quick: bool) -> list[Judged]:
    train = sides.train
    if method.labels and train.label is None:
        raise InputError("this method learns from labels, and the data have none")
    if method.labels and len(np.unique(np.asarray(train.label, dtype=bool))) < 2:
        raise InputError("this method learns from labels, and all rows of this split have the same label")
    if method.kind == "coincidence":
        return [_coincidence(data, method, train, sides.test, quick, sides.seed)]
    if method.kind == "catalogue":
        return [_catalogue(method.make(sides.seed, quick, data.setting), train, sides.test)]
    rows = sides.reduced if method.reduced else sides.scaled
    if method.kind == "one input":
        return run_one_input(
            lambda: method.make(sides.seed, quick, data.setting),
            rows,
            healthy_only=method.labels == "healthy",
            either=data.either,
        )
    labels = method.labels == "all"
    setting = {**data.setting, **data.supervised} if labels else data.setting
    return run_two_inputs(method.make(sides.seed, quick, setting), rows, labels=labels, either=data.either)


def _coincidence(
    data: BenchData, method: Method, train: Pairs, test: Pairs, quick: bool, seed: int
) -> Judged:
    """CoAD: ``own`` is its decision after training, ``ours`` uses thresholds searched on the training rows."""
    regimes = method.name == "coad"
    if data.fit_coad is not None:
        setting = {"epochs": 20, "n_starts": 2} if quick else {}
        return data.fit_coad(train, test, regimes, seed, setting)
    context_train, context_test = (train.context, test.context) if regimes else (None, None)
    detector = method.make(seed, quick, data.setting)
    group = {"group": train.group} if train.group is not None else {}
    if group:
        detector.set_params(split="group")
    detector.fit(train.s, train.q, context=context_train, **group)
    p_s, p_q = detector.confidences(test.s, test.q, context_test)
    on_train = detector.confidences(train.s, train.q, context_train)
    judged = judge_pair(
        on_train, (p_s, p_q), test.label, own=detector.rule_.flags(p_s, p_q), context=context_train
    )
    status = detector.status_
    if status == SHARED_REGIME:
        status += ": the inputs share more than events; name the regime (--context), or see coad modes"
    return judged if status == FOUND else replace(judged, note=status)


def _catalogue(modes: CoincidenceModes, train: Pairs, test: Pairs) -> Judged:
    """Coincident modes: rows of rare modes are flagged; there is one score, and no pair of thresholds."""
    modes.fit(train)
    rows = modes.score_rows(test)
    judged = judge_single(rows.score, test.label, None, own=rows.flag)
    return replace(judged, strategy=JOINT, note="" if modes.status_ == FOUND else modes.status_)


def _in_words(rows: Sequence[Result]) -> str:
    if rows[0].error:
        return f"failed: {rows[0].error}"
    row = max(rows, key=lambda one: -1.0 if one.best is None else one.best)
    values = [
        f"{name} F1 {value:.3f}"
        for name in ("own", "ours", "best")
        if (value := getattr(row, name)) is not None
    ]
    if not values and row.flagged is not None:
        values = [f"{row.flagged:.1%} flagged"]
    return f"{', '.join(values) or 'no labels, F1 cannot be computed'} ({row.seconds:.0f} s)"


def _key(data: BenchData, quick: bool, seed: int) -> str:
    """Hash of data and settings; the number of splits is left out, so that splits can be added later."""
    setting, supervised = (
        sorted((name, getattr(value, "__name__", value)) for name, value in part.items())
        for part in (data.setting, data.supervised)
    )
    facts = (
        data.name, data.source, data.fingerprint, setting, supervised, data.either, quick, seed, __version__
    )  # fmt: skip
    text = "|".join(map(str, facts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
