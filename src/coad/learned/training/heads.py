"""From settings to fitted heads: estimate α, train all starts, test the best one of each β against chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coad._typing import FloatArray
from coad.core.assessment import plausible_rate
from coad.core.rule import NEVER, Rule
from coad.core.verdict import NO_COINCIDENCE, status_of
from coad.learned.training.configure import forced_plan
from coad.learned.training.device import device_of
from coad.learned.training.duo import Rows, fingerprint
from coad.learned.training.model import Blueprint, Fitted, Scorer, StartReport, fold
from coad.learned.training.null import chance_of
from coad.learned.training.ranks import process_ranks
from coad.learned.training.settings import Settings, Snapshot
from coad.learned.training.starts import Run, estimated_alpha, report_starts, train_starts

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Trained", "near_best", "same_rows", "train_heads"]

#: An ensemble includes the starts with at least this fraction of the best F̂ (chosen by F1 on two simulated RF
#: stations), if their scores correlate with those of the best start at least this much (starts that agree have 0.8
#: to 1, starts that found other rows -0.4 or less), over at most this many validation rows.
_NEAR_BEST, _SAME_ROWS, _COMPARED_ROWS = 0.9, 0.5, 10_000


@dataclass(frozen=True)
class Trained:
    """α and its origin, the best start of each β, and the history of every start."""

    alpha: float
    how: str
    fitted: dict[float, Fitted]
    histories: dict[int, list[dict[str, Any]]]
    plan: dict[str, Any]


def train_heads(
    model: CoAD,
    blueprints: tuple[Blueprint, Blueprint],
    settings: Settings,
    heads: tuple[float, ...],
    rows: tuple[Rows, Rows],
    betas: tuple[float, ...],
) -> Trained:
    """Train on the first of ``rows``, select and test on the second; ``heads`` may have β = inf beside ``betas``."""
    train, held = rows
    folder = None if model.checkpoint is None else Path(model.checkpoint)
    seeds = [settings.seed + i for i in range(model.n_starts)]
    common: dict[str, Any] = {
        "augment": model.augment,
        "forced": forced_plan(model),
        "checkpoint_seconds": model.checkpoint_seconds,
        "identity": {"data": fingerprint(train, held), "nets": [b.to_dict() for b in blueprints]},
        "device": device_of(model.device),
        "ranks": (ranks := process_ranks(model.distributed)),
        "verbose": model.verbose and ranks.number == 0,
    }
    pilot = None
    if settings.alpha is None and not math.isinf(heads[-1]):
        # A network of the user has no output left for a recall head: a short run estimates α first.
        short = replace(settings, beta=(math.inf,) * len(heads), epochs=max(1, settings.epochs // 3))
        where = None if folder is None else folder / "pilot"
        first = train_starts(blueprints, seeds[:2], short, train, held, checkpoint=where, **common)
        pilot = estimated_alpha(first.snapshots)
        settings = replace(settings, alpha=pilot)
    run = train_starts(blueprints, seeds, settings, train, held, checkpoint=folder, **common)
    alpha, how = _alpha(model, run, pilot)
    fitted = {beta: _best(model, blueprints, run, beta, settings, alpha, held) for beta in betas}
    return Trained(alpha, how, fitted, run.histories, run.plan.to_dict())


def _alpha(model: CoAD, run: Run, pilot: float | None) -> tuple[float, str]:
    if pilot is not None:
        return pilot, "the largest TP that a short first run with beta = inf reached on validation data"
    if model.alpha == "auto":
        how = "the largest TP that a recall head (beta = inf) reached on validation data, over all starts"
        return estimated_alpha(run.snapshots), how
    return float(model.alpha), "given"


def _best(
    model: CoAD,
    blueprints: tuple[Blueprint, Blueprint],
    run: Run,
    beta: float,
    settings: Settings,
    alpha: float,
    held: Rows,
) -> Fitted:
    """The best start of a β; "no coincidence" if shuffled or shifted pairings of the validation rows do as well."""
    heads = settings.beta
    table, best = report_starts(run.snapshots, beta, alpha)
    null = np.max([x.null_maxima for x in run.snapshots if x.beta == beta], axis=0)
    chance = chance_of(best.correlation, null, settings.permutations, slow=bool(settings.memory))
    found = chance.p_value <= model.significance and best.true_positives > 0

    def scorers(members: Sequence[Snapshot]) -> tuple[Scorer, Scorer]:
        weights = [one.weights for one in members]
        both = [
            fold(b, weights, side, heads.index(beta), len(heads), normalised=model.preset == "robust")
            for b, side in zip(blueprints, "sq", strict=True)
        ]
        return both[0], both[1]

    members = [best]
    if model.ensemble:
        near = near_best(table, best.seed)
        own = {x.seed: x for x in run.snapshots if x.beta == beta and x.seed in near}
        scores = {seed: _product(*scorers([x]), held) for seed, x in own.items()}
        members = [x for seed, x in own.items() if same_rows(scores[seed], scores[best.seed])]
    background: Any = "all rows" if model.contexts_ is None else "context"
    rule = Rule(beta, alpha, model.alpha != "auto", background=background)
    slow = chance.shift_p_value > model.significance
    status = status_of(found, best.true_positives, plausible_rate(rule), slow=slow)
    return Fitted(
        beta,
        *scorers(members),
        rule=rule if status != NO_COINCIDENCE else replace(rule, thresholds=NEVER),
        starts=table,
        seed=best.seed,
        p_value=chance.p_value,
        status=status,
        ensemble=[one.seed for one in members],
    )


def near_best(reports: Sequence[StartReport], best: int) -> set[int]:
    """The seeds of the starts whose F̂ is close to that of the start ``best``, which is included."""
    top = next(report.fbeta_hat for report in reports if report.seed == best)
    near = {r.seed for r in reports if r.status != "collapsed" and r.fbeta_hat >= _NEAR_BEST * top}
    return near | {best}


def same_rows(product: FloatArray, of_best: FloatArray) -> bool:
    """Whether a start scores the same rows high as the best one: other optima of F̂ may mark other rows.

    >>> best = np.array([0.0, 0.1, 0.9, 1.0])
    >>> same_rows(best**2, best), same_rows(1 - best, best)
    (True, False)
    """
    if product is of_best:
        return True
    with np.errstate(divide="ignore", invalid="ignore"):
        return bool(np.corrcoef(product, of_best)[0, 1] >= _SAME_ROWS)


@torch.inference_mode()
def _product(scorer_s: Scorer, scorer_q: Scorer, rows: Rows) -> FloatArray:
    """p_s·p_q of the first validation rows, times their gates."""
    blocks = [scorer_s(s) * scorer_q(q) for s, q in rows.blocks(limit=_COMPARED_ROWS)]
    product = torch.cat(blocks)
    for gate in rows.gate or ():
        product = product * gate[: len(product)]
    return np.asarray(product.numpy(), dtype=np.float64)
