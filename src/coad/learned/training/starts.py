"""All starts of a run: trained in stacks, on threads, and the best one selected."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coad.core.metric import fbeta_of
from coad.learned.training.device import PROCESSOR
from coad.learned.training.duo import Duo, Rows
from coad.learned.training.model import Blueprint, StartReport
from coad.learned.training.plan import Plan, choose_plan
from coad.learned.training.progress import Progress
from coad.learned.training.ranks import ALONE, Ranks
from coad.learned.training.selection import COLLAPSED_BELOW
from coad.learned.training.settings import Augment, Settings, Snapshot
from coad.learned.training.trainer import Trainer

__all__ = ["Run", "estimated_alpha", "report_starts", "train_starts"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """Snapshots of every start and β, the histories by seed, and how the work was arranged."""

    snapshots: list[Snapshot]
    histories: dict[int, list[dict[str, Any]]]
    plan: Plan


def train_starts(
    blueprints: tuple[Blueprint, Blueprint],
    seeds: Sequence[int],
    settings: Settings,
    train: Rows,
    validation: Rows,
    *,
    augment: Augment | None,
    forced: dict[str, Any],
    checkpoint: Path | None,
    checkpoint_seconds: float,
    identity: dict[str, Any],
    verbose: bool,
    ranks: Ranks = ALONE,
    device: torch.device = PROCESSOR,
) -> Run:
    """Train one start per seed; ``plan.together`` of them are stacked and share every operation.

    Several processes train the stacks one after the other, each with a part of every batch; or each takes some of the
    stacks, or a part of each where there are fewer stacks than processes.
    """
    plan = choose_plan(blueprints, len(seeds), len(settings.beta), train, forced, device)
    if ranks.count > 1:
        plan = Plan(**ranks.agreed((plan if ranks.of_starts else replace(plan, workers=1)).to_dict()))
    log.info("training %d starts: %s", len(seeds), plan)
    stacks = [list(seeds[i : i + plan.together]) for i in range(0, len(seeds), plan.together)]
    cut = (
        ranks.of_starts and len(stacks) < ranks.count
    )  # then one stack after the other, on which all peers agree
    parts = ranks.parts(stacks) if ranks.of_starts else list(enumerate(stacks))
    before = torch.get_num_threads()

    def one(stack: list[int]) -> Trainer | None:
        if not stack:
            _idle(ranks)
            return None
        duo = build_duo(blueprints, stack, settings, plan).to(device)
        trainer = Trainer(
            duo,
            stack,
            settings,
            train,
            validation,
            augment=augment,
            bfloat16=plan.bfloat16,
            checkpoint=None
            if checkpoint is None
            else checkpoint / f"seeds-{stack[0]}-{stack[-1]}.safetensors",
            checkpoint_seconds=checkpoint_seconds,
            identity={**identity, "plan": plan.to_dict()},
            ranks=ALONE if ranks.of_starts else ranks,
            peers=ranks if cut else ALONE,
        )
        last = 0

        def tick(now: Trainer) -> None:
            nonlocal last
            bar.advance((now.epoch - last) * len(stack), _progress_text(now))
            last = now.epoch

        trainer.run(tick)
        bar.advance((settings.epochs - last) * len(stack), _progress_text(trainer))
        return trainer

    torch.set_num_threads(plan.threads)
    try:
        steps = settings.epochs * sum(len(part) for _, part in parts)
        with Progress("training", steps, verbose=verbose) as bar:
            if plan.workers == 1 or cut:
                trainers = [one(part) for _, part in parts]
            else:
                with ThreadPoolExecutor(
                    plan.workers, initializer=torch.set_num_threads, initargs=(plan.threads,)
                ) as pool:
                    trainers = list(pool.map(one, [part for _, part in parts]))
    finally:
        torch.set_num_threads(before)
    done = [trainer for trainer in trainers if trainer is not None]
    snapshots = [snapshot for trainer in done for snapshot in trainer.snapshots()]
    histories = {seed: _of_member(t.history, k) for t in done for k, seed in enumerate(t.seeds)}
    run = Run(snapshots, histories, plan)
    return _joined(run, seeds, stacks, ranks) if ranks.of_starts else run


def _idle(ranks: Ranks) -> None:
    """Wait until the others have stopped after the same epoch: there are more processes than starts."""
    epoch, all_there = 0, False
    while not all_there:
        epoch, all_there = ranks.furthest(epoch)


def _joined(run: Run, seeds: Sequence[int], stacks: Sequence[Sequence[int]], ranks: Ranks) -> Run:
    """The starts of all processes, in the order that they have in one."""
    own = {
        "snapshots": [{**vars(one), "weights": list(one.weights)} for one in run.snapshots],
        "histories": [[seed, history] for seed, history in run.histories.items()],
    }
    snapshots: list[Snapshot] = []
    histories: dict[int, list[dict[str, Any]]] = {}
    for value, tensors in ranks.shared(own, [w for one in run.snapshots for w in one.weights.values()]):
        content = iter(tensors)
        for facts in value["snapshots"]:
            weights = {name: next(content) for name in facts["weights"]}
            maxima = tuple(facts["null_maxima"])
            snapshots.append(Snapshot(**{**facts, "weights": weights, "null_maxima": maxima}))
        histories |= dict(value["histories"])
    # The loss of an epoch is that of the stack: the sum over its parts, each of which is the same for all its starts.
    for stack in stacks if len(stacks) < ranks.count else []:
        firsts = [stack[Ranks(i, ranks.count).own(len(stack))][:1] for i in range(ranks.count)]
        for entries in zip(*(histories[seed] for seed in stack), strict=True):
            of_seed = dict(zip(stack, entries, strict=True))
            loss = sum(of_seed[seed]["loss"] for first in firsts for seed in first)
            for entry in entries:
                entry["loss"] = loss
    snapshots.sort(key=lambda one: seeds.index(one.seed))
    return Run(snapshots, {seed: histories[seed] for seed in seeds}, run.plan)


def build_duo(
    blueprints: tuple[Blueprint, Blueprint], seeds: Sequence[int], settings: Settings, plan: Plan
) -> Duo:
    """Both networks of some starts; each β has its own fully-connected layers, s and q differ in their seeds."""
    heads = len(settings.beta)
    net_s = blueprints[0].build([2 * seed for seed in seeds], heads, apart=True)
    net_q = blueprints[1].build([2 * seed + 1 for seed in seeds], heads, apart=True)
    net_s.layout = net_q.layout = plan.layout
    return Duo(net_s, net_q, normalised=settings.preset == "robust")


def report_starts(
    snapshots: Sequence[Snapshot], beta: float, alpha: float
) -> tuple[list[StartReport], Snapshot]:
    """The table of starts for one β, evaluated with one α, and the best snapshot."""
    own = [snapshot for snapshot in snapshots if snapshot.beta == beta]
    value = np.array([float(fbeta_of(x.true_positives, x.joint, beta, alpha)) for x in own])
    alive = np.array([min(x.mu_s, x.mu_q) >= COLLAPSED_BELOW for x in own])
    chosen = int(np.argmax(np.where(alive, value, value - 10.0)))
    table = []
    for x, f, living in zip(own, value, alive, strict=True):
        status = "ok"
        if not living or f < 0.5 * value[chosen]:
            status = "collapsed"
        elif f < 0.97 * value[chosen]:
            status = "worse optimum"
        if status != "ok":
            log.info("beta %g, start %d: %s (F̂ %.3f, best %.3f)", beta, x.seed, status, f, value[chosen])
        table.append(
            StartReport(
                seed=x.seed,
                status=status,
                fbeta_hat=float(f),
                precision_hat=float(fbeta_of(x.true_positives, x.joint, 0.0, alpha)),
                recall_hat=fbeta_of(x.true_positives, x.joint, math.inf, alpha),
                mu_s=x.mu_s,
                mu_q=x.mu_q,
                best_epoch=x.epoch,
                epochs=x.epochs,
            )
        )
    return table, own[chosen]


def estimated_alpha(snapshots: Sequence[Snapshot]) -> float:
    """The largest TP of any recall head (β = inf) on validation rows: a lower bound of the anomaly rate."""
    return float(np.clip(max(x.true_positives for x in snapshots if np.isinf(x.beta)), 0.002, 0.5))


def _of_member(history: list[dict[str, Any]], member: int) -> list[dict[str, Any]]:
    return [
        {name: value[member] if isinstance(value, list) else value for name, value in entry.items()}
        for entry in history
    ]


def _progress_text(trainer: Trainer) -> str:
    if not trainer.history:
        return ""
    last = trainer.history[-1]
    f = max(
        float(fbeta_of(tp[0], joint[0], trainer.settings.beta[0], a))
        for tp, joint, a in zip(last["true_positives"], last["joint"], last["alpha"], strict=True)
    )
    best = int(np.argmax([tp[0] for tp in last["true_positives"]]))
    tp, joint = last["true_positives"][best][0], last["joint"][best][0]
    return (
        f"F̂ {f:.3f}  P̂ {tp / max(joint, 1e-12):.3f}  R̂ {tp / last['alpha'][best]:.3f}  "
        f"mu_s {last['mu_s'][best][0]:.3f}  mu_q {last['mu_q'][best][0]:.3f}"
    )
