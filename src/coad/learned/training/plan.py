"""The fastest way to train on this machine, chosen by a short measurement.

Threads, memory format and precision change rounding, so the choice must stay the same: it is kept for the process
and, if the user's cache folder can be written, for the machine. The same seed then gives the same result.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from coad.data.atomic import write_durably
from coad.exceptions import FileError
from coad.learned.net_spec import Layout, NetSpec
from coad.learned.objective import CoincidenceLoss
from coad.learned.training.device import PROCESSOR, half, has_bfloat16
from coad.learned.training.duo import Duo, Rows
from coad.learned.training.model import Blueprint

__all__ = ["Plan", "choose_plan"]

log = logging.getLogger(__name__)

#: A later candidate replaces an earlier one only if it is this many times as fast.
_CLEARLY = 1.15
#: Rows of the measured training step.
_ROWS = 192
_chosen: dict[str, Plan] = {}


@dataclass(frozen=True)
class Plan:
    """Starts per stack, worker threads, torch threads in each worker, memory format, precision."""

    together: int
    workers: int = 1
    threads: int = 1
    layout: Layout = "default"
    bfloat16: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def choose_plan(
    blueprints: tuple[Blueprint, Blueprint],
    starts: int,
    heads: int,
    train: Rows,
    forced: dict[str, Any],
    device: torch.device = PROCESSOR,
) -> Plan:
    """The fastest candidate; ``forced`` fields were set by the user and are not measured."""
    if device.type != "cpu":
        return _on_gpu(blueprints, starts, forced, bfloat16=has_bfloat16(device))
    candidates = [Plan(**{**plan.to_dict(), **forced}) for plan in _candidates(blueprints, starts)]
    candidates = list(dict.fromkeys(candidates))
    if len(candidates) == 1:
        return candidates[0]
    key = _key(blueprints, starts, heads, candidates)
    if key not in _chosen:
        _chosen[key] = _stored(key, candidates) or _measured(key, candidates, blueprints, heads, train)
    return _chosen[key]


def _on_gpu(
    blueprints: tuple[Blueprint, Blueprint], starts: int, forced: dict[str, Any], *, bfloat16: bool
) -> Plan:
    """All starts in one stack; convolutions in bfloat16 with channels last. Not measured: taken from torch's advice.

    >>> from coad.learned.net_spec import NetSpec
    >>> flat = Blueprint(NetSpec(hidden=(4,)), (3,))
    >>> _on_gpu((flat, flat), 4, {}, bfloat16=True).bfloat16
    False
    """
    convolved = any(isinstance(b.source, NetSpec) and b.source.convs for b in blueprints)
    plan = Plan(
        starts, threads=torch.get_num_threads(), layout="channels_last" if convolved else "default"
    ).to_dict()
    return Plan(**{**plan, "bfloat16": convolved and bfloat16, **forced})


def _candidates(blueprints: tuple[Blueprint, Blueprint], starts: int) -> list[Plan]:
    cores = torch.get_num_threads()
    sources = [b.source for b in blueprints]
    if not all(isinstance(source, NetSpec) for source in sources):
        return [Plan(together=starts, threads=cores)]
    if not any(source.convs for source in sources if isinstance(source, NetSpec)):
        # Small matrices: one stack of all starts; more threads would only wait for each other.
        return [Plan(together=starts, threads=1)]
    workers = min(cores, starts)
    threads = max(1, cores // workers)
    plans = [Plan(1, workers, threads, "channels_last"), Plan(1, workers, threads, "default")]
    if starts >= 2 * workers:
        plans.append(Plan(min(4, starts // workers), workers, threads, "channels_last"))
    if _has_bfloat16():
        plans.append(Plan(1, workers, threads, "channels_last", bfloat16=True))
    return plans


def _measured(
    key: str, candidates: list[Plan], blueprints: tuple[Blueprint, Blueprint], heads: int, train: Rows
) -> Plan:
    seconds = [_cost(plan, blueprints, heads, train) for plan in candidates]
    best = 0
    for i in range(1, len(candidates)):
        if seconds[i] * _CLEARLY < seconds[best]:
            best = i
    for plan, cost in zip(candidates, seconds, strict=True):
        log.info("%s: %.2f ms per start and 100 rows", plan, 1e5 * cost / _ROWS)
    try:
        write_durably(_file(key), json.dumps(candidates[best].to_dict()).encode())
    except (FileError, OSError) as error:
        log.info("the choice is kept for this process only (%s)", error)
    return candidates[best]


def _cost(plan: Plan, blueprints: tuple[Blueprint, Blueprint], heads: int, train: Rows) -> float:
    """Seconds for one training step of one start, if the workers do not slow each other down."""
    nets = [blueprint.build(list(range(plan.together)), heads, apart=True) for blueprint in blueprints]
    duo = Duo(nets[0], nets[1], normalised=True)
    for net in nets:
        net.layout = plan.layout
    loss = CoincidenceLoss([1.0] * heads, 0.1)
    s, q = next(train.blocks(_ROWS))
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    times = []
    try:
        for _ in range(4):
            start = time.perf_counter()
            with half(duo.device, plan.bfloat16):
                z_s, z_q = duo.net_s(s), duo.net_q(q)
            loss(duo.head_s(z_s.float()), duo.head_q(z_q.float())).backward()
            times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    return min(times[1:]) / plan.together / plan.workers


def _has_bfloat16() -> bool:
    """Whether the processor has bfloat16 instructions; emulated, it is ten times slower."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in text or "amx_bf16" in text


def _key(blueprints: tuple[Blueprint, Blueprint], starts: int, heads: int, candidates: list[Plan]) -> str:
    facts = [
        torch.__version__,
        platform.processor() or platform.machine(),
        os.cpu_count(),
        [b.to_dict() for b in blueprints],
        starts,
        heads,
        [plan.to_dict() for plan in candidates],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _file(key: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "coad" / "plans" / f"{key}.json"


def _stored(key: str, candidates: list[Plan]) -> Plan | None:
    try:
        plan = Plan(**json.loads(_file(key).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return plan if plan in candidates else None
