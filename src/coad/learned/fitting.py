"""The steps of a fit: check settings and rows, split, scale, train, set thresholds, warn."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.core.background import Background
from coad.core.validation import seed_of
from coad.core.verdict import NO_COINCIDENCE
from coad.data.pairs import unpacked
from coad.exceptions import NoCoincidenceWarning
from coad.learned.background import FitScores, judge_background, searched_rule
from coad.learned.context import fitted_context
from coad.learned.scaling import Scaler
from coad.learned.training.configure import (
    blueprints_for,
    check_settings,
    settings_for,
    warn_of_small_batches,
)
from coad.learned.training.duo import StoredRows
from coad.learned.training.heads import train_heads
from coad.learned.training.inputs import (
    as_context,
    as_gate,
    as_pair,
    as_times,
    names_of,
    reject_constant,
    warn_of_outliers,
    warn_of_repeated_readings,
)
from coad.learned.training.ranks import process_ranks
from coad.learned.training.split import correlation_length, hold_out, in_time_order, new_rows

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["LEAST_ROWS", "fit_model"]

LEAST_ROWS = 50


def fit_model(model: CoAD, s: Any, q: Any, *, context: Any, group: Any, time: Any, gate: Any = None) -> None:
    """See :meth:`coad.CoAD.fit`."""
    betas = check_settings(model)
    model.names_s_, model.names_q_ = names_of(s, q)
    model.layout_ = None
    s, q, context, group, time = unpacked(s, q, context, group, time)
    rows_s, rows_q = as_pair(s, q, least=LEAST_ROWS)
    model.context_ = None
    if model.context is not None:
        model.context_ = fitted_context(model.context, s, q, group=group, time=time)
    labels = as_context(model.known_context(s, q, context), len(rows_s))
    gates = as_gate(gate, len(rows_s))
    reject_constant(rows_s, "s")
    reject_constant(rows_q, "q")
    seed = process_ranks(model.distributed).agreed({"seed": seed_of(model.random_state)})["seed"]
    rng = np.random.default_rng(seed)
    split_labels = {"random": None, "group": group, "time": time}.get(model.split)
    new = new_rows(rows_s, rows_q)
    among = np.arange(len(rows_s)) if new is None else np.flatnonzero(new)
    if new is not None:
        warn_of_repeated_readings(new, "only the first row of each reading is used", least=LEAST_ROWS)
    codes = None if labels is None else np.unique(labels, return_inverse=True)[1]
    memory = None
    if model.ordered:
        among = in_time_order(among, as_times(time, len(rows_s)))
        memory = correlation_length(rows_s, rows_q, among, codes)
    train, held = hold_out(
        len(rows_s), model.validation, model.split, split_labels, rng, among, memory=memory or 0
    )
    blueprints = blueprints_for(model.net, rows_s.shape[1:], rows_q.shape[1:])
    model.scaler_s_, model.scaler_q_ = (
        Scaler.fit(x, labels, train) if model.scale else None for x in (rows_s, rows_q)
    )
    warn_of_outliers(model.scaler_s_, rows_s, "s", model.names_s_)
    warn_of_outliers(model.scaler_q_, rows_q, "q", model.names_q_)
    model.shape_s_, model.shape_q_ = rows_s.shape[1:], rows_q.shape[1:]
    model.contexts_ = None if labels is None else np.unique(labels).tolist()
    model.validation_rows_ = held
    settings, heads = settings_for(model, betas, len(train), len(held), seed, blueprints)
    settings = replace(settings, memory=memory)
    # Rows are taken and scaled batch by batch; indexing the whole array would double the memory.
    scalers = (model.scaler_s_, model.scaler_q_)
    stored = [StoredRows((rows_s, rows_q), scalers, index, labels, codes, gates) for index in (train, held)]
    found = train_heads(model, blueprints, settings, heads, (stored[0], stored[1]), betas)
    model.alpha_, model.alpha_how_ = found.alpha, found.how
    model.fitted_, model.history_, model.plan_ = found.fitted, found.histories, found.plan
    model.random_state_, model.blueprints_ = seed, blueprints
    model.kinds_ = None
    for beta, own in found.fitted.items():
        chance = own.p_value
        if own.status == NO_COINCIDENCE and model.background != "independent":
            own.background = Background(why="not measured, for training found nothing")
        elif own.status != NO_COINCIDENCE and (
            own.scorer_s.net.members > 1 or model.background != "independent"
        ):
            p_s, p_q = model.at(beta).confidences(rows_s, rows_q, context)
            if gates is not None:
                p_s, p_q = p_s * gates[0], p_q * gates[1]
            if own.scorer_s.net.members > 1:
                # Each start was trained for a threshold of one half; the mean of several was not.
                rule = searched_rule(model.at(beta), p_s, p_q, labels, alpha=model.alpha, n_permutations=0)
                own.rule = rule if np.isfinite(rule.thresholds).all() else own.rule
            used = np.sort(np.r_[train, held])
            scores = FitScores(
                p_s[used], p_q[used], None if codes is None else codes[used], np.isin(used, held)
            )
            judge_background(own, scores, model.background, model.significance, seed)
        if own.status == NO_COINCIDENCE and own.p_value > chance:
            warnings.warn(
                f"no coincidence found for beta = {beta:g}: correlated inputs do as well on the {len(held):,} validation "
                f"rows (p = {own.p_value:.3g}; {own.background.why}); nothing will be flagged",
                NoCoincidenceWarning,
                stacklevel=3,
            )
        elif own.status == NO_COINCIDENCE:
            slow = ""
            if memory:
                slow = f"; inputs stay alike for {memory:,} rows: if rows are in no order, say so (ordered=False, --unordered)"
            warnings.warn(
                f"no coincidence found for beta = {beta:g}: other pairings do as well on the "
                f"{len(held):,} validation rows (p = {own.p_value:.3g}); nothing will be flagged{slow}",
                NoCoincidenceWarning,
                stacklevel=3,
            )
    warn_of_small_batches(settings.batch_size, model.alpha_)
