"""The paper's accelerator experiment on a **simulated** RF station: Table 3 and the examples figure.

The accelerator's data are not public, so the numbers stand beside the paper's for orientation only: the
data differ. The networks, the label rate, the shapes of the windows and the noise and roll that are
added in training are the paper's; α is not given but estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.research.datasets.rf_station import RFStation, simulate
from coad.research.experiments.peers import HEAD, Line, PeersRun, cells, run_peers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = [
    "PAPER_F1",
    "QUICK_SETTING",
    "SETTING",
    "TEST_SIZE",
    "WINDOWS",
    "Examples",
    "paper_augment",
    "paper_rows",
    "rf_augment",
    "rf_examples",
    "run_rf",
]

#: F1 in the paper's Table 3, by the name of the method here.
PAPER_F1: dict[str, float] = {
    "expert": 0.90,
    "snn": 0.88,
    "ocsvm": 0.66,
    "dghl": 0.64,
    "omnianomaly": 0.80,
    "coad": 0.86,
}
#: What differs, said wherever the paper's numbers stand beside ours.
DIFFERENCE = (
    "The windows are simulated; the paper's were measured at an accelerator and are not public. Compare the order "
    "of the methods, not the numbers."
)
#: Windows that are simulated for the table, and the part of them that is for the test. With 1,000 of 4,000 for the test,
#: the luck of a split (±0.015 in F1) and of a threshold chosen by its labels (0.01) hid differences between methods.
#: It was changed after that table (3 splits) had CoAD at 0.890 and deep MCA at its best threshold at 0.900, when models of
#: three other simulations, judged on 5,000 new windows, had 0.907 and 0.894; with this one it is 0.904 and 0.902 (seed 1,
#: recorded), 0.903 and 0.904 (seed 0): without labels CoAD does as well as deep MCA with them, no better.
WINDOWS, TEST_SIZE = 6000, 0.5

Tell = Callable[[str], None]


def paper_augment(s: Tensor, q: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The paper's transformations of scaled windows, drawn anew for every batch.

    Noise of 0.1 deviations on each input, and the beam rolled by 0 to 10 points.
    """
    import torch

    points = q.shape[2]
    shift = torch.randint(0, 11, (len(q), 1), generator=generator)
    places = (torch.arange(points)[None, :] - shift) % points
    rolled = q.gather(2, places[:, None, :].expand(-1, q.shape[1], -1))
    # In place: a fresh array of this size costs as much as the network's step.
    rolled.add_(torch.randn(q.shape, generator=generator), alpha=0.1)
    return s + 0.1 * torch.randn(s.shape, generator=generator), rolled


def rf_augment(s: Tensor, q: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The paper's transformations, and each input of each row turned upside down with probability ½.

    Amplitude may go up or down, and the beam's energy with it: two coincident modes. From random weights the
    straight line is found first (both up, or both down), and where one network does not flag a mode yet, the
    other gains nothing by flagging it: training stays at one sign. With signs drawn for each input by itself the
    straight line has no coincidence, and the size of a change is what is left to learn.
    """
    import torch

    s, q = paper_augment(s, q, generator)
    sign = 2.0 * torch.randint(0, 2, (2, len(s), 1, 1), generator=generator) - 1.0
    return s.mul_(sign[0]), q.mul_(sign[1])


#: The preset for RF stations: arguments of :class:`coad.learned.estimator.CoAD`. Compared by F̂ (α = 0.2) of 1,000 windows
#: outside training, on simulations that no table uses (seeds 101 and 102, one run each): 80 epochs without a margin
#: 0.80 in the mean at rate 5e-3 and 0.81 at 1e-2, a difference within noise; on seed 101 alone, 40 epochs with the
#: default margin 0.76, and 0.78 with batches of 500. Margin and epochs were not varied apart. F1 on these two
#: simulations was seen meanwhile, and led to trying no margin. Turning signs was not chosen by F̂ (on seed 101 the
#: validation F̂ was higher without, 0.91 to 0.84, and F1 lower), but because half of all steps and drifts were missed.
#: That the starts are averaged, which of them are (0.9 of the best F̂) and that thresholds are searched was chosen by
#: F1, with the labels of seeds 101 and 102, where their mean had a higher F1 than each; not without labels.
SETTING: dict[str, Any] = {
    "net": "rf",
    "augment": rf_augment,
    "batch_size": 200,
    "lr": 1e-2,
    "margin": 0.0,
    "epochs": 80,
    "n_seeds": 6,
    "ensemble": True,
}
#: The same for ``--quick``: smaller batches, so that fewer windows still make enough steps.
QUICK_SETTING: dict[str, Any] = {**SETTING, "batch_size": 100, "epochs": 60, "n_seeds": 2}


@dataclass(frozen=True)
class Examples:
    """Windows for the figure, each with a title: rows of ``data``."""

    data: RFStation
    rows: tuple[int, ...]
    titles: tuple[str, ...]


def run_rf(
    splits: int = 5,
    *,
    methods: Sequence[str] = ("all",),
    quick: bool = False,
    random_state: int = 0,
    store: str | Path | None = None,
    progress: Tell | None = None,
) -> PeersRun:
    """Table 3: every method on the simulated station."""
    from coad.research.experiments.peer_data import bench_data

    data = bench_data("rf", quick=quick, seed=random_state)
    return run_peers(
        [data],
        methods,
        splits=splits,
        quick=quick,
        random_state=random_state,
        store=store,
        progress=progress,
    )


def paper_rows(lines: Sequence[Line], paper: dict[str, float]) -> tuple[list[str], list[list[str]]]:
    """Head and rows: our table with the paper's F1 beside."""
    head = [*HEAD, "paper"]
    rows = []
    for line in lines:
        row = cells(line)
        known = paper.get(line.method)
        rows.append([*row, "" if known is None else f"{known:.2f}"])
    return head, rows


def rf_examples(random_state: int = 0, each: int = 3) -> Examples:
    """Windows side by side: confusers that look like events, then events of several kinds.

    >>> examples = rf_examples(each=1)
    >>> examples.titles
    ('normal: glitch', 'event: dip, ... %')
    """
    data = simulate(400, random_state=random_state)
    wanted = ("glitch", "glitch and early", "other station")[:each]
    rows = [int(np.flatnonzero(data.kind == kind)[0]) for kind in wanted]
    titles = [f"normal: {kind}" for kind in wanted]
    for kind in ("dip", "trip", "flicker", "step", "drift")[:each]:
        mine = np.flatnonzero((data.kind == kind) & (data.magnitude > 1.8))
        rows.append(int(mine[0]))
        titles.append(f"event: {kind}, {data.magnitude[mine[0]]:.1f} %")
    return Examples(data, tuple(rows), tuple(titles))
