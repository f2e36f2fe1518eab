"""The paper's accelerator experiment on a **simulated** RF station: training settings and example windows.

The accelerator's data are not public, so the paper's numbers are shown for orientation only: the
data differ. The networks, the label rate, the window shapes and the noise and roll that augment the
training data are the paper's; α is estimated, not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coad.research.datasets.rf_station import RFStation, simulate

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = [
    "DIFFERENCE",
    "PAPER_F1",
    "QUICK_SETTING",
    "SETTING",
    "TEST_SIZE",
    "WINDOWS",
    "Examples",
    "paper_augment",
    "rf_augment",
    "rf_examples",
]

#: F1 in the paper's Table 3, by our name of the method.
PAPER_F1: dict[str, float] = {
    "expert": 0.90,
    "snn": 0.88,
    "ocsvm": 0.66,
    "dghl": 0.64,
    "omnianomaly": 0.80,
    "coad": 0.86,
}
#: Printed wherever the paper's numbers are shown next to ours.
DIFFERENCE = (
    "The windows are simulated; the paper's were measured at an accelerator and are not public. Compare the order "
    "of the methods, not the numbers."
)
#: Number of simulated windows for the table, and the fraction used for testing. With 1,000 of 4,000 windows for
#: testing, the variation between splits (±0.015 in F1) and the optimism of a threshold chosen with test labels (0.01)
#: hid differences between methods. The size was changed after that table (3 splits) had CoAD at 0.890 and deep MCA at
#: its best threshold at 0.900, while models of three other simulations, evaluated on 5,000 new windows, had 0.907 and
#: 0.894. With the present size the values are 0.904 and 0.902 (seed 1, recorded), 0.903 and 0.904 (seed 0): without
#: labels CoAD is as good as deep MCA with a threshold chosen by labels, not better.
WINDOWS, TEST_SIZE = 6000, 0.5


def paper_augment(s: Tensor, q: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Augment a batch of scaled windows as the paper does.

    Adds noise of 0.1 standard deviations to each input and rolls the beam by 0 to 10 points.
    """
    import torch

    points = q.shape[2]
    shift = torch.randint(0, 11, (len(q), 1), generator=generator)
    places = (torch.arange(points)[None, :] - shift) % points
    rolled = q.gather(2, places[:, None, :].expand(-1, q.shape[1], -1))
    # In place: allocating an array of this size takes as long as the training step.
    rolled.add_(torch.randn(q.shape, generator=generator), alpha=0.1)
    return s + 0.1 * torch.randn(s.shape, generator=generator), rolled


def rf_augment(s: Tensor, q: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Augment as :func:`paper_augment`, and flip the sign of each input of each row with probability ½.

    The amplitude, and the beam's energy with it, may rise or fall: two coincident modes. Training from random
    weights finds a linear score first, which flags only one sign; as long as one network does not flag the other
    sign, the other network gains nothing by flagging it, and training stays there. With independent random signs
    of the two inputs a linear score has no coincidence, so the networks learn the size of a change instead.
    """
    import torch

    s, q = paper_augment(s, q, generator)
    sign = 2.0 * torch.randint(0, 2, (2, len(s), 1, 1), generator=generator) - 1.0
    return s.mul_(sign[0]), q.mul_(sign[1])


#: The preset for RF stations: arguments of :class:`coad.learned.estimator.CoAD`. Settings were compared by F̂ (α = 0.2) of
#: 1,000 windows outside training, on simulations that no table uses (seeds 101 and 102, one run each): 80 epochs
#: without a margin gave a mean of 0.80 at a learning rate of 5e-3 and 0.81 at 1e-2, a difference within noise; on seed
#: 101 alone, 40 epochs with the default margin gave 0.76, and 0.78 with batches of 500. Margin and epochs were not
#: varied separately. F1 on these two simulations was known at that time, and led to trying no margin. Flipping signs
#: was not chosen by F̂ (on seed 101 validation F̂ was higher without it, 0.91 against 0.84, and F1 lower), but because
#: half of all steps and drifts were missed. Averaging the starts, which starts are averaged (those above 0.9 of the
#: best F̂) and searching thresholds were chosen by F1 with the labels of seeds 101 and 102, where the average had a
#: higher F1 than each start; this choice used labels.
SETTING: dict[str, Any] = {
    "net": "rf",
    "augment": rf_augment,
    "batch_size": 200,
    "lr": 1e-2,
    "margin": 0.0,
    "epochs": 80,
    "n_starts": 6,
    "ensemble": True,
}
#: The same for ``--quick``: smaller batches, so that fewer windows still give enough training steps.
QUICK_SETTING: dict[str, Any] = {**SETTING, "batch_size": 100, "epochs": 60, "n_starts": 2}


@dataclass(frozen=True)
class Examples:
    """Row numbers of ``data`` to draw, each with a title."""

    data: RFStation
    rows: tuple[int, ...]
    titles: tuple[str, ...]


def rf_examples(random_state: int = 0, each: int = 3) -> Examples:
    """Choose example windows: ``each`` confusers that resemble events, then as many kinds of events.

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
