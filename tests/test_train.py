from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from makers import event_rows

from coad.data import atomic
from coad.exceptions import CoadWarning, FileError, InputError
from coad.learned.net_spec import NetSpec, preset
from coad.learned.nets import StackedNet
from coad.learned.objective import CoincidenceLoss
from coad.learned.training.adam import Adam, Group
from coad.learned.training.checkpoint import read_state, write_state
from coad.learned.training.duo import Duo, Rows, confidences, orient
from coad.learned.training.model import Blueprint
from coad.learned.training.null import NullMaximum, p_value
from coad.learned.training.plan import Plan, choose_plan
from coad.learned.training.settings import Settings
from coad.learned.training.split import hold_out
from coad.learned.training.trainer import Trainer
from killing import killed


def pairs(n: int = 400, seed: int = 0) -> Rows:
    s, q, _ = event_rows(n, seed=seed)
    return Rows(*(torch.from_numpy(x.astype(np.float32)) for x in (s, q)))


def duo(seeds=(0,), heads: int = 1) -> Duo:
    spec = NetSpec(hidden=(8, 8))
    return Duo(
        StackedNet(spec, (4,), [2 * s for s in seeds], heads),
        StackedNet(spec, (4,), [2 * s + 1 for s in seeds], heads),
        normalised=True,
    )


def settings(**changes) -> Settings:
    return Settings(
        **{
            "beta": (1.0,),
            "alpha": 0.1,
            "epochs": 30,
            "batch_size": 150,
            "patience": 99,
            "seed": 0,
            **changes,
        }
    )


def trainer(seeds=(0,), **changes) -> Trainer:
    own = settings(**changes)
    rows = pairs()
    return Trainer(
        duo(seeds, len(own.beta)),
        seeds,
        own,
        Rows(rows.s[:300], rows.q[:300]),
        Rows(rows.s[300:], rows.q[300:]),
    )


def test_training_lowers_the_loss_moves_the_weights_and_separates_the_scores():
    run = trainer(epochs=60)
    before = {k: v.clone() for k, v in run.duo.state_dict().items()}
    run.run()
    losses = [entry["loss"] for entry in run.history]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    moved = {k for k, v in run.duo.state_dict().items() if not torch.equal(before[k], v)}
    assert moved >= {k for k, p in run.duo.named_parameters() if p.requires_grad}
    p_s, p_q = confidences(run.duo, pairs(seed=9))
    product = (p_s * p_q)[0, :, 0].numpy()
    _, _, label = event_rows(400, seed=9)
    assert product[label].mean() > 0.6
    assert product[~label].mean() < 0.15


def test_stacked_starts_are_trained_as_single_ones():
    together = trainer((0, 1, 2), epochs=5).run()
    alone = trainer((1,), epochs=5).run()[0]
    same = next(x for x in together if x.seed == 1)
    assert same.true_positives == pytest.approx(alone.true_positives, abs=1e-4)
    for name, value in alone.weights.items():
        torch.testing.assert_close(same.weights[name], value, atol=1e-4, rtol=1e-3)


def test_micro_batches_step_like_the_whole_batch():
    whole, parts = trainer(), trainer(micro_batch=40)
    rows = pairs()
    for run in (whole, parts):
        run.duo.double().train()
        # Without Adam's step: it is the gradient that must be the same.
        run.optimizer = torch.optim.SGD(run.duo.parameters(), lr=0.0)
        run._forward = lambda s, q, run=run: run.duo(s, q)
        run._step(rows.s[:150].double(), rows.q[:150].double(), None)
    for (name, a), b in zip(whole.duo.named_parameters(), parts.duo.parameters(), strict=True):
        if a.requires_grad:
            torch.testing.assert_close(
                a.grad, b.grad, atol=1e-6 * float(a.grad.abs().max()), rtol=0, msg=name
            )


def test_same_seed_same_result_and_other_seed_another():
    first, second, other = trainer().run()[0], trainer().run()[0], trainer((1,)).run()[0]
    assert all(torch.equal(first.weights[k], second.weights[k]) for k in first.weights)
    assert any(not torch.equal(first.weights[k], other.weights[k]) for k in first.weights)


def test_best_epoch_is_kept_not_the_last():
    run = trainer(epochs=40)
    best = run.run()[0]
    seen = [entry["true_positives"][0][0] for entry in run.history]
    assert best.true_positives == pytest.approx(seen[best.epoch - 1])
    model = duo()
    model.load_state_dict(best.weights)
    p_s, p_q = confidences(model, run.validation)
    assert (p_s * p_q).mean().item() == pytest.approx(best.joint, abs=1e-6)


def test_patience_ends_the_run():
    run = trainer(epochs=400, patience=15)
    best = run.run()[0]
    assert run.epoch < 400
    assert run.epoch - best.epoch >= 15


def test_alpha_is_estimated_by_the_recall_head():
    run = trainer(beta=(1.0, math.inf), alpha=None, epochs=80)
    run.run()
    assert 0.05 < run.alpha[0] < 0.2


def test_orient_flips_heads_that_mark_the_normal_rows():
    run = trainer(epochs=60)
    run.run()
    with torch.no_grad():
        for head in (run.duo.head_s, run.duo.head_q):
            head.scale *= -1
    rows = pairs()
    loss = CoincidenceLoss(1.0, 0.1)
    assert orient(run.duo, rows, loss) == 1
    p_s, p_q = confidences(run.duo, rows)
    assert (p_s * p_q).mean() < 0.3
    assert orient(run.duo, rows, loss) == 0


CHILD = """
import sys, torch
sys.path.insert(0, sys.argv[2])
torch.set_num_threads(1)
from pathlib import Path
import test_train as t
own = t.settings(epochs=120, beta=(1.0, float("inf")), alpha=None)
rows = t.pairs()
run = t.Trainer(t.duo((0, 1), 2), (0, 1), own, t.Rows(rows.s[:300], rows.q[:300]), t.Rows(rows.s[300:], rows.q[300:]),
                checkpoint=Path(sys.argv[1]), checkpoint_seconds=0.0)
(Path(sys.argv[1]).parent / "ready").touch()
run.run()
"""


def _child(path: Path) -> subprocess.Popen[bytes]:
    path.parent.mkdir(exist_ok=True, parents=True)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", CHILD, str(path), str(Path(__file__).parent)], env=env)


@pytest.mark.slow
def test_killed_and_resumed_training_is_bit_identical(tmp_path):
    whole = tmp_path / "whole" / "state.safetensors"
    assert _child(whole).wait(120) == 0
    broken = tmp_path / "broken" / "state.safetensors"
    kills = 0
    for _ in range(4):
        ready = broken.parent / "ready"
        ready.unlink(missing_ok=True)
        kills += killed(_child(broken), ready.exists, 0.4)
    assert kills > 0
    assert _child(broken).wait(120) == 0
    one, other = read_state(whole), read_state(broken)
    assert one[1] == other[1]
    assert one[1]["epoch"] == 120
    assert one[0].keys() == other[0].keys()
    assert all(torch.equal(one[0][name], other[0][name]) for name in one[0])


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    for epochs, refused in ((3, False), (4, True)):
        run = trainer(epochs=epochs)
        run.checkpoint = path
        if refused:
            with pytest.raises(InputError, match="different epochs"):
                run.run()
        else:
            run.run()


def test_damaged_checkpoint_is_named(tmp_path):
    path = tmp_path / "x.safetensors"
    write_state(path, {"a": torch.ones(3)}, {"epoch": 1})
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FileError, match="damaged"):
        read_state(path)


def test_full_disk_warns_and_the_training_is_not_lost(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    run = trainer(epochs=5)
    run.checkpoint, run.checkpoint_seconds = tmp_path / "x.safetensors", 0.0
    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.warns(CoadWarning, match="No space left"):
        found = run.run()
    assert found[0].epoch > 0
    assert not list(tmp_path.iterdir())


def test_checkpoint_is_replaced_only_when_whole(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    write_state(path, {"a": torch.ones(3)}, {"epoch": 1})
    monkeypatch.setattr(atomic.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with pytest.raises(FileError, match="I/O error"):
        write_state(path, {"a": torch.zeros(3)}, {"epoch": 2})
    assert read_state(path)[1] == {"epoch": 1}


def test_null_maximum_is_valid_under_selection():
    rng = np.random.default_rng(0)
    values = []
    for trial in range(60):
        null = NullMaximum(150, 99, trial, None, (1, 1))
        best = -1.0
        for _ in range(10):
            p_s, p_q = rng.random((2, 1, 150, 1))
            best = max(best, float(null.update(p_s, p_q)[0, 0]))
        values.append(p_value(best, null.maxima[:, 0, 0]))
    assert np.mean(np.array(values) <= 0.1) < 0.25


def test_null_shuffles_within_strata():
    context = torch.tensor([0, 1, 0, 1, 1, 2])
    null = NullMaximum(6, 50, 0, context, (1, 1))
    assert (context.numpy()[null.order] == context.numpy()).all()
    assert (np.sort(null.order, axis=1) == np.arange(6)).all()


@pytest.mark.parametrize("how", ["random", "group", "time"])
def test_split_covers_all_rows_once_and_respects_groups_and_time(how):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 10)
    train, held = hold_out(100, 0.2, how, None if how == "random" else labels, rng)
    assert sorted([*train, *held]) == list(range(100))
    assert 10 <= len(held) <= 30
    if how != "random":
        assert not set(labels[train]) & set(labels[held])
    if how == "time":
        assert labels[held].min() > labels[train].max()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fastest", ["default", "channels_last", "bfloat16"])
def test_the_plan_is_the_fastest_measured_and_is_remembered(threads, fastest, tmp_path, monkeypatch):
    def cost(plan: Plan, *_) -> float:
        measured.append(plan)
        return 1.0 if ("bfloat16" if plan.bfloat16 else plan.layout) == fastest else 2.0

    measured: list[Plan] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("coad.learned.training.plan._chosen", {})
    monkeypatch.setattr("coad.learned.training.plan._cost", cost)
    monkeypatch.setattr("coad.learned.training.plan._has_bfloat16", lambda: True)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    spec = preset("milling")[0]
    both = (Blueprint(spec, (1, 64)), Blueprint(spec, (1, 64)))
    plan = choose_plan(both, 4, 1, pairs(), {})
    assert plan == (
        Plan(1, threads, 1, "channels_last" if fastest == "bfloat16" else fastest, fastest == "bfloat16")
    )
    assert {(one.layout, one.bfloat16) for one in measured} == {
        ("default", False), ("channels_last", False), ("channels_last", True)
    }  # fmt: skip
    assert len(measured) == 4  # and one with several starts in a stack
    monkeypatch.setattr("coad.learned.training.plan._chosen", {})
    assert choose_plan(both, 4, 1, pairs(), {}) == plan
    assert len(measured) == 4, "the second time it is read from the cache folder"
    assert choose_plan(both, 4, 1, pairs(), {"layout": "default", "bfloat16": False}).layout == "default"


def test_our_adam_steps_as_torchs_does():
    start = [torch.randn(4, 3), torch.randn(2)]
    ours, theirs = ([p.clone().requires_grad_(True) for p in start] for _ in range(2))
    group = Group(ours, rate=0.03)
    adam, peer = Adam([group, Group([], rate=1.0)]), torch.optim.Adam(theirs, lr=0.03)
    for step in range(20):
        group.lr = peer.param_groups[0]["lr"] = 0.03 / (1 + step)
        for parameters, optimiser in ((ours, adam), (theirs, peer)):
            optimiser.zero_grad()
            (parameters[0].square().sum() + parameters[1].exp().sum()).backward()
            optimiser.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_our_adam_goes_on_from_its_state():
    x = torch.randn(5).requires_grad_(True)
    adam = Adam([Group([x], rate=0.1)])
    for _ in range(3):
        x.grad = x.detach().clone()
        adam.step()
    y = x.detach().clone().requires_grad_(True)
    copy = Adam([Group([y], rate=0.1)])
    copy.load({name: value.clone() for name, value in adam.state().items()})
    for parameter, optimiser in ((x, adam), (y, copy)):
        parameter.grad = torch.ones(5)
        optimiser.step()
    assert torch.equal(x, y)


def test_a_fit_does_not_load_torchs_compiler():
    """Two seconds at the first step, which torch's own optimisers take."""
    code = (
        "import sys, numpy as np, warnings; warnings.simplefilter('ignore')\n"
        "from coad import CoAD\n"
        "x = np.random.default_rng(0).normal(size=(200, 3))\n"
        "CoAD(n_starts=1, epochs=2, random_state=0).fit(x, x)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_a_single_high_value_is_not_selected_while_the_learning_rate_falls():
    s, q = (torch.randn(400, 3, generator=torch.Generator().manual_seed(i)) for i in range(2))
    course = [
        0.020,
        0.060,
        0.030,
        0.040,
        0.041,
        0.042,
        0.030,
    ]  # TP: one high by luck, then a steady rise, a fall
    for schedule, kept in (("cosine", 6), ("constant", 2)):
        settings = Settings((1.0,), 0.1, epochs=30, batch_size=200, patience=99, seed=0, schedule=schedule)
        nets = [StackedNet(NetSpec(hidden=(4,)), (3,), [i]) for i in range(2)]
        trainer = Trainer(Duo(*nets, normalised=True), [0], settings, Rows(s, q), Rows(s, q))
        given = iter(course)

        def fixed(_moments, given=given):
            tp = np.full((1, 1), next(given))
            return {"true_positives": tp, "joint": tp + 0.01, "mu_s": tp + 0.05, "mu_q": tp + 0.05}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("coad.learned.training.trainer.figures", fixed)
            for epoch in range(1, len(course) + 1):
                trainer.epoch = epoch
                trainer._evaluate(0.0)
        assert trainer.best["epoch"][0, 0] == kept
        assert trainer.best["true_positives"][0, 0] == course[kept - 1], (
            "the figures kept are those of the epoch itself"
        )
