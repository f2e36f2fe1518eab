"""The learned mode's speed: training against a plain loop, scoring against the bare forward pass."""

from __future__ import annotations

import time
import warnings

import numpy as np
import torch
from torch import nn

from benchmarks._results import record, table
from coad import CoAD, CoincidenceLoss
from coad.core.metric import fbeta_hat
from coad.core.moments import Moments
from coad.exceptions import CoadWarning
from coad.learned.nets import NormalisedHead
from coad.research.datasets.digits import load_digits_split
from coad.research.datasets.mnist import mnist_pairs
from coad.research.datasets.synthetic import synthetic_windows

RATE, ALPHA, VALIDATION = 4e-3, 0.15, 0.1


def run() -> None:
    warnings.simplefilter("ignore", CoadWarning)  # so few steps find no coincidence, which is a warning
    record("training-speed", "Training: ours against a plain loop, per start", _training())
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
    rows = []
    for name, data, nets, batch, epochs, starts in (
        ("mnist", _enlarged_digits(), (mnist_net, mnist_net), 760, 8, 2),
        ("milling", _two_sensors(), (lambda: milling_net(2), lambda: milling_net(4)), 1024, 40, 8),
    ):
        s, q = data
        cut = round(0.8 * len(s))  # the rows after it evaluate both
        steps = epochs * round((1 - VALIDATION) * cut / batch)
        plain = [_plain_loop(s, q, cut, nets, batch, steps, seed) for seed in range(2)]
        start = time.perf_counter()
        det = _fitted(name, s[:cut], q[:cut], starts, batch, epochs)
        ours = (time.perf_counter() - start) / starts  # validation, set-up and end included
        seconds = float(np.mean([run[0] for run in plain]))
        quality = max(run[1] for run in plain), _f_hat(*det.confidences(s[cut:], q[cut:]))
        times = f"{seconds:.1f} s", f"{ours:.1f} s", f"{seconds / ours:.2f}"
        rows.append((name, starts, steps, *times, *(f"{f:.3f}" for f in quality)))
    head = ("network", "starts", "steps", "plain, per start", "ours, per start", "ratio", "F̂ plain", "F̂ ours")
    return table(head, rows) + (
        "\n\nPlain: our loss and head, Adam, float32, default memory format, torch's own threads, one start "
        "at a time, no validation. Ours: `CoAD` with its defaults, validation included. F̂ (β = 1, α given) is that "
        "of the best start on rows that neither was trained on; plain is the best of two starts. mnist: scikit-learn's digits "
        "enlarged to the size of MNIST's, paired under the paper's observation model; milling: simulated windows."
    )


def _enlarged_digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits_split("train")
    large = np.pad(np.kron(images, np.ones((1, 3, 3), np.uint8)), ((0, 0), (2, 2), (2, 2)))
    used = labels < 4
    pairs = mnist_pairs(large[used], labels[used], 19_000, np.random.default_rng(0))
    return pairs.s, pairs.q


def _two_sensors() -> tuple[np.ndarray, np.ndarray]:
    """Simulated windows with 15 % events, two channels for s and four for q."""
    windows = synthetic_windows(7200, rate=0.15, random_state=0)
    rng = np.random.default_rng(1)
    found = []
    for x, channels in ((windows.s, 2), (windows.q, 4)):
        gain = rng.uniform(0.5, 1.0, (1, channels, 1))
        found.append((gain * x + 0.3 * rng.normal(size=(len(x), channels, 64))).astype(np.float32))
    return found[0], found[1]


def _plain_loop(s, q, cut: int, nets, batch: int, steps: int, seed: int) -> tuple[float, float]:
    """Seconds, and F̂ on the rows from ``cut`` on."""
    torch.manual_seed(seed)
    net_s, net_q = nets[0](), nets[1]()
    heads = NormalisedHead(1, 1), NormalisedHead(1, 1)
    parameters = [p for module in (net_s, net_q, *heads) for p in module.parameters()]
    optimiser = torch.optim.Adam(parameters, RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    loss = CoincidenceLoss(1.0, ALPHA)
    s, q = torch.from_numpy(s), torch.from_numpy(q)
    rng = np.random.default_rng(seed)
    start = time.perf_counter()
    for _ in range(steps):
        rows = torch.from_numpy(rng.choice(cut, batch, replace=False))
        optimiser.zero_grad()
        loss(heads[0](net_s(s[rows])[None]), heads[1](net_q(q[rows])[None])).backward()
        optimiser.step()
        schedule.step()
    seconds = time.perf_counter() - start
    with torch.inference_mode():
        for head in heads:
            head.eval()
        p = [
            head(torch.cat([net(block) for block in torch.split(x[cut:], 1024)])[None])
            .sigmoid()
            .flatten()
            .numpy()
            for head, net, x in zip(heads, (net_s, net_q), (s, q), strict=True)
        ]
    return seconds, _f_hat(*p)


def _fitted(name: str, s, q, starts: int, batch: int, epochs: int) -> CoAD:
    return CoAD(
        net=name,
        n_starts=starts,
        epochs=epochs,
        batch_size=batch,
        lr=RATE,
        validation=VALIDATION,
        scale=False,
        alpha=ALPHA,
        random_state=0,
    ).fit(s, q)


def _f_hat(p_s, p_q) -> float:
    return float(fbeta_hat(Moments.of(p_s, p_q), beta=1.0, alpha=ALPHA))


def _scoring() -> str:
    rng = np.random.default_rng(0)
    rows = []
    for name, n, s_shape, q_shape, nets in (
        ("mnist", 4096, (1, 25, 25), (1, 25, 25), (mnist_net(), mnist_net())),
        ("rf", 2048, (1, 50), (14, 1000), (rf_net(1, 5, 10, 1, 160), rf_net(14, 15, 20, 5, 540))),
    ):
        s, q = (rng.normal(size=(n, *shape)).astype(np.float32) for shape in (s_shape, q_shape))
        det = CoAD(net=name, n_starts=1, epochs=1, alpha=0.2, random_state=0).fit(s[:400], q[:400])

        tensors = torch.from_numpy(s), torch.from_numpy(q)

        def bare(size: int, tensors=tensors, nets=nets) -> None:
            with torch.inference_mode():
                for a, b in zip(*(x.split(size) for x in tensors), strict=True):
                    nets[0](a).sigmoid() * nets[1](b).sigmoid()

        alone = min(
            _timed(lambda size=size, bare=bare: bare(size)) for size in (256, 512, 1024) for _ in range(5)
        )
        whole = min(_timed(lambda det=det, s=s, q=q: det.score_samples(s, q)) for _ in range(5))
        rows.append((name, f"{n / alone:,.0f}", f"{n / whole:,.0f}", f"{alone / whole:.2f}"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one = np.median([_timed(lambda: det.score_samples(s[:1], q[:1])) for _ in range(300)])
    torch.set_num_threads(before)
    return table(("network", "bare forward, rows/s", "score_samples, rows/s", "ratio"), rows) + (
        f"\n\nThe bare forward pass is the fastest of batches of 256, 512 and 1,024 rows. One window of the RF-station network, one core: {1e3 * one:.2f} ms (median of 300)."
    )


def _timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
