"""UCI hydraulic systems: 2,205 load cycles of a test rig, 14 real sensors at 1 Hz.

s are the pressures and the motor power, q temperatures, vibration and flows. The regime is the
state of cooler, valve and accumulator, which the experimenters set; the fault to find is the
leakage of the pump. ``CE``, ``CP`` and ``SE`` are computed from the other sensors and left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from coad._typing import BoolArray, FloatArray, IntArray
from coad.data.pairs import Pairs
from coad.exceptions import InputError
from coad.research.datasets._fetch import RemoteFile, fetch

__all__ = ["Q_SENSORS", "S_SENSORS", "HydraulicData", "load_hydraulic"]

S_SENSORS = ("PS1", "PS2", "PS3", "PS4", "PS5", "PS6", "EPS1")
Q_SENSORS = ("TS1", "TS2", "TS3", "TS4", "VS1", "FS1", "FS2")
PROFILE = ("cooler", "valve", "pump leakage", "accumulator", "unstable")
_FILE = "hydraulic_1hz_17sensors.npz"
_HOME = "https://github.com/Machine-Learning-FGA/Hydraulic-systems/"
_SEGMENTS = 6

Fault = Literal["severe", "any"]


@dataclass(frozen=True)
class HydraulicData:
    """Pairs of cycles in the order in which they ran; ``leakage`` is 0, 1 (weak) or 2 (severe).

    ``unstable`` marks cycles in which static conditions might not have been reached yet.
    ``temperature`` is the mean of TS1 in each cycle, for figures.
    """

    pairs: Pairs
    leakage: IntArray
    unstable: BoolArray
    temperature: FloatArray
    source: str


def load_hydraulic(data: str | Path | None = None, *, fault: Fault = "severe") -> HydraulicData:
    """Load features of each cycle: the mean of every sensor in six segments, and its log standard deviation.

    ``fault="severe"`` labels severe pump leakage (22 % of the cycles), ``"any"`` weak leakage
    too (45 %). ``data`` is the folder or the file; otherwise COAD_DATA and the cache are searched.
    """
    from coad.data.tables import read_columns

    if fault not in ("severe", "any"):
        raise InputError(f"fault must be 'severe' or 'any', not {fault!r}")
    if data is not None and Path(data).is_file():
        path = Path(data)
    else:
        path = fetch([RemoteFile(_FILE, (_HOME + _FILE,), "")], "hydraulic", data, download=False)[0]
    columns = read_columns(path, [*S_SENSORS, *Q_SENSORS, "profile"])
    profile = columns["profile"].astype(np.int64)
    state = {name: profile[:, i] for i, name in enumerate(PROFILE)}
    regime = np.array(
        [
            f"cooler {a}, valve {b}, accumulator {c}"
            for a, b, c in zip(state["cooler"], state["valve"], state["accumulator"], strict=True)
        ]
    )
    s, q = (np.column_stack([_features(columns[name]) for name in names]) for names in (S_SENSORS, Q_SENSORS))
    kinds = (*(f"mean {i + 1}/{_SEGMENTS}" for i in range(_SEGMENTS)), "log deviation")
    s_names, q_names = (
        tuple(f"{name} {kind}" for name in names for kind in kinds) for names in (S_SENSORS, Q_SENSORS)
    )
    n = len(profile)
    return HydraulicData(
        pairs=Pairs(
            s,
            q,
            context=regime,
            time=np.arange(n, dtype=np.float64) * 60.0,
            # Consecutive cycles with the same setting of all four components stay on one side of a split.
            group=np.cumsum(np.append(0, (np.diff(profile[:, :4], axis=0) != 0).any(axis=1))),
            label=state["pump leakage"] >= (2 if fault == "severe" else 1),
            s_names=s_names,
            q_names=q_names,
        ),
        leakage=state["pump leakage"],
        unstable=state["unstable"] == 1,
        temperature=columns["TS1"].mean(axis=1),
        source=f"UCI hydraulic systems: {n:,} load cycles, 14 sensors at 1 Hz",
    )


def _features(cycle: FloatArray) -> FloatArray:
    parts = np.array_split(cycle, _SEGMENTS, axis=1)
    spread = np.log(np.maximum(cycle.std(axis=1), 1e-6))
    return np.column_stack([*(part.mean(axis=1) for part in parts), spread])
