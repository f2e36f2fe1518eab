"""Training on a GPU. None was at hand: placement is tested on an emulated one, mixed precision on the processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from makers import event_rows

from coad import CoAD
from coad.exceptions import InputError
from coad.learned.net_spec import Conv, NetSpec
from coad.learned.training import configure, heads
from coad.learned.training.device import device_of, half, placed
from coad.learned.training.model import Blueprint
from coad.learned.training.plan import choose_plan
from emulated_gpu import GPU, emulated_gpu

CASES = {
    "flat": ((5,), {"n_starts": 2, "epochs": 6}),
    "context": ((5,), {"n_starts": 2, "epochs": 6, "beta": [0.5, 1.0], "ensemble": True}),
    "images": (
        (1, 6, 6),
        {"n_starts": 2, "epochs": 4, "net": NetSpec((Conv(3, 3),), (4,)), "precision": "float32"},
    ),
    "windows in small steps": ((2, 12), {"n_starts": 1, "epochs": 4, "micro_batch": 70, "preset": "paper"}),
    "a given alpha": ((4,), {"n_starts": 1, "epochs": 6, "alpha": 0.1, "lambda_mag": 0.01, "jitter": 0.1}),
}


@pytest.mark.filterwarnings("ignore::coad.exceptions.CoadWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_learns_what_the_processor_learns(monkeypatch, tmp_path, case):
    shape, options = CASES[case]
    s, q, _ = event_rows(300, shape, rate=0.1, shift=(4, 4))
    context = np.arange(300) % 2 if case == "context" else None
    gate = (np.linspace(0.5, 1, 300), np.ones(300)) if case == "context" else None
    common = {"random_state": 0, "memory_format": "default", "precision": "float32", **options}
    expected = CoAD(**common).fit(s, q, context=context, gate=gate)
    for module in (configure, heads):
        monkeypatch.setattr(module, "device_of", lambda wanted: GPU)
    with emulated_gpu() as memory:
        det = CoAD(device="cuda", checkpoint=tmp_path, checkpoint_seconds=0, **common)
        det.fit(s, q, context=context, gate=gate)
    assert memory.pinned > 10, "batches are copied from pinned memory"
    for beta in expected.fitted_:
        for mine, other in zip(
            det.at(beta).confidences(s, q, context),
            expected.at(beta).confidences(s, q, context),
            strict=True,
        ):
            np.testing.assert_allclose(mine, other, atol=1e-6)
    assert det.history_.keys() == expected.history_.keys()
    det.save(tmp_path / "model")


def test_the_emulated_gpu_refuses_to_mix_devices():
    with emulated_gpu():
        x, y = torch.ones(3).to("cuda"), torch.ones(3)
        assert (x.device, (x * 2.0).device, y.device, x.cpu().device.type) == (GPU, GPU, y.device, "cpu")
        with pytest.raises(RuntimeError, match="same device"):
            x + y
        with pytest.raises(AssertionError, match="numpy"):
            x.numpy()


def test_mixed_precision_runs_the_networks_in_bfloat16_and_keeps_the_weights():
    net = Blueprint(NetSpec((Conv(3, 3),), (4,)), (1, 6, 6)).build([0], 1)
    with half(torch.device("cpu"), True):
        logit = net(torch.randn(8, 1, 6, 6))
    assert (logit.dtype, next(net.parameters()).dtype) == (torch.bfloat16, torch.float32)
    logit.float().sum().backward()
    assert next(net.parameters()).grad.dtype == torch.float32


def test_the_device_is_chosen_by_what_is_there(monkeypatch):
    yes, no = (lambda: True), (lambda: False)
    assert device_of("auto", available=no).type == "cpu"
    assert device_of("cpu", available=yes).type == "cpu"
    assert device_of("auto", available=yes, count=lambda: 1) == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert device_of("cuda", available=yes, count=lambda: 2) == torch.device("cuda", 1)
    with pytest.raises(InputError, match="torch sees none"):
        device_of("cuda", available=no)
    with pytest.raises(InputError, match="'auto', 'cpu' or 'cuda', not 'tpu'"):
        CoAD(device="tpu").fit(np.zeros((9, 2)), np.zeros((9, 2)))


def test_a_gpu_takes_all_starts_in_one_stack():
    flat, images = Blueprint(NetSpec(hidden=(4,)), (3,)), Blueprint(NetSpec((Conv(3, 3),), (4,)), (1, 6, 6))
    plans = [choose_plan((one, one), 4, 1, None, {}, GPU) for one in (flat, images)]
    assert [(plan.together, plan.workers, plan.layout) for plan in plans] == [
        (4, 1, "default"),
        (4, 1, "channels_last"),
    ]
    assert not plans[1].bfloat16, "this machine has no GPU, so none with bfloat16"
    assert choose_plan((images, images), 4, 1, None, {"bfloat16": True}, GPU).bfloat16


def test_what_is_on_the_processor_is_not_copied():
    x = torch.zeros(3)
    assert placed(x, torch.device("cpu")) is x


def test_a_machine_without_a_gpu_says_so_in_one_line(run_coad, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(80)))
    ran = run_coad(
        "fit", tmp_path / "a.csv", "--s", "a", "--q", "b", "--out", tmp_path / "m", "--device", "cuda"
    )
    assert (ran.code, "torch sees none" in ran.err, len(ran.err.splitlines())) == (2, True, 1)
    assert not (tmp_path / "m").exists()
