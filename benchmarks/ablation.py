"""What a part of the training that could be left out buys: it is replaced, and measured again in the same run.

Our Adam against ``torch.optim.Adam``, each in a process of its own, where the first fit pays for what it imports.
Times are seconds of processor time on one thread, so that other work on the machine counts little; the variants take
turns, and the median of the repeats is shown.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from benchmarks._results import record, table

REPEATS = 5

#: One process: two short fits, with torch's Adam in place of ours if options for it are given.
_FITS = """
import time, warnings
import numpy as np, torch
warnings.simplefilter("ignore")
torch.set_num_threads(1)
import coad.learned.training.trainer as trainer
from coad import CoAD

class TorchAdam:
    def __init__(self, groups):
        self.groups = [group for group in groups if group.parameters]
        own = [{{"params": group.parameters, "lr": group.rate}} for group in self.groups]
        self.adam = torch.optim.Adam(own, **{options})
        self.zero_grad = self.adam.zero_grad

    def step(self):
        for own, group in zip(self.adam.param_groups, self.groups):
            own["lr"] = group.lr
        self.adam.step()

if {options} is not None:
    trainer.Adam = TorchAdam
s, q = np.random.default_rng(0).normal(size=(2, 600, 3))
s[:60] += 3
q[:60] -= 3
for _ in range(2):
    start = time.process_time()
    CoAD(epochs=60, n_starts=2, random_state=0).fit(s, q)
    print(time.process_time() - start)
"""


def run() -> None:
    variants = {"ours": None, "torch, foreach": {"foreach": True}, "torch, fused": {"fused": True}}
    seconds: dict[str, list[list[float]]] = {name: [] for name in variants}
    for _ in range(REPEATS):
        for name, options in variants.items():
            command = [sys.executable, "-c", _FITS.format(options=options)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds[name].append([float(x) for x in done.stdout.split()])
    ours = np.median(seconds["ours"], axis=0)
    rows = [
        (name, *(f"{x:.2f} s ({x / own:.1f} times ours)" for x, own in zip(median, ours, strict=True)))
        for name, median in ((name, np.median(times, axis=0)) for name, times in seconds.items())
    ]
    record(
        "ablation",
        "Ablation: our Adam against torch.optim.Adam",
        table(("Adam", "first fit of a process", "second fit"), rows)
        + "\n\n600 rows of 3 columns an input, 60 epochs, 2 starts. Making any of torch's optimisers imports its compiler.",
    )
