"""The heads of a frontier go on alone at the end."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from makers import event_rows

from coad.core.metric import fbeta_of
from coad.learned.estimator import CoAD
from coad.learned.net_spec import Conv, NetSpec
from coad.learned.training.duo import Rows
from coad.learned.training.model import Blueprint, fold
from coad.learned.training.parting import part
from coad.learned.training.plan import Plan
from coad.learned.training.settings import Settings
from coad.learned.training.starts import build_duo
from coad.learned.training.trainer import Trainer
from killing import killed

SPEC = NetSpec((Conv(4, 3, 1, 1),), (8,))
BOTH = (Blueprint(SPEC, (1, 12)), Blueprint(SPEC, (1, 12)))
BETAS = (0.5, 2.0)


def windows(n: int = 600, seed: int = 0) -> Rows:
    s, q, _ = event_rows(n, (1, 12), rate=0.15, shift=(1.5, -1.5), seed=seed)
    return Rows(*(torch.from_numpy(x.astype(np.float32)) for x in (s, q)))


SETTINGS = Settings(beta=BETAS, alpha=0.15, epochs=20, batch_size=150, patience=99, seed=0, schedule="cosine")


@pytest.fixture(scope="module")
def snapshots():
    duo = build_duo(BOTH, [0], SETTINGS, Plan(1))
    return Trainer(duo, [0], SETTINGS, windows(), windows(300, seed=1)).run()


def alone(snapshot, **changes):
    options = {"alpha": 0.15, "augment": None, "checkpoint": None, "checkpoint_seconds": 9.0, "identity": {}}
    return part(
        BOTH, snapshot, replace(SETTINGS, **changes), Plan(1), (windows(), windows(300, seed=1)), **options
    )


def value(snapshot) -> float:
    return float(fbeta_of(snapshot.true_positives, snapshot.joint, snapshot.beta, 0.15))


def test_alone_a_head_is_kept_only_if_it_became_better(snapshots):
    for snapshot in snapshots:
        found = alone(snapshot)
        changed = any(not torch.equal(found.weights[k], v) for k, v in snapshot.weights.items())
        assert value(found) >= value(snapshot)
        assert changed == (value(found) > value(snapshot))
        assert np.all(np.array(found.null_maxima) >= snapshot.null_maxima)
    assert any(value(alone(x)) > value(x) for x in snapshots)  # or the test says nothing


def test_the_figures_are_those_of_the_weights_and_other_heads_stay(snapshots):
    held = windows(300, seed=1)
    for h, snapshot in enumerate(snapshots):
        found = alone(snapshot)
        p_s, p_q = (
            fold(b, [found.weights], side, h, 2, normalised=True).eval()(x).detach()
            for b, side, x in zip(BOTH, "sq", (held.s, held.q), strict=True)
        )
        assert float((p_s * p_q).mean()) == pytest.approx(found.joint, abs=1e-5)
        other = found.weights["head_s.shift"][..., 1 - h]
        assert torch.equal(other, snapshot.weights["head_s.shift"][..., 1 - h])


def test_a_step_of_nothing_changes_nothing(snapshots):
    found = alone(snapshots[0], lr=0.0)
    for name, before in snapshots[0].weights.items():
        if not name.endswith((".mean", ".var")):
            assert torch.equal(found.weights[name], before)


def test_a_frontier_is_the_same_twice_and_after_an_interruption(tmp_path, two_threads):
    rows = windows(400)
    s, q = rows.s.numpy(), rows.q.numpy()

    def fit(folder):
        return CoAD(beta=[0.5, 2], net=SPEC, n_starts=2, epochs=12, random_state=0, checkpoint=folder).fit(
            s, q
        )

    first = fit(tmp_path / "a")
    for file in (tmp_path / "a").glob("alone-*"):
        file.unlink()  # as if it had been stopped after the heads were trained together
    for again in (fit(tmp_path / "a"), fit(tmp_path / "b")):
        for beta in (0.5, 2):
            assert np.array_equal(again.at(beta).score_samples(s, q), first.at(beta).score_samples(s, q))


CHILD = """
import sys, torch
sys.path.insert(0, sys.argv[2])
torch.set_num_threads(1)
import coad.learned.training.parting as parting
import test_parting as t
parting._EPOCHS = 1.0  # long enough alone to be killed there
rows = t.windows(400)
det = t.CoAD(beta=[0.5, 2], net=t.SPEC, n_starts=2, epochs=25, random_state=0, checkpoint=sys.argv[1],
             checkpoint_seconds=0.0)
det.fit(rows.s.numpy(), rows.q.numpy())
det.save(sys.argv[1] + "/model")
"""


def _child(folder: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", CHILD, str(folder), str(Path(__file__).parent)], env=env)


@pytest.mark.slow
def test_killed_while_the_heads_are_alone_it_goes_on_bit_for_bit(tmp_path):
    assert _child(tmp_path / "whole").wait(120) == 0
    broken, kills = tmp_path / "broken", 0
    for count in (1, 1, 2):  # in the first head's epochs alone, again, and in the second's
        kills += killed(_child(broken), lambda count=count: len(list(broken.glob("alone-*"))) >= count, 0.2)
    assert kills > 0
    assert _child(broken).wait(120) == 0
    whole = tmp_path / "whole" / "model"
    assert {one.name for one in whole.iterdir()} == {"model.json", "model.safetensors"}
    for one in whole.iterdir():
        assert one.read_bytes() == (broken / "model" / one.name).read_bytes()
