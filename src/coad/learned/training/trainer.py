"""The training loop: a stack of starts, selected by F̂ on validation rows, safe to interrupt.

One :class:`Trainer` trains a stack of *members* (one per start). After each epoch it computes the exact moments of
the validation set, and keeps for every member and β the weights of the best epoch. To guard against a single high
value by chance, an epoch is ranked by the lower of its own F̂ and the mean F̂ of the last few epochs. All random
numbers are derived from (seed, epoch), so a run that is resumed from a checkpoint gives the same result as one
without interruption.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coad.exceptions import CoadWarning, FileError, InputError
from coad.learned.nets import LoopedNet, StackedNet
from coad.learned.objective import CoincidenceLoss, Gate, sum_moments
from coad.learned.training.adam import Adam, Group
from coad.learned.training.checkpoint import difference, plain, read_state, write_state
from coad.learned.training.device import half, placed
from coad.learned.training.duo import SHIFTS, Duo, Rows, confidences, orient, settle
from coad.learned.training.null import NullMaximum
from coad.learned.training.ranks import ALONE, Ranks
from coad.learned.training.selection import figures, selection_score
from coad.learned.training.settings import Augment, Settings, Snapshot

__all__ = ["Trainer"]

log = logging.getLogger(__name__)

#: The first estimate of α, large enough for training to start with all coincidences; and the smallest estimate.
_FIRST_ALPHA, _LEAST_ALPHA = 0.2, 0.01
#: The fraction of a run in which the learning rate rises.
_WARM_UP = 0.1
#: In the loss of finite β, α starts at this fraction of its value and reaches it after half of the run, so that the
#: clearest coincidences are learned first. At full α, F̂ has local optima that also mark a noisy class.
_ALPHA_START = 0.1
#: Epochs over which F̂ is averaged when the best one is selected.
_RECENT = 5


class Trainer:
    """Trains the members of one :class:`Duo`; :meth:`run` returns the best epoch of each member for each β.

    Parameters
    ----------
    duo
        Both networks with their heads, on the device where they are trained.
    seeds
        The seed of each member.
    settings
        ``settings.beta`` are the β of the heads. If ``settings.alpha`` is None, the last β must be inf: the TP
        of this recall head on validation rows is the estimate of α.
    train, validation
        Scaled rows.
    augment, bfloat16
        Applied to every batch; whether the networks run in bfloat16.
    checkpoint, checkpoint_seconds, identity
        The file to resume from, how often it is written, and what must be equal to resume.
    ranks
        The processes that share every batch; the first one writes the checkpoints.
    peers
        The processes that train other members of this stack: all stop after the same epoch.
    """

    def __init__(
        self,
        duo: Duo,
        seeds: Sequence[int],
        settings: Settings,
        train: Rows,
        validation: Rows,
        *,
        augment: Augment | None = None,
        bfloat16: bool = False,
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 10.0,
        identity: dict[str, Any] | None = None,
        ranks: Ranks = ALONE,
        peers: Ranks = ALONE,
    ) -> None:
        if settings.alpha is None and not math.isinf(settings.beta[-1]):
            raise InputError("alpha is estimated by a head with beta = inf, which must come last")
        self.duo, self.seeds, self.settings = duo, list(seeds), settings
        self.train_rows, self.validation = train, validation
        self.augment, self.bfloat16, self.ranks, self.peers = augment, bfloat16, ranks, peers
        self.checkpoint, self.checkpoint_seconds = checkpoint, checkpoint_seconds
        self.identity = plain({"settings": asdict(settings), "seeds": self.seeds, **(identity or {})})
        self.objective = CoincidenceLoss(
            settings.beta,
            settings.alpha or _FIRST_ALPHA,
            preset=settings.preset,
            lambda_wall=settings.lambda_wall,
            lambda_mag=settings.lambda_mag,
            # An estimated α is a lower bound and must not cap TP.
            cap=settings.preset == "robust" and settings.alpha is not None,
            margin=settings.margin / math.sqrt(len(train)),
        ).to(duo.device)
        trained = {name: p for name, p in duo.named_parameters() if p.requires_grad}
        heads = [p for name, p in trained.items() if name.startswith("head_")]
        rest = [p for name, p in trained.items() if not name.startswith("head_")]
        self.optimizer = Adam([Group(rest, settings.lr), Group(heads, settings.lr * settings.head_rate)])
        shape = (duo.members, len(settings.beta))
        self.null = NullMaximum(
            len(validation),
            settings.permutations,
            settings.seed,
            validation.context,
            shape,
            ordered=settings.memory is not None,
        )
        self.epoch = 0
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, np.ndarray] = {
            name: np.zeros(shape)
            for name in ("true_positives", "joint", "mu_s", "mu_q", "correlation", "epoch")
        }
        self.record = {name: value.copy() for name, value in self.best.items() if name != "epoch"}
        self.recall = np.zeros(duo.members)
        self.smooth = np.zeros(duo.members)
        self.alpha = np.full(duo.members, settings.alpha or _FIRST_ALPHA)
        self.kept = [{k: v.clone() for k, v in duo.state_dict().items()} for _ in settings.beta]
        self._last_write = time.monotonic()

    def run(self, on_epoch: Callable[[Trainer], None] | None = None) -> list[Snapshot]:
        """Train to the end, from the checkpoint if there is one."""
        self._resume()
        self.ranks.wait()  # or the first one might write while another still reads
        goal, all_there = 0, False
        while not all_there:
            self._train_to(goal, on_epoch)
            goal, all_there = self.peers.furthest(self.epoch)
        self._save(force=True)
        return self.snapshots()

    def _train_to(self, goal: int, on_epoch: Callable[[Trainer], None] | None) -> None:
        """Train to an epoch, and on until no member has improved for a while."""
        while self.epoch < self.settings.epochs and (self.epoch < goal or not self._all_stopped()):
            loss = self._one_epoch()
            self.epoch += 1
            if self.duo.head_s.enabled and self._time_to_orient():
                early = self.epoch <= max(1, self.settings.epochs // 10)
                orient(self.duo, self.train_rows, self.objective, SHIFTS if early else (None,))
            if self.epoch % self.settings.evaluate_every == 0 or self.epoch == self.settings.epochs:
                self._evaluate(loss)
            self._save(force=False)
            if on_epoch is not None:
                on_epoch(self)

    def snapshots(self) -> list[Snapshot]:
        """The best epoch so far of each member for each β."""
        found = []
        for k, seed in enumerate(self.seeds):
            for h, beta in enumerate(self.settings.beta):
                part = self.duo.member(self.kept[h], k)
                found.append(
                    Snapshot(
                        seed=seed,
                        beta=beta,
                        epoch=int(self.best["epoch"][k, h]),
                        epochs=self.epoch,
                        **{
                            name: float(self.best[name][k, h])
                            for name in ("true_positives", "joint", "mu_s", "mu_q", "correlation")
                        },
                        null_maxima=tuple(self.null.maxima[:, k, h].tolist()),
                        alpha=float(self.alpha[k]),
                        weights={name: value.to("cpu", copy=True) for name, value in part.items()},
                    )
                )
        return found

    def _one_epoch(self) -> float:
        """One pass over the training rows (or ``epoch_size`` of them); the mean loss."""
        self.duo.train()
        rng = np.random.default_rng([self.settings.seed, self.epoch])
        order = rng.permutation(len(self.train_rows))[: self.settings.epoch_size]
        noise = torch.Generator().manual_seed(int(rng.integers(2**62)))
        losses = []
        gpus = [self.duo.device] if self.duo.device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus, enabled=isinstance(self.duo.net_s, LoopedNet)):
            if isinstance(self.duo.net_s, LoopedNet):  # dropout draws from the global generator
                torch.manual_seed(int(rng.integers(2**62)))
            batches = max(1, round(len(order) / self.settings.batch_size))
            # The running statistics of the heads average over about one epoch, because the weights change fast.
            self.duo.head_s.momentum = self.duo.head_q.momentum = max(0.1, 1.0 / batches)
            for number, index in enumerate(np.array_split(order, batches)):
                self._set_schedule((self.epoch + number / batches) / self.settings.epochs)
                s, q = self.train_rows.take(index)
                conditions = self.train_rows.conditions(index, self.duo.device)
                if self.augment is not None:
                    s, q = self.augment(s, q, noise)
                if self.settings.jitter > 0:
                    s, q = (x + self.settings.jitter * torch.randn(x.shape, generator=noise) for x in (s, q))
                s, q = placed(s, self.duo.device), placed(q, self.duo.device)
                losses.append(self._step(s, q, *conditions))
        return float(
            np.mean([float(one) for one in losses])
        )  # not in the loop, where a GPU would be waited for

    def _step(self, s: Tensor, q: Tensor, context: Tensor | None, gate: Gate | None = None) -> Tensor:
        self.optimizer.zero_grad()
        micro = self.settings.micro_batch or len(s)
        if micro < len(s) or self.ranks.count > 1:
            loss = self._in_two_passes(s, q, context, gate, micro)
        else:
            loss = self.objective(*self._forward(s, q), context, gate)
            loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _in_two_passes(
        self, s: Tensor, q: Tensor, context: Tensor | None, gate: Gate | None, micro: int
    ) -> Tensor:
        """The exact gradient of the whole batch with the memory of ``micro`` rows.

        The loss, and the normalised head with it, depends on the networks through one logit per row and head.
        The first pass collects the logits, of all processes, and the loss is differentiated by them; the second
        propagates these derivatives to the weights. It repeats the rows if they were too many to keep the graph.
        """
        duo, own = self.duo, self.ranks.own(len(s))
        nets = [(net, torch.split(x[own], micro)) for net, x in ((duo.net_s, s), (duo.net_q, q))]
        kept = all(len(parts) == 1 for _, parts in nets)
        logits, collected = [], []
        for net, parts in nets:
            with torch.set_grad_enabled(kept):
                z = torch.cat([self._logits(net, part) for part in parts], dim=1)
            logits.append(z)
            collected.append(self.ranks.gathered(z.detach(), len(s)).requires_grad_(True))
        loss: Tensor = self.objective(duo.head_s(collected[0]), duo.head_q(collected[1]), context, gate)
        loss.backward()  # type: ignore[no-untyped-call]
        for (net, parts), z, whole in zip(nets, logits, collected, strict=True):
            assert whole.grad is not None
            gradient = whole.grad[:, own]
            if kept:
                z.backward(gradient)  # type: ignore[no-untyped-call]
                continue
            for rows, part in zip(parts, torch.split(gradient, micro, dim=1), strict=True):
                self._logits(net, rows).backward(part)  # type: ignore[no-untyped-call]
        self.ranks.add_up(p for net, _ in nets for p in net.parameters())
        return loss

    def _forward(self, s: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        duo = self.duo
        return duo.head_s(self._logits(duo.net_s, s)), duo.head_q(self._logits(duo.net_q, q))

    def _logits(self, net: StackedNet | LoopedNet, x: Tensor) -> Tensor:
        """What a network gives before its head."""
        with half(self.duo.device, self.bfloat16):
            z: Tensor = net(x)
        return z.float() if self.bfloat16 else z

    def _evaluate(self, loss: float) -> None:
        if self.duo.head_s.enabled and self.epoch < 0.7 * self.settings.epochs:
            # While the learning rate is high, the running statistics lag behind the weights.
            settle(self.duo, self.train_rows, limit=512)
        p_s, p_q = confidences(self.duo, self.validation)
        moments = sum_moments(p_s, p_q, self.validation.context)
        now = figures(moments)
        now["correlation"] = self.null.update(p_s.numpy(), p_q.numpy())
        self._estimate_alpha(now["true_positives"])
        n = len(self.validation)
        alpha = self.alpha[:, None]
        score = selection_score(now, self.settings.beta, alpha, n)
        recent = self._recent_mean(now)
        smoothed = selection_score(recent, self.settings.beta, alpha, n)
        record = selection_score(self.record, self.settings.beta, alpha, n)
        better = (np.minimum(score, smoothed) > record) | (self.best["epoch"] == 0)
        for name, value in now.items():
            self.best[name][better] = value[better]
            self.record[name][better] = np.where(score < smoothed, value, recent[name])[better]
        self.best["epoch"][better] = self.epoch
        log.debug(
            "epoch %d, starts %s: F̂ %s, mu_s %s", self.epoch, self.seeds, score.round(3), now["mu_s"].round(3)
        )
        state = self.duo.state_dict()
        for k, h in np.argwhere(better):
            new = self.duo.member(state, int(k))
            for name, weight in self.duo.member(self.kept[h], int(k)).items():
                weight.copy_(new[name])
        self.history.append(
            {
                "epoch": self.epoch,
                "loss": loss,
                "alpha": self.alpha.tolist(),
                **{name: value.tolist() for name, value in now.items()},
            }
        )

    def _estimate_alpha(self, true_positives: np.ndarray) -> None:
        """Estimate α by the running maximum of the recall head's TP, exponentially smoothed.

        Until that head has learned, a high initial value, which decays exponentially, is used instead, so that
        the other heads also start with all coincidences.
        """
        if self.settings.alpha is not None:
            return
        self.smooth = 0.5 * self.smooth + 0.5 * np.nan_to_num(true_positives[:, -1])
        self.recall = np.maximum(self.recall, self.smooth)
        fading = _FIRST_ALPHA * 0.5 ** (self.epoch / max(1.0, 0.05 * self.settings.epochs))
        self.alpha = np.clip(np.maximum(self.recall, fading), _LEAST_ALPHA, 0.5)

    def _recent_mean(self, now: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The mean figures of this epoch and the few before it; with a constant learning rate, of this one only."""
        cosine = self.settings.schedule == "cosine"
        window = min(_RECENT, max(1, self.settings.epochs // 10)) if cosine else 1
        before = self.history[1 - window :] if window > 1 else []
        return {
            name: np.mean([value, *(entry[name] for entry in before)], axis=0) for name, value in now.items()
        }

    def _time_to_orient(self) -> bool:
        """After epochs 1, 2, 4, 8, ... of the first quarter, while there is time to recover from a change."""
        return self.epoch & (self.epoch - 1) == 0 and self.epoch <= max(1, self.settings.epochs // 4)

    def _set_schedule(self, done: float) -> None:
        """Set the learning rates and α; ``done`` is the completed fraction of the run."""
        factor = 1.0
        if self.settings.schedule == "cosine":
            falling = 0.5 * (1.0 + math.cos(math.pi * (done - _WARM_UP) / (1.0 - _WARM_UP)))
            factor = (done + 0.01) / (_WARM_UP + 0.01) if done < _WARM_UP else falling
        for group in self.optimizer.groups:
            group.lr = group.rate * factor
        ceiling = np.repeat(self.alpha[:, None], len(self.settings.beta), axis=1)
        alpha = ceiling.copy()
        finite = np.isfinite(self.settings.beta)
        if self.settings.preset == "robust":
            alpha[:, finite] *= _ALPHA_START + (1.0 - _ALPHA_START) * min(1.0, 2.0 * done)
        if self.settings.alpha is None:
            # The optimum of the recall head does not depend on α, which only scales its loss.
            alpha[:, ~finite] = _FIRST_ALPHA
        self.objective.set_alpha(torch.from_numpy(alpha), torch.from_numpy(ceiling))

    def _all_stopped(self) -> bool:
        """Whether no member has improved on any β within the patience."""
        if self.epoch == 0:
            return False
        return bool((self.epoch - self.best["epoch"] >= self.settings.patience).all())

    def _save(self, *, force: bool) -> None:
        """Write the checkpoint, which holds everything that the next epoch depends on."""
        due = time.monotonic() - self._last_write >= self.checkpoint_seconds
        if self.checkpoint is None or self.ranks.number or not (force or due):
            return
        tensors = {f"now.{k}": v for k, v in self.duo.state_dict().items()}
        for h, state in enumerate(self.kept):
            tensors |= {f"kept{h}.{k}": v for k, v in state.items()}
        tensors |= {f"adam.{k}": v for k, v in self.optimizer.state().items()}
        arrays = {"recall": self.recall, "smooth": self.smooth, "alpha": self.alpha, **self._best_arrays()}
        tensors |= {f"array.{k}": torch.from_numpy(v) for k, v in arrays.items()}
        try:
            facts = {"identity": self.identity, "epoch": self.epoch, "history": self.history}
            write_state(self.checkpoint, tensors, facts)
        except FileError as error:
            warnings.warn(f"{error}; training continues, but without checkpoints", CoadWarning, stacklevel=2)
            self.checkpoint = None
        self._last_write = time.monotonic()

    def _best_arrays(self) -> dict[str, np.ndarray]:
        kept = {f"best.{k}": v for k, v in self.best.items()}
        return {"null": self.null.maxima, **kept, **{f"record.{k}": v for k, v in self.record.items()}}

    def _resume(self) -> None:
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        tensors, facts = read_state(self.checkpoint)
        if facts.get("identity") != self.identity:
            what = difference(facts.get("identity"), self.identity)
            raise InputError(
                f"{self.checkpoint} belongs to another run ({what}); "
                "use another checkpoint folder, or delete this one to start again"
            )
        self.duo.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("now.")})
        for h, state in enumerate(self.kept):
            for name, value in state.items():
                value.copy_(tensors[f"kept{h}.{name}"])
        self.optimizer.load({k[5:]: v for k, v in tensors.items() if k.startswith("adam.")})
        self.recall, self.smooth, self.alpha = (
            tensors[f"array.{k}"].numpy().copy() for k in ("recall", "smooth", "alpha")
        )
        self.best = {k: tensors[f"array.best.{k}"].numpy().copy() for k in self.best}
        self.record = {k: tensors[f"array.record.{k}"].numpy().copy() for k in self.record}
        self.null.maxima = tensors["array.null"].numpy().copy()
        self.epoch, self.history = facts["epoch"], facts["history"]
        log.info("resumed from %s at epoch %d", self.checkpoint, self.epoch)
