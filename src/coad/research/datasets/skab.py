"""SKAB 0.9 (Skoltech Anomaly Benchmark): a water loop at 1 Hz, 34 labelled runs of about 20 minutes.

s are the sensors of the pump (two accelerometers, current, voltage), q those of the water (pressure,
temperature, thermocouple, flow). The operating regime is the run, since each run has its own set-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coad._typing import FloatArray
from coad.data.pairs import Pairs
from coad.exceptions import InputError
from coad.research.datasets._fetch import RemoteFile, fetch

__all__ = ["Q_CHANNELS", "RUNS", "S_CHANNELS", "SkabData", "load_skab"]

S_CHANNELS = ("Accelerometer1RMS", "Accelerometer2RMS", "Current", "Voltage")
Q_CHANNELS = ("Pressure", "Temperature", "Thermocouple", "Volume Flow RateRMS")
#: The labelled runs, by folder and number.
RUNS = (
    *(f"valve1/{i}" for i in range(16)),
    *(f"valve2/{i}" for i in range(4)),
    *(f"other/{i}" for i in range(1, 15)),
)
_HOME = "https://raw.githubusercontent.com/waico/SKAB/master/data/"


@dataclass(frozen=True)
class SkabData:
    """Pairs of windows; ``context`` and ``group`` are the run, ``time`` is the clock.

    ``seconds`` is the time from the start of the run to the end of each window; ``means_s`` and
    ``means_q`` are the means of the channels in each window, for figures.
    """

    pairs: Pairs
    seconds: FloatArray
    means_s: FloatArray
    means_q: FloatArray
    source: str


def load_skab(
    data: str | Path | None = None, *, window: int = 20, stride: int = 5, runs: tuple[str, ...] = RUNS
) -> SkabData:
    """Load windows of ``window`` samples: mean and log standard deviation of each channel.

    ``data`` is the folder with ``valve1/``, ``valve2/`` and ``other/``; otherwise COAD_DATA and the
    cache are searched. A window is labelled an anomaly if most of its samples are.
    """
    from coad.data.tables import read_columns
    from coad.data.windows import make_windows

    unknown = [run for run in runs if run not in RUNS]
    if unknown or not runs:
        raise InputError(
            f"unknown run {', '.join(unknown) or '(none given)'}; there are {RUNS[0]} to {RUNS[-1]}"
        )
    paths = fetch(
        [RemoteFile(f"{run}.csv", (f"{_HOME}{run}.csv",), "") for run in runs], "skab", data, download=False
    )
    names = (*S_CHANNELS, *Q_CHANNELS)
    parts: dict[str, list[np.ndarray]] = {
        key: [] for key in ("mean", "spread", "label", "time", "run", "seconds")
    }
    for run, path in zip(runs, paths, strict=True):
        columns = read_columns(path, ["datetime", *names, "anomaly"], categories=["datetime"])
        clock = columns["datetime"].astype("datetime64[ns]")
        windows = make_windows(len(clock), window, stride)
        values = windows.take(np.column_stack([columns[name] for name in names]))
        parts["mean"].append(values.mean(axis=2))
        parts["spread"].append(values.std(axis=2))
        parts["label"].append(windows.take(columns["anomaly"]).mean(axis=1) > 0.5)
        parts["time"].append(windows.at_last(clock))
        parts["run"].append(np.full(len(windows), run))
        parts["seconds"].append((windows.at_last(clock) - clock[0]) / np.timedelta64(1, "s"))
    whole = {key: np.concatenate(items) for key, items in parts.items()}
    # A quantised channel may be constant in a window; the floor keeps the logarithm finite.
    floor = 1e-3 * np.maximum(whole["spread"].mean(axis=0), 1e-12)
    features = np.stack([whole["mean"], np.log(np.maximum(whole["spread"], floor))], axis=2)
    s_count = len(S_CHANNELS)
    s, q = (part.reshape(len(part), -1) for part in (features[:, :s_count], features[:, s_count:]))
    s_names, q_names = (
        tuple(f"{name} {kind}" for name in part for kind in ("mean", "log deviation"))
        for part in (S_CHANNELS, Q_CHANNELS)
    )
    return SkabData(
        pairs=Pairs(
            s,
            q,
            context=whole["run"],
            time=whole["time"],
            group=whole["run"],
            label=whole["label"],
            s_names=s_names,
            q_names=q_names,
        ),
        seconds=whole["seconds"],
        means_s=whole["mean"][:, :s_count],
        means_q=whole["mean"][:, s_count:],
        source=f"SKAB 0.9: {len(whole['run']):,} windows of {window} s from {len(runs)} runs",
    )
