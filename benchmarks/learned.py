"""The learned mode's speed: training against a plain loop, scoring against the bare forward pass."""

from __future__ import annotations

import time
import warnings

import numpy as np
import torch
from torch import nn

from benchmarks._results import record, table
from coad import CoAD, CoincidenceLoss
from coad.exceptions import CoadWarning

STEPS = 24


def run() -> None:
    warnings.simplefilter("ignore", CoadWarning)  # nothing is learned in so few steps, and it says so
    record("training-speed", "Training: ours against a plain loop, per seed and step", _training())
    record("scoring-speed", "Scoring: ours against the bare forward pass", _scoring())


def mnist_net() -> nn.Module:
    """The paper's MNIST network as anyone would write it."""
    layers: list[nn.Module] = []
    channels = 1
    for stride in (1, 1, 2, 2):
        layers += [nn.Conv2d(channels, 10, 5, stride, 2), nn.ReLU()]
        channels = 10
    return nn.Sequential(*layers, nn.Flatten(), *_full(490, 8))


def milling_net(channels: int) -> nn.Module:
    """The paper's milling network, likewise."""
    convolutions = (
        nn.Conv1d(channels, 10, 5, padding=2),
        nn.ReLU(),
        nn.Conv1d(10, 10, 5, padding=2),
        nn.ReLU(),
    )
    return nn.Sequential(*convolutions, nn.Flatten(), *_full(640, 8))


def rf_net(channels: int, out: int, kernel: int, stride: int, full: int) -> nn.Module:
    """The paper's networks for the RF station, likewise."""
    convolutions = (
        nn.Conv1d(channels, out, kernel, stride),
        nn.ReLU(),
        nn.Conv1d(out, out, kernel, stride),
        nn.ReLU(),
    )
    return nn.Sequential(*convolutions, nn.Flatten(), *_full(full, 6))


def _full(width: int, hidden: int) -> tuple[nn.Module, ...]:
    return nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)


def _training() -> str:
    rng = np.random.default_rng(0)
    rows = []
    for name, seeds, batch, s_shape, q_shape, nets in (
        ("mnist", 4, 760, (1, 25, 25), (1, 25, 25), (mnist_net, mnist_net)),
        ("milling", 8, 1024, (2, 64), (4, 64), (lambda: milling_net(2), lambda: milling_net(4))),
    ):
        s, q = (rng.normal(size=(2 * batch, *shape)).astype(np.float32) for shape in (s_shape, q_shape))
        plain = _plain_loop(torch.from_numpy(s), torch.from_numpy(q), nets, batch)
        few, many = (_fit_seconds(name, s, q, seeds, batch, epochs) for epochs in (2, 2 + STEPS // 2))
        ours = (many - few) / STEPS / seeds  # the start, the end and the measurement drop out
        rows.append((name, seeds, f"{1e3 * plain:.0f} ms", f"{1e3 * ours:.0f} ms", f"{plain / ours:.2f}"))
    return table(("network", "seeds", "plain loop, a step", "ours, a step and seed", "ratio"), rows) + (
        "\n\nPlain: float32, default memory format, torch's own threads, one seed at a time. Ours includes validation."
    )


def _plain_loop(s: torch.Tensor, q: torch.Tensor, nets, batch: int) -> float:
    net_s, net_q = nets[0](), nets[1]()
    optimiser = torch.optim.Adam([*net_s.parameters(), *net_q.parameters()], 1e-3)
    loss = CoincidenceLoss(1.0, 0.15)
    times = []
    for step in range(STEPS // 2):
        start = time.perf_counter()
        rows = slice((step % 2) * batch, (step % 2 + 1) * batch)
        optimiser.zero_grad()
        loss(net_s(s[rows]).squeeze(1), net_q(q[rows]).squeeze(1)).backward()
        optimiser.step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _fit_seconds(name: str, s, q, seeds: int, batch: int, epochs: int) -> float:
    start = time.perf_counter()
    CoAD(
        net=name,
        n_seeds=seeds,
        epochs=epochs,
        batch_size=batch,
        epoch_size=2 * batch,
        patience=epochs,
        validation=0.05,
        alpha=0.15,
        random_state=0,
    ).fit(s, q)
    return time.perf_counter() - start


def _scoring() -> str:
    rng = np.random.default_rng(0)
    rows = []
    for name, n, s_shape, q_shape, nets in (
        ("mnist", 4096, (1, 25, 25), (1, 25, 25), (mnist_net(), mnist_net())),
        ("rf", 2048, (1, 50), (14, 1000), (rf_net(1, 5, 10, 1, 160), rf_net(14, 15, 20, 5, 540))),
    ):
        s, q = (rng.normal(size=(n, *shape)).astype(np.float32) for shape in (s_shape, q_shape))
        det = CoAD(net=name, n_seeds=1, epochs=1, alpha=0.2, random_state=0).fit(s[:400], q[:400])
        pieces = [
            (torch.from_numpy(s[i : i + 1024]), torch.from_numpy(q[i : i + 1024])) for i in range(0, n, 1024)
        ]

        def bare(pieces=pieces, nets=nets) -> None:
            with torch.inference_mode():
                for a, b in pieces:
                    nets[0](a).sigmoid() * nets[1](b).sigmoid()

        alone = min(_timed(bare) for _ in range(5))
        whole = min(_timed(lambda det=det, s=s, q=q: det.score_samples(s, q)) for _ in range(5))
        rows.append((name, f"{n / alone:,.0f}", f"{n / whole:,.0f}", f"{alone / whole:.2f}"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one = np.median([_timed(lambda: det.score_samples(s[:1], q[:1])) for _ in range(300)])
    torch.set_num_threads(before)
    return table(("network", "bare forward, rows/s", "score_samples, rows/s", "ratio"), rows) + (
        f"\n\nOne window of the RF-station network, one core: {1e3 * one:.2f} ms (median of 300)."
    )


def _timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
