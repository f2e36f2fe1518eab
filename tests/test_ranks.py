"""Training on several processes is training on one: the same loss and weights, and one model folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from makers import event_rows

from coad.exceptions import InputError
from coad.learned.training.ranks import Ranks

#: Fifty steps of two stacked starts with two heads, in float64: in float32, Adam makes rounding errors grow.
TRAIN = """
import sys
from pathlib import Path
import numpy as np, torch
import test_train as t
from coad.learned.training.ranks import process_ranks
target, alone = Path(sys.argv[1]), len(sys.argv) > 2
if not alone:
    torch.distributed.init_process_group("gloo")
for name, strata, micro in (("plain", 1, None), ("context", 2, None), ("micro", 1, 20)):
    rows = t.pairs()
    context = None if strata == 1 else torch.arange(len(rows.s)) % strata
    part = lambda a, b: t.Rows(rows.s[a:b].double(), rows.q[a:b].double(), None if context is None else context[a:b])
    own = t.settings(epochs=25, beta=(1.0, float("inf")), alpha=None, jitter=0.1, micro_batch=micro)
    ranks = process_ranks(not alone)
    run = t.Trainer(t.duo((0, 1), 2).double(), (0, 1), own, part(0, 300), part(300, None), ranks=ranks,
                    checkpoint=target.with_name(f"{target.name}-{name}-rank{ranks.number}"))
    run.run()
    assert run.optimizer.steps == 50
    weights = torch.cat([one.detach().reshape(-1) for one in run.duo.state_dict().values()]).numpy()
    if alone or ranks.number == 1:
        np.savez(target.with_name(f"{target.name}-{name}.npz"), weights=weights, loss=[x["loss"] for x in run.history])
if not alone:
    torch.distributed.destroy_process_group()
"""


#: Starts in one stack, some of which stop earlier than others; stacks of one start; fewer starts than processes.
STARTS = """
import json, sys
import torch
from makers import event_rows
from coad import CoAD, NetSpec
from coad.learned.net_spec import Conv
target, alone = sys.argv[1], len(sys.argv) > 2
if not alone:
    torch.distributed.init_process_group("gloo")
found = {}
for name, channels, more in (
    ("stack", (), dict(n_starts=3, epochs=200, patience=2, preset="paper", lr=1e-2)),
    ("stacks", (1,), dict(n_starts=6, epochs=3, net=NetSpec((Conv(4, 3),), (4,)))),
    ("one", (), dict(n_starts=1, epochs=5, ensemble=True)),
):
    s, q, _ = event_rows(300, (*channels, 6), rate=0.1, shift=(4, 4))
    det = CoAD(random_state=0, distributed=False if alone else "starts", precision="float32",
               memory_format="default", **more).fit(s, q)
    p_s, p_q = det.confidences(s, q)
    found[name] = dict(p_s=p_s.tolist(), p_q=p_q.tolist(), starts=[vars(one) for one in det.starts_], alpha=det.alpha_,
                       loss=[[one["loss"] for one in history] for history in det.history_.values()],
                       p_value=det.p_value_, together=det.plan_["together"])
if alone or torch.distributed.get_rank() == 1:
    open(target, "w").write(json.dumps(found))
if not alone:
    torch.distributed.destroy_process_group()
"""


def two(command, cwd=None, **more):
    """Run a command as two ranks, as torchrun would."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **more,
    }
    children = [
        subprocess.Popen(
            command,
            cwd=cwd,
            env=common | {"RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    out = [child.communicate(timeout=240)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    return out


@pytest.mark.slow
def test_two_ranks_learn_what_one_process_with_the_whole_batch_learns(tmp_path):
    here = {"PYTHONPATH": os.path.dirname(__file__), "OMP_NUM_THREADS": "1"}
    one = [sys.executable, "-c", TRAIN, str(tmp_path / "one"), "alone"]
    subprocess.run(one, env={**os.environ, **here}, check=True, timeout=240)
    two([sys.executable, "-c", TRAIN, str(tmp_path / "two")], **here)
    for name in ("plain", "context", "micro"):
        with np.load(tmp_path / f"one-{name}.npz") as alone, np.load(tmp_path / f"two-{name}.npz") as both:
            assert len(alone["loss"]) == 25
            for what in ("loss", "weights"):
                np.testing.assert_allclose(both[what], alone[what], atol=1e-5, rtol=0, err_msg=what)
        assert (tmp_path / f"two-{name}-rank0").exists()
        assert not (tmp_path / f"two-{name}-rank1").exists(), "the first process alone writes checkpoints"


@pytest.mark.slow
def test_torchrun_fits_one_model_and_reports_once(tmp_path):
    s, q, _ = event_rows(400, (2,), rate=0.1, shift=(4, 4))
    columns = {f"{side}{i}": x[:, i] for side, x in (("s", s), ("q", q)) for i in range(2)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    command = [sys.executable, "-m", "coad", "fit", "a.parquet", "--s", "s*", "--q", "q*", "--epochs", "10"]
    first, second = two([*command, "--starts", "2", "--out", "model"], cwd=tmp_path)
    assert "model: model" in first
    assert second == ""
    assert (tmp_path / "model" / "model.json").is_file()
    alone = subprocess.run(
        [*command, "--starts", "2", "--out", "alone"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert alone.stdout.replace("alone", "model").splitlines()[:4] == first.splitlines()[:4]


@pytest.mark.slow
def test_the_command_of_the_docs_runs_under_torchrun_itself(tmp_path):
    s, q, _ = event_rows(400, (2,), rate=0.1, shift=(4, 4))
    columns = {f"{side}{i}": x[:, i] for side, x in (("s", s), ("q", q)) for i in range(2)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "--"]
    coad = ["coad", "fit", "a.parquet", "--s", "s*", "--q", "q*", "--epochs", "10", "--out"]
    for spread in ("rows", "starts"):
        command = [*torchrun, *coad, spread, "--spread", spread]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
        assert ran.returncode == 0, ran.stderr[-2000:]
        assert ran.stdout.count(f"model: {spread}") == 1
        assert (tmp_path / spread / "model.json").is_file()


@pytest.mark.slow
def test_starts_on_two_processes_end_as_on_one(tmp_path):
    # A cache of its own, so that both arrange the work in the same way, which is measured.
    here = {"PYTHONPATH": os.path.dirname(__file__), "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path)}
    one = [sys.executable, "-c", STARTS, str(tmp_path / "one"), "alone"]
    subprocess.run(one, env={**os.environ, **here}, check=True, timeout=240)
    two([sys.executable, "-c", STARTS, str(tmp_path / "two")], **here)
    alone, both = (json.loads((tmp_path / name).read_text()) for name in ("one", "two"))
    assert alone["stack"]["together"] == 3
    assert alone["stacks"]["together"] <= 4, "of six: at least two stacks"
    assert len(alone["stack"]["loss"][0]) < 200, "the stack stops when none of its starts improves"
    for name, expected in alone.items():
        for what in ("p_s", "p_q", "loss", "alpha", "p_value"):
            np.testing.assert_allclose(
                both[name][what], expected[what], atol=1e-9, rtol=0, err_msg=name + what
            )
        assert both[name]["starts"] == expected["starts"]


def test_every_start_is_trained_by_one_process():
    for count in (2, 3, 5):
        for stacks in ([[1, 2, 3, 4]], [[1], [2], [3], [4]], [[1, 2], [3, 4]]):
            taken = [Ranks(number, count, "starts").parts(stacks) for number in range(count)]
            seeds = [seed for parts in taken for _, part in parts for seed in part]
            assert sorted(seeds) == [1, 2, 3, 4]


def test_what_is_spread_is_checked(run_coad, tmp_path):
    from coad import CoAD

    s, q, _ = event_rows(100, (2,))
    with pytest.raises(InputError, match="'rows' or 'starts', not 'seeds'"):
        CoAD(distributed="seeds", random_state=0).fit(s, q)
    ran = run_coad("fit", "a.csv", "--s", "a", "--q", "b", "--out", tmp_path / "m", "--spread", "starts")
    assert (ran.code, "torchrun" in ran.err, len(ran.err.splitlines())) == (2, True, 1)


def test_the_ranks_take_every_row_once():
    for count in (1, 2, 3, 7):
        rows = np.concatenate([np.arange(20)[Ranks(number, count).own(20)] for number in range(count)])
        assert rows.tolist() == list(range(20))
    logits = torch.ones(1, 4, 1)
    assert Ranks().gathered(logits, 4) is logits


def test_without_a_process_group_the_way_to_start_one_is_said():
    from coad import CoAD

    s, q, _ = event_rows(100, (2,))
    with pytest.raises(InputError, match="start the script with torchrun"):
        CoAD(distributed=True, random_state=0).fit(s, q)
