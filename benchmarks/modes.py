"""Coincident modes: rare kinds found, stability, noise, and time against the binary training."""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np

from benchmarks._results import record, table
from benchmarks.modes_sets import measured
from coad._typing import BoolArray, FloatArray, IntArray
from coad.exceptions import CoadWarning, FileError


def run() -> None:
    record("modes", "Coincident modes: one kind made rare at a time", _rare())
    record("modes-plants", "Coincident modes: simulated plants", _plants())
    try:
        for state in (0, 1):
            record(
                f"modes-mnist-{state}",
                "Coincident modes: the paper's MNIST pairs",
                _mnist(random_state=state),
            )
    except FileError as error:
        print(f"left out: {error}", flush=True)
    record("modes-noise", "Coincident modes: independent noise", _noise())
    record("modes-time", "Coincident modes: time against the binary training", _time())


def _rare() -> str:
    from coad.research.experiments.modes import run_modes

    rows = run_modes(["digits"], compare=False, progress=print)
    try:
        rows += run_modes(["hydraulic", "skab"], compare=False, progress=print)
    except FileError as error:
        print(f"left out: {error}", flush=True)
    digits = [row.majority for row in rows if row.dataset.startswith("digit")]
    body = table(
        ("data", "F1, majority modes", "F1, called rare", "modes", "rare", "seconds (processor)"),
        [
            (
                row.dataset,
                f"{row.majority:.2f}",
                f"{row.modes:.2f}",
                row.n_modes,
                row.n_rare,
                f"{row.seconds_modes:.0f}",
            )
            for row in rows
        ],
    )
    return f"{body}\n\nDigits: mean F1 of the modes in which most rows are the digit {np.mean(digits):.2f}, lowest {min(digits):.2f}."


#: What differs from the plain plant: two regimes of three and two states, one load, a fault of two widths.
PLANTS: dict[str, dict[str, object]] = {
    "no load": {"loads": 0, "own": 1},
    "one load": {},
    "two loads": {"loads": 2, "own": 4},
    "twelve regimes": {"regimes": (4, 3)},
    "faint fault": {"fault": 1.2},
    "saturating sensors": {"saturated": True},
    "no regimes": {"regimes": (), "loads": 2},
    "a crowd": {"regimes": (), "loads": 0},
    "48 regimes": {"regimes": (3, 4, 4), "rate": 0.05},
    "48 regimes, two loads": {"regimes": (3, 4, 4), "loads": 2, "rate": 0.05},
    "48 regimes, faint": {"regimes": (3, 4, 4), "fault": 1.2, "rate": 0.05},
}


def plant(
    seed: int,
    rows: int = 2000,
    rate: float = 0.03,
    regimes: tuple[int, ...] = (3, 2),
    loads: int = 1,
    own: int = 3,
    fault: float = 2.0,
    saturated: bool = False,
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Simulated sensors: each a mixture of regimes, loads, the fault and factors of its input, in its own unit."""
    rng = np.random.default_rng([77, seed])
    states = [np.eye(k)[rng.integers(k, size=rows)] for k in regimes]
    load, faulty = rng.normal(size=(rows, loads)), rng.random(rows) < rate
    both = np.concatenate([*states, load, fault * faulty[:, None]], axis=1)
    inputs = []
    for width in (24, 16):
        all_of_it = np.concatenate([both, rng.normal(size=(rows, own))], axis=1)
        shape = (all_of_it.shape[1], width)
        x = all_of_it @ (rng.normal(size=shape) * (rng.random(shape) < 0.5)) + 0.3 * rng.normal(
            size=(rows, width)
        )
        x = 2.0 * np.tanh(x / 2.0) if saturated else x
        inputs.append(x * np.exp(2.0 * rng.normal(size=width)) + 10.0 * rng.normal(size=width))
    return inputs[0], inputs[1], faulty


def _plants(seeds: tuple[int, ...] = (11, 12, 13)) -> str:
    """Every kind of plant, at random states at which nothing was chosen."""
    plants = {name: partial(plant, **settings) for name, settings in PLANTS.items()}  # type: ignore[arg-type]
    return (
        f"{measured(plants, seeds)}\n\n2,000 rows, 24 and 16 sensors, a fault in 3 % of the rows (48 regimes: 5 %); {len(seeds)} random states. The loads "
        "are continuous and seen by both inputs; the other factors are seen by one."
    )


def _mnist(pairs: int = 40_000, fresh: int = 20_000, random_state: int = 0) -> str:
    """Kinds among the paper's pairs, judged on pairs of images that the fit has not seen."""
    from coad import CoincidenceModes
    from coad.research.datasets.mnist import load_mnist, mnist_pairs

    drawn = []
    for split, count in (("train", pairs), ("test", fresh)):
        images, labels = load_mnist(split)  # type: ignore[arg-type]
        used = labels < 4
        rng = np.random.default_rng([random_state, count])
        drawn.append(mnist_pairs(images[used], labels[used], count, rng))
    start = time.perf_counter()
    det = CoincidenceModes(random_state=random_state).fit(drawn[0].s, drawn[0].q)
    took = time.perf_counter() - start
    print(det.modes_, flush=True)
    role = {mode.mode: mode.role for mode in det.modes_}
    found = []
    for part in drawn:
        label = det.predict_mode(part.s, part.q)
        found.append((label, np.where(part.digit_s == part.digit_q, part.digit_s, -1)))
    shown = {k: _commonest(found[0][1][found[0][0] == k]) for k in role}
    rows = []
    for digit in range(4):
        own = [k for k in role if shown[k] == digit]
        inside = [np.isin(label, own) for label, _ in found]
        pure = [
            (both[x] == digit).mean() if x.any() else 0.0 for x, (_, both) in zip(inside, found, strict=True)
        ]
        got = inside[1][found[1][1] == digit].mean()
        kinds = ", ".join(f"{k} ({role[k]})" for k in own) or "none"
        rows.append((digit, kinds, *(f"{x:.1%}" for x in (*pure, got))))
        print(rows[-1], flush=True)
    head = ("digit", "modes", "purity, pairs of the fit", "purity, new images", "found, new images")
    return (
        f"{table(head, rows)}\n\n{pairs:,} pairs for the fit ({took:.0f} s), {fresh:,} of the test images to judge; "
        f"default settings, random_state {random_state}. A mode belongs to the digit that both images of most of its "
        "pairs show; purity is the part of its rows whose images both show it."
    )


def _commonest(digits: IntArray) -> int:
    """The digit that most pairs show twice, or 0."""
    return int(np.bincount(digits[digits >= 0], minlength=4).argmax())


def _noise(draws: int = 200) -> str:
    from coad import CoincidenceModes

    sizes = (500, 2000, 10_000, 50_000)
    share = {500: 0.4, 2000: 0.4, 10_000: 0.15, 50_000: 0.05}
    rows = []
    for n in sizes:
        count = round(draws * share[n])
        empty = 0
        for seed in range(count):
            s, q = np.random.default_rng([n, seed]).normal(size=(2, n, 4))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                empty += not CoincidenceModes(random_state=seed).fit(s, q).modes_
        rows.append((f"{n:,}", count, f"{empty / count:.1%}"))
        print(rows[-1], flush=True)
    return table(("rows", "draws", "empty catalogue"), rows)


def _time() -> str:
    from coad import CoAD, CoincidenceModes
    from coad.research.experiments.modes import rare_digit

    rows = []
    noise = np.random.default_rng(0)
    kind = noise.choice(4, size=20_000, p=[0.6, 0.3, 0.09, 0.01])
    large = [4 * noise.normal(size=(4, 10))[kind] + noise.normal(size=(20_000, 10)) for _ in range(2)]
    pairs = rare_digit(8)
    for name, s, q in (("digits", pairs.s, pairs.q), ("simulated, 20,000 rows", *large)):
        took = []
        for model in (CoAD(random_state=0), CoincidenceModes(random_state=0, n_starts=4)):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoadWarning)
                model.fit(s, q)
            took.append(time.perf_counter() - start)
        rows.append((name, f"{took[0]:.1f} s", f"{took[1]:.1f} s", f"{took[1] / took[0]:.2f}"))
    return table(("data", "binary, 4 seeds", "modes, 4 seeds", "ratio"), rows)
